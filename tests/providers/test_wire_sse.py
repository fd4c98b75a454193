"""Server-sent events and HTTP framing at any chunking."""

from __future__ import annotations

import contextlib
import itertools
import os
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cowork.core.errors import ProviderError
from cowork.http import sse
from cowork.http.errors import HttpError
from cowork.http.http1 import Body, Chunked, Head, body_of, parse_head
from cowork.http.sse import SseParser


def parse(*chunks: bytes) -> list[bytes]:
    parser = SseParser()
    found = [data for chunk in chunks for data in parser.feed(chunk)]
    return found + parser.close()


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(p % (len(data) + 1) for p in places), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


@pytest.mark.parametrize(
    ("stream", "data"),
    [
        (b"data: a\n\n", [b"a"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a\n\n", [b" a"]),
        (b"event: x\ndata: a\nid: 1\n\n", [b"a"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b": comment\n\ndata: a\n\n", [b"a"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"\n\n\ndata: a\n\n\n\n", [b"a"]),
        (b"event: ping\n\n", []),
        (b"data\n\n", []),
        (b"data: [DONE]\n\n", [b"[DONE]"]),
        (b"data: [DONE]", [b"[DONE]"]),
        (b"data: a\n", [b"a"]),
        (b"database: a\n\n", []),
        ('data: {"t": "☃"}\n\n'.encode(), ['{"t": "☃"}'.encode()]),
        (b"", []),
    ],
)
def test_framing(stream: bytes, data: list[bytes]) -> None:
    assert parse(stream) == data
    assert parse(*(stream[i : i + 1] for i in range(len(stream)))) == data


LINES = st.sampled_from([b"data: x", b"data:", b"data: ", b"event: e", b": c", b"", b"id: 1", b"retry: 5", b"data: yz"])
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


@given(st.lists(st.tuples(LINES, ENDS), max_size=30), st.lists(st.integers(0, 500), max_size=10))
def test_no_chunking_changes_what_is_read(lines: list[tuple[bytes, bytes]], places: list[int]) -> None:
    stream = b"".join(line + end for line, end in lines)
    whole = parse(stream)
    assert parse(*cut(stream, places)) == whole
    assert parse(stream.replace(b"\r\n", b"\n").replace(b"\r", b"\n")) == whole


@given(
    st.lists(st.text(st.characters(blacklist_characters="\r\n", blacklist_categories=["Cs"]), min_size=1), max_size=8)
)
def test_what_is_framed_comes_back(texts: list[str]) -> None:
    stream = b"".join(b"event: e\ndata: " + text.encode() + b"\n\n" for text in texts)
    assert parse(*(stream[i : i + 3] for i in range(0, len(stream), 3))) == [text.encode() for text in texts]


@pytest.mark.soak
def test_a_large_event_in_tiny_pieces_takes_linear_time() -> None:
    size = 4_000_000 if os.environ.get("COWORK_SOAK") else 400_000
    stream = b"data: " + b"x" * size + b"\n\n"
    assert parse(*(stream[i : i + 7] for i in range(0, len(stream), 7))) == [b"x" * size]


def test_an_event_of_many_lines_is_put_together_once() -> None:
    class Counted(SseParser):
        looks = 0

        def _take_whole_events(self) -> list[bytes]:
            self.looks += 1
            return super()._take_whole_events()

    parser = Counted()
    assert [data for _ in range(1_000) for data in parser.feed(b"data: x\r\n")] == []
    assert (parser.looks, parser.feed(b"\r"), parser.looks) == (0, [b"\n".join([b"x"] * 1_000)], 1)
    assert (parser.feed(b"\ndata: {"), parser.close()) == ([], [b"{"])


@pytest.mark.parametrize("line", [b"data: x\n", b"data: x"])
def test_an_event_without_end_is_given_up(line: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "_MOST", 100)
    parser = SseParser()
    assert parser.feed(b"data: a\n\n" * 50) == [b"a"] * 50
    with pytest.raises(ProviderError, match="one event is longer"):
        list(map(parser.feed, [line] * 100))


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=10), st.lists(st.integers(0, 900), max_size=12))
def test_chunked_bodies_are_read_at_any_cut(pieces: list[bytes], places: list[int]) -> None:
    raw = b"".join(b"%x;ext=1\r\n%s\r\n" % (len(p), p) for p in pieces) + b"0\r\nx-trailer: 1\r\n\r\n"
    body = Chunked()
    assert b"".join(body.feed(part) for part in cut(raw, places) if part) == b"".join(pieces)
    assert body.done
    body.end()


@settings(max_examples=300)
@given(st.binary(max_size=200))
def test_garbage_is_refused_or_read_but_never_a_crash(raw: bytes) -> None:
    body = Chunked()
    with contextlib.suppress(HttpError):
        for i in range(0, len(raw), 5):
            body.feed(raw[i : i + 5])
        body.end()
    with contextlib.suppress(HttpError):
        body_of(parse_head(raw + b"\r\n\r\n"))


def test_a_body_that_ends_early_is_an_error() -> None:
    sized = Body(5)
    assert sized.feed(b"abc") == b"abc"
    with pytest.raises(HttpError):
        sized.end()
    chunked = Chunked()
    chunked.feed(b"5\r\nabc")
    with pytest.raises(HttpError):
        chunked.end()
    open_ended = Body()
    assert open_ended.feed(b"abc") == b"abc"
    open_ended.end()


@pytest.mark.parametrize("line", [b"-5\r\n", b"zz\r\n", b"\r\n", b"1" * 9000])
def test_a_size_that_is_none_is_an_error(line: bytes) -> None:
    with pytest.raises(HttpError):
        Chunked().feed(line)


def test_a_head_is_read_whatever_its_case() -> None:
    head = parse_head(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: Close\r\nX: a\r\nx: b\r\n\r\n"
    )
    assert head == Head(200, {"content-type": "text/event-stream", "connection": "Close", "x": "a, b"}, False)


def test_random_cuts_of_one_stream_are_all_alike() -> None:
    chance = random.Random(7)
    stream = b"".join(b'event: e%d\r\ndata: {"n": %d}\r\n\r\n' % (n, n) for n in range(50))
    whole = parse(stream)
    for _ in range(200):
        assert parse(*cut(stream, [chance.randrange(len(stream)) for _ in range(20)])) == whole
