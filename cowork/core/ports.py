"""The seams: what the loop expects of a model, a tool and the two ways it talks to the outside."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

from cowork.core.blocks import Block, Image, Json, Message, Spoken, Usage
from cowork.core.errors import ToolErrorCode, UserError
from cowork.core.events import Event
from cowork.core.frozen import frozen

# ---------------------------------------------------------------- models

Thinking = Literal["off", "low", "medium", "high"] | int


@frozen
class ModelSpec:
    """Which model, where, and what it takes; the key is never shown."""

    provider: str  # anthropic | openai | openai-chat | offline | scripted
    model: str
    base_url: str = ""
    api_key: str = field(default="", repr=False)
    context_window: int = 0  # 0: what is known of the model, else 128,000
    max_output_tokens: int = 0  # 0: what is known of the model, else 8,192
    thinking: Thinking = "off"
    transport: Literal["direct", "sdk"] = "direct"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    options: Json = field(default_factory=dict)  # of the provider, such as a script's path
    prices: Mapping[str, float] | None = None  # USD per million tokens: input, output, cache_read, cache_write


@frozen
class ToolSpec:
    """What a model is told about a tool."""

    name: str
    description: str
    schema: Json

    @cached_property
    def size(self) -> int:
        """About the bytes it takes in every request."""
        import json  # settings are read without it

        return len(f"{self.name}{self.description}{json.dumps(self.schema)}".encode("utf-8", "replace"))


@frozen
class Request:
    """One question to a model. Its prefix (system, tools, messages) only ever grows between turns."""

    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: Literal["auto", "none"] = "auto"  # "none" keeps the tools, and the cached prefix, but forbids calls
    max_output_tokens: int = 0  # 0: what the model's configuration says
    thinking: Thinking | None = None  # None: what the model's configuration says
    session_id: str = ""
    searches: int = 0  # how many times the service itself may search the web for this answer


@frozen
class Delta:
    """A piece of a reply as it streams. `tool` pieces only show that a call is being written."""

    kind: Literal["text", "thinking", "tool"]
    text: str


@frozen
class Used:
    """What the service says the request has used so far; counts only if no Reply follows."""

    usage: Usage


@frozen
class Retry:
    """A try failed and the stream starts over after `delay_s`; what it had yielded is void."""

    attempt: int
    max_attempts: int
    delay_s: float
    kind: str
    message: str
    usage: Usage = field(default_factory=Usage)


StopReason = Literal["end_turn", "tool_use", "max_tokens", "pause_turn", "refusal", "context_overflow"]


@frozen
class Source:
    """A web page a service found; `quote` is what it cites of it."""

    url: str
    title: str = ""
    quote: str = ""


@frozen
class Reply(Spoken):
    """The whole answer; the last thing a stream yields, exactly once."""

    content: tuple[Block, ...]
    stop_reason: StopReason
    usage: Usage
    model: str = ""
    searches: int = 0  # that the service made
    sources: tuple[Source, ...] = ()


class Provider(Protocol):
    """A model behind a wire format. Failures raise ProviderError; anything else is a bug."""

    @property
    def name(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def context_window(self) -> int: ...
    @property
    def max_output_tokens(self) -> int: ...

    def stream(self, request: Request) -> AsyncIterator[Delta | Used | Retry | Reply]: ...
    def price(self, usage: Usage) -> float | None: ...
    async def aclose(self) -> None: ...


OnRequest = Callable[[bytes], None] | None
"""Sees each request body before it is sent."""


# ---------------------------------------------------------------- tools

Family = Literal["read", "search", "write", "exec", "delegate", "fetch", "other"]


class ToolFacts(Protocol):
    """What permissions, agents and front ends may know of a tool, whoever wrote it."""

    @property
    def name(self) -> str: ...
    @property
    def family(self) -> Family: ...
    @property
    def reads(self) -> bool: ...  # it changes nothing, so calls of it may run beside others


@frozen
class Effect:
    """What a call would touch, for permissions to judge.

    The target is a resolved path, a command line, an agent's name or a URL. `call` is a tool that says nothing about
    what it does, so only rules by its name speak of it; `none` touches nothing that needs a permission.
    """

    kind: Literal["read", "write", "exec", "delegate", "fetch", "call", "none"]
    target: str = ""
    cwd: str = ""  # where a command would run; empty: the workspace root
    needs: Literal["", "write", "network", "outside"] = ""  # what a command says it needs, or was seen to need


Status = Literal["success", "partial", "error"]


@frozen
class ToolRecord:
    """What a call came to, for three readers: `text` the model, `display` the person, `data` programs."""

    status: Status
    text: str
    data: Json = field(default_factory=dict)
    error: Json | None = None
    stats: Json = field(default_factory=dict)
    context: Json = field(default_factory=dict)
    display: Json = field(default_factory=dict)
    images: tuple[Image, ...] = ()

    def to_dict(self) -> Json:
        """SPEC's record: six keys, `error` only when there is one."""
        out: Json = {"status": self.status, "data": self.data, "text": self.text}
        out |= {} if self.error is None else {"error": self.error}
        return out | {"stats": self.stats, "context": self.context}


