"""Knows files by their first bytes, and which images a model can be shown."""

from __future__ import annotations

import base64
import re
import struct

from cowork.core.blocks import Image
from cowork.core.frozen import frozen

MAX_IMAGE = 3_750_000  # bytes; base64 makes 5 MB of it, which is what the services take
MAX_SIDE = 8_000  # pixels

_MAGIC = (
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
    (b"II*\0", "TIFF image"),
    (b"MM\0*", "TIFF image"),
    (b"OggS", "Ogg audio"),
    (b"ID3", "MP3 audio"),
    (b"\0\0\1\0", "icon"),
    (b"wOFF", "web font"),
    (b"wOF2", "web font"),
)


@frozen
class Picture:
    """What an image's header says of it."""

    media_type: str
    width: int
    height: int
    whole: bool  # it has its end, too; services refuse a broken one, and with it the whole conversation

    def block(self, data: bytes) -> Image:
        return Image(self.media_type, base64.b64encode(data).decode("ascii"))


def kind_of(head: bytes) -> str:
    """What a binary file is, in words; empty when nothing is known of it."""
    if head[4:8] == b"ftyp":
        return "MP4 or HEIF media"
    return next((name for magic, name in _MAGIC if head.startswith(magic)), "")


def is_image(head: bytes) -> bool:
    """Whether these first bytes are of a format models can see."""
    return head.startswith((b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a")) or _is_webp(head)


def picture(data: bytes) -> Picture | None:
    """What the image is; None when its header makes no sense."""
    try:
        if data.startswith(b"\x89PNG"):
            width, height = struct.unpack(">II", data[16:24])
            return Picture("image/png", width, height, whole=b"IEND" in data[-1024:])
        if data.startswith(b"GIF8"):
            width, height = struct.unpack("<HH", data[6:10])
            return Picture("image/gif", width, height, whole=b";" in data[-64:])
        if data.startswith(b"\xff\xd8"):
            return _jpeg(data)
        return _webp(data) if _is_webp(data) else None
    except (struct.error, IndexError):
        return None


def _is_webp(head: bytes) -> bool:
    return head.startswith(b"RIFF") and head[8:12] == b"WEBP"


_FRAME = re.compile(rb"\xff[\xc0-\xc3\xc5-\xc7\xc9-\xcb\xcd-\xcf]")


def _jpeg(data: bytes) -> Picture | None:
    at = 2
    while at + 9 < len(data) and data[at] == 0xFF:
        if _FRAME.match(data, at):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return Picture("image/jpeg", width, height, whole=b"\xff\xd9" in data[-4096:])
        at += 2 + int(struct.unpack(">H", data[at + 2 : at + 4])[0]) if data[at + 1] != 0xFF else 1
    return None


def _webp(data: bytes) -> Picture | None:
    whole = len(data) >= 8 + int(struct.unpack("<I", data[4:8])[0])
    match data[12:16]:
        case b"VP8X":
            width = int.from_bytes(data[24:27], "little") + 1
            height = int.from_bytes(data[27:30], "little") + 1
        case b"VP8L":
            bits = int.from_bytes(data[21:25], "little")
            width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            width, height = (side & 0x3FFF for side in struct.unpack("<HH", data[26:30]))
        case _:
            return None
    return Picture("image/webp", width, height, whole)
