"""Room in the window: old bulky results are cleared first; then the older conversation becomes a summary.

The summary pins what must not be forgotten word for word. It is an event: the originals stay in the log.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

from cowork.core.blocks import Block, Image, Message, Text, ToolResult, ToolUse, Usage
from cowork.core.errors import ProviderError
from cowork.core.events import ContextCompacted, Event, PromptAdded, ReplyAdded, ToolEnded
from cowork.core.frozen import frozen
from cowork.core.ports import Reply, Request, Retry
from cowork.core.transcript import Transcript, fold
from cowork.engine.loop import Agent

CHARS_A_TOKEN = 4
IMAGE_TOKENS = 1_500
BULKY = 2_000  # characters of a result worth clearing
FRESH_TURNS = 4  # replies whose results are never cleared
KEEP_SHARE = 0.2  # of the window, for the newest messages kept as they are
AFTER_SHARE = 0.6  # clearing alone is enough when it gets below this
SUMMARY_TOKENS = 4_000


@frozen
class Compaction:
    """Called before each request ("auto"), after an overflow ("overflow") and by hand ("manual")."""

    instructions: str  # the text of prompts/compact.md
    auto: bool = True
    threshold: float = 0.85
    pending: Callable[[str], Sequence[str]] = lambda path: ()  # an agent's children at work, in a line each

    async def __call__(self, agent: Agent, trigger: str, hint: str = "") -> bool:
        """Make room if it is needed; says whether the conversation changed."""
        window = agent.provider.context_window
        before = max(agent.context_tokens, estimate(agent))
        if trigger == "auto" and (not self.auto or before < self.threshold * window):
            return False
        cleared, saved = _clearable(agent)
        if trigger != "manual" and cleared and before - saved < AFTER_SHARE * window:
            after = before - saved
            kept = ("everything but old tool results",)
            agent.emit(
                ContextCompacted(cleared=cleared, trigger=trigger, tokens_before=before, tokens_after=after, kept=kept)
            )
            agent.context_tokens = after
            return True
        return await self._summarize(agent, trigger, hint, before)

    async def _summarize(self, agent: Agent, trigger: str, hint: str, before: int) -> bool:
        window = agent.provider.context_window
        keep_from = _keep_from(agent, 0 if trigger == "manual" else int(KEEP_SHARE * window * CHARS_A_TOKEN))
        older = _before(agent, keep_from)
        if trigger == "overflow" and not older:  # it does not fit, whatever the estimate says
            keep_from, older = 0, _before(agent, 0)
        if not older:
            return False
        told, usage, cost = await self._ask(agent, older, hint)
        pins, names = self._pins(agent)
        event = ContextCompacted(
            summary=f"[The conversation so far, compacted.]\n\n{pins}\n\n<summary>\n{told}\n</summary>",
            keep_from=keep_from,
            trigger=trigger,
            tokens_before=before,
            kept=names,
            usage=usage,
            cost_usd=cost,
            model=agent.provider.model,
            agent=agent.path,
        )
        after = estimate(agent, fold([*agent.transcript.history(), event], agent.path))
        agent.emit(replace(event, tokens_after=after))
        agent.context_tokens = after
        return True

    async def _ask(self, agent: Agent, older: Sequence[Event], hint: str) -> tuple[str, Usage, float | None]:
        """The model's summary; when the service fails, a plain list of what happened."""
        room = int(agent.provider.context_window * CHARS_A_TOKEN * 0.5)
        wish = f"\n\nThe user asks to keep in mind: {hint}" if hint else ""
        text = f"<conversation>\n{_squeeze(render(older), room)}\n</conversation>{wish}"
        request = Request(
            self.instructions,
            (Message("user", (Text(text),)),),
            max_output_tokens=min(SUMMARY_TOKENS, agent.provider.max_output_tokens),
            thinking="off",
            session_id=f"{agent.session_id}/compact",
        )
        usage, told = Usage(), ""
        expected = Usage(len(text) // CHARS_A_TOKEN, SUMMARY_TOKENS)
        reservation = await agent.ledger.reserve(expected.total, agent.provider.price(expected))
        try:
            async for item in agent.provider.stream(request):
                if isinstance(item, Retry | Reply):
                    usage = usage + item.usage
                if isinstance(item, Reply):
                    told = item.text.strip()
        except ProviderError as failure:
            usage = usage + failure.usage
        finally:
            cost = agent.provider.price(usage) if usage != Usage() else 0.0
            agent.spend(usage, cost)
            reservation.settle(usage, cost)
        return told or _squeeze(render(older, results=False), 8_000), usage, cost

    def _pins(self, agent: Agent) -> tuple[str, tuple[str, ...]]:
        """What is kept word for word, and the names of it for people."""
        prompts = [e for e in agent.transcript.history() if isinstance(e, PromptAdded) and e.source != "system"]
        first, last = prompts[0], prompts[-1]
        parts, names = [], []
        if first.context:
            parts.append(first.context)
            names.append("instructions")
        parts.append(f"<request>\n{first.text}\n</request>")
        names.append("the request")
        if last is not first:
            parts.append(f"<latest_request>\n{last.text}\n</latest_request>")
        state = agent.runner.state
        if state.todos:
            parts.append("<todo>\n" + "\n".join(f"[{t['status']}] {t['content']}" for t in state.todos) + "\n</todo>")
            names.append(f"{len(state.todos)} todos")
        if state.seen:
            files = list(state.seen)[-20:]
            parts.append("<files_in_play>\n" + "\n".join(files) + "\n</files_in_play>")
            names.append(f"{len(files)} files in play")
        if children := self.pending(agent.path):
            parts.append("<children_at_work>\n" + "\n".join(children) + "\n</children_at_work>")
            names.append(f"{len(children)} children")
        return "\n\n".join(parts), tuple(names)


def estimate(agent: Agent, transcript: Transcript | None = None) -> int:
    """Tokens the next request would take, roughly: characters by four."""
    transcript = transcript or agent.transcript
    fixed = len(agent.system) + sum(len(s.description) + len(json.dumps(s.schema)) for s in agent.specs)
    return fixed // CHARS_A_TOKEN + sum(_tokens(b) for m in transcript.messages() for b in m.content)


def render(events: Sequence[Event], *, results: bool = True) -> str:
    """A conversation as plain text, long results shortened."""
    lines: list[str] = []
    for event in events:
        match event:
            case PromptAdded(text=text):
                lines.append(f"USER: {text}")
            case ReplyAdded(content=content):
                for block in content:
                    if isinstance(block, Text) and block.text.strip():
                        lines.append(f"AGENT: {block.text}")
                    elif isinstance(block, ToolUse):
                        given = json.dumps(block.input, ensure_ascii=False)
                        lines.append(f"CALL {block.name} {_squeeze(given, 600)}")
            case ToolEnded(record=record) if results:
                lines.append(f"RESULT ({record.get('status')}): {_squeeze(str(record.get('text', '')), 800)}")
            case ContextCompacted(summary=summary) if summary:
                lines.append(summary)
    return "\n".join(lines)


def _clearable(agent: Agent) -> tuple[tuple[str, ...], int]:
    """Bulky results older than the freshest turns, and the tokens they take."""
    messages = agent.transcript.messages()
    ids: list[str] = []
    saved = 0
    for message in messages[: -2 * FRESH_TURNS]:
        for result in message.results:
            size = _tokens(result)
            if size * CHARS_A_TOKEN >= BULKY:
                ids.append(result.tool_use_id)
                saved += size
    return tuple(ids), saved


def _before(agent: Agent, id: int) -> list[Event]:
    """The history before an event, all of it for 0; nothing if the model has not said anything in it."""
    older = [e for e in agent.transcript.history() if not id or e.id < id]
    return older if any(isinstance(e, ReplyAdded) for e in older) else []


def _keep_from(agent: Agent, room: int) -> int:
    """Id of the oldest entry that still fits the room counted from the end; 0 keeps nothing."""
    sizes: dict[int, int] = {}
    current = 0
    for event in agent.transcript.history():
        if isinstance(event, PromptAdded | ReplyAdded):
            current = event.id
        sizes[current] = sizes.get(current, 0) + len(render([event]))
    keep = 0
    for id, _ in reversed(agent.transcript.entry_ids()):
        room -= sizes.get(id, 0)
        if room < 0:
            break
        keep = id
    return keep


def _tokens(block: Block) -> int:
    match block:
        case Text(text):
            return len(text) // CHARS_A_TOKEN
        case ToolUse(input=given):
            return len(str(given)) // CHARS_A_TOKEN
        case ToolResult(content=content):
            if isinstance(content, str):
                return len(content) // CHARS_A_TOKEN
            return sum(_tokens(b) for b in content)
        case Image():
            return IMAGE_TOKENS
        case _:
            return 0


def _squeeze(text: str, room: int) -> str:
    """Head and tail of a text that is too long."""
    if len(text) <= room:
        return text
    return f"{text[: room * 2 // 3]}\n[…]\n{text[-room // 3 :]}"
