"""Where a run takes place: the folder, whether it is trusted, the configuration and the agents."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cowork import prompts
from cowork.agents import Agents, load_agents
from cowork.app import logs
from cowork.app.run import folder_of
from cowork.app.trust import is_trusted
from cowork.config import paths
from cowork.config.load import Config, load
from cowork.config.options import RunOptions
from cowork.core.errors import UserError
from cowork.core.frozen import frozen
from cowork.core.ports import AgentOrigin
from cowork.tools.registry import TOOLS


@frozen
class Place:
    """Where a run takes place and what was settled about it."""

    options: RunOptions
    environ: Mapping[str, str]
    root: Path
    trusted: bool
    config: Config
    agents: Agents


def look_around(options: RunOptions, environ: Mapping[str, str]) -> Place:
    """The folder, whether it is trusted, the configuration and the agents."""
    root = folder_of(options)
    for folder in options.add_dirs:
        if not Path(folder).expanduser().is_dir():
            raise UserError(f"{folder} is not a folder.", "Give --add-dir a folder that tools may use.")
    trusted = not options.bare and (options.trust or is_trusted(root, environ))
    config = load(
        cwd=root,
        environ=environ,
        flags=options.flags(),
        config_file=options.config_file,
        trusted=trusted,
        bare=options.bare,
    )
    logs.set_up(config.log.level, config.log.file)
    agents = load_agents(agent_folders(root, environ, trusted=trusted, bare=options.bare), tuple(TOOLS))
    return Place(options, environ, root, trusted, config, agents)


def agent_folders(
    root: Path, environ: Mapping[str, str], *, trusted: bool, bare: bool
) -> list[tuple[AgentOrigin, Path]]:
    """Where agent files are, weakest first; those of a project only when it is trusted."""
    folders: list[tuple[AgentOrigin, Path]] = [("shipped", prompts.data_root() / "agents")]
    if not bare:
        folders += [("user", paths.home(environ) / ".claude" / "agents"), ("user", paths.agents_dir(environ))]
    if trusted and not bare:
        folders += [("project", root / ".claude" / "agents"), ("project", root / ".cowork" / "agents")]
    return folders
