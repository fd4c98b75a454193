"""/permissions, /add-dir, /tasks, /mcp, /status and /login: the rules, background work, servers and keys of a chat."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from cowork import __version__
from cowork.app.chat.host import ChatHost
from cowork.app.onboarding import setup
from cowork.config import keyring, paths
from cowork.config.models import DEFAULT_MODELS
from cowork.core import format
from cowork.core.blocks import Json
from cowork.core.errors import UserError
from cowork.core.hygiene import visible_line
from cowork.core.later import later
from cowork.core.ports import Effect
from cowork.frontends.host import Choose, Command, CommandResult, PromptResult, Row
from cowork.mcp.protocol import McpError
from cowork.permissions.rules import parse
from cowork.tools.shell.bash import bash
from cowork.tools.shell.jobs import RunningCommand

with later(__name__):  # a chat without servers loads none of it
    from cowork.app.mcp.servers import McpRun
    from cowork.app.mcp.tools import elicit_by, tools_of
    from cowork.engine.subagents.child import Child
    from cowork.mcp.content import cut_text, prompt_text
    from cowork.mcp.servers import Server

ACTIONS = ("reconnect", "on", "off")
SESSION, FOLDER = "this session", "this folder"
_TAIL = 4_000  # characters of output shown


class StateCommands:
    """The commands over one chat."""

    def __init__(self, host: ChatHost) -> None:
        self.host = host

    async def permissions(self, rest: str) -> CommandResult:
        word, _, given = rest.partition(" ")
        if not rest:
            return Choose(f"Rules · mode {self.host.run.permissions.mode}", self._rules(), self._choose_rule)
        acts: dict[str, Callable[[str], Awaitable[CommandResult]]]
        acts = {"allow": self._allow, "remove": self._remove, "try": self._try}
        if word not in acts or not given.strip():
            hint = "/permissions allow RULE, remove RULE, try COMMAND"
            raise UserError(f"/permissions does not know {rest!r}.", hint)
        return await acts[word](given.strip())

    def _rules(self) -> list[Row]:
        book, config = self.host.run.permissions.book, self.host.run.config
        rows = [
            Row("+", "Add a rule …", preview="Such as `Bash(git commit:*)` or `Edit(src/**)`."),
            Row("?", "Try a command …", preview="Says whether it would run, ask or be denied, and why."),
        ]
        where = dict.fromkeys(sorted(str(rule) for rule in book.kept), FOLDER)
        for _, rule in book.granted:
            where.setdefault(str(rule), SESSION)
        rows += [Row(rule, rule, f"allow · {place}", "Enter removes it.") for rule, place in where.items()]
        for kind in ("deny", "ask", "allow"):
            origin, rules = config.origin(f"permissions.{kind}"), getattr(config.permissions, kind)
            about = f"From {origin}: change it there."
            rows += [Row(f"={rule}", str(rule), f"{kind} · {origin}", about) for rule in rules]
        return rows

    async def _choose_rule(self, row: Row) -> CommandResult:
        if row.value == "+":
            return Choose("A rule to allow", (), self._choose_place, write="a rule, such as Bash(git commit:*)")
        if row.value == "?":
            return Choose("A command to try", (), lambda row: self._try(row.value), write="a command, such as git push")
        if row.value.startswith("="):
            return f"`{row.label}`: {row.detail}. It is changed in the settings, not here."
        return await self._remove(row.value)

    async def _choose_place(self, row: Row) -> CommandResult:
        rule = str(parse(row.value))
        places = [Row(SESSION, f"For {SESSION}"), Row(FOLDER, f"Always in {FOLDER}")]
        return Choose(f"Allow {rule}", places, lambda where: self._allow(rule, where.value))

    async def _allow(self, text: str, where: str = FOLDER) -> CommandResult:
        rule = str(parse(text))
        self.host.run.permissions.grant("main", rule, forever=where == FOLDER)
        return f"Allowed for {where}: `{rule}`"

    async def _remove(self, rule: str) -> CommandResult:
        if not self.host.run.permissions.book.forget(rule):
            raise UserError(f"{rule} was not granted here.", "/permissions lists the rules and where they come from.")
        return f"Removed: `{rule}`"

    async def _try(self, command: str) -> CommandResult:
        run = self.host.run
        effect = Effect("exec", command, cwd=str(run.agent.runner.state.cwd))
        decision = run.permissions.judge("main", bash, {"command": command}, [effect])
        words = {"allow": "runs without a question", "ask": "asks", "deny": "is denied"}[decision.verdict]
        said = f"`{command}` **{words}**" + (f": {decision.reason}" if decision.reason else "")
        return said + (f'\n\n"Always" would add `{decision.rule}`.' if decision.rule else "")

    async def add_dir(self, rest: str) -> CommandResult:
        writable = self.host.run.permissions.workspace.writable
        if not rest:
            rows = [f"- `{paths.short(folder, self.host.environ)}`" for folder in writable]
            return "\n".join(["Tools may write in:", "", *rows, "", "`/add-dir FOLDER` adds one for this chat."])
        folder = self.host.run.root / Path(rest).expanduser()
        if not folder.is_dir():
            raise UserError(f"{rest} is not a folder.", "Give /add-dir a folder that tools may use.")
        if folder.resolve() in writable:
            return f"Tools may already write in {rest}."
        await self.host.reopen_here(replace(self.host.options, add_dirs=(*self.host.options.add_dirs, str(folder))))
        return f"Tools may read and write in {rest} for this chat."

    async def tasks(self, rest: str) -> CommandResult:
        """Background commands and children: look at one, or stop it."""
        word, _, name = rest.partition(" ")
        if word == "stop" and name:
            return await self._stop(name.strip())
        if rest:
            return await self._show(rest)
        rows = []
        for child in self.host.run.subagents.running.values():
            state = f"{child.elapsed_ms // 1000} s" if child.started else "waiting in line"
            rows.append(Row(child.id, f"{child.id}  {child.label}", f"child · {state}", child.action))
        for job in self.host.run.tree.jobs.values():
            state = f"{'running' if job.running else 'ended'} · {job.seconds:.0f} s"
            rows.append(Row(job.id, f"{job.id}  {job.command}", f"command · {state}", _output(job)))
        if not rows:
            return "Nothing runs in the background."
        return Choose("Children and background commands", rows, self._choose_task)

    async def _choose_task(self, row: Row) -> CommandResult:
        if row.value not in self.host.run.subagents.running and not self.host.run.tree.jobs[row.value].running:
            return await self._show(row.value)
        acts = {"show": self._show, "stop": self._stop}
        rows = [Row("show", "Look at its output"), Row("stop", "Stop it")]
        return Choose(row.label, rows, lambda chosen: acts[chosen.value](row.value))

    async def _show(self, name: str) -> CommandResult:
        found = self._find(name)
        if isinstance(found, RunningCommand):
            return f"`{found.command}`\n\n{_output(found)}"
        said = found.agent.transcript.last_text(found.since)
        return f"**{found.id}** {found.label}\n\n{said or found.action or 'Nothing yet.'}"

    async def _stop(self, name: str) -> CommandResult:
        found = self._find(name)
        if isinstance(found, RunningCommand):
            await found.end()
            return f"Stopped {name}: `{found.command}`"
        self.host.stop_child(name, "kill")
        return f"Stopped {name}."

    def _find(self, name: str) -> RunningCommand | Child:
        known: dict[str, RunningCommand | Child] = {**self.host.run.subagents.running, **self.host.run.tree.jobs}
        if name not in known:
            raise UserError(f"Nothing here is called {name!r}.", f"There is {', '.join(known) or 'nothing'}.")
        return known[name]

    async def mcp(self, rest: str) -> CommandResult:
        word, name, *_ = (*rest.split(), "", "")
        if not word:
            return f"{self.server_table()}\n\n`/mcp NAME` shows its tools; `/mcp reconnect|on|off NAME`."
        if word not in ACTIONS:
            return _server_page(self._server(word))
        if not name:
            raise UserError(f"Which server? /mcp {word} NAME", f"There are {', '.join(self._mcp().servers)}.")
        server = self._server(name)
        await server.switch(on=word != "off")
        if word == "off":
            return f"{name} is off in this chat."
        try:
            await server.connect()
        except McpError as error:
            raise UserError(f"{name} {error}.", f"`cowork mcp test {name}` shows more.") from error
        return f"{name} is connected: {len(server.tools)} tools."

    def mcp_words(self) -> tuple[str, ...]:
        return (*ACTIONS, *(self.host.run.mcp.servers if self.host.run.mcp else ()))

    def server_table(self) -> str:
        """What the servers are and take."""
        rows, mcp = [], self._mcp()
        for name, server in mcp.servers.items():
            tokens, found = mcp.tokens(name)
            cost = f"{tokens:,}" + (f" ({found} by search)" if found else "")
            calls = f"{server.calls} · {server.seconds:.1f} s" if server.calls else ""
            state = f"{server.state}: {server.problem}" if server.problem else server.state
            rows.append((name, state, len(server.tools), cost, calls, server.entry.scope))
        return format.table(("server", "state", "tools", "tokens a request", "calls", "from"), rows)

    def _mcp(self) -> McpRun:
        if self.host.run.mcp is None:
            raise UserError("No MCP servers are configured.", "`cowork mcp add NAME -- COMMAND` adds one.")
        return self.host.run.mcp

    def _server(self, name: str) -> Server:
        servers = self._mcp().servers
        if name not in servers:
            raise UserError(f"There is no MCP server {name!r}.", f"There are {', '.join(servers)}.")
        return servers[name]

    async def status(self, rest: str) -> CommandResult:
        """What this chat is and runs on, in one table."""
        host, run, now = self.host, self.host.run, self.host.status()
        files = [paths.config_dir(host.environ) / paths.CONFIG_NAME]
        files += [paths.project_file(run.root)] if run.project.trusted else []
        rows = [
            ("version", __version__),
            ("session", f"{run.session_id}{'' if run.log else ' (not stored)'}"),
            ("folder", f"{paths.short(run.root, host.environ)} · {'trusted' if now.trusted else 'not trusted'}"),
            ("model", f"{run.agent.provider.model} ({run.agent.provider.name})"),
            ("light model", now.light_model or "the same"),
            ("mode", now.mode),
            ("sandbox", "commands run in a box" if run.permissions.boxes == "both" else "commands are not boxed"),
            ("context", f"{run.agent.transcript.tokens:,} of {run.agent.provider.context_window:,} tokens"),
            ("cost", format.money(now.cost_usd)),
            ("settings", ", ".join(paths.short(p, host.environ) for p in files if p.is_file()) or "none"),
            ("notes read", ", ".join(now.knowledge) or "none"),
            ("background", f"{len(run.subagents.running)} children, {now.jobs} commands"),
        ]
        return format.table(("", ""), rows)

    async def login(self, rest: str) -> CommandResult:
        """Take a key, keep it where only the person can read it, and go on with it at once."""
        if not rest:
            rows = [Row(service, name, variable) for service, (name, variable) in setup.VENDORS.items()]
            return Choose("A key for which service?", rows, lambda row: self.login(row.value))
        if rest not in setup.VENDORS:
            hint = f"Use {' or '.join(setup.VENDORS)}; /model finds servers on this machine."
            raise UserError(f"There is no service {rest!r} to log in to.", hint)
        title = f"The key of {setup.VENDORS[rest][0]}"
        return Choose(title, (), lambda row: self._keep_key(rest, row.value.strip()),
                      write="paste it; it is not shown", secret=True)  # fmt: skip

    async def _keep_key(self, service: str, key: str) -> CommandResult:
        host, (name, variable) = self.host, setup.VENDORS[service]
        if not key.isascii() or not key.isprintable() or " " in key:
            raise UserError("That is no key: keys are one word.", "Nothing was kept. /login asks again.")
        environ = {**host.environ, variable: key}
        url = environ.get(variable.replace("_API_KEY", "_BASE_URL"), "")
        found = setup.FoundService(name, service, DEFAULT_MODELS[service], base_url=url, key_env=variable)
        if problem := await setup.trial(found.spec(environ)):
            raise UserError(f"{name} did not take the key: {problem}.", "Nothing was kept. /login asks again.")
        where = keyring.keep(variable, key, host.environ)
        host.environ = environ
        await host.reopen_here(replace(host.options, provider="", model="main", script=None))
        said = f"This chat goes on with **{host.run.agent.provider.model}**."
        if where is None:
            return f"{said} The key is in the keyring."
        better = "`pip install 'cowork[keyring]'` and `/login` again keep it better."
        return f"{said}\n\nNo keyring answers: the key is in `{where}`, for you alone but not encrypted. {better}"


def _output(job: RunningCommand) -> str:
    text = job.capture.tail(_TAIL).strip()
    return format.fence(text) if text else "No output yet."


def _server_page(server: Server) -> str:
    rows = [(f"`{tool.name}`", format.first_sentence(tool.description)) for tool in tools_of(server)]
    about = f"**{server.name}** · {server.state} · {visible_line(server.entry.line)}"
    said = f"\n\n{cut_text(server.known.instructions)}" if server.known and server.known.instructions else ""
    tools = format.table(("tool", "does"), rows) if rows else "Its tools are not known yet."
    return f"{about}{said}\n\n{tools}"


def prompt_commands(host: ChatHost) -> list[Command]:
    """The prompts of servers that may be started and whose lists are known, each `/mcp__server__prompt`."""
    return [
        _prompt_command(host, server, prompt)
        for server in (host.run.mcp.usable().values() if host.run.mcp else ())
        if server.known
        for prompt in server.known.prompts
        if isinstance(prompt.get("name"), str)
    ]


def _prompt_command(host: ChatHost, server: Server, prompt: Json) -> Command:
    """Arguments are words; the last takes what is left."""
    name, called = str(prompt["name"]), f"mcp__{server.name}__{prompt['name']}"
    listed = [a for a in prompt.get("arguments") or () if isinstance(a, dict) and isinstance(a.get("name"), str)]
    wanted = [str(argument["name"]) for argument in listed]

    async def run(rest: str) -> CommandResult:
        words = rest.split(maxsplit=max(0, len(wanted) - 1)) if wanted else []
        given = dict(zip(wanted, words, strict=False))
        try:
            found = await server.prompt(name, given, elicit_by(host.ask, "main", server.name))
        except McpError as error:
            raise UserError(f"{server.name} {error}.", "/mcp shows its state.") from error
        return PromptResult(prompt_text(found), label=f"/{called} {rest}".strip())

    hint = " ".join(str(a["name"]) if a.get("required") else f"[{a['name']}]" for a in listed)
    about = format.first_sentence(cut_text(prompt.get("description") or name), 70)
    return Command(called, about, run, hint, sends=True)
