"""Everything one run has, joined: the main agent, its children, its models, its log and its permissions."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from cowork import __version__, prompts
from cowork.agents import Agents
from cowork.app.extend.hooks import without_box
from cowork.app.project import Project, Unjudged
from cowork.app.result import result_object
from cowork.config import paths
from cowork.config.load import Config
from cowork.config.run_options import RunOptions
from cowork.core.blocks import Json
from cowork.core.errors import UserError
from cowork.core.events import Event, Notice, RunEnded, SessionStarted
from cowork.core.hooks import EndReason, HookCall, HookVerdict
from cowork.core.later import later
from cowork.core.ports import Accept, Answer, Provider, Question
from cowork.engine.compaction import Compaction
from cowork.engine.loop import Agent, Outcome, Prompt
from cowork.engine.runner import Runner
from cowork.engine.subagents.children import Subagents
from cowork.permissions import Permissions
from cowork.providers.retry import Retrying
from cowork.sessions.log.writer import SessionLog
from cowork.tools.base import Tool, ToolContext
from cowork.tools.toolset import ToolSet

with later(__name__):  # loaded only where they are used
    from cowork.app.mcp.servers import McpRun
    from cowork.app.safety import KeptFiles
    from cowork.engine import output_schema
    from cowork.providers.open import open_provider
    from cowork.providers.recording.record import Recorder, RequestDump
    from cowork.providers.recording.replay import Replay
    from cowork.sessions.checkpoints.recorder import Checkpoints
    from cowork.telemetry import TelemetryExport
    from cowork.tools.shell import jobs

T = TypeVar("T")
_LAST_WAIT_S = 1.5  # for the hooks of SessionStart, when the session ends that early


@dataclass
class Run:
    """A conversation in a folder, ready for prompts."""

    project: Project
    agent: Agent
    subagents: Subagents
    permissions: Permissions
    models: Models
    compaction: Compaction
    log: SessionLog | None = None
    kept_files: KeptFiles | None = None
    mcp: McpRun | None = None
    notes: tuple[Notice, ...] = ()  # what a person should see at the start
    warnings: list[str] = field(default_factory=list)  # every warning so far, for the result
    output_schema: Json | None = None
    accept: Accept = lambda value: None
    started: float = field(default_factory=time.monotonic)
    structured: object = None
    telemetry: TelemetryExport | None = None
    _starting: asyncio.Task[HookVerdict] | None = None  # the hooks of SessionStart, at work

    def __post_init__(self) -> None:
        self.config, self.root = self.project.config, self.project.root
        services = self.subagents.services
        self.emitter, self.tree, self._hooks = services.emitter, services.tree, services.hooks
        self.session_id, self.emit = self.emitter.session_id, self.emitter.bind("main")
        self.ledger = self.agent.ledger  # what the whole run spent: the main agent's is the root of all
        is_own = self.config.models.light.provider not in ("offline", "scripted")
        self.has_own_light = self.config.has_light and is_own  # light work goes to a model of its own

    @property
    def checkpoints(self) -> Checkpoints | None:
        return self.kept_files.checkpoints if self.kept_files else None

    @property
    def agents(self) -> Agents:
        return self.project.agents

    def begin(self, *, resumed: bool = False, cleared: bool = False) -> None:
        """Say who and where we are; `cleared`: the person wanted a new conversation in place of another."""
        self.emit(
            SessionStarted(
                cwd=str(self.root),
                model=self.agent.provider.model,
                provider=self.agent.provider.name,
                mode=self.permissions.mode,
                branch=self.project.branch,
                version=__version__,
                resumed=resumed,
                tools=tuple(spec.name for spec in self.agent.specs),
                agents=tuple(self.agents),
            )
        )
        bad = [p for p in self.agents.problems if p.fatal or p.unknown_tool]
        told = [(f"agent file {p}", "agents.bad_file" if p.fatal else "agents.unknown_tool") for p in bad]
        told += [(str(p), "extensions.bad_file") for p in self.project.invoker.extensions.problems if p.fatal]
        for text, code in (*told, *((note, "config.note") for note in self.config.notes)):
            self.emit(Notice(text, "warning", code))
        source = "resume" if resumed else "clear" if cleared else "startup"
        if self._hooks.listens("SessionStart", source):
            data = {"source": source, "model": self.agent.provider.model, "cwd": str(self.root)}
            self._starting = asyncio.create_task(self._hooks.fire(HookCall("SessionStart", source, data)))

    async def ask(self, prompt: Prompt) -> Outcome:
        """One prompt to the main agent, or the skill or command that it names."""
        if self.agent.turns:  # the first prompt comes right after the first look
            self.renew()
        return await self.project.invoker.ask(self.agent, prompt, self.models, self._ask)

    def renew(self) -> bool:
        """Use what changed in the files of extensions since the last look; says whether anything did."""
        note = self.project.invoker.refresh()
        if note is None:
            return False
        self.subagents.agents = self.subagents.known = self.agents
        tool, tools = self.project.invoker.tool(), self.agent.runner.tools
        if tool and tool.name in tools:
            tools.swap(tool)
        elif tool and tool.name not in tools.all:
            tools.add(tool)
        self.emit(note)
        return True

    async def _ask(self, prompt: Prompt) -> Outcome:
        """A prompt as it is; the first one carries what the model should know from the start."""
        context = [prompt.context]
        if self.mcp:
            await self.mcp.ready()
            context.append(await self.mcp.read_mentions(prompt.text))
        if not any(p.context for p in self.agent.transcript.prompts()):  # a rewind may have taken it back
            servers = self.mcp.instructions() if self.mcp else ""
            context[:0] = [prompts.environment(self.root, self.project.branch), self.project.knowledge, servers]
        if self._starting:
            begun, self._starting = await self._starting, None
            context.append(begun.context)
        prompt.context = "\n\n".join(filter(None, context))
        if self.output_schema is None:
            return await self.agent.run(prompt)
        prompt.text = f"{prompt.text}\n\n{output_schema.instruction(self.output_schema)}"
        outcome = await self.agent.run(prompt)
        if outcome.reason != "completed":
            return outcome
        parse = output_schema.parse_answer
        self.structured, outcome = await parse(self.agent, outcome, self.output_schema, self.accept)
        return outcome

    def keep_warning(self, event: Event) -> None:
        """Note a warning for the result."""
        if isinstance(event, Notice) and event.level == "warning":
            self.warnings.append(event.text)

    def own_runner(self, shell: Tool) -> Runner:
        """Runs what the person typed themselves, by `shell`: in the agent's folder, unasked and without a sandbox."""
        jobs.prepare(self.tree)
        space, state = self.permissions.workspace, self.agent.runner.state
        ctx = ToolContext("main", "", space, state, without_box(self.tree), self.emit)
        return Runner(ctx, ToolSet([shell]), nobody, Unjudged())

    def ending(self, task: asyncio.Task[Outcome], stopped: str = "") -> tuple[str, str, Json | None]:
        """(terminal reason, text, error) of whatever became of an answer; `stopped`: why somebody stopped it."""
        text = self.agent.transcript.last_text(self.agent.since)
        if task.cancelled() or (stopped and task.exception() is None):
            reason = stopped or "interrupted"
            return reason, text, {"code": reason, "message": f"The run was {reason}."}
        if isinstance(task.exception(), TimeoutError):
            message = f"Timed out after {self.config.limits.timeout:g} s."
            return "timeout", text, {"code": "timeout", "message": message}
        if bug := bug_in(task):
            message = f"An error inside cowork: {type(bug).__name__}."
            return "internal_error", text, {"code": "internal_error", "message": message}
        outcome = task.result()
        strict = self.project.options.strict_denials and (self.agent.runner.denials or self.subagents.denials)
        if outcome.reason == "completed" and (outcome.denied or strict):
            message = "The run ended on a denied action." if outcome.denied else "An action was denied."
            return "denied", outcome.text, {"code": "denied", "message": message}
        return outcome.reason, outcome.text, outcome.error

    def end(self, reason: str, text: str, error: Json | None) -> Json:
        """Publish the last event; gives the result object."""
        result = result_object(
            reason,
            error or None,
            result=text,
            session_id=self.session_id,
            num_turns=self.agent.turns,
            duration_ms=round((time.monotonic() - self.started) * 1000),
            usage=self.ledger.spent.usage.to_dict(),
            total_cost_usd=self.ledger.spent.cost_usd,
            model=self.agent.provider.model,
            tasks=self.subagents.tasks(),
            cost_by_subagent_type=self.subagents.cost_by_type(),
            denials=[*self.agent.runner.denials, *self.subagents.denials],
            warnings=self.warnings,
            structured_output=self.structured,
            **({"usage_estimated": True} if self.ledger.spent.estimated else {}),
        )
        self.emit(RunEnded(result))
        return result

    async def close(self, why: EndReason = "other") -> None:
        """End children and background commands, close connections and the log."""
        await self.subagents.stop_all()
        if self._starting:  # what begins a session is over before what ends it begins
            await asyncio.wait([self._starting], timeout=_LAST_WAIT_S)
            self._starting.cancel()
        if self._hooks.listens("SessionEnd", why):
            await self._hooks.fire(HookCall("SessionEnd", why, {"reason": why, "cwd": str(self.root)}))
        await self._hooks.aclose()
        if self.mcp:
            await self.mcp.close()
        if self.tree.jobs or self.tree.reaper or self.tree.holds:
            await jobs.close(self.tree)
        else:
            self.tree.closing()
        await self.models.close()
        if self.kept_files and self.kept_files.made:
            await self.kept_files.checkpoints.aclose()
        if self.telemetry:
            await asyncio.to_thread(self.telemetry.close)
        if self.log:
            self.log.close()
        else:
            shutil.rmtree(self.tree.scratch, ignore_errors=True)


