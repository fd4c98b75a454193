"""/permissions and /add-dir: the rules in force and where each comes from; adding, removing and trying them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cowork.app.chat.host import ChatHost
from cowork.config import paths
from cowork.core.errors import UserError
from cowork.core.ports import Effect
from cowork.frontends.host import Choose, CommandResult, Row
from cowork.permissions.rules import parse
from cowork.tools.shell.bash import bash

SESSION, FOLDER = "this session", "this folder"
_WORDS = ("allow", "remove", "try")


class PermissionCommands:
    """The commands over one chat."""

    def __init__(self, host: ChatHost) -> None:
        self.host = host

    async def permissions(self, rest: str) -> CommandResult:
        word, _, given = rest.partition(" ")
        if not rest:
            return Choose(f"Rules · mode {self.host.run.permissions.mode}", self._rows(), self._choose)
        if word not in _WORDS or not given.strip():
            raise UserError(
                f"/permissions does not know {rest!r}.", "/permissions allow RULE, remove RULE, try COMMAND"
            )
        if word == "try":
            return self._try(given.strip())
        return self._allow(given.strip(), FOLDER) if word == "allow" else self._remove(given.strip())

    async def add_dir(self, rest: str) -> CommandResult:
        if not rest:
            rows = [f"- `{paths.short(folder, self.host.environ)}`" for folder in self._folders()]
            return "\n".join(["Tools may write in:", "", *rows, "", "`/add-dir FOLDER` adds one for this chat."])
        folder = Path(rest).expanduser()
        folder = folder if folder.is_absolute() else self.host.run.root / folder
        if not folder.is_dir():
            raise UserError(f"{rest} is not a folder.", "Give /add-dir a folder that tools may use.")
        if folder.resolve() in self._folders():
            return f"Tools may already write in {rest}."
        await self.host.reopen_here(replace(self.host.options, add_dirs=(*self.host.options.add_dirs, str(folder))))
        return f"Tools may read and write in {rest} for this chat."

    def _folders(self) -> tuple[Path, ...]:
        return self.host.run.permissions.workspace.writable

    def _rows(self) -> list[Row]:
        run = self.host.run
        permissions, config = run.permissions, run.config
        rows = [
            Row("+", "Add a rule …", preview="Such as `Bash(git commit:*)` or `Edit(src/**)`."),
            Row("?", "Try a command …", preview="Says whether it would run, ask or be denied, and why."),
        ]
        kept = {str(rule) for rule in permissions.book.kept}
        session = dict.fromkeys(str(rule) for _, rule in permissions.book.granted)
        rows += [Row(rule, rule, f"allow · {FOLDER}", "Enter removes it.") for rule in sorted(kept)]
        rows += [Row(rule, rule, f"allow · {SESSION}", "Enter removes it.") for rule in session if rule not in kept]
        for kind, rules in (("deny", config.permissions.deny), ("ask", config.permissions.ask),
                            ("allow", config.permissions.allow)):  # fmt: skip
            origin = config.origin(f"permissions.{kind}")
            about = f"From {origin}: change it there."
            rows += [Row(f"={rule}", str(rule), f"{kind} · {origin}", about) for rule in rules]
        return rows

    async def _choose(self, row: Row) -> CommandResult:
        if row.value == "+":
            return Choose("A rule to allow", (), self._where, write="a rule, such as Bash(git commit:*)")
        if row.value == "?":
            return Choose("A command to try", (), self._try_row, write="a command, such as git push")
        if row.value.startswith("="):
            return f"`{row.label}`: {row.detail}. It is changed in the settings, not here."
        return self._remove(row.value)

    async def _where(self, row: Row) -> CommandResult:
        rule = str(parse(row.value))
        rows = [Row(SESSION, f"For {SESSION}"), Row(FOLDER, f"Always in {FOLDER}")]

        async def allow(where: Row) -> CommandResult:
            return self._allow(rule, where.value)

        return Choose(f"Allow {rule}", rows, allow)

    async def _try_row(self, row: Row) -> CommandResult:
        return self._try(row.value)

    def _allow(self, text: str, where: str) -> str:
        rule = str(parse(text))
        self.host.run.permissions.grant("main", rule, forever=where == FOLDER)
        return f"Allowed for {where}: `{rule}`"

    def _remove(self, rule: str) -> str:
        if not self.host.run.permissions.book.forget(rule):
            raise UserError(f"{rule} was not granted here.", "/permissions lists the rules and where they come from.")
        return f"Removed: `{rule}`"

    def _try(self, command: str) -> str:
        run = self.host.run
        effect = Effect("exec", command, cwd=str(run.agent.runner.state.cwd))
        decision = run.permissions.judge("main", bash, {"command": command}, [effect])
        words = {"allow": "runs without a question", "ask": "asks", "deny": "is denied"}[decision.verdict]
        lines = [f"`{command}` **{words}**" + (f": {decision.reason}" if decision.reason else "")]
        if decision.rule:
            lines.append(f'"Always" would add `{decision.rule}`.')
        return "\n\n".join(lines)
