"""Children against one child, and a Task against the same work done directly; selecting and starting one.

The model is a script that takes 200 ms an answer, so what is above the ratio of one is ours.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from cowork.agents import Agents
from cowork.core.events import AgentStarted, Event
from cowork.engine.loop import Prompt
from cowork.providers.scripted import Scripted
from tests.fakes.stage import Stage, agent_def, call, say, turn

ROUNDS = 5
REPLY_MS = 200
SELECTIONS = 2_000


def main() -> dict[str, float]:
    """Print every figure with its goal, and return them."""
    found = {
        "5 children against one": asyncio.run(fan_out(5)),
        "20 children against one": asyncio.run(fan_out(20)),
        "50 children against one": asyncio.run(fan_out(50)),
        "one Task against the work done directly": asyncio.run(overhead()),
        "selection among 200 agents, ms": selection(),
        "start of a child, ms": asyncio.run(start()),
    }
    goals = (1.15, 1.15, 1.15, 1.10, 1.0, 20.0)
    for (name, value), goal in zip(found.items(), goals, strict=True):
        print(f"  {name:<42} {value:8.3f}  (goal {goal:g}) {'ok' if value <= goal else 'MISSED'}")
    return found


async def fan_out(count: int) -> float:
    """So many children of 3 turns each over one such child, the parent's own turns left out; the best of each."""
    one, many = [], []
    for _ in range(ROUNDS):
        one.append(await _children(1))
        many.append(await _children(count))
    return min(many) / min(one)


async def overhead() -> float:
    """The same two tool calls: handed to a child, or made by the agent itself."""
    direct, delegated = [], []
    work = [turn(call("LS", path=".")), turn(call("Grep", pattern="x")), say("seen")]
    for _ in range(ROUNDS):
        direct.append(await _time([_slow(t) for t in work], {}))
        # The parent's own two turns take no time here: what is compared is the child's way to the same answer.
        delegated.append(await _time([turn(_task()), say("ok")], {"explore": [_slow(t) for t in work]}))
    return min(delegated) / min(direct)


def selection() -> float:
    """Milliseconds to choose, by name and by description, the slower of the two."""
    agents = Agents([agent_def(f"agent-{n}", description=f"Looks after part {n} of the system") for n in range(200)])
    exact = _mean_ms(lambda: agents.find("Agent_150"))
    near = _mean_ms(lambda: agents.nearest("keeper of part 150", "look after the system"))
    return max(exact, near)


async def start() -> float:
    """Milliseconds from the parent's reply to the child's first request."""
    times = []
    for _ in range(ROUNDS * 4):
        with tempfile.TemporaryDirectory() as folder:
            stage = _stage(Path(folder))
            began = ended = 0.0

            def watch(event: Event) -> None:
                nonlocal began
                if event.type == "tool.started" and event.agent == "main":
                    began = time.perf_counter()

            class Timed(Scripted):
                def stream(self, request: Any) -> Any:
                    nonlocal ended
                    if "\n\n# Task\n" in request.system:
                        ended = ended or time.perf_counter()
                    return super().stream(request)

            stage.emitter.add(watch)
            stage.set_up(Timed([turn(_task()), say("ok")], {"explore": [say("done")]}))
            await stage.agent.run(Prompt("go"))
            times.append((ended - began) * 1000)
    return statistics.median(times)


async def _children(count: int) -> float:
    work = [turn(call("LS", path=".")), turn(call("Grep", pattern="x")), say("seen")]
    return await _time([turn(*(_task(n) for n in range(count))), say("ok")], {"explore": [_slow(t) for t in work]})


async def _time(script: list[Any], children: dict[str, Any]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        stage = _stage(Path(folder))
        stage.set_up(Scripted(script, children))
        began = time.perf_counter()
        await stage.agent.run(Prompt("go"))
        took = time.perf_counter() - began
        sent = sum(isinstance(event, AgentStarted) for event in stage.events)
        assert sent == len(script[0].get("calls", ())) * bool(children), stage.events[-1]
        return took


def _stage(folder: Path) -> Stage:
    (folder / "scratch").mkdir()
    stage = Stage(folder)
    stage.settings.max_concurrent = 50
    (stage.workspace.root / "a.txt").write_text("x\n")
    return stage


def _task(number: int = 0) -> dict[str, Any]:
    return call("Task", description="look around", prompt=f"part {number}", subagent_type="explore")


def _slow(answer: dict[str, Any]) -> dict[str, Any]:
    return {**answer, "delay_ms": REPLY_MS, "chunks": 1}


def _mean_ms(work: Any) -> float:
    began = time.perf_counter()
    for _ in range(SELECTIONS):
        work()
    return (time.perf_counter() - began) * 1000 / SELECTIONS


if __name__ == "__main__":
    main()
