"""Tool calls of Chat Completions, put together from the pieces servers really send."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from cowork.core.blocks import Json, ToolUse
from cowork.providers.codecs.base import dump, load_arguments


@dataclass(slots=True)
class _Call:
    index: int | None
    id: str
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    extra: Any = None  # what a service wants back with the call, such as a signature

    @property
    def began(self) -> bool:
        return any(self.arguments)

    @property
    def complete(self) -> bool:
        """Whether its arguments are whole, so that another name must mean another call."""
        try:
            json.loads("".join(self.arguments))
        except (ValueError, RecursionError):
            return False
        return True


class CallPieces:
    """Collects pieces by index, by id, or, where a server gives neither, by what came before."""

    def __init__(self, turn: int) -> None:
        self._turn = turn  # makes ids for servers that give none, new ones each turn
        self._calls: list[_Call] = []

    def add(self, piece: Json) -> str:
        """Take a piece in; gives the text it adds, for show."""
        function = piece.get("function") or {}
        name, arguments = function.get("name") or "", function.get("arguments")
        call = self._owner(piece.get("index"), piece.get("id") or "", name)
        shown = name if name and not call.name else ""
        _extend_name(call, name)
        call.extra = piece.get("extra_content") or call.extra
        if isinstance(arguments, str):
            call.arguments.append(arguments)
            return shown + arguments
        if arguments is not None:
            call.arguments = [dump(arguments).decode()]
        return shown

    @property
    def extras(self) -> list[Any]:
        """What came beside each call, in their order; empty when nothing did."""
        found = [call.extra for call in self._calls if call.name]
        return found if any(found) else []

    def close(self) -> list[ToolUse]:
        """The calls, each with an id of its own."""
        made: list[ToolUse] = []
        used: set[str] = set()
        for n, call in enumerate(call for call in self._calls if call.name):
            arguments, malformed = load_arguments("".join(call.arguments))
            id = call.id or f"call_{self._turn}_{n}"
            while id in used:
                id += "_2"
            used.add(id)
            made.append(ToolUse(id, call.name, arguments, malformed))
        return made

    def _owner(self, index: Any, id: str, name: str) -> _Call:
        """The call a piece belongs to, begun if it is a new one."""
        index = index if isinstance(index, int) else None
        if index is not None:
            found = next((call for call in reversed(self._calls) if call.index == index), None)
        elif id:
            found = next((call for call in reversed(self._calls) if call.id == id), None)
        else:
            found = self._calls[-1] if self._calls else None
        if found is not None and not _is_another(found, id, name):
            found.id = found.id or id
            return found
        call = _Call(index, id)
        self._calls.append(call)
        return call


def _is_another(call: _Call, id: str, name: str) -> bool:
    """Whether a piece that seems to go on with a call starts the next one."""
    if id and call.id:
        return id != call.id
    return bool(name and call.name and call.complete)


def _extend_name(call: _Call, name: str) -> None:
    if not call.name:
        call.name = name
    elif name and name != call.name and not call.began:
        call.name = name if name.startswith(call.name) else call.name + name
