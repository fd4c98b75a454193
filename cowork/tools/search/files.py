"""Glob: find files by name, the newest first. LS: a folder as a tree that fits a page, with counts for the rest."""

from __future__ import annotations

import asyncio
import os
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated, Any

from cowork.core.blocks import Json
from cowork.core.errors import ToolError
from cowork.core.format import plural
from cowork.core.later import later
from cowork.core.ports import Effect, ToolRecord, ok, partial
from cowork.tools.base import ToolContext, path_line, short_glob, tool, touches

with later(__name__):
    from cowork.tools.search import ripgrep as rg

SHOWN = 200  # paths of a Glob
MOST_SORTED = 200_000
_SHOWN_TO_PEOPLE = 20
LINES = 200  # of an LS
_MOST_IN_ONE = 100  # entries shown of one folder below the first
_MOST_FILES = 200_000
_MOST_IGNORED = 20


def _glob_effects(ctx: ToolContext, args: Mapping[str, Any]) -> list[Effect]:
    prefix = rg.plan_glob(str(args["pattern"])).prefix
    return [Effect("read", str(ctx.resolve(os.path.join(args.get("path") or ".", prefix))))]


@tool(
    "Glob", family="search", reads=True, effects=_glob_effects, line=lambda args, cwd: short_glob(str(args["pattern"]))
)
async def glob(
    ctx: ToolContext,
    pattern: Annotated[str, "A glob"],
    path: Annotated[str, "Folder to look in"] = ".",
) -> ToolRecord:
    plan = rg.plan_glob(pattern)
    place = rg.require_path(ctx, path or ".")
    if not place.is_dir():
        raise ToolError("INVALID_PARAM", f"{rg.path_label(ctx, place)} is a file. Give its folder as path.")
    folder = ctx.resolve(os.path.join(path or ".", plan.prefix))
    if not folder.is_dir():
        nothing = f"No files match {rg.printable_name(pattern)}: {rg.path_label(ctx, folder)} is not a folder."
        return ok(nothing, paths=[], total=0, truncated=False)
    names, outcome = await rg.list_files(rg.name_options([plan.name]), folder)

    def mtime(name: str) -> int:
        try:
            return os.lstat(os.path.join(folder, name)).st_mtime_ns
        except OSError:
            return 0

    found = await asyncio.to_thread(lambda: [name for name in names if plan.regex.fullmatch(name)])
    whole = len(found) <= MOST_SORTED
    if whole:
        found = await asyncio.to_thread(lambda: sorted(sorted(found), key=mtime, reverse=True))
    paths, total = list[str](), len(found)
    for name in found:
        if len(paths) >= SHOWN:
            break
        if ctx.tree.may_read(folder / name):
            paths.append(rg.path_label(ctx, folder / name))
        else:
            total -= 1
    return _glob_record(pattern, folder, paths, total, outcome.notes(), whole=whole)


def _glob_record(
    pattern: str, folder: Path, paths: list[str], total: int, notes: list[str], *, whole: bool
) -> ToolRecord:
    if not whole:
        notes.append("They are in no order: there are too many files to look at the time of each.")
    if total > len(paths):
        which = f"{'the newest ' if whole else ''}{len(paths):,}"
        notes.insert(0, f"Showing {which}; narrow the pattern or the path for the rest.")
    summary = plural(total, "file") if paths else "no files"
    text = "\n".join([*paths, "", f"{summary}{', newest first' if whole else ''}.", *notes])
    if not paths:
        hint = "Hidden files count; ignored ones do not. Try **/ in front, or Grep."
        name = pattern.rstrip("/").rpartition("/")[2]
        if len(name) < 256 and os.path.isdir(folder / name):
            hint = f"It is a folder: LS shows it, {rg.printable_name(pattern).rstrip('/')}/** finds its files."
        text = "\n".join([f"No files match {rg.printable_name(pattern)}. {hint}", *notes])
    display: Json = {"kind": "files", "paths": paths[:_SHOWN_TO_PEOPLE], "total": total, "summary": summary}
    truncated = total > len(paths) or not whole
    return (partial if notes else ok)(text, display=display, paths=paths, total=total, truncated=truncated)


@tool("LS", family="read", reads=True, effects=touches("read", "path"), line=path_line)
async def ls(
    ctx: ToolContext,
    path: Annotated[str, "Folder"] = ".",
    ignore: Annotated[list[str] | None, "Globs to leave out"] = None,
) -> ToolRecord:
    place = rg.require_path(ctx, path or ".")
    if not place.is_dir():
        raise ToolError("INVALID_PARAM", f"{rg.path_label(ctx, place)} is a file. Read it, or LS its folder.")
    names, outcome = await rg.list_files([f"-g!{glob}" for glob in ignore or ()], place, _MOST_FILES)
    tree = await asyncio.to_thread(FolderTree, ctx, place, names, ignore or ())
    try:
        ignored = tree.open("", LINES, LINES + 1)
    except OSError as error:
        raise ToolError("ACCESS_DENIED", f"{rg.path_label(ctx, place)} cannot be listed: {error.strerror}.") from error
    await tree.unfold()
    return _tree_record(ctx, tree, ignored, outcome)


