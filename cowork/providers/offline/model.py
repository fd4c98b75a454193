"""The provider: reads the conversation, asks the plan what comes next, and streams it as a model would."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from cowork.core.blocks import Block, Json, Text, ToolUse, Usage
from cowork.core.ports import Delta, Reply, Request, Retry
from cowork.providers.offline import conversation, listing, locate, markdown, project, words
from cowork.providers.offline.conversation import Talk, read_request
from cowork.providers.offline.history import history
from cowork.providers.offline.intent import Intent, Kind, clean
from cowork.providers.offline.plans import Call, Plan, advance
from cowork.providers.offline.questions import intents
from cowork.providers.offline.testing import run_tests
from cowork.providers.prices import reply_tokens, request_tokens

CONTEXT_WINDOW = 200_000
MAX_OUTPUT = 8_192
_IT = re.compile(r"\b(?:it|that|this|them|they)\b", re.IGNORECASE)
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
        usage = Usage(request_tokens(request), reply_tokens(content))
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
    end = advance([_delegated(p) if may_delegate and p.is_search else _plan(p) for p in parts], talk.memory)
    calls = [call for call in end if isinstance(call, Call)]
    if calls:
        tasks = sum(call.name == "Task" for call in calls)
        opening = (Text(f"I'll look into {tasks} parts at once."),) if tasks > 1 else ()
        return (*opening, *(_use(call, request, index) for index, call in enumerate(calls)))
    answers = [text for text in end if isinstance(text, str)] or [markdown.HELLO]
    said = _joined(parts, answers) if len(parts) > 1 else answers[0]
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
    if make := PLANS.get(intent.kind):
        return (yield from make(intent))
    return markdown.HELLO if intent.kind == "hello" else markdown.UNKNOWN


def _delegated(intent: Intent) -> Plan:
    """One part, given to an explore child; its report is the answer to the part."""
    question = _standalone(intent)
    title = markdown.shortened(re.sub(r"[`\"'?]", "", question), 40)
    given: Json = {"description": title, "prompt": question, "subagent_type": "explore", "model": "light"}
    (result,) = yield [Call("Task", given)]
    if result.failed:
        return f"The child did not finish: {markdown.shortened(result.text, 300)}"
    return _report(result.text)


def _joined(parts: Sequence[Intent], answers: Sequence[str]) -> str:
    """The answers under their questions."""
    titles = [markdown.shortened(_standalone(intent), 120).replace("*", "") for intent in parts]
    return "\n\n".join(f"**{title}**\n\n{answer}" for title, answer in zip(titles, answers, strict=True))


def _report(text: str) -> str:
    """A child's result without the line before it and the receipts after it."""
    body = text.split("\n\n", 1)[1] if text.startswith("Subagent (") and "\n\n" in text else text
    rows = body.rstrip().splitlines()
    return "\n".join(rows[:-1] if rows and " · subagent_id " in rows[-1] else rows).strip()


def _standalone(intent: Intent) -> str:
    """The part as a question that needs no other."""
    question = clean(intent.text)
    if intent.subject and not (words.names(question) or words.quoted(question) or words.files(question)):
        name = f"{intent.container}.{intent.subject}" if intent.container else intent.subject
        question = _IT.sub(f"`{name}`", question, count=1)
    return question[:1].upper() + question[1:] + "?"


def _use(call: Call, request: Request, index: int) -> ToolUse:
    """A call with an id that is the same whenever the same request comes."""
    seed = f"{len(request.messages)} {index} {call.key}"
    return ToolUse(f"off_{hashlib.sha256(seed.encode()).hexdigest()[:16]}", call.name, call.input)
