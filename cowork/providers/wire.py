"""A model behind HTTP: a codec turns blocks into a body and events into blocks, a transport moves the bytes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Mapping
from dataclasses import replace
from functools import partial
from typing import Protocol, TypeVar

from cowork.core.errors import ProviderError
from cowork.core.ports import Delta, ModelSpec, OnRequest, Reply, Request, Used
from cowork.http.client import NETWORK_ERRORS, HttpClient, Response
from cowork.http.errors import HttpError, broken_stream, connection_error, proxy_refusal
from cowork.http.sse import SseParser
from cowork.providers.catalog import facts_of
from cowork.providers.codecs.base import Codec, Decoder
from cowork.providers.errors import http_error
from cowork.providers.prices import fill_usage, price

T = TypeVar("T")

_CUT = "the stream ended before the answer was complete"
_NO_ANSWER = "what it sent is no answer of a model; is the base URL right?"
_LONGEST_ERROR = 64 * 1024  # bytes of a refusal worth reading
_AFTERWORD = 3.0  # seconds for what may follow the stop event, such as usage
_MERCY = 1.0  # seconds at most in which what already came can still be read
_GRACE = 0.2  # seconds a finished stream may take to close, so that its connection can be used again


class Transport(Protocol):
    """POSTs a body and gives the answer as a stream of events, read by read, or raises ProviderError."""

    @property
    def host(self) -> str: ...
    def post(self, body: bytes) -> AsyncGenerator[bytes, None]: ...
    async def aclose(self) -> None: ...


class DirectTransport:
    """POSTs over our own HTTP client, whose connections are kept for the life of the provider.

    Redirects are never followed, so the key reaches this host and no other. `host` is its name for people, `secret`
    what is never to be shown, whatever the service echoes.
    """

    def __init__(self, client: HttpClient, headers: Mapping[str, str], *, host: str, secret: str = "") -> None:
        self.host = host
        self._secret = secret
        self._client = client
        self._headers = {"content-type": "application/json", "accept": "text/event-stream", **headers}
        self.aclose = client.aclose

    async def post(self, body: bytes) -> AsyncGenerator[bytes, None]:
        response: Response | None = None
        try:
            response = await self._client.send("POST", self._headers, body)
            if response.status == 407 and (proxy := self._client.proxy):
                raise proxy_refusal(response.status, proxy.name, self.host)
            if response.status != 200:
                start = await response.start_of(_LONGEST_ERROR)
                raise http_error(response.status, response.headers, start, host=self.host, secret=self._secret)
            while data := await response.read():
                yield data
        except NETWORK_ERRORS as error:
            if response is None:
                raise connection_error(error, host=self.host, secret=self._secret) from error
            why = "the connection was lost in the middle of the answer"
            raise broken_stream(self.host, str(error) if isinstance(error, HttpError) else why) from error
        finally:
            if response is not None:
                response.close()


class WireProvider:
    """The Provider of every service that streams over HTTP."""

    def __init__(
        self, spec: ModelSpec, codec: Codec, transport: Transport, *, idle_timeout: float, on_request: OnRequest = None
    ) -> None:
        self.name = spec.provider
        self.model = spec.model
        self.context_window = spec.context_window or facts_of(spec.model).window
        self.max_output_tokens = codec.max_output_tokens
        self.price = partial(price, spec.model, overrides=spec.prices, base_url=spec.base_url)
        self.aclose = transport.aclose
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
                reply = decoder.reply()
                if reply is None:
                    raise broken_stream(self._transport.host, _CUT if decoder.beats else _NO_ANSWER)
                break
            except ProviderError as error:
                if not self._codec.adapt(error):
                    # A stream that had begun was read by the model, whether or not the service said so.
                    error.usage = fill_usage(decoder.usage, request) if decoder.beats else decoder.usage
                    raise
        yield replace(reply, usage=fill_usage(reply.usage, request, reply.content))

    async def _deltas(self, body: bytes, decoder: Decoder) -> AsyncGenerator[Delta | Used, None]:
        if self._on_request is not None:
            self._on_request(body)
        reads = self._transport.post(body)
        try:
            watch, parser = IdleWatch(self._idle_timeout), SseParser(self._transport.host)
            beats, told, more = 0, decoder.usage, True
            while more and not decoder.done:
                data = await watch.wait(anext(reads, None))
                more = data is not None
                deltas = decoder.feed(parser.close() if data is None else parser.feed(data))
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
        except TimeoutError:
            if not decoder.settled:
                seconds = f"{self._idle_timeout:g} s"
                raise ProviderError("stalled", f"{self._transport.host} sent no data for {seconds}") from None
        except ProviderError:
            # A connection lost after the stop event has lost nothing of the answer.
            if not decoder.settled:
                raise
        finally:
            await reads.aclose()


class IdleWatch:
    """Ends a wait for data that takes longer than a limit.

    `touch()` says that data came. Only waits count: while the consumer is busy with what it got, no time goes against
    the service. Nor does time in which we could not run, a suspended laptop or ^Z: whatever came meanwhile is taken in
    before the wait is given up.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self.touch()

    def touch(self, limit: float | None = None) -> None:
        """Data came; `limit` is how long to wait for more, if not as long as ever."""
        self._left = self._limit if limit is None else min(limit, self._limit)
        self._end: float | None = None  # of the mercy, once the limit has passed

    async def wait(self, what: Awaitable[T]) -> T:
        """The result of `what`, or a TimeoutError when the limit passes first."""
        began = self._loop.time()
        async with asyncio.timeout(None) as timer:
            limit = self._loop.call_later(self._left, self._show_mercy, timer)
            try:
                return await what
            finally:
                limit.cancel()
                self._left -= self._loop.time() - began

    def _show_mercy(self, timer: asyncio.Timeout) -> None:
        self._end = self._end or self._loop.time() + min(self._limit / 10, _MERCY)
        timer.reschedule(self._end)
