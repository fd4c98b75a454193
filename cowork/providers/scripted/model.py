"""A model that plays a script of turns, for the main conversation and for every child, faults included.

A script is a list of turns, or a mapping `{main: [turns], agents: {explore: [turns]}}` with an optional head. A turn:

    - say: text                    # and/or
      call: {Read: {file_path: a}} # or calls: [{name, input, id?, malformed?}]
      think: text
      expect: {contains: text}     # of the last user message; a mismatch is an error
      take: {job: 'id: (\\w+)'}     # from the last user message, for ${job} in this and later turns
      chunks: 4                    # the text in so many pieces
      delay_ms: 30                 # before each piece
      usage: {input_tokens: 10}    # else estimated from lengths
      stop_reason: max_tokens
      fault: {status: 529, at: middle, retry_after: 2, times: 1}

The main conversation is one sequence, whatever compaction or /clear make of its messages. A child is known by the
`# Task` part of its system prompt and by the Task call that sent it out; children that look alike each play their own
copy. A fault costs a try, not the turn. docs/scripts.md has examples.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cowork.core.blocks import Block, Json, Message, Text, Thinking, ToolResult, ToolUse, Usage
from cowork.core.errors import ProviderError, UserError
from cowork.core.later import later
from cowork.core.ports import Delta, ModelSpec, Reply, Request, Retry
from cowork.providers.prices import price, reply_tokens, request_tokens
from cowork.providers.scripted.script import Fault, Script, ScriptScene, Turn, agent_key, load_script, parse_script

with later(__name__):
    from cowork.providers.recording.record import request_bytes

TASK_MARK = "\n\n# Task\n"  # stands in the system prompt of every child, before its description
_BUSY = -1


def open_scripted(spec: ModelSpec, on_request: Callable[[bytes], None] | None = None) -> Scripted:
    """The model for a spec whose `options["script"]` (or model id) names a file, or is the script itself."""
    given = spec.options.get("script")
    if given is None and spec.model.endswith((".yaml", ".yml", ".json")):
        given = spec.model
    if given is None:
        raise UserError("The scripted model needs a script", "Name a YAML or JSON file: docs/scripts.md.")
    script = load_script(given) if isinstance(given, str) else parse_script(given)
    script = replace(script, max_output_tokens=script.max_output_tokens or spec.max_output_tokens)
    return Scripted(
        script,
        model=script.model or (spec.model if spec.model and spec.model != given else "scripted"),
        context_window=script.context_window or spec.context_window,
        price=spec.prices or script.price,
        on_request=on_request,
        keeps=False,
    )


class Scripted:
    """Plays a script. With `keeps`, `requests` holds what was asked, in order, for whoever wants to check."""

    name = "scripted"

    def __init__(
        self,
        script: Script | Json | list[Any],
        children: Mapping[str, Any] | None = None,
        *,
        model: str = "",
        context_window: int = 0,
        price: Mapping[str, float] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        on_request: Callable[[bytes], None] | None = None,
        keeps: bool = True,
    ) -> None:
        if not isinstance(script, Script):
            head = {"main": script} if isinstance(script, list) else script
            script = parse_script({**head, "agents": children} if children else head)
        self.script = script
        self.model = model or script.model or "scripted"
        self.context_window = context_window or script.context_window or 200_000
        self.max_output_tokens = script.max_output_tokens or 8_192
        self.prices = price or script.price
        self.requests: list[Request] = []
        self._keeps = keeps
        self._sleep = sleep
        self._on_request = on_request
        self._main: _Player | None = None
        self._players: dict[tuple[str, ...], list[_Player]] = {}
        self._named: dict[str, int] = {}
        self._types = dict(_task_types(script))

    async def stream(self, request: Request) -> AsyncIterator[Delta | Retry | Reply]:
        """The next turn of whoever asks."""
        if self._keeps:
            self.requests.append(request)
        if self._on_request:
            self._on_request(request_bytes(request))
        player = self._player(request)
        turn, fault = player.next()
        player.check(turn, request)
        player.learn(turn, request)
        reply = player.reply(turn, request, self.model)
        pieces = list(_pieces(turn, reply))
        for piece in pieces[: _place(fault, len(pieces))]:
            await self._pause(turn)
            yield piece
        if not pieces:
            await self._pause(turn)
        if fault:
            player.heard_answers = _answers(request.messages)  # the same request may come again
            raise fault.error(Usage() if fault.at == "before" else Usage(input_tokens=reply.usage.prompt_tokens))
        player.heard(request, reply)
        yield reply

    def price(self, usage: Usage) -> float | None:
        return price(self.model, usage, self.prices)

    async def aclose(self) -> None:
        """Nothing to close."""

    async def _pause(self, turn: Turn) -> None:
        if turn.delay_ms:
            await self._sleep(turn.delay_ms / 1000)

    def _player(self, request: Request) -> _Player:
        last = _shown(request.messages[-1:])
        for scene in self.script.asides:
            if scene.match in last:
                return self._aside(scene)
        if TASK_MARK in request.system:
            return self._child(request)
        if self._main is None:
            start = _answers(request.messages) if self.script.resume else 0
            self._main = _Player("main", self.script.main, turn=start)
        return self._main

    def _aside(self, scene: ScriptScene) -> _Player:
        """A request beside the conversations, such as the one that compacts them."""
        return self._players.setdefault(("aside", scene.match), [_Player("aside", scene.turns)])[0]

    def _child(self, request: Request) -> _Player:
        told = _shown(request.messages[:1])
        about = request.system.rpartition(TASK_MARK)[2].strip()
        for kind, scenes in self.script.agents.items():
            for scene in scenes:
                if scene.match and (scene.match in request.system or scene.match in told):
                    return self._seated(kind, scene, request)
        sent = [(known, prompt) for (known, prompt) in self._types if prompt and prompt in told]
        sent.sort(key=lambda call: (call[0] == about, len(call[1])), reverse=True)
        name = request.session_id.rpartition("/")[2].rpartition("-")[0]  # of one that a program sent out
        kind = self._types[sent[0]] if sent else agent_key(name)
        for name in (kind, "*"):
            for scene in self.script.agents.get(name, ()):
                if not scene.match:
                    return self._seated(kind or "child", scene, request)
        raise ProviderError("script", f"the script has no turns for the child {about!r} ({kind or 'type unknown'})")

    def _seated(self, kind: str, scene: ScriptScene, request: Request) -> _Player:
        """The player that waits for just this request; twins are told apart by how far they are."""
        seats = self._players.setdefault((kind, scene.match, request.system, _first(request)), [])
        heard = _answers(request.messages)
        for player in seats:
            if player.heard_answers == heard:
                return player
        number = self._named[kind] = self._named.get(kind, 0) + 1
        label = kind if number == 1 else f"{kind}_{number}"
        player = _Player(label, scene.turns, turn=heard)  # a child resumed from the log goes on where it was
        seats.append(player)
        return player


@dataclass(slots=True)
class _Player:
    """One conversation's place in its turns."""

    label: str
    turns: tuple[Turn, ...]
    turn: int = 0
    position: int = 0  # of the turn being played, from 1
    tries: int = 0
    heard_answers: int = _BUSY  # assistant messages its next request will hold
    prompt_tokens: int = 0  # of the last request: what a service would have cached
    taken: dict[str, str] = field(default_factory=dict)

    def next(self) -> tuple[Turn, Fault | None]:
        """The turn to play now, and how this try of it fails, if it does. Cancelled or not, it is used up."""
        self.heard_answers = _BUSY
        if self.turn >= len(self.turns):
            raise ProviderError("script", f"{self.label}: the script is out of turns, asked for turn {self.turn + 1}")
        turn, self.position = self.turns[self.turn], self.turn + 1
        fault = turn.faults[self.tries] if self.tries < len(turn.faults) else None
        self.tries += 1
        if fault is None or (self.tries == len(turn.faults) and not turn.answers):
            self.turn, self.tries = self.turn + 1, 0
        return turn, fault

    def check(self, turn: Turn, request: Request) -> None:
        seen = _shown(request.messages[-1:])
        where = f"{self.label} turn {self.position}"
        for wanted in turn.contains:
            if wanted not in seen:
                raise ProviderError("script", f"{where}: expected {wanted!r} in the last message, got {_clip(seen)!r}")
        for unwanted in turn.lacks:
            if unwanted in seen:
                raise ProviderError("script", f"{where}: did not expect {unwanted!r} in the last message")

    def learn(self, turn: Turn, request: Request) -> None:
        for name, pattern in turn.take.items():
            found = re.search(pattern, _shown(request.messages[-1:]))
            if not found:
                raise ProviderError("script", f"{self.label}: nothing in the last message fits take.{name}: {pattern}")
            self.taken[name] = found[found.lastindex or 0]

    def reply(self, turn: Turn, request: Request, model: str) -> Reply:
        used = {call.id for message in request.messages for call in message.calls}
        content: list[Block] = []
        if turn.think:
            content.append(Thinking(turn.think, {}, model))
        if turn.say:
            content.append(Text(_filled(turn.say, self.taken)))
        for i, call in enumerate(turn.calls, 1):
            id = call.id or f"{self.label}-{self.position}-{i}"
            while id in used:
                id += "b"
            used.add(id)
            content.append(ToolUse(id, call.name, _filled(call.input, self.taken), call.malformed))
        usage = turn.usage if turn.usage is not None else self._estimate(request, content)
        return Reply(tuple(content), turn.stop_reason, usage, model)

    def heard(self, request: Request, reply: Reply) -> None:
        """Note how many answers the next request of this conversation will show."""
        self.heard_answers = _answers((*request.messages, Message("assistant", reply.content)))
        self.prompt_tokens = request_tokens(request) + reply.usage.output_tokens

    def _estimate(self, request: Request, content: list[Block]) -> Usage:
        prompt = request_tokens(request)
        cached = min(self.prompt_tokens, prompt)
        return Usage(prompt - cached, reply_tokens(content), cached)


