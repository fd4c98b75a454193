"""The tools cowork brings, in the order models see them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from cowork.tools.ask import ask_user
from cowork.tools.base import Tool
from cowork.tools.files.edit import edit, multi_edit, write
from cowork.tools.files.read import read
from cowork.tools.search.files import glob, ls
from cowork.tools.search.grep import grep
from cowork.tools.shell.bash import bash, bash_output, kill_bash
from cowork.tools.task import subagent, task
from cowork.tools.todo import todo_write
from cowork.tools.toolset import ToolSet
from cowork.tools.web.tools import web_fetch

_FIXED = (
    read, write, edit, multi_edit, grep, glob, ls, bash, bash_output, kill_bash, todo_write, task, subagent, ask_user,
)  # fmt: skip


def builtin_tools(text: Callable[[str], str], web: Iterable[Tool] | None = None) -> ToolSet:
    """The tools with their descriptions; `text` gives the text of prompts/<name>.md, `web` are those for the web."""
    tools = (*_FIXED, *((web_fetch(()),) if web is None else web))
    return ToolSet(replace(tool, description=text(f"tools/{tool.name}")) for tool in tools)
