"""One prompt, one answer, one exit code."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import stat
import sys
from collections.abc import Mapping

from cowork.app.build import build
from cowork.app.result import EXIT_CODES, PIPE_CLOSED
from cowork.app.resume import begin
from cowork.app.run import Run, bug_in
from cowork.app.steering import UNTRUSTED, steering
from cowork.config.run_options import RunOptions
from cowork.core import signals
from cowork.core.errors import UserError
from cowork.core.events import Notice
from cowork.core.later import later
from cowork.core.ports import Ask, Emit
from cowork.engine.loop import Outcome, Prompt

with later(__name__):
    from cowork.app.attachments import attach
    from cowork.frontends.drawing import TerminalText
    from cowork.frontends.json_output import JsonOutput
    from cowork.frontends.prompt import LinePrompt, available
    from cowork.frontends.text import TextOutput

STDOUT = 1


def run_once(options: RunOptions) -> int:
    """Answer one prompt and end; gives the exit code."""
    if not options.prompt.strip():
        raise UserError("There is no prompt.", 'Say what to do: cowork run "…", or pipe it in.')
    return asyncio.run(_Once(options, os.environ).go())


class _Once:
    def __init__(self, options: RunOptions, environ: Mapping[str, str]) -> None:
        self.options = options
        self.environ = environ
        self.stopped = ""  # why somebody stopped it from outside
        self.task: asyncio.Task[Outcome] | None = None

    async def go(self) -> int:
        loop = asyncio.get_running_loop()
        signals.listen(self.stop)
        run = build(
            self.options,
            self.environ,
            ask=self._asker(),
            sinks=[self._output()],
            on_sink_failure=self._on_sink_failure,
        )
        self._watch_reader(loop)
        # Only the answering can be stopped from outside; telling how it ended and closing always run to their end.
        self.task = loop.create_task(self._answer(run))
        try:
            await asyncio.wait([self.task])
            reason, text, error = run.ending(self.task, self.stopped)
            # What ran in the background is part of the result.
            await run.subagents.stop_all(f"the run was {self.stopped}" if self.stopped else "the run ended")
            if self.stopped != "pipe":
                run.end(reason, text, error)
        finally:
            loop.remove_reader(STDOUT)
            await run.close()
        if bug := bug_in(self.task):
            raise bug  # whoever started the run keeps the traceback and says where it is
        return PIPE_CLOSED if self.stopped == "pipe" else EXIT_CODES[reason]

    def stop(self, reason: str) -> None:
        """End the run from outside; what is being cleaned up already is not stopped again."""
        if self.stopped:
            return
        self.stopped = reason
        if self.task:
            self.task.cancel()

    def _watch_reader(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hear at once when nobody reads stdout any more: a long command says nothing that could fail to arrive."""

        def look() -> None:
            loop.remove_reader(STDOUT)  # whatever woke us would go on doing so
            poll = select.poll()
            poll.register(STDOUT, 0)  # being hung up on is told without being asked for
            if poll.poll(0):
                self.stop("pipe")

        with contextlib.suppress(OSError, NotImplementedError):  # files and the like have no reader to lose
            kind = os.fstat(STDOUT).st_mode
            if stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind):
                loop.add_reader(STDOUT, look)

    async def _answer(self, run: Run) -> Outcome:
        begin(run)
        for note in run.notes:
            run.emit(note)
        if not run.project.trusted and not self.options.bare and steering(run.root):
            run.emit(Notice(UNTRUSTED, "info", "untrusted"))
        prompt = Prompt(self.options.prompt, self.options.context)
        async with asyncio.timeout(run.config.limits.timeout or None):
            refused = await attach(run, prompt, alone=self.options.non_interactive) if "@" in prompt.text else []
            prompt.attached = tuple(line for line in prompt.attached if line not in refused)
            for line in refused:
                run.emit(Notice(f"@{line}", "warning", "attach.left_out"))
            return await run.ask(prompt)

    def _output(self) -> Emit:
        if self.options.output != "text":
            return JsonOutput(sys.stdout, stream=self.options.output == "stream-json")
        person = not self.options.non_interactive
        live, fold = person and sys.stdout.isatty(), person and sys.stderr.isatty()
        drawn = (live or fold) and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")
        rendering = TerminalText(os.environ) if drawn else None
        return TextOutput(sys.stdout, sys.stderr, live=live, fold=fold, quiet=self.options.quiet, rendering=rendering)

    def _asker(self) -> Ask | None:
        return LinePrompt() if not self.options.non_interactive and available() else None

    def _on_sink_failure(self, sink: Emit, error: Exception) -> None:
        if isinstance(error, BrokenPipeError):
            self.stop("pipe")
