"""Output as plain text, whole and in pieces, and what is kept of it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cowork.tools.shell.output import Capture
from cowork.tools.shell.terminal_text import Stream, plain

CONTROLS = {chr(i) for i in (*range(9), *range(11, 32), *range(127, 160))}
PIECES = [
    "a",
    "é",
    "界",
    "\n",
    "\r",
    "\t",
    "\b",
    "\0",
    "\x07",
    "\x1b",
    "\x1b[1m",
    "\x1b[1G",
    "\x1b]0;t",
    "\x1b\\",
    "\x9b3",
    "\x9d",
]
dirty = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=30).map(lambda p: "".join(p).encode()), st.binary(max_size=60)
)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b[2J\x1b[H\x1b[?25lx", "x"),
        ("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\b", "alinkb"),
        ("\x1bP1$r0m\x1b\\after", "after"),
        ("\x1b(B\x1b=\x1b>x\x1b7\x1b8", "x"),
        ("\x9b31mred\x9b0m \x9d0;t\x9cx", "red x"),
        ("10%\r50%\r100%\n", "100%\n"),
        ("dos\r\nlines\r\n", "dos\nlines\n"),
        ("dos\r\r\n", "dos\n"),
        ("b\bbo\bol\bld\bd", "bold"),
        ("_\bu_\bn", "un"),
        ("bell\x07", "bell\\x07"),
        ("\0\0\0\0", "\\x00{4}"),
        ("\x1b]52;c;never ended", "\\x1b]52;c;never ended"),
        ("\x7f\x85", "\\x7f\\x85"),
        ("", ""),
    ],
)
def test_what_becomes_of_it(raw: str, text: str) -> None:
    assert plain(raw) == text


@given(dirty)
def test_nothing_that_steers_a_terminal_is_left(data: bytes) -> None:
    assert not set(plain(data.decode("utf-8", "replace"))) & CONTROLS


@given(dirty, st.lists(st.integers(0, 60)))
@example(b"\x1b]0;ab\rcd\x07", [5])
@example(b"a\r\bcd", [2])
@example(b"a\r\n", [2])
@example(b"a\r\x1b[1m", [])
@example(b"\xe7\x95\x8c", [1])
def test_pieces_make_the_same_as_the_whole(data: bytes, cuts: list[int]) -> None:
    stream, out, last = Stream(), "", 0
    for cut in [*sorted(cuts), len(data)]:
        out += stream.feed(data[last : max(last, cut)])
        last = max(last, cut)
        assert not set(stream.pending) & CONTROLS
    assert out + stream.finish() == plain(data.decode("utf-8", "replace"))


def test_a_long_progress_line_keeps_its_last_state() -> None:
    stream = Stream()
    out = "".join(stream.feed(f"\r\x1b[K{i}% done".encode()) for i in range(50_000))
    assert out == ""
    assert stream.pending == "49999% done"
    assert stream.feed(b"\x1b[0m\r\n") == "49999% done\n"


@pytest.mark.parametrize(
    "unit",
    [b"\0", b"\x1b", b"\x1b]", b"\x1b[", b"\xc2\x9d", b"\xc2\x9b1", b"a\b", b"\b", b"\r", b"x\r", b"\x1b]0;", b"1;"],
)
def test_no_input_makes_it_slow(unit: bytes) -> None:
    data = unit * ((1 << 16) // len(unit))
    stream = Stream()
    started = time.process_time()
    for _ in range(4):
        stream.feed(data)
        stream.pending  # noqa: B018
    stream.finish()
    assert time.process_time() - started < 2.0


@settings(max_examples=60)
@given(st.lists(st.binary(max_size=3_000), max_size=40))
def test_what_is_recorded_is_what_was_cleaned(tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes]) -> None:
    capture = Capture(tmp_path_factory.mktemp("scratch"), "c", file=True)
    for piece in pieces:
        capture.feed(piece)
    capture.finish()
    whole = plain(b"".join(pieces).decode("utf-8", "replace"))
    assert capture.path.read_bytes().decode() == whole
    assert capture.lines == len(whole.split("\n")) - (whole.endswith("\n") or not whole)


def test_head_and_tail_are_cut_at_lines_and_bytes(tmp_path: Path) -> None:
    capture = Capture(tmp_path, "c")
    for i in range(20_000):
        capture.feed(f"{i} 界界界界界界界界\n".encode())
    capture.finish()
    text = capture.text()
    assert len(text.encode()) < 50_000
    assert text.startswith("0 界")
    assert text.endswith("19999 界界界界界界界界\n")
    assert str(capture.path) in text
    for line in text.split("\n"):
        assert not line or line.startswith("[…") or line.split()[1] == "界界界界界界界界"


def test_one_endless_line_is_cut_too(tmp_path: Path) -> None:
    capture = Capture(tmp_path, "c")
    for _ in range(100):
        capture.feed(b"x" * 65_536)
    capture.finish()
    assert len(capture.text()) < 50_000
    assert capture.lines == 1


def test_a_full_disk_ends_recording_only(tmp_path: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")
    capture = Capture(tmp_path, "c", file=True)
    assert capture._file is not None
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, capture._file)
    os.close(full)
    for i in range(10_000):
        capture.feed(f"{i}\n".encode())
    capture.finish()
    assert "No space left on device" in capture.text()
    assert capture.text().endswith("9999\n")


def test_progress_that_goes_back_to_the_first_column_is_overwritten() -> None:
    assert plain("".join(f"\x1b[2K\x1b[{at}Gstep {n}" for n, at in enumerate(["", "0", "1"]))) == "step 2"


def test_a_link_in_the_place_of_a_record_is_not_followed(tmp_path: Path) -> None:
    capture = Capture(tmp_path, "c", file=True)
    capture.feed(b"printed\n")
    assert capture.read(0, 100) == b"printed\n"
    (tmp_path / "key").write_text("PLANTED-SECRET")
    capture.path.unlink()
    capture.path.symlink_to(tmp_path / "key")
    with pytest.raises(OSError):
        capture.read(0, 100)
    capture.finish()
