"""One stream, cut anywhere: the transcript is the same to the byte."""

from __future__ import annotations

import json
import os
import random

import pytest

from cowork.core.blocks import Usage, blocks_to_list
from cowork.core.ports import Delta, ModelSpec
from cowork.http.http1 import Chunked
from cowork.http.sse import SseParser
from cowork.providers.codecs.anthropic import AnthropicCodec
from cowork.providers.codecs.openai_chat import ChatCodec
from cowork.providers.codecs.openai_responses import OpenAICodec
from tests.wire.encode import encode, sse
from tests.wire.server import FORMATS, Server, call, think, turn
from tests.wire.talk import ask, asking, provider_for, text_of

TURN = turn(
    think("Ich überlege … 🤔"),
    "Füße, 漢字 and ☃ in one text.\r\n\n",
    call("Read", id="a1", file_path="Größe/ä.py"),
    call("Grep", id="a2", pattern="\\d+\n☃"),
    usage=Usage(10, 20, 30, 0),
    piece=5,
)
CODECS = {"anthropic": AnthropicCodec, "openai": OpenAICodec, "openai-chat": ChatCodec}
COUNT = 1_000 if os.environ.get("COWORK_SOAK") else 120


def decode(format: str, chunks: list[bytes]) -> tuple[str, str]:
    """(the reply as JSON, the text the deltas showed) for these pieces of HTTP body."""
    codec = CODECS[format](ModelSpec(format, "m"), "h")
    decoder = codec.decoder(asking())
    framing, parser = Chunked(), SseParser()
    deltas: list[Delta] = []
    for chunk in chunks:
        deltas += decoder.feed(parser.feed(framing.feed(chunk)))
    deltas += decoder.feed(parser.close())
    reply = decoder.reply()
    assert reply is not None
    whole = [blocks_to_list(reply.content), reply.stop_reason, reply.usage.to_dict()]
    return json.dumps(whole), "|".join(text_of(deltas, kind) for kind in ("thinking", "text", "tool"))


@pytest.mark.soak
@pytest.mark.parametrize("format", FORMATS)
def test_random_cuts_of_one_stream_give_one_transcript(format: str) -> None:
    chance = random.Random(format)
    body = b"".join(sse(*event) for event in encode(format, TURN, "m", 0).events)
    expected = decode(format, [b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)])
    for _ in range(COUNT):
        edges = sorted(chance.randrange(1, len(body)) for _ in range(chance.choice([1, 3, 30, 300])))
        pieces = [body[a:b] for a, b in zip([0, *edges], [*edges, len(body)], strict=True) if a < b]
        raw = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
        cuts = sorted(chance.randrange(1, len(raw)) for _ in range(chance.choice([0, 2, 50])))
        assert decode(format, [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]) == expected


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("size", [1, 2, 7, 64, 10_000])
async def test_the_size_of_pieces_on_the_wire_does_not_matter(size: int, format: str) -> None:
    with Server([TURN], cut=size) as server:
        async with provider_for(server, format, transport="sdk" if size == 7 else "direct") as provider:
            _, reply = await ask(provider)
    assert reply.text == "Füße, 漢字 and ☃ in one text.\r\n\n"
    assert [c.input for c in reply.calls] == [{"file_path": "Größe/ä.py"}, {"pattern": "\\d+\n☃"}]


def test_the_pieces_of_one_read_are_one_delta() -> None:
    codec = AnthropicCodec(ModelSpec("anthropic", "m", max_output_tokens=100), "h")
    decoder = codec.decoder(asking())
    body = b"".join(sse(*event) for event in encode("anthropic", turn("a" * 500, "b" * 500, piece=2), "m", 0).events)
    assert decoder.feed(SseParser().feed(body)) == [Delta("text", "a" * 500 + "b" * 500)]
