"""Write, Edit and MultiEdit: all of a file, or exact replacements in one this agent has read, all or nothing.

Its mode, encoding, mark and newlines stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict

from cowork.core.blocks import Json
from cowork.core.errors import ToolError
from cowork.core.frozen import frozen
from cowork.core.later import later
from cowork.core.ports import ToolRecord, ok
from cowork.tools.base import ToolContext, path_line, tool, touches
from cowork.tools.files.access import MAX_TEXT, Content, FileSnapshot, decode, label, missing, printable

with later(__name__):
    from cowork.tools.files import atomic_write, diff, match


@frozen
class _Plan:
    """A change of a file that nothing stands against: its new bytes, the diff as a display, and the model's record."""

    path: Path
    old: FileSnapshot | None  # None: there is no such file
    data: bytes
    display: Json
    text: str
    facts: Json

    @property
    def changes(self) -> Json:
        return {name: self.display[name] for name in ("path", "diff", "added", "removed")}

    def carry_out(self, ctx: ToolContext) -> ToolRecord:
        """Write the file."""
        atomic_write.replace(ctx, self.path, self.old, self.data)
        links = " Its other hard links keep the old content." if self.old and self.old.stat.st_nlink > 1 else ""
        return ok(f"{self.text}{links}", display=self.display, **self.changes, **self.facts)


def _preview(ctx: ToolContext, args: Mapping[str, Any]) -> Json:
    """The diff a call with these arguments would make, as a display; ToolError when it would fail."""
    if "content" in args:
        return _plan_write(ctx, args["file_path"], args["content"]).display
    return _plan_edits(ctx, args["file_path"], args.get("edits", [args])).display


@tool("Write", family="write", effects=touches("write", "file_path"), line=path_line, preview=_preview)
async def write(
    ctx: ToolContext,
    file_path: Annotated[str, "File to make or replace"],
    content: Annotated[str, "All of its content"],
) -> ToolRecord:
    plan = _plan_write(ctx, file_path, content)
    if plan.old and plan.old.data == plan.data:
        said = f"{plan.display['path']} already has exactly this content; nothing was written."
        return ok(said, **plan.changes)
    return plan.carry_out(ctx)


class Replacement(TypedDict):
    """One replacement of a MultiEdit."""

    old_string: Annotated[str, "Exact text to replace"]
    new_string: Annotated[str, "Text to put there"]
    replace_all: NotRequired[Annotated[bool, "Replace every occurrence"]]


@tool("Edit", family="write", effects=touches("write", "file_path"), line=path_line, preview=_preview)
async def edit(
    ctx: ToolContext,
    file_path: Annotated[str, "File to change"],
    old_string: Annotated[str, "Exact text to replace, unique in the file"],
    new_string: Annotated[str, "Text to put there"],
    replace_all: Annotated[bool, "Replace every occurrence"] = False,
) -> ToolRecord:
    change = {"old_string": old_string, "new_string": new_string, "replace_all": replace_all}
    return _plan_edits(ctx, file_path, [change]).carry_out(ctx)


@tool("MultiEdit", family="write", effects=touches("write", "file_path"), line=path_line, preview=_preview)
async def multi_edit(
    ctx: ToolContext,
    file_path: Annotated[str, "File to change"],
    edits: Annotated[list[Replacement], "Applied in order, each to the result of the one before"],
) -> ToolRecord:
    return _plan_edits(ctx, file_path, edits).carry_out(ctx)


def _plan_write(ctx: ToolContext, file_path: str, content: str) -> _Plan:
    path = ctx.resolve(file_path)
    shown = label(ctx.workspace, path)
    try:
        old = atomic_write.current(ctx, path)
    except FileNotFoundError:
        old = None
    before = decode(old.data) if old else Content("")
    if before is None:
        said = f"{shown} is no text file and was left alone. To replace it, remove it with Bash."
        raise ToolError("BINARY_FILE", said)
    after = _in_style(before, content) if old else Content(content)
    try:
        data, note = after.encode(), ""
    except UnicodeEncodeError:
        after = Content(after.text)
        data, note = after.encode(), f" It was {before.encoding} and is now UTF-8, as the new content does not fit."
    if len(data) > MAX_TEXT:
        raise ToolError("INVALID_PARAM", f"`content` is larger than {MAX_TEXT // 1_000_000} MB. Write less at a time.")
    display = diff.as_display(shown, before.text, after.text, created=old is None)
    lines = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    size = "1 line" if lines == 1 else f"{lines} lines"
    said = f"Replaced {shown}: {display['summary']}, now {size}." if old else f"Created {shown}: {size}."
    return _Plan(
        path, old, data, display, f"{said}{note}", {"created": old is None, "lines": lines, "bytes": len(data)}
    )