# ---------------------------------------------------------------- helpers


def _task_types(script: Script) -> Iterable[tuple[tuple[str, str], str]]:
    """(description, prompt) -> agent type, of every child the script sends out."""
    for turn in script.turns():
        for call in turn.calls:
            get = call.input.get
            if get("subagent_type") or get("task_prompt"):  # a call that sends out a child
                about = str(get("description") or get("label") or "").strip()
                kind = str(get("subagent_type") or "general-purpose")
                yield (about, str(get("prompt") or get("task_prompt") or "").strip()), agent_key(kind)


def _pieces(turn: Turn, reply: Reply) -> Iterable[Delta]:
    for block in reply.content:
        match block:
            case Thinking(text):
                yield Delta("thinking", text)
            case Text(text):
                for chunk in _chunks(text, turn):
                    yield Delta("text", chunk)
            case ToolUse(_, name, input):
                yield Delta("tool", json.dumps({name: input}, ensure_ascii=False))


def _chunks(text: str, turn: Turn) -> list[str]:
    """In `chunks` even pieces; a word at a time when there is a delay but no number."""
    if not turn.chunks:
        return re.findall(r"\s*\S+\s*?(?=\s|$)|\s+$", text) if turn.delay_ms else [text]
    count = min(turn.chunks, len(text))
    cuts = [len(text) * i // count for i in range(count + 1)]
    return [text[a:b] for a, b in itertools.pairwise(cuts)]


def _place(fault: Fault | None, pieces: int) -> int:
    """How many pieces come before the fault."""
    if fault is None or fault.at == "last":
        return pieces
    return {"before": 0, "first": min(1, pieces), "middle": (pieces + 1) // 2}[fault.at]


def _answers(messages: Iterable[Message]) -> int:
    """Runs of assistant messages with something in them: consecutive ones are sent as one, empty ones not at all."""
    count, last = 0, ""
    for message in messages:
        if message.role == "assistant" and not message.text.strip() and not message.calls:
            continue
        count += message.role == "assistant" and last != "assistant"
        last = message.role
    return count


def _first(request: Request) -> str:
    """What the child was first told. A nudge after an empty answer joins the same message, so only its first text."""
    for message in request.messages:
        for block in message.content:
            if isinstance(block, Text):
                return block.text
    return ""


def _shown(messages: Iterable[Message]) -> str:
    """The text of messages, results included."""
    parts: list[str] = []
    for message in messages:
        for block in message.content:
            match block:
                case Text(text):
                    parts.append(text)
                case ToolResult(_, str(content)):
                    parts.append(content)
                case ToolResult(_, content) if not isinstance(content, str):
                    parts.extend(b.text for b in content if isinstance(b, Text))
    return "\n".join(parts)


def _filled(value: Any, taken: Mapping[str, str]) -> Any:
    """With `${name}` replaced by what was taken; unknown names stay as they are."""
    if isinstance(value, str):
        return re.sub(r"\$\{(\w+)\}", lambda m: taken.get(m[1], m[0]), value) if taken else value
    if isinstance(value, dict):
        return {key: _filled(item, taken) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, taken) for item in value]
    return value


def _clip(text: str, limit: int = 200) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"
