"""Plans, the calls they make and the results they read.

A plan is a generator: it yields calls, receives their results and returns the answer. Each request starts it anew with
the results that the conversation already holds: the first call without a result is what is asked for next.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from cowork.core.blocks import Json, Message, Text, ToolResult
from cowork.core.frozen import frozen

_LINE = re.compile(r"^(.+?):(\d+):(.*)$")
_UNDER = re.compile(r"^(\d+):(.*)$")  # the path stands above
_TOTAL = re.compile(r"^(?:at least )?([\d,]+) match(?:es)? in ([\d,]+) files?\.$", re.MULTILINE)
_COUNT = re.compile(r"^(.+):(\d+)$", re.MULTILINE)
_FILES = re.compile(r"^(?:more than )?([\d,]+) files?, newest first\.$", re.MULTILINE)


@frozen
class Call:
    """A tool call a plan wants made."""

    name: str
    input: Json

    @property
    def key(self) -> str:
        return f"{self.name} {json.dumps(self.input, sort_keys=True)}"


@frozen
class Line:
    """A line of a file that a search found."""

    path: str
    number: int
    text: str

    @property
    def at(self) -> str:
        return f"{self.path}:{self.number}"


@frozen
class CallResult:
    """The result of a call, read from its text as a model would."""

    text: str
    failed: bool = False

    @property
    def denied(self) -> bool:
        return self.failed and (" was denied: " in self.text or "is not among your tools" in self.text)

    @property
    def hits(self) -> list[Line]:
        """The lines a Grep found; the path of each stands before it, or above several of one file."""
        found: list[Line] = []
        path = ""
        for row in [] if self.failed else self.text.split("\n"):
            if hit := _UNDER.match(row) if path else None:
                found.append(Line(path, int(hit[1]), hit[2]))
            elif hit := _LINE.match(row):
                found.append(Line(hit[1], int(hit[2]), hit[3]))
            elif not row or not path:
                path = "" if row == "--" else row
        return found

    @property
    def totals(self) -> tuple[int, int]:
        """(matches, files) of a Grep."""
        found = _TOTAL.search(self.text)
        return (_number(found[1]), _number(found[2])) if found and not self.failed else (0, 0)

    @property
    def counts(self) -> list[tuple[str, int]]:
        """(path, matches) of a Grep that counts."""
        return [] if self.failed else [(hit[1], int(hit[2])) for hit in _COUNT.finditer(self.text)]

    @property
    def paths(self) -> list[str]:
        """The files of a Glob, in the order given."""
        if self.failed or self.text.startswith("No "):
            return []
        rows = self.text.split("\n\n")[0].splitlines()
        return [row.removeprefix("./") for row in rows if row.strip()]

    @property
    def total_files(self) -> int:
        """How many files a Glob found."""
        found = _FILES.search(self.text)
        return _number(found[1]) if found and not self.failed else 0

    @property
    def page(self) -> dict[int, str]:
        """The lines of a Read by number."""
        rows = [] if self.failed else [row.partition("\t") for row in self.text.split("\n")]
        return {int(number): text for number, tab, text in rows if tab and number.isdigit()}

    @property
    def total_lines(self) -> int:
        """How many lines the file of a Read has."""
        found = re.search(r"\[Lines \d+-\d+ of (?:more than )?(\d+)", self.text)
        return int(found[1]) if found else max(self.page, default=0)


T = TypeVar("T")
Steps = Generator[Sequence[Call], Sequence[CallResult], T]
Plan = Steps[str]


@dataclass(slots=True)
class Memory:
    """The results a conversation holds, by call; the same call made twice has its results in order."""

    known: dict[str, list[CallResult]] = field(default_factory=dict)
    tools: frozenset[str] = frozenset()
    may_call: bool = True

    @classmethod
    def of(cls, messages: Iterable[Message], tools: Iterable[str], *, may_call: bool) -> Memory:
        memory = cls({}, frozenset(tools), may_call)
        results: dict[str, CallResult] = {}
        calls: list[tuple[str, str]] = []
        for message in messages:
            calls += [(call.id, Call(call.name, call.input).key) for call in message.calls]
            results.update((r.tool_use_id, CallResult(_text(r), r.is_error)) for r in message.results)
        for id, key in calls:
            if id in results:
                memory.known.setdefault(key, []).append(results[id])
        return memory

    def take(self, call: Call) -> CallResult | None:
        """The next result of this call; None where it has to be made first."""
        if waiting := self.known.get(call.key):
            return waiting.pop(0) if len(waiting) > 1 else waiting[0]
        if call.name not in self.tools:
            return CallResult(f"{call.name} is not among your tools.", failed=True)
        return None if self.may_call else CallResult("Not run: no more calls are allowed.", failed=True)


def advance(plans: Sequence[Plan], memory: Memory) -> list[Call] | list[str]:
    """Take plans as far as the conversation goes: the missing calls of all, or all answers."""
    ends = [_advance(plan, memory) for plan in plans]
    missing = {call.key: call for end in ends if not isinstance(end, str) for call in end}
    return list(missing.values()) if missing else [end for end in ends if isinstance(end, str)]


def _advance(plan: Plan, shared: Memory) -> list[Call] | str:
    memory = Memory({key: list(found) for key, found in shared.known.items()}, shared.tools, shared.may_call)
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


def grep(pattern: str, mode: str = "content", *, ignore_case: bool = False, **options: Any) -> Call:
    """A search for lines, with the tool's own options; empty ones are left out."""
    given: Json = {"pattern": pattern, "output_mode": mode} | ({"-i": True} if ignore_case else {})
    return Call("Grep", given | {name: value for name, value in options.items() if value})


def glob(pattern: str, path: str = "") -> Call:
    return Call("Glob", {"pattern": pattern, "path": path} if path else {"pattern": pattern})


def read(path: str, offset: int = 1, limit: int = 2000) -> Call:
    given: Json = {"file_path": path}
    given |= {"offset": offset} if offset > 1 else {}
    return Call("Read", given | ({"limit": limit} if limit != 2000 else {}))


def listed(path: str = "") -> Call:
    return Call("LS", {"path": path} if path else {})


def bash(command: str, description: str, timeout: int = 0) -> Call:
    given: Json = {"command": command, "description": description}
    return Call("Bash", given | ({"timeout": timeout} if timeout else {}))


def _text(result: ToolResult) -> str:
    if isinstance(result.content, str):
        return result.content
    return "".join(block.text for block in result.content if isinstance(block, Text))


def _number(text: str) -> int:
    return int(text.replace(",", ""))
