"""The one place where cowork starts other programs: none gets an environment that was not made for it.

Only the reaper, a process of its own that runs commands, starts programs elsewhere; its environment is empty.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Completed = subprocess.CompletedProcess[bytes]
_LOOK_S = 0.1  # how often it is looked whether somebody still waits

# Where a system keeps its programs; PATH may lead into a folder that commands in a box can write, such as a venv's.
_SYSTEM = ("/usr/local/bin", "/usr/bin", "/bin", "/opt/homebrew/bin", "/run/current-system/sw/bin")


def own_path(environ: Mapping[str, str]) -> str:
    """PATH without the tools of projects."""
    places = environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(place for place in places if os.path.isabs(place) and not _of_project(place))


def program(name: str, environ: Mapping[str, str]) -> str:
    """The program cowork itself runs by a name: the system's where it has one, and never one of a project's tools."""
    if "/" in name:
        return name
    return shutil.which(name, path=os.pathsep.join((*_SYSTEM, own_path(environ)))) or f"/usr/bin/{name}"


def _of_project(place: str) -> bool:
    parent = os.path.dirname(place.rstrip("/"))
    return os.path.exists(f"{parent}/pyvenv.cfg") or parent.endswith("/node_modules")


def run(
    argv: Sequence[str],
    *,
    environ: Mapping[str, str],
    seconds: float,
    cwd: Path | str = "/",
    given: bytes = b"",
    check: Callable[[], None] = lambda: None,
) -> Completed:
    """Run a program to its end; a TimeoutError after so many seconds. `check` may stop one that is given nothing."""
    words = [program(argv[0], environ), *argv[1:]]
    pipe, end = subprocess.PIPE, time.monotonic() + seconds
    with subprocess.Popen(words, env=environ, cwd=cwd, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            while (left := end - time.monotonic()) > 0:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    said = process.communicate(given, timeout=left if given else min(left, _LOOK_S))
                    return Completed(words, process.returncode, *said)
                check()
        finally:
            process.kill()
    raise TimeoutError(f"{argv[0]} took longer than {seconds:g} s")


def on_terminal(argv: Sequence[str], *, environ: Mapping[str, str], cwd: Path | None = None) -> int:
    """Run a program that has our terminal until it ends; gives its exit code."""
    words = [shutil.which(argv[0], path=own_path(environ)) or argv[0], *argv[1:]]
    return subprocess.run(words, env=environ, cwd=cwd, check=False).returncode


def shell_on(
    command: str, terminal: str, place: Path, *, environ: Mapping[str, str], cwd: Path
) -> subprocess.Popen[bytes]:
    """Start a shell command in a session of its own, on a terminal by its name; `place` gets the folder it ends in."""
    shell = shutil.which("bash") or "/bin/sh"
    # Opening a terminal in a new session makes it that session's own.
    script = """exec <"$1" >"$1" 2>&1; trap 'pwd -P >"$COWORK_PLACE"' EXIT; eval "$2" """
    argv = [shell, "-c", script, shell, terminal, command]
    return _apart(argv, env={**environ, "COWORK_PLACE": str(place)}, cwd=cwd)


async def start_piped(
    *argv: str, environ: Mapping[str, str], cwd: Path | None = None, **streams: Any
) -> asyncio.subprocess.Process:
    """Start a program whose stdin, stdout and stderr are pipes where `streams` say nothing else."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE) | streams
    return await asyncio.create_subprocess_exec(*argv, cwd=cwd, env=environ, **pipes)


def start_streaming(
    argv: Sequence[str], *, environ: Mapping[str, str], cwd: Path, given: bytes
) -> subprocess.Popen[bytes]:
    """Start a program that is told this on its stdin and read from line by line; its complaints are not read."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(argv, env=environ, cwd=cwd, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
        stdin.write(given)
    return process


def beside(argv: Sequence[str], *, descriptor: int) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own, with an empty environment and this one descriptor."""
    return _apart(argv, pass_fds=[descriptor], env={}, cwd="/")


def _apart(argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    none = subprocess.DEVNULL
    return subprocess.Popen(argv, stdin=none, stdout=none, stderr=none, start_new_session=True, **options)


def wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait for its end, but no longer than this."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
