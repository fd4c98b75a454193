"""Agents of folders, found as a run finds them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from cowork.agents import Agents
from cowork.core.ports import AgentOrigin
from cowork.extensions.finder import ExtensionFolder, find


def load_agents(*places: tuple[AgentOrigin, Path], known_tools: Collection[str] = ()) -> Agents:
    """Those in the folders `agents` of these."""
    return find([ExtensionFolder(origin, folder) for origin, folder in places], Path("/data"), known_tools).agents