class FolderTree:
    """What rg saw under a folder, and what is shown of it. A folder is its path below that one, with a slash."""

    def __init__(self, ctx: ToolContext, place: Path, files: Sequence[str], left_out: Sequence[str]) -> None:
        self._ctx = ctx
        self.place = place
        self._left_out = [glob.strip("/") for glob in left_out]
        self.files = set(files)
        self.counts: Counter[str] = Counter()  # the files of each folder
        self.entries: dict[str, list[tuple[str, str]]] = {}  # of a shown folder: each as text, and a folder's name
        self.hidden: Counter[str] = Counter()  # entries that did not fit
        for name in files:
            end = name.find("/")
            while end >= 0:
                self.counts[name[: end + 1]] += 1
                end = name.find("/", end + 1)

    async def unfold(self) -> None:
        """Open folders level by level for as long as the lines last."""
        room = LINES - len(self.entries[""])
        waiting = deque([""])
        while waiting and room > 0:
            await asyncio.sleep(0)  # there may be thousands
            for _, folder in self.entries.get(waiting.popleft(), ()):
                if self.counts[folder]:
                    with suppress(OSError):
                        self.open(folder, _MOST_IN_ONE, room)
                        room -= len(self.entries.get(folder, ())) + (self.hidden[folder] > 0)
                        waiting.append(folder)

    def open(self, folder: str, most: int, room: int) -> list[str]:
        """Show the entries of a folder, its folders first, if there are lines enough; gives the names it leaves out."""
        folders: list[tuple[str, str]] = []
        files: list[tuple[str, str]] = []
        ignored: list[str] = []
        with os.scandir(self.place / folder) as found:
            for entry in sorted(found, key=lambda e: e.name):
                inner, name = folder + entry.name, rg.printable_name(entry.name)
                if any(fnmatch(inner, glob) or fnmatch(entry.name, glob) for glob in self._left_out):
                    continue
                is_folder = entry.is_dir(follow_symlinks=False)
                if entry.is_symlink():
                    files.append((f"{name} -> {rg.printable_name(os.readlink(entry.path))}", ""))
                elif is_folder and (self.counts[f"{inner}/"] or _is_empty(entry.path)):
                    folders.append((f"{name}/", f"{inner}/"))
                elif inner in self.files and self._ctx.tree.may_read(Path(entry.path)):
                    files.append((name, ""))
                else:
                    ignored.append(f"{name}/" if is_folder else name)
        shown, hidden = [*folders, *files][:most], len(folders) + len(files) - most
        if len(shown) + (hidden > 0) <= room:
            self.entries[folder], self.hidden[folder] = shown, max(0, hidden)
        return ignored

    def lines(self, folder: str = "", indent: str = "") -> Iterator[str]:
        for text, inner in self.entries[folder]:
            if inner and inner in self.entries:
                yield indent + text
                yield from self.lines(inner, indent + "  ")
            else:
                yield indent + text + (f" ({self.counts[inner]:,})" if self.counts[inner] else "")
        if folder and self.hidden[folder]:
            yield f"{indent}… {self.hidden[folder]:,} more"


def _is_empty(path: str) -> bool:
    with suppress(OSError), os.scandir(path) as entries:
        return next(entries, None) is None
    return False


def _tree_record(ctx: ToolContext, tree: FolderTree, ignored: list[str], outcome: rg.RipgrepOutcome) -> ToolRecord:
    lines, total = list(tree.lines()), len(tree.files)
    notes = outcome.notes()
    if outcome.stopped == "limit":
        notes.append(f"More than {_MOST_FILES:,} files: LS a folder further down.")
    if tree.hidden[""]:
        notes.append(f"{tree.hidden['']:,} more entries here; Glob finds them by name.")
    head = f"{rg.path_label(ctx, tree.place)}/: {plural(total, 'file')} in {plural(len(tree.counts) + 1, 'folder')}"
    more = f" and {len(ignored) - _MOST_IGNORED} more" if len(ignored) > _MOST_IGNORED else ""
    left = [f"Ignored: {', '.join(ignored[:_MOST_IGNORED])}{more}"] if ignored else []
    text = "\n".join([head, *(lines or ["(empty)"]), *left, *notes])
    paths, summary = [line.strip() for line in lines], plural(total, "file")
    display: Json = {"kind": "files", "paths": paths, "total": total, "summary": summary}
    data: Json = {"files": total, "folders": len(tree.counts), "shown": len(lines), "ignored": ignored[:100]}
    return (partial if notes else ok)(text, display=display, truncated=bool(notes), **data)
