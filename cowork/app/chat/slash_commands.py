"""The slash commands of the application: small functions over the host that give Markdown, or a prompt to send."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cowork.app.chat import pages
from cowork.app.chat.host import ChatHost
from cowork.app.chat.state_commands import StateCommands
from cowork.app.onboarding import doctor, setup
from cowork.config import paths, render
from cowork.core import format
from cowork.core.errors import UserError, os_error_as
from cowork.core.events import Notice, PromptAdded, SessionRewound, TodoUpdated
from cowork.core.later import later
from cowork.core.ports import ABOUT, MODES
from cowork.extensions.skills import Skill
from cowork.frontends.host import Choose, Command, CommandResult, Draft, PromptResult, Row
from cowork.sessions import index
from cowork.sessions.checkpoints.recorder import Checkpoints
from cowork.sessions.checkpoints.rewind import RewindPlan
from cowork.sessions.index import title_of
from cowork.sessions.log.reader import events_of, read
from cowork.sessions.log.writer import fork
from cowork.sessions.resume_state import rewind_points, surviving, todos

with later(__name__):  # only whoever exports pays for the pages
    from cowork.app import exports

INIT = """Explore this repository and write AGENTS.md at its root (improve it if it exists): what it is in two \
sentences, the commands to build, test and run one test, the layout in at most ten lines, the conventions a newcomer \
would get wrong. Only what you verified; under 60 lines."""
REWINDS = ("both", "chat", "files")


def commands(host: ChatHost) -> Sequence[Command]:
    """Everything but what the chat knows by itself, and the user's own commands."""
    on, state = _Commands(host), StateCommands(host)
    own = (
        Command("clear", "start over with an empty conversation", on.clear, resets=True),
        Command("compact", "make room: summarise the conversation so far", on.compact, "[what to keep in mind]"),
        Command("cost", "what this session cost, by agent and model", on.cost, busy=True),
        Command("context", "what fills the model's window", on.context, busy=True),
        Command("model", "show, find or change the model", on.model, "[main|light|ID|N]", lambda: ("main", "light")),
        Command("mode", "show or change the permission mode", on.mode, "[mode]", lambda: MODES, busy=True),
        Command("agents", "the agents Task can send out", on.agents, "[name]", lambda: [*host.run.agents], busy=True),
        Command("extensions", "skills, commands, hooks, plugins and agents", on.extensions, busy=True),
        Command("tools", "the tools the model has", on.tools, busy=True),
        Command("diff", "what the agent changed on disk since this chat began", on.diff, busy=True),
        Command("resume", "go on with another session", on.resume, "[id]", on.session_ids, resets=True),
        Command("fork", "go on in a copy of this session, or of another", on.fork, "[id]", on.session_ids, resets=True),
        Command("rewind", "go back to an earlier prompt", on.rewind, "[n] [chat|files|both] [force]", resets=True),
        Command("export", "write the conversation to a file", on.export, "[file.md|file.html|file.json]"),
        Command("init", "write AGENTS.md by exploring", on.init, sends=True),
        Command("memory", "edit AGENTS.md in your editor", on.memory, "[user]", lambda: ("user",)),
        Command("permissions", "rules and where they come from", state.permissions, "[allow|remove|try …]",
                lambda: ("allow", "remove", "try"), busy=True),
        Command("add-dir", "let tools write in another folder too", state.add_dir, "[folder]"),
        Command("tasks", "background commands and children: look, stop", state.tasks, "[id|stop id]", busy=True),
        Command("mcp", "MCP servers: state, tools, tokens", state.mcp, "[NAME|reconnect NAME|on NAME|off NAME]",
                state.mcp_words, busy=True),
        Command("status", "what this chat is and runs on", state.status, busy=True),
        Command("rename", "give this session a name", on.rename, "NAME", busy=True),
        Command("login", "enter a key for a service", state.login, "[service]", lambda: tuple(setup.VENDORS)),
        Command("doctor", "check the installation, the model and this folder", on.doctor, busy=True),
        Command("config", "the settings and where they come from", on.config, busy=True),
    )  # fmt: skip
    taken, skills = {c.name for c in own}, host.run.project.invoker.extensions.skills.values()
    return (*own, *(_command_of(skill) for skill in skills if skill.for_people and skill.name not in taken))


def _command_of(skill: Skill) -> Command:
    """A skill or command of a file; sent as it is typed, for the run fills it in."""

    async def run(rest: str) -> CommandResult:
        return PromptResult(f"/{skill.name} {rest}".strip())

    hint = skill.hint or " ".join(f"[{name}]" for name in skill.arguments) or "[arguments]"
    return Command(skill.name, skill.description[:70], run, hint, sends=True)


