"""The watch over a stream, and the memory of encoded messages."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from cowork.core.blocks import Json, Message, Text
from cowork.core.ports import ModelSpec
from cowork.providers.codecs.base import assemble, dump
from cowork.providers.codecs.openai_chat import ChatCodec
from cowork.providers.wire import IdleWatch
from tests.fakes.clock import Clock


async def silence(clock: Clock, seconds: float) -> None:
    """Nothing comes, for longer than the mercy shown to what came late."""
    while True:
        await clock.passes(seconds)


async def test_a_wait_without_data_ends_in_silence() -> None:
    with pytest.raises(TimeoutError):
        await IdleWatch(0.05).wait(asyncio.Event().wait())
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_wait_that_ends_in_time_gives_its_result() -> None:
    assert await IdleWatch(20).wait(asyncio.sleep(0, "result")) == "result"


async def test_data_gives_more_time() -> None:
    clock = Clock()
    watch = IdleWatch(100)
    for _ in range(4):
        await watch.wait(clock.passes(90))
        watch.touch()
    with pytest.raises(TimeoutError):
        await watch.wait(silence(clock, 120))


async def test_without_data_the_time_adds_up() -> None:
    clock = Clock()
    watch = IdleWatch(100)
    await watch.wait(clock.passes(90))
    with pytest.raises(TimeoutError):
        await watch.wait(silence(clock, 20))


async def test_what_came_while_nobody_could_run_is_no_silence() -> None:
    clock = Clock()
    near, far = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=near)
    with far:
        watch = IdleWatch(100)
        asyncio.get_running_loop().call_soon(lambda: (far.send(b"data"), clock.forward(5_000)))
        assert await watch.wait(reader.read(4)) == b"data"
        watch.touch()
        with pytest.raises(TimeoutError):
            await watch.wait(silence(clock, 120))
    writer.close()
    await writer.wait_closed()


async def test_a_consumer_that_takes_its_time_is_no_silence() -> None:
    clock = Clock()
    watch = IdleWatch(100)
    await clock.passes(150)
    assert await watch.wait(asyncio.sleep(0, "result")) == "result"


async def test_a_shorter_limit_can_be_set_for_what_may_follow() -> None:
    watch = IdleWatch(1000)
    watch.touch(0.05)
    with pytest.raises(TimeoutError):
        await watch.wait(asyncio.Event().wait())


async def test_a_cancellation_from_outside_stays_one() -> None:
    entered = asyncio.Event()

    async def listen() -> None:
        watch = IdleWatch(1000)
        entered.set()
        await watch.wait(asyncio.Event().wait())

    task = asyncio.create_task(listen())
    await entered.wait()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_both_at_once_is_a_cancellation() -> None:
    async def listen() -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            await asyncio.Event().wait()
        finally:
            task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(IdleWatch(0.05).wait(listen()))


async def test_keep_alives_do_not_prolong_the_mercy() -> None:
    clock = Clock()
    watch = IdleWatch(100)
    for _ in range(2):
        await watch.wait(clock.passes(60))
    with pytest.raises(TimeoutError):
        await watch.wait(clock.passes(60))


class LetterCodec(ChatCodec):
    """Notes what it encodes."""

    _ROOM = 50

    def __init__(self) -> None:
        super().__init__(ModelSpec("openai-chat", "m", max_output_tokens=1), "h")
        self.made: list[str] = []

    def _items(self, message: Message, variant: Any) -> list[Json]:
        self.made.append(message.text)
        return [{"said": f"{message.role} {variant} {message.text}"}]


def test_encoded_messages_are_forgotten_when_they_take_too_much_room() -> None:
    codec = LetterCodec()
    a, b, c = (Message("user", (Text(letter),)) for letter in "abc")
    encoded = [codec._bytes_of(m, 1) for m in (a, b, a, b, c, a)]
    assert encoded == [b'{"said":"user 1 %c"}' % letter for letter in b"ababca"]
    assert codec.made == ["a", "b", "c", "a"]


def test_the_same_blocks_in_another_role_or_variant_are_another_message() -> None:
    codec = LetterCodec()
    block = Text("x")
    assert codec._bytes_of(Message("user", (block,)), True) == b'{"said":"user True x"}'
    assert codec._bytes_of(Message("assistant", (block,)), True) == b'{"said":"assistant True x"}'
    assert codec._bytes_of(Message("assistant", (block,)), False) == b'{"said":"assistant False x"}'


def test_a_body_is_put_together_in_order() -> None:
    assert assemble({"a": 1}, "items", [b"1", b"2"], {"z": "ü"}) == '{"a":1,"items":[1,2],"z":"ü"}'.encode()
    assert assemble({}, "items", [], {}) == b'{"items":[]}'
    assert dump({"a": "\ud800"}) == b'{"a":"?"}'
