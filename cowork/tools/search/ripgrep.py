"""Finds ripgrep and runs it: streaming, stopped as soon as enough was seen, killed when the call is cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import os
import re
import resource
import shutil
import signal
import sys
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from cowork.core import spawn
from cowork.core.errors import ToolError
from cowork.core.frozen import frozen
from cowork.core.workspace import IgnorePipes
from cowork.tools.base import ToolContext
from cowork.tools.files.access import missing
from cowork.tools.shell.terminal_text import plain

_MISSING = "ripgrep is missing, so nothing can be searched. Tell the user to reinstall cowork, or to install ripgrep."
SECONDS = 60.0
_PIECE = 64 * 1024  # what is looked at in one go: of more, the screen would stand still
_REASON = 300  # characters of its complaint that are told
_FEED = 0.3  # seconds between looks for what may keep it waiting
_MEMORY = 512 << 20  # bytes rg may hold; it holds the whole of a line, however long
_STORES = (".git", ".hg", ".svn", ".jj")  # every glob costs time on every file, so the rare ones only where seen
_BASE = ("--no-config", "--no-require-git", "--no-ignore-global", "--hidden", "--null", "--no-messages")


@frozen
class RipgrepOutcome:
    """How a run ended. `stopped`: by us, at the limit or out of time."""

    code: int
    stopped: Literal["", "limit", "time"]
    seconds: float = SECONDS  # it was given
    pipes: Sequence[str] = ()  # ignore files that can only be waited for

    @property
    def out_of_memory(self) -> bool:
        return self.code == -signal.SIGABRT

    def notes(self) -> list[str]:
        """What makes the result less than whole, as sentences."""
        out: list[str] = []
        if self.stopped == "time":
            out.append(f"The search was stopped after {self.seconds:.0f} s; name a folder in path to see the rest.")
        if self.code == 2 and not self.stopped:
            out.append("Some files could not be read and were skipped.")
        if self.out_of_memory:
            out.append("The search ran out of memory: a file has too long a line. Name other files in path or glob.")
        out += [f"{pipe} is a named pipe and was taken for an empty file." for pipe in self.pipes]
        return out


@functools.cache
def program() -> str:
    """Where ripgrep is: the one installed with cowork, else the system's; empty when there is none."""
    found = (shutil.which("rg", path=sysconfig.get_path("scripts")), shutil.which(spawn.program("rg", os.environ)))
    return next((path for path in found if path and os.path.isabs(path)), "")


async def run(
    arguments: Sequence[str], path: str, cwd: Path, take: Callable[[bytes], bool], *, seconds: float = SECONDS
) -> RipgrepOutcome:
    """Run rg over `path` and hand its output on in pieces, until `take` says False."""
    excluded = [f"-g!{name}" for name in _STORES if name == ".git" or os.path.lexists(cwd / path / name)]
    stopped: Literal["", "limit", "time"] = ""
    process = await _start([*_BASE, *excluded, *arguments, "--", path], cwd)
    assert process.stdout is not None
    assert process.stderr is not None
    with contextlib.suppress(OSError, AttributeError):  # where the system has it
        resource.prlimit(process.pid, resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    complaint = asyncio.ensure_future(process.stderr.read())
    pipes = IgnorePipes(cwd / path)

    async def feed() -> None:  # keeps it from waiting for ignore files that nobody writes
        while True:
            await asyncio.sleep(_FEED)
            await asyncio.to_thread(pipes.feed)

    feeding = asyncio.ensure_future(feed())
    try:
        async with asyncio.timeout(seconds):
            while piece := await process.stdout.read(_PIECE):
                if not take(piece):
                    stopped = "limit"
                    break
                await asyncio.sleep(0)  # the screen has its turn
            else:
                await process.wait()
    except TimeoutError:
        stopped = "time"
    finally:
        pipes.over = feeding.cancel()
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.stdout.read()  # or some versions of asyncio wait for ever
            await process.wait()
    text = (await complaint).decode("utf-8", "replace").strip()
    named = [printable_name(os.path.relpath(pipe, cwd)) for pipe in pipes.found]
    outcome = RipgrepOutcome(process.returncode or 0, stopped, seconds, named)
    if text and not stopped and not outcome.out_of_memory:
        raise ToolError("INVALID_PARAM", f"{_reason(text)}. Correct the call and try again.")
    return outcome


async def list_files(options: Sequence[str], folder: Path, most: int = sys.maxsize) -> tuple[list[str], RipgrepOutcome]:
    """The names of the files below a folder, in no order, no more than about `most`, and how the run ended."""
    names: list[str] = []
    rest = b""

    def take(chunk: bytes) -> bool:
        nonlocal rest
        *whole, rest = (rest + chunk).split(b"\0")
        names.extend(os.fsdecode(name.removeprefix(b"./")) for name in whole)
        return len(names) < most

    return names, await run(["--files", *options], "./", folder, take)


async def filter_lines(pattern: str, text: bytes) -> str:
    """The lines of a text that match, found outside this process so that no pattern can hold it up."""
    arguments = [*_BASE, "--color=never", "--engine=auto", "--text", f"-e{pattern}", "--", "-"]
    process = await _start(arguments, Path("/"), stdin=asyncio.subprocess.PIPE)
    try:
        async with asyncio.timeout(SECONDS):
            out, error = await process.communicate(text)
    except TimeoutError:
        raise ToolError("TIMEOUT", "filter took too long. Use a simpler one.") from None
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode == 2:
        raise ToolError("INVALID_PARAM", f"{_reason(error.decode('utf-8', 'replace') or 'bad filter')}.")
    return out.decode("utf-8", "replace")


def relative_name(ctx: ToolContext, path: Path) -> str:
    """A path the way other tools take it back: relative to the working directory where it lies below, else whole."""
    return str(path.relative_to(ctx.state.cwd)) if path.is_relative_to(ctx.state.cwd) else str(path)


def path_label(ctx: ToolContext, path: Path) -> str:
    """The same, as it may stand in a sentence."""
    return printable_name(relative_name(ctx, path))


def printable_name(name: str) -> str:
    """A file name as text that can be printed and stored, whatever bytes it holds."""
    return plain(name.encode("utf-8", "backslashreplace").decode()).replace("\n", "\\n")


def require_path(ctx: ToolContext, given: str) -> Path:
    """The resolved path, or NOT_FOUND with the nearest names."""
    path = ctx.resolve(given)
    if not os.path.lexists(path):
        raise missing(ctx, path)
    return path


async def _start(
    arguments: list[str], cwd: Path, *, stdin: int = asyncio.subprocess.DEVNULL
) -> asyncio.subprocess.Process:
    environ = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}  # nothing of the user's environment steers a search
    try:
        if not program():
            raise FileNotFoundError
        return await spawn.start_piped(program(), *arguments, environ=environ, cwd=cwd, stdin=stdin)
    except FileNotFoundError as error:
        raise ToolError("EXECUTION_ERROR", _MISSING) from error
    except OSError as error:
        if error.errno == errno.E2BIG:
            raise ToolError("INVALID_PARAM", "That is too long to search for. Search for a part of it.") from error
        raise ToolError("EXECUTION_ERROR", f"ripgrep could not be started: {error.strerror}.") from error


