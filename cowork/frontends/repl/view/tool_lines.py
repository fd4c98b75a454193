"""Tool calls as lines: a glyph, the name, a short argument, the result in a word, and below it what is worth seeing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from cowork.core import format
from cowork.core.blocks import Json
from cowork.core.events import ToolStarted
from cowork.core.format import one_line
from cowork.core.hygiene import visible
from cowork.frontends.calls import call_line
from cowork.frontends.repl.view.diffs import diff_lines
from cowork.frontends.repl.view.styled import Line, beside, clip, clip_line, clip_start, spinner, width, wrap
from cowork.frontends.repl.view.theme import Theme

_ON_FILES = ("read", "write")  # families whose calls are told by a path
GLYPHS = {"success": ("good", "●"), "partial": ("warn", "◐"), "error": ("bad", "✗")}
_DIFF_LINES = 40
_OUTPUT_LINES = 5
_ERROR_LINES, _ERROR_DIFF_LINES = 4, 10
_DIFF_HEADS = ("--- ", "+++ ", "@@ ")


def summary(record: Mapping[str, Any], display: Mapping[str, Any]) -> str:
    """The result in a few words."""
    if display.get("summary"):
        return one_line(str(display["summary"]))
    if record.get("status") == "error":
        return one_line(str((record.get("error") or {}).get("code") or "error").replace("_", " ").lower())
    match display.get("kind"):
        case "diff":
            return f"+{display.get('added', 0)} −{display.get('removed', 0)}"
        case "terminal":
            code = display.get("exit_code")
            return f"exit {code}" if code else format.plural(int(display.get("lines") or 0), "line")
        case "files":
            return format.plural(int(display.get("total") or 0), "file")
        case "matches":
            return f"{display.get('total', 0)} in {format.plural(int(display.get('files') or 0), 'file')}"
    return ""


def running_line(call: ToolStarted, now: float, columns: int, seconds: float = 0.0) -> Line:
    """A call that still runs."""
    right: Line = [("dim", f"{seconds:.0f} s")] if seconds >= 2 else []
    line = _fit(call, call_line(call), columns - 12)
    return beside([("accent", f"{spinner(now)} "), ("bold", one_line(call.name)), ("", f" {line}")], right, columns)


def finished_lines(
    call: ToolStarted, record: Mapping[str, Any], display: Json, columns: int, theme: Theme | None = None
) -> list[Line]:
    """A finished call as it goes to the scrollback."""
    style, glyph = GLYPHS.get(str(record.get("status")), GLYPHS["success"])
    name, line = one_line(call.name), call_line(call)
    result = summary(record, display)
    room = columns - width(name) - 3 - (width(result) + 3 if result else 0)
    first: Line = [(style, f"{glyph} "), ("bold", name), ("", f" {_fit(call, line, max(8, room))}" if line else "")]
    first.append(("dim", f" · {result}" if result else ""))
    return [clip_line(first, columns), *_body(record, display, columns, theme)]


def looks_line(names: Sequence[str], columns: int) -> Line:
    """A run of looks in one line: how many, and of which kind; the viewer has each."""
    kinds = ", ".join(f"{one_line(name)} {count}" for name, count in Counter(names).most_common())
    line: Line = [("good", "● "), ("bold", "Looked"), ("", f" at {len(names)} places"), ("dim", f" · {kinds}")]
    return clip_line(line, columns)


def output_lines(text: str, columns: int, limit: int, total: int = 0) -> list[Line]:
    """The last lines of a command's output behind a bar; of a `total` it is said how many came before."""
    rows = visible(text).rstrip("\n").split("\n")[-limit:] if text.strip() else []
    hidden = [f"… {format.plural(total - len(rows), 'line')} before"] if rows and total > len(rows) else []
    return [[("faint", "  │ "), ("dim", clip(row.expandtabs(4), columns - 5))] for row in (*hidden, *rows)]


def _body(record: Mapping[str, Any], display: Json, columns: int, theme: Theme | None) -> list[Line]:
    if record.get("status") == "error" and display.get("kind") != "terminal":
        return _error_lines(record, columns)
    match display.get("kind"):
        case "diff":
            return diff_lines(str(display.get("diff", "")), columns, limit=_DIFF_LINES, theme=theme)
        case "terminal":
            output = str(display.get("output", ""))
            blank = len(output) - len(output.rstrip("\n")) - output.endswith("\n")  # lines at its end do not count
            total = int(display.get("lines") or 0) - blank
            limit = _OUTPUT_LINES + (total == _OUTPUT_LINES + 1)  # a note about one line takes a line itself
            return output_lines(output, columns, limit, total)
    return []


def _error_lines(record: Mapping[str, Any], columns: int) -> list[Line]:
    """What went wrong; of an edit that found no match, the nearest lines matter most."""
    error = record.get("error") or {}
    text = visible(str(error.get("message") or record.get("text") or ""))
    is_diff = "\n@@ " in text
    limit = _ERROR_DIFF_LINES if is_diff else _ERROR_LINES
    styles = {"-": "bad", "+": "good"} if is_diff else {}
    lines = [line for line in text.split("\n") if not (is_diff and line.startswith(_DIFF_HEADS))]
    rows = [(styles.get(line[:1], ""), row) for line in lines for row in wrap(line, columns - 5)]
    out: list[Line] = [[("faint", "  │ "), row] for row in rows[:limit]]
    if len(rows) > limit:
        out.append([("faint", "  │ "), ("dim", f"… {format.plural(len(rows) - limit, 'more line')}")])
    return out


def _fit(call: ToolStarted, line: str, columns: int) -> str:
    """A path keeps its end, everything else its start."""
    return clip_start(line, columns) if call.family in _ON_FILES else clip(line, columns)
