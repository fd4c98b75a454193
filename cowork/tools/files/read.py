"""Read: a window of numbered lines of a file of any size and encoding; images, notebooks and PDFs as what they are.

A file read again is shown again: what the model saw of it may have been cleared or summarised away since.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from cowork.core.blocks import Image, Json
from cowork.core.errors import ToolError
from cowork.core.later import later
from cowork.core.ports import ToolRecord, ok, partial
from cowork.core.workspace import Workspace
from cowork.tools.base import Param, ToolContext, path_line, tool, touches
from cowork.tools.files import access

with later(__name__):
    from cowork.tools import converter
    from cowork.tools.files import media

CHUNK = 1 << 18
COUNT_BYTES = 1 << 26  # how far the lines of a large file are counted
SCAN_SECONDS = 10.0
MAX_LINE = 2_000  # characters of one line that are shown
PAGE_LINES = 1_996  # what one result may hold, so that with its notes the central clipping leaves it alone
PAGE_BYTES = 48_000
_OVERHEAD = 12  # its number, tab and newline
_KEPT = 4 * MAX_LINE + 4  # bytes of a line that can matter for what is shown of it


@dataclass(slots=True)
class Window:
    """Lines `first`… as far as they were asked for and fit."""

    first: int
    lines: list[str] = field(default_factory=list)  # without their newlines; of a long one the start, and a note
    clipped: bool = False  # a line was too long
    total: int = 0  # lines passed so far; all of them when `ended`
    ended: bool = False  # the end of the file was reached
    room: int = PAGE_BYTES  # below 0: a line did not fit any more

    @property
    def last(self) -> int:
        return self.first + len(self.lines) - 1

    def add(self, data: bytes, length: int, encoding: str) -> None:
        """Take in a line, of which this is the start, if the page has room."""
        if length == len(data) and data.endswith(b"\r"):
            data, length = data[:-1], length - 1
        text = access.printable(data.decode(encoding, "surrogateescape" if encoding == "utf-8" else "replace"))
        shown = text[:MAX_LINE]
        self.room -= len(shown.encode("utf-8")) + _OVERHEAD
        if self.room >= 0 or not self.lines:
            if len(text) > MAX_LINE:
                self.clipped = True
                shown += f" … [{length - len(shown.encode(encoding, 'replace'))} more bytes]"
            self.lines.append(shown)


def _line(args: Mapping[str, Any], cwd: str) -> str:
    first, limit = int(args.get("offset") or 1), int(args.get("limit") or 0)
    lines = f" {first}-{first + limit - 1 if limit else ''}" if args.get("offset") or limit else ""
    return path_line(args, cwd) + lines


@tool("Read", family="read", reads=True, effects=touches("read", "file_path"), line=_line)
async def read(
    ctx: ToolContext,
    file_path: Annotated[str, "Absolute, or relative to the working directory"],
    offset: Annotated[int, Param("First line, from 1", minimum=0)] = 1,
    limit: Annotated[int, Param("Number of lines", minimum=1)] = 2000,
) -> ToolRecord:
    path, offset = ctx.resolve(file_path), max(1, offset)  # 0 can only mean the start
    shown = access.label(ctx.workspace, path)
    try:
        # In a thread, since a slow disk must not stop the rest.
        size, head, found = await asyncio.to_thread(_load, ctx.workspace, path, offset, limit)
    except FileNotFoundError as error:
        raise access.missing(ctx, path) from error
    if isinstance(found, Window):
        too_large = f"The file is over {access.MAX_TEXT // 1_000_000} MB: Edit does not take it, use Bash to change it."
        return _lines(shown, found, limit, size, "utf-8", [too_large])
    if media.is_image(head):
        return _image(shown, found, size)
    if head.startswith(b"%PDF-"):
        return await _pdf(shown, found, offset, limit)
    if found is None:
        raise _binary(shown, head)
    return _text(ctx, path, found, offset, limit)


def _load(workspace: Workspace, path: Path, offset: int, limit: int) -> tuple[int, bytes, bytes | Window | None]:
    """(size, start, all of it when small, else the window of a text); reads no more than is needed."""
    with access.open_file(workspace, path) as (fd, status):
        head = access.read_up_to(fd, access.SAMPLE)
        is_text = not media.is_image(head) and not head.startswith(b"%PDF-")
        most = access.MAX_TEXT if is_text else media.MAX_IMAGE if media.is_image(head) else converter.MAX_PDF
        if status.st_size <= most:
            data = head + access.read_up_to(fd, most + 1 - len(head))
            if len(data) <= most:
                return len(data), head, data
        bom, encoding = access.mark(head)
        if not is_text or (not bom and access.looks_binary(head)):
            return status.st_size, head, None
        os.lseek(fd, len(bom), os.SEEK_SET)
        if not encoding:
            found = access.decode(head[: head.rfind(b"\n") + 1] or head[:-4])
            encoding = found.encoding if found else "latin-1"
        taken = window(_chunks(fd), encoding, offset, limit, budget=COUNT_BYTES)
        return max(status.st_size, len(head)), head, taken


def _chunks(fd: int) -> Iterator[bytes]:
    deadline = time.monotonic() + SCAN_SECONDS
    while chunk := os.read(fd, CHUNK):
        yield chunk
        if time.monotonic() > deadline:
            said = f"That line is too far into the file to be found within {SCAN_SECONDS:.0f} s."
            raise ToolError("TIMEOUT", f"{said} Use Grep, or tail and sed in Bash.")


def _text(ctx: ToolContext, path: Path, data: bytes, offset: int, limit: int) -> ToolRecord:
    shown = access.label(ctx.workspace, path)
    content = access.decode(data)
    if content is None:
        raise _binary(shown, data[: access.SAMPLE])
    access.remember(ctx.state, path, data)
    if not content.text:
        only = "only a byte order mark" if data else "0 bytes"
        return ok(f"{shown} is empty ({only}).", display=_display("empty"), path=shown, lines=0, total_lines=0)
    book = media.cells(content.text) if path.suffix == ".ipynb" else None
    if book is not None:
        return _parts(shown, "cells", book[offset - 1 :], offset, limit, len(book))
    pieces = (data[at : at + CHUNK] for at in range(len(content.bom), len(data), CHUNK))
    taken = window(pieces, content.encoding, offset, limit, budget=len(data) + 1)
    name = content.encoding + (" with BOM" if content.bom else "")
    about = [] if name == "utf-8" else [f"The file is {name}; Edit keeps that."]
    return _lines(shown, taken, limit, len(data), name, about)


def _lines(shown: str, taken: Window, limit: int, size: int, encoding: str, about: list[str]) -> ToolRecord:
    """The window as numbered lines, and below it what the reader should know."""
    if not taken.lines:
        said = f"`offset` {taken.first} is past the end: {shown} has {taken.total} lines."
        raise ToolError("INVALID_PARAM", said, total_lines=taken.total)
    more = not taken.ended or taken.last < taken.total
    cut = more and len(taken.lines) < limit
    notes = []
    if more:
        of = f"of {taken.total}" if taken.ended else f"of more than {taken.total} ({size / 1e6:,.0f} MB)"
        notes.append(f"Lines {taken.first}-{taken.last} {of}. Go on with offset={taken.last + 1}.")
    if taken.clipped:
        notes.append(f"Lines over {MAX_LINE} characters are clipped; see the rest with Grep or cut in Bash.")
    notes += about
    numbered = (f"{number}\t{line}" for number, line in enumerate(taken.lines, taken.first))
    text = "\n".join(numbered) + ("\n\n[" + " ".join(notes) + "]" if notes else "")
    count = len(taken.lines)
    total = taken.total if taken.ended else None
    data: Json = {"path": shown, "offset": taken.first, "lines": count, "total_lines": total}
    data |= {"truncated": cut or taken.clipped, "encoding": encoding, "bytes": size}
    display = _display("1 line" if count == 1 else f"{count} lines")
    return (partial if cut or taken.clipped else ok)(text, display=display, **data)


def _image(shown: str, data: bytes | None, size: int) -> ToolRecord:
    smaller = "Make a smaller copy with a command in Bash and Read that."
    if data is None:
        said = f"{shown} is an image of {size / 1e6:.1f} MB; at most {media.MAX_IMAGE / 1e6:.2f} MB can be shown."
        raise ToolError("INVALID_PARAM", f"{said} {smaller}")
    found = media.picture(data)
    if found is None:
        said = f"{shown} begins like an image but is damaged or cut off, so it cannot be shown."
        raise ToolError("BINARY_FILE", said)
    if max(found.width, found.height) > media.MAX_SIDE:
        said = f"{shown} is {found.width}×{found.height} pixels; at most {media.MAX_SIDE} a side can be shown."
        raise ToolError("INVALID_PARAM", f"{said} {smaller}")
    kind = found.media_type.removeprefix("image/").upper()
    said = f"{kind}, {found.width}×{found.height}, {len(data) / 1000:.1f} KB"
    facts = {"media_type": found.media_type, "width": found.width, "height": found.height, "bytes": len(data)}
    text = f"{shown}: {said}. The image is attached."
    return ok(text, display=_display(said), images=[found.block(data)], path=shown, **facts)


async def _pdf(shown: str, data: bytes | None, offset: int, limit: int) -> ToolRecord:
    if data is None:
        said = f"{shown} is a PDF over {converter.MAX_PDF // 1_000_000} MB. Use pdftotext in Bash."
        raise ToolError("INVALID_PARAM", said)
    texts, total = await converter.pdf_pages(data, offset, limit, room=PAGE_BYTES - 2000)
    titled = [(f"# page {offset + i}\n{t.strip() or '(no text on this page)'}", ()) for i, t in enumerate(texts)]
    return _parts(shown, "pages", titled, offset, limit, total)


def _parts(
    shown: str, noun: str, parts: Sequence[tuple[str, Sequence[Image]]], offset: int, limit: int, total: int
) -> ToolRecord:
    """Cells of a notebook or pages of a PDF, from `offset` on: `offset` and `limit` count those."""
    if offset > max(total, 1):
        raise ToolError("INVALID_PARAM", f"`offset` {offset} is past the end: {shown} has {total} {noun}.", total=total)
    fitting: list[str] = []
    room = PAGE_BYTES
    for part, _ in parts[:limit]:
        room -= len(part.encode("utf-8", "replace")) + 2
        if room < 0 and fitting:
            break
        fitting.append(access.printable(part))
    last = offset + len(fitting) - 1
    text = "\n\n".join(fitting) or f"{shown} has no {noun}."
    if last < total:
        text += f"\n\n[{noun.capitalize()} {offset}-{last} of {total}. Go on with offset={last + 1}.]"
    cut = last < total and len(fitting) < limit
    pictures = [image for _, images in parts[: len(fitting)] for image in images][:8]
    data = {"path": shown, "offset": offset, noun: len(fitting), f"total_{noun}": total, "truncated": cut}
    return (partial if cut else ok)(text, display=_display(f"{len(fitting)} {noun}"), images=pictures, **data)


def _binary(shown: str, head: bytes) -> ToolError:
    what = f"binary ({kind})" if (kind := media.kind_of(head)) else "binary"
    said = f"{shown} is {what}, not text. Look at it with a command in Bash (file, xxd, strings)."
    return ToolError("BINARY_FILE", said)


def _display(summary: str) -> dict[str, Any]:
    return {"kind": "text", "text": "", "summary": summary}


# ---------------------------------------------------------------- windows of lines


def window(chunks: Iterable[bytes], encoding: str, first: int, limit: int, *, budget: int) -> Window:
    """The window of these lines. Once it has them it goes on counting, but not beyond `budget` bytes."""
    if encoding.startswith(("utf-16", "utf-32")):
        chunks, encoding = _as_utf8(chunks, encoding), "utf-8"
    out, limit = Window(first), min(limit, PAGE_LINES)
    line, length = b"", 0  # the start of the line at hand, and how long it is so far

    def wanting() -> bool:
        return len(out.lines) < limit and out.room >= 0

    for chunk in chunks:
        newlines = chunk.count(b"\n")
        if not wanting() or out.total + newlines < first - 1:  # nothing of it is shown
            out.total += newlines
            length = len(chunk) - chunk.rfind(b"\n") - 1 if newlines else length + len(chunk)
        else:
            *whole, rest = chunk.split(b"\n")
            for piece in whole:
                out.total += 1
                if out.total >= first and wanting():
                    out.add(line + piece[: _KEPT - len(line)], length + len(piece), encoding)
                line, length = b"", 0
            line, length = line + rest[: _KEPT - len(line)], length + len(rest)
        budget -= len(chunk)
        if budget <= 0 and (not wanting() or length > _KEPT):
            break
    else:
        out.ended = True
    if length:  # the last line may have no newline
        out.total += 1
        if out.total >= first and wanting():
            out.add(line, length, encoding)
    return out


def _as_utf8(chunks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    for chunk in chunks:
        yield decoder.decode(chunk).encode("utf-8", "replace")
    yield decoder.decode(b"", final=True).encode("utf-8", "replace")
