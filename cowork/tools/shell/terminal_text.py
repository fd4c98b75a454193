"""Makes program output plain text: escape sequences go, other control characters are spelled out, `\\r` overwrites."""

from __future__ import annotations

import codecs
import re

_LONGEST_LINE = 1 << 16  # a line without an end is passed on in pieces of this size
_LONGEST_PROGRESS = 1 << 12  # of a longer one only the last state is held
_LONGEST_ESCAPE = 1 << 12  # an unfinished sequence longer than this is no sequence

# Inside a string sequence; narrow, so that no input makes matching slow.
_TEXT = r"[^\n\r\x07\x1b\x90\x98\x9c-\x9f]*"
_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor moves
    rf"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f]){_TEXT}(?:\x07|\x1b\\|\x9c)"  # OSC, DCS, SOS, PM, APC with their text
    r"|\x1b[ -/]*[0-OQ-WY-Z\\`-~]"  # the short ones
)
_UNFINISHED = re.compile(
    rf"(?:(?:\x1b\[|\x9b)[0-?]*[ -/]*|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f]){_TEXT}\x1b?|\x1b[ -/]*)\Z"
)
_LINE_START = re.compile(r"(?:\x1b\[|\x9b)[01]?G")  # as good as a carriage return; progress bars use it
_OVERSTRUCK = re.compile(r"[^\n\r\x08]\x08")
_EIGHT_BIT = re.compile(r"[\x90\x98\x9b\x9d-\x9f]")
_SUSPECT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_RUN = re.compile(r"\x00{4,}")
_SPELLED = {i: f"\\x{i:02x}" for i in (*range(9), *range(11, 32), *range(127, 160))}


def plain(text: str) -> str:
    """The text without escape sequences and overwritten parts; other control characters as `\\x07`."""
    if not _SUSPECT.search(text):
        return text
    if "\x1b" in text or _EIGHT_BIT.search(text):
        text = _LINE_START.sub("\r", text)
        text = _ESCAPE.sub("", text)
    if "\x08" in text:
        for _ in range(4):  # overstriking for bold and underline takes one or two
            text = _OVERSTRUCK.sub("", text)
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return _RUN.sub(lambda run: f"\\x00{{{len(run[0])}}}", text).translate(_SPELLED)


class Stream:
    """`plain` for bytes that come in pieces: characters, escape sequences and lines may be split anywhere."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""  # the line that is still being written

    def feed(self, data: bytes) -> str:
        """What has become final."""
        text = self._held + self._decoder.decode(data)
        cut = text.rfind("\n") + 1
        if len(text) - cut > _LONGEST_LINE:
            cut = len(text) - self._tail(text)
        elif len(text) - cut > _LONGEST_PROGRESS:
            text = text[:cut] + _latest(text[cut:])
        self._held = text[cut:]
        return plain(text[:cut])

    @property
    def pending(self) -> str:
        """The unfinished last line as it looks now."""
        return plain(self._held[: len(self._held) - self._tail(self._held)].rstrip("\r"))

    def flush(self) -> str:
        """The unfinished line, as if it ended here."""
        cut = len(self._held) - self._tail(self._held)
        text, self._held = self._held[:cut], self._held[cut:]
        return plain(text)

    def finish(self) -> str:
        """The rest, once there will be no more."""
        text = self._held + self._decoder.decode(b"", final=True)
        self._held = ""
        return plain(text)

    @staticmethod
    def _tail(text: str) -> int:
        """Length of an escape sequence that the text ends inside of."""
        start = max(0, len(text) - _LONGEST_ESCAPE)
        match = _UNFINISHED.search(text, start)
        return len(text) - match.start() if match else 0


def _latest(line: str) -> str:
    """The end of a line that was overwritten many times, from its last state that shows anything."""
    last = len(line) - 1
    for _ in range(4):
        last = line.rfind("\r", 0, last)
        if last < 0:
            return line
        if plain(line[last + 1 :]).strip():
            return line[last + 1 :]
    return line
