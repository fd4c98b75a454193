"""The text being written: large pastes folded to chips, history across sessions, and what is sent in the end."""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document

from cowork.core.hygiene import visible
from cowork.frontends.repl.view.styled import Line, clip_cells, cut_rows, plain, width

_FOLD_LINES, _FOLD_CHARACTERS = 8, 1_200  # a paste larger than this becomes a chip
_WHOLE_CHIP = re.compile(r"\[image (/[^\]\n]+)\]")  # with its path, for whoever goes on
_CHIP = re.compile(r"(\[pasted \d+ lines?(?: #\d+)?\]|\[image [^\]\n]+\])")
_IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_KEPT = 2_000  # history entries
_LONGEST = 100_000  # characters of an entry


class History:
    """What was sent, newest last, in a file that several chats may append to."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    @cached_property
    def entries(self) -> list[str]:
        """Read at first use, so that it costs nothing at the start."""
        try:
            rows = self._path.read_text("utf-8", errors="replace").splitlines()[-_KEPT:] if self._path else []
        except OSError:
            return []
        return [text for text in map(_entry, rows) if text]

    def add(self, text: str) -> None:
        if not text.strip() or (self.entries and self.entries[-1] == text):
            return
        self.entries.append(text)
        if self._path is None or len(text) > _LONGEST:
            return
        record = json.dumps({"at": round(time.time(), 3), "text": text}, ensure_ascii=False) + "\n"
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, record.encode("utf-8", "surrogatepass"))
            finally:
                os.close(descriptor)
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
            data = self._chip(image)
        elif data.count("\n") >= _FOLD_LINES or len(data) >= _FOLD_CHARACTERS:
            lines = data.rstrip("\n").count("\n") + 1
            chip = f"[pasted {lines} line{'s' if lines != 1 else ''}]"
            if chip in self.pastes:
                chip = f"{chip[:-1]} #{len(self.pastes) + 1}]"
            self.pastes[chip], data = data, chip
        self.buffer.insert_text(data)

    def attach(self, image: Path) -> None:
        """Put an image into the message, as a chip."""
        self.buffer.insert_text(self._chip(image))

    def _chip(self, image: Path) -> str:
        chip = f"[image {image.name}]"
        self.images[chip] = image
        return chip

    def take(self) -> tuple[str, tuple[Path, ...]]:
        """(the whole text with pastes unfolded, the images); the input is empty afterwards."""
        raw = self.buffer.text
        images = tuple(path for chip, path in self.images.items() if chip in raw)
        text = _CHIP.sub(lambda m: self.pastes.get(m[0], m[0]), raw).strip()
        self.history.add(text)
        self.clear()
        return text, images

    def clear(self) -> None:
        self.buffer.document = Document()
        self.pastes.clear()  # images stay known: a message that waits may come back
        self._place = None

    def set(self, text: str) -> None:
        """Put a text into the input; a large one is folded again, and the path of an image is its chip again."""
        self.clear()
        text = _WHOLE_CHIP.sub(lambda m: self._chip(Path(m[1])) if Path(m[1]).is_file() else m[0], text)
        if text.count("\n") >= _FOLD_LINES * 2 or len(text) >= _FOLD_CHARACTERS * 4:
            self.paste(text)
        else:
            self.buffer.document = Document(text, len(text))

    def backspace(self) -> None:
        """Delete the character before the cursor, or the whole chip that ends there."""
        before = self.buffer.document.text_before_cursor
        chip = next((chip for chip in (*self.pastes, *self.images) if before.endswith(chip)), "")
        self.buffer.delete_before_cursor(len(chip) or 1)

    def older(self) -> None:
        """The entry before in the history; what was being written is kept."""
        if self._place is None:
            self._draft = self.buffer.text
        place = len(self.history.entries) if self._place is None else self._place
        if place > 0:
            self.set(self.history.entries[place - 1])
            self._place = place - 1

    def newer(self) -> None:
        """The entry after, and in the end what was being written."""
        if self._place is None:
            return
        place = self._place + 1
        at_end = place >= len(self.history.entries)
        self.set(self._draft if at_end else self.history.entries[place])
        self._place = None if at_end else place


def input_lines(
    buffer: Buffer, columns: int, rows: int, prompt: str, *, placeholder: str = "", drawn_cursor: bool = False
) -> tuple[list[Line], tuple[int, int]]:
    """(lines of the input wrapped to the width, cursor row and column); long input scrolls with the cursor.

    With `drawn_cursor` the cursor is part of the lines, so that the terminal's own can rest elsewhere.
    """
    mark = width(prompt)
    room = max(4, columns - mark - 1)
    out: list[Line] = []
    cursor = (0, mark)
    document = buffer.document
    for number, text in enumerate(document.lines):
        pieces = _pieces(text, room)
        if number == document.cursor_position_row:
            before = _pieces(text[: document.cursor_position_col], room)
            row, column = len(before) - 1, width(before[-1])
            if column >= room:
                row, column = row + 1, 0
            if row >= len(pieces):
                pieces.append("")
            cursor = (len(out) + row, mark + column)
        for piece in pieces:
            lead = ("accent.bold", prompt) if not out else ("", " " * mark)
            parts = _CHIP.split(piece)  # every other one is a chip
            out.append([lead, *(("code" if place % 2 else "", part) for place, part in enumerate(parts))])
    if not buffer.text:
        out[0] += [("faint", placeholder)]
    if drawn_cursor:
        out[cursor[0]] = _reversed_at(out[cursor[0]], cursor[1])
    first = max(0, min(cursor[0] - rows + 1, len(out) - rows))
    return out[first : first + rows], (cursor[0] - first, cursor[1])


def _reversed_at(line: Line, column: int) -> Line:
    """The line with the character at the column drawn as a cursor."""
    out: Line = []
    place = 0
    for style, text in line:
        head = clip_cells(text, column - place) if place <= column < place + width(text) else text
        rest = text[len(head) :]
        out.append((style, head))
        if rest:
            out += [("reverse", rest[0]), (style, rest[1:])]
        place += width(text)
    return out if column < place else [*out, ("reverse", " ")]


def _pieces(text: str, columns: int) -> list[str]:
    return [plain(row) for row in cut_rows([("", visible(text).expandtabs(4))], columns)]


def _entry(row: str) -> str:
    try:
        entry = json.loads(row)
    except ValueError:
        return ""
    return str(entry.get("text", "")) if isinstance(entry, dict) else ""


def _image_path(data: str) -> Path | None:
    """The file a dropped path stands for, when it is an image that exists."""
    name = data.strip().strip("'\"").replace("\\ ", " ")
    if "\n" in name or not name.lower().endswith(_IMAGES) or len(name) > 1_000:
        return None
    path = Path(name).expanduser()
    return path if path.is_file() else None
