"""The provider: reads the conversation, asks the plan what comes next, and streams it as a model would."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from cowork.core.blocks import Block, Json, Message, Text, ToolUse, Usage, estimate_tokens
from cowork.core.format import one_line
from cowork.core.ports import TASK_MARK, Delta, ModelSpec, Reply, Request, Retry
from cowork.providers.offline import listing, locate, plans, project
from cowork.providers.offline.plans import Call, Memory, Plan, advance
from cowork.providers.offline.questions import Intent, clean, intents
from cowork.providers.prices import request_tokens

_TYPED = "Your last message must be a single JSON value and nothing else, valid under this JSON Schema:\n"
_REQUEST = re.compile(r"<(?:latest_)?request>\n(.*?)\n</(?:latest_)?request>", re.DOTALL)
_COMPACTED = "[The conversation so far, compacted.]"
_NUDGE = "Your last reply was empty."
_AT_FILE = re.compile(r"(?:^|(?<=[\s(\[\"'`]))@(?=[\w~+-]*/|[\w.~+-]*\.\w{1,5}\b)")  # `@` before a file's name
_AT = re.compile(r"`([\w./@+-]+):(\d+)(?:-\d+)?`")

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
    "changes": project.history,
    "tests": project.run_tests,
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
        usage = Usage(request_tokens(request), estimate_tokens(*content))
        yield Reply(content, "tool_use" if calls else "end_turn", usage, self.model)

    def price(self, usage: Usage) -> float | None:
        return 0.0

    async def aclose(self) -> None:
        """Nothing to close."""


def respond(request: Request) -> tuple[Block, ...]:
    """What the model says to a request. The same request always gets the same reply."""
    messages = request.messages
    if not request.tools and messages and messages[-1].text.startswith("<conversation>"):
        return (Text(_summarise(messages[-1].text)),)
    may_call = request.tool_choice != "none" and bool(request.tools)
    asked = _prompts(messages)
    if not may_call and request.tools and len(asked) > 1:
        asked = asked[:-1]  # a demand for the report, a summary or a repair: the question is the one before
    start = _first_open(messages, asked if may_call else asked[-1:])
    memory = Memory(messages[start:], [spec.name for spec in request.tools], may_call=may_call)
    before: Intent | None = None
    for _, question in (prompt for prompt in asked if prompt[0] < start):  # "it" is what was asked about before
        before = next((intent for intent in reversed(intents(question, before)) if intent.subject), before)
    parts = [intent for at, question in asked if at >= start for intent in intents(question, before)]
    may_delegate = len(parts) > 1 and TASK_MARK not in request.system and "Task" in memory.tools
    ends = [advance(_delegate(p) if may_delegate and p.is_search else _plan(p), memory) for p in parts]
    if missing := {call.key: call for end in ends if not isinstance(end, str) for call in end}:
        return _make_calls(list(missing.values()), len(messages))
    answers = [str(end) for end in ends] or [plans.HELLO]
    said = answers[0]
    if len(parts) > 1:  # the answers under their questions
        titles = [one_line(_standalone(intent), 120).replace("*", "") for intent in parts]
        said = "\n\n".join(f"**{title}**\n\n{answer}" for title, answer in zip(titles, answers, strict=True))
    schema = _schema(messages)
    return (Text(said if schema is None else json.dumps(_value(schema, said), ensure_ascii=False)),)


def _make_calls(calls: Sequence[Call], turn: int) -> tuple[Block, ...]:
    """The calls, with ids that are the same for the same request."""
    tasks = sum(call.name == "Task" for call in calls)
    opening = (Text(f"I'll look into {tasks} parts at once."),) if tasks > 1 else ()
    seeds = [f"{turn} {index} {call.key}" for index, call in enumerate(calls)]
    ids = [f"off_{hashlib.sha256(seed.encode()).hexdigest()[:16]}" for seed in seeds]
    return (*opening, *(ToolUse(id, call.name, call.input) for id, call in zip(ids, calls, strict=True)))


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
    title = one_line(re.sub(r"[`\"'?]", "", question), 40)
    order = {"description": title, "prompt": question, "subagent_type": "explore", "model": "light"}
    (result,) = yield [Call("Task", order)]
    if result.failed:
        return f"The child did not finish: {one_line(result.text, 300)}"
    report = re.sub(r"\ASubagent \(.*?\n\n", "", result.text, flags=re.DOTALL).rstrip()
    return re.sub(r"\n.* · subagent_id .*\Z", "", report).strip()


def _standalone(intent: Intent) -> str:
    """The part as a question that needs no other."""
    question = clean(intent.text)
    return question[:1].upper() + question[1:] + "?"


# ---------------------------------------------------------------- the conversation


def _first_open(messages: Sequence[Message], asked: Sequence[tuple[int, str]]) -> int:
    """Where the first question stands that is not answered yet; several are open when the user spoke up meanwhile."""
    start = 0
    for start, _ in reversed(asked):
        # A prompt beside results came while calls of an earlier one were at work, so that one is open too.
        calls = messages[start - 1].calls if start and messages[start].results else ()
        if not calls or any(call.id.startswith("user_") for call in calls):
            break
    return start


def _prompts(messages: tuple[Message, ...]) -> list[tuple[int, str]]:
    """(index, text) of what people said; the last text of a message is the prompt, what stands before is context."""
    out: list[tuple[int, str]] = []
    for index, message in enumerate(messages):
        texts = [b.text for b in message.content if isinstance(b, Text) and not b.text.startswith(_NUDGE)]
        if message.role != "user" or not texts:
            continue
        text = texts[-1].split(_TYPED)[0].strip()
        if text.startswith(_COMPACTED):
            text = (_REQUEST.findall(text) or [""])[-1]
        out += [(index, _AT_FILE.sub("", text))] if text else []
    return out


def _schema(messages: tuple[Message, ...]) -> Json | None:
    typed = [message.text for message in messages if message.role == "user" and _TYPED in message.text]
    try:
        schema = json.loads(typed[-1].rpartition(_TYPED)[2]) if typed else None
    except ValueError:
        return None
    return schema if isinstance(schema, dict) else None


def _value(schema: Json, answer: str, name: str = "") -> Any:
    """The answer as a value of the schema: places go to paths and lines, the text to whatever takes text."""
    place = _AT.search(answer)
    match schema.get("type"):
        case "object":
            return {key: _value(inner, answer, key) for key, inner in (schema.get("properties") or {}).items()}
        case "array":
            each = [row for row in answer.splitlines() if _AT.search(row)] or [answer]
            return [_value(schema.get("items") or {}, row, name) for row in each[:20]]
        case "integer" | "number":
            number = place[2] if place else (re.findall(r"\d[\d,]*", answer) or ["0"])[0]
            return int(number.replace(",", ""))
        case "boolean":
            return not re.search(r"\b(?:nothing|none|not|no)\b", answer[:200])
    path = place[1] if place and re.search(r"file|path", name, re.IGNORECASE) else answer
    return schema["enum"][0] if schema.get("enum") else path


def _summarise(conversation: str) -> str:
    """The memory of a conversation that is about to be shortened: requests, answers, places."""
    places = list(dict.fromkeys(m[0].strip("`") for m in _AT.finditer(conversation)))
    parts = []
    for title, mark in (("Requests", "USER"), ("Answers", "AGENT"), ("Changes", "CALL (?:Edit|Write)")):
        if said := re.findall(rf"^{mark}:? (.+)$", conversation, re.MULTILINE):
            parts.append(f"{title}:\n" + "\n".join(f"- {text[:300]}" for text in said[-20:]))
    parts += ["Places: " + ", ".join(places[:40])] if places else []
    return "\n\n".join(parts) or "Nothing of note was said."
