"""The Messages API: our blocks as its request, its stream as our blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Any

from cowork.core.blocks import Block, Image, Json, Message, Text, Thinking, ToolResult, ToolUse
from cowork.core.errors import ProviderError
from cowork.core.ports import ModelSpec, Request, StopReason
from cowork.providers.catalog import ThinkingStyle, facts_of
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
# what a refusal names, and how the model is told to think from then on
_LEARNED: dict[str, ThinkingStyle | None] = {
    "thinking.type.disabled": "always",
    "thinking.type.enabled": "adaptive",
    "adaptive": "budget",
    "effort": None,  # as before, but without one
    "thinking": "none",
}
_SEARCH: Json = {"type": "web_search_20250305", "name": "web_search"}
# kind -> what it adds to, and the field that holds it
_DELTAS: dict[str, tuple[base.Kind, str]] = {
    "text_delta": ("text", "text"),
    "input_json_delta": ("tool", "partial_json"),
    "thinking_delta": ("thinking", "thinking"),
}
_COUNTS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_input_tokens": "cache_read_tokens",
    "cache_creation_input_tokens": "cache_write_tokens",
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

    _blocks: dict[int, tuple[Json, list[str]]]  # how each began, and what was written to it

    def _content(self) -> list[Block]:
        written = ((start, "".join(texts)) for _, (start, texts) in sorted(self._blocks.items(), key=itemgetter(0)))
        return [block for start, text in written if (block := _block_of(start, text, self._model)) is not None]

    def _event(self, event: Json, pieces: Pieces) -> None:
        kind = event.get("type")
        if kind == "error" or (kind != "content_block_delta" and event.get("error")):
            raise self._failure(event)
        if not kind or kind == "ping":
            return
        self.beats += 1
        match kind:
            case "content_block_delta":
                self._delta(event, pieces)
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

    def _delta(self, event: Json, pieces: Pieces) -> None:
        block = self._blocks.get(event.get("index", -1))
        delta = event.get("delta")
        if block is None or not isinstance(delta, dict):
            return
        start, texts = block
        kind = delta.get("type")
        if kind == "signature_delta":
            start["signature"] = start.get("signature", "") + delta["signature"]
        elif kind == "citations_delta":
            self._cite(delta["citation"])
        elif kind in _DELTAS:
            shown, field = _DELTAS[kind]
            texts.append(delta[field])
            pieces.append((shown, delta[field]))

    def _start(self, index: int, start: Json, pieces: Pieces) -> None:
        kind = start.get("type")
        texts: list[str] = []
        self._blocks[index] = (dict(start), texts)
        if kind == "text" and start.get("text"):
            texts.append(start["text"])
            pieces.append(("text", start["text"]))
        elif kind == "tool_use":
            pieces.append(("tool", str(start.get("name", ""))))
        elif kind == "web_search_tool_result" and isinstance(start.get("content"), list):  # else why it failed
            for page in start["content"]:
                self._cite(page)

    def _count(self, usage: Any) -> None:
        """Counts are totals so far: a later one replaces an earlier one."""
        if isinstance(usage, dict):
            self._searches = (usage.get("server_tool_use") or {}).get("web_search_requests") or self._searches
            told = {ours: usage[key] for key, ours in _COUNTS.items() if isinstance(usage.get(key), int)}
            self.usage = replace(self.usage, **told)


class AnthropicCodec(Codec):
    """Requests whose bytes only grow at the end from turn to turn, but for the cache marks that move with it."""

    decodes_with = AnthropicDecoder

    def __init__(self, spec: ModelSpec, host: str) -> None:
        super().__init__(spec, host)
        self._facts = facts_of(spec.model)
        self._style: ThinkingStyle = self._facts.thinking
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
        encoded = [self._bytes_of(message, thinks) for message in request.messages]
        # Marks go to the end now and the end one turn ago, so that a turn of many blocks still finds the cache.
        for n in [n for n, message in enumerate(request.messages) if message.role == "user" and message.content][-2:]:
            if encoded[n].endswith(b"}]}"):  # the end of the last block, of the content, of the message
                encoded[n] = encoded[n][:-3] + _MARK_BYTES + b"}]}"
        return base.assemble(head, "messages", encoded, tail)

    def adapt(self, error: ProviderError) -> bool:
        """Models differ in how they may be told to think; a refusal names the way."""
        if error.kind != "bad_request" or "support" not in error.message:
            return False
        before = (self._style, self._effort)
        named = next((word for word in _LEARNED if word in error.message), "")
        self._style = _LEARNED.get(named) or self._style
        self._effort = self._effort and named != "effort"
        return (self._style, self._effort) != before

    def _tail(self, request: Request) -> Json:
        limit = request.max_output_tokens or self.max_output_tokens
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
        limit = max(limit, min(budget + _ROOM_TO_ANSWER, self._facts.output))
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

    def _items(self, message: Message, thinks: bool) -> list[Json]:
        return [{"role": message.role, "content": self._encode_blocks(message.content, thinks)}]

    def _encode_blocks(self, blocks: Sequence[Block], thinks: bool = False) -> list[Json]:
        """The blocks as the service takes them; blank texts and reasoning that is not wanted back are left out."""
        out: list[Json] = []
        for block in blocks:
            match block:
                case Text(text) if text.strip():
                    out.append({"type": "text", "text": text})
                case ToolUse(id, name, input):
                    call = {"type": "tool_use", "id": _call_id(id), "name": base.plain_name(name), "input": input}
                    out.append(call)
                case ToolResult():
                    out.append(self._result(block))
                case Image(media_type, data):
                    source = {"type": "base64", "media_type": media_type, "data": data}
                    out.append({"type": "image", "source": source})
                case Thinking(wire=wire) if thinks and self._is_own_thinking(block):
                    out.append(wire)
        return out

    def _result(self, result: ToolResult) -> Json:
        content: Any = result.content if isinstance(result.content, str) and result.content.strip() else ""
        if not isinstance(result.content, str):  # a failed result may hold no images
            content = self._encode_blocks([b for b in result.content if isinstance(b, Text) or not result.is_error])
        id = _call_id(result.tool_use_id)
        out = {"type": "tool_result", "tool_use_id": id, "content": content or base.NO_OUTPUT}
        return out | {"is_error": True} if result.is_error else out


def _block_of(start: Json, text: str, model: str) -> Block | None:
    """The block that began with `start` and got `text`."""
    match start.get("type"):
        case "text":
            return Text(text) if text else None
        case "thinking":
            whole = start.get("thinking", "") + text
            return Thinking(whole, start | {"thinking": whole}, model)
        case "redacted_thinking":
            return Thinking("", start, model)
        case "tool_use":
            given = start.get("input")
            arguments, malformed = base.load_arguments(text)
            if not text.strip() and isinstance(given, dict):
                arguments = given  # some services send it whole with the start
            return ToolUse(str(start.get("id", "")), str(start.get("name", "")), arguments, malformed)
    return None
