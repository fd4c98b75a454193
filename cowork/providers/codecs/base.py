"""Shared by the codecs: encoded messages, the state of a stream, JSON in and out."""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal

from cowork.core.blocks import Block, Image, Json, Message, Text, ToolResult, ToolUse, Usage
from cowork.core.errors import ProviderError
from cowork.core.ports import Delta, ModelSpec, Reply, Request, Source, StopReason, Thinking
from cowork.http.errors import broken_stream
from cowork.providers.catalog import default_output
from cowork.providers.errors import event_error

Kind = Literal["text", "thinking", "tool"]
Pieces = list[tuple[Kind, str]]  # what one read adds: neighbours of a kind are joined, so that a burst is one Delta


class Codec(ABC):
    """One wire format, with what it keeps of its model and of what it has encoded."""

    decodes_with: type[Decoder]
    _ROOM = 64 * 2**20  # bytes of encoded messages

    def __init__(self, spec: ModelSpec, host: str) -> None:
        self.max_output_tokens = spec.max_output_tokens or default_output(spec.model)
        self._model = spec.model
        self._host = host
        self._secret = spec.api_key
        self._thinking = spec.thinking
        self._kept: dict[tuple[Any, ...], tuple[Message, bytes]] = {}
        self._size = 0  # of all that is kept

    @abstractmethod
    def encode(self, request: Request) -> bytes:
        """The request body."""

    @abstractmethod
    def adapt(self, error: ProviderError) -> bool:
        """Learn from a refusal how this service wants it; True when it should be asked once more."""

    def decoder(self, request: Request) -> Decoder:
        return self.decodes_with(self._model, self._host, self._secret, len(request.messages))

    def _level(self, request: Request) -> Thinking:
        """How much the model is to think."""
        return self._thinking if request.thinking is None else request.thinking

    def _bytes_of(self, message: Message, variant: Any) -> bytes:
        """The encoded message, kept from request to request: a long conversation only grows at its end.

        Messages are made anew for each request but their blocks are not, so the blocks' identities are the key; holding
        the blocks keeps those identities theirs. `variant` is whatever else the encoding depends on.
        """
        key = (variant, message.role, *map(id, message.content))
        if found := self._kept.get(key):
            return found[1]
        encoded = b",".join(dump(item) for item in self._items(message, variant))
        self._size += len(encoded)
        if self._size > self._ROOM:
            self._kept.clear()
            self._size = len(encoded)
        self._kept[key] = (message, encoded)
        return encoded

    @abstractmethod
    def _items(self, message: Message, variant: Any) -> Sequence[Json]:
        """What the message is inside this kind of request, as this service reads it."""


class Decoder(ABC):
    """Takes in the payloads of one answer. A subclass takes in one event at a time."""

    stops: Mapping[str, StopReason] = {}  # the service's word for why it stopped -> ours; any other: the end of a turn

    def __init__(self, model: str, host: str, secret: str, turn: int = 0) -> None:
        self.beats = 0  # events so far that were data, not keep-alives
        self.settled = False  # the stop event has come
        self.done = False  # nothing more is expected
        self.usage = Usage()
        self._model = model
        self._host = host
        self._secret = secret
        self._blocks: dict[int, Any] = {}  # what the service has begun to write, by its place in the answer
        self._stop = ""
        self._refused = False  # in words, in place of an answer
        self._searches = 0
        self._sources: dict[str, Source] = {}  # the pages a service found, by address

    def reply(self) -> Reply | None:
        """The whole answer; None as long as no stop event has come."""
        if not self.settled:
            return None
        try:
            content, stop = self._content(), self.stops.get(self._stop, "end_turn")
        except _ODD_SHAPES:
            raise broken_stream(self._host, _NOT_AS_AGREED) from None
        if stop == "end_turn" and any(isinstance(block, ToolUse) for block in content):
            stop = "tool_use"
        elif stop == "end_turn" and self._refused:
            stop = "refusal"
        elif stop in ("max_tokens", "context_overflow"):
            last = content[-1] if content else None
            if isinstance(last, ToolUse) and not last.input and not last.malformed:  # no argument of it came
                content[-1] = replace(last, malformed=CUT_OFF)
        return Reply(tuple(content), stop, self.usage, self._model, self._searches, tuple(self._sources.values()))

    def feed(self, payloads: Sequence[bytes]) -> list[Delta]:
        """Take in the payloads of one read; gives what they add to the answer."""
        pieces: Pieces = []
        try:
            for payload in payloads:
                if payload[:6] == b"[DONE]":
                    self._end_of_stream()
                elif isinstance(event := _decoder.decode(payload.decode()), dict):
                    self._event(event, pieces)
            runs = ((kind, "".join(text for _, text in run)) for kind, run in groupby(pieces, itemgetter(0)))
            return [Delta(kind, text) for kind, text in runs if text]
        except (ValueError, RecursionError):
            raise broken_stream(self._host, "a piece of the stream is not readable") from None
        except _ODD_SHAPES:
            raise broken_stream(self._host, _NOT_AS_AGREED) from None

    @abstractmethod
    def _event(self, event: Json, pieces: Pieces) -> None:
        """Take in one event; what it adds to the answer goes to `pieces`."""

    @abstractmethod
    def _content(self) -> list[Block]:
        """The blocks that the events make up."""

    def _end_of_stream(self) -> None:
        """Take in the mark with which OpenAI's formats end; most have said so before."""
        return

    def _cite(self, page: Json) -> None:
        """Keep a result or a citation as the service writes it."""
        url, quote = str(page.get("url") or ""), str(page.get("cited_text") or "")
        before = self._sources.get(url, Source(url))
        if url:
            self._sources[url] = Source(url, str(page.get("title") or "") or before.title, quote or before.quote)

    def _failure(self, error: object) -> ProviderError:
        """The error a service put into the stream."""
        return event_error(error, host=self._host, secret=self._secret)


