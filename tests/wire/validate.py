"""What the real services refuse, as a list of reasons for one request body; empty is a valid request."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from tests.wire.encode import signature
from tests.wire.validate_anthropic import Body, anthropic, missing, unknown

OPENAI_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
OPENAI_KEYS = {"model", "input", "instructions", "tools", "tool_choice", "store", "stream", "include", "reasoning"}
OPENAI_KEYS |= {
    "max_output_tokens",
    "max_tool_calls",
    "prompt_cache_key",
    "parallel_tool_calls",
    "metadata",
    "text",
    "truncation",
}
CHAT_KEYS = {"model", "messages", "tools", "tool_choice", "stream", "stream_options", "max_tokens"}
CHAT_KEYS |= {"max_completion_tokens", "reasoning_effort", "prompt_cache_key", "parallel_tool_calls", "store"}


def validate(format: str, body: Body, *, paused: bool = False) -> list[str]:
    """Every reason to refuse the body; `paused` is true when the last answer was a pause_turn."""
    if format == "anthropic":
        return list(anthropic(body, paused))
    return list(_openai(body) if format == "openai" else _chat(body))


# ---------------------------------------------------------------- Responses


def _openai(body: Body) -> Iterable[str]:
    yield from unknown(body, OPENAI_KEYS, "")
    yield from missing(body, ("model", "input"))
    if body.get("stream") is not True:
        yield "stream: this service only streams"
    if body.get("store") is not False:
        yield "store: nothing of a conversation may be kept by the service"
    limit = body.get("max_output_tokens")
    if limit is not None and (not isinstance(limit, int) or limit < 16):
        yield "max_output_tokens: integer below minimum value, expected >= 16"
    for n, tool in enumerate(body.get("tools") or []):
        if tool == {"type": "web_search"}:
            continue
        yield from unknown(tool, {"type", "name", "description", "parameters", "strict"}, f"tools[{n}]")
        if not OPENAI_NAME.match(str(tool.get("name"))) or not isinstance(tool.get("parameters"), dict):
            yield f"tools[{n}]: invalid"
    if body.get("tool_choice") not in (None, "auto", "none", "required"):
        yield "tool_choice: invalid"
    items = body.get("input")
    if not isinstance(items, list) or not items:
        yield "input: a list of items is required"
        return
    kept = "reasoning.encrypted_content" in (body.get("include") or [])
    for n, item in enumerate(items):
        yield from _openai_item(items, n, item, kept)
    yield from _openai_pairs(items)
    uses_tools = any(i.get("type") in ("function_call", "function_call_output") for i in items)
    if uses_tools and not body.get("tools"):
        yield "tools: required while the input holds calls"


def _openai_item(items: list[Body], n: int, item: Body, kept: bool) -> Iterable[str]:
    where = f"input[{n}]"
    match item.get("type", "message"):
        case "message":
            yield from unknown(item, {"type", "role", "content", "id", "status", "phase"}, where)
            if item.get("role") not in ("user", "assistant", "system", "developer"):
                yield f"{where}.role: {item.get('role')}"
            text = "output_text" if item.get("role") == "assistant" else "input_text"
            yield from _openai_content(item.get("content"), where, {text, "input_image"})
        case "function_call":
            yield from unknown(item, {"type", "id", "call_id", "name", "arguments", "status"}, where)
            yield from _arguments(item.get("arguments"), where)
            if not 0 < len(str(item.get("call_id") or "")) <= 64:
                yield f"{where}.call_id: string too long or empty"
            if not OPENAI_NAME.match(str(item.get("name"))):
                yield f"{where}.name: does not match pattern"
        case "function_call_output":
            yield from unknown(item, {"type", "call_id", "output"}, where)
            yield from _openai_content(item.get("output"), where, {"input_text", "input_image"})
        case "reasoning":
            yield from unknown(item, {"type", "id", "summary", "encrypted_content", "content"}, where)
            text = "".join(part.get("text", "") for part in item.get("summary") or [])
            if not kept or item.get("encrypted_content") != signature(text):
                yield f"{where}: The encrypted content could not be verified."
            after = items[n + 1] if n + 1 < len(items) else {}
            fits = after.get("type") in ("function_call", "reasoning") or after.get("role") == "assistant"
            if not fits:
                yield f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item."
        case kind:
            yield f"{where}.type: {kind}"


def _openai_content(content: Any, where: str, allowed: set[str]) -> Iterable[str]:
    if isinstance(content, str):
        if not content.strip():
            yield f"{where}: empty content"
        return
    if not content:
        yield f"{where}: empty content"
    for part in content or []:
        if part.get("type") not in allowed:
            yield f"{where}: Invalid value: '{part.get('type')}'"
        elif part["type"] == "input_image":
            yield from unknown(part, {"type", "image_url", "detail"}, where)
            if not str(part.get("image_url")).startswith("data:image/"):
                yield f"{where}: image_url"
        elif not str(part.get("text") or "").strip():
            yield f"{where}: empty text"


def _openai_pairs(items: list[Body]) -> Iterable[str]:
    waiting: list[str] = []
    seen: set[str] = set()
    for n, item in enumerate(items):
        kind = item.get("type", "message")
        if kind == "function_call":
            id = str(item.get("call_id"))
            if id in seen:
                yield f"input[{n}]: duplicate call_id {id}"
            seen.add(id)
            waiting.append(id)
        elif kind == "function_call_output":
            if not waiting or waiting[0] != item.get("call_id"):
                yield f"No tool call found for function call output with call_id {item.get('call_id')} in this place."
            waiting = [w for w in waiting if w != item.get("call_id")]
        elif kind == "message" and item.get("role") == "user" and waiting:
            yield f"No tool output found for function call {waiting[0]}."
    for id in waiting:
        yield f"No tool output found for function call {id}."


# ---------------------------------------------------------------- Chat Completions


def _chat(body: Body) -> Iterable[str]:
    yield from unknown(body, CHAT_KEYS, "")
    yield from missing(body, ("model", "messages"))
    if body.get("stream") is not True:
        yield "stream: this service only streams"
    for n, tool in enumerate(body.get("tools") or []):
        yield from unknown(tool, {"type", "function"}, f"tools[{n}]")
        function = tool.get("function") or {}
        yield from unknown(function, {"name", "description", "parameters", "strict"}, f"tools[{n}].function")
        if not OPENAI_NAME.match(str(function.get("name"))) or not isinstance(function.get("parameters"), dict):
            yield f"tools[{n}]: invalid"
    if body.get("tool_choice") not in (None, "auto", "none", "required"):
        yield "tool_choice: invalid"
    if body.get("tool_choice") is not None and not body.get("tools"):
        yield "tool_choice: only allowed when tools are specified"
    messages = body.get("messages") or []
    if not any(m.get("role") == "user" for m in messages):
        yield "messages: no user message"
    if any(m.get("role") == "tool" for m in messages) and not body.get("tools"):
        yield "tools: required while messages hold calls"
    waiting: list[str] = []
    seen: set[str] = set()
    for n, message in enumerate(messages):
        yield from _chat_message(message, n)
        if message.get("role") == "tool":
            if not waiting or waiting[0] != message.get("tool_call_id"):
                yield f"messages[{n}]: role 'tool' must be a response to a preceding message with 'tool_calls'"
            waiting = [w for w in waiting if w != message.get("tool_call_id")]
            continue
        if waiting:
            yield f"messages[{n}]: tool_call_ids did not have response messages: {waiting}"
        waiting = [str(c.get("id")) for c in message.get("tool_calls") or []]
        if seen & set(waiting) or len(set(waiting)) != len(waiting):
            yield f"messages[{n}]: duplicate tool call ids"
        seen |= set(waiting)
    if waiting:
        yield f"messages: tool_call_ids did not have response messages: {waiting}"


def _chat_message(message: Body, n: int) -> Iterable[str]:
    where = f"messages[{n}]"
    role = message.get("role")
    content = message.get("content")
    allowed = {"role", "content"}
    if role == "assistant":
        allowed |= {"tool_calls", "reasoning_content", "reasoning_details"}
        for k, each in enumerate(message.get("tool_calls") or []):
            yield from unknown(each, {"id", "type", "function", "extra_content"}, f"{where}.tool_calls[{k}]")
            function = each.get("function") or {}
            yield from _arguments(function.get("arguments"), where)
            if not each.get("id") or each.get("type") != "function" or not OPENAI_NAME.match(str(function.get("name"))):
                yield f"{where}.tool_calls[{k}]: invalid"
    elif role == "tool":
        allowed |= {"tool_call_id"}
        if not isinstance(content, str):
            yield f"{where}: tool content must be text"
    elif role in ("system", "developer"):
        if n:
            yield f"{where}: the system message comes first"
    elif role != "user":
        yield f"{where}.role: {role}"
    yield from unknown(message, allowed, where)
    if content in (None, "") and message.get("tool_calls"):
        return
    if not content or (isinstance(content, str) and not content.strip()):
        yield f"{where}: empty content"
    if isinstance(content, list):
        for part in content:
            if part.get("type") == "text" and str(part.get("text") or "").strip():
                continue
            url = str((part.get("image_url") or {}).get("url")) if part.get("type") == "image_url" else ""
            if not url.startswith("data:image/") or role != "user":
                yield f"{where}: invalid part {part.get('type')}"


def _arguments(arguments: Any, where: str) -> Iterable[str]:
    try:
        if not isinstance(json.loads(arguments), dict):
            yield f"{where}: arguments must be an object"
    except (TypeError, ValueError):
        yield f"{where}: arguments are not JSON"
