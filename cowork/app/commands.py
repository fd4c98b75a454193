"""The slash commands of the application: small functions over the host that give Markdown, or a prompt to send."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

from cowork.app import doctor, setup, views
from cowork.app.host import MODES, ChatHost
from cowork.config import paths, render
from cowork.core.errors import UserError
from cowork.core.events import Notice, PromptAdded, SessionRewound
from cowork.frontends.repl.host import Command, CommandResult, Prompt
from cowork.sessions import export, index
from cowork.sessions.fork import fork
from cowork.sessions.restore import rewind_points

INIT = """Explore this repository and write AGENTS.md at its root (improve it if it exists): what it is in two \
sentences, the commands to build, test and run one test, the layout in at most ten lines, the conventions a newcomer \
would get wrong. Only what you verified; under 60 lines."""
MAX_COMMAND_FILE = 100_000


def commands(host: ChatHost) -> Sequence[Command]:
    """Everything but what the chat knows by itself, and the user's own commands."""
    on = _Commands(host)
    own = (
        Command("clear", "start over with an empty conversation", on.clear, resets=True),
        Command("compact", "make room: summarise the conversation so far", on.compact, "[what to keep in mind]"),
        Command("cost", "what this session cost, by agent and model", on.cost, busy=True),
        Command("context", "what fills the model's window", on.context, busy=True),
        Command("model", "show, find or change the model", on.model, "[main|light|ID|N]", lambda: ("main", "light")),
        Command("mode", "show or change the permission mode", on.mode, "[mode]", lambda: MODES, busy=True),
        Command("agents", "the agents Task can send out", on.agents, busy=True),
        Command("tools", "the tools the model has", on.tools, busy=True),
        Command("diff", "what changed on disk since the start of this chat", on.diff, busy=True),
        Command("resume", "go on with another session", on.resume, "[id]", on.session_ids, resets=True),
        Command("fork", "go on in a copy of this session", on.fork, resets=True),
        Command("rewind", "go back to an earlier prompt", on.rewind, "[n] [chat|files|both] [force]", resets=True),
        Command("export", "write the conversation to a file", on.export, "[file.md|file.json]"),
        Command("init", "write AGENTS.md by exploring", on.init),
        Command("doctor", "check the installation, the model and this folder", on.doctor, busy=True),
        Command("config", "the settings and where they come from", on.config, busy=True),
    )
    return (*own, *_user_commands(host, {c.name for c in own}))


