"""Room in the window: old bulky results are cleared first; then the older conversation becomes a summary.

The summary pins what must not be forgotten word for word. It is an event: the originals stay in the log. What the
model has not seen yet is never summarised away: results that are too large for the window are shortened.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace

from cowork.core.blocks import CHARS_A_TOKEN, Message, Text, ToolUse, Usage, estimate_tokens
from cowork.core.errors import ProviderError, UserError
from cowork.core.events import ContextCompacted, Event, Notice, PromptAdded, ReplyAdded, ToolEnded
from cowork.core.format import plural
from cowork.core.frozen import frozen
from cowork.core.ports import Request
from cowork.core.transcript import SHORT, HistoryPart, Transcript, fold, is_pinned
from cowork.engine.budget import NOTHING, Cost
from cowork.engine.clip import file_name, save
from cowork.engine.loop import PEOPLE, Agent

BULKY = 500  # tokens of a result worth clearing
FRESH_TURNS = 4  # replies whose results are never cleared
KEEP_SHARE = 0.2  # of the window, for the newest messages kept as they are
NEW_SHARE = 0.5  # of the window, for what the model has not seen yet; after an overflow as for the newest messages
AFTER_SHARE = 0.6  # clearing alone is enough when it gets below this
PIN_SHARE = 0.1  # of the window, for each kind of thing that is pinned
NEWEST_SHARE = 0.2  # of the window, for the newest request: it is being worked on
LEAST_GAIN = 0.05  # of the window: less is not worth a summary
ASK_SHARE = 0.5  # of the window, for the text to summarise
TRIES = 2  # the second with a quarter of it, when the first does not fit
SUMMARY_TOKENS = 4_000
MESSAGE_TOKENS = 4  # that any message takes
MOST_SCALE = 4.0
LEFT_OUT = "[…]"
_HOPELESS = ("auth", "connection", "spend_limit")  # whatever is asked next will fail as well


@frozen
class Room:
    """What there is to fill. `scale`: tokens of the service that one of our estimate stands for."""

    window: int
    before: int
    scale: float

    def chars(self, share: float) -> int:
        return int(share * self.window * CHARS_A_TOKEN / self.scale)

    def tokens(self, share: float) -> int:
        """In tokens of our estimate."""
        return int(share * self.window / self.scale)


@frozen
class Compaction:
    """Called before each request ("auto"), after an overflow ("overflow") and by hand ("manual")."""

    instructions: str  # the text of prompts/compact.md
    auto: bool = True
    threshold: float = 0.85

    async def __call__(self, agent: Agent, trigger: str, hint: str = "") -> bool:
        """Make room if it is needed; says whether the conversation changed."""
        before, scale = weigh(agent)
        window = agent.provider.context_window
        if trigger == "auto" and (not self.auto or before < self.threshold * window):
            return False
        kind = "manual" if trigger == "manual" else "auto"
        if why := await agent.runner.hooks.before_compacting(kind, hint):
            if trigger == "manual":
                raise UserError(f"Nothing was compacted: a hook forbids it: {why}")
            return False
        if trigger == "overflow":  # the service knows better than we how much fits
            window = min(window, before)
        room = Room(window, before, scale)
        cleared, saved = _clearable(agent)
        if trigger != "manual" and cleared and before - saved * scale < AFTER_SHARE * window:
            kept = (f"everything but {len(cleared)} old tool results",)
            agent.emit(_measure(agent, room, ContextCompacted(cleared=cleared, trigger=trigger, kept=kept)))
            return True
        try:
            return await self._summarize(agent, trigger, hint, room)
        finally:
            if trigger == "manual" and (lost := agent.cut_off()):  # no turn is under way whose end would tell it
                agent.emit(Notice("A summary that was not used is counted.", code="request.cut_off", data=lost))

    async def _summarize(self, agent: Agent, trigger: str, hint: str, room: Room) -> bool:
        keep = 0.0 if trigger == "manual" else KEEP_SHARE
        new = KEEP_SHARE if trigger == "overflow" else NEW_SHARE
        keep_from, shortened = _choose_kept(agent.transcript, room.tokens(keep), room.tokens(new))
        older = _older(agent.transcript, keep_from)
        if trigger == "auto" and sum(map(_size, older)) < room.tokens(LEAST_GAIN):
            older = []
        if trigger == "overflow" and not older and not shortened:  # it does not fit, whatever the estimate says
            keep_from, older = 0, _older(agent.transcript, 0)
        if not older and not shortened:
            return False
        event = ContextCompacted(shortened=shortened, trigger=trigger, kept=("everything but long tool results",))
        cost = NOTHING
        if older:
            summary = (part for part in agent.transcript.parts() if part.kind == "summary")
            events = [event for part in (*summary, *older) for event in part.events]
            told, cost = await self._ask_for_summary(agent, events, trigger, hint, room)
            pins, names = self._pins(agent, keep_from, room)
            event = replace(
                event,
                summary=f"[The conversation so far, compacted.]\n\n{pins}\n\n<summary>\n{told}\n</summary>",
                keep_from=keep_from,
                kept=names,
                usage=cost.usage,
                cost_usd=cost.cost_usd,
                model=agent.provider.model,
            )
        event = _measure(agent, room, event)
        if trigger == "manual" and event.tokens_after >= event.tokens_before:
            agent.add_wasted(cost)
            raise UserError("Nothing was compacted: a summary would take as much room as the conversation does.")
        agent.emit(event)
        return True

    async def _ask_for_summary(
        self, agent: Agent, older: Sequence[Event], trigger: str, hint: str, room: Room
    ) -> tuple[str, Cost]:
        """The model's summary; when the service fails, a plain list of what happened, unless nobody waits for it."""
        cost, why = NOTHING, "the answer was empty"
        wish = f"\n\nThe user asks to keep in mind: {hint}" if hint else ""
        most = room.chars(ASK_SHARE)
        for _ in range(TRIES):
            text = render(older)
            if len(text) > most:  # results give way first, then the middle
                text = _squeeze(render(older, clip=200), most)
            most = len(text) // 4
            request = Request(
                self.instructions,
                (Message("user", (Text(f"<conversation>\n{text}\n</conversation>{wish}"),)),),
                max_output_tokens=min(SUMMARY_TOKENS, agent.provider.max_output_tokens),
                thinking="off",
                session_id=f"{agent.spec.session_id}/compact",
            )
            try:
                reply, cost = await agent.ask(request, Usage())
            except ProviderError as failure:
                if failure.kind in _HOPELESS:
                    raise
                why = failure.message
                if failure.kind == "context_overflow":
                    continue
                break
            if told := reply.text.strip():
                return told, cost
            break
        if trigger == "manual":
            agent.add_wasted(cost)
            raise UserError(f"Nothing was compacted: {why}", "The conversation is as it was; try again, or go on.")
        agent.emit(Notice(f"Could not summarise ({why}); keeping a plain list of events instead.", "warning"))
        return _squeeze(render(older, clip=0), room.chars(PIN_SHARE)), cost

    def _pins(self, agent: Agent, keep_from: int, room: Room) -> tuple[str, tuple[str, ...]]:
        """What is kept word for word, and the names of it for people."""
        pins: dict[str, str] = {}  # by name
        prompts = [
            e for e in agent.transcript.prompts() if e.source != "system" and (not keep_from or e.id < keep_from)
        ]
        if context := next((e.context for e in prompts if e.context), ""):
            pins["instructions"] = _pin(agent, "instructions", context, room.chars(PIN_SHARE))
        asked = [e for n, e in enumerate(prompts) if not n or e.source in PEOPLE]
        if asked:
            name = "the request" if len(asked) == 1 else f"{len(asked)} requests"
            pins[name] = _requests(agent, asked, room.chars(PIN_SHARE), room.chars(NEWEST_SHARE))
        state = agent.runner.state
        if state.todos:
            pins[plural(len(state.todos), "todo")] = _list(
                "todo", [f"[{t['status']}] {t['content']}" for t in state.todos]
            )
        # The skills that were loaded in the conversation, each as it was told last.
        if skills := {e.record["data"]["skill"]: str(e.record["text"]) for e in _pinned_results(agent)}:
            most = room.chars(PIN_SHARE) // len(skills)
            kept = {name: _pin(agent, f"skill-{name}", text, most) for name, text in skills.items()}
            texts = [f'<skill name="{name}">\n{text}\n</skill>' for name, text in kept.items()]
            pins[plural(len(skills), "skill")] = "\n\n".join(texts)
        if files := list(state.seen)[-20:]:
            pins[plural(len(files), "file") + " in play"] = _list("files_in_play", files)
        if children := agent.children.pending(agent.path):
            pins[plural(len(children), "child")] = _list("children_at_work", children)
        return "\n\n".join(pins.values()), tuple(pins)


