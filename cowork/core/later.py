"""Modules that are loaded when they are first used, so that a run loads what it needs and no more."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from threading import RLock
from typing import Any, TypeVar, cast

T = TypeVar("T")
_turn = RLock()  # two threads must not put back each other's `__import__`; nothing is loaded while one has it


@contextmanager
def later(module: str) -> Iterator[None]:
    """Put off the imports of a block until a name of theirs is called, or asked for something:

    with later(__name__):
        from cowork.tools.files.media import cells

    Type checkers and import-linter see imports as any other. What is imported stands for a module, a function or a
    class to be called; it is not for `isinstance`, or to be inherited from.
    """
    open = True

    def put_off(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        if open and fromlist and globals is not None and globals.get("__name__") == module:
            return _Names(name)
        return load(name, globals, locals, fromlist, level)  # of a thread that imports something else meanwhile

    with _turn:
        load, builtins.__import__ = builtins.__import__, put_off
        try:
            yield
        finally:
            builtins.__import__, open = load, False


class _Names:
    """A module before it is loaded: it has every name."""

    def __init__(self, module: str) -> None:
        self.__module = module

    def __getattr__(self, name: str) -> Any:
        return make_later(lambda: _load(self.__module, name))


def _load(module: str, name: str) -> Any:
    loaded = import_module(module)
    try:
        return getattr(loaded, name)
    except AttributeError:  # a module of a package
        return import_module(f"{module}.{name}")


def make_later(make: Callable[[], T]) -> T:
    """An object that is made when it is first used; `make` gives the same one each time."""
    return cast(T, _Later(make))


class _Later:
    def __init__(self, make: Callable[[], Any]) -> None:
        self.__make = make

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self.__make(), attribute)

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self.__make()(*args, **options)
