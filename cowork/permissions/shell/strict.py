"""What runs unasked where no box holds commands: literal words of a short list, with exact flags, inside the workspace.

A flag is left out when it writes, runs a program, follows links or never ends. A program that reads its words in a way
of its own is left out whole, and so is git, which runs what a repository's configuration says.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from cowork.core.errors import ToolError
from cowork.core.frozen import frozen
from cowork.core.workspace import Workspace, sensitive
from cowork.permissions.shell.parse import SimpleCommand, Word, names


@frozen
class Shape:
    """The letters a command may have as flags, long flags, those with a number, and what its operands are."""

    letters: str = ""
    long: tuple[str, ...] = ()
    numbers: str = ""  # letters that take a number, also as the next word
    operands: str = "paths"  # paths | pattern (one text, then paths) | text | none
    least: int = 0


_LIST: dict[str, Shape] = {
    "ls": Shape("laAhtrS1dFinosp", ("--color=never", "--all")),
    "cat": Shape("nbAEsTv", least=1),
    **dict.fromkeys(("head", "tail"), Shape("qv", numbers="nc", least=1)),
    "wc": Shape("lwcmL", least=1),
    "grep": Shape("nilLcvwxEFohHsq", numbers="mABC", operands="pattern", least=2),
    "file": Shape("b", least=1),
    "du": Shape("shac", least=1),
    "sort": Shape("nrufb", least=1),
    **dict.fromkeys(names("nl stat md5sum sha256sum realpath"), Shape(least=1)),
    **dict.fromkeys(names("basename dirname"), Shape(operands="text", least=1)),
    **dict.fromkeys(names("pwd whoami true false date cut"), Shape(operands="none")),
    "uniq": Shape("cdui", operands="none"),
    "uname": Shape("asrmn", operands="none"),
    "echo": Shape("n", operands="text"),
}
_FILTERS = names("head tail wc nl sort cat grep")  # which may also read a pipe


def only_reads(commands: Sequence[SimpleCommand], cwd: Path, workspace: Workspace) -> str:
    """Empty when all these commands are known to change nothing, else why not."""
    for command in commands:
        if why := _one(command, cwd, workspace):
            return why
    return "" if commands else "it is empty"


def _one(command: SimpleCommand, cwd: Path, workspace: Workspace) -> str:
    name = command.words[0].text
    shape = _LIST.get(name)
    if shape is None:
        return f"{name} is not one of the commands that run unasked without a sandbox"
    if why := _program(name, workspace):
        return why
    operands: list[Word] = []
    rest = list(command.words[1:])
    while rest:
        word = rest.pop(0)
        if not word.literal:
            return f"{word.text} is a pattern"
        number = re.fullmatch(rf"-[{shape.numbers or '0'}]([0-9]{{1,9}})?|-[0-9]{{1,9}}", word.text)
        if number and shape.numbers:
            if number.group(1) is None and not word.text[1:].isdigit():
                value = rest.pop(0).text if rest else ""
                if not re.fullmatch(r"[0-9]{1,9}", value):
                    return f"{name} {word.text} without a plain number"
        elif word.text.startswith("-") and len(word.text) > 1:
            if not (set(word.text[1:]) <= set(shape.letters) or word.text in shape.long):
                return f"{name} {word.text} is not one of the flags that run unasked without a sandbox"
        else:
            operands.append(word)
    piped = command.after == "|" and name in _FILTERS
    if len(operands) < shape.least - piped or (operands and shape.operands == "none"):
        return f"{name} with these operands"
    odd = next((word.text for word in operands if word.text[:1] in "+@" or re.search(r"[{}]", word.text)), "")
    if odd and shape.operands != "text":
        return f"{name} may take {odd} for more than a name"
    paths = {"paths": operands, "pattern": operands[1:]}.get(shape.operands, [])
    return next((why for word in (*paths, *command.reads) if (why := _path(word.text, cwd, workspace))), "")


def _path(text: str, cwd: Path, workspace: Workspace) -> str:
    try:  # by ./ a name such as ~ or file:///x stays the name it is to the program
        where = workspace.resolve(text if text.startswith("/") else f"./{text}", cwd)
    except ToolError as error:
        return error.text
    if not workspace.may_read(where):
        return f"{text} is outside the workspace"
    if sensitive(where) or sensitive(Path(text)):
        return f"{text} may hold secrets"
    if where.exists() and not (where.is_file() or where.is_dir()):
        return f"{text} is a pipe, a socket or a device"
    return ""


def _program(name: str, workspace: Workspace) -> str:
    """Why a program of this name is not the one it is known to be: the workspace brings its own."""
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        found = os.path.join(os.getcwd(), folder, name)
        if os.path.lexists(found):
            real = Path(os.path.realpath(found))
            own = not os.path.isabs(folder) or any(real.is_relative_to(root) for root in workspace.writable)
            return f"{name} would be run from the workspace" if own else ""
    return ""
