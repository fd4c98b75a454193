"""Glob: find files by name, the newest first."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from cowork.core.blocks import Json
from cowork.core.errors import ToolError
from cowork.core.later import later
from cowork.core.ports import Effect, ToolRecord, ok, partial
from cowork.tools.base import ToolContext, tool
from cowork.tools.call_lines import short_glob

with later(__name__):
    from cowork.tools.search import glob_plan as globs
    from cowork.tools.search import ripgrep as rg

SHOWN = 200
SORT_SECONDS = 10.0  # for looking at every file's time
FIRST_SECONDS = 5.0  # for a few of them in any order, when that was too long
TOO_MANY = "They are in no order: there are too many files to look at the time of each."
_SHOWN_TO_PEOPLE = 20


def _effects(ctx: ToolContext, args: Mapping[str, Any]) -> list[Effect]:
    prefix = globs.plan(str(args["pattern"])).prefix
    return [Effect("read", str(ctx.resolve(os.path.join(args.get("path") or ".", prefix))))]


@tool("Glob", family="search", reads=True, effects=_effects, line=lambda args, cwd: short_glob(str(args["pattern"])))
async def glob(
    ctx: ToolContext,
    pattern: Annotated[str, "A glob"],
    path: Annotated[str, "Folder to look in"] = ".",
) -> ToolRecord:
    plan = globs.plan(pattern)
    place = rg.existing(ctx, path or ".")
    if not place.is_dir():
        raise ToolError("INVALID_PARAM", f"{rg.called(ctx, place)} is a file. Give its folder as path.")
    folder = ctx.resolve(os.path.join(path or ".", plan.prefix))
    if not folder.is_dir():
        return ok(f"No files match {rg.spelled(pattern)}: {rg.called(ctx, folder)} is not a folder.", **_data([], 0))
    newest = Newest(ctx, plan, folder)
    # rg looks at the times while it walks, at a third of what it would cost here.
    sort, arguments = "--sortr=modified", ["--files", *plan.arguments()]
    outcome = await rg.run([sort, *arguments], "./", folder, newest.take, seconds=SORT_SECONDS)
    if outcome.stopped == "time":  # it prints nothing before it has seen all
        newest = Newest(ctx, plan, folder, most=SHOWN)
        await rg.run(arguments, "./", folder, newest.take, seconds=FIRST_SECONDS)
        newest.total = len(newest.paths)
    return _record(pattern, newest, outcome)


class Newest:
    """The first of the files rg names, which come newest first where all were seen, and the number of all."""

    def __init__(self, ctx: ToolContext, plan: globs.GlobPlan, folder: Path, most: int = 0) -> None:
        self._ctx = ctx
        self._plan = plan
        self._folder = folder
        self._most = most
        self._rest = b""
        self.paths: list[str] = []
        self.total = 0

    def is_folder(self, pattern: str) -> bool:
        """Whether the glob is a folder's plain name."""
        name = pattern.rstrip("/").rpartition("/")[2]
        return len(name) < 256 and os.path.isdir(self._folder / name)

    def take(self, chunk: bytes) -> bool:
        """Read on to the end, for the count is told; or only until there are enough."""
        *names, self._rest = (self._rest + chunk).split(b"\0")
        if self._plan.regex is not None:
            names = [name for name in names if self._plan.accepts(os.fsdecode(name.removeprefix(b"./")))]
        self.total += len(names)
        for name in names:
            if len(self.paths) >= SHOWN:
                break
            path = self._folder / os.fsdecode(name.removeprefix(b"./"))
            if rg.may_read(self._ctx, path):
                self.paths.append(rg.called(self._ctx, path))
            else:
                self.total -= 1
        return not self._most or self.total < self._most


def _record(pattern: str, newest: Newest, outcome: rg.RipgrepOutcome) -> ToolRecord:
    paths, whole = newest.paths, outcome.stopped != "time"
    notes = outcome.notes() if whole or not paths else [*outcome.notes(), TOO_MANY]
    if whole and newest.total > len(paths):
        notes.insert(0, f"Showing the newest {len(paths):,}; narrow the pattern or the path for the rest.")
    if not paths:
        hint = "Hidden files count; ignored ones do not. Try **/ in front, or Grep."
        if newest.is_folder(pattern):
            hint = f"It is a folder: LS shows it, {rg.spelled(pattern).rstrip('/')}/** finds its files."
        text = "\n".join([f"No files match {rg.spelled(pattern)}. {hint}", *notes])
        return (partial if notes else ok)(text, display=_display(paths, 0, "no files"), **_data(paths, 0, whole=whole))
    total = f"{newest.total:,} file{'s' if newest.total != 1 else ''}"
    order = "newest first" if whole else "the first that were found"
    text = "\n".join([*paths, "", f"{total}, {order}.", *notes])
    make = partial if notes else ok
    return make(text, display=_display(paths, newest.total, total), **_data(paths, newest.total, whole=whole))


def _display(paths: list[str], total: int, summary: str) -> Json:
    return {"kind": "files", "paths": paths[:_SHOWN_TO_PEOPLE], "total": total, "summary": summary}


def _data(paths: list[str], total: int, *, whole: bool = True) -> Json:
    return {"paths": paths, "total": total, "truncated": total > len(paths) or not whole}
