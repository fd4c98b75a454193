"""Tool calls as lines: a glyph, the name, a short argument, the result in a word, and below it what is worth seeing."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from cowork.core import format
from cowork.core.blocks import Json
from cowork.core.format import one_line
from cowork.core.hygiene import visible, visible_line
from cowork.frontends.repl.view.diffs import diff_lines
from cowork.frontends.repl.view.styled import Line, beside, clip, clip_line, clip_start, width, wrap

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
DELEGATES = ("Task", "Agent", "subagent")  # drawn as panels, not as tool lines
_PATH_TOOLS = ("Read", "Write", "Edit", "MultiEdit", "NotebookEdit", "LS")
_GLYPHS = {"success": ("good", "●"), "partial": ("warn", "◐"), "error": ("bad", "✗")}
_DIFF_LINES = 40
_OUTPUT_LINES = 5
_ERROR_LINES = 4
_LONG_PATTERN = 24
_BAR = "\0"  # between alternatives that are kept together


def argument(name: str, given: Mapping[str, Any], cwd: str = "") -> str:
    """What a call is about, in one short line."""
    if name in _PATH_TOOLS:
        path = short_path(str(given.get("file_path") or given.get("path") or "."), cwd)
        if name == "Read" and (given.get("offset") or given.get("limit")):
            first = int(given.get("offset") or 1)
            last = first + int(given["limit"]) - 1 if given.get("limit") else ""
            return f"{path} {first}-{last}"
        return path
    if name == "Bash":
        return one_line("$ " + str(given.get("command", "")).strip().replace("\n", " ⏎ "))
    if name == "Grep":
        where = given.get("path") or given.get("glob") or given.get("type")
        tail = f" in {short_glob(short_path(str(where), cwd))}" if where else ""
        return one_line(f'"{short_pattern(str(given.get("pattern", "")))}"{tail}')
    if name == "Glob":
        return one_line(short_glob(str(given.get("pattern", ""))))
    if name == "TodoWrite":
        return ""
    for key in ("description", "label", "query", "url", "bash_id", "id", "name"):
        if isinstance(given.get(key), str):
            return one_line(str(given[key]))
    return one_line(json.dumps(dict(given), ensure_ascii=False)) if given else ""


def summary(name: str, record: Mapping[str, Any], display: Mapping[str, Any]) -> str:
    """The result in a few words."""
    if display.get("summary"):
        return one_line(str(display["summary"]))
    if record.get("status") == "error":
        error = record.get("error") or {}
        return one_line(str(error.get("code") or "error").replace("_", " ").lower())
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


def running_line(name: str, arg: str, spin: int, columns: int, seconds: float = 0.0) -> Line:
    """A call that still runs."""
    right: Line = [("dim", f"{seconds:.0f} s")] if seconds >= 2 else []
    glyph = SPINNER[spin % len(SPINNER)]
    return beside([("accent", f"{glyph} "), ("bold", name), ("", f" {_fit(name, arg, columns - 12)}")], right, columns)


def finished_lines(
    name: str, given: Mapping[str, Any], record: Mapping[str, Any], display: Json, columns: int, cwd: str = ""
) -> list[Line]:
    """A finished call as it goes to the scrollback."""
    style, glyph = _GLYPHS.get(str(record.get("status")), _GLYPHS["success"])
    result = summary(name, record, display)
    arg = argument(name, given, cwd)
    room = columns - width(name) - 3 - (width(result) + 3 if result else 0)
    first: Line = [(style, f"{glyph} "), ("bold", one_line(name))]
    if arg:
        first.append(("", f" {_fit(name, arg, max(8, room))}"))
    if result:
        first.append(("dim", f" · {result}"))
    return [clip_line(first, columns), *_body(record, display, columns)]


def looks_line(names: Sequence[str], columns: int) -> Line:
    """A run of looks in one line: how many, and of which kind; the viewer has each."""
    kinds = ", ".join(f"{one_line(name)} {count}" for name, count in Counter(names).most_common())
    line: Line = [("good", "● "), ("bold", "Looked"), ("", f" at {len(names)} places"), ("dim", f" · {kinds}")]
    return clip_line(line, columns)


def output_lines(text: str, columns: int, limit: int, *, note: bool = True) -> list[Line]:
    """The last lines of a command's output behind a bar; how many came before is said."""
    rows = visible(text).rstrip("\n").split("\n") if text.strip() else []
    shown = rows[-limit:]
    out: list[Line] = []
    if note and len(rows) > len(shown):
        out.append([("faint", "  │ "), ("dim", f"… {format.plural(len(rows) - len(shown), 'line')} before")])
    out.extend([("faint", "  │ "), ("dim", clip(row.expandtabs(4), columns - 5))] for row in shown)
    return out


