"""`cowork batch` and tasks as processes: here and on a Dask cluster."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cowork.config.run_options import RunOptions
from cowork.core.errors import UserError
from cowork.flows.batch import Batch
from cowork.flows.jobs import DaskPlace, LocalPlace, job_of
from tests.flows.conftest import FlowPlace


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def batch(place: FlowPlace, *tasks: dict[str, Any], words: tuple[str, ...] = ()) -> Any:
    (place.folder / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
    script = ("--script", str(place.folder / "script.json"))
    return place.cowork("batch", str(place.folder / "tasks.jsonl"), "--out", str(place.folder / "out"), *script, *words)


def test_a_batch_has_a_line_a_result_and_goes_on(place: FlowPlace) -> None:
    place.script({}, asides=[{"match": "good", "turns": [{"say": "yes"}]}, {"match": "bad", "turns": []}])
    tasks = [{"id": "a", "prompt": "good one"}, {"id": "b", "prompt": "bad one"}]
    done = batch(place, *tasks)
    assert done.returncode == 1
    assert "2/2 · 1 failed" in done.stderr
    results = {r["id"]: r for r in lines(place.folder / "out" / "results.jsonl")}
    assert {id: r["status"] for id, r in results.items()} == {"a": "success", "b": "error"}
    assert results["a"]["result"] == "yes"
    assert results["a"]["total_cost_usd"] > 0
    place.script({}, asides=[{"match": "one", "turns": [{"say": "now"}]}])
    again = batch(place, *tasks)
    assert again.returncode == 0, again.stderr
    assert "1 tasks to run, 2 results from before" in again.stderr
    assert lines(place.folder / "out" / "results.jsonl")[-1]["result"] == "now"


def test_each_task_has_a_checkout_and_its_patch_is_a_prediction(place: FlowPlace) -> None:
    place.repository(a_py="old\n")
    (place.work / "a.py").write_text("newer\n")
    place.git("commit", "-qam", "second")
    read, write = {"Read": {"file_path": "a.py"}}, {"Write": {"file_path": "a.py", "content": "fixed\n"}}
    place.script({}, main=[{"call": read}, {"call": write}, {"say": "fixed"}])
    tasks = [
        {"instance_id": "t-1", "problem_statement": "fix", "base_commit": "HEAD~1"},
        {"instance_id": "t-2", "problem_statement": "fix"},
        {"instance_id": "t-3", "problem_statement": "fix", "base_commit": "nowhere"},
    ]
    words = ("--repo", str(place.work), "--permission-mode", "accept-edits", "--model-name", "me", "--on", "local:2")
    done = batch(place, *tasks, words=words)
    assert done.returncode == 1
    found = {p["instance_id"]: p for p in lines(place.folder / "out" / "predictions.jsonl")}
    assert set(found) == {"t-1", "t-2"}
    assert set(found["t-1"]) == {"instance_id", "model_name_or_path", "model_patch"}
    assert "-old\n+fixed\n" in found["t-1"]["model_patch"]
    assert "-newer\n+fixed\n" in found["t-2"]["model_patch"]
    assert "nowhere" in {r["id"]: r for r in lines(place.folder / "out" / "results.jsonl")}["t-3"]["error"]["message"]
    assert (place.work / "a.py").read_text() == "newer\n"


def test_an_id_may_be_zero(place: FlowPlace) -> None:
    (place.folder / "tasks.jsonl").write_text('{"id": 0, "prompt": "x"}\n{"id": 1, "prompt": "x"}\n{"prompt": "x"}\n')
    tasks = Batch(place.folder / "tasks.jsonl", place.folder, RunOptions()).load_tasks()
    assert [task["id"] for task in tasks] == ["0", "1", "3"]


def test_shards_share_the_tasks_and_the_budget_stops_a_batch(place: FlowPlace) -> None:
    place.script({}, main=[{"say": "yes", "usage": {"input_tokens": 300_000}}])
    tasks = [{"prompt": f"task {n}"} for n in range(5)]
    assert batch(place, *tasks[:2], words=("--shard", "1/2")).returncode == 0
    assert [r["id"] for r in lines(place.folder / "out" / "results-1-of-2.jsonl")] == ["2"]
    request = Batch(place.folder / "tasks.jsonl", place.folder, RunOptions())
    shards = [[task["id"] for task in replace(request, shard=f"{n}/3").load_tasks()] for n in range(3)]
    assert sorted(id for shard in shards for id in shard) == ["1", "2"]
    done = batch(place, *tasks, words=("--jobs", "1", "--max-cost", "0.5"))
    assert done.returncode == 4
    assert "Stopped at the budget of $0.50" in done.stderr
    assert len(lines(place.folder / "out" / "results.jsonl")) <= 2
    again = batch(place, *tasks, words=("--jobs", "1", "--max-cost", "0.5"))
    assert "The budget is spent" in again.stderr  # what was stopped at it counts too


@pytest.mark.parametrize(
    ("task", "words", "message"),
    [
        ({"id": "a"}, (), "tasks.jsonl:1 is not a task: it has no prompt"),
        ([1], (), "tasks.jsonl:1 is not a task: it is not an object"),
        ({"prompt": 5}, (), "tasks.jsonl:1 is not a task: 'prompt' is no text"),
        ({"prompt": "x", "repo": 5}, (), "'repo' is no text"),
        ({"prompt": "x"}, ("--out", "/dev/null"), "cannot be made: File exists"),
        ({"prompt": "x"}, ("--shard", "3/2"), "give I/N"),
        ({"prompt": "x"}, ("--on", "mars"), "there is no such place"),
    ],
)
def test_mistakes_of_a_batch_end_in_two_lines(place: FlowPlace, task: Any, words: Any, message: str) -> None:
    place.script({}, main=[{"say": "x"}])
    done = batch(place, task, words=words)
    assert done.returncode == 2
    assert message in done.stderr


def test_a_flow_runs_its_tasks_as_processes(place: FlowPlace) -> None:
    asides = [{"match": f"<{n}>", "turns": [{"say": f"found {n}"}]} for n in range(2)]
    place.script({}, asides=asides)
    file = place.flow(
        "async def main(flow):\n"
        "    return await flow.map('explore', range(2), lambda n: f'look <{n}>', key=lambda n: f'part {n}')\n"
    )
    done = place.run(file, "--on", "local:2")
    assert done.returncode == 0, done.stderr
    end = json.loads(done.stdout)
    assert (end["result"], end["tasks"]) == ([f"found {n}" for n in range(2)], 2)
    assert end["cost_usd"] > 0
    assert "[explore-1" in done.stderr
    again = json.loads(place.cowork("flow", "resume", "--output", "json").stdout)
    assert (again["reused"], again["cost_usd"]) == (2, end["cost_usd"])


@pytest.fixture
def crowd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Jobs that are programs which write down that they began, and end when twelve of them run."""
    python = tmp_path / "python"
    python.write_text(
        f"#!/bin/bash\ntouch {tmp_path}/began-$$\n"
        f"until [ $(ls {tmp_path} | grep -c began) = 12 ]; do sleep 0.05; done\n"
        'echo \'{"type": "run.ended", "status": "success"}\'\n'
    )
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    return tmp_path


