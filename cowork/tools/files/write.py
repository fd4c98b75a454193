"""Write: a new file, or the whole of one this agent has read. Its mode, encoding, mark and newlines stay."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from cowork.core.blocks import Json
from cowork.core.errors import ToolError
from cowork.core.later import later
from cowork.core.ports import ToolRecord, ok
from cowork.tools.base import ToolContext, tool, touches
from cowork.tools.call_lines import path_line
from cowork.tools.files.access import MAX_TEXT, FileSnapshot, label
from cowork.tools.files.encoding import Content, decode

with later(__name__):
    from cowork.tools.files import atomic_write, diff


def preview(ctx: ToolContext, args: Mapping[str, Any]) -> Json:
    """The diff a Write with these arguments would make, as a display; ToolError when it would fail."""
    return _planned(ctx, ctx.resolve(args["file_path"]), args["content"])[2]


@tool("Write", family="write", effects=touches("write", "file_path"), line=path_line, preview=preview)
async def write(
    ctx: ToolContext,
    file_path: Annotated[str, "File to make or replace"],
    content: Annotated[str, "All of its content"],
) -> ToolRecord:
    path = ctx.resolve(file_path)
    old, data, display, note = _planned(ctx, path, content)
    shown = label(ctx.workspace, path)
    changed = {name: display[name] for name in ("diff", "added", "removed")}
    if old and old.data == data:
        return ok(f"{shown} already has exactly this content; nothing was written.", path=shown, **changed)
    atomic_write.replace(ctx, path, old, data)
    lines = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    size = "1 line" if lines == 1 else f"{lines} lines"
    said = f"Replaced {shown}: {display['summary']}, now {size}." if old else f"Created {shown}: {size}."
    return ok(
        f"{said}{note}{atomic_write.links_note(old)}",
        display=display,
        path=shown,
        created=old is None,
        lines=lines,
        bytes=len(data),
        **changed,
    )


def _planned(ctx: ToolContext, path: Path, content: str) -> tuple[FileSnapshot | None, bytes, Json, str]:
    """The file as it is, the bytes to write, the diff as a display and a note for the model; nothing is written."""
    try:
        old = atomic_write.current(ctx, path)
    except FileNotFoundError:
        old = None
    before = decode(old.data) if old else Content("")
    if before is None:
        raise ToolError(
            "BINARY_FILE",
            f"{label(ctx.workspace, path)} is no text file and was left alone. To replace it, remove it with Bash.",
        )
    after = _in_style(before, content) if old else Content(content)
    try:
        data, note = after.encode(), ""
    except UnicodeEncodeError:
        after = Content(after.text)
        data, note = after.encode(), f" It was {before.encoding} and is now UTF-8, as the new content does not fit."
    if len(data) > MAX_TEXT:
        raise ToolError("INVALID_PARAM", f"`content` is larger than {MAX_TEXT // 1_000_000} MB. Write less at a time.")
    shown = label(ctx.workspace, path)
    return old, data, diff.as_display(shown, before.text, after.text, created=old is None), note


def _in_style(before: Content, content: str) -> Content:
    """The content with the newlines, mark, encoding and final newline of the file it replaces."""
    text = content.removeprefix("\ufeff") if before.bom else content
    if before.newline == "\r\n":
        text = text.replace("\r\n", "\n").replace("\n", "\r\n")
    if text and before.text.endswith("\n") and not text.endswith("\n"):
        text += "\r\n" if before.newline == "\r\n" else "\n"
    return before.with_text(text)
