"""LS: what is in a folder, as a tree that fits a page, with counts for what does not."""

from __future__ import annotations

import asyncio
import os
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from cowork.core.blocks import Json
from cowork.core.errors import ToolError
from cowork.core.format import plural
from cowork.core.later import later
from cowork.core.ports import ToolRecord, ok, partial
from cowork.tools.base import ToolContext, tool, touches
from cowork.tools.call_lines import path_line

with later(__name__):
    from cowork.tools.search import ripgrep as rg
    from cowork.tools.search.glob_plan import Exclusion

LINES = 200
_MOST_IN_ONE = 100  # entries shown of one folder below the first
_MOST_FILES = 200_000
_MOST_IGNORED = 20


@dataclass(slots=True)
class Folder:
    """A folder of the tree: its entries, or None while it is only counted."""

    name: str
    path: Path
    inner: str  # relative to the listed folder, with a trailing slash; empty for that folder itself
    entries: list[str | Folder] | None = None
    hidden: int = 0  # entries that did not fit


@dataclass(slots=True)
class Tree:
    """What rg saw under the folder: how many files each folder holds, and the files themselves by folder."""

    counts: Counter[str] = field(default_factory=Counter)
    files: set[str] = field(default_factory=set)
    total: int = 0
    rest: bytes = b""

    def take(self, chunk: bytes) -> bool:
        *names, self.rest = (self.rest + chunk).split(b"\0")
        for raw in names:
            name = os.fsdecode(raw).removeprefix("./")
            self.files.add(name)
            end = name.find("/")
            while end >= 0:
                self.counts[name[: end + 1]] += 1
                end = name.find("/", end + 1)
        self.total += len(names)
        return self.total < _MOST_FILES


@tool("LS", family="read", reads=True, effects=touches("read", "path"), line=path_line)
async def ls(
    ctx: ToolContext,
    path: Annotated[str, "Folder"] = ".",
    ignore: Annotated[list[str] | None, "Globs to leave out"] = None,
) -> ToolRecord:
    place = rg.existing(ctx, path or ".")
    if not place.is_dir():
        raise ToolError("INVALID_PARAM", f"{rg.called(ctx, place)} is a file. Read it, or LS its folder.")
    left_out = [_rule(glob) for glob in ignore or []]
    tree = Tree()
    outcome = await rg.run(["--files", *(f"-g!{glob}" for glob in ignore or [])], "./", place, tree.take)
    top = Folder("", place, "")
    try:
        ignored = _open(ctx, top, tree, left_out, LINES)
    except OSError as error:
        raise ToolError("ACCESS_DENIED", f"{rg.called(ctx, place)} cannot be listed: {error.strerror}.") from error
    await _unfold(ctx, top, tree, left_out)
    return _record(ctx, top, tree, ignored, outcome)


def _rule(glob: str) -> Exclusion:
    try:
        return Exclusion(glob)
    except ValueError as error:
        raise ToolError("INVALID_PARAM", f"ignore: {error}.") from error


async def _unfold(ctx: ToolContext, top: Folder, tree: Tree, left_out: list[Exclusion]) -> None:
    """Open folders level by level for as long as the lines last."""
    room = LINES - len(top.entries or ())
    waiting = deque(_folders(top))
    while waiting and room > 0:
        await asyncio.sleep(0)  # there may be thousands
        folder = waiting.popleft()
        if tree.counts[folder.inner] == 0:
            continue
        try:
            _open(ctx, folder, tree, left_out, _MOST_IN_ONE)
        except OSError:
            continue
        size = len(folder.entries or ()) + (folder.hidden > 0)
        if size > room:
            folder.entries = None
            continue
        room -= size
        waiting.extend(_folders(folder))


def _folders(folder: Folder) -> list[Folder]:
    return [entry for entry in folder.entries or () if isinstance(entry, Folder)]


def _open(ctx: ToolContext, folder: Folder, tree: Tree, left_out: list[Exclusion], most: int) -> list[str]:
    """Fill in the entries of a folder, folders first; returns the names that are ignored."""
    folders: list[Folder] = []
    files: list[os.DirEntry[str]] = []
    ignored: list[str] = []
    with os.scandir(folder.path) as entries:
        for entry in sorted(entries, key=lambda e: e.name):
            inner = folder.inner + entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if any(rule.matches(inner, folder=is_folder) for rule in left_out):
                continue
            if entry.is_symlink():
                files.append(entry)
            elif is_folder and (tree.counts[inner + "/"] or _is_empty(entry.path)):
                folders.append(Folder(rg.spelled(entry.name), Path(entry.path), inner + "/"))
            elif inner in tree.files and rg.may_read(ctx, Path(entry.path)):
                files.append(entry)
            else:
                ignored.append(rg.spelled(entry.name) + ("/" if is_folder else ""))
    folder.hidden = max(0, len(folders) + len(files) - most)
    folder.entries = [*folders[:most], *(_named(entry) for entry in files[: max(0, most - len(folders))])]
    return ignored


def _named(entry: os.DirEntry[str]) -> str:
    name = rg.spelled(entry.name)
    return f"{name} -> {rg.spelled(os.readlink(entry.path))}" if entry.is_symlink() else name


def _is_empty(path: str) -> bool:
    try:
        with os.scandir(path) as entries:
            return next(entries, None) is None
    except OSError:
        return False


def _record(ctx: ToolContext, top: Folder, tree: Tree, ignored: list[str], outcome: rg.RipgrepOutcome) -> ToolRecord:
    lines = _draw(top, tree, 0)
    notes = outcome.notes()
    if outcome.stopped == "limit":
        notes.append(f"More than {_MOST_FILES:,} files: LS a folder further down.")
    if top.hidden:
        notes.append(f"{top.hidden:,} more entries here; Glob finds them by name.")
    total = f"{tree.total:,} file{'s' if tree.total != 1 else ''} in {_folder_count(len(tree.counts) + 1)}"
    head = f"{rg.called(ctx, top.path)}/: {total}"
    left = [f"Ignored: {', '.join(ignored[:_MOST_IGNORED])}{_more(ignored)}"] if ignored else []
    text = "\n".join([head, *(lines or ["(empty)"]), *left, *notes])
    display: Json = {"kind": "files", "paths": [line.strip() for line in lines], "total": tree.total}
    display["summary"] = plural(tree.total, "file")
    data: Json = {"files": tree.total, "folders": len(tree.counts), "shown": len(lines), "ignored": ignored[:100]}
    return (partial if notes else ok)(text, display=display, truncated=bool(notes), **data)


def _folder_count(count: int) -> str:
    return "1 folder" if count == 1 else f"{count:,} folders"


def _draw(folder: Folder, tree: Tree, depth: int) -> list[str]:
    indent = "  " * depth
    out: list[str] = []
    for entry in folder.entries or ():
        if isinstance(entry, str):
            out.append(indent + entry)
            continue
        count = tree.counts[entry.inner]
        out.append(f"{indent}{entry.name}/" + (f" ({count:,})" if entry.entries is None and count else ""))
        out += _draw(entry, tree, depth + 1) if count else []
    if folder.hidden and depth:
        out.append(f"{indent}… {folder.hidden:,} more")
    return out


def _more(names: list[str]) -> str:
    return f" and {len(names) - _MOST_IGNORED} more" if len(names) > _MOST_IGNORED else ""
