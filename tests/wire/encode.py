"""A scripted turn as the events each service streams, and error bodies as each service words them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.wire.turns import Call, Think, Turn

SHAPES = (
    "standard",  # index and id on the first piece, arguments in pieces
    "whole",  # one piece, whole arguments
    "object",  # whole arguments as an object, not a string
    "no_index",
    "no_id",
    "empty_id",  # an id on the first piece, "" on the others
    "repeated_id",
    "repeated",  # id and name on every piece, as llama-cpp-python does
    "split_name",
    "together",  # every call whole in one chunk
    "zero_index",  # every call says index 0, told apart by id
    "legacy",  # function_call, one call only
)


@dataclass(frozen=True, slots=True)
class Stream:
    """(event name, data) pairs, and which of them is the stop event."""

    events: list[tuple[str, str]]
    stop: int


def encode(format: str, turn: Turn, model: str, number: int) -> Stream:
    """The events of a turn in one of the three formats; `number` makes its ids unique."""
    return {"anthropic": _anthropic, "openai": _openai, "openai-chat": _chat}[format](turn, model, number)


def call_id(call: Call, number: int, index: int, format: str) -> str:
    prefix = "toolu" if format == "anthropic" else "call"
    return call.id or f"{prefix}_{number:03}_{index}"


def signature(text: str) -> str:
    """What proves that a thinking block was not touched."""
    return "sig-" + hashlib.sha256(text.encode()).hexdigest()[:24]


def error_body(format: str, status: int, code: str = "", message: str = "") -> dict[str, Any]:
    """The error of a status in the service's words."""
    names = {
        400: "invalid_request_error",
        401: "authentication_error",
        402: "billing_error",
        403: "permission_error",
        404: "not_found_error",
        409: "conflict_error",
        413: "request_too_large",
        429: "rate_limit_error",
        503: "overloaded_error",
        504: "timeout_error",
        529: "overloaded_error",
    }
    name = code or names.get(status, "api_error")
    message = message or f"scripted {status}"
    if format == "anthropic":
        return {"type": "error", "error": {"type": name, "message": message}, "request_id": "req_1"}
    return {"error": {"message": message, "type": name, "param": None, "code": code or None}}


def error_event(format: str, status: int, code: str = "", message: str = "") -> tuple[str, str]:
    """An error in the middle of a stream."""
    body = error_body(
        format, status, code or ("overloaded_error" if format == "anthropic" else "server_error"), message
    )
    if format == "openai":
        error = body["error"]
        data = {"type": "error", "code": error["code"], "message": error["message"], "param": None}
        return "error", _dump(data | {"sequence_number": 99})
    return ("error" if format == "anthropic" else ""), _dump(body)


def sse(event: str, data: str) -> bytes:
    """One event in SSE framing."""
    head = f"event: {event}\n" if event else ""
    return (head + "".join(f"data: {line}\n" for line in data.split("\n")) + "\n").encode()


def _anthropic(turn: Turn, model: str, number: int) -> Stream:
    usage = turn.usage
    start = {
        "id": f"msg_{number:03}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": usage.input_tokens,
            "cache_creation_input_tokens": usage.cache_write_tokens,
            "cache_read_input_tokens": usage.cache_read_tokens,
            "output_tokens": 1,
        },
    }
    events: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
    for index, part in enumerate(turn.parts):
        block, deltas = _anthropic_block(part, index, turn.piece, number)
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        if index == 0:
            events.append({"type": "ping"})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    stop = {"context_overflow": "model_context_window_exceeded"}.get(turn.stop_reason, turn.stop_reason)
    events.append(
        {
            "type": "message_delta",
            "delta": {"stop_reason": stop, "stop_sequence": None},
            "usage": {"output_tokens": usage.output_tokens},
        }
    )
    events.append({"type": "message_stop"})
    return _finish([(e["type"], _dump(e)) for e in events], turn, len(events) - 1)


