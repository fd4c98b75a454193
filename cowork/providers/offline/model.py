"""The provider: reads the conversation, asks the plan what comes next, and streams it as a model would."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Callable, Mapping

from cowork.core.blocks import Block, Text, ToolUse, Usage
from cowork.core.ports import Delta, ModelSpec, Reply, Request, Retry
from cowork.providers.offline import commands, conversation, listing, locate, plans, project
from cowork.providers.offline.conversation import read_request
from cowork.providers.offline.plans import Call, Plan, advance
from cowork.providers.offline.questions import Intent, clean, intents
from cowork.providers.prices import reply_tokens, request_tokens

PLANS: Mapping[str, Callable[[Intent], Plan]] = {
    "where": locate.define,
    "show": locate.define,
    "describe": locate.describe,
    "uses": locate.uses,
    "outline": project.outline,
    "howto": project.howto,
    "manifest": project.manifest,
    "list": listing.take_stock,
    "count": listing.take_stock,
    "search": listing.take_stock,
    "read": listing.read_file,
    "explain": listing.read_file,
    "changes": commands.history,
    "tests": commands.run_tests,
}


class Offline:
    """A model that answers what search can answer, and says so when it cannot."""

    name = "offline"

    def __init__(self, spec: ModelSpec) -> None:
        self.model = spec.model or "offline"
        self.context_window = spec.context_window or 200_000
        self.max_output_tokens = spec.max_output_tokens or 8_192

    async def stream(self, request: Request) -> AsyncIterator[Delta | Retry | Reply]:
        """The next step: calls that are still missing, or the answer."""
        content = respond(request)
        for block in content:
            if isinstance(block, Text):
                for piece in re.findall(r"\S+\s*|\s+", block.text):
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
    before: Intent | None = None
    for question in talk.earlier:  # "it" is what the question before was about
        before = next((intent for intent in reversed(intents(question, before)) if intent.subject), before)
    parts = [intent for question in talk.questions for intent in intents(question, before)]
    may_delegate = len(parts) > 1 and not talk.is_child and "Task" in talk.memory.tools
    ends = [advance(_delegate(p) if may_delegate and p.is_search else _plan(p), talk.memory) for p in parts]
    if missing := {call.key: call for end in ends if not isinstance(end, str) for call in end}:
        tasks = sum(call.name == "Task" for call in missing.values())
        opening = (Text(f"I'll look into {tasks} parts at once."),) if tasks > 1 else ()
        seeds = [f"{len(request.messages)} {index} {key}" for index, key in enumerate(missing)]
        ids = (
            f"off_{hashlib.sha256(seed.encode()).hexdigest()[:16]}" for seed in seeds
        )  # the same for the same request
        return (*opening, *(ToolUse(id, call.name, call.input) for id, call in zip(ids, missing.values(), strict=True)))
    answers = [str(end) for end in ends] or [plans.HELLO]
    said = answers[0]
    if len(parts) > 1:  # the answers under their questions
        titles = [plans.shorten(_standalone(intent), 120).replace("*", "") for intent in parts]
        said = "\n\n".join(f"**{title}**\n\n{answer}" for title, answer in zip(titles, answers, strict=True))
    return (Text(conversation.as_json(talk.schema, said) if talk.schema is not None else said),)


def _plan(intent: Intent) -> Plan:
    """The plan for an intent; why something is so is beyond all of them, and said first."""
    if re.match(r"(?:why|how come)\b", clean(intent.text), re.IGNORECASE):
        return f"{plans.WHY}\n\n{(yield from PLANS.get(intent.kind, locate.describe)(intent))}"
    if make := PLANS.get(intent.kind):
        return (yield from make(intent))
    return plans.HELLO if intent.kind == "hello" else plans.UNKNOWN


def _delegate(intent: Intent) -> Plan:
    """Give one part to an explore child; its report, without what stands around it, is the answer."""
    question = _standalone(intent)
    title = plans.shorten(re.sub(r"[`\"'?]", "", question), 40)
    order = {"description": title, "prompt": question, "subagent_type": "explore", "model": "light"}
    (result,) = yield [Call("Task", order)]
    if result.failed:
        return f"The child did not finish: {plans.shorten(result.text, 300)}"
    report = re.sub(r"\ASubagent \(.*?\n\n", "", result.text, flags=re.DOTALL).rstrip()
    return re.sub(r"\n.* · subagent_id .*\Z", "", report).strip()


def _standalone(intent: Intent) -> str:
    """The part as a question that needs no other."""
    question = clean(intent.text)
    return question[:1].upper() + question[1:] + "?"
