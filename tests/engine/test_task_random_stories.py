"""Random lives of a child on every wire: its receipt equals what the service and the file system saw."""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cowork.core.blocks import Usage
from cowork.core.events import AgentEnded, AgentUpdated, ToolEnded
from cowork.engine.loop import Prompt
from tests.fakes.live import Live, live
from tests.wire.server import FORMATS, Call, Hold, Server, Turn, call, say, status, turn

SOAK = bool(os.environ.get("COWORK_SOAK"))
STORIES = 200 if SOAK else 4
LABEL = "write some notes"
MANY_TURNS = "[agent.subagent]\ndefault_max_turns = 20\n"
ENDS = ("told", "told", "told", "refused", "refused in silence", "cut off", "failed", "killed", "limited")
RECEIPT_KEYS = {"run": "count", "failed": "failed", "denied": "denied", "unknown": "unknown"}


@dataclass
class Story:
    """What a child will do, and what must therefore stand in its receipt."""

    turns: list[Turn] = field(default_factory=list)
    rounds: list[list[tuple[str, str]]] = field(default_factory=list)  # (tool, outcome) of each turn with calls
    end: str = "told"
    files: list[str] = field(default_factory=list)
    max_turns: int = 0
    hold: Hold | None = None

    @property
    def outcomes(self) -> list[tuple[str, str]]:
        return [pair for calls in self.rounds for pair in calls]

    @property
    def status(self) -> str:
        ran = [outcome for _, outcome in self.outcomes if outcome in ("run", "failed")]
        denied_last = bool(self.rounds) and any(outcome == "denied" for _, outcome in self.rounds[-1])
        if self.end == "told":
            return "incomplete" if denied_last or (self.outcomes and not ran) else "completed"
        return {"failed": "error", "killed": "aborted"}.get(self.end, "incomplete")


def drawn(seed: int) -> Story:
    chance, story = random.Random(seed), Story()
    story.end = chance.choice(ENDS)
    for number in range(chance.randint(1 if story.end == "limited" else 0, 4)):
        calls = [_call(chance, story, f"{number}-{n}") for n in range(chance.randint(1, 3))]
        story.rounds.append([(made.name, outcome) for made, outcome in calls])
        story.turns.append(turn(*(made for made, _ in calls), usage=_usage(chance)))
    usage = _usage(chance)
    if story.end == "failed":
        story.turns.append(status(400))
    elif story.end == "killed":
        story.hold = Hold("headers")
        story.turns.append(say("never heard", hold=story.hold))
    else:
        story.max_turns = len(story.turns) if story.end == "limited" else 0
        stop = {"refused": "refusal", "refused in silence": "refusal", "cut off": "max_tokens"}.get(story.end, "")
        words = "" if story.end == "refused in silence" else "I wrote all the notes."
        story.turns.append(say(words, stop=stop, usage=usage) if words else Turn((), stop=stop, usage=usage))
    return story


def _call(chance: random.Random, story: Story, name: str) -> tuple[Call, str]:
    outcome = chance.choice(("run", "run", "wrote", "failed", "denied", "denied", "unknown"))
    match outcome:
        case "wrote":
            story.files.append(f"ok-{name}.txt")
            return call("Write", file_path=f"ok-{name}.txt", content=name), "run"
        case "denied":
            return call("Write", file_path=f"no-{name}.txt", content=name), "denied"
        case "failed":
            return call("Read", file_path=f"missing-{name}"), "failed"
        case "unknown":
            return call("Fly", to=name), "unknown"
        case _:
            return call("LS", path="."), "run"


def _usage(chance: random.Random) -> Usage:
    return Usage(chance.randint(1, 999), chance.randint(1, 99))


@pytest.mark.soak
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("seed", range(STORIES))
async def test_the_receipt_is_what_the_service_and_the_files_saw(tmp_path: Path, format: str, seed: int) -> None:
    story = drawn(seed * 7 + FORMATS.index(format))
    order: dict[str, Any] = {"description": LABEL, "prompt": "go", "subagent_type": "general-purpose"}
    if story.max_turns:
        order["max_turns"] = story.max_turns
    main = [turn(call("Task", **order)), say("ok")]
    options = {"permission_mode": "ask", "allow": ("Edit(ok-*)",)}
    with Server(main, routes={LABEL: story.turns}) as server:
        async with live(tmp_path, server, format, settings=MANY_TURNS, **options) as run:
            answering = asyncio.create_task(run.run.ask(Prompt("go")))
            if story.hold:
                await asyncio.to_thread(story.hold.reached.wait, 60)
                assert run.run.subagents.kill("general-purpose-1")
                story.hold.release.set()
            await answering
            check(story, run, server, tmp_path / "work")


def check(story: Story, run: Live, server: Server, folder: Path) -> None:
    (ended,) = [e for e in run.events if isinstance(e, ToolEnded) and e.name == "Task"]
    (told,) = [e for e in run.events if isinstance(e, AgentEnded)]
    last = [e for e in run.events if isinstance(e, AgentUpdated)][-1]
    data, text = ended.record["data"], ended.record["text"]
    assert {data["status"], told.status, last.status} == {story.status}, (story.end, text)
    assert data["short_result"].startswith(
        {"completed": "Task completed by", "incomplete": "Task incomplete:"}.get(story.status, "Task failed:")
    )
    # What the file system saw.
    made = sorted(path.name for path in folder.iterdir())
    assert made == sorted(story.files) == sorted(data["files_changed"])
    # What the service saw: its answers that came through, what they cost, and the results it was sent.
    child = [seen for seen in server.requests if f"# Task\\n{LABEL}" in str(seen.body)]
    answered = [seen.turn for seen in child if seen.turn and not seen.turn.fault and not seen.turn.hold]
    assert data["metadata"]["turns_used"] == str(len(answered))
    if story.end not in ("killed", "failed"):
        assert data["usage"] == {
            "prompt_tokens": sum(t.usage.input_tokens for t in answered),
            "completion_tokens": sum(t.usage.output_tokens for t in answered),
        }
    counted = Counter(
        {
            (row["tool"], name): row.get(key, 0)
            for row in data["tool_summary"]
            for name, key in RECEIPT_KEYS.items()
            if row.get(key)
        }
    )
    assert counted == Counter(story.outcomes), text
    assert ended.record["stats"]["tool_calls"] == sum(outcome == "run" for _, outcome in story.outcomes)
    looked = any(outcome in ("run", "failed") for _, outcome in story.outcomes)
    assert ("nothing was looked at" in text) is not looked
    if story.end == "told" and story.rounds and any(outcome == "denied" for _, outcome in story.rounds[-1]):
        assert "It ended right after a denied call: Write." in text
