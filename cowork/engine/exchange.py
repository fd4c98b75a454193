"""What an agent is told, and how its answer ended."""

from __future__ import annotations

from dataclasses import dataclass, field

from cowork.core.blocks import Image, Json, Usage
from cowork.core.events import PromptAdded
from cowork.core.frozen import frozen


@dataclass(slots=True)
class Prompt:
    """What somebody says to an agent."""

    text: str
    context: str = ""
    images: tuple[Image, ...] = ()
    source: str = "user"
    label: str = ""
    attached: tuple[str, ...] = ()

    def event(self) -> PromptAdded:
        return PromptAdded(self.text, self.context, self.images, self.source, self.label, self.attached)


@frozen
class Outcome:
    """How the answer to one prompt ended; `reason` is SPEC's terminal_reason."""

    reason: str
    text: str
    turns: int
    usage: Usage
    cost_usd: float | None
    error: Json = field(default_factory=dict)
    denied: tuple[str, ...] = ()  # tools that were refused right before the final answer
    early: bool = False  # somebody asked it to finish, so it reported before it was done
    cut: str = ""  # why the answer is not whole