def _reason(text: str) -> str:
    """rg's complaint in one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        if line.startswith("error: "):
            return f"pattern is not a regular expression: {line.removeprefix('error: ').rstrip('.')}"
    return plain(lines[0].removeprefix("rg: ").rstrip("."))[:_REASON]


# ---------------------------------------------------------------- globs
# rg's own `-g` is not used to include files: a match there beats .gitignore, and `**/*` would bring node_modules back.

_MAX_GLOB = 4_096
_MAGIC = re.compile(r"[*?\[\]{}\\]")
_TOKEN = re.compile(
    r"(?:(?<=[/{,])|^)\*\*/|\*\*|\[(?P<negated>[!^]?+)(?P<members>.[^]]*)\]|\\(?P<escaped>.)|.", re.DOTALL
)
_WILD = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


@frozen
class GlobPlan:
    """A glob, taken apart."""

    prefix: str  # the leading folders without wildcards
    name: str  # a glob every file's name matches; empty: any name
    regex: re.Pattern[str]  # for the path below `prefix`

    def accepts(self, path: str) -> bool:
        """Whether a whole path fits."""
        head = f"{self.prefix}/" if self.prefix else ""
        return path.startswith(head) and self.regex.fullmatch(path[len(head) :]) is not None


def plan_glob(glob: str) -> GlobPlan:
    """Take a glob apart. Without a slash it names files at any depth, as in .gitignore."""
    glob = os.path.expanduser(glob.strip())
    if not glob:
        raise ToolError("INVALID_PARAM", "pattern is empty. Give a glob such as **/*.py.")
    try:
        re.compile(translate(glob))
    except (ValueError, re.error) as error:
        raise ToolError("INVALID_PARAM", f"pattern is not a glob: {error}.") from error
    if glob.endswith("/"):
        glob += "**"
    parts = split_glob(glob.removeprefix("./"), "/")
    prefix: list[str] = []
    while len(parts) > 1 and not _MAGIC.search(parts[0]):
        prefix.append(parts.pop(0))
    if not prefix and len(parts) == 1:
        parts.insert(0, "**")
    name = "" if parts[-1] in ("*", "**") else parts[-1]
    folder = "/".join(prefix) or ("/" if prefix else "")
    return GlobPlan(folder, name, re.compile(translate("/".join(parts)), re.DOTALL))


def name_options(globs: list[str]) -> list[str]:
    """Options that keep rg to files of these names, without overruling .gitignore."""
    return [*(f"--type-add=cowork:{glob}" for glob in globs), "-tcowork"] if all(globs) and globs else []


def split_glob(text: str, separators: str) -> list[str]:
    """Split at separators that stand outside braces and brackets."""
    parts, depth, start, i = [], 0, 0, 0
    while i < len(text):
        char = text[i]
        if char in separators and depth == 0:
            parts.append(text[start:i])
            start = i + 1
        depth += (char == "{") - (char == "}" and depth > 0)
        i += 2 if char == "\\" else 1
    return [*parts, text[start:]]


def translate(glob: str) -> str:
    """The regular expression of a glob: `*` and `?` stay within a folder, `**` does not, `{a,b}` is either."""
    if len(glob) > _MAX_GLOB:
        raise ValueError(f"a glob has at most {_MAX_GLOB:,} characters")
    out, depth = "", 0
    for token in _TOKEN.finditer(glob):
        text, negated, members, escaped = token.group(0, "negated", "members", "escaped")
        if members:
            body = re.escape(members).replace(r"\-", "-")
            out += f"[{'^' if negated else ''}{body}]"
        elif escaped:
            out += re.escape(escaped)
        elif text == "{" or (text == "}" and depth):
            out += "(?:" if text == "{" else ")"
            depth += 1 if text == "{" else -1
        elif text == "," and depth:
            out += "|"
        else:
            out += _WILD.get(text) or re.escape(text)
    if depth:
        raise ValueError(f"error parsing glob '{glob}': unclosed alternate group; missing '}}'")
    return out
