"""Glob: find files by name, the newest first."""

from __future__ import annotations

import heapq
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from cowork.core.blocks import Json
from cowork.core.errors import ToolError
from cowork.core.ports import Effect, ToolRecord, ok, partial
from cowork.tools import globs, rg
from cowork.tools.base import ToolContext, tool

SHOWN = 200
_MOST_FILES = 200_000  # beyond this the walk is stopped
_SHOWN_TO_PEOPLE = 20


def _effects(ctx: ToolContext, args: Mapping[str, Any]) -> list[Effect]:
    prefix = globs.plan(str(args["pattern"])).prefix
    return [Effect("read", str(ctx.resolve(os.path.join(args.get("path") or ".", prefix))))]


@tool("Glob", effects=_effects, parallel=True)
async def glob(
    ctx: ToolContext,
    pattern: Annotated[str, "Such as **/*.py or src/{a,b}/*.ts; without a slash: any depth"],
    path: Annotated[str, "Folder to look in; default: working directory"] = ".",
) -> ToolRecord:
    plan = globs.plan(pattern)
    place = rg.existing(ctx, path or ".")
    if not place.is_dir():
        raise ToolError("INVALID_PARAM", f"{rg.shown(ctx, place)} is a file. Give its folder as path.")
    folder = ctx.resolve(os.path.join(path or ".", plan.prefix))
    if not folder.is_dir():
        return ok(f"No files match {pattern}: {rg.shown(ctx, folder)} is not a folder.", **_data([], 0))
    newest = Newest(ctx, plan, folder)
    outcome = await rg.run(["--files", *plan.arguments()], "./", folder, newest.take)
    return _record(pattern, newest, outcome)


class Newest:
    """The newest of the files seen so far. Each is looked at once, while rg is still walking."""

    def __init__(self, ctx: ToolContext, plan: globs.Plan, folder: Path) -> None:
        self._ctx = ctx
        self._plan = plan
        self._folder = folder
        self._rest = b""
        self._heap: list[tuple[int, bytes]] = []
        self._base = os.fsencode(folder)
        self.total = 0

    def take(self, chunk: bytes) -> bool:
        """Read on; False once there are more files than anyone will look at."""
        *names, self._rest = (self._rest + chunk).split(b"\0")
        if self._plan.regex is not None:
            names = [name for name in names if self._plan.accepts(os.fsdecode(name.removeprefix(b"./")))]
        heap, base, push = self._heap, self._base, heapq.heappush
        for name in names:
            try:
                changed = os.stat(base + name[1:], follow_symlinks=False).st_mtime_ns
            except OSError:  # gone since rg saw it
                continue
            self.total += 1
            if len(heap) < SHOWN:
                push(heap, (changed, name))
            elif changed > heap[0][0]:
                heapq.heapreplace(heap, (changed, name))
        return self.total < _MOST_FILES

    def paths(self) -> list[Path]:
        """The newest first; those of the same moment by name."""
        ordered = sorted(self._heap, key=lambda item: (-item[0], item[1]))
        found = (self._folder / os.fsdecode(name.removeprefix(b"./")) for _, name in ordered)
        return [path for path in found if self._ctx.tree.may_read(path)]

    def shown(self) -> list[str]:
        return [rg.spelled(rg.shown(self._ctx, path)) for path in self.paths()]


def _record(pattern: str, newest: Newest, outcome: rg.Outcome) -> ToolRecord:
    paths = newest.shown()
    notes = outcome.notes()
    more = outcome.stopped == "limit"
    if newest.total > len(paths):
        notes.insert(0, f"Showing the newest {len(paths):,}; narrow the pattern or the path for the rest.")
    if not paths:
        hint = "Hidden files count; ignored ones do not. Try **/ in front, or Grep."
        text = "\n".join([f"No files match {pattern}. {hint}", *notes])
        return (partial if notes else ok)(text, display=_display(paths, 0, "no files"), **_data(paths, 0))
    total = f"{'more than ' if more else ''}{newest.total:,} file{'s' if newest.total != 1 else ''}"
    text = "\n".join([*paths, "", f"{total}, newest first.", *notes])
    make = partial if notes else ok
    return make(text, display=_display(paths, newest.total, total), **_data(paths, newest.total))


def _display(paths: list[str], total: int, summary: str) -> Json:
    return {"kind": "files", "paths": paths[:_SHOWN_TO_PEOPLE], "total": total, "summary": summary}


def _data(paths: list[str], total: int) -> Json:
    return {"paths": paths, "total": total, "truncated": total > len(paths)}
