"""The provider: reads the conversation, asks the plan what comes next, and streams it as a model would."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Callable, Mapping

from cowork.core.blocks import Block, Text, ToolUse, Usage
from cowork.core.ports import Delta, Reply, Request, Retry
from cowork.providers.offline import conversation, edits, listing, locate, markdown, project
from cowork.providers.offline.conversation import Talk, read_request
from cowork.providers.offline.history import history
from cowork.providers.offline.intent import EDITS, Intent, Kind, clean
from cowork.providers.offline.parts import delegated, intents, joined
from cowork.providers.offline.plans import Call, Plan, advance
from cowork.providers.offline.testing import run_tests

CONTEXT_WINDOW = 200_000
MAX_OUTPUT = 8_192
_CHARS_A_TOKEN = 4
_PIECES = re.compile(r"\S+\s*|\s+")

PLANS: Mapping[Kind, Callable[[Intent], Plan]] = {
    "where": locate.define,
    "show": locate.define,
    "describe": locate.describe,
    "uses": locate.uses,
    "outline": project.outline,
    "howto": project.howto,
    "entry": project.entry,
    "manifest": project.manifest,
    "list": listing.list_,
    "count": listing.count,
    "search": listing.search,
    "read": listing.read_file,
    "explain": listing.read_file,
    "changes": history,
    "tests": run_tests,
}


class Offline:
    """A model that answers what search can answer, and says so when it cannot."""

    name = "offline"

    def __init__(self, model: str = "offline", context_window: int = 0, max_output_tokens: int = 0) -> None:
        self.model = model
        self.context_window = context_window or CONTEXT_WINDOW
        self.max_output_tokens = max_output_tokens or MAX_OUTPUT

    async def stream(self, request: Request) -> AsyncIterator[Delta | Retry | Reply]:
        """The next step: calls that are still missing, or the answer."""
        content = respond(request)
        for block in content:
            if isinstance(block, Text):
                for piece in _PIECES.findall(block.text):
                    yield Delta("text", piece)
                    await asyncio.sleep(0)
            else:
                yield Delta("tool", "")
        calls = any(isinstance(block, ToolUse) for block in content)
        given = len(request.system) + sum(len(spec.description) + 200 for spec in request.tools)
        given += sum(_length(block) for message in request.messages for block in message.content)
        usage = Usage(given // _CHARS_A_TOKEN, sum(map(_length, content)) // _CHARS_A_TOKEN)
        yield Reply(content, "tool_use" if calls else "end_turn", usage, self.model)

    def price(self, usage: Usage) -> float | None:
        return 0.0

    async def aclose(self) -> None:
        """Nothing to close."""


def respond(request: Request) -> tuple[Block, ...]:
    """What the model says to a request. The same request always gets the same reply."""
    talk = read_request(request)
    if talk.to_compact:
        return (Text(conversation.summary(talk.to_compact)),)
    parts = _parts(talk)
    may_delegate = len(parts) > 1 and not talk.is_child and "Task" in talk.memory.tools
    end = advance([delegated(p) if may_delegate and p.is_search else _plan(p) for p in parts], talk.memory)
    calls = [call for call in end if isinstance(call, Call)]
    if calls:
        tasks = sum(call.name == "Task" for call in calls)
        opening = (Text(f"I'll look into {tasks} parts at once."),) if tasks > 1 else ()
        return (*opening, *(_use(call, request, index) for index, call in enumerate(calls)))
    answers = [text for text in end if isinstance(text, str)] or [markdown.HELLO]
    said = joined(parts, answers) if len(parts) > 1 else answers[0]
    return (Text(conversation.as_json(said, talk.schema) if talk.schema is not None else said),)


def _parts(talk: Talk) -> list[Intent]:
    """What is wanted now; "it" is what the question before was about."""
    before: Intent | None = None
    for question in talk.earlier:
        known = [intent for intent in intents(question, before) if intent.subject]
        before = known[-1] if known else before
    return [intent for question in talk.questions for intent in intents(question, before)]


def _plan(intent: Intent) -> Plan:
    """The plan for an intent; why something is so is beyond all of them, and said first."""
    if re.match(r"(?:why|how come)\b", clean(intent.text), re.IGNORECASE):
        return f"{markdown.WHY}\n\n{(yield from PLANS.get(intent.kind, locate.describe)(intent))}"
    if intent.kind in EDITS:
        return (yield from edits.edit(intent))
    if make := PLANS.get(intent.kind):
        return (yield from make(intent))
    return markdown.HELLO if intent.kind == "hello" else markdown.UNKNOWN


def _use(call: Call, request: Request, index: int) -> ToolUse:
    """A call with an id that is the same whenever the same request comes."""
    seed = f"{len(request.messages)} {index} {call.key}"
    return ToolUse(f"off_{hashlib.sha256(seed.encode()).hexdigest()[:16]}", call.name, call.input)


def _length(block: Block) -> int:
    content = next((c for name in ("text", "content", "input") if (c := getattr(block, name, None))), "")
    return len(content if isinstance(content, str) else str(content))