async def test_as_many_jobs_run_as_were_asked_for(crowd: Path) -> None:
    there = LocalPlace(12)
    jobs = [job_of(str(n), "go", RunOptions(cwd=crowd)) for n in range(12)]
    async with asyncio.timeout(20):
        ends = await asyncio.gather(*(there.run(job, lambda event: None) for job in jobs))
    await there.aclose()
    assert [end["status"] for end in ends] == ["success"] * 12


def test_results_of_any_text_and_of_a_killed_process_are_read_again(place: FlowPlace) -> None:
    place.script({}, main=[{"say": "one\u2028two\x85three"}])
    assert batch(place, {"id": "a", "prompt": "say \ud800"}).returncode == 0
    results = place.folder / "out" / "results.jsonl"
    whole = results.read_bytes()
    results.write_bytes(whole + b'{"id": "b", "st')
    done = batch(place, {"id": "a", "prompt": "say \ud800"})
    assert "0 tasks to run, 1 results from before" in done.stderr
    assert results.read_bytes() == whole


# ---------------------------------------------------------------- a cluster


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Any]:
    distributed = pytest.importorskip("distributed")
    kinds = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    async with distributed.LocalCluster(asynchronous=True, local_directory=str(tmp_path), **kinds) as cluster:
        yield cluster


@pytest.mark.soak_only
async def test_a_cluster_does_what_this_machine_does_and_survives_a_lost_worker(place: FlowPlace, cluster: Any) -> None:
    place.script({}, main=[{"call": {"LS": {}}}, {"say": "a b c d e f", "delay_ms": 150}])
    options = RunOptions(cwd=place.work, script=place.folder / "script.json")
    jobs = [job_of(f"j{n}", "go", options) for n in range(2)]
    import distributed

    async with distributed.Client(cluster, asynchronous=True) as client:
        there = DaskPlace(client)
        heard: dict[str, list[str]] = {"j0": [], "j1": []}
        lost: list[str] = []

        def hear(id: str, raw: dict[str, Any]) -> None:
            heard[id].append(raw["type"])
            if id == "j0" and raw["type"] == "text.delta" and not lost:  # in the middle of the answer
                lost.append(there._where["j0"][0])
                (pid,) = [w.process.process.pid for w in cluster.workers.values() if w.worker_address == lost[0]]
                os.kill(pid, signal.SIGKILL)

        ends = await asyncio.gather(*(there.run(job, lambda event, id=job["id"]: hear(id, event)) for job in jobs))
        await there.aclose()
    assert heard["j0"].count("job.started") == 2
    assert "reply.added" in heard["j1"]
    with pytest.raises(UserError, match="no Dask scheduler"):
        await DaskPlace.connect("tcp://127.0.0.1:1")
    here = LocalPlace(1)
    local = await here.run(jobs[0], lambda event: None)
    same = ("status", "result", "num_turns", "usage", "total_cost_usd", "terminal_reason", "tasks", "denials")
    assert [{k: end[k] for k in same} for end in ends] == [{k: local[k] for k in same}] * 2


def test_what_has_no_known_price_is_not_shown_as_free(place: FlowPlace) -> None:
    place.script({}, main=[{"say": "yes"}], price=None, model="nobody-knows")
    done = batch(place, {"id": "a", "prompt": "x"})
    assert lines(place.folder / "out" / "results.jsonl")[0]["total_cost_usd"] is None
    assert " · $? · " in done.stderr
    assert "$0.00" not in done.stderr
    place.script({}, main=[{"say": "yes", "usage": {"input_tokens": 300_000}}])
    assert " · $0.30+ · " in batch(place, {"id": "a", "prompt": "x"}, {"id": "b", "prompt": "y"}).stderr
