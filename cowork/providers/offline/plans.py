"""Plans, the calls they make, the results they read, and the Markdown in which they answer.

A plan is a generator: it yields calls, receives their results and returns the answer. Each request starts it anew with
the results that the conversation already holds: the first call without a result is what is asked for next.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterable, Sequence
from typing import Any, TypeVar

from cowork.core import format
from cowork.core.blocks import Json, Message, Text, ToolResult
from cowork.core.format import code, one_line
from cowork.core.frozen import frozen
from cowork.providers.offline.languages import SOURCE, Line, family_of

WHAT_I_AM = (
    "I am the built-in offline model: rules and search, no network, no cost. I can say where things are defined and "
    "used, outline a repo or a file, list, read and count, find TODOs, say what changed, and run the tests and report "
    "what failed. I change no files."
)
NEEDS_MODEL = (
    "Reasoning, explanations, reviews and writing code need a real model: `/model` here, or `cowork config init`."
)
WHY = "Why something is so needs a real model (`/model` here, or `cowork config init`). What search can find of it:"
HELLO = (
    f"{WHAT_I_AM}\n\n{NEEDS_MODEL}\n\n"
    "Try: “what is in this repo?”, “where is `main` defined?”, “how do I run the tests?”"
)
UNKNOWN = f"I cannot answer that. {WHAT_I_AM}\n\n{NEEDS_MODEL}"

_LINE = re.compile(r"^(.+?):(\d+):(.*)$")
_UNDER = re.compile(r"^(\d+):(.*)$")  # the path stands above
_TOTALS = re.compile(
    r"^(?:at least )?([\d,]+) match(?:es)? in ([\d,]+) files?\.$|^(?:more than )?([\d,]+) files?, newest first\.$"
    r"|^\[Lines \d+-\d+ of (?:more than )?(\d+)",
    re.MULTILINE,
)
_FENCES = {"mjs": "js", "cjs": "js", "svelte": "js", "mts": "ts", "cts": "ts", "rake": "rb", "gemspec": "rb"}


@frozen
class Call:
    """A tool call a plan wants made."""

    name: str
    input: Json

    @property
    def key(self) -> str:
        return f"{self.name} {json.dumps(self.input, sort_keys=True)}"


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
        """What there was in all: (matches, files) of a Grep, (files, 0) of a Glob, (lines, 0) of a part of a file."""
        found = None if self.failed else _TOTALS.search(self.text)
        numbers = [int(number.replace(",", "")) for number in found.groups() if number] if found else []
        first, second, *_ = (*numbers, 0, 0)
        return first, second

    @property
    def paths(self) -> list[str]:
        """The files of a Glob, in the order given."""
        if self.failed or self.text.startswith("No "):
            return []
        rows = self.text.split("\n\n")[0].splitlines()
        return [row.removeprefix("./") for row in rows if row.strip()]

    @property
    def page(self) -> dict[int, str]:
        """The lines of a Read by number."""
        rows = [] if self.failed else [row.partition("\t") for row in self.text.split("\n")]
        return {int(number): text for number, tab, text in rows if tab and number.isdecimal()}


T = TypeVar("T")
Steps = Generator[Sequence[Call], Sequence[CallResult], T]
Plan = Steps[str]


class Memory:
    """The results a conversation holds, by call."""

    def __init__(self, messages: Iterable[Message] = (), tools: Iterable[str] = (), *, may_call: bool = False) -> None:
        self.tools = frozenset(tools)
        self._may_call = may_call
        messages = list(messages)
        results = {r.tool_use_id: CallResult(_text(r), r.is_error) for message in messages for r in message.results}
        calls = [call for message in messages for call in message.calls if call.id in results]
        self._known = {Call(call.name, call.input).key: results[call.id] for call in calls}

    def find(self, call: Call) -> CallResult | None:
        """The result of this call; None where it has to be made first."""
        if call.key in self._known:
            return self._known[call.key]
        if call.name not in self.tools:
            return CallResult(f"{call.name} is not among your tools.", failed=True)
        return None if self._may_call else CallResult("Not run: no more calls are allowed.", failed=True)


def advance(plan: Plan, memory: Memory) -> list[Call] | str:
    """Take a plan as far as the conversation goes: the calls that are missing, or its answer."""
    try:
        wanted = next(plan)
        while True:
            found = [memory.find(call) for call in wanted]
            if missing := [call for call, result in zip(wanted, found, strict=True) if result is None]:
                plan.close()
                return missing
            wanted = plan.send([result for result in found if result is not None])
    except StopIteration as end:
        return str(end.value)


def _text(result: ToolResult) -> str:
    if isinstance(result.content, str):
        return result.content
    return "".join(block.text for block in result.content if isinstance(block, Text))


# ---------------------------------------------------------------- calls


def call(name: str, **options: Any) -> Call:
    """A call with the tool's own options; those that are empty are left out."""
    return Call(name, {option: value for option, value in options.items() if value})


def grep(pattern: str, *, mode: str = "content", ignore_case: bool = False, **options: Any) -> Call:
    """A search for lines."""
    return call("Grep", pattern=pattern, output_mode=mode, **{"-i": ignore_case}, **options)


def read(path: str, offset: int = 1, limit: int = 2000) -> Call:
    """A look at lines of a file."""
    return call("Read", file_path=path, offset=offset if offset > 1 else 0, limit=limit if limit != 2000 else 0)


# ---------------------------------------------------------------- answers


def fence(text: str, path: str) -> str:
    """Code in the language of a file."""
    family, ending = family_of(path), path.rpartition(".")[2]
    language = family if family in SOURCE else ""
    return format.fence(text, _FENCES.get(ending, ending) if family == "code" else language)


def bullets(rows: Sequence[str], most: int = 40, total: int = 0) -> str:
    """A list, with how many more there are."""
    total = max(total, len(rows))
    more = [f"- and {total - most} more"] if total > most else []
    return "\n".join([*(f"- {row}" for row in rows[:most]), *more])


def evidence(lines: Iterable[Line]) -> list[str]:
    """A row for each line a search found: its place and its text."""
    return [f"`{line.at}` {code(one_line(line.text, 100))}" for line in lines]


def clip(rows: Sequence[str], most: int) -> str:
    """The first of many lines."""
    return "\n".join([*rows[:most], *(["…"] if len(rows) > most else [])])


def plural(count: int, noun: str) -> str:
    noun, of, rest = noun.partition(" with ")
    many = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}es" if noun.endswith(("s", "ch")) else f"{noun}s"
    return f"{count:,} {noun if count == 1 else many}{of}{rest}"
