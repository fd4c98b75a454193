"""A model around another one: what a wrapper does not change, it passes on."""

from __future__ import annotations

from cowork.core.blocks import Usage
from cowork.core.ports import Provider


class Wrapped:
    """Everything of the inner model but its `stream`, which each wrapper writes itself."""

    def __init__(self, inner: Provider) -> None:
        self.inner = inner

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def model(self) -> str:
        return self.inner.model

    @property
    def context_window(self) -> int:
        return self.inner.context_window

    @property
    def max_output_tokens(self) -> int:
        return self.inner.max_output_tokens

    def price(self, usage: Usage) -> float | None:
        return self.inner.price(usage)

    async def aclose(self) -> None:
        await self.inner.aclose()
