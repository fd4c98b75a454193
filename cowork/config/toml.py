"""Read a settings file that may be hostile, and find the line each key stands on."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Any

from cowork.core.errors import UserError

MAX_BYTES = 256 * 1024

_AT = re.compile(r"\s*\(at line (\d+), column \d+\)|\s*\(at end of document\)")
_STRING = re.compile(r'"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'', re.DOTALL)
_TOKEN = re.compile(rf"(?:{_STRING.pattern})|#[^\n]*|[=\n,{{}}\[\]]|\.", re.DOTALL)
_MAX_DOTS = 16
_DEEP = "A settings file needs three levels at most."
_WORD = re.compile(r"[A-Za-z0-9_-]+")
_BASIC_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", re.DOTALL)
_ESCAPED = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "\\": "\\"}


def read(path: Path, shown: str) -> tuple[dict[str, Any], dict[tuple[str, ...], int]] | None:
    """(values, key path -> line) of a file; None when there is none. Anything else wrong is the user's to mend."""
    text = _text(path, shown)
    if text is None:
        return None
    return parse(text, shown)


def parse(text: str, shown: str) -> tuple[dict[str, Any], dict[tuple[str, ...], int]]:
    """(values, key path -> line) of a TOML text; `shown` names it in errors."""
    import tomllib

    _refuse_long_names(text, shown)
    try:
        return tomllib.loads(text), lines_of(text)
    except RecursionError:
        raise UserError(f"config: {shown} is nested too deeply", _DEEP) from None
    except ValueError as error:  # a number of too many digits is a plain ValueError
        where = _AT.search(str(error))
        line = where.group(1) if where and where.group(1) else str(text.count("\n") + 1)
        problem = _AT.sub("", str(error))
        raise UserError(
            f"config: {shown}:{line} {problem[:1].lower()}{problem[1:]}", "The file is not valid TOML."
        ) from None


def lines_of(text: str) -> dict[tuple[str, ...], int]:
    """The line of every table header and key of a valid TOML text; the first place counts."""
    found: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    at, line = 0, 1
    while at < len(text):
        at, line = _skip_blank(text, at, line)
        if at >= len(text):
            break
        if text[at] == "[":
            table, end = _dotted(text, at + (2 if text.startswith("[[", at) else 1))
            _note(found, table, line)
            stop = _end_of_line(text, end)
        else:
            names, end = _dotted(text, at)
            _note(found, (*table, *names), line)
            stop = _end_of_value(text, end)
        line += text.count("\n", at, stop)
        at = max(stop, at + 1)
    return found


def _note(found: dict[tuple[str, ...], int], names: tuple[str, ...], line: int) -> None:
    """A dotted name is also the first place of the tables it opens on the way."""
    for length in range(1, len(names) + 1):
        found.setdefault(names[:length], line)


def _refuse_long_names(text: str, shown: str) -> None:
    """The parser of the standard library takes quadratic time on a dotted name, so a long one never reaches it."""
    dots = 0
    for found in _TOKEN.finditer(text):
        dots = dots + 1 if found.group() == "." else dots if found.group()[0] in "\"'" else 0
        if dots > _MAX_DOTS:
            line = text.count("\n", 0, found.start()) + 1
            raise UserError(f"config: {shown}:{line} is nested too deeply", _DEEP)


def _text(path: Path, shown: str) -> str | None:
    try:
        # Not blocking: a FIFO in the place of the file must not hang the start.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise UserError(f"config: {shown} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UserError(f"config: {shown} is not a regular file")
        raw = os.read(descriptor, MAX_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(raw) > MAX_BYTES:
        raise UserError(f"config: {shown} is larger than {MAX_BYTES // 1024} KB")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UserError(f"config: {shown}:{line} is not UTF-8 text") from None


def _skip_blank(text: str, at: int, line: int) -> tuple[int, int]:
    while at < len(text):
        if text[at] == "\n":
            line += 1
        elif text[at] == "#":
            at = _end_of_line(text, at)
            continue
        elif text[at] not in " \t\r":
            break
        at += 1
    return at, line


def _end_of_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _dotted(text: str, at: int) -> tuple[tuple[str, ...], int]:
    """The parts of a dotted key, and where it ends."""
    names: list[str] = []
    while at < len(text):
        if text[at] in " \t.":
            at += 1
        elif quoted := text[at] in "\"'" and _STRING.match(text, at):
            names.append(_unquote(quoted.group()))
            at = quoted.end()
        elif word := _WORD.match(text, at):
            names.append(word.group())
            at = word.end()
        else:
            break
    return tuple(names), at


def _unquote(text: str) -> str:
    if text[0] == "'":
        return text[1:-1]

    def plain(found: re.Match[str]) -> str:
        code = found.group(1)
        return chr(int(code[1:], 16)) if code[0] in "uU" else _ESCAPED.get(code, code)

    return _BASIC_ESCAPE.sub(plain, text[1:-1])


def _end_of_value(text: str, at: int) -> int:
    """Where the value after a key ends: the first line end outside strings and brackets."""
    depth = 0
    while at < len(text):
        here = text[at]
        if here in "\"'":
            string = _STRING.match(text, at)
            at = string.end() if string else at + 1
            continue
        if here == "#":
            at = _end_of_line(text, at)
            continue
        if here in "[{":
            depth += 1
        elif here in "]}":
            depth -= 1
        elif here == "\n" and depth <= 0:
            return at
        at += 1
    return at
