"""Streams damaged at random: the outcome is the whole answer or a ProviderError, nothing else and never half of one."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import AsyncGenerator

import pytest

from cowork.core.errors import ProviderError
from cowork.core.ports import ModelSpec, Reply
from cowork.providers.codecs.anthropic import AnthropicCodec
from cowork.providers.codecs.openai_chat import ChatCodec
from cowork.providers.codecs.openai_responses import OpenAICodec
from cowork.providers.wire import WireProvider
from tests.wire.encode import encode, sse
from tests.wire.server import FORMATS, Server, call, think, turn
from tests.wire.talk import ask, provider_for

CODECS = {"anthropic": AnthropicCodec, "openai": OpenAICodec, "openai-chat": ChatCodec}
TURN = turn(think("hm"), "Some text here.", call("Read", id="a1", file_path="ä.py"), piece=6)
COUNT = 5_000 if os.environ.get("COWORK_SOAK") else 250


class Bytes:
    """A transport that plays a body."""

    host = "here"

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def post(self, body: bytes) -> AsyncGenerator[bytes, None]:
        for i in range(0, len(self._body), 50):
            yield self._body[i : i + 50]

    async def aclose(self) -> None:
        pass


async def outcome(format: str, body: bytes) -> Reply | ProviderError:
    spec = ModelSpec(format, "m")
    codec = CODECS[format](spec, "h")
    provider = WireProvider(spec, codec, Bytes(body), idle_timeout=9)
    try:
        return (await ask(provider))[1]
    except ProviderError as error:
        return error


def events_of(format: str) -> list[bytes]:
    return [sse(*event) for event in encode(format, TURN, "m", 0).events]


@pytest.mark.parametrize("format", FORMATS)
async def test_a_stream_cut_at_any_byte_is_whole_or_an_error(format: str) -> None:
    body = b"".join(events_of(format))
    stop = encode(format, TURN, "m", 0).stop
    needed = len(b"".join(events_of(format)[: stop + 1])) - 2  # the blank line after it may be missing
    whole = await outcome(format, body)
    assert isinstance(whole, Reply)
    step = 1 if os.environ.get("COWORK_SOAK") else 13
    for end in [*range(0, needed, step), needed - 1]:
        found = await outcome(format, body[:end])
        assert isinstance(found, ProviderError), (end, found)
        assert found.kind == "broken_stream"
    for end in range(needed, len(body) + 1):
        found = await outcome(format, body[:end])
        if isinstance(found, Reply):
            assert found.content == whole.content
        else:
            assert found.kind == "broken_stream"


@pytest.mark.soak
@pytest.mark.parametrize("format", FORMATS)
async def test_random_damage_never_gives_anything_but_a_reply_or_an_error(format: str) -> None:
    chance = random.Random(format)
    body = b"".join(events_of(format))
    for _ in range(COUNT):
        damaged = bytearray(body)
        for _ in range(chance.choice([1, 1, 3, 20])):
            at = chance.randrange(len(damaged))
            match chance.randrange(4):
                case 0:
                    damaged[at] = chance.randrange(256)
                case 1:
                    del damaged[at : at + chance.randrange(1, 40)]
                case 2:
                    damaged[at:at] = damaged[at : at + chance.randrange(1, 80)]
                case 3:
                    damaged[at:at] = chance.choice([b"\n\n", b"null", b"[]", b"{}", b'"', b"\x00", b"1e999", b"data: "])
        await outcome(format, bytes(damaged))


VALUES = [None, 0, 1.5, True, "x", "", [], {}, [1], {"a": 1}, [{}], [None], -1]


@pytest.mark.soak
@pytest.mark.parametrize("format", FORMATS)
async def test_values_of_any_other_type_are_met_with_an_error_at_most(format: str) -> None:
    chance = random.Random(format)
    events = [data for _, data in encode(format, TURN, "m", 0).events]
    for _ in range(COUNT):
        changed = list(events)
        at = chance.randrange(len(changed))
        if changed[at] == "[DONE]":
            continue
        event = json.loads(changed[at])
        inner = event
        while True:
            key = chance.choice(list(inner) if isinstance(inner, dict) else range(len(inner)))
            if isinstance(inner[key], dict | list) and inner[key] and chance.random() < 0.7:
                inner = inner[key]
                continue
            inner[key] = chance.choice(VALUES)
            break
        changed[at] = json.dumps(event)
        found = await outcome(format, b"".join(sse("", data) for data in changed))
        assert isinstance(found, Reply | ProviderError)


async def test_a_server_that_never_closes_after_its_stop_event_is_not_waited_for() -> None:
    body = b'data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\n'

    class Open(Bytes):
        async def post(self, sent: bytes) -> AsyncGenerator[bytes, None]:
            yield body
            await asyncio.Event().wait()

    spec = ModelSpec("openai-chat", "m")
    codec = ChatCodec(spec, "h")
    provider = WireProvider(spec, codec, Open(b""), idle_timeout=100)
    _, reply = await ask(provider)
    assert reply.text == "hi"


@pytest.mark.parametrize("format", FORMATS)
async def test_a_connection_lost_after_the_stop_event_loses_nothing(format: str) -> None:
    whole = b"".join(events_of(format))
    with Server([turn(raw=whole, cut=[len(whole) - 1])]) as server:
        async with provider_for(server, format) as provider:
            _, reply = await ask(provider)
    assert reply.calls
