"""Bytes as text and back, exactly: encodings, byte order marks and newlines of files survive every change."""

from __future__ import annotations

import codecs
import re
from dataclasses import replace

from cowork.core.frozen import frozen

_BOMS = (  # the longer mark first: UTF-32's begins with UTF-16's
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
SAMPLE = 8192
_CONTROL = bytes(set(range(32)) - {8, 9, 10, 12, 13, 27})


@frozen
class Content:
    """A text file's content: `text` without mark, newlines as they are, bytes that are no UTF-8 as surrogates."""

    text: str
    encoding: str = "utf-8"
    bom: bytes = b""

    def encode(self) -> bytes:
        """The exact bytes; UnicodeEncodeError when the encoding has no room for a character."""
        errors = "surrogateescape" if self.encoding == "utf-8" else "strict"
        return self.bom + self.text.encode(self.encoding, errors)

    def with_text(self, text: str) -> Content:
        return replace(self, text=text)

    @property
    def newline(self) -> str:
        """The one newline of the file: "\\n", "\\r\\n", "mixed", or "" where it has none."""
        total, pairs = self.text.count("\n"), self.text.count("\r\n")
        if not total:
            return ""
        return "\r\n" if pairs == total else "mixed" if pairs else "\n"

    @property
    def encoding_name(self) -> str:
        return self.encoding + (" with BOM" if self.bom else "")


def decode(data: bytes) -> Content | None:
    """The text of these bytes; None when they are not text."""
    bom, encoding = mark(data)
    if bom:
        return _decode_marked(data[len(bom) :], encoding, bom)
    if looks_binary(data[:SAMPLE]):
        return None
    try:
        return Content(data.decode("utf-8"))
    except UnicodeDecodeError:
        return Content(*_decode_odd(data))


def mark(data: bytes) -> tuple[bytes, str]:
    """The byte order mark at the start and the encoding it stands for; both empty without one."""
    return next(((bom, encoding) for bom, encoding in _BOMS if data.startswith(bom)), (b"", ""))


def looks_binary(sample: bytes) -> bool:
    """Whether the start of a file without a mark is not text: a NUL, or many control characters."""
    if b"\0" in sample:
        return True
    controls = len(sample) - len(sample.translate(None, _CONTROL))
    return controls * 10 > len(sample)


def printable(text: str) -> str:
    """The text with NULs and bytes that had no meaning shown as �, so that it can be sent as UTF-8."""
    return text if text.isascii() and "\0" not in text else _UNSENDABLE.sub("�", text)


_SURROGATE = re.compile("[\ud800-\udfff]")
_UNSENDABLE = re.compile("[\0\ud800-\udfff]")


def _decode_marked(data: bytes, encoding: str, bom: bytes) -> Content | None:
    try:
        text = data.decode(encoding, "surrogateescape" if encoding == "utf-8" else "strict")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text[:SAMPLE] else Content(text, encoding, bom)


def _decode_odd(data: bytes) -> tuple[str, str]:
    """Text that is not clean UTF-8: mostly UTF-8 with a few stray bytes, else cp1252, else latin-1."""
    text = data.decode("utf-8", "surrogateescape")
    strays = len(_SURROGATE.findall(text))
    proper = len(text) - len(text.encode("ascii", "ignore")) - strays
    if proper >= strays:
        return text, "utf-8"
    try:
        return data.decode("cp1252"), "cp1252"
    except UnicodeDecodeError:
        return data.decode("latin-1"), "latin-1"
