"""A model behind HTTP: a codec turns blocks into a body and events into blocks, a transport moves the bytes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace
from typing import ParamSpec, Protocol, TypeVar

from cowork.core.blocks import Usage
from cowork.core.errors import ProviderError
from cowork.core.ports import Delta, ModelSpec, Reply, Request, Used
from cowork.http.errors import broken_stream
from cowork.providers.errors import stalled
from cowork.providers.estimate import fill_usage
from cowork.providers.idle import IdleWatch, Silence

P = ParamSpec("P")
T = TypeVar("T")

_CUT = "the stream ended before the answer was complete"
_NO_ANSWER = "what it sent is no answer of a model; is the base URL right?"
_AFTERWORD = 3.0  # seconds for what may follow the stop event, such as usage
_GRACE = 0.2  # seconds a finished stream may take to close, so that its connection can be used again


class Transport(Protocol):
    """POSTs a body and gives the data payloads of the answer, a list for each read, or raises ProviderError."""

    @property
    def host(self) -> str: ...
    def post(self, body: bytes) -> AsyncGenerator[list[bytes], None]: ...
    async def aclose(self) -> None: ...


class Decoder(Protocol):
    """Takes the payloads of one answer in; what they come to can be asked once the stream has ended."""

    beats: int  # events so far that were data, not keep-alives
    settled: bool  # the stop event has come
    done: bool  # nothing more is expected
    usage: Usage

    def feed(self, payloads: Sequence[bytes]) -> list[Delta]: ...

    def reply(self) -> Reply | None:
        """The whole answer; None as long as no stop event has come."""


class Codec(Protocol):
    """One wire format. `adapt` may learn from a refusal how this service wants it; then it is asked once more."""

    def encode(self, request: Request) -> bytes: ...
    def decoder(self, request: Request) -> Decoder: ...
    def adapt(self, error: ProviderError) -> bool: ...


class WireProvider:
    """The Provider of every service that streams over HTTP."""

    def __init__(
        self,
        spec: ModelSpec,
        codec: Codec,
        transport: Transport,
        *,
        context_window: int,
        max_output_tokens: int,
        idle_timeout: float,
        price: Callable[[Usage], float | None],
        on_request: Callable[[bytes], None] | None = None,
    ) -> None:
        self.name = spec.provider
        self.model = spec.model
        self.context_window = context_window
        self.max_output_tokens = max_output_tokens
        self.price = price
        self._codec = codec
        self._transport = transport
        self._idle_timeout = idle_timeout
        self._on_request = on_request

    async def stream(self, request: Request) -> AsyncGenerator[Delta | Used | Reply, None]:
        """Deltas as they come, then exactly one Reply."""
        while True:
            decoder = self._codec.decoder(request)
            try:
                async with contextlib.aclosing(self._deltas(self._codec.encode(request), decoder)) as deltas:
                    async for delta in deltas:
                        yield delta
                reply = self._checked(decoder.reply)
                if reply is None:
                    raise broken_stream(self._transport.host, _CUT if decoder.beats else _NO_ANSWER)
                break
            except ProviderError as error:
                if not self._codec.adapt(error):
                    # A stream that had begun was read by the model, whether or not the service said so.
                    error.usage = fill_usage(decoder.usage, request) if decoder.beats else decoder.usage
                    raise
        yield replace(reply, usage=fill_usage(reply.usage, request, reply.content))

    async def aclose(self) -> None:
        await self._transport.aclose()

    async def _deltas(self, body: bytes, decoder: Decoder) -> AsyncGenerator[Delta | Used, None]:
        if self._on_request is not None:
            self._on_request(body)
        reads = self._transport.post(body)
        try:
            with IdleWatch(self._idle_timeout) as watch:
                beats, told = 0, decoder.usage
                while not decoder.done:
                    payloads = await watch.wait(anext(reads, None))
                    if payloads is None:
                        return
                    deltas = self._checked(decoder.feed, payloads)
                    if decoder.beats != beats:
                        beats = decoder.beats
                        watch.touch(_AFTERWORD if decoder.settled else None)
                    if decoder.usage is not told:
                        told = decoder.usage
                        yield Used(told)
                    for delta in deltas:
                        yield delta
            with contextlib.suppress(TimeoutError, ProviderError):
                async with asyncio.timeout(_GRACE):
                    async for _ in reads:
                        pass
        except Silence:
            if not decoder.settled:
                raise stalled(self._transport.host, self._idle_timeout) from None
        except ProviderError:
            # A connection lost after the stop event has lost nothing of the answer.
            if not decoder.settled:
                raise
        finally:
            await reads.aclose()

    def _checked(self, decode: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Decode, where readable JSON of a shape no service sends is a broken stream too."""
        try:
            return decode(*args, **named)
        except (KeyError, TypeError, AttributeError):
            raise broken_stream(self._transport.host, "a piece of the stream is not as agreed") from None
