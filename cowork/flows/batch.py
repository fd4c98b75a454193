"""The same over many: a file of tasks, a process each, one JSON line a result; what is done is not done again."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cowork.config.run_options import RunOptions
from cowork.core.blocks import Json
from cowork.core.errors import UserError, os_error_as
from cowork.core.format import duration, money, money_sum, one_line
from cowork.core.hygiene import ascii_json
from cowork.core.workspace import parse_json, read_whole
from cowork.flows.jobs import Place, job_of, open_place
from cowork.flows.journal import read

_MOST_BYTES = 256 << 20  # of a file of tasks
_KEPT = ("status", "result", "structured_output", "terminal_reason", "error", "session_id", "num_turns", "duration_ms",
         "usage", "total_cost_usd", "model", "patch")  # fmt: skip


@dataclass
class Batch:
    """What `cowork batch` was asked for, and while it is under way what is done and what it cost."""

    tasks: Path
    out: Path
    options: RunOptions
    on: str = "local"
    jobs: int = 4
    repo: str = ""  # for tasks that name none; {repo} in it stands for what they name
    shard: str = ""  # I/N: every N-th task from the I-th, from 0
    model_name: str = ""  # in predictions.jsonl; else the model of the run

    def __post_init__(self) -> None:
        index, _, count = (self.shard or "0/1").partition("/")
        if not (index.isdecimal() and count.isdecimal() and int(index) < int(count)):
            raise UserError(f"--shard {self.shard}: give I/N with I from 0 to N-1.", "0/4 is the first of four.")
        self.index, self.count = int(index), int(count)
        of_shard = "" if self.count == 1 else f"-{self.index}-of-{self.count}"
        self.results = self.out / f"results{of_shard}.jsonl"
        self.predictions = self.out / f"predictions{of_shard}.jsonl"
        self.cost_usd = 0.0  # of what has a known price
        self.unpriced = False  # some of it has none
        self.failed = self.done = 0
        self.over = False
        self.started = time.monotonic()
        self.work: list[asyncio.Task[None]] = []

    def load_tasks(self) -> list[Json]:
        """The tasks of this shard; each has an id, a prompt, and perhaps repo, ref, agent and schema."""
        tasks: dict[str, Json] = {}
        with os_error_as(f"{self.tasks} cannot be read"):
            lines = read_whole(self.tasks, _MOST_BYTES).splitlines()
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                task = _task(parse_json(line), number, self.repo)
            except (ValueError, TypeError) as error:
                hint = 'A line is an object such as {"id": "a", "prompt": "fix it", "repo": "…", "ref": "…"}.'
                raise UserError(f"{self.tasks}:{number} is not a task: {error}", hint) from error
            if task["id"] in tasks:
                raise UserError(f"{self.tasks}:{number} has the id {task['id']!r} of an earlier line.")
            tasks[task["id"]] = task
        return list(tasks.values())[self.index :: self.count]

    async def run(self) -> int:
        """Run what is not done yet; gives the exit code."""
        tasks, limit = self.load_tasks(), self.options.max_cost
        with os_error_as(f"{self.out} cannot be made"):
            self.out.mkdir(parents=True, exist_ok=True)
        earlier = self._read_results()
        tasks = [t for t in tasks if earlier.get(t["id"], {}).get("status") != "success"]
        if limit and self.cost_usd >= limit:
            raise UserError("The budget is spent.", "Raise it: --max-cost.", exit_code=4)
        self._say(f"{len(tasks)} tasks to run, {len(earlier)} results from before")
        place = await open_place(self.on, self.jobs)
        try:
            async with asyncio.TaskGroup() as group:
                self.work = [group.create_task(self._run_task(place, task, len(tasks))) for task in tasks]
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        finally:
            await place.aclose()
            self._write_predictions()
        return 4 if self.over else 1 if self.failed else 0

    async def _run_task(self, place: Place, task: Json, total: int) -> None:
        options = self.options
        left = None if not options.max_cost else max(0.000001, options.max_cost - self.cost_usd)
        own = replace(options, agent=task.get("agent", options.agent) or "", max_cost=left)
        job = job_of(task["id"], task["prompt"], own, task.get("schema"), repo=task["repo"], ref=task["ref"])
        spent: list[float] = []
        try:
            result = await place.run(job, lambda event: self._hear(event, spent))
        except asyncio.CancelledError:
            if spent:  # it counts against the budget of who goes on
                stopped = {"terminal_reason": "interrupted", "total_cost_usd": sum(spent)}
                self._append({"id": task["id"], "status": "error", **stopped})
            raise
        if (cost := result.get("total_cost_usd", sum(spent))) is None:
            self.unpriced = True
        else:
            self.cost_usd = round(self.cost_usd - sum(spent) + cost, 9)
        self.done += 1
        self.failed += result.get("status") != "success"
        self._append({"id": task["id"], **{name: result[name] for name in _KEPT if name in result}})
        self._report(task, result, total)

    def _append(self, result: Json) -> None:
        with self.results.open("a", encoding="utf-8") as file:
            file.write(ascii_json(result) + "\n")

    def _read_results(self) -> Mapping[str, Json]:
        """The results there are, the last of each id; all of them count for the budget."""
        found, whole = read(self.results)
        if self.results.exists():
            os.truncate(self.results, whole)  # half a line of a process that was killed
        lines = [line for line in found if "id" in line]
        costs = [line.get("total_cost_usd", 0.0) for line in lines]
        self.cost_usd, self.unpriced = sum(filter(None, costs)), None in costs
        return {line["id"]: line for line in lines}

    def _hear(self, event: Json, spent: list[float]) -> None:
        """Count what a job spends while it runs, and stop all at the budget."""
        if event.get("type") != "reply.added":
            return
        spent.append(event.get("cost_usd") or 0.0)
        self.cost_usd = round(self.cost_usd + spent[-1], 9)
        limit = self.options.max_cost
        if limit and self.cost_usd >= limit and not self.over:
            self.over = True
            self._say(f"Stopped at the budget of {money(limit)}.")
            for task in self.work:
                task.cancel()

    def _report(self, task: Json, result: Json, total: int) -> None:
        seconds = time.monotonic() - self.started
        left = seconds / self.done * (total - self.done)
        total_usd = None if self.unpriced else self.cost_usd
        cost = money_sum(total_usd, self.cost_usd) if self.cost_usd else money(total_usd)
        facts = [f"{self.done}/{total}", f"{self.failed} failed" if self.failed else "",
                 f"{self.done / seconds * 60:.1f} a minute", cost,
                 f"{duration(left)} left" if self.done < total else duration(seconds)]  # fmt: skip
        message = str((result.get("error") or {}).get("message") or result.get("terminal_reason", ""))
        state = "done" if result.get("status") == "success" else f"failed: {one_line(message, 120)}"
        self._say(f"{' · '.join(filter(None, facts))} · {one_line(task['id'], 40)} {state}")

    def _say(self, text: str) -> None:
        if not self.options.quiet:
            print(f"cowork: {text}", file=sys.stderr, flush=True)

    def _write_predictions(self) -> None:
        """The patches in the form that SWE-bench evaluates; whole, from what is done."""
        rows = [
            {"instance_id": id, "model_name_or_path": self.model_name or result.get("model", ""),
             "model_patch": result["patch"]}
            for id, result in self._read_results().items()
            if "patch" in result
        ]  # fmt: skip
        if rows:
            self.predictions.write_text("".join(ascii_json(row) + "\n" for row in rows), encoding="utf-8")


def _task(raw: Any, number: int, repo: str) -> Json:
    """One line of the file, by the names that we or SWE-bench give its parts."""
    if not isinstance(raw, dict) or not (raw.get("prompt") or raw.get("problem_statement")):
        raise TypeError("it has no prompt" if isinstance(raw, dict) else "it is not an object")
    task = {
        **raw,
        "id": str(next(id for id in (raw.get("id"), raw.get("instance_id"), number) if id not in (None, ""))),
        "prompt": raw.get("prompt") or raw["problem_statement"],
        "ref": raw.get("ref") or raw.get("base_commit") or "",
        "repo": raw.get("repo") or "",
    }
    if wrong := [name for name in ("prompt", "ref", "repo") if not isinstance(task[name], str)]:
        raise TypeError(f"{wrong[0]!r} is no text")
    where = repo.replace("{repo}", task["repo"]) if "{repo}" in repo else task["repo"] or repo
    if where and "://" not in where and "@" not in where:  # a folder, by its whole path: a worker is somewhere else
        where = os.path.abspath(os.path.expanduser(where))
    return {**task, "repo": where}
