"""Answers of a model service that searched the web itself: its blocks and items as they come over the wire."""

from __future__ import annotations

import json
from typing import Any

from tests.wire.encode import sse
from tests.wire.turns import Turn

Page = tuple[str, str, str]  # title, address, the words that are cited of it ("" for none)


def searched(format: str, query: str, text: str, *pages: Page) -> Turn:
    """A turn with one search, its results, and a text that cites some of them."""
    events = _anthropic(query, text, pages) if format == "anthropic" else _openai(query, text, pages)
    return Turn(raw=b"".join(sse(event["type"], json.dumps(event)) for event in events))


def search_failed(query: str, code: str, text: str) -> Turn:
    """The Messages API says that its search failed, and the model answers all the same."""
    error = {"type": "web_search_tool_result_error", "error_code": code}
    return Turn(raw=b"".join(sse(e["type"], json.dumps(e)) for e in _anthropic(query, text, (), error)))


def _anthropic(
    query: str, text: str, pages: tuple[Page, ...], error: dict[str, Any] | None = None
) -> list[dict[str, Any]]:
    call = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    results: Any = error or [
        {"type": "web_search_result", "url": url, "title": title, "encrypted_content": "EqgfCioIARgB", "page_age": None}
        for title, url, _ in pages
    ]
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": results}
    cited = [
        {"type": "citations_delta", "citation": {"type": "web_search_result_location", "url": url, "title": title,
                                                 "cited_text": quote, "encrypted_index": "Eo8BCio"}}
        for title, url, quote in pages
        if quote
    ]  # fmt: skip
    usage = {"input_tokens": 1_000, "output_tokens": 1, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    message = {"id": "msg_s", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
               "stop_sequence": None, "usage": usage}  # fmt: skip
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": call},
        {"type": "content_block_delta", "index": 0,
         "delta": {"type": "input_json_delta", "partial_json": json.dumps({"query": query})}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": found},
        {"type": "content_block_stop", "index": 1},
        {"type": "content_block_start", "index": 2, "content_block": {"type": "text", "text": "", "citations": []}},
        *({"type": "content_block_delta", "index": 2, "delta": delta} for delta in cited),
        {"type": "content_block_delta", "index": 2, "delta": {"type": "text_delta", "text": text}},
        {"type": "content_block_stop", "index": 2},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None},
         "usage": {"output_tokens": 200, "server_tool_use": {"web_search_requests": 1}}},
        {"type": "message_stop"},
    ]  # fmt: skip


def _openai(query: str, text: str, pages: tuple[Page, ...]) -> list[dict[str, Any]]:
    action = {"type": "search", "query": query, "sources": [{"type": "url", "url": url} for _, url, _ in pages]}
    call = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": action}
    notes = [
        {"type": "url_citation", "url": url, "title": title, "start_index": 0, "end_index": len(text)}
        for title, url, quote in pages
        if quote
    ]
    part = {"type": "output_text", "text": text, "annotations": notes}
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
    usage = {"input_tokens": 1_000, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 200}
    return [
        {"type": "response.created", "response": {}},
        {"type": "response.output_item.added", "output_index": 0, "item": call | {"status": "in_progress"}},
        {"type": "response.web_search_call.searching", "output_index": 0, "item_id": "ws_1"},
        {"type": "response.output_item.done", "output_index": 0, "item": call},
        {"type": "response.output_item.added", "output_index": 1, "item": message | {"content": []}},
        {"type": "response.output_text.delta", "output_index": 1, "delta": text},
        {"type": "response.output_item.done", "output_index": 1, "item": message},
        {"type": "response.completed", "response": {"status": "completed", "output": [call, message], "usage": usage}},
    ]