class _Commands:
    def __init__(self, host: ChatHost) -> None:
        self.host = host
        self.offered: list[setup.FoundService] = []

    async def model(self, rest: str) -> CommandResult:
        run = self.host.run
        if not rest:
            self.offered = await setup.find(self.host.environ)
            rows = pages.model_rows(run, self.offered)
            if len(rows) == 1:
                now = f"Model: **{run.agent.provider.model}** ({run.agent.provider.name})"
                more = "No other was found; `/model ID` names one." if self.offered else setup.NOTHING_FOUND
                return f"{now}\n\n{more}"
            here = next((n for n, row in enumerate(rows) if row.label == run.agent.provider.model), 0)
            return Choose("Go on with which model?", rows, lambda row: self.model(row.value), here)
        if rest.isdigit():
            return await self._take_model(int(rest))
        run.agent.provider = run.models.choose(rest)
        name = run.agent.provider.model
        run.emit(Notice(f"Model: {name}", code="model.changed", data={"model": name}))
        return None

    async def _take_model(self, number: int) -> CommandResult:
        """Go on with what `/model` found, in this chat alone; the conversation stays."""
        offered = setup.choices(self.offered or await setup.find(self.host.environ))
        if not 1 <= number <= len(offered):
            raise UserError(f"There is no model {number} to choose.", "/model lists what was found.")
        found, name = offered[number - 1]
        if problem := await setup.trial(found.spec(self.host.environ, name)):
            raise UserError(f"{name} does not answer: {problem}.", "Nothing was changed.")
        self.host.environ = {**self.host.environ, **found.variables(name)}
        await self.host.reopen_here(replace(self.host.options, provider="", model="main", script=None))
        return f"This chat goes on with **{name}**. `cowork config init` makes it permanent."

    async def mode(self, rest: str) -> CommandResult:
        if not rest:
            now = self.host.run.permissions.mode
            rows = [Row(mode, mode, "now" if mode == now else "", about) for mode, about in ABOUT.items()]
            here = MODES.index(now) if now in MODES else 0
            return Choose("Permission mode", rows, lambda row: self.mode(row.value), here)
        if rest not in MODES:
            raise UserError(f"There is no mode {rest!r}.", f"Use {', '.join(MODES)}.")
        self.host.set_mode(rest)
        return None

    async def agents(self, rest: str) -> CommandResult:
        found = self.host.run.agents
        if not rest:

            async def show(row: Row) -> CommandResult:
                return str(row.preview)

            return Choose("Agents Task can send out", pages.agent_rows(found), show)
        if rest not in found:
            raise UserError(f"There is no agent {rest!r}.", f"There are {', '.join(found)}.")
        return pages.agent_page(found[rest])

    async def extensions(self, rest: str) -> CommandResult:
        found = self.host.run.project.invoker.extensions
        listed = found.rows(shipped=self.host.run.config.skills.shipped)
        rows = [(r.kind, f"`{r.name}`", r.origin, r.tokens or "", format.first_sentence(r.adds, 60)) for r in listed]
        wrong = [f"- {problem}" for problem in (*found.agents.problems, *found.problems)]
        return "\n".join([format.table(("kind", "name", "from", "tokens", "adds"), rows), "", *wrong])

    async def tools(self, rest: str) -> CommandResult:
        rows = [(s.name, format.first_sentence(s.description)) for s in self.host.run.agent.specs]
        return format.table(("tool", "does"), rows)

    async def doctor(self, rest: str) -> CommandResult:
        return await doctor.report(self.host.environ, self.host.run.root)

    async def config(self, rest: str) -> CommandResult:
        rows = [
            (f"`{name}`", f"`{value}`", origin) for name, value, origin in render.setting_rows(self.host.run.config)
        ]
        return format.table(("setting", "value", "from"), rows)

    async def init(self, rest: str) -> CommandResult:
        return PromptResult(INIT, label="/init")

    async def memory(self, rest: str) -> CommandResult:
        return await self.host.edit_notes(own=rest == "user")

    async def cost(self, rest: str) -> CommandResult:
        servers = [StateCommands(self.host).server_table()] if self.host.run.mcp else []
        return "\n\n".join([pages.cost_page(self.host.summary), *servers])

    async def context(self, rest: str) -> CommandResult:
        return pages.context_use(self.host.run.agent)

    async def compact(self, rest: str) -> CommandResult:
        run = self.host.run
        return None if await run.compaction(run.agent, "manual", rest) else "There is nothing to compact yet."

    async def rename(self, rest: str) -> CommandResult:
        if not rest:
            raise UserError("A session needs a name.", "/rename NAME")
        title = title_of(rest)
        said = f"This session is called {title!r} now"
        self.host.run.emit(Notice(said, code="session.renamed", data={"title": title}))
        return None

    async def clear(self, rest: str) -> CommandResult:
        kept = self.host.run.log is not None and bool(rewind_points(self.host.run.agent.transcript))
        stopped = self._stops()
        await self.host.reopen(replace(self.host.options, resume="", continue_=False), why="clear")
        return f"A new conversation.{' `/resume` has the one before.' if kept else ''} {stopped}".rstrip()

    def session_ids(self) -> list[str]:
        return [entry.id for entry in index.list_sessions(self._sessions(), self.host.run.root)]

    async def resume(self, rest: str) -> CommandResult:
        here = self.host.run.session_id
        if not rest:
            found = [e for e in index.list_sessions(self._sessions(), self.host.run.root) if e.id != here and e.title]
            if not found:
                return "There is no other session in this folder."
            rows = pages.session_rows(found, self._sessions())
            return Choose("Go on with which session?", rows, lambda row: self.resume(row.value))
        entry = index.find(self._sessions(), rest)
        if entry.id == here:
            return "You are in it."
        stopped = self._stops()
        await self.host.reopen(replace(self.host.options, resume=entry.id, continue_=False), why="resume")
        return stopped or None

    async def fork(self, rest: str) -> CommandResult:
        log = self.host.run.log
        if log is None:
            raise UserError("This chat is not stored, so it cannot be forked.", "Start without --no-session.")
        source = index.find(self._sessions(), rest).id if rest else log.id
        stopped, is_this = self._stops(), source == log.id
        if is_this:
            await self.host.run.subagents.stop_all()  # first, so that the copy knows how they ended
            log.sync()
        copy = await asyncio.to_thread(fork, self._sessions(), source)
        await self.host.reopen(replace(self.host.options, resume=copy, continue_=False), seen=is_this, why="resume")
        return f"This is {copy} now; the original {source} stays as it was. {stopped}".rstrip()

    def _stops(self) -> str:
        """What runs in the background and ends when this session is left, in a sentence; empty when nothing does."""
        kinds = ((len(self.host.run.subagents.running), "child"), (self.host.status().jobs, "background command"))
        parts = " and ".join(format.plural(number, kind) for number, kind in kinds if number)
        return f"{parts} stopped with the session you left, which says how far they came." if parts else ""

    def _sessions(self) -> Path:
        return paths.sessions_dir(self.host.environ)

    async def export(self, rest: str) -> CommandResult:
        run = self.host.run
        target = Path(rest or f"cowork-{run.session_id}.md").expanduser()
        path = run.root / target
        hint = "Give another name: /export FILE"
        if path.exists():
            raise UserError(f"{target} exists already.", hint)
        # A session that was taken up holds the bulk of its story only in its log.
        events = (await asyncio.to_thread(read, run.log.path)).events if run.log else self.host.events
        with os_error_as(f"{target} cannot be written", hint), path.open("x", encoding="utf-8") as file:
            file.writelines(exports.write(events, exports.form_of(path)))
        return f"Written to {target}."

    async def diff(self, rest: str) -> CommandResult:
        run = self.host.run
        if run.checkpoints is None:
            raise UserError("Changes are not followed: this chat is not stored, or checkpoints are off.")
        points = rewind_points(run.agent.transcript)
        plan = await self._preview(run.checkpoints, points[0].id) if points else None
        if plan is None or not plan.files:
            return "The agent changed nothing."
        return await asyncio.to_thread(pages.changes, plan, run.checkpoints, run.permissions.workspace)

    async def _preview(self, checkpoints: Checkpoints, prompt_id: int) -> RewindPlan:
        """What going back would do to files; how far the look at them is shows meanwhile."""
        self.host.busy_with = checkpoints.progress
        try:
            return await asyncio.to_thread(checkpoints.preview, prompt_id)
        finally:
            self.host.busy_with = str

    async def rewind(self, rest: str) -> CommandResult:
        points = rewind_points(self.host.run.agent.transcript)
        words = rest.split()
        if not points:
            return "There is nothing to go back to."
        if not words:
            rows = pages.prompt_rows(points, self.host.run.checkpoints)
            return Choose("Back to just before …", rows, lambda row: self.rewind(row.value), len(rows) - 1)
        if not words[0].isdigit() or not 1 <= int(words[0]) <= len(points):
            raise UserError(f"There is no prompt {words[0]}.", f"Use a number from 1 to {len(points)}.")
        return await self._rewind_to(points[int(words[0]) - 1], words[1:])

    async def _rewind_to(self, point: PromptAdded, words: list[str]) -> CommandResult:
        run = self.host.run
        what = next((w for w in words if w in REWINDS), "")
        plan = None
        if run.checkpoints:
            looking = await self.host.until_stopped(self._preview(run.checkpoints, point.id))
            if looking.cancelled():
                return "Stopped: everything is as it was."
            plan = looking.result()
        if not what:
            go = f"Back to just before: {pages.title(point)}"
            return Choose(go, pages.rewind_rows(plan), lambda row: self._rewind_to(point, row.value.split()))
        done: tuple[str, ...] = ()
        said = []
        if what in ("files", "both") and plan and run.checkpoints:
            restored = await run.checkpoints.rewind(plan, force="force" in words)
            done = restored.restored
            if restored.kept:
                said.append(f"Kept, as others changed them since: {', '.join(f'`{path}`' for path in restored.kept)}")
            said += [f"`{path}`: {why}" for path, why in restored.failed]
        run.emit(SessionRewound(point.id, what in ("chat", "both"), done))
        state = run.agent.runner.state
        state.seen.clear()
        before = events_of(run.log.path, "main", "todo.updated") if run.log else surviving(self.host.events)
        if (listed := await asyncio.to_thread(todos, before)) != tuple(state.todos):  # the list goes back as well
            state.todos[:] = listed
            run.emit(TodoUpdated(listed))
        told = "\n\n".join(said)
        return Draft(point.label or point.text, told) if what in ("chat", "both") else told