def _list(tag: str, lines: Sequence[str]) -> str:
    return "\n".join((f"<{tag}>", *lines, f"</{tag}>"))


def _pinned_results(agent: Agent) -> list[ToolEnded]:
    return [e for e in agent.transcript.history() if isinstance(e, ToolEnded) and is_pinned(e)]


def weigh(agent: Agent) -> tuple[int, float]:
    """Tokens the next request would take, and how many of the service's tokens one of our estimate is."""
    whole = estimate(agent)
    counted = agent.transcript.tokens
    if not counted:
        return whole, 1.0
    new = estimate_tokens(*agent.transcript.uncounted_blocks())
    scale = min(MOST_SCALE, max(1.0, counted / max(1, whole - new)))
    return max(whole, counted + math.ceil(new * scale)), scale


def estimate(agent: Agent, transcript: Transcript | None = None) -> int:
    """Tokens the next request would take, roughly: bytes by four."""
    messages = (transcript or agent.transcript).messages(agent.provider.model)
    fixed = len(agent.system) + sum(spec.size for spec in agent.specs)
    return fixed // CHARS_A_TOKEN + estimate_tokens(*messages)


def render(events: Sequence[Event], *, clip: int = 800) -> str:
    """A conversation as plain text, results cut to `clip` characters; without them for 0."""
    lines: list[str] = []
    for event in events:
        match event:
            case PromptAdded(text=text, images=images):
                lines.append(f"USER: {text}" + f" [{plural(len(images), 'image')}]" * bool(images))
            case ReplyAdded(content=content):
                for block in content:
                    if isinstance(block, Text) and block.text.strip():
                        lines.append(f"AGENT: {block.text}")
                    elif isinstance(block, ToolUse):
                        given = json.dumps(block.input, ensure_ascii=False)
                        lines.append(f"CALL {block.name} {_squeeze(given, 600)}")
            case ToolEnded(record=record) if clip:
                lines.append(f"RESULT ({record.get('status')}): {_squeeze(str(record.get('text', '')), clip)}")
            case ContextCompacted(summary=summary) if summary.strip():
                told = summary.partition("<summary>\n")[2].rpartition("\n</summary>")[0]  # its pins are pinned again
                lines.append(f"BEFORE: {told or summary}")
    return "\n".join(lines)