_ODD_SHAPES = (KeyError, TypeError, AttributeError)  # readable JSON of a shape no service sends
_NOT_AS_AGREED = "a piece of the stream is not as agreed"
CUT_OFF = "the answer was cut off at its length limit"
NO_OUTPUT = "(no output)"  # of a call: no format takes an empty result

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
    return b"".join((first, dump(key), b":[", b",".join(filter(None, items)), b"]", last))


def load_arguments(text: str) -> tuple[Json, str]:
    """The arguments of a call, and why they cannot be used, else empty."""
    if not text.strip():
        return {}, ""
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        return {}, f"the arguments are not valid JSON: {error}"
    if not isinstance(value, dict):
        return {}, f"the arguments are a JSON {type(value).__name__}, not an object"
    return value, ""


def fit_id(accepted: str, prefix: str, id: str) -> str:
    """A call id that a service accepts, the same for the same id: other services have wilder ones."""
    if re.fullmatch(accepted, id):
        return id
    return prefix + hashlib.sha256(id.encode("utf-8", "replace")).hexdigest()[:24]


def openai_usage(raw: Any, prompt: str, output: str) -> Usage:
    """The usage in OpenAI's formats, which count cached tokens as part of the prompt's."""
    if not isinstance(raw, dict):
        return Usage()
    details = raw.get(f"{prompt}_details") or {}
    read = details.get("cached_tokens") or raw.get("prompt_cache_hit_tokens") or 0
    written = details.get("cache_write_tokens") or 0
    fresh = max(0, (raw.get(prompt) or 0) - read - written)
    return Usage(fresh, raw.get(output) or 0, read, written)


def parts_of(result: ToolResult) -> list[Text | Image]:
    """The images of a result and the texts that are not blank."""
    parts = [Text(result.content)] if isinstance(result.content, str) else result.content
    return [part for part in parts if not isinstance(part, Text) or part.text.strip()]


def failure_mark(block: ToolResult) -> str:
    """What says that a call failed, where the format has no field for it and the text does not say so itself."""
    first = next((part.text for part in parts_of(block) if isinstance(part, Text)), "")
    return "Error: " if block.is_error and first.lstrip()[:5].lower() != "error" else ""


def plain_name(name: str) -> str:
    """A tool name every service accepts: what a model made up must not make the conversation unsendable."""
    return name if _PLAIN_NAME.match(name) else _ODD.sub("_", name)[:64] or "_"


def effort(level: str | int) -> str:
    """The word for how much to think, by a word or a budget in tokens; empty for not at all."""
    if level in ("off", 0):
        return ""
    if isinstance(level, str):
        return level
    return "low" if level < 6_000 else "medium" if level < 20_000 else "high"


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