class _Commands:
    def __init__(self, host: ChatHost) -> None:
        self.host = host
        self.offered: list[setup.Found] = []

    async def clear(self, rest: str) -> CommandResult:
        await self.host.reopen(replace(self.host.options, resume="", continue_=False))
        return None

    async def compact(self, rest: str) -> CommandResult:
        agent = self.host.run.agent
        if not await self.host.run.compaction(agent, "manual", rest):
            return "There is nothing to compact yet."
        return None

    async def cost(self, rest: str) -> CommandResult:
        return views.cost_page(self.host.events)

    async def context(self, rest: str) -> CommandResult:
        return views.context_page(self.host.run.agent)

    async def model(self, rest: str) -> CommandResult:
        run = self.host.run
        if not rest:
            light = run.config.models.light.model if run.config.has_light else "none, light work runs on main"
            now = f"Model: **{run.agent.provider.model}** ({run.agent.provider.name}) · light: {light}"
            self.offered = await setup.find(self.host.environ)
            return f"{now}\n\n{setup.page(self.offered)}"
        if rest.isdigit():
            return await self._take_model(int(rest))
        run.agent.provider, _ = run.models(rest)
        text = f"Model: {run.agent.provider.model}"
        run.emit(Notice(text, code="model.changed", data={"model": run.agent.provider.model}))
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
        options = replace(self.host.options, provider="", model="", script=None)
        if self.host.run.log and self.host.run.agent.turns:
            options = replace(options, resume=self.host.run.session_id, continue_=False)
            self.host.run.log.close()  # it is taken up again at once
        await self.host.reopen(options)
        return f"This chat goes on with **{name}**. `cowork config init` makes it permanent."

    async def doctor(self, rest: str) -> CommandResult:
        return await doctor.report(self.host.environ, self.host.run.root)

    async def mode(self, rest: str) -> CommandResult:
        if not rest:
            return f"Mode: **{self.host.run.permissions.mode}** (of {', '.join(MODES)})"
        if rest not in MODES:
            raise UserError(f"There is no mode {rest!r}.", f"Use {', '.join(MODES)}.")
        self.host.set_mode(rest)
        return None

    async def agents(self, rest: str) -> CommandResult:
        page = views.agents_page(self.host.run.agents)
        problems = "\n".join(f"- {problem}" for problem in self.host.run.agents.problems)
        return f"{page}\n\n{problems}" if problems else page

    async def tools(self, rest: str) -> CommandResult:
        rows = [(s.name, s.description.split("\n")[0][:90]) for s in self.host.run.agent.specs]
        return views.table(("tool", "does"), rows)

    async def diff(self, rest: str) -> CommandResult:
        points = rewind_points(self.host.events)
        if not points or not self.host.run.checkpoints:
            return "Nothing was changed."
        plan = self.host.run.checkpoints.preview(points[0].id)
        if not plan.files:
            return "Nothing was changed."
        rows = [(s.path, f"+{s.removed or 0} −{s.added or 0}") for s in plan.files]
        return views.table(("file", "lines"), rows)

    def session_ids(self) -> list[str]:
        return [entry.id for entry in index.list_sessions(self._sessions(), self.host.run.root)]

    async def resume(self, rest: str) -> CommandResult:
        if not rest:
            found = index.list_sessions(self._sessions(), self.host.run.root)[:15]
            if not found:
                return "There is no other session in this folder."
            rows = [(e.id, e.title, e.turns, views.money(e.cost_usd)) for e in found]
            return views.table(("id", "about", "turns", "cost"), rows) + "\n\n`/resume ID` goes on with one."
        entry = index.find(self._sessions(), rest)
        if entry.id == self.host.run.session_id:
            return "You are in it."
        await self.host.reopen(replace(self.host.options, resume=entry.id, continue_=False))
        return None

    async def fork(self, rest: str) -> CommandResult:
        log = self.host.run.log
        if log is None:
            raise UserError("This chat is not stored, so it cannot be forked.", "Start without --no-session.")
        log.sync()
        copy = fork(self._sessions(), log.id)
        await self.host.reopen(replace(self.host.options, resume=copy, continue_=False))
        return f"This is {copy} now; the original {log.id} stays as it was."

    async def rewind(self, rest: str) -> CommandResult:
        points = rewind_points(self.host.events)
        words = rest.split()
        if not points:
            return "There is nothing to go back to."
        if not words:
            rows = [(n, _title(p)) for n, p in enumerate(points, 1)]
            hint = "`/rewind N` previews; `/rewind N both` (or `chat`, `files`) goes back to just before prompt N."
            return f"{views.table(('n', 'prompt'), rows)}\n\n{hint}"
        if not words[0].isdigit() or not 1 <= int(words[0]) <= len(points):
            raise UserError(f"There is no prompt {words[0]}.", f"Use a number from 1 to {len(points)}.")
        return await self._rewind_to(points[int(words[0]) - 1], words[1:])

    async def _rewind_to(self, point: PromptAdded, words: list[str]) -> CommandResult:
        run = self.host.run
        what = next((w for w in words if w in ("chat", "files", "both")), "")
        plan = run.checkpoints.preview(point.id) if run.checkpoints else None
        if not what:
            page = views.plan_page(plan) if plan else "Files are not covered: checkpoints are off."
            return f"Back to just before: {_title(point)}\n\n{page}\n\nAdd `both`, `chat` or `files` to do it."
        done: tuple[str, ...] = ()
        said = []
        if what in ("files", "both") and plan and run.checkpoints:
            restored = run.checkpoints.restore(plan, force="force" in words)
            done = restored.restored
            said.append(f"{len(done)} files restored")
            if restored.kept:
                said.append(f"kept because they changed outside: {', '.join(restored.kept)} (`force` overrides)")
            said += [f"{path}: {why}" for path, why in restored.failed]
        run.emit(SessionRewound(point.id, what in ("chat", "both"), done))
        if what in ("chat", "both"):
            said.append("the conversation is back to before that prompt")
        run.agent.runner.state.seen.clear()
        return "; ".join(said) + "."

    async def export(self, rest: str) -> CommandResult:
        target = Path(rest or f"cowork-{self.host.run.session_id}.md").expanduser()
        path = self.host.run.root / target
        if path.exists():
            raise UserError(f"{target} exists already.", "Give another name: /export FILE")
        as_json = path.suffix == ".json"
        text = export.as_json(self.host.events) if as_json else export.markdown(self.host.events)
        path.write_text(text, encoding="utf-8")
        return f"Written to {target}."

    async def init(self, rest: str) -> CommandResult:
        return Prompt(INIT, label="/init")

    async def config(self, rest: str) -> CommandResult:
        rows = [(f"`{name}`", f"`{value}`", origin) for name, value, origin in render.shown(self.host.run.config)]
        return views.table(("setting", "value", "from"), rows)

    def _sessions(self) -> Path:
        return paths.sessions_dir(self.host.environ)


def _user_commands(host: ChatHost, taken: set[str]) -> list[Command]:
    """`commands/*.md` of the user and of a trusted project; `$ARGUMENTS` stands for what is typed after the name."""
    folders = [] if host.options.bare else [paths.commands_dir(host.environ)]
    if host.run.trusted:
        folders += [host.run.root / ".claude" / "commands", host.run.root / ".cowork" / "commands"]
    found: dict[str, Command] = {}
    for path in (p for folder in folders if folder.is_dir() for p in sorted(folder.glob("*.md"))):
        if path.stem in taken or path.stat().st_size > MAX_COMMAND_FILE:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        help_line = next((line.strip("# ") for line in text.splitlines() if line.strip("# -")), path.name)
        found[path.stem] = Command(path.stem, help_line[:70], _sends(path.stem, text), "[arguments]")
    return list(found.values())


def _sends(name: str, text: str) -> Callable[[str], Awaitable[CommandResult]]:
    async def run(rest: str) -> CommandResult:
        filled = text.replace("$ARGUMENTS", rest) if "$ARGUMENTS" in text else f"{text}\n\n{rest}".strip()
        return Prompt(filled, label=f"/{name} {rest}".strip())

    return run


def _title(prompt: PromptAdded) -> str:
    words = " ".join((prompt.label or prompt.text).split())
    return words if len(words) <= 70 else words[:69] + "…"
