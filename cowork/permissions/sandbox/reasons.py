"""Why a command failed in the sandbox, in a line for the model: programs only say what the system told them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from cowork.core.workspace import protected

_MOST = 16 * 1024  # characters of output that are looked at
_MOST_WORDS, _MOST_PARTS = 200, 8
_SHOWN = 6
_KEPT = re.compile(r"Read-only file system|Device or resource busy|\b(?:EROFS|EBUSY)\b|error writing to the directory")
_PATH = re.compile(r"(?<![\w.~@%+/-])[\w.~@%+/-]{1,300}(?![\w.~@%+/-])")
_SOCKETS = re.compile(
    r"connect to the Docker daemon|docker\.sock|podman\.sock|connect to bus|authentication agent"
    r"|(?:open|connect to) display"
)
_OFFLINE = {
    'The sandbox has no network. Call Bash again with needs: "network" and why; the user is then asked.': re.compile(
        r"resolve host|in name resolution|Name or service not known|EAI_AGAIN|ENOTFOUND|Network is unreachable"
        r"|ENETUNREACH|no such host|dns error"
    ),
    "In the sandbox each command has a loopback of its own: start the server in the same command as its client.": (
        re.compile(
            r"(?i)(?:localhost|127\.0\.0\.1|::1)\b.{0,200}refused|refused.{0,200}(?:localhost|127\.0\.0\.1|::1)\b"
        )
    ),
}
_NO_SOCKETS = (
    "The sandbox hides the sockets of containers, agents, the session bus and the screen."
    ' Call Bash again with needs: "outside" and why; the user is then asked.'
)
_OUTSIDE = (
    "In the sandbox only the workspace and /tmp can be written. Have caches there, such as XDG_CACHE_HOME=/tmp/cache,"
    ' or call Bash again with needs: "outside" and why; the user is then asked.'
)


def reasons(
    output: str, cwd: Path, roots: Sequence[Path], home: Path, masked: Sequence[str], *, network: bool, reads: bool
) -> list[str]:
    """What of a command's output its box is the reason for."""
    output, told, kept, outside = output[-_MOST:], list[str](), dict[str, None](), False
    lines = (line for line in output.splitlines() if _KEPT.search(line))
    for word in islice((word for line in lines for word in _PATH.findall(line)), _MOST_WORDS):
        path = Path(os.path.normpath(home / word[2:] if word.startswith("~/") else cwd / word))
        root = next((root for root in roots if path.is_relative_to(root)), None)
        outside = outside or (root is None and "/" in word)
        parts = path.relative_to(root).parts[:_MOST_PARTS] if root else ()
        whole = (at for at in range(1, len(parts) + 1) if protected(Path(*parts[:at])))
        if at := next(whole, 0):  # as much of it as says what is protected
            kept[str(Path(*parts[: at + (parts[at - 1] == ".git")]))] = None
    if reads and _KEPT.search(output):
        told.append("It ran read-only.")
    elif kept:
        text = f"The sandbox keeps {listed(list(kept))} as it is: other programs run or obey it."
        hint = " git -c name=value needs no file." if ".git/config" in kept else ""
        told.append(f"{text} Edit and Write can change it, after a question.{hint}")
    told += [_OUTSIDE] if outside and not reads else []
    told += [text for text, sign in _OFFLINE.items() if not network and sign.search(output)]
    told += [_NO_SOCKETS] if _SOCKETS.search(output) else []
    if masked:
        text = f"{listed(masked)} is empty to commands: it looks like a secret, or a rule denies it."
        told.append(f"{text} The Read tool asks; a rule such as Read({masked[0]}) shows it.")
    return told


def listed(names: Sequence[str]) -> str:
    """Some names, and how many more there are."""
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
