"""/tasks and /status: what runs in the background, and the state of this chat."""

from __future__ import annotations

from pathlib import Path

from cowork import __version__
from cowork.app.chat import pages
from cowork.app.chat.host import ChatHost
from cowork.config import paths
from cowork.core import format
from cowork.core.errors import UserError
from cowork.engine.subagents.child import Child
from cowork.frontends.host import Choose, CommandResult, Row
from cowork.tools.shell.jobs import RunningCommand

_TAIL = 4_000  # characters of output shown


class TaskCommands:
    """The commands over one chat."""

    def __init__(self, host: ChatHost) -> None:
        self.host = host

    async def tasks(self, rest: str) -> CommandResult:
        """Background commands and children: look at one, or stop it."""
        word, _, name = rest.partition(" ")
        if word == "stop" and name:
            return await self._stop(name.strip())
        if rest:
            return self._show(rest)
        rows = [self._child_row(child) for child in self.host.run.subagents.running.values()]
        rows += [self._job_row(job) for job in self._jobs().values()]
        if not rows:
            return "Nothing runs in the background."
        return Choose("Children and background commands", rows, self._choose)

    async def status(self, rest: str) -> CommandResult:
        """What this chat is and runs on, in one table."""
        host, run = self.host, self.host.run
        now, box = host.status(), run.permissions.sandbox
        rows = [
            ("version", __version__),
            ("session", f"{run.session_id}{'' if run.log else ' (not stored)'}"),
            ("folder", f"{paths.short(run.root, host.environ)} · {'trusted' if now.trusted else 'not trusted'}"),
            ("model", f"{run.agent.provider.model} ({run.agent.provider.name})"),
            ("light model", now.light_model or "the same"),
            ("mode", now.mode),
            (
                "sandbox",
                "commands run in a box" if box is not None and box.boxes == "both" else "commands are not boxed",
            ),
            ("context", f"{run.agent.context_tokens:,} of {run.agent.provider.context_window:,} tokens"),
            ("cost", format.money(now.cost_usd)),
            ("settings", ", ".join(paths.short(p, host.environ) for p in _settings(host)) or "none"),
            ("notes read", ", ".join(now.knowledge) or "none"),
            ("background", f"{len(run.subagents.running)} children, {now.jobs} commands"),
        ]
        return pages.table(("", ""), rows)

    def _jobs(self) -> dict[str, RunningCommand]:
        return {name: job for name, job in self.host.run.tree.jobs.items() if isinstance(job, RunningCommand)}

    def _child_row(self, child: Child) -> Row:
        state = f"{child.elapsed_ms // 1000} s" if child.started else "waiting in line"
        return Row(child.id, f"{child.id}  {child.label}", f"child · {state}", child.action)

    def _job_row(self, job: RunningCommand) -> Row:
        state = "running" if job.running else "ended"
        return Row(job.id, f"{job.id}  {job.command}", f"command · {state} · {job.seconds:.0f} s",
                   _output(job))  # fmt: skip

    async def _choose(self, row: Row) -> CommandResult:
        if row.value not in self.host.run.subagents.running and not self._jobs()[row.value].running:
            return self._show(row.value)
        rows = [Row("show", "Look at its output"), Row("stop", "Stop it")]

        async def act(chosen: Row) -> CommandResult:
            return await self._stop(row.value) if chosen.value == "stop" else self._show(row.value)

        return Choose(row.label, rows, act)

    def _show(self, name: str) -> str:
        if job := self._jobs().get(name):
            return f"`{job.command}`\n\n{_output(job)}"
        if child := self.host.run.subagents.running.get(name):
            said = child.agent.transcript.last_text(child.since)
            return f"**{child.id}** {child.label}\n\n{said or child.action or 'Nothing yet.'}"
        raise self._unknown(name)

    async def _stop(self, name: str) -> str:
        if job := self._jobs().get(name):
            await job.kill()
            return f"Stopped {name}: `{job.command}`"
        if name in self.host.run.subagents.running:
            self.host.stop_child(name, "kill")
            return f"Stopped {name}."
        raise self._unknown(name)

    def _unknown(self, name: str) -> UserError:
        names = [*self.host.run.subagents.running, *self._jobs()]
        return UserError(f"Nothing here is called {name!r}.", f"There is {', '.join(names) or 'nothing'}.")


def _output(job: RunningCommand) -> str:
    text = job.capture.tail(_TAIL).strip()
    fence = "`" * 4
    return f"{fence}\n{text}\n{fence}" if text else "No output yet."


def _settings(host: ChatHost) -> list[Path]:
    own = paths.config_dir(host.environ) / paths.CONFIG_NAME
    project = paths.project_file(host.run.root)
    return [path for path in (own, *([project] if host.run.project.trusted else [])) if path.is_file()]
