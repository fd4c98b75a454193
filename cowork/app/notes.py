"""What a person should know before the first prompt."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping

from cowork.config.load import Config

NO_KEY = "no key was found"  # how the configuration explains that it chose the offline model


def notes(config: Config, environ: Mapping[str, str]) -> tuple[str, ...]:
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
