"""The Responses API: our blocks as its input items, its stream as our blocks. Nothing is stored on the service."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from cowork.core.blocks import Block, Image, Json, Message, Text, Thinking, ToolResult, ToolUse
from cowork.core.errors import ProviderError
from cowork.core.ports import ModelSpec, Request, StopReason
from cowork.providers.catalog import facts_of
from cowork.providers.codecs import base
from cowork.providers.codecs.base import Codec, Decoder, Pieces, dump

BASE_URL = "https://api.openai.com/v1"

_LEAST_OUTPUT = 16
_call_id = partial(base.fit_id, r"(?s:.{1,64})", "call_")
_ENCRYPTED = "reasoning.encrypted_content"
_FOUND = "web_search_call.action.sources"
# Said of past reasoning.
_STALE = re.compile(r"not persisted|could not be (verified|decrypted)|required following item")
_IDLE_EVENTS = ("ping", "keepalive")


class OpenAIDecoder(Decoder):
    """Folds one stream of the Responses API."""

    stops: Mapping[str, StopReason] = {"incomplete": "max_tokens", "content_filter": "refusal"}
    _blocks: dict[int, Json]

    def _content(self) -> list[Block]:
        content: list[Block] = []
        for _, item in sorted(self._blocks.items()):
            match item.get("type"):
                case "web_search_call":
                    self._searches += 1
                    for page in (item.get("action") or {}).get("sources") or ():
                        self._cite(page)
                case "message":
                    text, refused = _message_text(item)
                    self._refused = self._refused or refused
                    for part in item.get("content") or ():
                        for note in part.get("annotations") or ():
                            self._cite(note)
                    content += [Text(text)] if text else []
                case "reasoning":
                    parts = item.get("summary") or item.get("content") or []
                    content.append(Thinking("\n\n".join(p.get("text") or "" for p in parts), item, self._model))
                case "function_call":
                    id, name = item.get("call_id") or item.get("id") or "", item.get("name") or ""
                    arguments, malformed = base.load_arguments(item.get("arguments") or "")
                    if item.get("status") == "incomplete" and not malformed:
                        arguments, malformed = {}, base.CUT_OFF
                    content.append(ToolUse(str(id), str(name), arguments, malformed))
        return content

    def _event(self, event: Json, pieces: Pieces) -> None:
        kind = event.get("type", "")
        if kind == "error" or (not kind and event.get("error")):
            raise self._failure(event)
        if kind in _IDLE_EVENTS or (not kind and event.get("object") != "response"):
            return
        self.beats += 1
        match kind:
            case "response.output_text.delta" | "response.refusal.delta":
                pieces.append(("text", event["delta"]))
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                pieces.append(("thinking", event["delta"]))
            case "response.reasoning_summary_part.added":
                if event.get("summary_index"):
                    pieces.append(("thinking", "\n\n"))
            case "response.function_call_arguments.delta":
                pieces.append(("tool", event["delta"]))
            case "response.output_item.added":
                if event["item"].get("type") == "function_call":
                    pieces.append(("tool", event["item"].get("name") or ""))
            case "response.output_item.done":
                self._blocks[event.get("output_index", len(self._blocks))] = event["item"]
            case "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled":
                self._end(kind, event.get("response") or {})
            case "":  # the whole answer, of a service that does not stream
                for item in event.get("output") or []:
                    pieces.append(("text", _message_text(item)[0] if item.get("type") == "message" else ""))
                self._end(f"response.{event.get('status')}", event)

    def _end(self, kind: str, response: Json) -> None:
        self.usage = base.openai_usage(response.get("usage"), "input_tokens", "output_tokens")
        if kind in ("response.failed", "response.cancelled"):
            raise self._failure(response.get("error"))
        self._blocks = self._blocks or dict(enumerate(response.get("output") or ()))
        filtered = (response.get("incomplete_details") or {}).get("reason") == "content_filter"
        self._stop = "content_filter" if filtered else response.get("status") or ""
        self.settled = self.done = True


class OpenAICodec(Codec):
    """Requests that carry the whole conversation, reasoning included, so that the service need keep nothing."""

    decodes_with = OpenAIDecoder

    def __init__(self, spec: ModelSpec, host: str) -> None:
        super().__init__(spec, host)
        self._reasons = facts_of(spec.model).thinking == "effort" or spec.thinking not in ("off", 0)
        self._refused: set[str] = set()  # optional fields this service does not take

    def encode(self, request: Request) -> bytes:
        head: Json = {"model": self._model, "store": False}
        if request.system.strip():
            head["instructions"] = request.system
        if request.tools:
            # Strict schemas may have no optional parameters.
            rest = [{"name": t.name, "description": t.description, "parameters": t.schema} for t in request.tools]
            head["tools"] = [{"type": "function", **tool, "strict": False} for tool in rest]
        if request.searches:
            head.setdefault("tools", []).append({"type": "web_search"})
        if request.session_id and "prompt_cache_key" not in self._refused:
            head["prompt_cache_key"] = request.session_id
        reasons = self._reasons and "reasoning" not in self._refused
        recalls = reasons and "past reasoning" not in self._refused
        encoded = [self._bytes_of(message, recalls) for message in request.messages]
        return base.assemble(head, "input", encoded, self._tail(request, reasons))

    def adapt(self, error: ProviderError) -> bool:
        """Models without reasoning refuse what belongs to it, services that of others; some lack the cache key."""
        if error.kind not in ("bad_request", "not_found"):
            return False
        said, before = error.message.lower(), len(self._refused)
        if _STALE.search(said):
            self._refused.add("past reasoning")
        elif "reasoning" in said or "encrypted content" in said:
            self._refused.add("reasoning")
        if "prompt_cache_key" in said:
            self._refused.add("prompt_cache_key")
        return len(self._refused) != before

    def _tail(self, request: Request, reasons: bool) -> Json:
        limit = request.max_output_tokens or self.max_output_tokens
        tail: Json = {"max_output_tokens": max(limit, _LEAST_OUTPUT), "stream": True}
        if request.tools and request.tool_choice == "none":
            tail["tool_choice"] = "none"
        if request.searches:
            tail |= {"max_tool_calls": request.searches, "include": [_FOUND]}
        if reasons:
            tail["include"] = [*tail.get("include", ()), _ENCRYPTED]
            if effort := base.effort(self._level(request)):
                tail["reasoning"] = {"effort": effort, "summary": "auto"}
        return tail

    def _items(self, message: Message, recalls: bool) -> list[Json]:
        if message.role == "user":
            said = [b for b in message.content if isinstance(b, Image) or (isinstance(b, Text) and b.text.strip())]
            prompt = {"type": "message", "role": "user", "content": [_part(block) for block in said]}
            return [*map(_output, message.results), *([prompt] if said else [])]
        items: list[Json] = []
        waiting: list[Json] = []  # reasoning is only taken together with what it led to
        for block in message.content:
            match block:
                case Thinking(wire=wire, model=model):
                    if recalls and model == self._model and wire.get("encrypted_content"):
                        waiting.append({k: v for k, v in wire.items() if v is not None and k != "status"})
                    continue
                case Text(text) if text.strip():
                    part = {"type": "output_text", "text": text}
                    item: Json = {"type": "message", "role": "assistant", "content": [part]}
                case ToolUse(id, name, input):
                    item = {"type": "function_call", "call_id": _call_id(id), "name": base.plain_name(name)}
                    item["arguments"] = dump(input).decode()
                case _:
                    continue
            items += [*waiting, item]
            waiting = []
        return items


def _output(result: ToolResult) -> Json:
    mark = base.failure_mark(result)
    if isinstance(result.content, str):
        output: Any = mark + (result.content if result.content.strip() else base.NO_OUTPUT)
    else:
        output = [_part(part) for part in [Text(mark)] * bool(mark) + base.parts_of(result)]
    return {"type": "function_call_output", "call_id": _call_id(result.tool_use_id), "output": output or base.NO_OUTPUT}


def _part(block: Text | Image) -> Json:
    if isinstance(block, Text):
        return {"type": "input_text", "text": block.text}
    return {"type": "input_image", "image_url": f"data:{block.media_type};base64,{block.data}", "detail": "auto"}


def _message_text(item: Json) -> tuple[str, bool]:
    """The text of a message, and whether it is a refusal."""
    parts = item.get("content") or []
    refused = any(part.get("type") == "refusal" for part in parts)
    return "".join(part.get("text") or part.get("refusal") or "" for part in parts), refused