def ok(text: str, *, display: Json | None = None, images: Sequence[Image] = (), **data: Any) -> ToolRecord:
    return ToolRecord("success", text, data, display=display or {}, images=tuple(images))


def partial(text: str, *, display: Json | None = None, images: Sequence[Image] = (), **data: Any) -> ToolRecord:
    return ToolRecord("partial", text, data, display=display or {}, images=tuple(images))


def error_record(code: ToolErrorCode, text: str, *, display: Json | None = None, **data: Any) -> ToolRecord:
    return ToolRecord("error", text, data, error={"code": code, "message": text}, display=display or {})


# ---------------------------------------------------------------- agents

AgentOrigin = Literal["shipped", "user", "project"]
TASK_MARK = "\n\n# Task\n"  # stands in the system prompt of every child, before its description


@frozen
class AgentDef:
    """Who a child is: its role prompt, its tools and its model."""

    name: str
    description: str
    role: str
    tools: tuple[str, ...] | None = None  # None: the parent's
    disallowed_tools: tuple[str, ...] = ()
    model: str = "inherit"  # inherit | main | light | a model's ID
    max_turns: int | None = None
    timeout: float | None = None
    permission_mode: str = ""
    color: str = ""
    isolation: str = ""  # worktree: it works in one of its own
    servers: tuple[str, ...] | None = None  # MCP servers whose tools it has; None: as its tools say, else the parent's
    own_servers: Mapping[str, Json] = field(default_factory=dict)  # entries that its file brings, for it alone
    origin: AgentOrigin = "shipped"
    path: Path = field(default_factory=Path)

    @property
    def server_words(self) -> tuple[str, ...]:
        """The words of its file that stand for tools of MCP servers."""
        servers = (f"mcp__{server}" for server in (*(self.servers or ()), *self.own_servers))
        return (*servers, *(word for word in self.tools or () if word.startswith("mcp__") and word != "mcp__*"))

    @property
    def named_servers(self) -> tuple[str, ...]:
        """The MCP servers its file names, by themselves or by their tools."""
        return tuple(dict.fromkeys(word.split("__")[1] for word in self.server_words))


Accept = Callable[[Any], object]  # takes a value that is valid under a schema; a ValueError sends it back


@frozen
class TaskOrder:
    """A call of Task, as the engine receives it."""

    description: str
    prompt: str
    subagent_type: str
    model: str = ""  # main | light; empty: what the agent's file says
    summary_prompt: str = ""
    allowed_tools: tuple[str, ...] | None = None
    max_turns: int = 0  # 0: what the agent's file or the settings say
    output_schema: Json | None = None
    accept: Accept = lambda value: None
    run_in_background: bool = False
    resume: str = ""  # a subagent_id
    isolation: str = ""  # worktree: works in one of its own; empty: what the agent's file says
    check: str = ""  # a command that must succeed there before its changes are merged
    result_bytes: int = 0  # most of the result where the settings give no size; 0: the usual size


# ---------------------------------------------------------------- the two ports

Emit = Callable[[Event], None]
"""Synchronous, ordered, never fails."""

EXACTLY = "exactly: "
"""Before the text of a command that is granted as it was shown, for the session."""


