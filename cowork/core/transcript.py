"""Events in, messages out. The pairing rule lives here and nowhere else.

Whatever the history looks like (an interrupt, a crash, a lost or doubled line), what `messages()` gives can be
sent: every tool_use has its tool_result in the very next user message, results first and in call order; no block
is empty; roles alternate; the first message is the user's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, field, replace
from itertools import count, dropwhile
from typing import Literal

from cowork.core.blocks import Block, Image, Message, Text, Thinking, ToolResult, ToolUse
from cowork.core.events import ContextCompacted, Event, PromptAdded, ReplyAdded, SessionRewound, ToolEnded, ToolStarted

Recall = Callable[[], Iterable[Event]]

INTERRUPTED = "Interrupted before it finished; whether it took effect is unknown. Check before you run it again."
NEVER_RAN = "Interrupted before it ran; nothing was done."
CLEARED = "[Old result cleared to save room. Run the tool again if you need it.]"
SHORTENED = "[{} characters left out: the whole result does not fit. Ask for a smaller part of it.]"
PROMPTS_KEPT = 1_000  # from before a summary, to go back to
SHORT = 2_000  # characters that stay of a shortened result
LOST_START = "[The beginning of this conversation is not available.]"


@dataclass(slots=True)
class HistoryPart:
    """One thing the model sees: a prompt, a summary, or a reply with its calls and what came of them."""

    id: int
    kind: Literal["prompt", "summary", "reply"]
    blocks: tuple[Block, ...]
    events: list[Event]  # that made it
    calls: tuple[ToolUse, ...] = ()
    started: set[str] = field(default_factory=set)
    results: dict[str, ToolResult] = field(default_factory=dict)


class _Sendable:
    """Messages as they may be sent, taken up entry by entry: a long conversation is not built anew for each request."""

    def __init__(self, model: str | None) -> None:
        self.model = model
        self.taken = 0  # entries
        self._done: list[Message] = []
        self._waiting: list[Block] = []  # the user message being built

    def messages(self) -> tuple[Message, ...]:
        return (*self._done, Message("user", tuple(self._waiting))) if self._waiting else tuple(self._done)

    def take(self, entry: HistoryPart, results: Iterable[ToolResult]) -> None:
        self.taken += 1
        if entry.kind != "reply":
            self._waiting.extend(entry.blocks)
            return
        blocks = entry.blocks
        if self.model is not None:
            blocks = tuple(b for b in blocks if not isinstance(b, Thinking) or b.model == self.model)
        if not any(isinstance(b, Text | ToolUse) for b in blocks):
            return  # an answer of nothing but reasoning cannot be sent back
        done = self._done
        if done and done[-1].role == "assistant" and not self._waiting:
            done[-1] = Message("assistant", (*done[-1].content, *blocks))
        else:
            done.append(Message("user", tuple(self._waiting or [Text(LOST_START)])))
            done.append(Message("assistant", blocks))
        self._waiting = list(results)


class Transcript:
    """The conversation of one agent, built live and on resume by the same `apply`."""

    def __init__(self, agent: str = "main", recall: Recall | None = None) -> None:
        """With `recall`, which reads everything that ever happened again, what a summary stands for is let go."""
        self.agent = agent
        self._recall = recall
        self._reset()

    def _reset(self) -> None:
        self._history: list[Event] = []  # what shaped the entries; rewinding folds it again
        self._let_go = 0  # the summary before which only prompts are left in it
        self._entries: list[HistoryPart] = []
        self._owner: dict[str, tuple[HistoryPart, str]] = {}  # call id -> the reply it belongs to, and its id there
        self._cleared: set[str] = set()
        self._shortened: set[str] = set()
        self.tokens = 0  # of the window, as the service counted with the newest reply, or by estimate when compacted
        self._counted = 0  # the event that count is of
        self._sent: _Sendable | None = None  # what was sent last, where it cannot change any more

    def apply(self, event: Event) -> None:
        """Take one event in; those of other agents and other kinds change nothing."""
        if event.agent != self.agent:
            return
        match event:
            case PromptAdded():
                texts = (Text(text) for text in (event.context, event.text) if text.strip())
                self._entries.append(HistoryPart(event.id, "prompt", (*texts, *event.images), [event]))
            case ReplyAdded():
                self._add_reply(event)
            case ToolStarted():
                if owner := self._owner.get(event.tool_use_id):
                    owner[0].started.add(owner[1])
            case ToolEnded():
                self._add_result(event)
            case ContextCompacted():
                event = self._compact(event)
            case SessionRewound(to=to):
                if event.conversation:
                    past = self._recall() if self._recall and to <= self._let_go else self._history
                    self._reset()  # a rewind is a fold of what is left
                    for earlier in past:
                        if earlier.id < to:
                            self.apply(earlier)
                return
            case _:
                return
        self._history.append(event)

    def messages(self, model: str | None = None) -> tuple[Message, ...]:
        """The conversation as it may be sent; with `model`, without the reasoning of any other model."""
        sent = self._sent if self._sent and self._sent.model == model else _Sendable(model)
        new = self._entries[sent.taken :]
        for entry in new:
            sent.take(entry, self._results_of(entry))
        # What may still change is not kept; the first result of a call is the one that counts.
        self._sent = sent if all(len(entry.results) == len(entry.calls) for entry in new) else None
        return sent.messages()

    def open_calls(self) -> tuple[ToolUse, ...]:
        """Calls of the last reply that have no result yet."""
        last = next((entry for entry in reversed(self._entries) if entry.kind == "reply"), None)
        return tuple(call for call in last.calls if call.id not in last.results) if last else ()

    def ids(self) -> Set[str]:
        """Every call id in use, so that a new reply can avoid them."""
        return self._owner.keys()

    def last_text(self, since: int = 0) -> str:
        """The newest text the model said, in or after the event with that id."""
        said = (e.blocks for e in reversed(self._entries) if e.kind == "reply" and e.id >= since)
        texts = ("".join(b.text for b in blocks if isinstance(b, Text)) for blocks in said)
        return next(filter(None, texts), "")

    def prompts(self) -> tuple[PromptAdded, ...]:
        """The prompts one can still rewind to, oldest first."""
        return tuple(event for event in self._history if isinstance(event, PromptAdded))

    def history(self) -> tuple[Event, ...]:
        """The events that made this conversation, rewound ones left out, and of what was let go the prompts."""
        return tuple(self._history)

    def parts(self) -> list[HistoryPart]:
        """Everything the model still sees, oldest first, with the results as it sees them."""
        return [replace(e, results={r.tool_use_id: r for r in self._results_of(e)}) for e in self._entries]

    def uncounted_blocks(self) -> tuple[Block, ...]:
        """What came after the request that `tokens` is of."""
        blocks: list[Block] = []
        for entry in self._entries:
            if entry.id > self._counted and entry.kind != "summary":
                blocks.extend(entry.blocks)
            if entry.id >= self._counted:
                blocks.extend(self._results_of(entry))
        return tuple(blocks)

    def _add_reply(self, event: ReplyAdded) -> None:
        if event.usage.total:
            self.tokens, self._counted = event.usage.total, event.id
        entry = HistoryPart(event.id, "reply", (), [event])
        kept: list[Block] = []
        for block in event.content:
            if isinstance(block, ToolUse):
                taken = self._owner.get(block.id)
                if not block.id or not block.name or (taken and taken[0] is entry):
                    continue  # nameless, or an id used twice
                name = next(
                    id for n in count(1) if (id := block.id if n == 1 else f"{block.id}_{n}") not in self._owner
                )
                self._owner[block.id] = self._owner[name] = entry, name
                kept.append(replace(block, id=name) if name != block.id else block)
            elif not isinstance(block, ToolResult) and (not isinstance(block, Text) or block.text.strip()):
                kept.append(block)  # results are the user's, and an empty text cannot be sent
        entry.blocks, entry.calls = tuple(kept), tuple(block for block in kept if isinstance(block, ToolUse))
        self._entries.append(entry)

    def _add_result(self, event: ToolEnded) -> None:
        entry, id = self._owner.get(event.tool_use_id, (None, ""))
        if entry is None or id in entry.results:
            return
        text = str(event.record.get("text") or "(no output)")
        content: str | tuple[Text | Image, ...] = (Text(text), *event.images) if event.images else text
        entry.results[id] = ToolResult(id, content, event.record.get("status") == "error")
        entry.events.append(event)

    def _results_of(self, entry: HistoryPart) -> Iterable[ToolResult]:
        for call in entry.calls:
            result = entry.results.get(call.id)
            if result is None:
                text = INTERRUPTED if call.id in entry.started else NEVER_RAN
                result = ToolResult(call.id, text, is_error=True)
            elif call.id in self._cleared:
                result = ToolResult(call.id, CLEARED, result.is_error)
            elif call.id in self._shortened:
                result = ToolResult(call.id, _shorten(result.content), result.is_error)
            yield result

    def _compact(self, event: ContextCompacted) -> ContextCompacted:
        """Gives the event with `keep_from` as it came out: what an earlier summary took is not kept by a later one."""
        self._sent = None
        self._cleared.update(event.cleared)
        self._shortened.update(event.shortened)
        self.tokens, self._counted = event.tokens_after, event.id
        if not event.summary.strip():  # an empty text cannot be sent
            return event
        start = event.keep_from
        # An older summary has a higher id than what was kept after it, and gives way to this one.
        recent = dropwhile(lambda e: e.id < start or (e.kind == "summary" and e.id != start), self._entries)
        kept = list(recent) if start else []
        self._entries = [HistoryPart(event.id, "summary", (Text(event.summary),), [event]), *kept]
        here = {entry.id for entry in self._entries}
        self._owner = {id: owner for id, owner in self._owner.items() if owner[0].id in here}
        self._cleared &= self._owner.keys()
        self._shortened &= self._owner.keys()
        if self._recall:
            # Of what it stands for the newest prompts stay, the one with what there is to know, and skills.
            self._let_go, oldest = event.id, min(here)
            old = [p for p in self.prompts() if p.id < oldest]
            first = next((p for p in old if p.context), None)
            gone = {p.id for p in old[:-PROMPTS_KEPT] if p is not first}
            known = (e for e in self._history if e.id >= oldest or is_pinned(e) or isinstance(e, PromptAdded))
            self._history = [e for e in known if e.id not in gone]
        return replace(event, keep_from=kept[0].id if kept else 0)


def fold(events: Iterable[Event], agent: str = "main", recall: Recall | None = None) -> Transcript:
    """The transcript a history stands for."""
    transcript = Transcript(agent, recall)
    for event in events:
        transcript.apply(event)
    return transcript


def is_pinned(event: Event) -> bool:
    """Whether every summary repeats a result word for word: what a skill says."""
    return isinstance(event, ToolEnded) and "skill" in (event.record.get("data") or ())


def _shorten(content: str | tuple[Text | Image, ...]) -> str:
    """Head and tail of a result, without its pictures."""
    text = content if isinstance(content, str) else "".join(b.text for b in content if isinstance(b, Text))
    left_out = max(0, len(text) - SHORT)
    tail = text[-SHORT // 2 :] if left_out else ""
    return f"{text[: len(text) - left_out - len(tail)]}\n{SHORTENED.format(left_out)}\n{tail}".rstrip()
