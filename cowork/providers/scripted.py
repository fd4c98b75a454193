"""A model that plays a script of turns, for the main conversation and for every child, faults included.

The main conversation is one sequence, whatever compaction or /clear make of its messages. A child has the `# Task` part
in its system prompt and a session id of its own, which ends with its agent's name and a number; each plays its own copy
of the agent's turns. A fault costs a try, not the turn. docs/scripts.md has the keys of a turn.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cowork.core.blocks import Block, Json, Message, Text, Thinking, ToolResult, ToolUse, Usage, estimate_tokens
from cowork.core.errors import ProviderError, UserError
from cowork.core.later import later
from cowork.core.ports import TASK_MARK, Delta, ModelSpec, OnRequest, Reply, Request, Retry
from cowork.providers.prices import price, request_tokens
from cowork.providers.script import Fault, Script, Turn, agent_key, load_script, parse_script

with later(__name__):
    from cowork.providers.recording.record import map_strings, request_bytes


def open_scripted(spec: ModelSpec, on_request: OnRequest = None) -> Scripted:
    """The model for a spec whose `options["script"]` (or model id) names a file, or is the script itself."""
    given = spec.options.get("script")
    if given is None and spec.model.endswith((".yaml", ".yml", ".json")):
        given = spec.model
    if given is None:
        raise UserError("The scripted model needs a script", "Name a YAML or JSON file: docs/scripts.md.")
    script = load_script(given) if isinstance(given, str) else parse_script(given)
    script = replace(
        script,
        model=script.model or (spec.model if spec.model != given else ""),
        context_window=script.context_window or spec.context_window,
        max_output_tokens=script.max_output_tokens or spec.max_output_tokens,
        price=spec.prices or script.price,
    )
    return Scripted(script, on_request=on_request, keeps=False)


class Scripted:
    """Plays a script, or a list of turns with the other keys of a script as `head`.

    With `keeps`, `requests` holds what was asked, in order, for whoever wants to check.
    """

    name = "scripted"

    def __init__(
        self,
        script: Script | Json | list[Any],
        children: Mapping[str, Any] | None = None,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        on_request: OnRequest = None,
        keeps: bool = True,
        **head: Any,
    ) -> None:
        if not isinstance(script, Script):
            script = {"main": script} if isinstance(script, list) else script
            script = parse_script({**script, **({"agents": children} if children else {}), **head})
        self._script = script
        self.model = script.model or "scripted"
        self.context_window = script.context_window or 200_000
        self.max_output_tokens = script.max_output_tokens or 8_192
        self.requests: list[Request] = []
        self._keeps = keeps
        self._sleep = sleep
        self._on_request = on_request
        self._players: dict[str, _Player] = {}

    async def stream(self, request: Request) -> AsyncIterator[Delta | Retry | Reply]:
        """The next turn of whoever asks."""
        if self._keeps:
            self.requests.append(request)
        if self._on_request:
            self._on_request(request_bytes(request))
        player = self._player(request)
        turn, fault = player.next()
        player.check(turn, request)
        reply = player.reply(turn, request, self.model)
        pieces = list(_pieces(turn, reply))
        whole = len(pieces)
        shown = {"before": 0, "first": 1, "middle": (whole + 1) // 2, "last": whole}[fault.at if fault else "last"]
        for piece in pieces[:shown] if pieces else [None]:
            if turn.delay_ms:
                await self._sleep(turn.delay_ms / 1000)
            if piece:
                yield piece
        if fault:
            raise fault.error(usage=Usage() if fault.at == "before" else Usage(input_tokens=reply.usage.prompt_tokens))
        player.prompt_tokens = request_tokens(request) + reply.usage.output_tokens
        yield reply

    def price(self, usage: Usage) -> float | None:
        return price(self.model, usage, self._script.price)

    async def aclose(self) -> None:
        """Nothing to close."""

    def _player(self, request: Request) -> _Player:
        """Who asks: a request beside the conversations, such as the one that compacts them, a child, or main."""
        last = _text_of(request.messages[-1:])
        for scene in self._script.asides:
            if scene.match in last:
                return self._players.setdefault(f"aside {scene.match}", _Player("aside", scene.turns))
        is_child = TASK_MARK in request.system
        key = request.session_id if is_child else "main"
        if key not in self._players:
            # One that is resumed from the log goes on where it was.
            turn = _count_answers(request.messages) if is_child or self._script.resume else 0
            label, turns = self._child(request) if is_child else ("main", self._script.main)
            self._players[key] = _Player(label, turns, turn)
        return self._players[key]

    def _child(self, request: Request) -> tuple[str, tuple[Turn, ...]]:
        """(label, turns) of a new child: those that match what it was told, else its agent's, else anybody's."""
        told = request.system + _text_of(request.messages[:1])
        kind = agent_key(request.session_id.rpartition("/")[2].rpartition("-")[0])
        scenes = [(name, scene) for name, scenes in self._script.agents.items() for scene in scenes]
        fitting = [(name, scene) for name, scene in scenes if scene.match and scene.match in told]
        for wanted in (kind, "*"):
            fitting += [(kind or "child", scene) for name, scene in scenes if name == wanted and not scene.match]
        if not fitting:
            about = request.system.rpartition(TASK_MARK)[2].strip()
            raise ProviderError("script", f"the script has no turns for the child {about!r} ({kind or 'type unknown'})")
        name, scene = fitting[0]
        same = sum(player.label.partition("_")[0] == name for player in self._players.values())
        return (name if not same else f"{name}_{same + 1}"), scene.turns


@dataclass(slots=True)
class _Player:
    """One conversation's place in its turns."""

    label: str
    turns: tuple[Turn, ...]
    turn: int = 0
    position: int = 0  # of the turn being played, from 1
    tries: int = 0
    prompt_tokens: int = 0  # of the last request: what a service would have cached
    taken: dict[str, str] = field(default_factory=dict)

    def next(self) -> tuple[Turn, Fault | None]:
        """The turn to play now, and how this try of it fails, if it does. Cancelled or not, it is used up."""
        if self.turn >= len(self.turns):
            raise ProviderError("script", f"{self.label}: the script is out of turns, asked for turn {self.turn + 1}")
        turn, self.position = self.turns[self.turn], self.turn + 1
        fault = turn.faults[self.tries] if self.tries < len(turn.faults) else None
        self.tries += 1
        if fault is None or (self.tries == len(turn.faults) and not turn.answers):
            self.turn, self.tries = self.turn + 1, 0
        return turn, fault

    def check(self, turn: Turn, request: Request) -> None:
        """Hold the last message against what the turn expects, and take from it what later turns need."""
        seen = _text_of(request.messages[-1:])
        shown = seen if len(seen) <= 200 else f"{seen[:200]}…"
        wrong = [f"expected {text!r} in the last message, got {shown!r}" for text in turn.contains if text not in seen]
        wrong += [f"did not expect {text!r} in the last message" for text in turn.lacks if text in seen]
        if wrong:
            raise ProviderError("script", f"{self.label} turn {self.position}: {wrong[0]}")
        for name, pattern in turn.take.items():
            found = re.search(pattern, seen)
            if not found:
                raise ProviderError("script", f"{self.label}: nothing in the last message fits take.{name}: {pattern}")
            self.taken[name] = found[found.lastindex or 0]

    def reply(self, turn: Turn, request: Request, model: str) -> Reply:
        used = {call.id for message in request.messages for call in message.calls}
        content: list[Block] = []
        if turn.think:
            content.append(Thinking(turn.think, {}, model))
        if turn.say:
            content.append(Text(_fill(turn.say, self.taken)))
        for i, call in enumerate(turn.calls, 1):
            id = call.id or f"{self.label}-{self.position}-{i}"
            while id in used:
                id += "b"
            used.add(id)
            content.append(replace(call, id=id, input=_fill(call.input, self.taken)))
        usage = turn.usage
        if usage is None:
            prompt = request_tokens(request)
            cached = min(self.prompt_tokens, prompt)
            usage = Usage(prompt - cached, estimate_tokens(*content), cached)
        return Reply(tuple(content), turn.stop_reason, usage, model)


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


def _count_answers(messages: Iterable[Message]) -> int:
    """Runs of assistant messages with something in them: consecutive ones are sent as one, empty ones not at all."""
    roles = [m.role for m in messages if m.role != "assistant" or m.text.strip() or m.calls]
    return sum(role == "assistant" for role, _ in itertools.groupby(roles))


def _text_of(messages: Iterable[Message]) -> str:
    """The text of messages, results included."""
    parts: list[str] = []
    for block in (block for message in messages for block in message.content):
        match block:
            case Text(text) | ToolResult(_, str(text)):
                parts.append(text)
            case ToolResult(_, content):
                parts.extend(b.text for b in content if isinstance(b, Text))
    return "\n".join(parts)


def _fill(value: Any, taken: Mapping[str, str]) -> Any:
    """Put what was taken in the place of `${name}`; unknown names stay as they are."""
    if not taken:
        return value
    return map_strings(value, lambda text: re.sub(r"\$\{(\w+)\}", lambda m: taken.get(m[1], m[0]), text))