@frozen
class Question:
    """Something only the person can decide. `display` is drawn as given: a diff, a parsed command, text.

    `questions`: what a model wants to know; `input` holds `questions`, the answer's `data` holds `answers`.
    `server`: whether a server that a project names may be used.
    `plan`: what it means to do; `display` is the plan, the answer's `data` holds `mode` and `plan` as edited.
    """

    kind: Literal["permission", "trust", "questions", "plan", "server"]
    title: str
    agent: str = "main"
    tool: str = ""
    input: Json = field(default_factory=dict)
    reason: str = ""
    rule: str = ""  # what "always" would add, exactly
    session_rule: str = ""  # what "this session" would grant: a rule, or EXACTLY with the command
    display: Json = field(default_factory=dict)
    options: tuple[str, ...] = ()  # of a plan: the modes to go on in
    mode: str = ""  # the permission mode in which this would not be asked again
    box: str = ""  # where a command would run: read, write, network, outside
    family: Family = "other"  # of the tool
    line: str = ""  # the call in one line, without the tool's name
    tool_use_id: str = ""  # of the call it is about
    once: bool = True  # a yes may hold for this call alone; False where it is about no call

    def to_dict(self) -> Json:
        """As events carry it."""
        kept_back = ("options", "mode", "box", "once")  # they are for the front end alone
        return {name: getattr(self, name) for name in type(self).__annotations__ if name not in kept_back}


@frozen
class Answer:
    choice: Literal["once", "session", "always", "no"]
    note: str = ""  # why not, for the model
    data: Json = field(default_factory=dict)  # what was filled in; `mode`: go on in this permission mode

    @property
    def granted(self) -> bool:
        """Whether it is a yes: a word that nobody knows is none."""
        return self.choice in ("once", "session", "always")


Ask = Callable[[Question], Awaitable[Answer]]


BoxName = Literal["", "read", "masked", "write", "network", "outside"]
"""Where a command runs: read-only; with the workspace writable but without its secrets, and with them; with the
network and without secrets; with the user's own rights. Empty: no command, or as the sandbox is set."""


@frozen
class Decision:
    """What permissions say of one call, why, and the exact rule that "always" would add."""

    verdict: Literal["allow", "ask", "deny"]
    reason: str = ""
    rule: str = ""
    session_rule: str = ""
    display: Json = field(default_factory=dict)
    read_only: bool = False  # the call is known to change nothing, so it may run beside others
    box: BoxName = ""  # where a command runs if the verdict is, or becomes, allow


class Permit(Protocol):
    """Judges calls and remembers what the person granted."""

    def judge(self, agent: str, tool: ToolFacts, args: Mapping[str, Any], effects: Sequence[Effect]) -> Decision: ...
    def forbids(self, tool: ToolFacts) -> bool: ...  # whether a rule denies every call of it
    def grant(self, agent: str, rule: str, *, forever: bool) -> None: ...


# ---------------------------------------------------------------- permission modes

ABOUT = {
    "ask": "Reads freely and asks before it writes or runs something.",
    "accept-edits": "Writes files in the workspace without asking; commands still ask.",
    "auto": "Also runs commands unasked that the sandbox holds to the workspace; what leaves it asks.",
    "plan": "Reads and thinks, writes nothing: for a plan you want to see first.",
    "bypass": "Asks nothing. Only for a machine or container you can lose.",
}
MODES = tuple(ABOUT)
LOOSE_TO_STRICT = ("bypass", "auto", "accept-edits", "ask", "plan")
_SPELLINGS = {"default": "ask", "acceptedits": "accept-edits", "bypasspermissions": "bypass", "dontask": "ask"}


def mode_of(text: str) -> str:
    """The mode a word stands for, also as other agents spell it."""
    name = text.strip().replace("_", "-")
    mode = _SPELLINGS.get(name.casefold().replace("-", ""), name.casefold())
    if mode not in MODES:
        raise UserError(f"{text!r} is not a permission mode.", f"Modes: {', '.join(MODES)}.")
    return mode


def tighter(one: str, other: str) -> str:
    """The stricter of two modes."""
    return max(one, other, key=LOOSE_TO_STRICT.index)
