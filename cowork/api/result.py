"""The result of one answer."""

from __future__ import annotations

from dataclasses import field
from typing import Generic, TypeVar

from cowork.core.blocks import Json, Usage
from cowork.core.frozen import frozen

T = TypeVar("T")


@frozen
class Result(Generic[T]):
    """One answer: its text, its value under a schema, and what it took. `str(result)` is the text."""

    text: str
    value: T
    reason: str = "completed"  # why it ended, as `terminal_reason` of `--output json`
    session_id: str = ""
    turns: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = None  # None: a price is not known
    error: Json = field(default_factory=dict)

    def __str__(self) -> str:
        return self.text
