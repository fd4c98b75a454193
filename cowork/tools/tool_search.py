"""ToolSearch and CallTool: tools that are too many for every request are found by search, and called through one tool.

The definitions that a search finds stand in its result, after everything a service has cached; the list of tools of a
request never changes, so nothing before it has to be read again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from cowork.core.blocks import Json
from cowork.core.errors import ToolError
from cowork.core.format import first_sentence
from cowork.core.ports import ToolRecord, ok
from cowork.tools.base import Param, Tool, ToolContext, tool, touches_nothing

_MOST_CATALOGUE = 1_300  # characters: with the two tools it makes under 600 tokens, however many there are
_MOST_FOUND = 20
_WORD = re.compile(r"[a-z0-9]+")


@tool("ToolSearch", reads=True, effects=touches_nothing, line=lambda args, cwd: str(args["query"]))
async def tool_search(
    ctx: ToolContext,
    query: Annotated[str, Param("Words, or `select:name,name`", min_length=1)],
    limit: Annotated[int, Param("Most definitions", minimum=1, maximum=_MOST_FOUND)] = 5,
) -> ToolRecord:
    deferred = ctx.deferred()
    if query.startswith("select:"):
        names = {name.strip() for name in query.removeprefix("select:").split(",")}
        found = [one for one in deferred if one.name in names or _short(one.name) in names][:_MOST_FOUND]
    else:
        found = rank(deferred, query)[:limit]
    if not found:
        near = ", ".join(tool.name for tool in deferred[:10])
        return ok(f"No tool fits. Try other words{f'; there are {near} …' if near else ''}.", tools=[])
    texts = [f"{tool.name}: {tool.description}\narguments: {json.dumps(tool.schema)}" for tool in found]
    return ok("Call these with CallTool.\n\n" + "\n\n".join(texts), tools=[tool.name for tool in found])


def _target(args: Mapping[str, Any]) -> tuple[str, Json]:
    name, arguments = args.get("name"), args.get("arguments", {})
    if isinstance(arguments, str):  # some models write JSON in JSON
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return "", {}
    return (name, arguments) if isinstance(name, str) and isinstance(arguments, dict) else ("", {})


@tool("CallTool", effects=touches_nothing)
async def call_tool(
    ctx: ToolContext,
    name: Annotated[str, Param("As ToolSearch gave it", min_length=1)],
    arguments: Annotated[dict[str, Any], "As its definition says"],
) -> ToolRecord:
    raise ToolError("INVALID_PARAM", "`name` must be a tool's name and `arguments` an object. ToolSearch gives both.")


def search_tools(about: str, calls: str, deferred: Sequence[Tool], later: Iterable[str] = ()) -> list[Tool]:
    """The two tools, with a catalogue of what can be found; `later` are servers that are still starting."""
    waiting = f"\nStill starting: {', '.join(later)}." if later else ""
    return [
        replace(tool_search, description=f"{about}\n{catalogue(deferred)}{waiting}".rstrip()),
        replace(call_tool, description=calls, carries=_target),
    ]


def catalogue(tools: Sequence[Tool]) -> str:
    """Names and one-line summaries; only names, or only numbers, where those would be too long."""
    lines = [f"{one.name}: {first_sentence(one.description, 80)}" for one in tools]
    groups: dict[str, list[str]] = {}
    for one in tools:
        kind, *rest = one.name.split("__")
        group = f"mcp__{rest[0]}__*" if len(rest) > 1 and kind == "mcp" else "others"
        groups.setdefault(group, []).append(_short(one.name))
    if sum(map(len, lines)) > _MOST_CATALOGUE:
        lines = [f"{group}: {', '.join(names)}" for group, names in groups.items()]
    if sum(map(len, lines)) > _MOST_CATALOGUE:
        room = max(20, _MOST_CATALOGUE // len(groups) - 20)
        lines = []
        for group, names in groups.items():
            text = ", ".join(names[:30])
            some = text if len(text) <= room else text[:room].rpartition(",")[0] + " …"
            lines.append(f"{group} ({len(names)} tools): {some}")
    text = "\n".join(lines)
    return text if len(text) <= _MOST_CATALOGUE * 1.2 else f"{len(tools)} tools of {len(groups)} servers"


def rank(tools: Sequence[Tool], query: str) -> list[Tool]:
    """The tools that fit, best first: words of the name weigh most, and of equals the earlier comes first."""
    wanted = set(_WORD.findall(query.casefold()))

    def score(one: Tool) -> float:
        name, about = _words(one.name), _words(one.description)
        return sum(3 * _fit(word, name) + _fit(word, about) for word in wanted)

    scores = [(score(one), one) for one in tools]
    return [one for points, one in sorted(scores, key=lambda row: -row[0]) if points]


def _words(text: str) -> set[str]:
    return set(_WORD.findall(re.sub(r"([a-z])([A-Z])", r"\1 \2", text).casefold()))


def _fit(word: str, words: set[str]) -> float:
    if word in words:
        return 1.0
    return 0.5 if any(w.startswith(word) or word.startswith(w) for w in words if len(w) > 3) else 0.0


def _short(name: str) -> str:
    return name.split("__", 2)[-1] if name.startswith("mcp__") else name
