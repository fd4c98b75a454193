"""The same over many: a file of tasks, a process each, one JSON line a result; what is done is not done again."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cowork.config.options import RunOptions
from cowork.core.blocks import Json, add_cost
from cowork.core.errors import UserError
from cowork.core.format import duration, money, one_line
from cowork.core.frozen import frozen
from cowork.flows.jobs import job_of
from cowork.flows.places import Place, open_place

_KEPT = ("status", "result", "structured_output", "terminal_reason", "error", "session_id", "num_turns", "duration_ms",
         "usage", "total_cost_usd", "model")  # fmt: skip


@frozen
class BatchRequest:
    """What `cowork batch` was asked for."""

    tasks: Path
    out: Path
    options: RunOptions
    on: str = "local"
    jobs: int = 4
    repo: str = ""  # for tasks that name none; {repo} in it stands for what they name
    shard: str = ""  # I/N: every N-th task from the I-th, from 0
    model_name: str = ""  # in predictions.jsonl; else the model of the run


def load_tasks(request: BatchRequest) -> list[Json]:
    """The tasks of this shard; each has an id, a prompt, and perhaps repo, ref, agent and schema."""
    tasks, seen = [], set[str]()
    try:
        lines = request.tasks.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UserError(f"{request.tasks} cannot be read: {error.strerror}.") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            raw = json.loads(line)
            task = {**raw, "id": str(raw.get("id") or raw.get("instance_id") or number)}
            task["prompt"] = raw.get("prompt") or raw["problem_statement"]
        except (ValueError, KeyError, AttributeError) as error:
            hint = 'A line is an object such as {"id": "a", "prompt": "fix it", "repo": "…", "ref": "…"}.'
            raise UserError(f"{request.tasks}:{number} is not a task: {error}", hint) from error
        if task["id"] in seen:
            raise UserError(f"{request.tasks}:{number} has the id {task['id']!r} of an earlier line.")
        seen.add(task["id"])
        task["repo"] = _repo(request.repo, raw.get("repo") or "")
        task["ref"] = raw.get("ref") or raw.get("base_commit") or ""
        tasks.append(task)
    index, count = shard_of(request.shard)
    return tasks[index::count]


def shard_of(words: str) -> tuple[int, int]:
    """(index from 0, count) of `I/N`."""
    index, _, count = (words or "0/1").partition("/")
    if not (index.isdecimal() and count.isdecimal() and int(index) < int(count)):
        raise UserError(f"--shard {words}: give I/N with I from 0 to N-1.", "0/4 is the first of four.")
    return int(index), int(count)


def _repo(wanted: str, named: str) -> str:
    """The repository of a task: a folder by its whole path, for a worker is somewhere else."""
    repo = wanted.replace("{repo}", named) if "{repo}" in wanted else named or wanted
    return os.path.abspath(os.path.expanduser(repo)) if repo and "://" not in repo and "@" not in repo else repo


@dataclass
class Batch:
    """A batch under way: what is done, and what it cost."""

    request: BatchRequest
    cost_usd: float | None = 0.0
    failed: int = 0
    done: int = 0
    over: bool = False
    started: float = field(default_factory=time.monotonic)
    work: list[asyncio.Task[None]] = field(default_factory=list)

    async def run(self) -> int:
        """Run what is not done yet; gives the exit code."""
        request = self.request
        request.out.mkdir(parents=True, exist_ok=True)
        earlier = read_results(self.results)
        self.cost_usd = _sum(earlier.values())
        tasks = [t for t in load_tasks(request) if earlier.get(t["id"], {}).get("status") != "success"]
        if request.options.max_cost and (self.cost_usd or 0) >= request.options.max_cost:
            raise UserError("The budget is spent.", "Raise it: --max-cost.", exit_code=4)
        self._say(f"{len(tasks)} tasks to run, {len(earlier)} results from before")
        place = await open_place(request.on, request.jobs)
        try:
            self.work = [asyncio.create_task(self._one(place, task, len(tasks))) for task in tasks]
            await asyncio.gather(*self.work, return_exceptions=self.over)
        except asyncio.CancelledError:
            if not self.over:
                raise
        finally:
            for task in self.work:
                task.cancel()
            if self.work:
                await asyncio.wait(self.work)
            await place.aclose()
            self._write_predictions()
        return 4 if self.over else 1 if self.failed else 0

    @property
    def results(self) -> Path:
        index, count = shard_of(self.request.shard)
        return self.request.out / ("results.jsonl" if count == 1 else f"results-{index}-of-{count}.jsonl")

    async def _one(self, place: Place, task: Json, total: int) -> None:
        options = self.request.options
        left = None if not options.max_cost else max(0.000001, options.max_cost - (self.cost_usd or 0.0))
        job = job_of(task["id"], task["prompt"], options, agent=task.get("agent", options.agent),
                     schema=task.get("schema"), repo=task["repo"], ref=task["ref"], max_cost=left)  # fmt: skip
        spent: list[float] = []
        try:
            result = await place.run(job, lambda line: self._hear(line, spent))
        except UserError as error:
            result = {"status": "error", "terminal_reason": "usage", "error": {"code": "usage", "message": str(error)}}
        self.cost_usd = add_cost(add_cost(self.cost_usd, -sum(spent)), result.get("total_cost_usd") or 0.0)
        self.done += 1
        self.failed += result.get("status") != "success"
        kept = {name: result[name] for name in _KEPT if name in result}
        line = {"id": task["id"], **kept, **({"patch": result["patch"]} if "patch" in result else {})}
        with self.results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
        self._tell(task, result, total)

    def _hear(self, line: str, spent: list[float]) -> None:
        """Count what a job spends while it runs, and stop all at the budget."""
        if '"reply.added"' not in line:
            return
        spent.append(json.loads(line).get("cost_usd") or 0.0)
        self.cost_usd = add_cost(self.cost_usd, spent[-1])
        limit = self.request.options.max_cost
        if limit and (self.cost_usd or 0.0) >= limit and not self.over:
            self.over = True
            self._say(f"Stopped at the budget of {money(limit)}.")
            for task in self.work:
                task.cancel()

    def _tell(self, task: Json, result: Json, total: int) -> None:
        seconds = time.monotonic() - self.started
        left = seconds / self.done * (total - self.done)
        facts = [f"{self.done}/{total}", f"{self.failed} failed" if self.failed else "",
                 f"{self.done / seconds * 60:.1f} a minute", money(self.cost_usd),
                 f"{duration(left)} left" if self.done < total else duration(seconds)]  # fmt: skip
        message = str((result.get("error") or {}).get("message") or result.get("terminal_reason", ""))
        state = "done" if result.get("status") == "success" else f"failed: {one_line(message, 120)}"
        self._say(f"{' · '.join(filter(None, facts))} · {one_line(task['id'], 40)} {state}")

    def _say(self, text: str) -> None:
        if not self.request.options.quiet:
            print(f"cowork: {text}", file=sys.stderr, flush=True)

    def _write_predictions(self) -> None:
        """The patches in the form that SWE-bench evaluates; whole, from what is done."""
        rows = [
            {"instance_id": id, "model_name_or_path": self.request.model_name or result.get("model", ""),
             "model_patch": result["patch"]}
            for id, result in read_results(self.results).items()
            if "patch" in result
        ]  # fmt: skip
        if rows:
            file = self.results.with_name(self.results.name.replace("results", "predictions"))
            file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def read_results(path: Path) -> Mapping[str, Json]:
    """The results there are, the last of each id; half a line of a killed process is none."""
    found: dict[str, Json] = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                result = json.loads(line)
            except ValueError:
                continue
            found[result["id"]] = result
    return found


def _sum(results: Any) -> float | None:
    total: float | None = 0.0
    for result in results:
        total = add_cost(total, result.get("total_cost_usd") or 0.0)
    return total
