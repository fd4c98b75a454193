"""Central clipping: what a model reads of a result is bounded, and the whole of it is in a file."""

from __future__ import annotations

import re
from pathlib import Path

from cowork.private_files import replace_private

MAX_LINES = 2_000  # Bash (tools/shell/output.py) and Read (tools/files/read.py) keep below it by themselves
MAX_BYTES = 50_000


def clip(text: str, *, keep_in: Path) -> tuple[str, bool]:
    """The text within bounds, head and tail kept; the whole goes to `keep_in`. Says whether it was cut."""
    lines = text.count("\n") + 1
    size = len(text.encode("utf-8", "replace"))
    if lines <= MAX_LINES and size <= MAX_BYTES:
        return text, False
    # The first two thirds and the last third of the room, by lines and then by bytes.
    head = tail = text
    if lines > MAX_LINES:
        each = text.split("\n")
        head, tail = "\n".join(each[: MAX_LINES * 2 // 3]), "\n".join(each[-(MAX_LINES // 3) :])
    head = cut(head, MAX_BYTES * 2 // 3)
    tail = tail.encode("utf-8", "replace")[-(MAX_BYTES // 3) :].decode("utf-8", "ignore")
    where = save(text, keep_in)
    said = f"the whole ({lines} lines, {size} bytes) is in {where}, which you may Read" if where else "the rest is lost"
    return f"{head}\n\n[… {lines} lines in all, middle left out: {said} …]\n\n{tail}", True


def save(text: str, path: Path) -> Path | None:
    """Write a private file; None when the disk will not have it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_private(path, text.encode("utf-8", "replace"))
    except OSError:
        return None
    return path


def file_name(tool_use_id: str, agent: str = "main") -> str:
    """A call id as a safe file name; servers that count their calls give two children the same ids."""
    whose = agent.removeprefix("main").removeprefix("/")
    return re.sub(r"[^A-Za-z0-9_-]", "_", f"{whose}-{tool_use_id}" if whose else tool_use_id)[:120] + ".txt"


def cut(text: str, max_bytes: int) -> str:
    """At most `max_bytes` of UTF-8, cut on a character boundary."""
    return text.encode("utf-8", "replace")[:max_bytes].decode("utf-8", "ignore")
