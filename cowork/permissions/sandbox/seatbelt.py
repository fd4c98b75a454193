"""The seatbelt profile for macOS, as text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cowork.core.workspace import Workspace

_GUARDED = r'#"/(\.git/(config|hooks|info)|\.gitmodules|\.gitattributes|\.cowork|\.claude|\.mcp\.json'
_GUARDED += r'|\.vscode|\.idea|\.devcontainer|\.husky|\.envrc)(/|$)"'


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
