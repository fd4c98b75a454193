"""The application as the chat sees it: one conversation at a time, and what keys and commands do to it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from cowork import __version__, prompts
from cowork.app.attachments import attach
from cowork.app.build import build
from cowork.app.chat.bang_command import own_shell
from cowork.app.chat.custom_status_line import CustomStatusLine, changes_line, open_custom_status_line
from cowork.app.project import Additions
from cowork.app.resume import begin
from cowork.app.run import Run, nobody, wait_for
from cowork.app.steering import fingerprint, grant, is_trusted, is_trusted_now, steering
from cowork.config import paths
from cowork.config.run_options import RunOptions
from cowork.core.blocks import ToolUse
from cowork.core.errors import UserError, os_error_as
from cowork.core.events import Event, Notice, PromptAdded, ReplyAdded
from cowork.core.format import one_line
from cowork.core.git import project_root
from cowork.core.hooks import EndReason
from cowork.core.later import later
from cowork.core.ports import MODES, Answer, Ask, Emit, Question
from cowork.engine.loop import Prompt
from cowork.frontends.host import Command, ConversationOpened, Status
from cowork.sessions.index import Summary
from cowork.tools.ask import exit_plan
from cowork.tools.search import ripgrep as rg
from cowork.tools.shell import jobs
from cowork.tools.shell.bash import bash

with later(__name__):
    from cowork.app.chat.slash_commands import commands
    from cowork.app.chat.state_commands import prompt_commands
    from cowork.frontends.repl.terminal import Terminal

LOOK_EVERY_S = 2.0
EVENTS_HELD = 5_000  # the log has them all
CHANGED = (
    "What steers in this folder (settings, agents, commands, AGENTS.md) changed since you trusted it, and is not used. "
    "`cowork trust` trusts it as it is now; /clear then uses it."
)


class ChatHost:
    """Implements the chat's `Host`; `open_run` makes the run of each of its conversations."""

    def __init__(
        self,
        options: RunOptions,
        environ: Mapping[str, str],
        open_run: Callable[[RunOptions, ChatHost], Run] | None = None,
    ) -> None:
        self.options, self.environ = options, environ
        self.events: list[Event] = []  # the newest durable ones, for the viewer
        self.summary = Summary("")
        self._open = open_run or open_chat
        self._sink: Emit = lambda event: None
        self._ask: Ask = nobody
        self._screen: Terminal | None = None  # for programs that need it whole
        self._task: asyncio.Task[Any] | None = None
        self._paid: float | None = 0.0  # what this session had cost when it was taken up
        self._commands: Sequence[Command] = ()
        self._line: CustomStatusLine | None = None
        self._look_at = 0.0  # when files are to be looked at again
        self.busy_with: Callable[[], str] = str  # says what a command of the chat waits for
        self._told_mode = ""  # the mode in force when something was last said to the model
        self._use(self._open(options, self), options)

    def join(self, sink: Emit, ask: Ask, screen: Terminal | None = None) -> None:
        """Connect the screen; what a resumed conversation holds is shown again."""
        self._sink, self._ask, self._screen = sink, ask, screen
        self._look_at, self._commands = time.monotonic() + LOOK_EVERY_S, commands(self)
        self.begin()
        jobs.prepare(self.run.tree)  # while the person reads the screen, so that the first command need not wait

    def _use(self, run: Run, options: RunOptions) -> None:
        # A copy is made once; whatever opens this conversation again goes on with it.
        own = replace(options, fork=False, continue_=False, resume=run.session_id) if options.fork else options
        self.run, self.options = run, own
        self._steering = steering(run.root)  # what trust would be about

    def begin(self, *, seen: bool = False, mode: str = "", cleared: bool = False) -> None:
        """Start (or take up) the conversation of the current run; what was `seen` is not shown again."""
        log = self.run.log
        past = log.loaded.events[log.loaded.leftovers :] if log else []
        self.events[:] = past
        self.summary = (log.summary if log else None) or Summary(self.run.session_id)
        self._paid = self.summary.spent.cost_usd
        if self._line:
            self._line.stop()
        show = self._sink
        self._line = open_custom_status_line(self.run, show, lambda: self.status().cost_usd)
        if not seen:
            self._sink = past.append  # it belongs to the story that is shown as a whole
        try:
            begin(self.run, mode, cleared=cleared)
        finally:
            self._sink = show
        if not seen:
            show(ConversationOpened(tuple(past)))

    async def reopen(self, options: RunOptions, *, seen: bool = False, why: EndReason = "other") -> None:
        """Close this conversation and open another, or the same one (`seen`) with other settings."""
        fresh = self._open(options, self)
        self.keep_waiting(())  # what waits goes along
        closing = asyncio.ensure_future(self.run.close(why))
        while not closing.done():
            with suppress(asyncio.CancelledError):  # a stop comes too late: half of a switch would be no conversation
                await asyncio.shield(closing)
        closing.result()
        used, mode = self.run.project.trusted, self.run.permissions.mode if seen else ""
        self.run, self.options = fresh, options
        self.begin(seen=seen, mode=mode, cleared=why == "clear")
        if used and not fresh.project.trusted:
            self.run.emit(Notice(CHANGED, "warning", "untrusted"))

    async def reopen_here(self, options: RunOptions) -> None:
        """Go on with the same conversation under other settings."""
        if self.run.log and self.run.agent.turns:
            options = replace(options, resume=self.run.session_id, continue_=False)
            self.run.log.close()  # it is taken up again at once
        await self.reopen(options, seen=True)

    def on_event(self, event: Event) -> None:
        if event.durable:
            self.events.append(event)
            self.summary.apply(event)
            if len(self.events) > 2 * EVENTS_HELD:
                del self.events[:EVENTS_HELD]
        self._sink(event)
        if self._line and changes_line(event):
            self._line.poke()

    async def ask(self, question: Question) -> Answer:
        if question.kind == "plan":
            modes = ("accept-edits", "auto", "ask") if self.run.permissions.boxes == "both" else ("accept-edits", "ask")
            question = replace(question, options=modes)
        answer = await self._ask(question)
        self._follow(answer)
        return answer

    def _follow(self, answer: Answer) -> None:
        """Go on in the mode that was chosen with an answer."""
        if answer.granted and (mode := answer.data.get("mode")) and mode != self.run.permissions.mode:
            self._told_mode = self.set_mode(str(mode))

    async def close(self, why: EndReason = "other") -> None:
        if self._line:
            self._line.stop()
        await self.run.close(why)

    def trust_question(self) -> Question | None:
        """What to ask about a folder that would steer the run, if anything; nothing of it is used before."""
        if self.options.bare or self.run.project.trusted or not (found := steering(self.run.root)):
            return None
        shown = "\n".join(paths.short(path, self.environ) for path in found[:12])
        return Question(
            "trust",
            f"Trust {paths.short(self.run.root, self.environ)}?",
            reason="Its own settings, agents, commands and notes would be used. A yes holds until one of them changes.",
            display={"kind": "text", "text": shown},
            agent="",
            mode="auto" if self.run.permissions.mode == "ask" and self.run.permissions.boxes == "both" else "",
        )

    async def settle_trust(self, question: Question, ask: Ask, join: Callable[[], None]) -> None:
        """Ask before the first prompt, then join: the conversation as it is, or one that uses the folder's files."""
        root = self.run.root
        seen = fingerprint(root)
        answer = await ask(question)
        if answer.granted:
            if seen != fingerprint(root):  # it is not what the person looked at
                message = f"What steers in {root} changed while you were asked, or is too much to compare."
                raise UserError(message, "Start again and look once more; --trust uses it whatever it holds.")
            if answer.choice == "always":
                grant(root, self.environ)
            await self.run.close()
            options = replace(self.options, trusted_as=seen)
            self._use(self._open(options, self), options)
        join()
        self._follow(answer)

    @contextmanager
    def _own_change(self) -> Iterator[None]:
        """The person changes what steers, so there is nothing new to ask about."""
        root = self.run.root
        trusted = is_trusted(root, self.environ) or not steering(root)
        for_now = is_trusted_now(root, self.options, self.environ)
        yield
        if trusted:
            grant(root, self.environ)
        elif for_now:
            self.options = replace(self.options, trusted_as=fingerprint(root))

    def status(self) -> Status:
        run = self.run
        window, spent = run.agent.provider.context_window, run.ledger.spent.cost_usd
        return Status(
            version=__version__,
            cwd=paths.short(run.root, self.environ),
            branch=run.project.branch,
            trusted=run.project.trusted or not self._steering,
            model=run.agent.provider.model,
            light_model=run.config.models.light.model if run.has_own_light else "",
            mode=run.permissions.mode,
            context_percent=100 * run.agent.transcript.tokens / window if window else None,
            cost_usd=None if self._paid is None or spent is None else self._paid + spent,
            jobs=sum(job.running for job in run.tree.jobs.values()),
            agents=len(run.agents),
            knowledge=tuple(p.name for p in run.project.notes),
            notes=tuple(note.text for note in run.notes),
            line=self._line.text if self._line else "",
            activity=self.busy_with(),
        )

    def commands(self) -> Sequence[Command]:
        if self._task is None and time.monotonic() > self._look_at:  # files of commands may come and go
            self._look_at = time.monotonic() + LOOK_EVERY_S
            if self.run.renew():
                self._commands = commands(self)
        return (*self._commands, *prompt_commands(self)) if self.run.mcp else self._commands

    async def submit(self, text: str, images: Sequence[Path] = (), *, label: str = "") -> None:
        await self.say(Prompt(text, label=label), images)

    async def say(self, prompt: Prompt, images: Sequence[Path] = ()) -> None:
        """One prompt, until it is answered or stopped."""
        await self._stoppable(self._answer(prompt, images))
        self.run.agent.forget("steer")  # the chat sends what was not said in time as the next message

    async def _answer(self, prompt: Prompt, images: Sequence[Path]) -> None:
        prompt.context = "\n\n".join(filter(None, (self._mode_note(), prompt.context)))
        await attach(self.run, prompt, images)
        await self.run.ask(prompt)

    def _mode_note(self) -> str:
        """What the model must know of plan mode: that it is on, once, and that it is over."""
        mode, before = self.run.permissions.mode, self._told_mode
        self._told_mode = mode
        if mode == before or "plan" not in (mode, before):
            return ""
        if mode != "plan":
            return f"Plan mode is over; the mode is {mode}."
        tools = self.run.agent.runner.tools
        if exit_plan.name not in tools:  # it joins when plan mode is first on: nobody else pays for it
            tools.add(replace(exit_plan, description=prompts.text_of(f"tools/{exit_plan.name}")))
        return prompts.text_of("plan_mode")

    def interrupt(self) -> None:
        if self._task:
            self._task.cancel()

    def steer(self, text: str) -> None:
        self.run.agent.tell(Prompt(text, source="steer"))

    def keep_waiting(self, texts: Sequence[str]) -> None:
        if self.run.log:
            self.run.log.keep_waiting(texts)

    def read_waiting(self) -> Sequence[str]:
        return self.run.log.read_waiting() if self.run.log else ()

    def stop_child(self, subagent_id: str, how: Literal["finish", "kill"]) -> None:
        stop = self.run.subagents.kill if how == "kill" else self.run.subagents.finish
        stop(subagent_id)

    async def tell_child(self, subagent_id: str, text: str, images: Sequence[Path] = ()) -> None:
        prompt = Prompt(text, source="steer")
        await attach(self.run, prompt, images)
        if not self.run.subagents.tell(subagent_id, prompt):
            said = f"{subagent_id} ended before it heard you: {one_line(text, 200)}"
            self.run.emit(Notice(said, "warning", "child.ended"))

    def modes(self) -> list[str]:
        """Those to choose from: bypass only where the chat was started with it."""
        return [m for m in MODES if m != "bypass" or self.options.permission_mode == "bypass"]

    def cycle_mode(self) -> str:
        modes = self.modes()
        here = modes.index(self.run.permissions.mode) if self.run.permissions.mode in modes else -1
        return self.set_mode(modes[(here + 1) % len(modes)])

    def set_mode(self, mode: str) -> str:
        self.run.permissions.mode = mode
        self.run.emit(Notice(f"Mode: {mode}", code="mode.changed", data={"mode": mode}))
        return mode

    async def files(self) -> Sequence[str]:
        names, _ = await rg.list_files((), self.run.root)
        # In a thread, since there may be hundreds of thousands.
        return await asyncio.to_thread(lambda: [os.fsencode(name).decode("utf-8", "replace") for name in names])

    async def resources(self, typed: str) -> Sequence[tuple[str, str]]:
        return await self.run.mcp.completions(typed) if self.run.mcp else ()

    def agents(self) -> Sequence[tuple[str, str]]:
        return [(a.name, a.description) for a in self.run.agents.values()]

    def history(self) -> Sequence[Event]:
        return self.events

    async def run_shell(self, command: str) -> None:
        """The user's own command: shown as a Bash call, and in the conversation as one."""
        call = ToolUse(f"user_{self.run.emitter.next_id}", bash.name, {"command": command})
        self.run.emit(PromptAdded(f"I ran this command myself: {command}", label=f"!{command}"))
        self.run.emit(ReplyAdded((call,), "tool_use", cost_usd=0.0, model=self.run.agent.provider.model))
        await self._stoppable(self.run.own_runner(own_shell(self._screen.lend) if self._screen else bash).run([call]))

    async def add_note(self, text: str) -> str:
        path = self.run.root / "AGENTS.md"
        with self._own_change():
            append_note(path, text)
        self.run.agent.tell(Prompt(f"Note for this and later sessions: {text}", source="system", label="note"))
        return f"Noted in {path.name}: {text}"

    async def edit_notes(self, *, own: bool) -> str:
        """Open AGENTS.md in the person's editor: the project's, or the one for all projects."""
        if self._screen is None:
            raise UserError("There is no terminal for an editor.", "Edit AGENTS.md yourself.")
        path = (paths.config_dir(self.environ) if own else self.run.root) / "AGENTS.md"
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        before = path.read_text("utf-8", errors="replace") if path.is_file() else ""
        with self._own_change():
            await self._screen.edit_file(path)
        after = path.read_text("utf-8", errors="replace") if path.is_file() else ""
        shown = paths.short(path, self.environ)
        if after == before:
            return f"{shown} is as it was."
        said = f"The notes in {shown} were changed by the user. They say now:\n\n{after[:20_000]}"
        self.run.agent.tell(Prompt(said, source="system", label="note"))
        return f"{shown} is changed; the model is told with your next message."

    async def until_stopped(self, work: Any) -> asyncio.Task[Any]:
        """Run one thing that Esc can stop; gives its task, which is done."""
        before = self._task  # an editor may change the model while a prompt is answered
        self._task = task = asyncio.create_task(work)
        try:
            return await wait_for(task)
        finally:
            self._task = before if before and not before.done() else None

    async def _stoppable(self, work: Any) -> None:
        """The same for what the model or the person does; children die with it."""
        task = await self.until_stopped(work)
        if task.cancelled():
            await self.run.subagents.stop_all()
        elif isinstance(error := task.exception(), UserError):
            self.run.emit(Notice(str(error), "error", "usage"))
        elif error:
            self.run.emit(Notice(f"That went wrong: {type(error).__name__}: {error}", "error", "internal_error"))


