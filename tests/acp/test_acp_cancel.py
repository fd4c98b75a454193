"""A prompt that is cancelled answers `cancelled`, whenever the cancel comes, and leaves nothing running."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path
from typing import Any

import pytest

from tests.acp.editor import Desk, Editor
from tests.e2e.test_run_signals import gone

ROUNDS = 200 if os.environ.get("COWORK_SOAK") else 6
TURNS: list[Any] = [
    {"say": "a long story told slowly, word by word, until somebody has heard enough", "delay_ms": 20},
    {"call": {"Bash": {"command": "sleep 30"}}},
    {"call": {"Write": {"file_path": "never.txt", "content": "x"}}},
    {"call": {"Task": {"description": "wait", "prompt": "wait", "subagent_type": "general-purpose"}}},
]
SCRIPT = {
    "main": [TURNS[n % len(TURNS)] for n in range(4 * ROUNDS)],
    "agents": {"*": [{"call": {"Bash": {"command": "sleep 30"}}}, "done"]},
}


class Absent(Editor):
    """Nobody answers its questions until the prompt is cancelled, as the protocol wants."""

    cancelled: asyncio.Event

    async def request_permission(self, session_id: str, tool_call: Any, options: list[Any], **rest: Any) -> Any:
        if tool_call.title.startswith("Allow Bash") or "sleep" in tool_call.title:
            return await super().request_permission(session_id, tool_call, options, **rest)
        await self.cancelled.wait()
        return await Editor(choose=lambda title, given: "nothing").request_permission(session_id, tool_call, options)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1])
def test_cancelled_at_any_moment(tmp_path: Path, seed: int) -> None:
    desk, dice = Desk(tmp_path), random.Random(seed)

    async def story() -> list[str]:
        reasons = []
        async with desk.editor(SCRIPT, kind=Absent) as editor:
            session = (await editor.agent.new_session(cwd=str(desk.work), mcp_servers=[])).session_id
            for _ in range(ROUNDS):
                editor.cancelled = asyncio.Event()  # type: ignore[attr-defined]
                asking = asyncio.ensure_future(editor.say(session, "go"))
                await asyncio.sleep(0)  # it is on its way before the cancel is
                await asyncio.wait([asking], timeout=dice.choice([0.0, 0.02, 0.1, 0.5]))  # some moment
                await editor.agent.cancel(session_id=session)
                editor.cancelled.set()  # type: ignore[attr-defined]
                reasons.append(await asyncio.wait_for(asking, 30))
        assert editor.process.returncode == 0
        return reasons

    reasons = asyncio.run(story())
    assert set(reasons) <= {"cancelled", "end_turn"}  # the end of a turn can be on its way when the cancel leaves
    assert reasons.count("cancelled") >= ROUNDS // 2
    assert not (desk.work / "never.txt").exists()
    assert gone(tmp_path)
