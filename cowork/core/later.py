"""Modules that are loaded when they are first used, so that a run loads what it needs and no more.

A type checker is shown the import itself:

    if TYPE_CHECKING:
        from cowork.tools.files.notebook import cells
    else:
        cells = later("cowork.tools.files.notebook", "cells")
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar, cast

T = TypeVar("T")


def later(module: str, name: str = "") -> Any:
    """A module, or a function or class of it to be called, that is loaded when it is first used."""
    return _Later(module, name)


class _Later:
    def __init__(self, module: str, name: str) -> None:
        self.__module, self.__name = module, name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self.__found(), attribute)

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self.__found()(*args, **options)

    def __found(self) -> Any:
        module = import_module(self.__module)
        return getattr(module, self.__name) if self.__name else module


def made_later(make: Callable[[], T]) -> T:
    """An object that is made when it is first used; `make` gives the same one each time."""
    return cast(T, _MadeLater(make))


class _MadeLater:
    def __init__(self, make: Callable[[], object]) -> None:
        self.__make = make

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self.__make(), attribute)
