"""Bash, BashOutput and KillBash: run a shell command, look at one in the background, end it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from cowork.core.blocks import Json
from cowork.core.errors import ToolError
from cowork.core.later import later
from cowork.core.ports import Effect, ToolRecord, error_record, ok, partial
from cowork.core.workspace import start_of
from cowork.tools.base import Interrupted, Param, ToolContext, tool, touches_nothing

with later(__name__):
    from cowork.tools.search import ripgrep as rg
    from cowork.tools.shell import jobs, output

TIMEOUT_MS, MOST_MS = 120_000, 600_000
_SETTLE = 0.2  # seconds in which a background command may fail at once
_CANCEL = 0.2  # seconds an interrupted command has before we stop looking; it is ended all the same
_FILTERED = 4 << 20
_SHOWN_TO_PEOPLE = 4_000
_BINARY_SHOWN = 400
_SHOWN_OF_A_NAME = 100


def _effects(ctx: ToolContext, args: Mapping[str, Any]) -> list[Effect]:
    jobs.prepare(ctx.tree)  # it starts while the command is judged
    return [Effect("exec", str(args["command"]), str(ctx.state.cwd), args.get("needs") or "")]


@tool(
    "Bash",
    family="exec",
    effects=_effects,
    line=lambda args, cwd: "$ " + str(args.get("command", "")).strip().replace("\n", " ⏎ "),
)
async def bash(
    ctx: ToolContext,
    command: Annotated[str, "The command"],
    timeout: Annotated[int, Param("Milliseconds; not for background", minimum=1, maximum=MOST_MS)] = TIMEOUT_MS,
    description: Annotated[str, "What it does, in 5-10 words"] = "",
    run_in_background: Annotated[bool, "Return at once; see BashOutput"] = False,
    needs: Annotated[
        Literal["network", "outside"] | None,
        "Only where the sandbox made it fail: the network, or a run outside it. The user is asked",
    ] = None,
    why: Annotated[str, "Why it needs that, for the user"] = "",
) -> ToolRecord:
    if not command.strip():
        raise ToolError("INVALID_PARAM", "command is empty. Give a shell command.")
    notes = []
    if not ctx.state.cwd.is_dir():
        notes = [f"{ctx.state.cwd} no longer exists; the working directory is {ctx.workspace.root} again."]
        ctx.state.cwd = ctx.workspace.root
    if ctx.tree.before_command and not ctx.reads:
        await ctx.tree.before_command(ctx.output)
    if run_in_background:
        return await _background(ctx, command, notes)
    capture = output.Capture(ctx.tree.scratch, "bash")
    live = output.Live(ctx.output, capture.pending)
    running = await jobs.start(ctx, command, capture, live.add)
    timed_out = False
    try:
        ended = await asyncio.wait_for(running.wait(), timeout / 1000)
    except TimeoutError:
        timed_out = True
        ended = await running.end()
    except asyncio.CancelledError as stop:
        with contextlib.suppress(TimeoutError):  # the next command should rarely meet this one
            await asyncio.wait_for(running.end(), _CANCEL)
        raise Interrupted(_abort_record(command, capture)) from stop
    finally:
        live.close()
    if ended.error:
        raise ToolError("EXECUTION_ERROR", f"The command could not be started: {ended.error}.")
    where = Path(ended.cwd) if ended.cwd else ctx.state.cwd
    looked = ended.code == 0 and ctx.box == "read"  # its output may be that of others
    told = ctx.tree.explain("" if looked else capture.text(), command, where, ctx.box)
    if ctx.box == "read" and ended.code and not timed_out:
        ctx.refused = " ".join(told)
    notes += running.hold.told + told + follow(ctx, ended.cwd)
    return _record(command, running, ended, notes, timeout if timed_out else 0)


@tool("BashOutput", family="exec", reads=True)
async def bash_output(
    ctx: ToolContext,
    bash_id: Annotated[str, "Such as bash_1"],
    filter: Annotated[str, "Only new lines that match this regular expression"] = "",
) -> ToolRecord:
    job = _job(ctx, bash_id)
    text, skipped = await _news(job, filter)
    state, code = _state(job)
    capture = job.capture
    lines = [text.rstrip("\n")] if text.strip() else ["(no new output)"]
    if skipped:
        lines.insert(0, f"[… {skipped:,} bytes left out; all of it is in {capture.path} …]")
    if capture.full:
        lines.append(f"[No longer recorded: {capture.path} is full. The latest:]\n{capture.tail(2_000)}")
    job.hold.look()
    told, job.hold.told = job.hold.told, []
    whole = "\n".join([*lines, *told, "", f"{bash_id} {state}."])
    display = terminal_display(job.command, text or capture.tail(_SHOWN_TO_PEOPLE), code, capture.lines, state)
    data: Json = {"bash_id": bash_id, "running": job.running, "exit_code": code, "lines": capture.lines}
    make = partial if skipped or capture.full else ok
    return make(whole, display=display, output_file=str(capture.path), **data)


@tool("KillBash", family="exec", effects=touches_nothing, line=lambda args, cwd: str(args["shell_id"]))
async def kill_bash(ctx: ToolContext, shell_id: Annotated[str, "Such as bash_1"]) -> ToolRecord:
    job = _job(ctx, shell_id)
    if not f"{job.owner}/".startswith(f"{ctx.agent}/"):
        said = f"{shell_id} was started by {job.owner}. Only it and those above it can end it."
        raise ToolError("ACCESS_DENIED", said)
    if not job.running:
        return ok(f"{shell_id} has already ended: it {_state(job)[0]}.", shell_id=shell_id, killed=False)
    await job.end()
    text = f"{shell_id} and every process it started were ended. BashOutput shows what it printed last."
    return ok(text, display={"kind": "text", "text": text, "summary": "ended"}, shell_id=shell_id, killed=True)


async def _background(ctx: ToolContext, command: str, notes: list[str]) -> ToolRecord:
    name = f"bash_{ctx.tree.jobs_before + len(ctx.tree.jobs) + 1}"
    capture = output.Capture(ctx.tree.scratch, name, file=True)
    if capture.full:
        raise ToolError("EXECUTION_ERROR", f"{capture.path} cannot be written{capture.problem}; nothing was started.")
    job = ctx.tree.jobs[name] = await jobs.start(ctx, command, capture, lambda text: None)
    job.id, job.owner = name, ctx.agent
    await job.settle(_SETTLE)
    state, code = _state(job)
    text = [*notes, f"Started in the background as {name}; it {state}."]
    text.append(f'BashOutput(bash_id="{name}") shows what is new, KillBash(shell_id="{name}") ends it.')
    data: Json = {"bash_id": name, "running": job.running, "exit_code": code, "output_file": str(capture.path)}
    display = terminal_display(command, "", code, 0, f"{name} {state}")
    return (ok if job.running or code == 0 else partial)("\n".join(text), display=display, **data)


def take_folder(path: Path) -> str:
    """The folder a shell ended in, from the file it left; empty where it left none."""
    try:
        said = os.fsdecode(start_of(path, 4096)).rstrip("\n")
        path.unlink()
    except OSError:
        return ""
    return said


def follow(ctx: ToolContext, told: str) -> list[str]:
    """Make the folder the shell ended in the working directory, if it lies in the workspace."""
    if not told or told == str(ctx.state.cwd):
        return []
    folder = Path(os.path.realpath(told))
    if not folder.is_dir():
        return []
    if not ctx.workspace.may_write(folder):
        ctx.state.cwd = ctx.workspace.root
        return [f"{told} is outside the workspace; the working directory is {ctx.workspace.root} again."]
    ctx.state.cwd = folder
    return [f"The working directory is now {folder}."]


def _record(
    command: str, running: jobs.RunningCommand, ended: jobs.Ended, notes: list[str], timeout: int
) -> ToolRecord:
    if ended.left:
        names = ", ".join(dict.fromkeys(ended.left))
        notes.append(
            f"Still running when the shell exited, and ended: {names}. Use run_in_background to keep a command going."
        )
    if ended.survivors:
        notes.append(f"Could not be ended: {', '.join(ended.survivors)}.")
    capture = running.capture
    signal = ended.signal or jobs.signal_name((ended.code or 0) - 128)
    summary = "exit 0" if ended.code == 0 else f"exit {ended.code}" if ended.code is not None else ended.signal
    if timeout:
        summary = f"timed out after {timeout / 1000:g} s"
        notes.insert(0, f"Timed out after {timeout} ms; the command and its children were ended.")
        notes.append("Give a longer timeout (at most 600000), or run_in_background.")
    elif ended.signal:
        notes.insert(0, f"Ended by {ended.signal}.")
    elif ended.code:
        # A shell or a sandbox around the command tells a signal as 128 and its number.
        notes.insert(0, f"Exit code {ended.code} ({signal})." if signal else f"Exit code {ended.code}.")
    text = _text(capture) or ("" if timeout or notes else "(no output)")
    data: Json = {
        "exit_code": ended.code,
        "signal": signal,
        "duration_ms": round(running.seconds * 1000),
        "lines": capture.lines,
        "bytes": capture.bytes,
        "truncated": capture.spilled,
        "output_file": str(capture.path) if capture.spilled else "",
        "ended_processes": list(ended.left),
    }
    display = terminal_display(command, capture.tail(_SHOWN_TO_PEOPLE), ended.code, capture.lines, summary)
    whole = "\n\n".join(part for part in (text, "\n".join(notes)) if part)
    if timeout:
        error: Json = {"code": "TIMEOUT", "message": f"Command timed out after {timeout} ms"}
        return ToolRecord("error", whole, data, error=error, display=display)
    complete = ended.code == 0 and not capture.spilled and not ended.left and not ended.survivors
    return ToolRecord("success" if complete else "partial", whole, data, display=display)


def _abort_record(command: str, capture: output.Capture) -> ToolRecord:
    """What is left of a command that was interrupted: what it had printed."""
    capture.settle()
    said = "Interrupted before it finished. Its effects may be partly done."
    if not capture.lines:
        return error_record("ABORTED", said)
    display = terminal_display(command, capture.tail(_SHOWN_TO_PEOPLE), None, capture.lines, "interrupted")
    text = f"{said} It had printed:\n\n{_text(capture)}"
    return ToolRecord("error", text, error={"code": "ABORTED", "message": said}, display=display)


def _text(capture: output.Capture) -> str:
    if capture.binary:
        return f"{capture.text()[:_BINARY_SHOWN]}\n[Binary output, {capture.bytes:,} bytes; redirect it to a file.]"
    return capture.text().rstrip("\n")


def terminal_display(command: str, output: str, code: int | None, lines: int, summary: str) -> Json:
    shown = output[-_SHOWN_TO_PEOPLE:]
    display: Json = {"kind": "terminal", "command": command, "output": shown, "exit_code": code, "lines": lines}
    return {**display, "summary": summary}


def _job(ctx: ToolContext, name: str) -> jobs.RunningCommand:
    job = ctx.tree.jobs.get(name)
    if job is None:
        known = ", ".join(ctx.tree.jobs) or "none"
        said = f"No background command {name[:_SHOWN_OF_A_NAME]}. Known: {known}."
        raise ToolError("NOT_FOUND", said, known=list(ctx.tree.jobs))
    return job


def _state(job: jobs.RunningCommand) -> tuple[str, int | None]:
    ended = job.ended
    if ended is None:
        return f"is running ({job.seconds:.0f} s)", None
    if ended.error:
        return f"could not be started: {ended.error}", None
    return (f"was ended by {ended.signal}" if ended.signal else f"exited with code {ended.code}"), ended.code


async def _news(job: jobs.RunningCommand, pattern: str) -> tuple[str, int]:
    """What was printed since the last look, and how many bytes of it are left out."""
    capture = job.capture
    most = _FILTERED if pattern else output.WHOLE_BYTES
    capture.settle()
    new = capture.recorded - job.position
    skipped = max(0, new - most)
    data = capture.read(job.position + skipped, most)
    text = data.decode("utf-8", "replace")
    if pattern and data:
        text = await rg.filter_lines(pattern, data)
        skipped += max(0, len(text) - output.WHOLE_BYTES)
    job.position += new
    text = text[-output.WHOLE_BYTES :]
    return (text.partition("\n")[2] or text) if skipped else text, skipped  # from the beginning of a line
