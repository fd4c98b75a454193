"""The provider: reads the conversation, asks the plan what comes next, and streams it as a model would."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Callable, Mapping

from cowork.core.blocks import Block, Message, Text, ToolResult, ToolUse, Usage
from cowork.core.ports import Delta, Reply, Request, Retry
from cowork.providers.offline import answer, edits, facts, files, history, inventory, project, testing, typed
from cowork.providers.offline.default import default
from cowork.providers.offline.describe import describe
from cowork.providers.offline.intent import Intent, Kind, clean
from cowork.providers.offline.plan import Call, Plan, side_by_side
from cowork.providers.offline.several import delegated, intents, joined
from cowork.providers.offline.talk import Talk, read_request
from cowork.providers.offline.uses import uses
from cowork.providers.offline.where import where

CONTEXT_WINDOW = 200_000
MAX_OUTPUT = 8_192
_CHARS_A_TOKEN = 4
_PIECES = re.compile(r"\S+\s*|\s+")

PLANS: Mapping[Kind, Callable[[Intent], Plan]] = {
    "where": where,
    "describe": describe,
    "uses": uses,
    "outline": project.outline,
    "howto": project.howto,
    "entry": facts.entry,
    "manifest": facts.manifest,
    "count": files.count,
    "inventory": inventory.inventory,
    "raises": inventory.raises,
    "default": default,
    "show": files.show,
    "explain": files.explain,
    "list": files.list_,
    "read": files.read_file,
    "search": files.search,
    "changes": history.history,
    "tests": testing.tests,
    "replace": edits.edit,
    "rename": edits.edit,
    "add": edits.edit,
    "create": edits.edit,
    "remove": edits.edit,
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
        usage = Usage(_size(request) // _CHARS_A_TOKEN, sum(map(_length, content)) // _CHARS_A_TOKEN)
        yield Reply(content, "tool_use" if calls else "end_turn", usage, self.model)

    def price(self, usage: Usage) -> float | None:
        return 0.0

    async def aclose(self) -> None:
        """Nothing to close."""


def respond(request: Request) -> tuple[Block, ...]:
    """What the model says to a request. The same request always gets the same reply."""
    talk = read_request(request)
    if talk.to_compact:
        return (Text(typed.summary(talk.to_compact)),)
    parts = _parts(talk)
    plans = [_plan(intent, talk, several=len(parts) > 1) for intent in parts]
    end = side_by_side(plans, talk.memory)
    calls = [call for call in end if isinstance(call, Call)]
    if calls:
        return (*_opening(calls), *(_use(call, request, index) for index, call in enumerate(calls)))
    answers = [text for text in end if isinstance(text, str)]
    said = joined(parts, answers) if len(parts) > 1 else (answers[0] if answers else answer.hello())
    return (Text(typed.as_json(said, talk.schema) if talk.schema is not None else said),)


def _parts(talk: Talk) -> list[Intent]:
    """What is wanted now; "it" is what the question before was about."""
    before: Intent | None = None
    for question in talk.earlier:
        known = [intent for intent in intents(question, before) if intent.subject]
        before = known[-1] if known else before
    return [intent for question in talk.questions for intent in intents(question, before)]


def _plan(intent: Intent, talk: Talk, *, several: bool) -> Plan:
    can_delegate = several and not talk.is_child and "Task" in talk.memory.tools
    if can_delegate and intent.is_search:
        return delegated(intent)
    if re.match(r"(?:why|how come)\b", clean(intent.text), re.IGNORECASE):
        return _prefixed(answer.WHY, PLANS.get(intent.kind, PLANS["describe"])(intent))
    if make := PLANS.get(intent.kind):
        return make(intent)
    return _said(answer.hello() if intent.kind == "hello" else answer.unknown(intent.text))


def _said(text: str) -> Plan:
    """A plan that needs no calls."""
    yield from ()
    return text


def _prefixed(text: str, plan: Plan) -> Plan:
    """A plan whose answer begins with a text."""
    return f"{text}\n\n{(yield from plan)}"


def _opening(calls: list[Call]) -> tuple[Text, ...]:
    tasks = sum(call.name == "Task" for call in calls)
    return (Text(f"I'll look into {tasks} parts at once."),) if tasks > 1 else ()


def _use(call: Call, request: Request, index: int) -> ToolUse:
    """A call with an id that is the same whenever the same request comes."""
    seed = f"{len(request.messages)} {index} {call.key}"
    return ToolUse(f"off_{hashlib.sha256(seed.encode()).hexdigest()[:16]}", call.name, call.input)


def _size(request: Request) -> int:
    fixed = len(request.system) + sum(len(spec.description) + 200 for spec in request.tools)
    return fixed + sum(_weight(message) for message in request.messages)


def _weight(message: Message) -> int:
    return sum(map(_length, message.content))


def _length(block: Block) -> int:
    match block:
        case Text(text):
            return len(text)
        case ToolUse(input=given):
            return len(str(given)) + 20
        case ToolResult(content=content):
            return len(content) if isinstance(content, str) else sum(map(_length, content))
        case _:
            return 0
