"""A stage to play a scripted model on: real tools in a real folder, real engine, every event kept.

story = await stage.play("fix it", [turn(call("Write", file_path="a", content="b")), say("ok")], answer="no")
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cowork import prompts
from cowork.agents import Agents
from cowork.core.blocks import Json, Message
from cowork.core.events import Event
from cowork.core.hooks import Hooks
from cowork.core.ports import AgentDef, Answer, Decision, Effect, Provider, Question, Request, ToolFacts
from cowork.core.transcript import Transcript
from cowork.core.workspace import Workspace
from cowork.engine.assembly import AgentSpec, Rights, Services
from cowork.engine.budget import Ledger
from cowork.engine.compaction import Compaction
from cowork.engine.emitter import Emitter
from cowork.engine.loop import Outcome, Prompt
from cowork.engine.subagents.children import Subagents
from cowork.providers.scripted import Scripted
from cowork.tools.base import TreeState
from cowork.tools.builtin import builtin_tools
from tests.fakes.agents import load_agents


def call(name: str, /, **given: Any) -> Json:
    return {"name": name, "input": given}


def turn(*calls: Json, say: str = "", **rest: Any) -> Json:
    return {"calls": list(calls), **({"say": say} if say else {}), **rest}


def say(text: str, **rest: Any) -> Json:
    return {"say": text, **rest}


@dataclass
class Settings:
    """`[agent.subagent]` as a test wants it."""

    max_depth: int = 3
    default_max_turns: int = 10
    output_max_size: int = 0
    telemetry_enabled: bool = True
    max_concurrent: int = 5
    timeout: float = 0
    idle_timeout: float = 0
    match: str = "exact"
    allow_nesting: bool = False
    default_tools: str = "inherit"
    max_executions: int = 0
    max_total_tokens: int = 0
    max_total_time: float = 0
    max_total_cost_usd: float = 0


@dataclass
class Policy:
    """Reads and delegation are free, the rest asks, and what was granted stays granted."""

    allow_all: bool = False
    deny: frozenset[str] = frozenset()
    deny_agents: frozenset[str] = frozenset()
    granted: list[tuple[str, str, bool]] = field(default_factory=list)

    def judge(self, agent: str, tool: ToolFacts, args: Mapping[str, Any], effects: Sequence[Effect]) -> Decision:
        name = tool.name
        if name in self.deny:
            return Decision("deny", f"a rule denies {name}")
        if any(e.kind == "delegate" and e.target in self.deny_agents for e in effects):
            return Decision("deny", "a rule denies that agent")
        harmless = all(e.kind in ("read", "delegate", "none") for e in effects)
        if self.allow_all or harmless or any(rule == name for _, rule, _ in self.granted):
            read_only = str(args.get("command", "")).startswith(("sleep", "echo"))
            return Decision("allow", read_only=harmless or read_only)
        return Decision("ask", f"{name} changes things", rule=name, session_rule=name)

    def forbids(self, tool: ToolFacts) -> bool:
        return tool.name in self.deny

    def grant(self, agent: str, rule: str, *, forever: bool) -> None:
        self.granted.append((agent, rule, forever))


@dataclass
class Story:
    """What happened, for asserting on."""

    events: list[Event]
    requests: list[Request]
    outcome: Outcome
    stage: Stage

    def kinds(self, prefix: str = "", agent: str | None = None) -> list[str]:
        return [e.type for e in self.events if e.type.startswith(prefix) and agent in (None, e.agent)]

    def of(self, cls: type[Any]) -> list[Any]:
        return [e for e in self.events if isinstance(e, cls)]

    def asked(self, text: str) -> list[Request]:
        """The requests of the conversation whose system prompt or first message holds the text."""
        return [r for r in self.requests if text in r.system or text in r.messages[0].text]

    @property
    def last_message(self) -> Message:
        return self.requests[-1].messages[-1]


class Stage:
    """One run in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workspace = Workspace(folder / "work", readable=(folder / "scratch",))
        self.workspace.root.mkdir(exist_ok=True)
        self.events: list[Event] = []
        self.questions: list[Question] = []
        self.emitter = Emitter("testsession")
        self.emitter.add(self.events.append)
        self.tree = TreeState(scratch=folder / "scratch", environ={"PATH": "/usr/bin:/bin"})
        self.ledger = Ledger()
        self.settings = Settings()
        self.policy = Policy()
        self.agents: Agents = load_agents(("shipped", prompts.data_root()))
        self.tools = builtin_tools(prompts.text_of).only(refused=["subagent"])
        self.answer: Answer | Callable[[Question], Answer] = Answer("no", "the test says no")
        self.light: Provider | None = None
        self.init_error: Exception | None = None
        self.max_turns = 0
        self.compaction: Compaction | None = None
        self.recall: Callable[[str], Transcript | None] = lambda path: None
        self.modes_asked: list[tuple[str, ...]] = []
        self.hooks: Hooks = Hooks()
        self.started = False

    def set_up(self, provider: Provider) -> None:
        """Join the parts around a model."""
        self.provider = provider
        services = Services(
            emitter=self.emitter,
            ask=self._ask,
            workspace=self.workspace,
            tree=self.tree,
            permit_for=self._permit,
            model=self._model,
            compact=self.compaction,
            recall=lambda path: self.recall(path),
            hooks=self.hooks,
        )
        self.subagents = Subagents(services, self.agents, self.settings, self.ledger)
        transcript = Transcript()
        self.emitter.add(transcript.apply)
        offered = Rights("main", self.tools, self.policy).offers(self.agents, self.settings)
        spec = AgentSpec(
            "main",
            provider,
            prompts.system_prompt([definition for definition, _ in offered]),
            self.tools,
            self.ledger,
            transcript,
            self.workspace.root,
            session_id="testsession",
            max_turns=self.max_turns,
        )
        self.agent = self.subagents.add(spec)
        self.runner = self.agent.runner
        self.started = True

    async def play(
        self, prompt: str, script: list[Json], children: Mapping[str, Any] | None = None, answer: str = ""
    ) -> Story:
        """Answer one prompt with a scripted model."""
        if answer:
            self.answer = Answer(answer, "no thanks" if answer == "no" else "")  # type: ignore[arg-type]
        if not self.started:
            self.set_up(Scripted(script, children))
        outcome = await self.agent.run(Prompt(prompt))
        return self.story(outcome)

    @property
    def all_slots_free(self) -> bool:
        """Whether no agent holds a slot or waits for one."""
        slots = self.subagents.slots
        return slots._value == self.settings.max_concurrent and not slots._waiters

    def story(self, outcome: Outcome) -> Story:
        requests = list(self.provider.requests) + list(getattr(self.light, "requests", ()))  # type: ignore[attr-defined]
        return Story(self.events, requests, outcome, self)

    async def until(self, kind: str, agent: str = "main") -> None:
        """Wait for an event of that kind to come."""
        here = asyncio.get_running_loop().create_future()

        def look(event: Event) -> None:
            if event.type == kind and event.agent == agent and not here.done():
                here.set_result(None)

        self.emitter.add(look)
        await asyncio.wait_for(here, 100)
        self.emitter.remove(look)

    async def _ask(self, question: Question) -> Answer:
        self.questions.append(question)
        return self.answer if isinstance(self.answer, Answer) else self.answer(question)

    def _permit(self, modes: tuple[str, ...]) -> Policy:
        if modes:
            self.modes_asked.append(modes)
        return self.policy

    def _model(self, name: str) -> tuple[Provider, str]:
        if self.init_error:
            raise self.init_error
        if name == "light" and self.light is not None:
            return self.light, "light"
        return self.provider, "main" if name in ("main", "light") else name


def agent_def(name: str, **rest: Any) -> AgentDef:
    return AgentDef(name, rest.pop("description", f"The {name}"), rest.pop("role", f"You are {name}."), **rest)
