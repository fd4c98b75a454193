"""What happens, as frozen facts in the past tense. The log, the screen and the JSON stream read the same ones.

Wire names and fields are public and pinned by a golden file. `id`, `at`, `session_id` and `agent` are stamped by
the emitter; `agent` is a path such as `main` or `main/explore-1`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, ClassVar

from cowork.core.blocks import Block, Image, Json, Usage, blocks_from_list, blocks_to_list
from cowork.core.frozen import frozen, revive


@frozen(kw_only=True)
class Event:
    type: ClassVar[str] = ""
    durable: ClassVar[bool] = True  # kept in the session log

    id: int = 0
    at: float = 0.0
    session_id: str = ""
    agent: str = "main"


@frozen
class SessionStarted(Event):
    type: ClassVar[str] = "session.started"
    cwd: str = ""
    model: str = ""
    provider: str = ""
    mode: str = ""
    branch: str = ""
    version: str = ""
    resumed: bool = False
    tools: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()


@frozen
class PromptAdded(Event):
    """The user's side speaks. `context` (environment, project knowledge) goes before the text, unseen."""

    type: ClassVar[str] = "prompt.added"
    text: str = ""
    context: str = ""
    images: tuple[Image, ...] = ()
    source: str = "user"  # user | queue | steer | agent | system
    label: str = ""  # what people see instead of the text, when it is long or machine-made
    attached: tuple[str, ...] = ()  # what its `@` names brought along, a line each, for people


@frozen
class TextDelta(Event):
    type: ClassVar[str] = "text.delta"
    durable: ClassVar[bool] = False
    text: str = ""


@frozen
class ThinkingDelta(Event):
    type: ClassVar[str] = "thinking.delta"
    durable: ClassVar[bool] = False
    text: str = ""


@frozen
class ReplyAdded(Event):
    """One whole answer of the model: one request, one turn."""

    type: ClassVar[str] = "reply.added"
    content: tuple[Block, ...] = ()
    stop_reason: str = ""
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = None
    model: str = ""
    duration_ms: int = 0


@frozen
class ToolStarted(Event):
    type: ClassVar[str] = "tool.started"
    tool_use_id: str = ""
    name: str = ""
    input: Json = field(default_factory=dict)
    family: str = ""  # of the tool: read | search | write | exec | delegate | fetch | other
    line: str = ""  # the call in one line, without the tool's name


@frozen
class ToolOutput(Event):
    type: ClassVar[str] = "tool.output"
    durable: ClassVar[bool] = False
    tool_use_id: str = ""
    text: str = ""


@frozen
class ToolEnded(Event):
    """`record` is SPEC's six-key result; the model reads its text and `images`, people read `display`."""

    type: ClassVar[str] = "tool.ended"
    tool_use_id: str = ""
    name: str = ""
    record: Json = field(default_factory=dict)
    display: Json = field(default_factory=dict)
    images: tuple[Image, ...] = ()


@frozen
class QuestionAsked(Event):
    type: ClassVar[str] = "question.asked"
    question_id: str = ""
    question: Json = field(default_factory=dict)


@frozen
class QuestionAnswered(Event):
    type: ClassVar[str] = "question.answered"
    question_id: str = ""
    choice: str = ""
    rule: str = ""
    note: str = ""


@frozen
class AgentStarted(Event):
    """A child was sent out (or waits in line). `agent` is the child's own path."""

    type: ClassVar[str] = "agent.started"
    subagent_id: str = ""
    parent: str = "main"
    tool_use_id: str = ""
    description: str = ""
    prompt: str = ""
    subagent_type: str = ""
    model: str = ""  # main | light
    model_id: str = ""
    tools: tuple[str, ...] = ()
    max_turns: int = 0
    depth: int = 1
    color: str = ""
    background: bool = False
    status: str = "active"  # active | waiting


@frozen
class AgentUpdated(Event):
    type: ClassVar[str] = "agent.updated"
    durable: ClassVar[bool] = False
    subagent_id: str = ""
    status: str = "active"  # waiting | active | completed | incomplete | error | aborted
    turns: int = 0
    tool_calls: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = None
    elapsed_ms: int = 0
    action: str = ""  # what it does now, in a line


@frozen
class AgentEnded(Event):
    type: ClassVar[str] = "agent.ended"
    subagent_id: str = ""
    status: str = "completed"  # completed | incomplete | error | aborted
    record: Json = field(default_factory=dict)


@frozen
class TodoUpdated(Event):
    type: ClassVar[str] = "todo.updated"
    todos: tuple[Json, ...] = ()


@frozen
class RetryScheduled(Event):
    """A try failed and another follows. Text shown since the last request is withdrawn."""

    type: ClassVar[str] = "retry.scheduled"
    attempt: int = 1  # the try that comes next, from 2
    max_attempts: int = 1
    delay_s: float = 0.0
    kind: str = ""
    message: str = ""
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0
    model: str = ""
    estimated: bool = False  # the service did not tell all of the usage


