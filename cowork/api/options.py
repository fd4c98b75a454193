"""The options of a session, as keywords with types, and its hooks; what they do not name, `settings` can."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, TypeVar, get_type_hints

from cowork.app.project import Additions
from cowork.config.run_options import RunOptions
from cowork.core.errors import UserError
from cowork.core.events import Event
from cowork.core.hooks import HOOK_EVENTS, HookCall, HookEvent, Hooks, HookVerdict, join_verdicts
from cowork.core.ports import AgentDef, Answer, Ask, Question
from cowork.tools.base import Tool

log = logging.getLogger("cowork.api")

Given = TypeVar("Given", bound=Mapping[str, Any])
HookFunction = Callable[[HookCall], HookVerdict | Awaitable[HookVerdict | None] | None]


class SessionOptions(TypedDict, total=False):
    """Everything a session can be told; what is left out is as the configuration says."""

    cwd: str | Path  # the folder to work in
    model: str  # main, light, or a model's own name
    provider: str  # anthropic, openai, openai-chat, offline, scripted
    agent: str  # run as this agent
    agents: Sequence[AgentDef]  # more agents to send out
    tools: Sequence[str | Tool]  # names: only these; values: these too
    mode: str  # permission mode: ask, plan, accept-edits, auto, bypass
    allow: Sequence[str]  # rules that need no question
    deny: Sequence[str]  # rules that refuse
    ask: Ask  # answers questions; without it they are denied
    on_event: Callable[[Event], None]  # hears every event, in order
    hooks: Mapping[str, HookFunction]  # functions to call at these moments, as {"PreToolUse:Bash": function}
    budget: float  # USD at most, children and retries counted in
    max_turns: int  # requests for one prompt
    max_tokens: int
    timeout: float  # seconds for one prompt
    system: str  # added to the system prompt
    resume: str  # id of a session to go on with, or the start of it
    store: bool  # False: nothing is kept
    trust: bool  # use the folder's own settings, agents and notes
    bare: bool  # ignore the files of user and project
    script: str | Path  # scripted turns instead of a model
    settings: Mapping[str, object]  # anything of the configuration, by its dotted name
    environ: Mapping[str, str]  # instead of os.environ: keys, HOME, COWORK_*


class TaskOptions(TypedDict, total=False):
    """What a task can be told beside its prompt."""

    description: str  # a few words for people; else the start of the prompt
    model: str  # main or light; else what the agent's file says
    isolation: str  # worktree: it works in a git worktree of its own, which is merged at the end
    check: str  # a command that must succeed in that worktree before it is merged


class SessionTaskOptions(TaskOptions, total=False):
    """The same of a task that a session sends out by itself."""

    max_turns: int  # requests it may make; else what the agent's file or the settings say


_SAME = ("model", "provider", "agent", "max_turns", "max_tokens", "timeout", "resume", "trust", "bare", "settings")
_RENAMED = {"mode": "permission_mode", "budget": "max_cost", "system": "system_prompt_append"}


def given_options(known: Callable[..., Given], options: Given) -> Given:
    """Options without those that are None, which are not given."""
    if unknown := sorted(set(options) - set(get_type_hints(known))):
        raise UserError(f"There is no option {unknown[0]!r}.", "docs/api.md lists them.")
    return known(**{name: value for name, value in options.items() if value is not None})


def options_for(given: SessionOptions) -> tuple[RunOptions, Additions]:
    """The options and additions of the run behind a session."""
    values = {name: value for name, value in given.items() if name in _SAME}
    values |= {new: given[old] for old, new in _RENAMED.items() if old in given}  # type: ignore[literal-required]
    values |= {name: Path(given[name]) for name in ("cwd", "script") if given.get(name)}
    tools = given.get("tools", ())
    if strange := [tool for tool in tools if not isinstance(tool, Tool | str)]:
        hint = "Give names of tools, and functions with @cowork.tool above them."
        raise UserError(f"tools: {strange[0]!r} is not a tool.", hint)
    own = [tool for tool in tools if isinstance(tool, Tool)]
    names = [tool for tool in tools if isinstance(tool, str)]
    allowed = [tool.name for tool in own if not tool.asks]
    values["tools"] = (*names, *(tool.name for tool in own)) if names else ()
    values["allow"] = (*given.get("allow", ()), *allowed)
    values["deny"] = tuple(given.get("deny", ()))
    values["no_session"] = not given.get("store", True)
    values["non_interactive"] = True
    hooks = FunctionHooks(given.get("hooks", {}))
    return RunOptions(**values), Additions(own, given.get("agents", ()), hooks)  # type: ignore[arg-type]


class FunctionHooks(Hooks):
    """Calls functions at the moments they are named for; after a colon, a pattern for the tool or agent it is about."""

    def __init__(self, functions: Mapping[str, HookFunction]) -> None:
        self._functions: list[tuple[str, re.Pattern[str], HookFunction]] = []
        for name, function in functions.items():
            event, _, pattern = name.partition(":")
            if event not in HOOK_EVENTS:
                raise UserError(f"There is no hook event {event!r}.", f"The events are {', '.join(HOOK_EVENTS)}.")
            try:
                self._functions.append((event, re.compile(pattern or ".*"), function))
            except re.error as error:
                raise UserError(f"The hook {name!r} has a bad pattern: {error}.") from error

    def listens(self, event: HookEvent, subject: str = "") -> bool:
        return bool(self._choose(event, subject))

    async def fire(self, call: HookCall) -> HookVerdict:
        verdicts = []
        for function in self._choose(call.event, call.subject):
            said = function(call)
            verdicts.append(_verdict(call, await said if inspect.isawaitable(said) else said))
        return join_verdicts(verdicts)

    def _choose(self, event: str, subject: str) -> list[HookFunction]:
        return [f for name, pattern, f in self._functions if name == event and pattern.fullmatch(subject)]


def _verdict(call: HookCall, said: object) -> HookVerdict:
    """What a function returned; what is no verdict lets no call through."""
    if said is None or isinstance(said, HookVerdict):
        return said or HookVerdict()
    problem = f"the hook of {call.event} returned {said!r}, which is neither a HookVerdict nor None"
    if call.event not in ("PreToolUse", "PermissionRequest"):
        raise UserError(problem)
    return HookVerdict("deny", problem)


def checked(ask: Ask) -> Ask:
    """Puts questions to a program; what it says that is no answer is a no."""

    async def put(question: Question) -> Answer:
        said: object = await ask(question)
        if isinstance(said, Answer) and (said.granted or said.choice == "no"):
            return said
        word = said.choice if isinstance(said, Answer) else said
        problem = f"`ask` returned {word!r}; a cowork.Answer is once, session, always or no"
        log.warning("%s was denied: %s", question.tool or question.title, problem)
        return Answer("no", problem)

    return put
