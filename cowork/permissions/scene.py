"""Where a call is judged: the folders of the run, trust, and which boxes hold commands here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from cowork.core.frozen import frozen
from cowork.core.workspace import Workspace
from cowork.permissions.rules import Rule

PLAN = (
    "plan mode is read-only. Look around with the tools that read, then present your plan as text"
    " and let the user leave plan mode"
)


@frozen
class Situation:
    """What a judgement knows beside the call. `boxes`: both, the read box only, or none work on this system."""

    workspace: Workspace
    trusted: bool = False
    boxes: Literal["both", "read", ""] = ""
    network: bool = False  # the write box has the network, so that nothing runs there unasked
    hides_git: Callable[[Path], str] = lambda cwd: ""  # the tracked secret for which git's objects are hidden inside
    refusal: str = ""  # why no command may run at all
    given: tuple[str, ...] = ()  # paths as the model wrote them, before links were followed
    exact: frozenset[str] = frozenset()  # texts granted as they were shown
    granted: frozenset[Rule] = frozenset()  # rules of a dialog, which hold for a program as it was then
    changed: Callable[[Path], bool] = lambda path: False  # whether a granted program is another by now
