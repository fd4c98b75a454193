"""Where the tasks of a flow run."""

from __future__ import annotations

from cowork.api.session import Session
from cowork.config.options import RunOptions
from cowork.core.errors import UserError
from cowork.flows.flow import Executor, InSession


def open_executor(on: str, session: Session, options: RunOptions, jobs: int) -> Executor:
    """The executor for `here`, `local[:N]` or `dask:ADDRESS`."""
    if on == "here":
        return InSession(session)
    raise UserError(f"--on {on}: there is no such place.", "Use here, local:4 or dask:tcp://HOST:8786.")
