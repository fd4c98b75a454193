"""LS: what is in a folder, as a tree that fits a page, with counts for what does not."""

from __future__ import annotations

import asyncio
import os
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated

from cowork.core.blocks import Json
from cowork.core.errors import ToolError
from cowork.core.format import plural
from cowork.core.later import later
from cowork.core.ports import ToolRecord, ok, partial
from cowork.tools.base import ToolContext, path_line, tool, touches

with later(__name__):
    from cowork.tools.search import ripgrep as rg

LINES = 200
_MOST_IN_ONE = 100  # entries shown of one folder below the first
_MOST_FILES = 200_000
_MOST_IGNORED = 20


@tool("LS", family="read", reads=True, effects=touches("read", "path"), line=path_line)
async def ls(
    ctx: ToolContext,
    path: Annotated[str, "Folder"] = ".",
    ignore: Annotated[list[str] | None, "Globs to leave out"] = None,
) -> ToolRecord:
    place = rg.existing(ctx, path or ".")
    if not place.is_dir():
        raise ToolError("INVALID_PARAM", f"{rg.called(ctx, place)} is a file. Read it, or LS its folder.")
    tree = FolderTree(ctx, place, ignore or ())
    outcome = await rg.run(["--files", *(f"-g!{glob}" for glob in ignore or ())], "./", place, tree.take)
    try:
        ignored = tree.open("", LINES, LINES + 1)
    except OSError as error:
        raise ToolError("ACCESS_DENIED", f"{rg.called(ctx, place)} cannot be listed: {error.strerror}.") from error
    await tree.unfold()
    return _record(ctx, tree, ignored, outcome)


class FolderTree:
    """What rg saw under a folder, and what is shown of it. A folder is its path below that one, with a slash."""

    def __init__(self, ctx: ToolContext, place: Path, left_out: Sequence[str]) -> None:
        self._ctx = ctx
        self.place = place
        self._left_out = [glob.strip("/") for glob in left_out]
        self._rest = b""
        self.counts: Counter[str] = Counter()  # the files of each folder
        self.files: set[str] = set()
        self.entries: dict[
            str, list[tuple[str, str]]
        ] = {}  # of a folder that is shown: each as text, and a folder's name
        self.hidden: dict[str, int] = {}  # entries that did not fit

    def take(self, chunk: bytes) -> bool:
        *names, self._rest = (self._rest + chunk).split(b"\0")
        for raw in names:
            name = os.fsdecode(raw).removeprefix("./")
            self.files.add(name)
            end = name.find("/")
            while end >= 0:
                self.counts[name[: end + 1]] += 1
                end = name.find("/", end + 1)
        return len(self.files) < _MOST_FILES

    async def unfold(self) -> None:
        """Open folders level by level for as long as the lines last."""
        room = LINES - len(self.entries[""])
        waiting = deque([""])
        while waiting and room > 0:
            await asyncio.sleep(0)  # there may be thousands
            for _, folder in self.entries.get(waiting.popleft(), ()):
                if not self.counts[folder]:
                    continue
                try:
                    self.open(folder, _MOST_IN_ONE, room)
                except OSError:
                    continue
                room -= len(self.entries.get(folder, ())) + (folder in self.hidden)
                waiting.append(folder)

    def open(self, folder: str, most: int, room: int) -> list[str]:
        """Show the entries of a folder, its folders first, unless they take more lines than there are; gives the names
        that are ignored."""
        folders: list[tuple[str, str]] = []
        files: list[tuple[str, str]] = []
        ignored: list[str] = []
        with os.scandir(self.place / folder) as found:
            for entry in sorted(found, key=lambda e: e.name):
                inner, name = folder + entry.name, rg.spelled(entry.name)
                if any(fnmatch(inner, glob) or fnmatch(entry.name, glob) for glob in self._left_out):
                    continue
                is_folder = entry.is_dir(follow_symlinks=False)
                if entry.is_symlink():
                    files.append((f"{name} -> {rg.spelled(os.readlink(entry.path))}", ""))
                elif is_folder and (self.counts[f"{inner}/"] or _is_empty(entry.path)):
                    folders.append((f"{name}/", f"{inner}/"))
                elif inner in self.files and rg.may_read(self._ctx, Path(entry.path)):
                    files.append((name, ""))
                else:
                    ignored.append(f"{name}/" if is_folder else name)
        shown, hidden = [*folders, *files][:most], len(folders) + len(files) - most
        if len(shown) + (hidden > 0) <= room:
            self.entries[folder] = shown
            if hidden > 0:
                self.hidden[folder] = hidden
        return ignored

    def lines(self, folder: str = "", indent: str = "") -> Iterator[str]:
        for text, inner in self.entries[folder]:
            if inner and inner in self.entries:
                yield indent + text
                yield from self.lines(inner, indent + "  ")
            else:
                yield indent + text + (f" ({self.counts[inner]:,})" if self.counts[inner] else "")
        if folder and folder in self.hidden:
            yield f"{indent}… {self.hidden[folder]:,} more"


def _is_empty(path: str) -> bool:
    try:
        with os.scandir(path) as entries:
            return next(entries, None) is None
    except OSError:
        return False


def _record(ctx: ToolContext, tree: FolderTree, ignored: list[str], outcome: rg.RipgrepOutcome) -> ToolRecord:
    lines, total = list(tree.lines()), len(tree.files)
    notes = outcome.notes()
    if outcome.stopped == "limit":
        notes.append(f"More than {_MOST_FILES:,} files: LS a folder further down.")
    if "" in tree.hidden:
        notes.append(f"{tree.hidden['']:,} more entries here; Glob finds them by name.")
    head = f"{rg.called(ctx, tree.place)}/: {plural(total, 'file')} in {plural(len(tree.counts) + 1, 'folder')}"
    more = f" and {len(ignored) - _MOST_IGNORED} more" if len(ignored) > _MOST_IGNORED else ""
    left = [f"Ignored: {', '.join(ignored[:_MOST_IGNORED])}{more}"] if ignored else []
    text = "\n".join([head, *(lines or ["(empty)"]), *left, *notes])
    display: Json = {"kind": "files", "paths": [line.strip() for line in lines], "total": total}
    display["summary"] = plural(total, "file")
    data: Json = {"files": total, "folders": len(tree.counts), "shown": len(lines), "ignored": ignored[:100]}
    return (partial if notes else ok)(text, display=display, truncated=bool(notes), **data)
