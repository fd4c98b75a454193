"""Knows files by their first bytes, and shows images and Jupyter notebooks as a model can see them."""

from __future__ import annotations

import base64
import json
import re
import struct
from typing import Any

from cowork.core.blocks import Image, as_object
from cowork.core.frozen import frozen

MAX_IMAGE = 3_750_000  # bytes; base64 makes 5 MB of it, which is what the services take
MAX_SIDE = 8_000  # pixels
MAX_OUTPUT = 3_000  # characters of one output of a notebook
MAX_PICTURES = 4  # of one cell

_MAGIC: tuple[tuple[bytes | tuple[bytes, ...], str], ...] = (
    (b"%PDF-", "PDF"),
    (b"PK\x03\x04", "ZIP or Office"),
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"(\xb5/\xfd", "Zstandard"),
    (b"7z\xbc\xaf", "7-Zip"),
    (b"\x7fELF", "ELF program"),
    (b"MZ", "Windows program"),
    (b"\xca\xfe\xba\xbe", "Java class or Mach-O program"),
    (b"\xcf\xfa\xed\xfe", "Mach-O program"),
    (b"SQLite format 3\0", "SQLite database"),
    (b"\0asm", "WebAssembly"),
    (b"BM", "BMP image"),
    ((b"II*\0", b"MM\0*"), "TIFF image"),
    (b"OggS", "Ogg audio"),
    (b"ID3", "MP3 audio"),
    (b"\0\0\1\0", "icon"),
    ((b"wOFF", b"wOF2"), "web font"),
)


@frozen
class Picture:
    """What an image's header says of it."""

    media_type: str
    width: int
    height: int

    def block(self, data: bytes) -> Image:
        return Image(self.media_type, base64.b64encode(data).decode("ascii"))


def kind_of(head: bytes) -> str:
    """What a binary file is, in words; empty when nothing is known of it."""
    if head[4:8] == b"ftyp":
        return "MP4 or HEIF media"
    return next((name for magic, name in _MAGIC if head.startswith(magic)), "")


def is_image(head: bytes) -> bool:
    """Whether these first bytes are of a format models can see."""
    is_webp = head.startswith(b"RIFF") and head[8:12] == b"WEBP"
    return is_webp or head.startswith((b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a"))


def picture(data: bytes) -> Picture | None:
    """What the image is; None when it is damaged or cut off: services refuse such a one, and with it the whole
    conversation."""
    try:
        if data.startswith(b"\x89PNG"):
            kind, whole, size = "png", b"IEND" in data[-1024:], struct.unpack(">II", data[16:24])
        elif data.startswith(b"GIF8"):
            kind, whole, size = "gif", b";" in data[-64:], struct.unpack("<HH", data[6:10])
        elif data.startswith(b"\xff\xd8"):
            kind, whole, size = "jpeg", b"\xff\xd9" in data[-4096:], _jpeg_size(data)
        elif is_image(data):
            kind, whole, size = "webp", len(data) >= 8 + int(struct.unpack("<I", data[4:8])[0]), _webp_size(data)
        else:
            return None
    except (struct.error, IndexError):
        return None
    return Picture(f"image/{kind}", *size) if whole and min(size) else None


_FRAME = re.compile(rb"\xff[\xc0-\xc3\xc5-\xc7\xc9-\xcb\xcd-\xcf]")


def _jpeg_size(data: bytes) -> tuple[int, int]:
    at = 2
    while at + 9 < len(data) and data[at] == 0xFF:
        if _FRAME.match(data, at):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + int(struct.unpack(">H", data[at + 2 : at + 4])[0]) if data[at + 1] != 0xFF else 1
    return 0, 0


def _webp_size(data: bytes) -> tuple[int, int]:
    match data[12:16]:
        case b"VP8X":
            return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
        case b"VP8L":
            bits = int.from_bytes(data[21:25], "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            width, height = struct.unpack("<HH", data[26:30])
            return width & 0x3FFF, height & 0x3FFF
    return 0, 0


# ---------------------------------------------------------------- notebooks

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


def cells(text: str) -> list[tuple[str, list[Image]]] | None:
    """Each cell as text and the images it shows; None when this is no notebook."""
    try:
        book = json.loads(text)
    except (ValueError, RecursionError):
        return None
    given = book.get("cells") if isinstance(book, dict) else None
    if not isinstance(given, list):
        return None
    return [_cell(number, cell) for number, cell in enumerate(given, 1) if isinstance(cell, dict)]


def _cell(number: int, cell: dict[str, Any]) -> tuple[str, list[Image]]:
    kind = str(cell.get("cell_type", "cell"))
    count = cell.get("execution_count")
    ran = f" (run {count})" if isinstance(count, int) else ""
    parts = [f"# cell {number}: {kind}{ran}", _source(cell.get("source"))]
    images: list[Image] = []
    outputs = cell.get("outputs")
    for output in map(as_object, outputs if isinstance(outputs, list) else ()):
        said = _ANSI.sub("", _output(output)).strip("\n")
        if len(said) > MAX_OUTPUT:
            said = f"{said[:MAX_OUTPUT]}\n… {len(said) - MAX_OUTPUT} more characters of output"
        image = _image(output)
        images += [image] if image else []
        shown = "(an image)" if image and not said else said
        if shown:
            parts.append(f"# output\n{shown}")
    return "\n".join(parts), images[:MAX_PICTURES]


def _output(output: dict[str, Any]) -> str:
    match output.get("output_type"):
        case "stream":
            return _source(output.get("text"))
        case "error":
            trace = output.get("traceback")
            lines = [line for line in trace if isinstance(line, str)] if isinstance(trace, list) else []
            return "\n".join(lines) or f"{output.get('ename')}: {output.get('evalue')}"
    data = as_object(output.get("data"))
    return next((_source(data[kind]) for kind in ("text/markdown", "text/plain", "text/html") if kind in data), "")


def _image(output: dict[str, Any]) -> Image | None:
    data = as_object(output.get("data"))
    encoded = next((_source(data[kind]) for kind in ("image/png", "image/jpeg") if kind in data), "")
    try:
        raw = base64.b64decode(encoded)
    except ValueError:
        return None
    found = picture(raw) if 0 < len(raw) <= MAX_IMAGE else None
    return found.block(raw) if found and max(found.width, found.height) <= MAX_SIDE else None


def _source(value: object) -> str:
    """Text that a notebook keeps as a string or as a list of lines."""
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""
