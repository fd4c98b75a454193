"""The composition root: the only part that knows everyone. It joins configuration, models, tools and front ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cowork.config.options import RunOptions


def run_once(options: RunOptions) -> int:
    """Answer one prompt and end; gives the exit code."""
    from cowork.app import once

    return once.run_once(options)


def chat(options: RunOptions) -> int:
    """Talk until the person leaves; gives the exit code."""
    from cowork.app.chat import start

    return start.chat(options)
