"""All tools in the order models see them."""

from __future__ import annotations

from cowork.tools.base import Tool
from cowork.tools.files.edit import edit, multi_edit
from cowork.tools.files.read import read
from cowork.tools.files.write import write
from cowork.tools.search.glob import glob
from cowork.tools.search.grep import grep
from cowork.tools.search.ls import ls
from cowork.tools.shell.bash import bash, bash_output, kill_bash
from cowork.tools.task import subagent, task
from cowork.tools.todo import todo_write

TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        read,
        write,
        edit,
        multi_edit,
        grep,
        glob,
        ls,
        bash,
        bash_output,
        kill_bash,
        todo_write,
        task,
        subagent,
    )
}

READ_ONLY = ("LS", "Glob", "Grep", "Read", "TodoWrite")
DELEGATES = frozenset({"Task", "subagent"})
