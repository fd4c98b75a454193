"""Random conversations with a service whose window is small: room is made, nothing the person asked for is lost."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from cowork.core.events import ReplyAdded
from tests.engine.test_compaction_window import PNG, UNKNOWN, check
from tests.fakes.live import SUMMARY, Windowed, conversation, live
from tests.wire.server import FORMATS, Server, Turn, call, say, status, think, turn

SEEDS = 150 if os.environ.get("COWORK_SOAK") else 4
TOO_LONG = status(413, body={"error": {"message": "prompt is too long"}})


def some_turn(random_: random.Random, n: int) -> Turn:
    said = f"Step {n}. " + "I look at it closely. " * random_.choice([0, 0, 5, 150])
    name = random_.choice(["a.txt", "page.txt", "page.txt", "huge.txt", "dot.png", "absent.txt"])
    calls: list[Any] = [call("Read", file_path=name) for _ in range(random_.choice([1, 1, 2, 4]))]
    if random_.random() < 0.3:
        calls.append(call("Bash", command=f"seq {random_.choice([1, 900, 9_000])}"))
    if random_.random() < 0.2:
        todo = {"content": f"Todo {n}", "activeForm": "Doing", "status": "in_progress"}
        calls.append(call("TodoWrite", todos=[todo]))
    return turn(*([think("Hm. " * 100)] if random_.random() < 0.2 else []), said, *calls)


def some_summary(random_: random.Random) -> Turn:
    return random_.choice([say(SUMMARY), say(SUMMARY), say("A long summary. " * 400), say(" "), status(422), TOO_LONG])


@pytest.mark.soak
async def test_whatever_happens_requests_are_valid_and_the_last_wish_is_in_them(tmp_path: Path) -> None:
    for seed in range(SEEDS):
        random_ = random.Random(f"compaction {seed}")
        folder = tmp_path / str(seed)
        work = folder / "work"
        work.mkdir(parents=True)
        (work / "a.txt").write_text("alpha\n")
        (work / "page.txt").write_text("0123456789 abcdef\n" * 300)
        (work / "huge.txt").write_text("0123456789 abcdef\n" * 2_500)
        (work / "dot.png").write_bytes(PNG)
        window = random_.choice([12_000, 14_000, 24_000])
        settings = random_.choice([f"context_window = {window}\nmax_output_tokens = 1000", UNKNOWN])
        prompts = [f"Wish {n}: {'please ' * random_.choice([1, 20, 600])}" for n in range(random_.randint(1, 3))]
        stories = [[some_turn(random_, n) for n in range(random_.randint(1, 8))] for _ in prompts]
        turns = [step for story in stories for step in (*story, say("Done."))]
        windowed = Windowed(window, turns, summaries=[some_summary(random_) for _ in range(12)])
        with Server(windowed) as server:
            format = random_.choice(FORMATS)
            async with live(folder, server, format, settings=settings) as chat:
                for prompt in prompts:
                    before = len(windowed.main)
                    outcome = await chat.say(prompt)
                    assert (outcome.reason, outcome.text) == ("completed", "Done."), (seed, outcome)
                    for request in windowed.main[before:]:
                        assert prompt.strip() in json.dumps(conversation(request)), (seed, prompt)
                check(chat, windowed, server)
                replies = sum(isinstance(e, ReplyAdded) for e in chat.events)
                assert len(chat.compactions) <= replies, seed
                assert len(windowed.asked) + len(windowed.refused) <= 4 * replies, seed
