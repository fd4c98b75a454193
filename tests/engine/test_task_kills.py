"""Children killed at random moments, over a real wire: no request and no process after it, every Task answered."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cowork.core.blocks import Usage
from cowork.core.events import AgentEnded, AgentStarted, Event, ToolEnded, ToolStarted
from cowork.core.ports import Delta, ModelSpec, Provider, Reply, Request, Retry
from cowork.engine.loop import Outcome, Prompt
from cowork.frontends.repl.input.dialogs import Dialogs
from cowork.providers.open import open_provider
from cowork.tools.shell import jobs
from tests.fakes.stage import Stage
from tests.fakes.wire_rules import violations
from tests.wire.server import Call, Seen, Server, Turn, call, say, turn

KILLS = 100 if os.environ.get("COWORK_SOAK") else 15
KINDS = ("look", "run", "serve", "ask", "nest")
AGAIN = "and now?"  # said when all is over, with nobody there to answer a question


class Counted:
    """A model that notes who asked it, in order."""

    def __init__(self, inner: Provider) -> None:
        self.inner = inner
        self.name, self.model = inner.name, inner.model
        self.context_window, self.max_output_tokens = inner.context_window, inner.max_output_tokens
        self.asked: list[str] = []
        self.requests: list[Request] = []

    async def stream(self, request: Request) -> AsyncIterator[Delta | Retry | Reply]:
        self.asked.append(request.session_id.rpartition("/")[2])
        self.requests.append(request)
        async for item in self.inner.stream(request):
            yield item

    def price(self, usage: Usage) -> float | None:
        return self.inner.price(usage)

    async def aclose(self) -> None:
        await self.inner.aclose()


class Round:
    """One prompt that sends out some children, and somebody who kills them."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.chance = random.Random(seed)
        self.token = f"{os.getpid()}{seed:04d}"
        (folder / "scratch").mkdir(parents=True)
        self.stage = Stage(folder)
        self.stage.settings.allow_nesting = True
        self.stage.settings.max_concurrent = self.chance.randint(1, 5)
        self.dialogs = Dialogs(on_change=lambda: None)
        self.stage._ask = self.dialogs.ask  # type: ignore[method-assign]
        self.stage.policy.granted.append(("main", "Bash", False))
        self.orders = [self._order(n) for n in range(self.chance.randint(1, 6))]
        self.killed: dict[str, list[str]] = {}  # child -> whom its kill stopped
        self.asked_by_then: dict[str, int] = {}

    def _order(self, number: int) -> Call:
        kind = self.chance.choice(KINDS)
        agent = {"look": "explore", "run": "bash", "serve": "bash"}.get(kind, "general-purpose")
        rest = {"run_in_background": True} if self.chance.random() < 0.25 else {}
        return call("Task", description=f"{kind} {number}", prompt=f"{kind} {number}", subagent_type=agent, **rest)

    def answer(self, seen: Seen) -> Turn:
        """The model: what it does depends on who asks and how often it has answered."""
        body = seen.body
        step = sum(m["role"] == "assistant" for m in body["messages"])
        system = body["system"] if isinstance(body["system"], str) else "".join(b["text"] for b in body["system"])
        _, is_child, label = system.rpartition("\n\n# Task\n")
        if not is_child or label.split()[0] not in KINDS:
            asked_first = step == 0 and AGAIN not in str(body["messages"])  # it may be stopped before it answers
            return turn(*self.orders) if asked_first else say("ok")
        kind, number = label.split()
        return self._child_turn(kind, number, step)

    def _child_turn(self, kind: str, number: str, step: int) -> Turn:
        sleep = f"sleep 6{number}.{self.token}"
        steps = {
            "look": [turn("looking", call("LS", path=".")), turn(call("Grep", pattern="x")), say("seen")],
            "run": [turn("running", call("Bash", command=sleep)), say("ran")],
            "serve": [turn(call("Bash", command=sleep, run_in_background=True)), turn(call("Bash", command=sleep))],
            "ask": [turn(call("Write", file_path=f"{number}.txt", content="x")), say("wrote")],
            "nest": [
                turn(
                    call("Task", description=f"run {number}1", prompt="r", subagent_type="bash"),
                    call("Task", description=f"look {number}2", prompt="l", subagent_type="explore"),
                    call(
                        "Task", description=f"run {number}3", prompt="b", subagent_type="bash", run_in_background=True
                    ),
                ),
                say("nested"),
            ],
        }[kind]
        return steps[step] if step < len(steps) else say("done")

    def kill_one(self) -> None:
        running = self.stage.subagents.running
        alive = [id for id in running if id not in self.killed]
        if not alive:
            return
        chosen = self.chance.choice(alive)
        path = running[chosen].path
        below = [child.id for child in running.values() if f"{child.path}/".startswith(f"{path}/")]
        self.killed[chosen] = below
        for id in below:
            self.asked_by_then.setdefault(id, self.provider.asked.count(id))
        assert self.stage.subagents.kill(chosen)

    def interrupt(self, running: asyncio.Task[Outcome]) -> None:
        """The person stops everything, so nobody may ask from now on."""
        alive = list(self.stage.subagents.running)
        self.killed["main"] = alive
        for id in alive:
            self.asked_by_then.setdefault(id, self.provider.asked.count(id))
        running.cancel()

    async def play(self, server: Server) -> None:
        spec = ModelSpec("anthropic", "test-model", base_url=server.url("anthropic"), api_key="k")
        self.provider = Counted(open_provider(spec))
        self.stage.set_up(self.provider)
        at = self.chance.randint(1, 40)

        def on_event(event: Event) -> None:  # a kill in the middle of whatever happens just then
            nonlocal at
            at -= 1
            if at == 0:
                self.kill_one()

        self.stage.emitter.add(on_event)
        running = asyncio.create_task(self.stage.agent.run(Prompt("go")))
        deadline = time.monotonic() + 100
        while not running.done():
            await asyncio.wait([running], timeout=self.chance.random() * 0.06)
            assert time.monotonic() < deadline, f"stuck: {list(self.stage.subagents.running)}"
            self.interrupt(running) if self.chance.random() < 0.1 else self.kill_one()
        if not running.cancelled():
            running.result()
        await self.stage.subagents.stop_all()
        await self.stage.agent.run(Prompt(AGAIN))
        await self._settle()
        await self.provider.aclose()

    async def _settle(self) -> None:
        """What a kill leaves running has a moment to go."""
        doomed = [f"6{n}.{self.token}" for n in self._numbers_of_killed()]
        deadline = time.monotonic() + 100
        while left := [word for word in doomed if _runs(word)]:
            assert time.monotonic() < deadline, f"still running after a kill: {left}"
            await asyncio.sleep(0.02)
        await jobs.close(self.stage.tree)

    def _numbers_of_killed(self) -> list[str]:
        started = {e.subagent_id: e.description for e in self.stage.events if isinstance(e, AgentStarted)}
        return [started[id].split()[1] for ids in self.killed.values() for id in ids]

    def check(self) -> None:
        events = self.stage.events
        assert {id: self.provider.asked.count(id) for id in self.asked_by_then} == self.asked_by_then
        started = [e.agent for e in events if isinstance(e, AgentStarted)]
        ended = [e.agent for e in events if isinstance(e, AgentEnded)]
        assert sorted(started) == sorted(ended)
        calls = [e.tool_use_id for e in events if isinstance(e, ToolStarted)]
        results = [e.tool_use_id for e in events if isinstance(e, ToolEnded)]
        assert sorted(calls) == sorted(results)
        assert [v for r in self.provider.requests for v in violations(r.messages)] == []
        assert self.dialogs.current is None
        subagents = self.stage.subagents
        assert subagents.running == {}
        assert self.stage.all_slots_free
        assert subagents._background == {}
        for ledger in subagents._ledger.chain():
            assert (ledger.reserved, ledger._clocks) == ([], [])
        assert [len(sinks) for sinks in self.stage.emitter._sinks.values()] == [
            3
        ]  # events, the main transcript, the killer


@pytest.mark.soak
async def test_killed_children_ask_nothing_leave_no_process_and_still_have_a_result(tmp_path: Path) -> None:
    done, seed = 0, 0
    while done < KILLS:
        round_ = Round(seed, tmp_path / str(seed))
        with Server(round_.answer) as server:
            await round_.play(server)
            assert server.violations == [], f"seed {seed}"
        round_.check()
        done += len(round_.killed)
        seed += 1


def _runs(word: str) -> bool:
    wanted = word.encode()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if wanted in path.read_bytes():
                return True
        except OSError:
            continue
    return False
