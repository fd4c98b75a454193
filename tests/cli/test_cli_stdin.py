"""What stdin adds to a run, and that it never holds one up."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cowork.cli import standard_streams as stdin
from cowork.core.errors import UserError


@contextmanager
def pipe(*pieces: bytes, close: bool = True) -> Iterator[int]:
    """The reading end of a pipe that holds the pieces and is at its end, or stays open and silent."""
    reading, writing = os.pipe()
    for piece in pieces:
        os.write(writing, piece)
    if close:
        os.close(writing)
    try:
        yield reading
    finally:
        os.close(reading)
        if not close:
            os.close(writing)


def gather(argument: str | None, descriptor: int, *, non_interactive: bool = False) -> tuple[str, str, list[str]]:
    said: list[str] = []
    prompt, context = stdin.gather(argument, non_interactive=non_interactive, say=said.append, stdin=descriptor)
    return prompt, context, said


@pytest.mark.parametrize("non_interactive", [True, False])
def test_a_prompt_and_a_pipe_are_prompt_and_context(non_interactive: bool) -> None:
    with pipe(b"diff --git a b\n") as reading:
        found = gather("review this", reading, non_interactive=non_interactive)
    assert found == ("review this", "diff --git a b\n", [])


@pytest.mark.parametrize("argument", ["-", None])
def test_without_a_prompt_stdin_is_the_prompt(argument: str | None) -> None:
    with pipe(b"do it\n") as reading:
        assert gather(argument, reading) == ("do it\n", "", [])


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 200_000)
    with open(tmp_path / "f") as file:
        assert gather("p", file.fileno()) == ("p", "x" * 200_000, [])


def test_dev_null_and_a_closed_stdin_add_nothing() -> None:
    with open(os.devnull) as null:
        assert gather("p", null.fileno()) == ("p", "", [])
        with pytest.raises(UserError, match="there is no prompt"):
            gather(None, null.fileno())
    closed = os.open(os.devnull, os.O_RDONLY)
    os.close(closed)
    assert gather("p", closed) == ("p", "", [])


@pytest.mark.parametrize("non_interactive", [True, False])
def test_a_silent_open_pipe_is_left_alone_after_a_second_and_said(non_interactive: bool) -> None:
    started = time.monotonic()
    with pipe(close=False) as reading:
        prompt, context, said = gather("p", reading, non_interactive=non_interactive)
    assert (prompt, context) == ("p", "")
    assert said == ["stdin is an open pipe without data after 1 s; going on without it"]
    assert time.monotonic() - started < 30


def test_a_silent_socket_is_left_alone_too() -> None:
    near, far = socket.socketpair()
    with near, far:
        assert gather("p", near.fileno())[:2] == ("p", "")


def test_an_empty_pipe_at_its_end_adds_nothing_and_costs_no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdin, "FIRST_DATA", 60.0)
    started = time.monotonic()
    with pipe() as reading:
        assert gather("p", reading) == ("p", "", [])
    assert time.monotonic() - started < 30


def test_a_slow_writer_is_waited_for_once_it_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdin, "FIRST_DATA", 60.0)
    reading, writing = os.pipe()

    def write() -> None:
        for piece in (b"one ", b"two ", b"three"):
            time.sleep(0.15)
            os.write(writing, piece)
        os.close(writing)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        assert gather("p", reading, non_interactive=True)[1] == "one two three"
    finally:
        thread.join()
        os.close(reading)


def test_nobody_waits_for_ever_for_the_end_when_non_interactive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdin, "GAP", 0.2)
    with pipe(b"begun", close=False) as reading:
        said = "stdin was silent for 0.2 s and did not end; going on with what came so far"
        assert gather("p", reading, non_interactive=True) == ("p", "begun", [said])
    with pipe(b"half a", close=False) as reading, pytest.raises(UserError, match="the prompt on stdin did not end"):
        gather("-", reading, non_interactive=True)


def test_a_prompt_that_never_comes_is_an_error_when_non_interactive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdin, "PROMPT_DATA", 0.2)
    with pipe(close=False) as reading, pytest.raises(UserError, match="no prompt came on stdin"):
        gather(None, reading, non_interactive=True)


def test_a_pipe_that_was_made_non_blocking_is_read_whole() -> None:
    with pipe(b"data") as reading:
        os.set_blocking(reading, False)
        assert gather("p", reading)[1] == "data"


def test_bytes_that_are_not_utf_8_become_question_marks_not_errors() -> None:
    with pipe(b"\xef\xbb\xbfcaf\xe9 \xff\x00") as reading:
        assert gather("p", reading)[1] == "caf\ufffd \ufffd\x00"
    with pipe() as reading:
        assert gather("caf\udce9", reading)[0] == "caf\ufffd"


def test_more_than_fits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdin, "MAX_BYTES", 10)
    with pipe(b"01234567890") as reading, pytest.raises(UserError, match="stdin is larger"):
        gather("p", reading)


@pytest.mark.parametrize("argument", ["", "  ", "\n"])
def test_an_empty_prompt_is_refused(argument: str) -> None:
    with pipe() as reading, pytest.raises(UserError, match="the prompt is empty"):
        gather(argument, reading)
