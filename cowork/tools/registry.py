"""All tools in the order models see them."""

from __future__ import annotations

from cowork.tools.base import Tool
from cowork.tools.bash import bash, bash_output, kill_bash
from cowork.tools.edit import edit, multi_edit
from cowork.tools.glob import glob
from cowork.tools.grep import grep
from cowork.tools.ls import ls
from cowork.tools.read import read
from cowork.tools.task import subagent, task
from cowork.tools.todo import todo_write
from cowork.tools.write import write

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