def _in_style(before: Content, content: str) -> Content:
    """The content with the newlines, mark, encoding and final newline of the file it replaces."""
    text = content.removeprefix("\ufeff") if before.bom else content
    end = "\r\n" if before.text.count("\n") == before.text.count("\r\n") > 0 else "\n"
    if end == "\r\n":
        text = text.replace("\r\n", "\n").replace("\n", "\r\n")
    if text and before.text.endswith("\n") and not text.endswith("\n"):
        text += end
    return replace(before, text=text)


def _plan_edits(ctx: ToolContext, file_path: str, edits: Sequence[Mapping[str, Any]]) -> _Plan:
    if not edits:
        raise ToolError("INVALID_PARAM", "`edits` is empty. Give at least one replacement.")
    path = ctx.resolve(file_path)
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
    after, count, line, slips = content, 0, 0, list[str]()
    for number, change in enumerate(edits, 1):
        try:
            text, replaced, line, slip = _edit_once(shown, after.text, change)
        except ToolError as error:
            which = f"Edit {number} of {len(edits)}: " if len(edits) > 1 else ""
            raise ToolError(error.code, f"{which}{error.text}", **error.data) from error
        after, count = replace(after, text=text), count + replaced
        slips += [f" Note: {slip}."] if slip else []
    if after.text == content.text:
        said = "The edits undo each other: the file would stay as it is. Nothing was written."
        raise ToolError("INVALID_PARAM", said)
    try:
        data = after.encode()
    except UnicodeEncodeError as error:
        char = after.text[error.start]
        said = f"{shown} is in {after.encoding}, which has no {char!r} (U+{ord(char):04X}). Use other characters, or "
        raise ToolError("INVALID_PARAM", f"{said}Write the whole file to turn it into UTF-8.") from error
    display = diff.as_display(shown, content.text, after.text)
    where = f"line {line}" if count == 1 else f"{count} replacements"
    text = f"Edited {shown} ({where}): {display['summary']}.{''.join(dict.fromkeys(slips))}"
    return _Plan(path, old, data, display, text, {"replacements": count})


def _edit_once(shown: str, text: str, change: Mapping[str, Any]) -> tuple[str, int, int, str]:
    """(text after one replacement, how many places it touched, the first line, the slip that was overlooked); refused
    unless it is clear what is meant."""
    given = change["old_string"], change["new_string"], text
    wanted, new, there = map(match.plain, given)
    if text.count(given[0]) > there.count(wanted):  # carriage returns themselves are wanted: all is meant as it stands
        wanted, new, there = given
    if not wanted:
        said = "`old_string` is empty. Give the text to replace; to make or replace a whole file use Write."
        raise ToolError("INVALID_PARAM", said)
    if wanted == new:
        said = "`old_string` and `new_string` are the same, so there is nothing to change. Give the new text "
        raise ToolError("INVALID_PARAM", f"{said}(line endings are kept as the file has them).")
    meant = match.guess(there, wanted, new)
    if meant is None:
        raise _no_match(shown, printable(there), wanted)
    count, lines = match.find(there, meant.old)
    if count > 1 and not change.get("replace_all"):
        listed = ", ".join(map(str, lines)) + (", …" if count > len(lines) else "")
        said = f"old_string occurs {count} times in {shown}: lines {listed}. Nothing was changed. Add lines around it "
        raise ToolError("INVALID_PARAM", f"{said}to make it unique, or set replace_all.", matches=count, lines=lines)
    if len(text) + count * (len(meant.new) - len(meant.old)) > MAX_TEXT:
        raise ToolError("INVALID_PARAM", f"the file would grow past {MAX_TEXT // 1_000_000} MB. Use Bash for that.")
    after, replaced = match.replace(text, there, meant.old, meant.new)
    return after, replaced, lines[0], meant.slip


def _no_match(shown: str, text: str, wanted: str) -> ToolError:
    hint, line = match.nearest_lines(text, wanted)
    slip = "" if "; only " in hint else match.slips(text, wanted)
    notebook = "A notebook is JSON on disk: old_string must match that. " if shown.endswith(".ipynb") else ""
    advice = hint or "No line is like it. Read the file again and copy the text exactly."
    said = f"old_string is not in {shown}; nothing was changed. {notebook}{slip}"
    return ToolError("NOT_FOUND", f"{said.rstrip()}\n{advice}", nearest_line=line or None)
