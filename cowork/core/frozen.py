"""Frozen dataclasses that cost nothing until they are used.

`dataclass` writes and compiles six methods a class, about half a millisecond each; a run imports some ninety classes
and makes instances of a third of them. Here the standard decorator does its work when the first instance is made.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")
_LATER, _INIT = "__frozen_later__", "__init__"
_waiting: list[type[Any]] | None = []  # None: nothing waits any more
_FINISHING = threading.Lock()


@overload
def frozen(cls: type[T]) -> type[T]: ...
@overload
def frozen(*, kw_only: bool = False) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def frozen(cls: type[T] | None = None, *, kw_only: bool = False) -> Any:
    """Like `dataclass(frozen=True)`, later."""

    def defer(cls: type[T]) -> type[T]:
        def first(self: Any, *args: Any, **given: Any) -> None:
            _finish(type(self))
            self.__init__(*args, **given)

        setattr(cls, _INIT, first)
        setattr(cls, _LATER, {"kw_only": kw_only})
        if _waiting is None:
            _finish(cls)
        else:
            _waiting.append(cls)
        return cls

    return defer if cls is None else defer(cls)


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
        later = base.__dict__.get(_LATER)
        if later is not None:
            delattr(base, _LATER)
            delattr(base, _INIT)
            dataclasses.dataclass(frozen=True, **later)(base)
