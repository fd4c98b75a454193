"""Frozen dataclasses that cost nothing until they are used.

`dataclass` writes and compiles six methods a class, about half a millisecond each; a run imports some ninety classes
and makes instances of a third of them. Here the standard decorator does its work when the first instance is made.
"""

from __future__ import annotations

import dataclasses
import threading
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")
_LATER, _INIT = "__frozen_later__", "__init__"
_waiting: list[type[Any]] | None = []  # None: nothing waits any more
_FINISHING = threading.Lock()


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def frozen(cls: type[T]) -> type[T]:
    """Like `dataclass(frozen=True)`, later."""

    def first(self: Any, *args: Any, **given: Any) -> None:
        _finish(type(self))
        self.__init__(*args, **given)

    setattr(cls, _INIT, first)
    setattr(cls, _LATER, True)
    if _waiting is None:
        _finish(cls)
    else:
        _waiting.append(cls)
    return cls


def finish_all() -> None:
    """Finish every class now and from now on when it is made: a thread must not meet one that another finishes."""
    global _waiting
    with _FINISHING:
        waiting, _waiting = _waiting or (), None
        for cls in waiting:
            _finish(cls)


def _finish(cls: type[Any]) -> None:
    """Let `dataclass` do its work, on what a class inherits first."""
    for base in reversed(cls.__mro__):
        if _LATER in base.__dict__:
            delattr(base, _LATER)
            delattr(base, _INIT)
            dataclasses.dataclass(frozen=True)(base)
