"""Short ways to talk to a provider in tests: a spec for a server, one request, and a whole conversation with tools."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from cowork.core.blocks import Json, Message, Text, Thinking, ToolUse
from cowork.core.events import PromptAdded, ReplyAdded, ToolEnded
from cowork.core.ports import Delta, ModelSpec, Provider, Reply, Request, ToolSpec
from cowork.core.transcript import Transcript
from cowork.providers.open import open_provider
from tests.wire.server import Server

MODELS = {"anthropic": "claude-haiku-4-5", "openai": "gpt-5", "openai-chat": "local-model"}

READ = ToolSpec(
    "Read",
    "Reads a file.",
    {"type": "object", "properties": {"file_path": {"type": "string"}}, "required": ["file_path"]},
)
GREP = ToolSpec(
    "Grep",
    "Searches files.",
    {"type": "object", "properties": {"pattern": {"type": "string"}}, "required": ["pattern"]},
)
TOOLS = (READ, GREP)


def spec_for(server: Server, format: str, **fields: Any) -> ModelSpec:
    """A spec that points at the server, with a model the format knows."""
    given = {"model": MODELS[format], "base_url": server.url(format), "api_key": "test-key"} | fields
    return ModelSpec(format, **given)


@contextlib.asynccontextmanager
async def provider_for(
    server: Server, format: str, *, idle_timeout: float = 20.0, **fields: Any
) -> AsyncIterator[Provider]:
    provider = open_provider(spec_for(server, format, **fields), idle_timeout=idle_timeout)
    try:
        yield provider
    finally:
        await provider.aclose()


def asking(text: str = "hi", **fields: Any) -> Request:
    """A request of one user message."""
    given = {"system": "You are a test.", "messages": (Message("user", (Text(text),)),), "tools": TOOLS}
    return Request(**(given | fields))


async def ask(provider: Provider, request: Request | None = None) -> tuple[list[Delta], Reply]:
    """The deltas and the one reply of a request."""
    deltas: list[Delta] = []
    replies: list[Reply] = []
    async for each in provider.stream(request or asking()):
        assert not replies, "a reply is the last thing a stream yields"
        if isinstance(each, Reply):
            replies.append(each)
        elif isinstance(each, Delta):
            deltas.append(each)
    assert len(replies) == 1
    return deltas, replies[0]


def text_of(deltas: list[Delta], kind: str = "text") -> str:
    return "".join(delta.text for delta in deltas if delta.kind == kind)


async def converse(
    provider: Provider,
    prompt: str,
    run: Callable[[ToolUse], Json],
    *,
    tools: tuple[ToolSpec, ...] = TOOLS,
    requests: list[Request] | None = None,
) -> Transcript:
    """Ask, run the calls, ask again until the model calls nothing; `run` gives the record of a call."""
    transcript = Transcript()
    transcript.apply(PromptAdded(text=prompt, id=1))
    for turn in range(1, 50):
        request = Request("You are a test.", transcript.messages(provider.model), tools, session_id="abc")
        if requests is not None:
            requests.append(request)
        _, reply = await ask(provider, request)
        transcript.apply(ReplyAdded(content=reply.content, stop_reason=reply.stop_reason, id=turn * 10))
        if not reply.calls:
            return transcript
        for n, call in enumerate(reply.calls):
            transcript.apply(ToolEnded(tool_use_id=call.id, name=call.name, record=run(call), id=turn * 10 + n + 1))
    raise AssertionError("the conversation does not end")


def plain(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The messages with thinking reduced to its text, so that formats can be compared."""
    return tuple(
        Message(m.role, tuple(Thinking(b.text) if isinstance(b, Thinking) else b for b in m.content)) for m in messages
    )
