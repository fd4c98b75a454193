"""The text being written: large pastes folded to chips, history across sessions, and what is sent in the end."""

from __future__ import annotations

import json
import os
import re
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import count
from pathlib import Path
from typing import TypeVar

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document

from cowork.core.blocks import as_object
from cowork.core.hygiene import visible
from cowork.frontends.styled import Line, cut_rows, plain, width

_FOLD_LINES, _FOLD_CHARACTERS = 8, 1_200  # a paste larger than this becomes a chip
_IMAGE = re.compile(r"\[image (/.+?\.(?:png|jpe?g|gif|webp))\]", re.IGNORECASE)  # as it is sent: with its path
_CHIP = re.compile(r"(\[pasted \d+ lines?(?: #\d+)?\]|\[image [^\]\n]+\])")
_IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_KEPT = 2_000  # history entries
_LONGEST = 100_000  # characters of an entry
MARKS = ("/", "!", "#")  # at the very start of a line they make it a command, a shell line or a note
T = TypeVar("T")


class History:
    """What was sent, newest last, in a file that several chats may append to."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    @cached_property
    def entries(self) -> list[str]:
        """Read at first use, so that it costs nothing at the start."""
        found: list[str] = []
        with suppress(OSError):
            for row in self._path.read_text("utf-8", errors="replace").split("\n")[-_KEPT:] if self._path else ():
                with suppress(ValueError, RecursionError):
                    found.append(str(as_object(json.loads(row)).get("text", "")))
        return [text for text in found if text]

    def add(self, text: str) -> None:
        if not text.strip() or (self.entries and self.entries[-1] == text):
            return
        self.entries.append(text)
        if self._path is None or len(text) > _LONGEST:
            return
        record = json.dumps({"at": round(time.time(), 3), "text": text}, ensure_ascii=False) + "\n"
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(self._path, "ab", buffering=0, opener=partial(os.open, mode=0o600)) as file:
                file.write(record.encode("utf-8", "surrogatepass"))
        except OSError:
            self._path = None  # a read-only home must not stop the chat


@dataclass(slots=True)
class Composer:
    """The input buffer and what belongs to it."""

    history: History
    buffer: Buffer = field(default_factory=lambda: Buffer(multiline=True))
    pastes: dict[str, str] = field(default_factory=dict)  # chip -> text
    images: dict[str, Path] = field(default_factory=dict)  # chip -> file
    _place: int | None = None  # in the history
    _draft: str = ""

    @property
    def text(self) -> str:
        return self.buffer.text

    def paste(self, data: str) -> None:
        """Insert a paste; a large one as a chip, the path of an image as an image."""
        data = data.replace("\r\n", "\n").replace("\r", "\n")
        image = _image_path(data)
        if image is not None:
            data = _chip(self.images, f"image {image.name}", image)
        elif data.count("\n") >= _FOLD_LINES or len(data) >= _FOLD_CHARACTERS:
            data = self._fold(data)
        elif not self.buffer.cursor_position and data.startswith(MARKS) and "\n" in data.strip():
            data = f" {data}"  # a text that begins so is a message; one line may be meant as if typed
        self.buffer.insert_text(data)

    def take(self) -> tuple[str, tuple[Path, ...]]:
        """(the whole text, pastes unfolded and images by their paths, the images); the input is empty afterwards.

        A mark that was not typed at the very start stays behind a blank: wherever the text comes back, it is a message.
        """
        raw = self.buffer.text
        text = _CHIP.sub(lambda m: self.pastes.get(m[0], m[0]), raw).strip()
        if text.startswith(MARKS) and not raw.startswith(text[0]):
            text = f" {text}"
        chips = sorted((chip for chip in self.images if chip in text), key=text.index)
        for chip in chips:
            text = text.replace(chip, f"[image {self.images[chip]}]")
        self.history.add(text)
        self.clear()
        return text, tuple(self.images[chip] for chip in chips)

    def clear(self) -> None:
        self.buffer.document = Document()  # what chips stand for stays known: they may come back
        self._place = None

    def set(self, text: str, *, draft: str = "") -> None:
        """Put a text into the input, folded again where it is large; a draft, which has its chips, comes behind it."""
        self.clear()
        text = _IMAGE.sub(self._show_image, f" {text}" if draft and text.startswith(MARKS) else text)
        if text.count("\n") >= _FOLD_LINES * 2 or len(text) >= _FOLD_CHARACTERS * 4:
            mark = text[: text.startswith(MARKS)]  # in a chip it would count as pasted
            text = mark + self._fold(text[len(mark) :])
        self.buffer.document = Document(text + draft, len(text + draft))

    def _fold(self, text: str) -> str:
        lines = text.rstrip("\n").count("\n") + 1
        return _chip(self.pastes, f"pasted {lines} line{'s' if lines != 1 else ''}", text)

    def _show_image(self, found: re.Match[str]) -> str:
        image = Path(found[1])
        return _chip(self.images, f"image {image.name}", image) if image.is_file() else f"[no image: {image} is gone]"

    def backspace(self) -> None:
        """Delete the character before the cursor, or the whole chip that ends there."""
        before = self.buffer.document.text_before_cursor
        chip = next((chip for chip in (*self.pastes, *self.images) if before.endswith(chip)), "")
        self.buffer.delete_before_cursor(len(chip) or 1)

    def browse(self, step: int) -> None:
        """Go back and forth in the history; behind its newest entry is what was being written."""
        entries = self.history.entries
        if self._place is None:
            self._draft = self.buffer.text
        place = (len(entries) if self._place is None else self._place) + step
        if 0 <= place < len(entries):
            self.set(entries[place])
            self._place = place
        elif place == len(entries):
            self.set("", draft=self._draft)


def _chip(known: dict[str, T], name: str, content: T) -> str:
    """What stands for the content in the input; numbered where something else has the name."""
    chips = (f"[{name} #{number}]" if number > 1 else f"[{name}]" for number in count(1))
    return next(chip for chip in chips if known.setdefault(chip, content) == content)


def input_lines(
    buffer: Buffer, columns: int, rows: int, prompt: str, *, placeholder: str = "", drawn_cursor: bool = False
) -> tuple[list[Line], tuple[int, int]]:
    """(lines of the input wrapped to the width, cursor row and column); long input scrolls with the cursor.

    With `drawn_cursor` the cursor is part of the lines, so that the terminal's own can rest elsewhere.
    """
    mark, document = width(prompt), buffer.document
    room = max(4, columns - mark - 1)
    pieces, before = (_pieces(text, room) for text in (document.text, document.text_before_cursor))
    row, head = len(before) - 1, before[-1]
    if width(head) >= room:  # behind a full row the cursor stands in the next
        row, head = row + 1, ""
        pieces[row:row] = [""] if not document.current_line_after_cursor else []
    out: list[Line] = []
    for place, piece in enumerate(pieces):
        shown = _with_chips(piece) if buffer.text else [("faint", placeholder)]
        if drawn_cursor and place == row:
            text = piece if buffer.text else placeholder
            rest = _with_chips(text[len(head) + 1 :]) if buffer.text else [("faint", text[1:])]
            shown = [*_with_chips(text[: len(head)]), ("reverse", text[len(head) :][:1] or " "), *rest]
        out.append([("", " " * mark) if place else ("accent.bold", prompt), *shown])
    first = max(0, min(row - rows + 1, len(out) - rows))
    return out[first : first + rows], (row - first, mark + width(head))


def _with_chips(piece: str) -> Line:
    return [("code" if place % 2 else "", part) for place, part in enumerate(_CHIP.split(piece))]


def _pieces(text: str, columns: int) -> list[str]:
    rows = (cut_rows([("", visible(line).expandtabs(4))], columns) for line in text.split("\n"))
    return [plain(row) for line in rows for row in line]


def _image_path(data: str) -> Path | None:
    """The file a dropped path stands for, when it is an image that exists."""
    name = data.strip().strip("'\"").replace("\\ ", " ")
    if "\n" in name or not name.lower().endswith(_IMAGES) or len(name) > 1_000:
        return None
    path = Path(name).expanduser().absolute()
    return path if path.is_file() else None