def open_chat(options: RunOptions, host: ChatHost, program: Additions | None = None) -> Run:
    """The run of a conversation that `host` shows and asks for."""
    return build(options, host.environ, ask=host.ask, sinks=[host.on_event], chat=True, program=program)


def append_note(path: Path, text: str) -> None:
    """A note under what is there, which stays as it is: only its end is written to."""
    if not path.is_file() and (path.exists() or path.is_symlink()):
        kind = "folder" if path.is_dir() else "link to nowhere" if path.is_symlink() else "special file"
        raise UserError(f"Not noted: {path.name} is a {kind}.", "Make it a file, then send the note again.")
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(project_root(Path(os.path.realpath(path.parent)))):
        raise UserError(f"Not noted: {path.name} leads out of the project, to {real}.", "Write it there yourself.")
    with os_error_as(f"Not noted: {path.name} cannot be written"):
        try:
            before = path.read_bytes().decode("utf-8") if path.exists() else None
        except UnicodeDecodeError:
            hint = "Store it as UTF-8, then send the note again."
            raise UserError(f"Not noted: {path.name} is not UTF-8.", hint) from None
        end = "\r\n" if before and "\r\n" in before else "\n"
        start = "# Notes for agents\n" if before is None else end if before and not before.endswith("\n") else ""
        with path.open("ab") as file:
            note = f"{end}  ".join(text.splitlines())
            file.write(f"{start}- {note}{end}".encode())
