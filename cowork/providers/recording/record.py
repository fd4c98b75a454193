"""Keeps what models were asked and what they answered in a file that `replay` can play back.

A recording is JSONL, the same for every wire format: a head, then `part` lines (a system prompt, a tool list, a
message: each written once) and `exchange` lines that refer to them. It is made outside of retries, so that a wait is
recorded as a `Retry` and need not be waited again.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cowork.core.blocks import Json, Usage, blocks_to_list
from cowork.core.errors import ProviderError, UserError
from cowork.core.ports import Delta, Provider, Reply, Request, Retry, Used
from cowork.providers.retry import Wrapped

Facts = Mapping[str, str]  # what a replay elsewhere has differently, by name

FORMAT_VERSION = 1
HIDDEN = "<key>"
RETRY_FIELDS = ("attempt", "max_attempts", "delay_s", "kind", "message")
ERROR_FIELDS = ("kind", "message", "status", "retry_after")


def request_to_dict(request: Request) -> Json:
    """All of a request that a model can see."""
    return {
        "system": request.system,
        "tools": [{"name": t.name, "description": t.description, "schema": t.schema} for t in request.tools],
        "messages": [{"role": m.role, "content": blocks_to_list(m.content)} for m in request.messages],
        "tool_choice": request.tool_choice,
        "max_output_tokens": request.max_output_tokens,
        "thinking": request.thinking,
    }


def map_parts(body: Json, change: Callable[[Any], Any]) -> Json:
    """The request with each of the parts that conversations repeat changed: system prompt, tools, every message."""
    parts = {name: change(body[name]) for name in ("system", "tools")}
    return {**body, **parts, "messages": [change(message) for message in body["messages"]]}


def map_strings(value: Any, change: Callable[[str], str]) -> Any:
    """The JSON value with every string in it changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: map_strings(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [map_strings(item, change) for item in value]
    return value


def request_bytes(request: Request) -> bytes:
    """What stands for the wire body where there is no wire."""
    return json.dumps(request_to_dict(request)).encode()


def item_to_dict(item: Delta | Used | Retry | Reply | ProviderError, provider: Provider) -> Json:
    """What a stream gave. What it cost stands beside, since a long prompt may cost more than the rates say."""
    match item:
        case Delta(kind, text):
            return {kind: text}
        case Used(usage):
            return {"used": usage.to_dict()}
        case Retry():
            name, fields = "retry", {field: getattr(item, field) for field in RETRY_FIELDS}
        case Reply(content, stop_reason, model=model):
            name, fields = "reply", {"content": blocks_to_list(content), "stop_reason": stop_reason, "model": model}
            if item.searches or item.sources:
                fields |= {"searches": item.searches, "sources": [asdict(source) for source in item.sources]}
        case ProviderError():
            name, fields = "error", {field: getattr(item, field) for field in ERROR_FIELDS}
    return {name: {**fields, "usage": item.usage.to_dict(), "cost": provider.price(item.usage)}}


class RequestDump:
    """A private file of JSON lines, such as that of `--dump-requests`: each body as it goes over the wire.

    `secrets` are never written to it, wherever they occur.
    """

    def __init__(self, path: str | Path, secrets: Iterable[str] = ()) -> None:
        self._path = path
        self._hide = [json.dumps(secret)[1:-1] for secret in secrets if secret]
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        except OSError as e:
            raise UserError(f"Cannot write {path}: {e.strerror}", "Name a file you may write to.") from e
        if stat.S_ISREG(os.fstat(self._fd).st_mode):
            os.fchmod(self._fd, 0o600)

    def __call__(self, body: Json | bytes) -> None:
        line = json.dumps(body if isinstance(body, dict) else json.loads(body))
        for secret in self._hide:
            line = line.replace(secret, HIDDEN)
        left = line.encode() + b"\n"
        try:
            while left:
                left = left[os.write(self._fd, left) :]
        except OSError as e:
            raise UserError(f"Cannot write {self._path}: {e.strerror}") from e

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Recorder:
    """Writes one recording, of any number of models."""

    def __init__(self, path: str | Path, *, facts: Facts | None = None, secrets: Iterable[str] = ()) -> None:
        existing = Path(path)
        if existing.is_file() and existing.stat().st_size:
            with existing.open("rb") as file:
                if not file.readline(200).startswith(b'{"type": "recording"'):
                    raise UserError(f"{path} exists and is not a recording", "Name a new file for --record.")
        self._write = RequestDump(path, secrets)
        self.close = self._write.close
        self._parts: dict[bytes, str] = {}
        self._write({"type": "recording", "version": FORMAT_VERSION, "facts": dict(facts or {})})

    def wrap(self, provider: Provider, role: str = "main") -> Provider:
        """The same model, its exchanges kept under `role`; its rates are read off, one kind of token at a time."""
        costs = {
            kind: provider.price(Usage.from_dict({f"{kind}_tokens": 1}))
            for kind in ("input", "output", "cache_read", "cache_write")
        }
        rates = {kind: cost * 1_000_000 for kind, cost in costs.items() if cost is not None}
        facts = {name: getattr(provider, name) for name in ("name", "model", "context_window", "max_output_tokens")}
        self._write({"type": "model", "role": role, **facts, "rates": rates or None})
        return _Recorded(provider, self, role)

    def keep(self, role: str, request: Request, items: list[Json], end: str, failure: Json | None = None) -> None:
        """Write an exchange; `failure` is what the stream ended with."""
        body = map_parts(request_to_dict(request), self._part)
        self._write({"type": "exchange", "role": role, "request": body, "items": items, "end": end, **(failure or {})})

    def _part(self, value: Any) -> str:
        """The name of a part, written down when it is new: a conversation is stored once, not once a turn."""
        key = hashlib.sha256(json.dumps(value).encode()).digest()
        if key not in self._parts:
            self._parts[key] = f"p{len(self._parts) + 1}"
            self._write({"type": "part", "id": self._parts[key], "value": value})
        return self._parts[key]


class _Recorded(Wrapped):
    def __init__(self, inner: Provider, recorder: Recorder, role: str) -> None:
        super().__init__(inner)
        self._recorder = recorder
        self._role = role

    async def stream(self, request: Request) -> AsyncIterator[Delta | Used | Retry | Reply]:
        """The inner stream, written down when it ends, however it ends."""
        items: list[Json] = []
        end, failure = "cut", None
        try:
            async for item in self.inner.stream(request):
                items.append(item_to_dict(item, self.inner))
                if isinstance(item, Reply):
                    end = "reply"
                    self._recorder.keep(self._role, request, items, end)
                yield item
        except ProviderError as e:
            if end == "cut":
                end, failure = "error", item_to_dict(e, self.inner)
            raise
        finally:
            if end != "reply":
                self._recorder.keep(self._role, request, items, end, failure)