def _measure(agent: Agent, room: Room, event: ContextCompacted) -> ContextCompacted:
    """The event with the room it makes."""
    event = replace(event, tokens_before=room.before, agent=agent.path)
    after = estimate(agent, fold([*agent.transcript.history(), event], agent.path))
    return replace(event, tokens_after=math.ceil(after * room.scale))


def _clearable(agent: Agent) -> tuple[tuple[str, ...], int]:
    """Bulky results older than the freshest turns, what skills say aside, and the tokens they take."""
    messages = agent.transcript.messages(agent.provider.model)
    pinned = {event.tool_use_id for event in _pinned_results(agent)}
    bulky = {
        result.tool_use_id: size
        for message in messages[: -2 * FRESH_TURNS]
        for result in message.results
        if (size := estimate_tokens(result)) >= BULKY and result.tool_use_id not in pinned
    }
    return tuple(bulky), sum(bulky.values())


def _choose_kept(transcript: Transcript, keep: int, most_new: int) -> tuple[int, tuple[str, ...]]:
    """Id of the oldest part that stays as it is, 0 for none, and which results of it must be shortened.

    What the model has not answered to yet always stays, in `most_new` tokens; before it, as much as `keep` holds.
    """
    parts = [part for part in transcript.parts() if part.kind != "summary"]
    last = next((n for n in reversed(range(len(parts))) if parts[n].kind == "reply"), -1)
    new = last if last >= 0 and parts[last].results else last + 1
    fresh = sum(map(_size, parts[new:]))
    start, left = new, keep - fresh
    while start and (left := left - _size(parts[start - 1])) >= 0:
        start -= 1
    if start == len(parts):
        return 0, ()
    too_much = fresh - most_new
    shortened: list[str] = []
    for result in sorted((r for p in parts[new:] for r in p.results.values()), key=estimate_tokens, reverse=True):
        gain = estimate_tokens(result) - SHORT // CHARS_A_TOKEN
        if too_much <= 0 or gain <= 0:
            break
        too_much -= gain
        shortened.append(result.tool_use_id)
    return parts[start].id, tuple(shortened)


def _older(transcript: Transcript, keep_from: int) -> list[HistoryPart]:
    """What the model sees from before an event (0: all), but for an earlier summary; nothing where it never spoke."""
    older = [p for p in transcript.parts() if p.kind != "summary" and (not keep_from or p.id < keep_from)]
    return older if any(p.kind == "reply" for p in older) else []


def _size(part: HistoryPart) -> int:
    return MESSAGE_TOKENS + estimate_tokens(*part.blocks, *part.results.values())


def _requests(agent: Agent, asked: Sequence[PromptAdded], most: int, newest: int) -> str:
    """What the person asked for, word for word: the newest, the first, and of the rest what fits."""
    rooms = [most // 2] * (len(asked) - 1) + [newest]
    *texts, last = [_pin(agent, f"request-{e.id}", e.text, most) for e, most in zip(asked, rooms, strict=True)]
    left = most - len(texts[0] if texts else "")
    chosen = [last]
    for text in reversed(texts[1:]):
        left -= len(text)
        if left < 0:
            break
        chosen.append(text)
    out = [f"<request>\n{text}\n</request>" for text in [*texts[:1], *reversed(chosen)]]
    if missing := len(asked) - len(out):
        out.insert(1, f"[{plural(missing, 'request')} left out]")
    return "\n".join(out)


def _pin(agent: Agent, name: str, text: str, room: int) -> str:
    """A text that must not be lost: one that is too long is kept in a file, which the model may read."""
    if len(text) <= room:
        return text
    where = save(text, agent.runner.tree.scratch / file_name(name, agent.path))
    said = f"[… middle left out: the whole is in {where}, which you may Read …]" if where else LEFT_OUT
    return _squeeze(text, room, said)


def _squeeze(text: str, room: int, said: str = LEFT_OUT) -> str:
    """Head and tail of a text that is too long."""
    if len(text) <= room:
        return text
    return f"{text[: room * 2 // 3]}\n{said}\n{text[-room // 3 :]}"
