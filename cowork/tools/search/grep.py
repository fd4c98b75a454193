"""Grep: search the contents of files with ripgrep."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Annotated, Any, Literal

from cowork.core.blocks import Json
from cowork.core.errors import ToolError
from cowork.core.format import plural
from cowork.core.later import later
from cowork.core.ports import ToolRecord, ok, partial
from cowork.tools.base import Param, ToolContext, short_glob, short_path, short_pattern, tool, touches

with later(__name__):
    from cowork.tools.search import ripgrep as rg
    from cowork.tools.shell.terminal_text import plain

HEAD_LIMIT = 250
_MOST_RESULTS = 20_000  # lines or files; beyond this the search is stopped
_MOST_BYTES = 16 << 20
_WIDTH = 500
_SHOWN_TO_PEOPLE = 20
_HINT_SECONDS = 5.0
_SPECIAL = re.compile(r"[()\[\]{}.*+?|^$\\]")

Mode = Literal["content", "files_with_matches", "count"]
_PATTERNS: dict[Mode, re.Pattern[bytes]] = {  # the path comes first and ends with NUL, for it may hold anything else
    "content": re.compile(rb"([^\0]*)\0(\d+)([:-])([^\n]*)\n"),
    "files_with_matches": re.compile(rb"([^\0]*)\0"),
    "count": re.compile(rb"([^\0]*)\0(\d+)\n"),
}


def _line(args: Mapping[str, Any], cwd: str) -> str:
    where = args.get("path") or args.get("glob") or args.get("type")
    place = f" in {short_glob(short_path(str(where), cwd))}" if where and where not in (".", cwd) else ""
    return f'"{short_pattern(str(args["pattern"]))}"{place}'


@tool("Grep", family="search", reads=True, effects=touches("read", "path"), line=_line)
async def grep(
    ctx: ToolContext,
    pattern: Annotated[str, "Regular expression"],
    path: Annotated[str, "File or folder"] = ".",
    glob: Annotated[str, "Such as *.py or src/**/*.ts; !x excludes"] = "",
    type: Annotated[str, "rg file type, such as py, js, rust"] = "",
    output_mode: Mode = "files_with_matches",
    ignore_case: Annotated[bool, Param("Ignore case", "-i")] = False,
    line_numbers: Annotated[bool, Param("Line numbers (content)", "-n")] = True,
    after: Annotated[int, Param("Lines after (content)", "-A", minimum=0)] = 0,
    before: Annotated[int, Param("Lines before", "-B", minimum=0)] = 0,
    context: Annotated[int, Param("Lines before and after", "-C", minimum=0)] = 0,
    multiline: Annotated[bool, "Let matches span lines; . matches newlines"] = False,
    head_limit: Annotated[int, Param("Most lines or files to show; 0: all", minimum=0)] = HEAD_LIMIT,
) -> ToolRecord:
    if not pattern:
        raise ToolError("INVALID_PARAM", "pattern is empty. Give a regular expression.")
    base, options, wants = _where(ctx, path or ".", glob, type)
    options += ["-H", "--no-heading", "--color=never", "--engine=auto", f"-e{pattern}"]
    options += (["-i"] if ignore_case else []) + (["-U", "--multiline-dotall"] if multiline else [])
    if output_mode == "content":
        options += ["-n", f"-M{_WIDTH}", "--max-columns-preview", "--no-context-separator"]
        options += [f"-A{after or context}", f"-B{before or context}"]
    else:
        options.append("-c" if output_mode == "count" else "-l")
    options += [f"--iglob=!{pattern}" for pattern in ctx.workspace.unsearched]  # a file named by itself is still read

    async def search(
        options: list[str], mode: Mode = output_mode, seconds: float = rg.SECONDS
    ) -> tuple[GrepOutput, rg.RipgrepOutcome]:
        found = GrepOutput(wants, mode)
        return found, await rg.run(options, base or "./", ctx.state.cwd, found.take, seconds=seconds)

    found, outcome = await search(options)
    if outcome.out_of_memory:  # a file that is mapped needs no memory of its own, but many small ones take longer
        found, outcome = await search(["--mmap", *options])
    if found.total or found.binary:
        return _record(found, outcome, head_limit or _MOST_RESULTS, line_numbers=line_numbers)
    nothing = rg.printable_name(f"No matches in {base}" if base else "No matches")
    if kept := ", ".join(rg.printable_name(part) for part in (glob, type) if part):
        nothing += f" ({kept})"
    hint = "" if multiline else await _hint(search, pattern, options, ignore_case=ignore_case)
    notes = outcome.notes()
    display: Json = {"kind": "matches", "lines": [], "total": 0, "files": 0, "summary": "No matches"}
    data: Json = {"mode": output_mode, "matches": 0, "files": 0, "shown": 0, "truncated": False, "notes": notes}
    return (partial if notes else ok)("\n".join([f"{nothing}. {hint}".rstrip(), *notes]), display=display, **data)


async def _hint(search: Callable[..., Any], pattern: str, options: list[str], *, ignore_case: bool) -> str:
    """What would have matched: the pattern taken literally, or in another case. A look, not a second wait."""
    literal = _SPECIAL.search(pattern) is not None
    if not literal and (ignore_case or pattern.swapcase() == pattern):
        return ""
    asked = [*(option for option in options if option[:2] not in ("-c", "-n", "-A", "-B", "-M")), "-l", "-i"]
    asked += ["-F"] if literal else []
    found, _ = await search(asked, "files_with_matches", _HINT_SECONDS)
    if not found.total:
        return ""
    there = rg.printable_name(_name(min(found.files)))
    how = "with its special characters escaped" if literal else "with -i"
    return f"It would match {how}, first in {there}."


class GrepOutput:
    """What rg printed so far, sorted into files. Bounded."""

    def __init__(self, wants: Callable[[bytes], bool], mode: Mode) -> None:
        self._wants = wants
        self._rest = b""
        self._bytes = 0
        self.mode = mode
        self.files: dict[bytes, list[tuple[int, bool, bytes]]] = {}
        self.total = 0
        self.context = False  # lines that do not match are among them

    def take(self, chunk: bytes) -> bool:
        """Read on; False once there is more than anyone will look at."""
        data = self._rest + chunk
        end = 0
        for match in _PATTERNS[self.mode].finditer(data):
            end = match.end()
            if self._wants(match[1]):
                self._add(match)
                results = self.total if self.mode == "content" else len(self.files)
                if results >= _MOST_RESULTS or self._bytes >= _MOST_BYTES:
                    return False
        self._rest = data[end:]
        return len(self._rest) < _MOST_BYTES

    @property
    def binary(self) -> bool:
        """Whether the one file searched is binary and matches."""
        return b": binary file matches" in self._rest

    def _add(self, match: re.Match[bytes]) -> None:
        lines = self.files.setdefault(match[1], [])
        self._bytes += len(match[0])
        if self.mode == "files_with_matches":
            self.total += 1
        elif self.mode == "count":
            lines.append((int(match[2]), True, b""))
            self.total += int(match[2])
        else:
            hit = match[3] == b":"
            lines.append((int(match[2]), hit, match[4]))
            self.total += hit
            self.context = self.context or not hit


def _name(raw: bytes) -> str:
    return os.fsdecode(raw).removeprefix("./")


def _where(ctx: ToolContext, path: str, glob: str, kind: str) -> tuple[str, list[str], Callable[[bytes], bool]]:
    """(how rg will spell the place, options for it, whether what it found in a file counts)."""
    place = rg.require_path(ctx, path)
    if not place.is_dir() and not place.is_file():  # a pipe or a device would keep us waiting
        raise ToolError("INVALID_PARAM", f"{rg.path_label(ctx, place)} is neither a file nor a folder.")
    given = [part for part in rg.split_glob(glob, ", \t") if part]
    options = [*(f"-g{part}" for part in given if part.startswith("!")), *([f"-t{kind}"] if kind else [])]
    plans = [rg.plan_glob(part) for part in given if not part.startswith("!")] if place.is_dir() else []
    start = place
    if len(plans) == 1:
        start = place / plans[0].prefix
        if not start.is_dir() or not start.resolve().is_relative_to(place):
            raise ToolError("NOT_FOUND", f"glob: there is no folder {plans[0].prefix} in {rg.path_label(ctx, place)}.")
    if not kind:
        options += rg.name_options([plan.name for plan in plans])
    base, shown = (name if (name := rg.relative_name(ctx, path)) != "." else "" for path in (start, place))

    @cache
    def wants(raw: bytes) -> bool:
        name = _name(raw)
        inner = name.removeprefix(shown).removeprefix("/")
        fits = not plans or any(plan.accepts(inner) for plan in plans)
        return fits and ctx.tree.may_read(ctx.state.cwd / name)

    return base, options, wants


def _record(found: GrepOutput, outcome: rg.RipgrepOutcome, limit: int, *, line_numbers: bool) -> ToolRecord:
    if found.binary:
        return ok("The file is binary and matches; its lines cannot be shown.", matches=1, files=1, binary=True)
    rows = list(islice(_rows(found, line_numbers=line_numbers), limit + 1))
    cut = len(rows) > limit
    head = [f"{path}{rest}" for path, rest in rows[:limit]]
    files, more = len(found.files), outcome.stopped == "limit"
    total = f"{'at least ' if more else ''}{found.total:,}"
    notes = outcome.notes()
    if cut or more:
        unit = "files" if found.mode != "content" else "lines"
        notes.insert(0, f"Showing {len(head):,} {unit}; narrow the pattern, path or glob, or raise head_limit.")
    summary = f"{total} match{'es' if found.total != 1 else ''} in {plural(files, 'file')}"
    if found.mode == "files_with_matches":
        summary = f"{total} file{'s' if found.total != 1 else ''}"
    shown = _group(rows[:limit]) if line_numbers else head
    text = "\n".join([*shown, *([""] if head else []), f"{summary}.", *notes])
    counts = {"total": found.total, "files": files}
    display: Json = {"kind": "matches", "lines": head[:_SHOWN_TO_PEOPLE], **counts, "summary": summary}
    data: Json = {"mode": found.mode, "matches": found.total, "files": files, "shown": len(head)}
    return (partial if notes else ok)(text, display=display, truncated=cut or more, notes=notes, **data)


def _rows(found: GrepOutput, *, line_numbers: bool) -> Iterator[tuple[str, str]]:
    """The result as (path, what stands after it), in an order that does not depend on rg's threads."""
    names = sorted(found.files)
    if found.mode != "content":
        counts = {name: sum(number for number, _, _ in found.files[name]) for name in names}
        names.sort(key=lambda name: -counts[name])
        yield from ((rg.printable_name(_name(name)), f":{counts[name]}" if counts[name] else "") for name in names)
        return
    last = 0
    for i, name in enumerate(names):
        shown = rg.printable_name(_name(name))
        for j, (number, hit, raw) in enumerate(found.files[name]):
            if found.context and (i or j) and (j == 0 or number != last + 1):
                yield "", "--"
            last = number
            mark = ":" if hit else "-"
            text = plain(raw.decode("utf-8", "replace")).rstrip("\r")
            yield shown, f"{mark}{f'{number}{mark}' if line_numbers else ''}{text}"


def _group(rows: Sequence[tuple[str, str]]) -> list[str]:
    """The rows as text; several of one file stand under its name, as in `rg --heading`: paths are half of a result."""
    out: list[str] = []
    lines = Counter(path for path, _ in rows)
    above = ""  # the name under which we write
    for n, (path, rest) in enumerate(rows):
        here = path or (rows[n + 1][0] if n + 1 < len(rows) else "")  # what separates two files belongs to the second
        if here != above and (above or lines[here] > 1):
            out += [""] if out else []
            above = here if lines[here] > 1 else ""
            out += [above] if above else []
            if not path:
                continue
        out.append(rest[1:] if above and path else f"{path}{rest}")
    return out
