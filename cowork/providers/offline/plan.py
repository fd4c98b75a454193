"""Plans are generators: they yield the calls they need, receive what came of them and return the answer.

A plan keeps nothing between requests. Each request starts it anew and hands it the results the conversation already
holds, so the conversation is its only memory: the first call without a result is what is asked for next.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from cowork.core.blocks import Json, Message, Text, ToolResult
from cowork.core.frozen import frozen


@frozen
class Call:
    """A tool call a plan wants made."""

    name: str
    input: Json

    @property
    def key(self) -> str:
        return f"{self.name} {json.dumps(self.input, sort_keys=True)}"


@frozen
class Result:
    """What a call came to, as a model reads it."""

    text: str
    failed: bool = False

    @property
    def denied(self) -> bool:
        return self.failed and (" was denied: " in self.text or "is not among your tools" in self.text)


T = TypeVar("T")
Steps = Generator[Sequence[Call], Sequence[Result], T]
Plan = Steps[str]


@dataclass(slots=True)
class Memory:
    """The results a conversation holds, by call; the same call made twice has its results in order."""

    known: dict[str, list[Result]] = field(default_factory=dict)
    tools: frozenset[str] = frozenset()
    may_call: bool = True

    @classmethod
    def of(cls, messages: Iterable[Message], tools: Iterable[str], *, may_call: bool) -> Memory:
        memory = cls({}, frozenset(tools), may_call)
        results: dict[str, Result] = {}
        calls: list[tuple[str, str]] = []
        for message in messages:
            calls += [(call.id, Call(call.name, call.input).key) for call in message.calls]
            results.update((r.tool_use_id, Result(_shown(r), r.is_error)) for r in message.results)
        for id, key in calls:
            if id in results:
                memory.known.setdefault(key, []).append(results[id])
        return memory

    def fresh(self) -> Memory:
        """A copy to use up."""
        return Memory({key: list(found) for key, found in self.known.items()}, self.tools, self.may_call)

    def take(self, call: Call) -> Result | None:
        """The next result of this call; None where it has to be made first."""
        if waiting := self.known.get(call.key):
            return waiting.pop(0) if len(waiting) > 1 else waiting[0]
        if call.name not in self.tools:
            return Result(f"{call.name} is not among your tools.", failed=True)
        return None if self.may_call else Result("Not run: no more calls are allowed.", failed=True)


def advance(plan: Plan, memory: Memory) -> list[Call] | str:
    """Take a plan as far as the conversation goes: the calls that are missing, or its answer."""
    try:
        wanted = next(plan)
        while True:
            found = [memory.take(call) for call in wanted]
            missing = [call for call, result in zip(wanted, found, strict=True) if result is None]
            if missing:
                plan.close()
                return missing
            wanted = plan.send([result for result in found if result is not None])
    except StopIteration as end:
        return str(end.value)


def side_by_side(plans: Sequence[Plan], memory: Memory) -> list[Call] | list[str]:
    """Several plans at once: the missing calls of all, or all answers."""
    ends = [advance(plan, memory.fresh()) for plan in plans]
    missing = {call.key: call for end in ends if not isinstance(end, str) for call in end}
    return list(missing.values()) if missing else [end for end in ends if isinstance(end, str)]


def grep(pattern: str, **options: Any) -> Call:
    """A search for lines; `ignore_case`, `after`, `before` and the tool's own options."""
    given: Json = {"pattern": pattern, "output_mode": "content"}
    if options.pop("ignore_case", False):
        given["-i"] = True
    for name, flag in (("after", "-A"), ("before", "-B")):
        if count := options.pop(name, 0):
            given[flag] = count
    return Call("Grep", given | {name: value for name, value in options.items() if value})


def glob(pattern: str, path: str = "") -> Call:
    return Call("Glob", {"pattern": pattern, "path": path} if path else {"pattern": pattern})


def read(path: str, offset: int = 1, limit: int = 2000) -> Call:
    given: Json = {"file_path": path}
    if offset > 1:
        given["offset"] = offset
    if limit != 2000:
        given["limit"] = limit
    return Call("Read", given)


def bash(command: str, description: str, timeout: int = 0) -> Call:
    given: Json = {"command": command, "description": description}
    return Call("Bash", given | ({"timeout": timeout} if timeout else {}))


def _shown(result: ToolResult) -> str:
    if isinstance(result.content, str):
        return result.content
    return "".join(block.text for block in result.content if isinstance(block, Text))
