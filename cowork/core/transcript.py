"""Events in, messages out. The pairing rule lives here and nowhere else.

Whatever the history looks like (an interrupt, a crash, a lost or doubled line), what `messages()` gives can be
sent: every tool_use has its tool_result in the very next user message, results first and in call order; no block
is empty; roles alternate; the first message is the user's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, field
from itertools import dropwhile
from typing import Literal

from cowork.core.blocks import Block, Image, Message, Text, Thinking, ToolResult, ToolUse
from cowork.core.events import (
    ContextCompacted,
    Event,
    PromptAdded,
    ReplyAdded,
    SessionRewound,
    ToolEnded,
    ToolStarted,
)
from cowork.core.frozen import frozen

Recall = Callable[[], Iterable[Event]]

INTERRUPTED = "Interrupted before it finished; whether it took effect is unknown. Check before you run it again."
NEVER_RAN = "Interrupted before it ran; nothing was done."
CLEARED = "[Old result cleared to save room. Run the tool again if you need it.]"
SHORTENED = "[{} characters left out: the whole result does not fit. Ask for a smaller part of it.]"
PROMPTS_KEPT = 1_000  # from before a summary, to go back to
SHORT = 2_000  # characters that stay of a shortened result
LOST_START = "[The beginning of this conversation is not available.]"


@dataclass(slots=True)
class _Entry:
    """A prompt or a summary (`calls` is None), or a reply with its calls and what came of them."""

    id: int
    blocks: tuple[Block, ...]
    calls: tuple[ToolUse, ...] | None = None
    summary: bool = False
    started: set[str] = field(default_factory=set)
    results: dict[str, ToolResult] = field(default_factory=dict)

    @property
    def settled(self) -> bool:
        """Whether nothing that may still come changes it: the first result of a call is the one that counts."""
        return len(self.results) == len(self.calls or ())


@frozen
class HistoryPart:
    """One thing the model sees: a prompt, a summary, or a reply with the results of its calls."""

    id: int
    kind: Literal["prompt", "summary", "reply"]
    blocks: tuple[Block, ...]
    results: tuple[ToolResult, ...]


class _Sendable:
    """Messages as they may be sent, taken up entry by entry: a long conversation is not built anew for each request."""

    def __init__(self, model: str | None) -> None:
        self.model = model
        self.taken = 0  # entries
        self._done: list[Message] = []
        self._waiting: list[Block] = []  # the user message being built
        self._ids: set[str] = set()

    def copy(self) -> _Sendable:
        other = _Sendable(self.model)
        other.taken, other._done = self.taken, self._done.copy()
        other._waiting, other._ids = self._waiting.copy(), self._ids.copy()
        return other

    def messages(self) -> tuple[Message, ...]:
        return (*self._done, Message("user", tuple(self._waiting))) if self._waiting else tuple(self._done)

    def take(self, entry: _Entry, results: Iterable[ToolResult]) -> None:
        self.taken += 1
        if entry.calls is None:
            self._waiting.extend(entry.blocks)
            return
        blocks = [b for b in entry.blocks if not _foreign(b, self.model)]
        if not any(isinstance(b, Text | ToolUse) for b in blocks):
            return  # an answer of nothing but reasoning cannot be sent back
        renamed = _unique_ids(entry.calls, self._ids)
        blocks = [_rename(b, renamed) for b in blocks]
        done = self._done
        if done and done[-1].role == "assistant" and not self._waiting:
            done[-1] = Message("assistant", (*done[-1].content, *blocks))
        else:
            if not done and not self._waiting:
                self._waiting.append(Text(LOST_START))
            if self._waiting:
                done.append(Message("user", tuple(self._waiting)))
            done.append(Message("assistant", tuple(blocks)))
        self._waiting = [_rename_result(result, renamed) for result in results]


class Transcript:
    """The conversation of one agent, built live and on resume by the same `apply`."""

    def __init__(self, agent: str = "main", recall: Recall | None = None) -> None:
        """With `recall`, which reads everything that ever happened again, what a summary stands for is let go."""
        self.agent = agent
        self._recall = recall
        self._reset()

    def _reset(self) -> None:
        self._history: list[Event] = []  # what shaped the entries; rewinding folds it again
        self._prompts: list[PromptAdded] = []  # of it
        self._let_go = 0  # the summary before which only prompts are left in it
        self._entries: list[_Entry] = []
        self._owner: dict[str, _Entry] = {}  # open or answered call id -> the reply it belongs to
        self._cleared: set[str] = set()
        self._shortened: set[str] = set()
        self.tokens = 0  # of the window, as the service counted with the newest reply, or by estimate when compacted
        self._counted = 0  # the event that count is of
        self._sent: _Sendable | None = None  # as far as it cannot change any more

    def apply(self, event: Event) -> None:
        """Take one event in; those of other agents and other kinds change nothing."""
        if event.agent != self.agent:
            return
        match event:
            case PromptAdded():
                self._entries.append(_Entry(event.id, _prompt_blocks(event)))
                self._prompts.append(event)
            case ReplyAdded():
                self._add_reply(event)
            case ToolStarted():
                if entry := self._owner.get(event.tool_use_id):
                    entry.started.add(event.tool_use_id)
            case ToolEnded():
                self._add_result(event)
            case ContextCompacted():
                self._compact(event)
            case SessionRewound():
                if event.conversation:
                    self._rewind(event.to)
                return
            case _:
                return
        self._history.append(event)

    def messages(self, model: str | None = None) -> tuple[Message, ...]:
        """The conversation as it may be sent; with `model`, without the reasoning of any other model."""
        if self._sent is None or self._sent.model != model:
            self._sent = _Sendable(model)
        sent, entries = self._sent, self._entries
        while sent.taken < len(entries) and entries[sent.taken].settled:
            entry = entries[sent.taken]
            sent.take(entry, self._results_of(entry))
        if sent.taken < len(entries):  # the rest may still change, so it is not kept
            sent = sent.copy()
            for entry in entries[sent.taken :]:
                sent.take(entry, self._results_of(entry))
        return sent.messages()

    def open_calls(self) -> tuple[ToolUse, ...]:
        """Calls of the last reply that have no result yet."""
        for entry in reversed(self._entries):
            if entry.calls is not None:
                return tuple(c for c in entry.calls if c.id not in entry.results)
        return ()

    def ids(self) -> Set[str]:
        """Every call id in use, so that a new reply can avoid them."""
        return self._owner.keys()

    def last_text(self, since: int = 0) -> str:
        """The newest text the model said, in or after the event with that id."""
        for entry in reversed(self._entries):
            if entry.calls is not None and entry.id >= since:
                text = "".join(b.text for b in entry.blocks if isinstance(b, Text))
                if text:
                    return text
        return ""

    def prompts(self) -> tuple[PromptAdded, ...]:
        """The prompts one can still rewind to, oldest first."""
        return tuple(self._prompts)

    def history(self) -> tuple[Event, ...]:
        """The events that made this conversation, rewound ones left out, and of what was let go the prompts."""
        return tuple(self._history)

    def parts(self) -> tuple[HistoryPart, ...]:
        """Everything the model still sees, oldest first."""
        return tuple(
            HistoryPart(
                e.id,
                "summary" if e.summary else "prompt" if e.calls is None else "reply",
                e.blocks,
                tuple(self._results_of(e)),
            )
            for e in self._entries
        )

    def uncounted(self) -> tuple[Block, ...]:
        """What came after the request that `tokens` is of."""
        blocks: list[Block] = []
        for entry in self._entries:
            if entry.id > self._counted and not entry.summary:
                blocks.extend(entry.blocks)
            if entry.id >= self._counted:
                blocks.extend(self._results_of(entry))
        return tuple(blocks)

    def _add_reply(self, event: ReplyAdded) -> None:
        if event.usage.total:
            self.tokens, self._counted = event.usage.total, event.id
        blocks = _sendable(event.content)
        calls = tuple(b for b in blocks if isinstance(b, ToolUse))
        entry = _Entry(event.id, blocks, calls)
        self._entries.append(entry)
        for call in calls:
            self._owner[call.id] = entry

    def _add_result(self, event: ToolEnded) -> None:
        entry = self._owner.get(event.tool_use_id)
        if entry is None or event.tool_use_id in entry.results:
            return
        text = str(event.record.get("text") or "(no output)")
        content: str | tuple[Text | Image, ...] = (Text(text), *event.images) if event.images else text
        is_error = event.record.get("status") == "error"
        entry.results[event.tool_use_id] = ToolResult(event.tool_use_id, content, is_error)

    def _results_of(self, entry: _Entry) -> Iterable[ToolResult]:
        for call in entry.calls or ():
            result = entry.results.get(call.id)
            if result is None:
                text = INTERRUPTED if call.id in entry.started else NEVER_RAN
                result = ToolResult(call.id, text, is_error=True)
            elif call.id in self._cleared:
                result = ToolResult(call.id, CLEARED, result.is_error)
            elif call.id in self._shortened:
                result = ToolResult(call.id, _shortened(result.content), result.is_error)
            yield result

    def _compact(self, event: ContextCompacted) -> None:
        self._sent = None
        self._cleared.update(event.cleared)
        self._shortened.update(event.shortened)
        self.tokens, self._counted = event.tokens_after, event.id
        if not event.summary.strip():  # an empty text cannot be sent
            return
        start = event.keep_from
        # An older summary has a higher id than what was kept after it, and gives way to this one.
        kept = dropwhile(lambda e: e.id < start or (e.summary and e.id != start), self._entries if start else ())
        self._entries = [_Entry(event.id, (Text(event.summary),), summary=True), *kept]
        self._owner = {call.id: entry for entry in self._entries for call in entry.calls or ()}
        self._cleared &= self._owner.keys()
        self._shortened &= self._owner.keys()
        if self._recall:
            self._let_go_before(min(entry.id for entry in self._entries))
            self._let_go = event.id

    def _let_go_before(self, oldest: int) -> None:
        """Keep of what a summary stands for the newest prompts, the one with what there is to know, and skills."""
        old = [p for p in self._prompts if p.id < oldest]
        first = next((p for p in old if p.context), None)
        gone = {p.id for p in old[:-PROMPTS_KEPT] if p is not first}
        self._prompts = [p for p in self._prompts if p.id not in gone]
        self._history = [e for e in self._history if e.id >= oldest or is_pinned(e) or _is_prompt(e, gone)]

    def _rewind(self, to: int) -> None:
        is_gone = self._recall is not None and to <= self._let_go
        past = self._recall() if self._recall and is_gone else self._history
        self._reset()  # a rewind is a fold of what is left
        for event in past:
            if event.id < to:
                self.apply(event)


def fold(events: Iterable[Event], agent: str = "main", recall: Recall | None = None) -> Transcript:
    """The transcript a history stands for."""
    transcript = Transcript(agent, recall)
    for event in events:
        transcript.apply(event)
    return transcript


def is_pinned(event: Event) -> bool:
    """Whether every summary repeats a result word for word: what a skill says."""
    return isinstance(event, ToolEnded) and "skill" in (event.record.get("data") or ())


def _is_prompt(event: Event, gone: Set[int]) -> bool:
    return isinstance(event, PromptAdded) and event.id not in gone


def _prompt_blocks(event: PromptAdded) -> tuple[Block, ...]:
    texts = (Text(t) for t in (event.context, event.text) if t.strip())
    return (*texts, *event.images)


def _sendable(content: tuple[Block, ...]) -> tuple[Block, ...]:
    """Without empty text, results (they are the user's), nameless calls and a call id used twice."""
    kept: list[Block] = []
    ids: set[str] = set()
    for block in content:
        if isinstance(block, ToolResult) or (isinstance(block, Text) and not block.text.strip()):
            continue
        if isinstance(block, ToolUse):
            if not block.id or not block.name or block.id in ids:
                continue
            ids.add(block.id)
        kept.append(block)
    return tuple(kept)


def _shortened(content: str | tuple[Text | Image, ...]) -> str:
    """Head and tail of a result, without its pictures."""
    text = content if isinstance(content, str) else "".join(b.text for b in content if isinstance(b, Text))
    left_out = max(0, len(text) - SHORT)
    tail = text[-SHORT // 2 :] if left_out else ""
    return f"{text[: len(text) - left_out - len(tail)]}\n{SHORTENED.format(left_out)}\n{tail}".rstrip()


def _foreign(block: Block, model: str | None) -> bool:
    return isinstance(block, Thinking) and model is not None and block.model != model


def _unique_ids(calls: tuple[ToolUse, ...], seen: set[str]) -> dict[str, str]:
    """New names for ids an earlier reply already used, and the used ones noted in `seen`."""
    renamed: dict[str, str] = {}
    for call in calls:
        name, n = call.id, 2
        while name in seen:
            name, n = f"{call.id}_{n}", n + 1
        seen.add(name)
        if name != call.id:
            renamed[call.id] = name
    return renamed


def _rename(block: Block, renamed: dict[str, str]) -> Block:
    if isinstance(block, ToolUse) and block.id in renamed:
        return ToolUse(renamed[block.id], block.name, block.input, block.malformed)
    return block


def _rename_result(result: ToolResult, renamed: dict[str, str]) -> ToolResult:
    if result.tool_use_id in renamed:
        return ToolResult(renamed[result.tool_use_id], result.content, result.is_error)
    return result
