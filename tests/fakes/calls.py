"""The tools cowork brings, and the events their calls make, for tests that need no run."""

from __future__ import annotations

from typing import Any

from cowork import prompts
from cowork.core.blocks import Json
from cowork.core.events import ToolStarted
from cowork.core.frozen import frozen
from cowork.core.ports import Family
from cowork.tools.base import call_line
from cowork.tools.builtin import builtin_tools

TOOLS = builtin_tools(prompts.text_of)


@frozen
class Facts:
    """What permissions know of a tool that somebody else wrote."""

    name: str
    family: Family = "other"
    reads: bool = False


def started(tool_use_id: str, name: str, given: Json, *, cwd: str = "", **envelope: Any) -> ToolStarted:
    """The start of a call, as a run tells it."""
    tool = TOOLS.get(name)
    line = tool.line(given, cwd) if tool else call_line(given)
    return ToolStarted(tool_use_id, name, given, tool.family if tool else "other", line, **envelope)
