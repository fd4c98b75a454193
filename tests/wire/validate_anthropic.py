"""What the Messages API refuses, reason by reason."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tests.wire.encode import signature

Body = Mapping[str, Any]
NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}\Z")
ID = re.compile(r"[a-zA-Z0-9_-]+\Z")
IMAGES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
EFFORTS = {"low", "medium", "high", "xhigh", "max"}
NO_BUDGET = re.compile(r"claude-(fable|mythos|(opus|sonnet|haiku)-5|opus-4-[78])")
ALWAYS_THINKS = re.compile(r"claude-(fable|mythos|opus-5-5)")
KEYS = {"model", "max_tokens", "messages", "system", "tools", "tool_choice", "thinking", "stream"}
KEYS |= {"metadata", "output_config", "stop_sequences", "service_tier"}


def anthropic(body: Body, paused: bool) -> Iterable[str]:
    yield from unknown(body, KEYS, "")
    yield from missing(body, ("model", "max_tokens", "messages"))
    if body.get("stream") is not True:
        yield "stream: this service only streams"
    limit = body.get("max_tokens")
    if not isinstance(limit, int) or limit < 1:
        yield "max_tokens: must be at least 1"
    system = body.get("system", "")
    if not isinstance(system, str):
        for n, block in enumerate(system):
            yield from _text_block(block, f"system.{n}")
    tools = body.get("tools") or []
    yield from _anthropic_tools(tools, body)
    yield from _anthropic_thinking(body, limit if isinstance(limit, int) else 0)
    messages = body.get("messages") or []
    if not messages:
        yield "messages: at least one message is required"
        return
    yield from _roles(messages, paused)
    yield from _anthropic_blocks(messages, body)
    yield from _anthropic_pairs(messages)
    if not tools and any(b.get("type") in ("tool_use", "tool_result") for m in messages for b in _blocks(m)):
        yield "tools: required while messages hold tool_use or tool_result blocks"
    marks = sum(1 for _ in _cache_marks(body))
    if marks > 4:
        yield f"A maximum of 4 blocks with cache_control may be provided. Found {marks}."
    for mark in _cache_marks(body):
        if mark.get("type") != "ephemeral" or set(mark) - {"type", "ttl"}:
            yield f"cache_control: {mark} is not valid"


def _anthropic_tools(tools: list[Body], body: Body) -> Iterable[str]:
    names = [tool.get("name") for tool in tools]
    if len(set(names)) != len(names):
        yield "tools: Tool names must be unique."
    for n, tool in enumerate(tools):
        where = f"tools.{n}"
        if tool.get("type") == "web_search_20250305":
            yield from unknown(tool, {"type", "name", "max_uses", "allowed_domains", "blocked_domains"}, where)
            if tool.get("name") != "web_search" or not isinstance(tool.get("max_uses"), int):
                yield f"{where}: invalid"
            continue
        yield from unknown(tool, {"name", "description", "input_schema", "cache_control"}, where)
        if not NAME.match(str(tool.get("name"))):
            yield f"{where}.name: String should match pattern"
        if (tool.get("input_schema") or {}).get("type") != "object":
            yield f"{where}.input_schema.type: Field required"
    choice = body.get("tool_choice")
    if choice is None:
        return
    if not tools:
        yield "tool_choice: may only be specified while providing tools"
    if choice.get("type") not in ("auto", "any", "tool", "none"):
        yield f"tool_choice: {choice}"
    thinking = (body.get("thinking") or {}).get("type")
    if choice.get("type") in ("any", "tool") and thinking in ("enabled", "adaptive"):
        yield "Thinking may not be enabled when tool_choice forces tool use."


def _anthropic_thinking(body: Body, limit: int) -> Iterable[str]:
    effort = (body.get("output_config") or {}).get("effort")
    if effort is not None and effort not in EFFORTS:
        yield f"output_config.effort: {effort}"
    thinking = body.get("thinking")
    if thinking is None:
        return
    model = str(body.get("model"))
    kind = thinking.get("type")
    if kind == "enabled":
        yield from unknown(thinking, {"type", "budget_tokens", "display"}, "thinking")
        budget = thinking.get("budget_tokens")
        if NO_BUDGET.match(model):
            yield '"thinking.type.enabled" is not supported for this model.'
        if not isinstance(budget, int) or budget < 1024:
            yield "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
        elif budget >= limit:
            yield "`max_tokens` must be greater than `thinking.budget_tokens`."
    elif kind == "disabled":
        yield from unknown(thinking, {"type"}, "thinking")
        if ALWAYS_THINKS.match(model):
            yield '"thinking.type.disabled" is not supported for this model.'
    elif kind == "adaptive":
        yield from unknown(thinking, {"type", "display"}, "thinking")
    else:
        yield f"thinking.type: {kind}"


def _roles(messages: list[Body], paused: bool) -> Iterable[str]:
    if messages[0].get("role") != "user":
        yield "messages: first message must use the `user` role"
    for n, message in enumerate(messages):
        yield from unknown(message, {"role", "content"}, f"messages.{n}")
        if message.get("role") not in ("user", "assistant"):
            yield f"messages.{n}.role: {message.get('role')}"
        if n and message.get("role") == messages[n - 1].get("role"):
            yield f"messages.{n}: roles must alternate between `user` and `assistant`"
        if not message.get("content"):
            yield f"messages.{n}: all messages must have non-empty content"
    if messages[-1].get("role") == "assistant" and not paused:
        yield "messages: the conversation must end with a user message"


def _anthropic_blocks(messages: list[Body], body: Body) -> Iterable[str]:
    ids: set[str] = set()
    thinking = (body.get("thinking") or {}).get("type")
    off = thinking == "disabled" or (thinking is None and not ALWAYS_THINKS.match(str(body.get("model"))))
    for n, message in enumerate(messages):
        for k, block in enumerate(_blocks(message)):
            where = f"messages.{n}.content.{k}"
            kind = block.get("type")
            role = message.get("role")
            if kind == "text":
                yield from _text_block(block, where)
            elif kind == "image" and role == "user":
                yield from _image(block, where)
            elif kind == "tool_use" and role == "assistant":
                yield from _tool_use(block, where, ids)
            elif kind == "tool_result" and role == "user":
                yield from _tool_result(block, where)
            elif kind in ("thinking", "redacted_thinking") and role == "assistant":
                yield from _thinking_block(block, where)
                if off:
                    yield f"{where}: When thinking is disabled, an `assistant` message cannot contain `thinking`"
            else:
                yield f"{where}: Input tag '{kind}' not allowed for role {role}"
    if thinking == "enabled":
        yield from _thinking_first(messages)


def _thinking_first(messages: list[Body]) -> Iterable[str]:
    """While a tool loop runs, the reply it began with starts with a thinking block."""
    began: Body | None = None
    for message in reversed(messages):
        if message.get("role") == "assistant":
            began = message
        elif not any(b.get("type") == "tool_result" for b in _blocks(message)):
            break
    if began is None or not _blocks(began):
        return
    first = _blocks(began)[0].get("type")
    if first not in ("thinking", "redacted_thinking"):
        yield f"Expected `thinking` or `redacted_thinking`, but found `{first}`. When `thinking` is enabled, a final"


def _anthropic_pairs(messages: list[Body]) -> Iterable[str]:
    for n, message in enumerate(messages):
        calls = [b.get("id") for b in _blocks(message) if b.get("type") == "tool_use"]
        if calls:
            after = _blocks(messages[n + 1]) if n + 1 < len(messages) else []
            found = [b.get("tool_use_id") for b in after[: len(calls)] if b.get("type") == "tool_result"]
            if found != calls:
                yield f"messages.{n}: `tool_use` ids {calls} were found without `tool_result` blocks immediately after"
        results = [b.get("tool_use_id") for b in _blocks(message) if b.get("type") == "tool_result"]
        before = [b.get("id") for b in _blocks(messages[n - 1]) if b.get("type") == "tool_use"] if n else []
        if extra := [r for r in results if r not in before]:
            yield f"messages.{n}: unexpected `tool_use_id` found in `tool_result` blocks: {extra}"
        if len(set(results)) != len(results):
            yield f"messages.{n}: each tool_use must have a single result"


def _tool_use(block: Body, where: str, ids: set[str]) -> Iterable[str]:
    yield from unknown(block, {"type", "id", "name", "input", "cache_control"}, where)
    id = str(block.get("id"))
    if not ID.match(id):
        yield f"{where}.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
    if id in ids:
        yield f"{where}: `tool_use` ids must be unique"
    ids.add(id)
    if not NAME.match(str(block.get("name"))):
        yield f"{where}.name: String should match pattern"
    if not isinstance(block.get("input"), dict):
        yield f"{where}.input: Input should be a valid dictionary"


def _tool_result(block: Body, where: str) -> Iterable[str]:
    yield from unknown(block, {"type", "tool_use_id", "content", "is_error", "cache_control"}, where)
    if "is_error" in block and block["is_error"] is not True:
        yield f"{where}.is_error: only sent when true"
    content = block.get("content")
    if isinstance(content, str):
        if not content:
            yield f"{where}.content: empty"
        return
    if not content:
        yield f"{where}.content: empty"
    for k, inner in enumerate(content or []):
        if inner.get("type") == "text":
            yield from _text_block(inner, f"{where}.content.{k}")
        elif inner.get("type") == "image":
            yield from _image(inner, f"{where}.content.{k}")
            if block.get("is_error"):
                yield f"{where}: all content must be type `text` if `is_error` is true"
        else:
            yield f"{where}.content.{k}: Input tag '{inner.get('type')}'"


def _thinking_block(block: Body, where: str) -> Iterable[str]:
    if block.get("type") == "redacted_thinking":
        yield from unknown(block, {"type", "data"}, where)
        return
    yield from unknown(block, {"type", "thinking", "signature"}, where)
    if block.get("signature") != signature(str(block.get("thinking"))):
        yield f"{where}: Invalid `signature` in `thinking` block"


def _text_block(block: Body, where: str) -> Iterable[str]:
    yield from unknown(block, {"type", "text", "cache_control"}, where)
    text = block.get("text")
    if block.get("type") != "text" or not isinstance(text, str) or not text.strip():
        yield f"{where}: text content blocks must contain non-whitespace text"


def _image(block: Body, where: str) -> Iterable[str]:
    yield from unknown(block, {"type", "source", "cache_control"}, where)
    source = block.get("source") or {}
    if source.get("type") != "base64" or source.get("media_type") not in IMAGES or not source.get("data"):
        yield f"{where}.source: not a base64 image"


def _cache_marks(value: Any) -> Iterable[Body]:
    if isinstance(value, dict):
        if isinstance(value.get("cache_control"), dict):
            yield value["cache_control"]
        for key, inner in value.items():
            if key not in ("input", "input_schema"):
                yield from _cache_marks(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _cache_marks(inner)


def _blocks(message: Body) -> list[Body]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content or []


def unknown(value: Body, allowed: set[str], where: str) -> Iterable[str]:
    for key in sorted(set(value) - allowed):
        yield f"{where}.{key}".lstrip(".") + ": Extra inputs are not permitted"


def missing(body: Body, keys: tuple[str, ...]) -> Iterable[str]:
    for key in keys:
        if key not in body:
            yield f"{key}: Field required"
