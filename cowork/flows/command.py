"""`cowork flow`: runs a flow for a person or a pipe, and shows those there are."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from cowork.config.load import load
from cowork.core import signals
from cowork.core.blocks import Json, Usage
from cowork.core.errors import CoworkError, UserError
from cowork.core.events import AgentEnded, AgentStarted, Event, RunEnded
from cowork.core.format import duration, money, one_line, plural
from cowork.core.hygiene import ascii_json
from cowork.core.ports import Ask, Emit
from cowork.flows.journal import FILE, LOCK, FlowJournal, cost_of, find, known_flows, read
from cowork.flows.run import FlowCall, FlowEnd, FlowRequest, flow_file, price_of, run_flow, where_in
from cowork.sessions.log.lock import holder

_CHARS_A_TOKEN = 4


def run(request: FlowRequest, *, resume: str | None = None, dry: bool = False) -> int:
    """Run a flow or go on with one; gives the exit code."""
    call = FlowCall.of(request)
    journal = FlowJournal(request.environ, resume)
    shown, how = Shown(quiet=request.options.quiet or dry), f"Go on with: cowork flow resume {journal.id}"
    try:
        end = signals.run(run_flow(request, journal, call, ask=shown.ask, sinks=[shown], dry=dry))
    except signals.Stopped as stop:
        print(f"The flow was {stop.reason}. {how}", file=sys.stderr)
        return stop.exit_code
    except UserError:
        raise
    except CoworkError as failure:
        raise UserError(f"The flow stopped: {failure}", how, exit_code=1) from failure
    except Exception as error:  # in the flow's own code
        raise UserError(where_in(flow_file(request.file), error), how, exit_code=1) from error
    finally:
        shown.close()
    if end.plan is not None:
        _print_plan(end, request)
    elif request.options.output == "text":
        _print_end(end, shown)
    else:
        facts = {"id": end.id, "result": end.value, "tasks": end.done, "reused": end.reused, "cost_usd": end.cost_usd}
        print(ascii_json({"type": "flow", **facts, "duration_ms": round(shown.seconds * 1000)}))
    return 0


class Shown:
    """What a person sees while tasks run: a live tree on a terminal, else a line a task; all on stderr."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._started = time.monotonic()
        self._running = self._ended = 0
        self._cost: float | None = 0.0
        self._sink: Emit = lambda event: None
        self._tree: Any = None
        self.ask: Ask | None = None
        from cowork.frontends.task_tree import TaskTree, drawable

        if quiet:
            return
        if drawable(sys.stderr):
            self._sink = self._tree = TaskTree(sys.stderr, os.environ, self._status)
            from cowork.frontends.prompt import LinePrompt, available

            self.ask = self._asking(LinePrompt()) if available() else None
        else:
            from cowork.frontends.text import TextOutput

            self._sink = TextOutput(sys.stderr, sys.stderr)

    def __call__(self, event: Event) -> None:
        match event:
            case AgentStarted():
                self._running += 1
            case AgentEnded():
                self._running, self._ended = self._running - 1, self._ended + 1
                cost = (event.record.get("data") or {}).get("total_cost_usd")
                self._cost = None if cost is None or self._cost is None else self._cost + cost
        if not isinstance(event, RunEnded):
            self._sink(event)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def close(self) -> None:
        if self._tree:
            self._tree.close()

    def _status(self) -> str:
        rate = f"{self._ended / self.seconds * 60:.0f} a minute" if self._ended else ""
        facts = [f"{self._ended} done", f"{self._running} at work", money(self._cost), duration(self.seconds), rate]
        return " · ".join(filter(None, facts))

    def _asking(self, prompt: Ask) -> Ask:
        async def ask(question: Any) -> Any:
            self._tree.close()
            return await prompt(question)

        return ask


def _print_end(end: FlowEnd, shown: Shown) -> None:
    if end.value is not None:
        print(end.value if isinstance(end.value, str) else json.dumps(end.value, indent=2))
    facts = [plural(end.done, "task"), f"{end.reused} from before" if end.reused else "", money(end.cost_usd)]
    print(" · ".join(filter(None, [*facts, duration(shown.seconds), f"flow {end.id}"])), file=sys.stderr)


def _print_plan(end: FlowEnd, request: FlowRequest) -> None:
    plan = end.plan
    assert plan is not None
    config = load(cwd=request.options.cwd or os.getcwd(), environ=request.environ, flags=request.options.flags())  # type: ignore[arg-type]
    prices = config.model("main").prices or {}
    from cowork.providers.prices import price

    def cost_of_prompt(prompt: str) -> float | None:
        return price(config.models.main.model, Usage(len(prompt) // _CHARS_A_TOKEN), prices or None)

    for task in plan.open:
        print(f"{task.agent_name:<16} {one_line(task.key or task.description or task.prompt, 90)}")
    cost, known = price_of(plan, request.environ, cost_of_prompt)
    about = (
        f"about {money(cost)} by what such tasks cost before" if known else f"at least {money(cost)} for the prompts"
    )
    rest = "; what follows depends on their results" if plan.open and end.value is None else ""
    print(f"{len(plan.known)} done, {plural(len(plan.open), 'task')} to run now: {about}{rest}")


def listed(environ: dict[str, str]) -> list[Json]:
    """Every flow with its file, tasks, cost and whether it ended."""
    rows = []
    for folder in known_flows(environ):
        records, _ = read(folder / FILE)
        types = [record.get("type") for record in records]
        if types[:1] != ["flow"]:
            continue
        done = {(r["key"], r["input"]) for r in records if r["type"] == "done"}
        open = {(r["key"], r["input"]) for r in records if r["type"] in ("started", "failed")} - done
        ended = types[-1] == "end"
        head = {key: records[0][key] for key in ("file", "args", "cwd", "at")}
        state = "done" if ended else "interrupted" if holder(folder / LOCK) is None else "running"
        rows.append({"id": folder.name, **head, "state": state, "tasks": len(done), "open": len(open),
                     "cost_usd": cost_of(records)})  # fmt: skip
    return rows


def shown(environ: dict[str, str], flow_id: str) -> list[Json]:
    """The tasks of a flow, each as its journal has it last."""
    records, _ = read(find(environ, flow_id) / FILE)
    last: dict[tuple[str, str], Json] = {}
    for record in records:
        if record["type"] in ("started", "done", "failed"):
            known = last.get((record["key"], record["input"]), {})
            last[record["key"], record["input"]] = known | record
    return list(last.values())
