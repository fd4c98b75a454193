"""A run as the application builds it, in this process, that talks to a loopback service with a real window."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from cowork.app.build import build
from cowork.app.resume import begin
from cowork.app.run import Run
from cowork.config.run_options import RunOptions
from cowork.core.blocks import Usage
from cowork.core.events import ContextCompacted, Event
from cowork.core.ports import Answer, Question
from cowork.engine.loop import Outcome, Prompt
from tests.fakes.command import QUIET
from tests.wire.exchange import Seen
from tests.wire.server import Server, Turn, say, status

IMAGE_TOKENS = 1_500
SUMMARY = "They wanted it; a.txt:1 was read; the next step is known."


def size_of(seen: Seen) -> int:
    """Tokens of a request, as the service counts: bytes by four, a picture for what it is."""
    text = json.dumps(_without_pictures(seen.body), ensure_ascii=False)
    return len(text.encode()) // 4 + IMAGE_TOKENS * text.count("(a picture)")


def conversation(seen: Seen) -> list[Any]:
    """What was said, without the marks for the cache."""
    listed = seen.body.get("messages") or seen.body.get("input") or []
    return list(_without_marks(listed))


def overflow(seen: Seen, size: int, window: int) -> Turn:
    """How each service says that a request does not fit."""
    if seen.format == "anthropic":
        message = f"prompt is too long: {size} tokens > {window} maximum"
        error: dict[str, Any] = {"type": "invalid_request_error", "message": message}
        return status(400, body={"type": "error", "error": error})
    text = f"This model's maximum context length is {window} tokens. However, your messages resulted in {size} tokens."
    if seen.format == "openai":
        text = "Your input exceeds the context window of this model. Please adjust your input and try again."
    error = {"message": text, "type": "invalid_request_error", "param": "input", "code": "context_length_exceeded"}
    return status(400, body={"error": error})


@dataclass
class Windowed:
    """Answers the conversation by `turns`, children by `children`, and requests for a summary by `summaries`."""

    window: int
    turns: list[Turn]
    children: list[Turn] = field(default_factory=list)
    summaries: list[Turn] = field(default_factory=list)  # then SUMMARY for ever
    refused: list[Seen] = field(default_factory=list)  # as they did not fit
    asked: list[Seen] = field(default_factory=list)  # for a summary
    main: list[Seen] = field(default_factory=list)  # that fitted
    below: list[Seen] = field(default_factory=list)  # of children

    def __call__(self, seen: Seen) -> Turn:
        size = size_of(seen)
        if size > self.window:
            self.refused.append(seen)
            return overflow(seen, size, self.window)
        if "<conversation>" in seen.opening:
            self.asked.append(seen)
            return self.summaries.pop(0) if self.summaries else say(SUMMARY, usage=Usage(size, 20))
        child = "# Task\\n" in seen.opening
        (self.below if child else self.main).append(seen)
        turn = (self.children if child else self.turns).pop(0)
        return replace(turn, usage=Usage(size, 20))


@dataclass
class Live:
    """One chat over a session; `events` are those of this run."""

    run: Run
    events: list[Event]

    async def say(self, text: str, **rest: Any) -> Outcome:
        return await self.run.ask(Prompt(text, **rest))

    @property
    def compactions(self) -> list[ContextCompacted]:
        return [e for e in self.events if isinstance(e, ContextCompacted)]

    def of(self, kind: str) -> list[Event]:
        return [e for e in self.events if e.type == kind]


@asynccontextmanager
async def live(
    folder: Path, server: Server, format: str = "anthropic", *, settings: str = "", **options: Any
) -> AsyncIterator[Live]:
    """A run in `folder/work` with its home in `folder/home`; `settings` are lines of [models.main]."""
    (folder / "work").mkdir(exist_ok=True)
    config = folder / "config.toml"
    config.write_text(
        f'[models.main]\nprovider = "{format}"\nmodel = "test-model"\nbase_url = "{server.url(format)}"\n'
        f'api_key_env = "LOOPBACK_KEY"\n{settings}\n'
    )
    environ = {
        **QUIET,
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "COWORK_HOME": str(folder / "home"),
        "LOOPBACK_KEY": "k",
    }
    chosen = RunOptions(
        **{"cwd": folder / "work", "config_file": config, "permission_mode": "bypass", **options},
    )
    events: list[Event] = []
    run = build(chosen, environ, ask=_no, sinks=[events.append], on_sink_failure=_raise)
    begin(run)
    try:
        yield Live(run, events)
    finally:
        await run.close()


def rewrites(requests: Sequence[Seen]) -> int:
    """How often a request did not begin with the whole of the one before it."""
    spoken = [conversation(seen) for seen in requests]
    return sum(later[: len(earlier)] != earlier for earlier, later in pairwise(spoken))


async def _no(question: Question) -> Answer:
    return Answer("no")


def _raise(sink: Callable[[Event], None], error: Exception) -> None:
    raise error


def _without_pictures(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_pictures(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_without_pictures(each) for each in value]
    picture = isinstance(value, str) and value.startswith(("data:image/", "iVBOR"))
    return "(a picture)" if picture else value


def _without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_marks(each) for key, each in value.items() if key != "cache_control"}
    return [_without_marks(each) for each in value] if isinstance(value, list) else value
