"""One prompt, one answer, one exit code."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping

from cowork.app.build import build
from cowork.app.result import EXIT_CODES, PIPE_CLOSED
from cowork.app.resume import begin
from cowork.app.run import Run
from cowork.app.trust import steering
from cowork.config.options import RunOptions
from cowork.core.blocks import Json
from cowork.core.errors import UserError
from cowork.core.events import Notice
from cowork.core.ports import Answer, Ask, Emit, Question
from cowork.engine.loop import Prompt

NO_ONE_TO_ASK = "non-interactive, no rule allows it"


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
        self.task: asyncio.Task[int] | None = None

    async def go(self) -> int:
        self.task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        for number, reason in (
            (signal.SIGINT, "interrupted"),
            (signal.SIGTERM, "terminated"),
            (signal.SIGHUP, "terminated"),
        ):
            loop.add_signal_handler(number, self.stop, reason)
        run = build(
            self.options,
            self.environ,
            ask=self._asker(),
            sinks=[self._output()],
            on_sink_failure=self._sink_failed,
        )
        try:
            return await self._answered(run)
        finally:
            await run.close()

    def stop(self, reason: str) -> None:
        """End the run from outside; a second signal does not wait for cleaning up twice."""
        if self.stopped:
            return
        self.stopped = reason
        if self.task:
            self.task.cancel()

    async def _answered(self, run: Run) -> int:
        begin(run)
        run.agent.more = lambda: run.subagents.wait_background("main")
        if not run.trusted and not self.options.bare:
            self._say_untrusted(run)
        prompt = Prompt(self.options.prompt, self.options.context)
        reason, text, error = "internal_error", "", None
        try:
            async with asyncio.timeout(run.config.limits.timeout or None):
                outcome = await run.ask(prompt)
            reason, text, error = outcome.reason, outcome.text, outcome.error
            strict = self.options.strict_denials and (run.agent.runner.denials or run.subagents.denials)
            if reason == "completed" and (outcome.denied_last or strict):
                reason = "denied"
                error = {"code": "denied", "message": "The run ended on a denied action."}
        except TimeoutError:
            reason, text = "timeout", run.agent.transcript.last_text()
            error = {"code": "timeout", "message": f"Timed out after {run.config.limits.timeout:g} s."}
        except asyncio.CancelledError:
            if not self.stopped:
                raise
            reason, text = self.stopped, run.agent.transcript.last_text()
            error = {"code": reason, "message": f"The run was {reason}."}
            asyncio.current_task().uncancel()  # type: ignore[union-attr]
        if self.stopped == "pipe":
            return PIPE_CLOSED
        return self._ended(run, reason, text, error)

    def _ended(self, run: Run, reason: str, text: str, error: Json | None) -> int:
        run.end(reason, text, error)
        return PIPE_CLOSED if self.stopped == "pipe" else EXIT_CODES[reason]

    def _output(self) -> Emit:
        if self.options.output != "text":
            from cowork.frontends.json import JsonResult, JsonStream

            return JsonResult(sys.stdout) if self.options.output == "json" else JsonStream(sys.stdout)
        from cowork.frontends.text import TextOutput

        live = not self.options.non_interactive and sys.stdout.isatty()
        return TextOutput(sys.stdout, sys.stderr, live=live, quiet=self.options.quiet)

    def _asker(self) -> Ask:
        if self.options.non_interactive:
            return _nobody
        from cowork.frontends.prompt import LinePrompt, available

        return LinePrompt() if available() else _nobody

    def _sink_failed(self, sink: Emit, error: Exception) -> None:
        if isinstance(error, BrokenPipeError):
            self.stop("pipe")

    def _say_untrusted(self, run: Run) -> None:
        if steering(run.root):
            text = "This folder is not trusted: its settings, agents and notes are not used. --trust uses them."
            run.emit(Notice(text, "info", "untrusted"))


async def _nobody(question: Question) -> Answer:
    return Answer("no", NO_ONE_TO_ASK)
