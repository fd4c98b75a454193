"""Joins MCP servers to a run: where they are configured, how they are started, what the model gets of them."""

from __future__ import annotations

from cowork.app.project import Project
from cowork.config import paths
from cowork.core.git import project_root


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
