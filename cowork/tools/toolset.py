"""The tools of an agent: an ordered mapping that a run builds, children narrow, and that may grow at its end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from cowork.core.blocks import ToolUse
from cowork.core.ports import Family, ToolSpec
from cowork.tool_names import TOOL_GROUPS, names_tool
from cowork.tools.base import Tool


class ToolSet(Mapping[str, Tool]):
    """Tools by name, in the order a model sees them.

    Tools can be added while agents run, always at the end, so that a cached prompt prefix stays as it is. A set made
    with `only` keeps to the words it was made with: what is added later joins it only if they name it.
    """

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self._aliases: dict[str, str] = {}
        self._specs: tuple[ToolSpec, ...] | None = None
        self._deferred: set[str] = set()
        self._wanted: frozenset[str] | None = None
        self._refused: frozenset[str] = frozenset()
        self._wider: ToolSet | None = None
        for tool in tools:
            self.add(tool)

    def __getitem__(self, name: str) -> Tool:
        return self._tools[self._aliases.get(name, name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    @property
    def all(self) -> ToolSet:
        """Every tool of the run, whether or not this set has it."""
        return self._wider.all if self._wider else self

    @property
    def deferred(self) -> list[Tool]:
        """Tools that can be called and that models are not told of: a search finds them."""
        return [tool for name, tool in self.items() if name in self._deferred]

    def add(self, tool: Tool, *, deferred: bool = False) -> None:
        """Append a tool to this set and to those it was narrowed from; a name is never given twice.

        A deferred one is in no request, except where the words of a list name it.
        """
        if self._wider is not None:
            if self._wider.get(tool.name) is not tool:
                self._wider.add(tool, deferred=deferred)
            if not self._selects(tool) or tool.name not in self._wider:
                return
        if any(name in self for name in (tool.name, *tool.aliases)):
            raise ValueError(f"there is already a tool {tool.name!r}")
        self._tools[tool.name] = tool
        if deferred and not any(word != "*" and matches(word, tool) for word in self._wanted or ()):
            self._deferred.add(tool.name)
        self._aliases |= dict.fromkeys(tool.aliases, tool.name)
        self._specs = None

    def swap(self, tool: Tool) -> None:
        """Put another version of a tool in the place of the one it has, here and in the sets this was narrowed from."""
        if self._wider is not None:
            self._wider.swap(tool)
        self._tools[tool.name] = tool
        self._specs = None

    def only(self, wanted: Iterable[str] | None = None, *, refused: Iterable[str] = ()) -> ToolSet:
        """These tools narrowed to what the words name: tools, aliases, groups, `mcp__server`, `mcp__server__*`, `*`."""
        narrow = ToolSet()
        narrow._wider = self
        narrow._wanted = None if wanted is None else frozenset(wanted)
        narrow._refused = frozenset(refused)
        for tool in self.values():
            if narrow._selects(tool):
                narrow.add(tool, deferred=tool.name in self._deferred)
        return narrow

    def reaching(self, words: Iterable[str], *, exact: bool) -> ToolSet:
        """These tools and those of the whole run that the words name; `exact`: of MCP servers none but those."""
        words = tuple(words)
        found = ToolSet()
        found._wider = self.all
        for name, tool in self.all.items():
            kept = name in self and not (exact and name.startswith("mcp__"))
            if kept or any(matches(word, tool) for word in words):
                found.add(tool, deferred=name in self._deferred)
        return found

    def without(self, family: Family) -> ToolSet:
        """These tools without a family."""
        return self.only(refused=[name for name, tool in self.items() if tool.family == family])

    def specs(self) -> tuple[ToolSpec, ...]:
        """What a model is told of them."""
        if self._specs is None:
            told = (tool for name, tool in self.items() if name not in self._deferred)
            self._specs = tuple(ToolSpec(tool.name, tool.description, tool.schema) for tool in told)
        return self._specs

    def carried_call(self, call: ToolUse) -> ToolUse:
        """The call that a call stands for, where its tool only carries those of others."""
        tool = self.get(call.name)
        name, args = tool.carries(call.input) if tool and tool.carries and not call.malformed else ("", {})
        return replace(call, name=name, input=args) if name else call

    def find_matches(self, word: str) -> list[Tool]:
        """The tools a word of a list stands for."""
        return [tool for tool in self.values() if matches(word, tool)]

    def _selects(self, tool: Tool) -> bool:
        wanted = self._wanted is None or any(matches(word, tool) for word in self._wanted)
        return wanted and not any(matches(word, tool) for word in self._refused)


def matches(word: str, tool: Tool) -> bool:
    """Whether a word of a list of tools stands for this tool, perhaps among others."""
    same = word == "*" or word in tool.aliases or names_tool(word, tool.name)
    return same or tool.family in TOOL_GROUPS.get(word, ())
