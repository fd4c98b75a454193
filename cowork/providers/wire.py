"""A model behind HTTP: a codec turns blocks into a body and events into blocks, a transport moves the bytes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, ParamSpec, Protocol, TypeVar

from cowork.core.blocks import Json, Message, Usage
from cowork.core.errors import ProviderError
from cowork.core.ports import Delta, ModelSpec, Reply, Request, Thinking, Used
from cowork.providers.faults import broken_stream, event_error, stalled
from cowork.providers.idle import IdleWatch, Silence

P = ParamSpec("P")
T = TypeVar("T")

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
                    raise broken_stream(self._transport.host)
                break
            except ProviderError as error:
                if not self._codec.adapt(error):
                    error.usage = decoder.usage
                    raise
        yield reply

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


class EncodedMessages:
    """Messages as the bytes sent for them, kept from request to request: a long conversation only grows at its end.

    Messages are made anew for each request but their blocks are not, so the blocks' identities are the key; holding
    the blocks keeps those identities theirs.
    """

    _ROOM = 64 * 2**20

    def __init__(self, encode: Callable[[Message, Any], bytes]) -> None:
        self._encode = encode
        self._kept: dict[tuple[Any, ...], tuple[Message, bytes]] = {}
        self._size = 0

    def get(self, message: Message, variant: Any = None) -> bytes:
        """The encoded message; `variant` is whatever else its encoding depends on."""
        key = (variant, message.role, *map(id, message.content))
        found = self._kept.get(key)
        if found is not None:
            return found[1]
        encoded = self._encode(message, variant)
        self._size += len(encoded)
        if self._size > self._ROOM:
            self._kept.clear()
            self._size = len(encoded)
        self._kept[key] = (message, encoded)
        return encoded


class Format:
    """What every codec keeps of its model, and of what it has encoded."""

    def __init__(self, spec: ModelSpec, *, host: str, max_output_tokens: int) -> None:
        self._model = spec.model
        self._host = host
        self._secret = spec.api_key
        self._thinking = spec.thinking
        self._limit = max_output_tokens
        self._messages = EncodedMessages(self._encode_message)

    def _level(self, request: Request) -> Thinking:
        """How much the model is to think."""
        return self._thinking if request.thinking is None else request.thinking

    def _encode_message(self, message: Message, variant: Any) -> bytes:
        raise NotImplementedError


class Fold:
    """What every decoder keeps of one stream."""

    def __init__(self, model: str, host: str, secret: str) -> None:
        self.beats = 0
        self.settled = False
        self.done = False
        self.usage = Usage()
        self._model = model
        self._host = host
        self._secret = secret

    def _failure(self, error: object) -> ProviderError:
        """The error a service put into the stream."""
        return event_error(error, host=self._host, secret=self._secret)


_PLAIN_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_ODD = re.compile(r"[^a-zA-Z0-9_-]")
_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_decoder = json.JSONDecoder()


def dump(value: Any) -> bytes:
    """Compact JSON in UTF-8, the same bytes for the same value; what UTF-8 cannot hold becomes a question mark."""
    return _encoder.encode(value).encode("utf-8", "replace")


def assemble(head: Json, key: str, items: Sequence[bytes], tail: Json) -> bytes:
    """One object: `head`, then `key` with the encoded items, then `tail`, so that what grows comes late."""
    first = dump(head)[:-1] + (b"," if head else b"")
    last = b"," + dump(tail)[1:] if tail else b"}"
    return b"".join((first, dump(key), b":[", b",".join(items), b"]", last))


def load_event(payload: bytes, host: str) -> Json:
    """The event a payload holds, or a broken_stream error."""
    try:
        event = _decoder.decode(payload.decode())
    except (ValueError, RecursionError):
        raise broken_stream(host, "a piece of the stream is not readable") from None
    return event if isinstance(event, dict) else {}


def load_arguments(text: str) -> tuple[Json, str]:
    """The arguments of a call, and why they cannot be used, else empty."""
    if not text.strip():
        return {}, ""
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        return {}, f"the arguments are not valid JSON: {error}"
    if not isinstance(value, dict):
        return {}, f"the arguments are a JSON {type(value).__name__}, not an object"
    return value, ""


def plain_name(name: str) -> str:
    """A tool name every service accepts: what a model made up must not make the conversation unsendable."""
    return name if _PLAIN_NAME.match(name) else _ODD.sub("_", name)[:64] or "_"


def effort(level: str | int) -> str:
    """The word for a thinking budget in tokens; a word stays itself."""
    if isinstance(level, str):
        return level
    return "low" if level < 6_000 else "medium" if level < 20_000 else "high"


class Deltas:
    """Collects the pieces of one read, joining neighbours of a kind, so that a burst is one Delta."""

    __slots__ = ("_kind", "_pieces", "found")

    def __init__(self) -> None:
        self.found: list[Delta] = []
        self._kind = ""
        self._pieces: list[str] = []

    def add(self, kind: str, text: str) -> None:
        if kind != self._kind:
            self._close()
            self._kind = kind
        self._pieces.append(text)

    def take(self) -> list[Delta]:
        self._close()
        return self.found

    def _close(self) -> None:
        if text := "".join(self._pieces):
            self.found.append(Delta(self._kind, text))  # type: ignore[arg-type]
        self._pieces = []


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
