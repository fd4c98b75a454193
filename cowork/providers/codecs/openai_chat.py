"""Chat Completions, as OpenAI and every server that imitates it speak it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from cowork.core.blocks import Block, Image, Json, Message, Text, Thinking, ToolResult, ToolUse
from cowork.core.errors import ProviderError
from cowork.core.ports import ModelSpec, Request, StopReason
from cowork.providers.catalog import facts_of
from cowork.providers.codecs import base
from cowork.providers.codecs.base import Codec, Decoder, Pieces, dump

BASE_URL = "https://api.openai.com/v1"

_OPTIONAL = ("stream_options", "prompt_cache_key", "reasoning_effort", "tool_choice")
_NO_NULL = re.compile(r"content.{0,200}(valid string|null|none|must be a string)", re.IGNORECASE)
_NOT_TAKEN = re.compile(r"un(supported|known|recognized|expected)|not (supported|permitted|allowed)", re.IGNORECASE)


class ChatDecoder(Decoder):
    """Folds one stream of chunks, whichever server wrote it."""

    stops: Mapping[str, StopReason] = {
        "length": "max_tokens",
        "max_tokens": "max_tokens",
        "model_length": "max_tokens",
        "content_filter": "refusal",
        "refusal": "refusal",
    }

    def __init__(self, model: str, host: str, secret: str, turn: int = 0) -> None:
        super().__init__(model, host, secret, turn)
        self._calls = CallPieces(turn)
        self._text: list[str] = []
        self._thoughts: list[str] = []
        self._tags = ThinkTags()
        self._details: list[Json] = []  # reasoning as a router wants it back

    def _content(self) -> list[Block]:
        self._add(self._tags.close())
        text, thoughts = "".join(self._text), "".join(self._thoughts)
        given = {
            "reasoning_content": thoughts,
            "reasoning_details": self._details,
            "extra_content": self._calls.extras,
        }
        wire = {name: value for name, value in given.items() if value}
        thinking = [Thinking(thoughts, wire, self._model)] if wire else []
        return [*thinking, *([Text(text)] if text else []), *self._calls.close()]

    def _event(self, event: Json, pieces: Pieces) -> None:
        if event.get("error") or event.get("object") == "error":
            raise self._failure(event)
        if event.get("usage"):
            self.beats += 1
            self.usage = base.openai_usage(event["usage"], "prompt_tokens", "completion_tokens")
        if choices := event.get("choices"):
            self.beats += 1
            self._choice(choices[0], pieces)

    def _end_of_stream(self) -> None:
        self.beats += 1
        self.settled = self.done = True

    def _choice(self, choice: Json, pieces: Pieces) -> None:
        delta = choice.get("delta") or choice.get("message") or {}
        if text := delta.get("content"):
            text = text if isinstance(text, str) else "".join(part.get("text") or "" for part in text)
            pieces += self._add(self._tags.feed(text))
        if thought := delta.get("reasoning_content") or delta.get("reasoning"):
            pieces += self._add([("thinking", thought)])
        for detail in delta.get("reasoning_details") or ():
            _join(self._details, detail)
        if refusal := delta.get("refusal"):
            self._refused = True
            pieces += self._add([("text", refusal)])
        for piece in delta.get("tool_calls") or ():
            pieces.append(("tool", self._calls.add(piece)))
        if legacy := delta.get("function_call"):
            pieces.append(("tool", self._calls.add({"index": 0, "function": legacy})))
        if finish := choice.get("finish_reason"):
            if finish == "error":
                raise self._failure(choice.get("error"))
            self._stop = finish
            self.settled = True

    def _add(self, pieces: Pieces) -> Pieces:
        for kind, text in pieces:
            (self._text if kind == "text" else self._thoughts).append(text)
        return pieces


class ChatCodec(Codec):
    """Requests with what a server is known to take; what it refuses by name is left out from then on."""

    decodes_with = ChatDecoder

    def __init__(self, spec: ModelSpec, host: str) -> None:
        super().__init__(spec, host)
        self._openai = host.endswith(("openai.com", "azure.com"))
        self._echo = bool(spec.options.get("echo_reasoning", facts_of(spec.model).echo_reasoning))
        self._refused: set[str] = set()
        names = ["max_completion_tokens", "max_tokens"]  # OpenAI's own models want the newer one
        self._limit_names = names if self._openai else names[::-1]
        self._empty: str | None = None  # the content of a message that is nothing but calls

    def encode(self, request: Request) -> bytes:
        head: Json = {"model": self._model}
        if request.tools:
            named = [{"name": t.name, "description": t.description, "parameters": t.schema} for t in request.tools]
            head["tools"] = [{"type": "function", "function": function} for function in named]
        if request.session_id and self._openai:
            head["prompt_cache_key"] = request.session_id
        tail: Json = {"stream": True, "stream_options": {"include_usage": True}}
        if request.tools and request.tool_choice == "none":
            tail["tool_choice"] = "none"
        if effort := base.effort(self._level(request)):
            tail["reasoning_effort"] = effort
        tail[self._limit_names[0]] = request.max_output_tokens or self.max_output_tokens
        head, tail = ({k: v for k, v in part.items() if k not in self._refused} for part in (head, tail))
        encoded = [dump({"role": "system", "content": request.system})] if request.system.strip() else []
        encoded += [self._bytes_of(message, self._empty) for message in request.messages]
        return base.assemble(head, "messages", encoded, tail)

    def adapt(self, error: ProviderError) -> bool:
        """Leave out, or rename, the optional field a refusal names."""
        said = error.message
        if error.kind != "bad_request":
            return False
        if self._empty is None and _NO_NULL.search(said):
            self._empty = ""
            return True
        if not _NOT_TAKEN.search(said):
            return False
        if "max_tokens" in said or "max_completion_tokens" in said:
            refused, *left = self._limit_names
            self._limit_names = left or [refused]
            return bool(left)
        named = {field for field in _OPTIONAL if field in said} - self._refused
        self._refused |= named
        return bool(named)

    def _items(self, message: Message, empty: str | None) -> list[Json]:
        return [self._assistant(message, empty)] if message.role == "assistant" else _user(message)

    def _assistant(self, message: Message, empty: str | None) -> Json:
        texts = [b.text for b in message.content if isinstance(b, Text) and b.text.strip()]
        out: Json = {"role": "assistant", "content": "\n\n".join(texts) or empty}
        thoughts = [b for b in message.content if isinstance(b, Thinking) and b.model == self._model]
        if self._echo and any(b.text for b in thoughts):
            out["reasoning_content"] = "".join(b.text for b in thoughts)
        if details := [d for b in thoughts for d in b.wire.get("reasoning_details", ())]:
            out["reasoning_details"] = details
        if message.calls:
            extras = [extra for b in thoughts for extra in b.wire.get("extra_content", ())]
            out["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": base.plain_name(call.name), "arguments": dump(call.input).decode()},
                    **({"extra_content": extra} if extra else {}),
                }
                for call, extra in zip_longest(message.calls, extras[: len(message.calls)])
            ]
        return out


def _join(details: list[Json], piece: Json) -> None:
    """Add a piece of reasoning; text comes in many, what is signed or encrypted in one."""
    last = details[-1] if details else {}
    name = next((name for name in ("text", "summary") if name in piece and name in last), "")
    if name and (last.get("type"), last.get("index")) == (piece.get("type"), piece.get("index")):
        said = {key: value for key, value in piece.items() if value is not None}
        details[-1] = last | said | {name: (last[name] or "") + (piece[name] or "")}
    else:
        details.append(piece)


def _user(message: Message) -> list[Json]:
    """Tool messages first, then one user message; images of results go there, since tool messages hold only text."""
    made: list[Json] = []
    parts: list[Json] = []
    for block in message.content:
        match block:
            case ToolResult(id):
                made.append({"role": "tool", "tool_call_id": id, "content": _result_text(block)})
                parts += [_image(inner) for inner in base.parts_of(block) if isinstance(inner, Image)]
            case Text(text) if text.strip():
                parts.append({"type": "text", "text": text})
            case Image():
                parts.append(_image(block))
    if parts and all(part["type"] == "text" for part in parts):
        return [*made, {"role": "user", "content": "\n\n".join(part["text"] for part in parts)}]
    return [*made, {"role": "user", "content": parts}] if parts else made


def _result_text(block: ToolResult) -> str:
    parts = base.parts_of(block)
    texts = [part.text for part in parts if isinstance(part, Text)]
    if len(texts) < len(parts):
        texts.append("(the image follows in the next message)")
    return base.failure_mark(block) + ("\n\n".join(texts) or base.NO_OUTPUT)


def _image(block: Image) -> Json:
    return {"type": "image_url", "image_url": {"url": f"data:{block.media_type};base64,{block.data}"}}


# ---------------------------------------------------------------- what servers really send


class ThinkTags:
    """Tells the thoughts that some servers leave at the start of the text, in `<think>` tags, from the text."""

    def __init__(self) -> None:
        self._inside: bool | None = None  # None: it is not known yet whether there are any, or more
        self._held, self._seen = "", False

    def feed(self, text: str) -> Pieces:
        """What a piece of text brings, as soon as it is known what it is."""
        held, self._held = self._held + text, ""
        if self._inside is None:
            start = held.lstrip()
            if "<think>".startswith(start):
                self._held = held
                return []
            self._inside = start.startswith("<think>")
            self._seen = self._seen or self._inside
            held = start.removeprefix("<think>") if self._seen else held
        if not self._inside:
            return [("text", held)]
        thought, end, rest = held.partition("</think>")
        if not end:  # its end may be cut in two
            kept = next((n for n in range(min(7, len(thought)), 0, -1) if "</think>".startswith(thought[-n:])), 0)
            thought, self._held = thought[: len(thought) - kept], thought[len(thought) - kept :]
        told: Pieces = [("thinking", thought)] if thought else []
        if end:
            self._inside = None
            told += self.feed(rest)
        return told

    def close(self) -> Pieces:
        """What was held back at the end of the stream."""
        held, self._held = self._held, ""
        return [("thinking" if self._inside else "text", held)] if held.strip() else []


@dataclass(slots=True)
class _Call:
    index: int | None
    id: str
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    extra: Any = None  # what a service wants back with the call, such as a signature

    def goes_on_with(self, id: str, name: str) -> bool:
        """Whether a piece that seems to belong to this call does, and does not start the next one."""
        if id and self.id:
            return id == self.id
        return not (name and self.name and _is_json("".join(self.arguments)))


class CallPieces:
    """Collects pieces by index, by id, or, where a server gives neither, by what came before."""

    def __init__(self, turn: int) -> None:
        self._turn = turn  # makes ids for servers that give none, new ones each turn
        self._calls: list[_Call] = []

    def add(self, piece: Json) -> str:
        """Take a piece in; gives the text it adds, for show."""
        function = piece.get("function") or {}
        name, arguments = function.get("name") or "", function.get("arguments")
        call = self._owner(piece.get("index"), piece.get("id") or "", name)
        shown = "" if call.name else name
        if not call.name or not any(call.arguments):  # names come in pieces too, or whole each time
            call.name = name if name.startswith(call.name) else call.name + name
        call.extra = piece.get("extra_content") or call.extra
        if isinstance(arguments, str):
            call.arguments.append(arguments)
            return shown + arguments
        if arguments is not None:
            call.arguments = [dump(arguments).decode()]
        return shown

    @property
    def extras(self) -> list[Any]:
        """What came beside each call, in their order; empty when nothing did."""
        found = [call.extra for call in self._calls if call.name]
        return found if any(found) else []

    def close(self) -> list[ToolUse]:
        """The calls, each with an id of its own."""
        made: dict[str, ToolUse] = {}
        for n, call in enumerate(call for call in self._calls if call.name):
            id = call.id or f"call_{self._turn}_{n}"
            while id in made:
                id += "_2"
            made[id] = ToolUse(id, call.name, *base.load_arguments("".join(call.arguments)))
        return list(made.values())

    def _owner(self, index: Any, id: str, name: str) -> _Call:
        """The call a piece belongs to, begun if it is a new one."""
        index = index if isinstance(index, int) else None
        if index is not None:
            found = [call for call in self._calls if call.index == index]
        else:
            found = [call for call in self._calls if call.id == id] if id else self._calls
        if found and found[-1].goes_on_with(id, name):
            found[-1].id = found[-1].id or id
            return found[-1]
        self._calls.append(_Call(index, id))
        return self._calls[-1]


def _is_json(text: str) -> bool:
    """Whether arguments are whole, so that another name must mean another call."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
