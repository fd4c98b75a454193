"""Where a run takes place: the folder, whether it is trusted, and all that steers the run there."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cowork import prompts
from cowork.agents import Agents
from cowork.app.extend.invoke import Invoker
from cowork.app.steering import Places, is_trusted_now, places
from cowork.config import paths
from cowork.config.load import Config, load
from cowork.config.run_options import RunOptions
from cowork.core.errors import UserError
from cowork.core.frozen import frozen
from cowork.core.git import branch_of, project_root
from cowork.core.hooks import Hooks
from cowork.core.ports import AgentDef, Decision, Effect, ToolFacts, ToolSpec
from cowork.engine.assembly import Rights, with_agents
from cowork.permissions.rules import parse, path_matches
from cowork.tools.base import Tool
from cowork.tools.builtin import builtin_tools
from cowork.tools.toolset import ToolSet
from cowork.tools.web.tools import service_search, web_fetch, web_search

NO_KEY = "no key was found"  # how the configuration explains that it chose the offline model
_SEARCHERS = {"anthropic": "api.anthropic.com", "openai": "api.openai.com"}  # wire format: the service that searches


@frozen
class Additions:
    """What a program brings to a run beside its options."""

    tools: Sequence[Tool] = ()
    agents: Sequence[AgentDef] = ()
    hooks: Hooks = field(default_factory=Hooks)


@frozen
class Project:
    """Where a run takes place and what was settled about it."""

    options: RunOptions
    environ: Mapping[str, str]
    root: Path
    trusted: bool
    config: Config
    tools: ToolSet  # all there are, whether or not the configuration leaves them
    invoker: Invoker  # of skills and commands; holds all extensions that were found
    notes: tuple[Path, ...]  # the AGENTS.md files
    knowledge: str  # what they say

    @property
    def branch(self) -> str:
        """The one checked out now: commands change it."""
        return branch_of(self.root)

    @property
    def agents(self) -> Agents:
        return self.invoker.extensions.agents


class Unjudged:
    """Allows everything: the person is the one who acts."""

    def judge(self, agent: str, tool: ToolFacts, args: Mapping[str, Any], effects: Sequence[Effect]) -> Decision:
        return Decision("allow")

    def forbids(self, tool: ToolFacts) -> bool:
        return False

    def grant(self, agent: str, rule: str, *, forever: bool) -> None:
        return None


def load_project(options: RunOptions, environ: Mapping[str, str], added: Additions | None = None) -> Project:
    """The folder, whether it is trusted, the configuration, the agents and the notes."""
    root = folder_of(options)
    for folder in options.add_dirs:
        if not Path(folder).expanduser().is_dir():
            raise UserError(f"{folder} is not a folder.", "Give --add-dir a folder that tools may use.")
    added = added or Additions()
    project = _look(options, environ, root, added, trusted=is_trusted_now(root, options, environ))
    if project.trusted and not is_trusted_now(root, options, environ):  # something changed while it was read
        project = _look(options, environ, root, added, trusted=False)
    return project


def folder_of(options: RunOptions) -> Path:
    """The folder to work in."""
    given = options.cwd or paths.here()
    root = Path(os.path.realpath(os.path.expanduser(given)))
    if not root.is_dir():
        raise UserError(f"{given} is not a folder.", "Give --cwd the folder to work in.")
    return root


def _look(options: RunOptions, environ: Mapping[str, str], root: Path, added: Additions, *, trusted: bool) -> Project:
    """All that steers, read at once, so that nothing is used later that was not there when trust was looked at."""
    config = load_config(options, environ, root, trusted=trusted)
    key = environ.get(config.web.search_key_env, "")
    tools = builtin_tools(prompts.text_of, web_tools(config, key, service_searches=_searches(config, options)))
    for tool in added.tools:
        if tool.name in tools:
            raise UserError(f"There is already a tool {tool.name!r}.", "Give yours another name.")
        tools.add(tool)

    def look_again() -> Places:
        return places(root, environ, trusted=trusted and is_trusted_now(root, options, environ), bare=options.bare)

    here = places(root, environ, trusted=trusted, bare=options.bare)
    invoker = Invoker(here, look_again, tools, root, shipped=config.skills.shipped, agents=added.agents)
    if skill := invoker.tool():
        tools.add(skill)
    user = None if options.bare else paths.config_dir(environ)
    notes = prompts.knowledge_files(root, user, trusted=trusted, names=config.knowledge.files)
    denied = [rule for rule in map(parse, config.permissions.deny) if rule.pattern and rule.speaks_of("read")]

    def tellable(path: Path) -> bool:
        return not any(path_matches(rule, path, root, fold=True) for rule in denied)

    knowledge = prompts.knowledge(notes, config.knowledge.max_bytes, tellable)
    return Project(options, environ, root, trusted, config, tools, invoker, tuple(notes), knowledge)


def web_tools(config: Config, key: str, *, service_searches: bool) -> list[Tool]:
    """Those for the web; `service_searches`: the model service is known to search it itself."""
    web = config.web
    tools = [web_fetch(web.private_hosts)] if web.fetch else []
    if web.search == "searxng" or (web.search == "brave" and key):
        tools.append(web_search(web.search, web.search_url, key))
    elif web.search == "model" or (service_searches and not web.search):
        tools.append(service_search())
    return tools


def _searches(config: Config, options: RunOptions) -> bool:
    """Whether the service of the main model is one that is known to search the web."""
    with suppress(UserError):  # a model without its key fails when it is opened
        spec = config.model(options.model or "main")
        known = _SEARCHERS.get(spec.provider)
        return known is not None and urlsplit(spec.base_url).hostname in (None, known)
    return False


def load_config(options: RunOptions, environ: Mapping[str, str], root: Path, *, trusted: bool) -> Config:
    """The configuration in force for a run in the folder."""
    return load(
        cwd=root,
        environ=environ,
        flags=options.flags(),
        config_file=options.config_file,
        trusted=trusted,
        bare=options.bare,
    )


def offered_specs(project: Project) -> tuple[ToolSpec, ...]:
    """All tools as a model would be told of them, with the agents that could be sent out."""
    offered = Rights("main", project.tools, Unjudged()).offers(project.agents, project.config.agent.subagent)
    return with_agents(project.tools, offered)


def start_notes(config: Config, environ: Mapping[str, str]) -> tuple[str, ...]:
    """What a person should know at the start: that there is no model, or no box for commands, and what to do."""
    told = []
    if config.models.main.provider == "offline" and config.origin("models.main.provider") == NO_KEY:
        told.append(
            "no model key found: running on the built-in offline model (search only). "
            "/model or `cowork config init` sets one up"
        )
    if config.sandbox.auto_allow:
        told.append('sandbox.auto_allow is the mode auto now: write permissions.mode = "auto" instead')
    linux = sys.platform.startswith("linux") and config.sandbox.mode == "auto"
    if linux and shutil.which("bwrap", path=environ.get("PATH", "")) is None:
        told.append("bubblewrap is not installed, so commands ask more often: install bwrap; `cowork doctor` says more")
    return tuple(told)


def any_servers(place: Project) -> bool:
    """Whether servers are configured for a run; without any, nothing more is loaded."""
    options, config = place.options, place.config
    if options.mcp_config or options.mcp_servers or config.mcp_servers or place.invoker.extensions.servers:
        return True
    if any(definition.own_servers for definition in place.agents.values()):
        return True
    files = [] if place.options.bare else [paths.config_dir(place.environ) / "mcp.json"]
    files += [project_root(place.root) / ".mcp.json"] if place.trusted else []
    return any(file.exists() for file in files)
