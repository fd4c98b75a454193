"""Write, Edit and MultiEdit: all of a file, or exact replacements in one this agent has read, all or nothing.

Its mode, encoding, mark and newlines stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypedDict

from cowork.core.blocks import Json
from cowork.core.errors import ToolError
from cowork.core.later import later
from cowork.core.ports import ToolRecord, ok
from cowork.tools.base import ToolContext, path_line, tool, touches
from cowork.tools.files.access import MAX_TEXT, Content, FileSnapshot, decode, label, missing, printable

with later(__name__):
    from cowork.tools.files import atomic_write, diff, match


def preview_write(ctx: ToolContext, args: Mapping[str, Any]) -> Json:
    """The diff a Write with these arguments would make, as a display; ToolError when it would fail."""
    return _plan_write(ctx, ctx.resolve(args["file_path"]), args["content"])[2]


@tool("Write", family="write", effects=touches("write", "file_path"), line=path_line, preview=preview_write)
async def write(
    ctx: ToolContext,
    file_path: Annotated[str, "File to make or replace"],
    content: Annotated[str, "All of its content"],
) -> ToolRecord:
    path = ctx.resolve(file_path)
    old, data, display, note = _plan_write(ctx, path, content)
    shown = label(ctx.workspace, path)
    changed = {name: display[name] for name in ("diff", "added", "removed")}
    if old and old.data == data:
        return ok(f"{shown} already has exactly this content; nothing was written.", path=shown, **changed)
    atomic_write.replace(ctx, path, old, data)
    lines = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    size = "1 line" if lines == 1 else f"{lines} lines"
    said = f"Replaced {shown}: {display['summary']}, now {size}." if old else f"Created {shown}: {size}."
    text = f"{said}{note}{atomic_write.links_note(old)}"
    return ok(text, display=display, path=shown, created=old is None, lines=lines, bytes=len(data), **changed)


class _Strings(TypedDict):
    old_string: Annotated[str, "Exact text to replace"]
    new_string: Annotated[str, "Text to put there"]


class Replacement(_Strings, total=False):
    """One replacement of a MultiEdit."""

    replace_all: Annotated[bool, "Replace every occurrence"]


def preview_edits(ctx: ToolContext, args: Mapping[str, Any]) -> Json:
    """The diff an Edit or MultiEdit with these arguments would make, as a display; ToolError when it would fail."""
    path = ctx.resolve(args["file_path"])
    _, content, after, _ = _plan_edits(ctx, path, args.get("edits") or [args])
    return diff.as_display(label(ctx.workspace, path), content.text, after.text)


@tool("Edit", family="write", effects=touches("write", "file_path"), line=path_line, preview=preview_edits)
async def edit(
    ctx: ToolContext,
    file_path: Annotated[str, "File to change"],
    old_string: Annotated[str, "Exact text to replace, unique in the file"],
    new_string: Annotated[str, "Text to put there"],
    replace_all: Annotated[bool, "Replace every occurrence"] = False,
) -> ToolRecord:
    return _apply(ctx, file_path, [{"old_string": old_string, "new_string": new_string, "replace_all": replace_all}])


@tool("MultiEdit", family="write", effects=touches("write", "file_path"), line=path_line, preview=preview_edits)
async def multi_edit(
    ctx: ToolContext,
    file_path: Annotated[str, "File to change"],
    edits: Annotated[list[Replacement], "Applied in order, each to the result of the one before"],
) -> ToolRecord:
    if not edits:
        raise ToolError("INVALID_PARAM", "`edits` is empty. Give at least one replacement.")
    return _apply(ctx, file_path, edits)


def _plan_write(ctx: ToolContext, path: Path, content: str) -> tuple[FileSnapshot | None, bytes, Json, str]:
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
    end = "\r\n" if before.text.count("\n") == before.text.count("\r\n") > 0 else "\n"
    if end == "\r\n":
        text = text.replace("\r\n", "\n").replace("\n", "\r\n")
    if text and before.text.endswith("\n") and not text.endswith("\n"):
        text += end
    return replace(before, text=text)


def _apply(ctx: ToolContext, file_path: str, edits: Sequence[Mapping[str, Any]]) -> ToolRecord:
    path = ctx.resolve(file_path)
    old, content, after, touched = _plan_edits(ctx, path, edits)
    shown, count = label(ctx.workspace, path), sum(found.count for found in touched)
    try:
        data = after.encode()
    except UnicodeEncodeError as error:
        char = after.text[error.start]
        raise ToolError(
            "INVALID_PARAM",
            f"{shown} is in {after.encoding}, which has no {char!r} (U+{ord(char):04X}). Use other characters, or "
            "Write the whole file to turn it into UTF-8.",
        ) from error
    atomic_write.replace(ctx, path, old, data)
    display = diff.as_display(shown, content.text, after.text)
    changed = {name: display[name] for name in ("diff", "added", "removed")}
    slips = "".join(f" Note: {slip}." for slip in dict.fromkeys(found.slip for found in touched) if slip)
    where = f"line {touched[0].lines[0]}" if count == 1 else f"{count} replacements"
    text = f"Edited {shown} ({where}): {display['summary']}.{slips}{atomic_write.links_note(old)}"
    return ok(text, display=display, path=shown, **changed, replacements=count)


def _plan_edits(
    ctx: ToolContext, path: Path, edits: Sequence[Mapping[str, Any]]
) -> tuple[FileSnapshot, Content, Content, list[match.Occurrences]]:
    """The file as it is, its content, the content after the edits and what they touch; nothing is written."""
    shown = label(ctx.workspace, path)
    try:
        old = atomic_write.current(ctx, path)
    except FileNotFoundError as error:
        if str(path) not in ctx.state.seen:
            raise missing(ctx, path) from error
        raise ToolError("NOT_FOUND", f"{shown} was there when you read it and is gone. Look with LS.") from error
    content = decode(old.data)
    if content is None:
        raise ToolError("BINARY_FILE", f"{shown} is not a text file, so it cannot be edited here.")
    after, touched = content, []
    for number, change in enumerate(edits, 1):
        try:
            text, found = _edit_once(shown, after.text, change)
        except ToolError as error:
            which = f"Edit {number} of {len(edits)}: " if len(edits) > 1 else ""
            raise ToolError(error.code, f"{which}{error.text}", **error.data) from error
        after = replace(after, text=text)
        touched.append(found)
    if after.text == content.text:
        raise ToolError(
            "INVALID_PARAM", "The edits undo each other: the file would stay as it is. Nothing was written."
        )
    return old, content, after, touched


def _edit_once(shown: str, text: str, change: Mapping[str, Any]) -> tuple[str, match.Occurrences]:
    """The text after one replacement and what it touched; refused unless it is clear what is meant."""
    wanted, new, slip = match.plain(change["old_string"]), match.plain(change["new_string"]), ""
    if not wanted:
        said = "`old_string` is empty. Give the text to replace; to make or replace a whole file use Write."
        raise ToolError("INVALID_PARAM", said)
    if wanted == new:
        raise ToolError(
            "INVALID_PARAM",
            "`old_string` and `new_string` are the same, so there is nothing to change. Give the new text "
            "(line endings are kept as the file has them).",
        )
    found = match.find(text, wanted)
    if not found.count:
        guess = match.meant(match.plain(text), wanted, new)
        if guess is None:
            raise _no_match(shown, printable(match.plain(text)), wanted)
        wanted, new, slip = guess.old, guess.new, guess.slip
        found = match.find(text, wanted)
    if found.count > 1 and not change.get("replace_all"):
        listed = ", ".join(map(str, found.lines)) + (", …" if found.count > len(found.lines) else "")
        raise ToolError(
            "INVALID_PARAM",
            f"old_string occurs {found.count} times in {shown}: lines {listed}. Nothing was changed. Add lines around "
            "it to make it unique, or set replace_all.",
            matches=found.count,
            lines=found.lines,
        )
    if len(text) + found.count * (len(new) - len(wanted)) > MAX_TEXT:
        raise ToolError("INVALID_PARAM", f"the file would grow past {MAX_TEXT // 1_000_000} MB. Use Bash for that.")
    after, touched = match.replace(text, wanted, new)
    return after, replace(touched, slip=slip)


def _no_match(shown: str, text: str, wanted: str) -> ToolError:
    hint, line = match.nearest_lines(text, wanted)
    slip = "" if "; only " in hint else match.slips(text, wanted)
    notebook = "A notebook is JSON on disk: old_string must match that. " if shown.endswith(".ipynb") else ""
    advice = hint or "No line is like it. Read the file again and copy the text exactly."
    said = f"old_string is not in {shown}; nothing was changed. {notebook}{slip}"
    return ToolError("NOT_FOUND", f"{said.rstrip()}\n{advice}", nearest_line=line or None)
