"""What carries the boxes: bubblewrap, tried once, with the options every box has; on macOS a seatbelt profile."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from cowork.core import spawn
from cowork.core.workspace import Workspace

_APART = ("--unshare-all", "--die-with-parent", "--cap-drop", "ALL")
BARE = (*_APART, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
# A second box in the first one: all of that as it is, but for what is mounted on top.
INNER = ("--die-with-parent", "--cap-drop", "ALL", "--dev-bind", "/", "/")
_FOR_ROOT = ("--cap-add", "CAP_SETFCAP")  # without it root can make no namespace in which it is root
# Who can make a user namespace has every capability in it.
NO_NAMESPACES = ("--unshare-user", "--disable-userns")
_GUARDED = r'#"/(\.git/(config|hooks|info)|\.gitmodules|\.gitattributes|\.cowork|\.claude|\.mcp\.json'
_GUARDED += r'|\.vscode|\.idea|\.devcontainer|\.husky|\.envrc)(/|$)"'
_PROBE_SECONDS = 20.0  # a busy machine is no reason to go without


@lru_cache(maxsize=8)
def probe(bwrap: str) -> tuple[str, tuple[str, ...]]:
    """Why bubblewrap does not work here, and what it can do that old versions and some containers do not have."""
    for extra in (NO_NAMESPACES, ()):
        said = _tried([bwrap, *BARE, *settings(), *extra, "true"])
        if not said:
            return "", extra
    return f"bubblewrap does not work here: {said}", ()


@lru_cache(maxsize=8)
def nests(bwrap: str) -> bool:
    """Whether a box can be made in a box, and none in that."""
    inner = [bwrap, *INNER, *settings(), *NO_NAMESPACES, "true"]
    return bool(probe(bwrap)[1]) and not _tried([bwrap, *BARE, *outer(), "--", *inner])


def settings() -> tuple[str, ...]:
    """/proc/sys is writable for root inside as outside, whatever capabilities it has lost."""
    return ("--ro-bind-try", "/proc/sys", "/proc/sys") if os.geteuid() == 0 else ()


def outer() -> tuple[str, ...]:
    return ("--unshare-user", *(_FOR_ROOT if os.geteuid() == 0 else ()))


def _tried(words: list[str]) -> str:
    """What went wrong."""
    try:
        done = spawn.run(words, environ={"PATH": os.defpath}, seconds=_PROBE_SECONDS)
    except OSError as error:
        return str(error)
    if done.returncode == 0:
        return ""
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return said[0] if said else f"exit {done.returncode}"


def seatbelt(
    argv: Sequence[str], workspace: Workspace, writable: Sequence[Path], secrets: Sequence[Path], *, network: bool
) -> list[str]:
    """The words that run `argv` in a box of macOS."""
    return ["/usr/bin/sandbox-exec", "-p", profile(workspace, writable, secrets, network=network), *argv]


def profile(workspace: Workspace, writable: Sequence[Path], secrets: Sequence[Path], *, network: bool) -> str:
    """Reading is free but for secrets, writing only in the workspace and temporary folders, no network by default."""
    lines = ["(version 1)", "(allow default)", "(deny file-write*)"]
    places = [*writable, Path("/private/tmp"), Path("/private/var/folders")]
    lines.append("(allow file-write*")
    lines += [f"  (subpath {_quoted(place)})" for place in places]
    lines += ['  (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty") (regex #"^/dev/fd/"))']
    for root in workspace.writable:
        lines.append(f"(deny file-write* (require-all (subpath {_quoted(root)}) (regex {_GUARDED})))")
    lines += [f"(deny file-read* file-write* (subpath {_quoted(place)}))" for place in secrets]
    if not network:
        lines += ["(deny network*)", "(allow network* (remote unix-socket))"]
    return "\n".join(lines) + "\n"


def _quoted(path: Path) -> str:
    text = str(path).replace("\\", "\\\\").replace('"', '\\"')
    if any(ord(char) < 0x20 for char in text):
        raise ValueError("a folder whose name holds control characters cannot be named in a profile")
    return f'"{text}"'
