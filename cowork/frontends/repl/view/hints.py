"""Hints name the command of the place: what a shell user runs as `cowork doctor` is `/doctor` in the chat."""

from __future__ import annotations

_HERE = {
    "/model or `cowork config init`": "/login or /model",
    "`cowork doctor`": "/doctor",
    "`cowork config init`": "/model",
    "`cowork sessions list`": "/resume",
    "`cowork config show`": "/config",
    "`cowork agents list`": "/agents",
}


def in_chat(text: str) -> str:
    """A hint with the slash commands that do the same."""
    for shell, here in _HERE.items():
        text = text.replace(shell, here)
    return text