@frozen
class ContextCompacted(Event):
    """From here on the model sees `summary` in place of what came before event `keep_from`.

    Results named in `cleared` are shown to it as one line, those in `shortened` by their head and tail. An empty
    summary only does that.
    """

    type: ClassVar[str] = "context.compacted"
    summary: str = ""
    keep_from: int = 0
    cleared: tuple[str, ...] = ()
    shortened: tuple[str, ...] = ()
    trigger: str = "auto"  # auto | manual | overflow
    tokens_before: int = 0
    tokens_after: int = 0
    kept: tuple[str, ...] = ()  # what was pinned, for people
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0
    model: str = ""


@frozen
class SessionRewound(Event):
    """The conversation went back to just before the prompt with event id `to`."""

    type: ClassVar[str] = "session.rewound"
    to: int = 0
    conversation: bool = True
    files: tuple[str, ...] = ()


@frozen
class Notice(Event):
    """Something a person should know. `code` names it for programs, such as `mode.changed`."""

    type: ClassVar[str] = "notice"
    text: str = ""
    level: str = "info"  # info | warning | error
    code: str = ""
    data: Json = field(default_factory=dict)


@frozen
class TurnEnded(Event):
    """The answer to one prompt is complete, or was stopped; `reason` is SPEC's terminal_reason.

    `cut_off` is the part of its own `usage` that went into a request without a reply, if there was one:
    `{usage, cost_usd, model, estimated}`.
    """

    type: ClassVar[str] = "turn.ended"
    reason: str = "completed"
    text: str = ""
    num_turns: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = None
    duration_ms: int = 0
    error: Json = field(default_factory=dict)
    cut_off: Json = field(default_factory=dict)


@frozen
class RunEnded(Event):
    """Always the last event; `result` is the object of `--output json`."""

    type: ClassVar[str] = "run.ended"
    durable: ClassVar[bool] = False
    result: Json = field(default_factory=dict)


EVENTS: dict[str, type[Event]] = {
    cls.type: cls
    for cls in (
        SessionStarted,
        PromptAdded,
        TextDelta,
        ThinkingDelta,
        ReplyAdded,
        ToolStarted,
        ToolOutput,
        ToolEnded,
        QuestionAsked,
        QuestionAnswered,
        AgentStarted,
        AgentUpdated,
        AgentEnded,
        TodoUpdated,
        RetryScheduled,
        ContextCompacted,
        SessionRewound,
        Notice,
        TurnEnded,
        RunEnded,
    )
}

_ENVELOPE = ("id", "at", "session_id", "agent")
_PAYLOAD: dict[type[Event], tuple[str, ...]] = {
    cls: tuple(name for name, hint in cls.__annotations__.items() if not hint.startswith("ClassVar"))
    for cls in EVENTS.values()
}


def to_dict(event: Event) -> Json:
    """The event as one JSON-safe object. `run.ended` lays its result open beside the envelope."""
    out: Json = {"type": event.type}
    for name in _ENVELOPE:
        out[name] = getattr(event, name)
    if isinstance(event, RunEnded):
        return out | {key: value for key, value in event.result.items() if key not in out}
    for name in _PAYLOAD[type(event)]:
        value = getattr(event, name)
        if isinstance(value, Usage):
            value = value.to_dict()
        elif isinstance(value, tuple):
            value = blocks_to_list(value) if name in _BLOCKS else list(value)
        out[name] = value
    return out


def from_dict(raw: Mapping[str, Any]) -> Event | None:
    """The event an object stands for; None for a type of a newer version. Unknown fields are ignored."""
    cls = EVENTS.get(str(raw.get("type")))
    if cls is None:
        return None
    if cls is RunEnded:
        given = {name: raw[name] for name in _ENVELOPE if name in raw}
        return RunEnded({k: v for k, v in raw.items() if k not in _ENVELOPE and k != "type"}, **given)
    known = _READERS[cls]
    given = {}
    for name, value in raw.items():
        if name in known:
            decode = known[name]
            given[name] = decode(value) if decode else value
    return revive(cls, given)


def _images(raw: object) -> tuple[Image, ...]:
    return tuple(b for b in blocks_from_list(raw) if isinstance(b, Image))


def _usage(raw: object) -> Usage:
    return Usage.from_dict(raw) if isinstance(raw, Mapping) else Usage()


def _tuple(raw: object) -> tuple[Any, ...]:
    return tuple(raw) if isinstance(raw, list | tuple) else ()


_BLOCKS = frozenset({"content", "images"})
_DECODE: dict[str, Callable[[object], object]] = {
    "content": blocks_from_list,
    "images": _images,
    "usage": _usage,
    "tools": _tuple,
    "agents": _tuple,
    "todos": _tuple,
    "cleared": _tuple,
    "shortened": _tuple,
    "kept": _tuple,
    "files": _tuple,
    "attached": _tuple,
}
_READERS: dict[type[Event], dict[str, Callable[[object], object] | None]] = {
    cls: {name: _DECODE.get(name) for name in (*_ENVELOPE, *names)} for cls, names in _PAYLOAD.items()
}
