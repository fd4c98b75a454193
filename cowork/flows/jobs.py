"""One task as one process, on this machine or a worker: `cowork run` in a folder, told of line by line."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from cowork.config.options import Option, RunOptions
from cowork.core import spawn
from cowork.core.blocks import Json
from cowork.core.errors import UserError
from cowork.core.git import git_output

Hear = Callable[[str], None]  # a line of what happens, which is JSON
_OWN = ("output", "non_interactive", "quiet", "cwd", "output_schema", "continue_", "resume", "agent", "max_cost")


def job_of(
    id: str, prompt: str, options: RunOptions, *, agent: str = "", schema: Json | None = None, **more: Any
) -> Json:
    """What a worker needs to know; `repo` and `ref` for a checkout of its own, `max_cost` for its share."""
    cwd = str(options.cwd) if options.cwd else ""
    return {"id": id, "prompt": prompt, "flags": _flags(options), "agent": agent, "schema": schema, "cwd": cwd, **more}


def run_job(job: Json, hear: Hear) -> Json:
    """Run it to its end; gives the object of `--output json`, with a `patch` where it had a checkout."""
    try:
        return _run(job, hear)
    except (UserError, OSError) as error:  # no such repository, no room for it
        return no_result(str(error))


def no_result(message: str) -> Json:
    """The result of a job that gave none."""
    error = {"code": "internal_error", "message": message}
    return {"status": "error", "result": "", "terminal_reason": "internal_error", "error": error}


def _run(job: Json, hear: Hear) -> Json:
    with contextlib.ExitStack() as stack:
        folder, base = stack.enter_context(_folder(job))
        flags = [*job["flags"], *_flag("--agent", job.get("agent")), *_flag("--max-cost", job.get("max_cost"))]
        if job.get("schema"):
            file = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cowork-"))) / "schema.json"
            file.write_text(json.dumps(job["schema"]))
            flags += ["--output-schema", str(file)]
        words = [sys.executable, "-m", "cowork", "run", "--non-interactive", "--output", "stream-json", *flags, "-"]
        process = spawn.streaming(
            words, environ=dict(os.environ), cwd=folder, given=job["prompt"].encode("utf-8", "replace")
        )
        hear(json.dumps({"type": "job.started", "id": job["id"], "pid": process.pid}))
        result: Json = {}
        assert process.stdout is not None
        for raw in process.stdout:
            line = raw.decode("utf-8", "replace")
            if not line.endswith("\n"):
                break  # half a line of a process that was killed
            if '"run.ended"' in line and (found := json.loads(line)).get("type") == "run.ended":
                result = found
            else:
                hear(line)
        code = process.wait()
        result = result or no_result(f"The process ended with code {code} and no result.")
        return result | ({"patch": _patch(folder, base)} if base else {})


@contextlib.contextmanager
def _folder(job: Json) -> Iterator[tuple[Path, str]]:
    """(folder to work in, commit it was checked out at): the given one, or a clone that is removed afterwards."""
    if not job.get("repo"):
        yield Path(job.get("cwd") or os.getcwd()), ""
        return
    with tempfile.TemporaryDirectory(prefix="cowork-", ignore_cleanup_errors=True) as made:
        folder, repo = Path(made) / "repo", os.path.expanduser(job["repo"])
        shared = ["--shared"] if os.path.isdir(repo) else []
        _git(Path(made), "clone", "-q", *shared, "--no-checkout", repo, str(folder))
        _git(folder, "checkout", "-q", "--detach", job.get("ref") or "HEAD")
        yield folder, _git(folder, "rev-parse", "HEAD").strip()


def _patch(folder: Path, base: str) -> str:
    """What was changed since the checkout, new files counted in."""
    _git(folder, "add", "-A")
    return (
        _git(folder, "diff", "--cached", "--binary", base).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    )


def _git(folder: Path, *words: str) -> str:
    return git_output(folder, *words, environ=os.environ)


def _flags(options: RunOptions) -> list[str]:
    """The words of a command line that stand for these options."""
    words: list[str] = []
    for spec in fields(options):
        shown: Option | None = spec.metadata.get("option")
        value = getattr(options, spec.name)
        if shown is None or spec.name in _OWN or value == spec.default:
            continue
        if isinstance(value, bool):
            words.append(shown.flags[0])
            continue
        for each in value if isinstance(value, tuple) else (value,):
            words += [shown.flags[0], str(Path(each).absolute() if isinstance(each, Path) else each)]
    return words


def _flag(name: str, value: object) -> list[str]:
    return [] if value in (None, "") else [name, str(value)]
