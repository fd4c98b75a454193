"""What happens, as frozen facts in the past tense. The log, the screen and the JSON stream read the same ones.

Wire names (`ToolStarted` is `tool.started`) and fields are public and pinned by a golden file. `id`, `at`,
`session_id` and `agent` are stamped by the emitter; `agent` is a path such as `main` or `main/explore-1`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, field
from typing import Any, ClassVar

from cowork.core.blocks import READ, Block, Image, Json, Usage, block_to_dict
from cowork.core.frozen import frozen

_ENVELOPE = {"id": "int", "at": "float", "session_id": "str", "agent": "str"}


@frozen
class Event:
    type: ClassVar[str] = ""
    durable: ClassVar[bool] = True  # kept in the session log

    _: KW_ONLY
    id: int = 0
    at: float = 0.0
    session_id: str = ""
    agent: str = "main"

    def __init_subclass__(cls, durable: bool = True) -> None:
        cls.type = "".join(f".{char.lower()}" if char.isupper() else char for char in cls.__name__)[1:]
        cls.durable = durable


@frozen
class SessionStarted(Event):
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

    text: str = ""
    context: str = ""
    images: tuple[Image, ...] = ()
    source: str = "user"  # user | queue | steer | agent | system
    label: str = ""  # what people see instead of the text, when it is long or machine-made
    attached: tuple[str, ...] = ()  # what its `@` names brought along, a line each, for people


@frozen
class TextDelta(Event, durable=False):
    text: str = ""


@frozen
class ThinkingDelta(Event, durable=False):
    text: str = ""


@frozen
class ReplyAdded(Event):
    """One whole answer of the model: one request, one turn."""

    content: tuple[Block, ...] = ()
    stop_reason: str = ""
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = None
    model: str = ""
    duration_ms: int = 0


@frozen
class ToolStarted(Event):
    tool_use_id: str = ""
    name: str = ""
    input: Json = field(default_factory=dict)
    family: str = ""  # of the tool: read | search | write | exec | delegate | fetch | other
    line: str = ""  # the call in one line, without the tool's name


@frozen
class ToolOutput(Event, durable=False):
    tool_use_id: str = ""
    text: str = ""


@frozen
class ToolEnded(Event):
    """`record` is SPEC's six-key result; the model reads its text and `images`, people read `display`."""

    tool_use_id: str = ""
    name: str = ""
    record: Json = field(default_factory=dict)
    display: Json = field(default_factory=dict)
    images: tuple[Image, ...] = ()


@frozen
class QuestionAsked(Event):
    question_id: str = ""
    question: Json = field(default_factory=dict)


@frozen
class QuestionAnswered(Event):
    question_id: str = ""
    choice: str = ""
    rule: str = ""
    note: str = ""


@frozen
class AgentStarted(Event):
    """A child was sent out (or waits in line). `agent` is the child's own path."""

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
class AgentUpdated(Event, durable=False):
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
    subagent_id: str = ""
    status: str = "completed"  # completed | incomplete | error | aborted
    record: Json = field(default_factory=dict)


@frozen
class TodoUpdated(Event):
    todos: tuple[Json, ...] = ()


@frozen
class RetryScheduled(Event):
    """A try failed and another follows. Text shown since the last request is withdrawn."""

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

    to: int = 0
    conversation: bool = True
    files: tuple[str, ...] = ()


@frozen
class Notice(Event):
    """Something a person should know. `code` names it for programs, such as `mode.changed`."""

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

    reason: str = "completed"
    text: str = ""
    num_turns: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = None
    duration_ms: int = 0
    error: Json = field(default_factory=dict)
    cut_off: Json = field(default_factory=dict)


@frozen
class RunEnded(Event, durable=False):
    """Always the last event; `result` is the object of `--output json`."""

    result: Json = field(default_factory=dict)


EVENTS: dict[str, type[Event]] = {cls.type: cls for cls in Event.__subclasses__()}  # the public ones


def to_dict(event: Event) -> Json:
    """The event as one JSON-safe object. `run.ended` lays its result open beside the envelope."""
    out: Json = {"type": event.type} | {name: getattr(event, name) for name in _ENVELOPE}
    if isinstance(event, RunEnded):
        return out | event.result | out
    for name in type(event).__annotations__:
        value = getattr(event, name)
        if isinstance(value, Usage):
            value = value.to_dict()
        elif isinstance(value, tuple):
            value = [item if isinstance(item, str | dict) else block_to_dict(item) for item in value]
        out[name] = value
    return out


def from_dict(raw: Mapping[str, Any]) -> Event | None:
    """The event an object stands for; None for `run.ended` and for a newer version's. Unknown fields are ignored."""
    cls = EVENTS.get(str(raw.get("type")))
    if cls is None or cls is RunEnded:
        return None
    hints, given = cls.__annotations__, dict[str, Any]()
    for name, value in raw.items():
        if hint := hints.get(name) or _ENVELOPE.get(name):
            given[name] = READ[hint](value) if hint in READ else value
    return cls(**given)