def short_path(path: str, cwd: str) -> str:
    """The path relative to the working directory when it lies in it."""
    path = visible_line(path)
    if cwd and path.startswith(cwd.rstrip("/") + "/"):
        return path[len(cwd.rstrip("/")) + 1 :]
    return path


def short_pattern(pattern: str) -> str:
    """A regular expression as people read it: a long one is its words, with `…` for what is between them."""
    if len(pattern) <= _LONG_PATTERN:
        return pattern
    text = re.sub(r"\\([\"'./:#<>=-])", r"\1", pattern)
    text = re.sub(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\.[*+?]|\{\d*,?\d*\}", "…", text)
    for _ in range(len(text)):  # from the inside out
        text, found = re.subn(r"\((?:\?[:=!]|\?<[=!])?([^()]*)\)[*+?]*", _alternatives, text)
        if not found:
            break
    text = re.sub(r"[…^$*+?|]*…[…^$*+?|]*", "…", re.sub(r"[\^$*+?]", "…", text)).replace(_BAR, "|")
    return text if text.strip("…") else pattern


def short_glob(glob: str) -> str:
    """A glob whose lists of more than four are cut to three."""
    return re.sub(r"\{((?:[^{},]*,){3})(?:[^{},]*,)+[^{},]*\}", r"{\1…}", glob)


def _alternatives(group: re.Match[str]) -> str:
    """The words of a group; of many only the first two."""
    parts = re.split(rf"[|{_BAR}]", group[1])
    words = [word for part in parts if (word := re.sub(r"[^\w …]+", "", part).strip("… "))]
    if not words:
        return "…"
    kept = words if len(words) <= 3 else [*words[:2], "…"]
    return f"…{_BAR.join(kept)}…"


def _body(record: Mapping[str, Any], display: Json, columns: int) -> list[Line]:
    if record.get("status") == "error":
        return _error_lines(record, columns)
    match display.get("kind"):
        case "diff":
            return diff_lines(str(display.get("diff", "")), columns, limit=_DIFF_LINES)
        case "terminal":
            total = int(display.get("lines") or 0)
            limit = _OUTPUT_LINES + (total == _OUTPUT_LINES + 1)  # a note about one line takes a line itself
            lines = output_lines(str(display.get("output", "")), columns, limit, note=False)
            hidden = total - len(lines)
            if hidden > 0:
                lines.insert(
                    0, [("faint", "  │ "), ("dim", clip(f"… {format.plural(hidden, 'line')} before", columns - 5))]
                )
            return lines
    return []


def _error_lines(record: Mapping[str, Any], columns: int) -> list[Line]:
    error = record.get("error") or {}
    text = visible(str(error.get("message") or record.get("text") or ""))
    rows = wrap(text, columns - 5)
    out: list[Line] = [[("faint", "  │ "), ("", row)] for row in rows[:_ERROR_LINES]]
    if len(rows) > _ERROR_LINES:
        out.append([("faint", "  │ "), ("dim", f"… {format.plural(len(rows) - _ERROR_LINES, 'more line')}")])
    return out


def _fit(name: str, arg: str, columns: int) -> str:
    """A path keeps its end, everything else its start."""
    return clip_start(arg, columns) if name in _PATH_TOOLS else clip(arg, columns)