def _anthropic_block(
    part: str | Call | Think, index: int, piece: int, number: int
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    match part:
        case str():
            return {"type": "text", "text": ""}, [{"type": "text_delta", "text": t} for t in _cut(part, piece)]
        case Think(text, redacted=True):
            return {"type": "redacted_thinking", "data": text}, []
        case Think(text):
            deltas = [{"type": "thinking_delta", "thinking": t} for t in _cut(text, piece)]
            deltas.append({"type": "signature_delta", "signature": signature(text)})
            return {"type": "thinking", "thinking": "", "signature": ""}, deltas
        case Call():
            block = {
                "type": "tool_use",
                "id": call_id(part, number, index, "anthropic"),
                "name": part.name,
                "input": {},
            }
            pieces = ["", *_cut(_arguments(part), piece)]
            return block, [{"type": "input_json_delta", "partial_json": t} for t in pieces]


def _openai(turn: Turn, model: str, number: int) -> Stream:
    response: dict[str, Any] = {
        "id": f"resp_{number:03}",
        "object": "response",
        "created_at": 1,
        "model": model,
        "output": [],
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "usage": None,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    events: list[dict[str, Any]] = [{"type": "response.created", "response": dict(response)}]
    events.append({"type": "response.in_progress", "response": dict(response)})
    output: list[dict[str, Any]] = []
    for index, part in enumerate(turn.parts):
        events += _openai_item(part, index, turn, number, output)
    ends = {
        "max_tokens": ("response.incomplete", "incomplete", {"reason": "max_output_tokens"}),
        "refusal": ("response.incomplete", "incomplete", {"reason": "content_filter"}),
    }
    kind, state, details = ends.get(turn.stop_reason, ("response.completed", "completed", None))
    final = {**response, "status": state, "incomplete_details": details, "output": output}
    if turn.send_usage:
        final["usage"] = _openai_usage(turn)
    events.append({"type": kind, "response": final})
    numbered = [(e["type"], _dump(e | {"sequence_number": n})) for n, e in enumerate(events)]
    return _finish(numbered, turn, len(numbered) - 1)


def _openai_item(
    part: str | Call | Think, index: int, turn: Turn, number: int, output: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    at = {"output_index": index}
    match part:
        case str():
            item = {"id": f"msg_{number:03}_{index}", "type": "message", "role": "assistant", "status": "in_progress"}
            where = at | {"item_id": item["id"], "content_index": 0}
            yield {"type": "response.output_item.added", **at, "item": item | {"content": []}}
            empty = {"type": "output_text", "text": "", "annotations": []}
            yield {"type": "response.content_part.added", **where, "part": empty}
            for text in _cut(part, turn.piece):
                yield {"type": "response.output_text.delta", **where, "delta": text, "logprobs": []}
            yield {"type": "response.output_text.done", **where, "text": part, "logprobs": []}
            whole = empty | {"text": part}
            yield {"type": "response.content_part.done", **where, "part": whole}
            done = item | {"status": "completed", "content": [whole]}
        case Think(text):
            item = {"id": f"rs_{number:03}_{index}", "type": "reasoning", "summary": []}
            where = at | {"item_id": item["id"], "summary_index": 0}
            yield {"type": "response.output_item.added", **at, "item": item | {"encrypted_content": ""}}
            summary = {"type": "summary_text", "text": text}
            yield {"type": "response.reasoning_summary_part.added", **where, "part": summary | {"text": ""}}
            for piece in _cut(text, turn.piece):
                yield {"type": "response.reasoning_summary_text.delta", **where, "delta": piece}
            yield {"type": "response.reasoning_summary_text.done", **where, "text": text}
            yield {"type": "response.reasoning_summary_part.done", **where, "part": summary}
            done = item | {"summary": [summary], "encrypted_content": signature(text)}
        case Call():
            item = {
                "id": f"fc_{number:03}_{index}",
                "type": "function_call",
                "status": "in_progress",
                "call_id": call_id(part, number, index, "openai"),
                "name": part.name,
                "arguments": "",
            }
            where = at | {"item_id": item["id"]}
            yield {"type": "response.output_item.added", **at, "item": item}
            for piece in _cut(_arguments(part), turn.piece):
                yield {"type": "response.function_call_arguments.delta", **where, "delta": piece}
            whole_arguments = {"arguments": _arguments(part)}
            yield {"type": "response.function_call_arguments.done", **where, **whole_arguments}
            done = item | {"status": "completed"} | whole_arguments
    output.append(done)
    yield {"type": "response.output_item.done", **at, "item": done}


def _openai_usage(turn: Turn) -> dict[str, Any]:
    usage = turn.usage
    details = {"cached_tokens": usage.cache_read_tokens, "cache_write_tokens": usage.cache_write_tokens}
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": details,
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.total,
    }


def _chat(turn: Turn, model: str, number: int) -> Stream:
    base = {"id": f"chatcmpl-{number:03}", "object": "chat.completion.chunk", "created": 1, "model": model}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> tuple[str, str]:
        return "", _dump(base | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    events = [chunk({"role": "assistant", "content": ""})]
    for part in turn.parts:
        match part:
            case str():
                events += [chunk({"content": text}) for text in _cut(part, turn.piece)]
            case Think(text):
                events += [chunk({"reasoning_content": piece}) for piece in _cut(text, turn.piece)]
    events += [chunk(delta) for delta in _chat_calls(turn, number)]
    finish = {"tool_use": "tool_calls", "end_turn": "stop", "max_tokens": "length", "refusal": "content_filter"}
    name = "function_call" if turn.shape == "legacy" and turn.calls else finish.get(turn.stop_reason, turn.stop_reason)
    stop = len(events)
    events.append(chunk({}, name))
    if turn.send_usage:
        usage = turn.usage
        counted = {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.output_tokens,
            "total_tokens": usage.total,
            "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        }
        events.append(("", _dump(base | {"choices": [], "usage": counted})))
    events.append(("", "[DONE]"))
    return _finish(events, turn, stop)


def _chat_calls(turn: Turn, number: int) -> Iterator[dict[str, Any]]:
    shape = turn.shape
    if shape == "together":
        calls = enumerate(turn.calls)
        yield {"tool_calls": [_chat_piece(c, i, number, turn, 0, _arguments(c)) for i, c in calls]}
        return
    for index, each in enumerate(turn.calls):
        arguments = _arguments(each)
        if shape == "object":
            piece = _chat_piece(each, index, number, turn, 0, "")
            piece["function"]["arguments"] = dict(each.input)
            yield {"tool_calls": [piece]}
            continue
        if shape == "legacy":
            yield {"function_call": {"name": each.name, "arguments": ""}}
            yield from ({"function_call": {"arguments": text}} for text in _cut(arguments, turn.piece))
            continue
        pieces = [arguments] if shape in ("whole", "no_index") else ["", *_cut(arguments, turn.piece)]
        for n, text in enumerate(pieces):
            yield {"tool_calls": [_chat_piece(each, index, number, turn, n, text)]}


def _chat_piece(call: Call, index: int, number: int, turn: Turn, n: int, arguments: str) -> dict[str, Any]:
    """The n-th piece of a call, in the turn's shape."""
    shape = turn.shape
    function: dict[str, Any] = {"arguments": arguments}
    half = len(call.name) // 2
    if shape == "split_name":
        if n < 2:
            function["name"] = call.name[:half] if n == 0 else call.name[half:]
    elif n == 0 or shape == "repeated":
        function["name"] = call.name
    piece: dict[str, Any] = {"function": function}
    if n == 0:
        piece["type"] = "function"
    if shape != "no_index":
        piece["index"] = 0 if shape == "zero_index" else index
    if shape != "no_id":
        id = call_id(call, number, index, "openai-chat")
        if n == 0 or shape in ("repeated", "repeated_id", "zero_index"):
            piece["id"] = id
        elif shape == "empty_id":
            piece["id"] = ""
    return piece


def _finish(events: list[tuple[str, str]], turn: Turn, stop: int) -> Stream:
    return Stream([*events[:1], *turn.extra, *events[1:]], stop + len(turn.extra))


def _arguments(call: Call) -> str:
    return call.raw if call.raw is not None else json.dumps(dict(call.input), ensure_ascii=False)


def _cut(text: str, size: int) -> list[str]:
    return [text[i : i + size] for i in range(0, len(text), size)]


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
