"""The tools cowork brings, in the order models see them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Protocol

from cowork.tools.ask import ask_user, exit_plan
from cowork.tools.base import Tool
from cowork.tools.files.edit import edit, multi_edit, write
from cowork.tools.files.read import read
from cowork.tools.search.files import glob, ls
from cowork.tools.search.grep import grep
from cowork.tools.shell.bash import bash, bash_output, kill_bash
from cowork.tools.task import subagent, task
from cowork.tools.todo import todo_write
from cowork.tools.toolset import ToolSet
from cowork.tools.web.tools import service_search, web_fetch, web_search

_FIXED = (
    read, write, edit, multi_edit, grep, glob, ls, bash, bash_output, kill_bash, todo_write, task, subagent, ask_user,
)  # fmt: skip


class WebSettings(Protocol):
    """What `[web]` of the configuration says."""

    @property
    def fetch(self) -> bool: ...
    @property
    def private_hosts(self) -> Collection[str]: ...
    @property
    def search(self) -> str: ...
    @property
    def search_url(self) -> str: ...


def builtin_tools(
    text: Callable[[str], str], web: WebSettings | None = None, search_key: str = "", *, service_searches: bool = False
) -> ToolSet:
    """The tools with their descriptions; `text` gives the text of prompts/<name>.md.

    `service_searches`: the model service is known to search the web itself.
    """
    tools = [*_FIXED]
    if web is None or web.fetch:
        tools.append(web_fetch(web.private_hosts if web else ()))
    if web and (web.search == "searxng" or (web.search == "brave" and search_key)):
        tools.append(web_search(web.search, web.search_url, search_key))
    elif web and (web.search == "model" or (service_searches and not web.search)):
        tools.append(service_search())
    return ToolSet(replace(tool, description=text(f"tools/{tool.name}")) for tool in tools)


def plan_tool(text: Callable[[str], str]) -> Tool:
    """ExitPlan, which joins the tools of the main agent when plan mode is first on: nobody else pays for it."""
    return replace(exit_plan, description=text(f"tools/{exit_plan.name}"))
