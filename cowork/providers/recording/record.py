"""Keeps what models were asked and what they answered in a file that `replay` can play back.

A recording is JSONL: a head, then `part` lines (a system prompt, a tool list, a message: each written once) and
`exchange` lines that refer to them. It belongs outside `Retrying`, so that a wait is recorded as a `Retry` and need
not be waited again.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Any

from cowork.core.blocks import Json, Usage
from cowork.core.errors import ProviderError, UserError
from cowork.core.ports import Delta, Provider, Reply, Request, Retry, Used
from cowork.providers.recording.canonical import error_to_dict, item_to_dict, request_to_dict
from cowork.providers.retry import Wrapped

FORMAT_VERSION = 1
HIDDEN = "<key>"


class Lines:
    """A private file of JSON lines. `secrets` are never written to it, wherever they occur."""

    def __init__(self, path: str | Path, secrets: Iterable[str] = ()) -> None:
        self._path = path
        self._hide = [(json.dumps(secret)[1:-1], HIDDEN) for secret in secrets if secret]
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as e:
            raise UserError(f"Cannot write {path}: {e.strerror}", "Name a file you may write to.") from e
        if stat.S_ISREG(os.fstat(self._fd).st_mode):
            os.fchmod(self._fd, 0o600)

    def write(self, value: Json) -> None:
        line = json.dumps(value)
        for secret, shown in self._hide:
            line = line.replace(secret, shown)
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


class RequestDump:
    """The file of `--dump-requests`: each body as it goes over the wire, a line each; keys are never part of it."""

    def __init__(self, path: str | Path, secrets: Iterable[str] = ()) -> None:
        self._lines = Lines(path, secrets)

    def __call__(self, body: Json | bytes | str) -> None:
        value = body if isinstance(body, dict) else json.loads(body)
        self._lines.write(value)

    def close(self) -> None:
        self._lines.close()


# ---------------------------------------------------------------- recording


class Recorder:
    """Writes one recording, of any number of models. `facts` names what a replay elsewhere has differently."""

    def __init__(
        self, path: str | Path, *, facts: Mapping[str, str] | None = None, secrets: Iterable[str] = ()
    ) -> None:
        _refuse_other_files(Path(path))
        self._lines = Lines(path, secrets)
        self._parts: dict[bytes, str] = {}
        self._lines.write({"type": "recording", "version": FORMAT_VERSION, "facts": dict(facts or {})})

    def wrap(self, provider: Provider, role: str = "main") -> Provider:
        """The same model, its exchanges kept under `role`."""
        self._lines.write({"type": "model", "role": role, **_described(provider)})
        return _Recorded(provider, self, role)

    def keep(self, role: str, request: Request, items: list[Json], end: str, error: Json | None = None) -> None:
        body = request_to_dict(request)
        body["system"] = self._part(body["system"])
        body["tools"] = self._part(body["tools"])
        body["messages"] = [self._part(message) for message in body["messages"]]
        line: Json = {"type": "exchange", "role": role, "request": body, "items": items, "end": end}
        if error is not None:
            line["error"] = error
        self._lines.write(line)

    def close(self) -> None:
        self._lines.close()

    def _part(self, value: Any) -> str:
        """The name of a part, written down when it is new: a conversation is stored once, not once a turn."""
        text = json.dumps(value)
        key = hashlib.sha256(text.encode()).digest()
        if key not in self._parts:
            self._parts[key] = f"p{len(self._parts) + 1}"
            self._lines.write({"type": "part", "id": self._parts[key], "value": value})
        return self._parts[key]


class _Recorded(Wrapped):
    def __init__(self, inner: Provider, recorder: Recorder, role: str) -> None:
        super().__init__(inner)
        self._recorder = recorder
        self._role = role

    async def stream(self, request: Request) -> AsyncIterator[Delta | Used | Retry | Reply]:
        """The inner stream, written down when it ends, however it ends."""
        items: list[Json] = []
        kept = False
        try:
            async for item in self.inner.stream(request):
                items.append(item_to_dict(item, self.price))
                if isinstance(item, Reply):
                    kept = True
                    self._recorder.keep(self._role, request, items, "reply")
                yield item
        except ProviderError as e:
            if not kept:
                kept = True
                self._recorder.keep(self._role, request, items, "error", error_to_dict(e, self.price))
            raise
        finally:
            if not kept:
                self._recorder.keep(self._role, request, items, "cut")


def _refuse_other_files(path: Path) -> None:
    """A recording may replace a recording, and nothing else that has content."""
    if not path.is_file() or path.stat().st_size == 0:
        return
    with path.open("rb") as file:
        if not file.readline(200).startswith(b'{"type": "recording"'):
            raise UserError(f"{path} exists and is not a recording", "Name a new file for --record.")


def _described(provider: Provider) -> Json:
    """What a replay must know of a model; its rates are read off, one kind of token at a time."""
    kinds = ("input", "output", "cache_read", "cache_write")
    units = [Usage.from_dict({f"{kind}_tokens": 1}) for kind in kinds]
    costs = [provider.price(unit) for unit in units]
    known = {kind: cost * 1_000_000 for kind, cost in zip(kinds, costs, strict=True) if cost is not None}
    return {
        "name": provider.name,
        "model": provider.model,
        "context_window": provider.context_window,
        "max_output_tokens": provider.max_output_tokens,
        "rates": known or None,
    }
