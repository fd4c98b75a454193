"""The command line: parse, call app, end with the documented exit code."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import TracebackType

from cowork.cli import quick_parser, standard_streams
from cowork.config import paths
from cowork.config.run_options import RunOptions
from cowork.core import signals
from cowork.core.errors import UserError
from cowork.core.hygiene import conceal, redact, secrets_of, visible
from cowork.core.signals import Stopped, release
from cowork.private_files import write_private

_REASONS = {3: "auth", 4: "budget", 124: "timeout", 130: "interrupted", 143: "terminated"}  # by exit code


def run() -> None:
    """The installed command."""
    standard_streams.prepare()
    sys.excepthook = _calm
    sys.exit(main(sys.argv[1:]))


def main(argv: Sequence[str]) -> int:
    """Do what the words say; gives the exit code."""
    try:
        try:
            plain = None if "_COWORK_COMPLETE" in os.environ else quick_parser.parse(argv)
            if plain is not None:
                return _flush(start(*plain))
            from cowork.cli import typer_app

            return _flush(typer_app.run(argv))
        except UserError as error:
            complain(error.message, error.hint)
            _tell_programs(argv, _REASONS.get(error.exit_code, "usage"), error.message)
            return error.exit_code
    except BrokenPipeError:
        forget_stdout()
        return 141
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        if error.filename is None:  # no file that a person could mend
            with contextlib.suppress(BrokenPipeError):
                if code := _flush(0):
                    return code
            raise
        complain(f"{error.filename}: {error.strerror}")
        return 1


def start(command: str, prompt: str | None, options: RunOptions) -> int:
    """Begin a chat or a one-shot run; without a terminal a chat is a run whose prompt comes from stdin."""
    conceal()
    if command == "chat" and standard_streams.terminal():
        from cowork.app.chat.start import chat

        release()
        return signals.run(chat(replace(options, prompt=standard_streams.clean(prompt or ""))))
    notes: list[str] = []
    words, context = standard_streams.gather(prompt, non_interactive=options.non_interactive, say=notes.append)
    from cowork.app.once import run_once

    return run_once(replace(options, prompt=words, context=context, notes=tuple(notes)))


def report_stop(argv: Sequence[str], stop: Stopped) -> int:
    """What a signal leaves that came before the run began; gives the exit code."""
    try:
        _tell_programs(argv, stop.reason, f"The run was {stop.reason} before it began.")
        return _flush(stop.exit_code)
    except BrokenPipeError:
        forget_stdout()
        return 141
    except OSError:
        return _flush(stop.exit_code)


def _tell_programs(argv: Sequence[str], reason: str, message: str) -> None:
    """A run that could not begin still gives the one object that programs wait for."""
    output = quick_parser.output_of(argv)
    if output == "text":
        return
    import time

    from cowork.app.result import result_object
    from cowork.core.events import RunEnded
    from cowork.frontends.json_output import JsonOutput

    result = result_object(reason, {"code": reason, "message": message})
    ended = RunEnded(result, id=1, at=round(time.time(), 3))
    JsonOutput(sys.stdout, stream=output == "stream-json")(ended)


def _flush(code: int) -> int:
    """The exit code, once all is out. Output that finds no room is a failure, progress that finds none is not."""
    try:
        sys.stderr.flush()
    except OSError:
        _forget(sys.stderr.flush, 2)
    try:
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        raise
    except OSError as error:
        forget_stdout()
        complain(f"stdout could not be written: {error.strerror}")
        return code or 1


def forget_stdout() -> None:
    """Nobody reads any more; the interpreter must not try to flush again on its way out."""
    _forget(sys.stdout.flush, 1)


def _forget(flush: Callable[[], None], number: int) -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, number)
    os.close(null)
    with contextlib.suppress(OSError):  # of what was lost before
        flush()


def complain(message: str, hint: str = "") -> None:
    """One line what, one line next, on stderr."""
    lines = [f"cowork: {message}"] + ([f"  {hint}"] if hint else [])
    try:
        print("\n".join(lines), file=sys.stderr, flush=True)
    except (OSError, ValueError):
        return  # nobody reads; the exit code still tells


def _calm(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """What nobody foresaw: the traceback goes to a file, one line to the person. The exit code is 1."""
    import traceback

    text = "".join(traceback.format_exception(kind, error, trace))
    secrets = secrets_of(os.environ)
    file = paths.state_dir(os.environ) / "crash.log"
    try:
        write_private(file, visible(redact(text, secrets)))
        hint = f"The details are in {paths.short(file, os.environ)}; please report them."
    except OSError:
        hint = f"The details could not be kept: {file} cannot be written."
    complain(f"an error inside cowork: {redact(f'{kind.__name__}: {error}', secrets)}", hint)
