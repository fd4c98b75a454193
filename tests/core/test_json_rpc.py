"""Either end of a conversation: whose answer is whose, what a cancel stops, and what is left at the end."""

from __future__ import annotations

import asyncio
from typing import Any

from cowork.core.blocks import Json
from cowork.core.json_rpc import CANCELLED, INVALID_REQUEST, Peer


class End:
    """A peer whose answers wait until the test lets them go."""

    def __init__(self) -> None:
        self.sent: list[Json] = []
        self.gates: dict[str, asyncio.Event] = {}
        self.peer = Peer(self.sent.append, self._answer, lambda method, params: None)

    async def _answer(self, method: str, params: Json) -> Any:
        await self.gates.setdefault(method, asyncio.Event()).wait()
        return method

    async def take(self, *messages: Json) -> None:
        for message in messages:
            self.peer.take(message)
        for _ in range(4):
            await asyncio.sleep(0)


async def test_a_number_and_its_spelling_are_two_requests() -> None:
    end = End()
    await end.take({"id": 1, "method": "a"}, {"id": "1", "method": "b"})
    await end.take({"method": "$/cancel_request", "params": {"requestId": 1}})
    (stopped,) = end.sent
    assert (stopped["id"], stopped["error"]["code"]) == (1, CANCELLED)
    end.gates["b"].set()
    await end.take()
    assert end.sent[1:] == [{"id": "1", "result": "b"}]


async def test_an_id_that_is_in_use_is_refused_and_the_first_goes_on() -> None:
    end = End()
    await end.take({"id": 1, "method": "a"}, {"id": 1, "method": "b"})
    (refused,) = end.sent
    assert (refused["id"], refused["error"]["code"]) == (1, INVALID_REQUEST)
    await asyncio.wait_for(end.peer.stop(), 5)
    assert [message["id"] for message in end.sent] == [1, 1]


async def test_an_id_of_no_kind_is_refused() -> None:
    end = End()
    await end.take({"id": {"a": 1}, "method": "a"}, {"id": [1], "method": "a"}, {"id": True, "method": "a"})
    assert [message["error"]["code"] for message in end.sent] == [INVALID_REQUEST] * 3


async def test_parameters_that_are_no_object_are_refused_by_the_id_of_the_request() -> None:
    end = End()
    await end.take(*({"id": n, "method": "a", "params": odd} for n, odd in enumerate((5, "x", [1], False))))
    assert [(message["id"], message["error"]["code"]) for message in end.sent] == [
        (n, INVALID_REQUEST) for n in range(4)
    ]
