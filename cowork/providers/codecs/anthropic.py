"""The Messages API: our blocks as its request, its stream as our blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from cowork.core.blocks import Block, Image, Json, Message, Text, Thinking, ToolResult, ToolUse, Usage
from cowork.core.errors import ProviderError
from cowork.core.ports import ModelSpec, Request, StopReason
from cowork.providers.catalog import ThinkingStyle, known
from cowork.providers.codecs import base
from cowork.providers.codecs.base import Codec, Decoder, Pieces, dump

VERSION = "2026-10-21"
BASE_URL = "https://api.anthropic.com"

_MARK: Json = {"type": "ephemeral"}
_MARK_BYTES = b',"cache_control":' + dump(_MARK)
_BUDGETS = {"low": 4_000, "medium": 12_000, "high": 31_999}
_LEAST_BUDGET = 1_024
_ROOM_TO_ANSWER = 4_096
_call_id = partial(base.fit_id, r"[a-zA-Z0-9_-]{1,128}", "toolu_")
_SEARCH: Json = {"type": "web_search_20250305", "name": "web_search"}
# kind -> what it adds to, and the field that holds it
_DELTAS: dict[str, tuple[base.Kind, str]] = {
    "text_delta": ("text", "text"),
    "input_json_delta": ("tool", "partial_json"),
    "thinking_delta": ("thinking", "thinking"),
}


class AnthropicDecoder(Decoder):
    """Folds one stream of the Messages API."""

    stops: Mapping[str, StopReason] = {
        "tool_use": "tool_use",
        "max_tokens": "max_tokens",
        "pause_turn": "pause_turn",
        "refusal": "refusal",
        "model_context_window_exceeded": "context_overflow",
    }

    def __init__(self, model: str, host: str, secret: str, turn: int = 0) -> None:
        super().__init__(model, host, secret, turn)
        self._blocks: dict[int, _Open] = {}
        self._counted: dict[str, int] = {}

    def _content(self) -> list[Block]:
        closed = (self._blocks[index].close(self._model) for index in sorted(self._blocks))
        return [block for block in closed if block is not None]

    def _event(self, event: Json, pieces: Pieces) -> None:
        kind = event.get("type")
        if kind == "content_block_delta":
            self.beats += 1
            self._delta(event, pieces)
        elif kind == "error" or event.get("error"):
            raise self._failure(event)
        elif kind and kind != "ping":
            self.beats += 1
            self._other(kind, event, pieces)

    def _delta(self, event: Json, pieces: Pieces) -> None:
        block = self._blocks.get(event.get("index", -1))
        delta = event.get("delta")
        if block is None or not isinstance(delta, dict):
            return
        kind = delta.get("type")
        if kind == "signature_delta":
            block.start["signature"] = block.start.get("signature", "") + delta["signature"]
        elif kind == "citations_delta":
            self._cite(delta["citation"])
        elif kind in _DELTAS:
            shown, field = _DELTAS[kind]
            text = delta[field]
            block.text.append(text)
            pieces.append((shown, text))

    def _other(self, kind: str, event: Json, pieces: Pieces) -> None:
        match kind:
            case "message_start":
                self._count((event.get("message") or {}).get("usage"))
            case "content_block_start":
                self._start(event.get("index", len(self._blocks)), event.get("content_block") or {}, pieces)
            case "message_delta":
                self._stop = (event.get("delta") or {}).get("stop_reason") or self._stop
                self._count(event.get("usage"))
            case "message_stop":
                self.settled = self.done = True
            case "message":  # the whole answer, of a service that does not stream
                for index, block in enumerate(event.get("content") or []):
                    self._start(index, block, pieces)
                self._stop = event.get("stop_reason") or ""
                self._count(event.get("usage"))
                self.settled = self.done = True

    def _start(self, index: int, start: Json, pieces: Pieces) -> None:
        block = self._blocks[index] = _Open(start)
        if block.kind == "text" and start.get("text"):
            block.text.append(start["text"])
            pieces.append(("text", start["text"]))
        elif block.kind == "tool_use":
            pieces.append(("tool", str(start.get("name", ""))))
        elif block.kind == "web_search_tool_result" and isinstance(start.get("content"), list):  # else why it failed
            for page in start["content"]:
                self._cite(page)

    def _count(self, usage: Any) -> None:
        """Counts are totals so far: a later one replaces an earlier one."""
        if not isinstance(usage, dict):
            return
        self._searches = (usage.get("server_tool_use") or {}).get("web_search_requests") or self._searches
        self._counted |= {key: value for key, value in usage.items() if isinstance(value, int)}
        get = self._counted.get
        self.usage = Usage(
            get("input_tokens", 0),
            get("output_tokens", 0),
            get("cache_read_input_tokens", 0),
            get("cache_creation_input_tokens", 0),
        )


class AnthropicCodec(Codec):
    """Requests whose bytes only grow at the end from turn to turn, but for the cache marks that move with it."""

    decodes_with = AnthropicDecoder

    def __init__(self, spec: ModelSpec, *, host: str, max_output_tokens: int) -> None:
        super().__init__(spec, host=host, max_output_tokens=max_output_tokens)
        self._known = known(spec.model)
        self._style: ThinkingStyle = self._known.thinking
        self._effort = True

    def encode(self, request: Request) -> bytes:
        head: Json = {"model": self._model}
        if request.tools:
            head["tools"] = [
                {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
                for tool in request.tools
            ]
            head["tools"][-1]["cache_control"] = _MARK
        if request.searches:
            head.setdefault("tools", []).append(_SEARCH | {"max_uses": request.searches})
        if request.system.strip():
            head["system"] = [{"type": "text", "text": request.system, "cache_control": _MARK}]
        tail = self._tail(request)
        thinks = tail.get("thinking", {}).get("type") in ("enabled", "adaptive") or self._style == "always"
        encoded = [self._messages.get(message, thinks) for message in request.messages]
        # Marks go to the end now and the end one turn ago, so that a turn of many blocks still finds the cache.
        for n in [n for n, message in enumerate(request.messages) if message.role == "user" and message.content][-2:]:
            if encoded[n].endswith(b"}]}"):  # the end of the last block, of the content, of the message
                encoded[n] = encoded[n][:-3] + _MARK_BYTES + b"}]}"
        return base.assemble(head, "messages", encoded, tail)

    def adapt(self, error: ProviderError) -> bool:
        """Models differ in how they may be told to think; a refusal names the way."""
        if error.kind != "bad_request" or "support" not in error.message:
            return False
        said, before = error.message, (self._style, self._effort)
        if "thinking.type.disabled" in said:
            self._style = "always"
        elif "thinking.type.enabled" in said:
            self._style = "adaptive"
        elif "adaptive" in said:
            self._style = "budget"
        elif "effort" in said:
            self._effort = False
        elif "thinking" in said:
            self._style = "none"
        return (self._style, self._effort) != before

    def _tail(self, request: Request) -> Json:
        limit = request.max_output_tokens or self._limit
        level = self._level(request)
        tail: Json = {"max_tokens": limit, "stream": True}
        if request.tools and request.tool_choice == "none":
            tail["tool_choice"] = {"type": "none"}
        if self._style == "budget":
            tail |= self._budget(level, limit, request.messages)
        elif self._style in ("adaptive", "always"):
            if effort := base.effort(level):
                tail["thinking"] = {"type": "adaptive", "display": "summarized"}
                if self._effort:
                    tail["output_config"] = {"effort": effort}
            elif self._style == "adaptive":
                tail["thinking"] = {"type": "disabled"}
        return tail

    def _budget(self, level: str | int, limit: int, messages: Sequence[Message]) -> Json:
        """A thinking budget that fits the output limit; nothing when it may not or cannot be asked for."""
        budget = _BUDGETS.get(level, 0) if isinstance(level, str) else level
        if budget <= 0 or not self._loop_began_thinking(messages):
            return {}
        limit = max(limit, min(budget + _ROOM_TO_ANSWER, self._known.output))
        budget = min(max(budget, _LEAST_BUDGET), limit - _LEAST_BUDGET)
        if budget < _LEAST_BUDGET:
            return {}
        return {"max_tokens": limit, "thinking": {"type": "enabled", "budget_tokens": budget}}

    def _loop_began_thinking(self, messages: Sequence[Message]) -> bool:
        """Whether the running tool loop, if there is one, starts with reasoning: a budget demands it."""
        first: Message | None = None
        for message in reversed(messages):
            if message.role == "assistant":
                first = message
            elif not message.results:
                break
        return first is None or (bool(first.content) and self._is_own_thinking(first.content[0]))

    def _is_own_thinking(self, block: Block) -> bool:
        if not isinstance(block, Thinking) or block.model != self._model:
            return False
        return block.wire.get("type") in ("thinking", "redacted_thinking")

    def _encode_message(self, message: Message, thinks: bool) -> bytes:
        blocks = (self._block(block, thinks) for block in message.content)
        return dump({"role": message.role, "content": [block for block in blocks if block is not None]})

    def _block(self, block: Block, thinks: bool) -> Json | None:
        match block:
            case Text(text):
                return {"type": "text", "text": text} if text.strip() else None
            case ToolUse(id, name, input):
                return {"type": "tool_use", "id": _call_id(id), "name": base.plain_name(name), "input": input}
            case ToolResult():
                return _result(block)
            case Image():
                return _image(block)
            case Thinking(wire=wire):
                return wire if thinks and self._is_own_thinking(block) else None


class _Open:
    """A block being written."""

    __slots__ = ("kind", "start", "text")

    def __init__(self, start: Json) -> None:
        self.kind = start.get("type")
        self.start = dict(start)
        self.text: list[str] = []

    def close(self, model: str) -> Block | None:
        text = "".join(self.text)
        match self.kind:
            case "text":
                return Text(text) if text else None
            case "thinking":
                whole = self.start.get("thinking", "") + text
                return Thinking(whole, self.start | {"thinking": whole}, model)
            case "redacted_thinking":
                return Thinking("", self.start, model)
            case "tool_use":
                given = self.start.get("input")
                arguments, malformed = base.load_arguments(text)
                if not text.strip() and isinstance(given, dict):
                    arguments = given  # some services send it whole with the start
                return ToolUse(str(self.start.get("id", "")), str(self.start.get("name", "")), arguments, malformed)
        return None


def _result(block: ToolResult) -> Json:
    content: Any = block.content
    if not isinstance(content, str):
        kept = [b for b in content if (b.text.strip() if isinstance(b, Text) else not block.is_error)]
        content = [{"type": "text", "text": b.text} if isinstance(b, Text) else _image(b) for b in kept]
    elif not content.strip():
        content = ""
    out = {"type": "tool_result", "tool_use_id": _call_id(block.tool_use_id), "content": content or base.NO_OUTPUT}
    return out | {"is_error": True} if block.is_error else out


def _image(block: Image) -> Json:
    return {"type": "image", "source": {"type": "base64", "media_type": block.media_type, "data": block.data}}
