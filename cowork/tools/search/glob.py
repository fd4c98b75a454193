"""Glob: find files by name, the newest first."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from cowork.core.blocks import Json
from cowork.core.errors import ToolError
from cowork.core.format import plural
from cowork.core.later import later
from cowork.core.ports import Effect, ToolRecord, ok, partial
from cowork.tools.base import ToolContext, short_glob, tool

with later(__name__):
    from cowork.tools.search import ripgrep as rg

SHOWN = 200
MOST_SORTED = 200_000
_SHOWN_TO_PEOPLE = 20


def _effects(ctx: ToolContext, args: Mapping[str, Any]) -> list[Effect]:
    prefix = rg.plan_glob(str(args["pattern"])).prefix
    return [Effect("read", str(ctx.resolve(os.path.join(args.get("path") or ".", prefix))))]


@tool("Glob", family="search", reads=True, effects=_effects, line=lambda args, cwd: short_glob(str(args["pattern"])))
async def glob(
    ctx: ToolContext,
    pattern: Annotated[str, "A glob"],
    path: Annotated[str, "Folder to look in"] = ".",
) -> ToolRecord:
    plan = rg.plan_glob(pattern)
    place = rg.existing(ctx, path or ".")
    if not place.is_dir():
        raise ToolError("INVALID_PARAM", f"{rg.called(ctx, place)} is a file. Give its folder as path.")
    folder = ctx.resolve(os.path.join(path or ".", plan.prefix))
    if not folder.is_dir():
        nothing = f"No files match {rg.spelled(pattern)}: {rg.called(ctx, folder)} is not a folder."
        return ok(nothing, paths=[], total=0, truncated=False)
    found: list[str] = []
    rest = b""

    def take(chunk: bytes) -> bool:
        nonlocal rest
        *raw, rest = (rest + chunk).split(b"\0")
        names = (os.fsdecode(name.removeprefix(b"./")) for name in raw)
        found.extend(name for name in names if plan.regex.fullmatch(name))
        return True

    outcome = await rg.run(["--files", *rg.name_options([plan.name])], "./", folder, take)
    whole = len(found) <= MOST_SORTED
    if whole:
        found = await asyncio.to_thread(_newest_first, folder, found)
    paths, total = list[str](), len(found)
    for name in found:
        if len(paths) >= SHOWN:
            break
        if rg.may_read(ctx, folder / name):
            paths.append(rg.called(ctx, folder / name))
        else:
            total -= 1
    return _record(pattern, folder, paths, total, outcome.notes(), whole=whole)


def _newest_first(folder: Path, names: list[str]) -> list[str]:
    def modified(name: str) -> int:
        try:
            return os.lstat(os.path.join(folder, name)).st_mtime_ns
        except OSError:
            return 0

    return sorted(sorted(names), key=modified, reverse=True)


def _record(pattern: str, folder: Path, paths: list[str], total: int, notes: list[str], *, whole: bool) -> ToolRecord:
    if not whole:
        notes.append("They are in no order: there are too many files to look at the time of each.")
    if total > len(paths):
        notes.insert(
            0, f"Showing {'the newest ' if whole else ''}{len(paths):,}; narrow the pattern or the path for the rest."
        )
    summary = plural(total, "file") if paths else "no files"
    text = "\n".join([*paths, "", f"{summary}{', newest first' if whole else ''}.", *notes])
    if not paths:
        hint = "Hidden files count; ignored ones do not. Try **/ in front, or Grep."
        name = pattern.rstrip("/").rpartition("/")[2]
        if len(name) < 256 and os.path.isdir(folder / name):
            hint = f"It is a folder: LS shows it, {rg.spelled(pattern).rstrip('/')}/** finds its files."
        text = "\n".join([f"No files match {rg.spelled(pattern)}. {hint}", *notes])
    display: Json = {"kind": "files", "paths": paths[:_SHOWN_TO_PEOPLE], "total": total, "summary": summary}
    make = partial if notes else ok
    return make(text, display=display, paths=paths, total=total, truncated=total > len(paths) or not whole)