class Models:
    """`main`, `light` and any model by its ID; each is opened once."""

    def __init__(self, config: Config, options: RunOptions, root: Path, environ: Mapping[str, str]) -> None:
        if options.record and options.replay:
            raise UserError("--record and --replay exclude each other.", "A replay is recorded already.")
        self._config, self._options = config, options
        self._facts = {"cwd": str(root), "home": str(paths.home(environ))}
        self._main = "main" if options.model in ("", "light") else options.model  # what main stands for in this run
        self._open: dict[str, Provider] = {}
        self._files = ExitStack()  # what is written to, closed last

    def __call__(self, name: str) -> tuple[Provider, str]:
        """The model and the tier it really is: light without a model of its own is main, as is what was chosen."""
        tier = "main" if name == self._main or (name == "light" and not self._config.has_light) else name
        model = self._main if tier == "main" else tier
        if model not in self._open:
            self._open[model] = self._open_model(model, tier)
        return self._open[model], tier

    def choose(self, name: str) -> Provider:
        """The model to go on with; children on main go on with it too, unless it is light."""
        before, self._main = self._main, self._main if name == "light" else name
        try:
            return self(name)[0]
        except UserError:
            self._main = before
            raise

    async def close(self) -> None:
        for provider in {id(p): p for p in self._open.values()}.values():
            await provider.aclose()
        self._files.close()

    def _open_model(self, model: str, tier: str) -> Provider:
        if self._options.replay:  # its waits are played as they were, so nothing is retried around it
            return self._replay.open(tier)
        retry = self._config.retry
        provider = open_provider(self._config.model(model), idle_timeout=retry.idle_timeout, on_request=self._dump)
        provider = Retrying(provider, max_attempts=retry.max_attempts, max_delay=retry.max_delay)
        return self._recorder.wrap(provider, tier) if self._recorder else provider

    @cached_property
    def _dump(self) -> RequestDump | None:
        if not self._options.dump_requests:
            return None
        return self._files.enter_context(closing(RequestDump(self._options.dump_requests, self._secrets())))

    @cached_property
    def _recorder(self) -> Recorder | None:
        if not self._options.record:
            return None
        recorder = Recorder(self._options.record, facts=self._facts, secrets=self._secrets())
        return self._files.enter_context(closing(recorder))

    @cached_property
    def _replay(self) -> Replay:
        assert self._options.replay is not None
        return Replay(self._options.replay, facts=self._facts, secrets=self._secrets(), on_request=self._dump)

    def _secrets(self) -> list[str]:
        """Keys and headers of both models, which no file may hold."""
        specs = []
        for name in ("main", "light"):
            with suppress(UserError):  # a model without its key fails when it is opened, not here
                specs.append(self._config.model(name))
        return [s for spec in specs for s in (spec.api_key, *spec.headers.values()) if s]


def bug_in(task: asyncio.Task[Outcome]) -> BaseException | None:
    """What nobody foresaw: an exception that is no way for an answer to end."""
    error = None if task.cancelled() else task.exception()
    return None if isinstance(error, TimeoutError | UserError) else error


async def wait_for(task: asyncio.Task[T]) -> asyncio.Task[T]:
    """Wait until a task ended; a cancel of who waits ends it first."""
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait([task])
        raise
    return task


async def nobody(question: Question) -> Answer:
    """The answer where no person is there."""
    return Answer("no", "non-interactive, no rule allows it")
