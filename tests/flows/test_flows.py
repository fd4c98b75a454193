"""Flows: tasks in plain Python, a journal that saves paying twice, dry runs, lists."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.flows.conftest import FlowPlace

SOAK = bool(os.environ.get("COWORK_SOAK"))

MANY = """
import asyncio
from cowork import Flow

async def main(flow: Flow, count: int, word: str = "part") -> str:
    found = await flow.map("explore", range(count), lambda n: f"look at {word} <{n}>")
    total = await flow.task("explore", "sum up " + ", ".join(found), key="sum")
    return total + " of " + str(len(found))
"""


def many(place: FlowPlace, count: int, **turn: Any) -> str:
    """A flow of so many tasks and one that depends on them all."""
    scenes: list[Any] = [{"match": "sum up", "turns": [{"say": "the sum", **turn}]}]
    scenes += [{"match": f"<{n}>", "turns": [{"say": f"found {n}", **turn}]} for n in range(count)]
    place.script({"explore": scenes})
    return place.flow(MANY)


def result_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_a_flow_runs_its_tasks_and_gives_its_result(place: FlowPlace) -> None:
    end = result_of(place.run(many(place, 5), "5"))
    assert (end["result"], end["tasks"], end["reused"]) == ("the sum of 5", 6, 0)
    assert end["cost_usd"] > 0


def test_a_flow_that_is_done_costs_nothing_again(place: FlowPlace) -> None:
    first = result_of(place.run(many(place, 3), "3"))
    again = place.cowork("flow", "resume", first["id"][:6], "--output", "json")
    end = result_of(again)
    assert (end["result"], end["reused"], end["cost_usd"]) == (first["result"], 4, first["cost_usd"])


def test_a_changed_input_runs_again_with_what_depends_on_it(place: FlowPlace) -> None:
    first = result_of(place.run(many(place, 3), "3"))
    script = json.loads((place.folder / "script.json").read_text())
    script["agents"]["explore"].insert(0, {"match": "special", "turns": [{"say": "found special"}]})
    (place.folder / "script.json").write_text(json.dumps(script))
    place.flow(MANY.replace('f"look at {word} <{n}>"', 'f"look at {word} <{n}>" if n != 1 else "special"'))
    end = result_of(place.cowork("flow", "resume", first["id"], "--output", "json"))
    assert (end["reused"], end["tasks"]) == (2, 6)  # the other two; the changed one and the sum ran again


def test_a_failed_task_stops_the_flow_and_runs_again_on_resume(place: FlowPlace) -> None:
    file = many(place, 2)
    script = json.loads((place.folder / "script.json").read_text())
    good = script["agents"]["explore"][1]["turns"]
    script["agents"]["explore"][1]["turns"] = [{"fault": {"kind": "auth", "message": "no key"}}]
    (place.folder / "script.json").write_text(json.dumps(script))
    failed = place.run(file, "2")
    assert failed.returncode == 1
    assert "no key" in failed.stderr
    assert "cowork flow resume" in failed.stderr
    script["agents"]["explore"][1]["turns"] = good
    (place.folder / "script.json").write_text(json.dumps(script))
    end = result_of(place.cowork("flow", "resume", "--output", "json"))
    assert (end["result"], end["reused"]) == ("the sum of 2", 1)


def test_a_dry_run_shows_what_is_known_and_pays_nothing(place: FlowPlace) -> None:
    file = many(place, 3)
    done = place.cowork("flow", "run", file, "3", "--dry-run", "--script", str(place.folder / "script.json"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("look at part") == 3
    assert "0 done, 3 tasks to run now: at least" in done.stdout
    assert place.cowork("flow", "list").stdout == "no flows\n"
    result_of(place.run(file, "3"))
    again = place.cowork("flow", "run", file, "4", "--dry-run", "--script", str(place.folder / "script.json"))
    assert "0 done, 4 tasks to run now: about" in again.stdout


def test_flows_are_listed_and_shown(place: FlowPlace) -> None:
    end = result_of(place.run(many(place, 2), "2", "word=part"))
    listed = json.loads(place.cowork("flow", "list", "--json").stdout)
    assert [(f["id"], f["state"], f["tasks"], f["open"]) for f in listed] == [(end["id"], "done", 3, 0)]
    assert f"{end['id']}" in place.cowork("flow", "list").stdout
    shown = place.cowork("flow", "show", end["id"]).stdout.splitlines()
    assert [line.split()[0] for line in shown] == ["done"] * 3
    assert "the sum" in shown[-1]


GROUP = """
import asyncio

async def main(flow):
    async with asyncio.TaskGroup() as group:
        for n in range(3):
            group.create_task(flow.task("explore", f"look at part <{n}>"))
"""


def test_a_dry_run_sees_through_a_task_group(place: FlowPlace) -> None:
    place.script({})
    done = place.cowork("flow", "run", place.flow(GROUP), "--dry-run", "--script", str(place.folder / "script.json"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("look at part") == 3


def test_tasks_of_one_key_are_known_in_whatever_order_they_are_asked_for(place: FlowPlace) -> None:
    place.script({"explore": [{"say": "done"}]})
    text = "async def main(flow):\n    return [await flow.task('explore', p, key='same') for p in ORDER]\n"
    file = place.flow(text.replace("ORDER", "('one', 'two', 'two')"))
    assert result_of(place.run(file))["tasks"] == 3
    place.flow(text.replace("ORDER", "('two', 'one', 'two')"))
    assert result_of(place.cowork("flow", "resume", "--output", "json"))["reused"] == 3


def test_a_flow_goes_on_from_another_folder(place: FlowPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    place.script({"explore": [{"say": "done"}]})
    file = place.flow("async def main(flow, word: str):\n    return await flow.task('explore', word)\n")
    relative = os.path.relpath(file, place.work)
    assert result_of(place.run(relative, "a\udcffb"))["tasks"] == 1
    place.work = place.folder
    assert result_of(place.cowork("flow", "resume", "--output", "json"))["reused"] == 1


def test_a_flow_may_return_what_json_does_not_know(place: FlowPlace) -> None:
    place.script({})
    file = place.flow(
        "from __future__ import annotations\nimport dataclasses, typing\nfrom pathlib import Path\n"
        "if typing.TYPE_CHECKING:\n    from cowork import Flow\n"
        "@dataclasses.dataclass(slots=True)\nclass Part:\n    n: int\n"
        "async def main(flow: Flow, n: int):\n    return [Part(n), {2, 1}, Path('a')]\n"
    )
    assert result_of(place.run(file, "3"))["result"] == [{"n": 3}, [1, 2], "a"]
    text = place.cowork("flow", "run", file, "3", "--script", str(place.folder / "script.json")).stdout
    assert json.loads(text) == [{"n": 3}, [1, 2], "a"]


def test_a_flow_that_was_killed_before_it_began_says_so(place: FlowPlace) -> None:
    result_of(place.run(many(place, 1), "1"))
    (journal,) = place.home.rglob("journal.jsonl")
    journal.write_text("")
    assert "was killed before it began" in place.cowork("flow", "resume").stderr
    assert place.cowork("flow", "list").stdout == "no flows\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing.py"], "There is no flow file nothing.py"),
        (["MINE", "x"], "count must be int, not 'x'"),
        (["MINE"], "It takes: count [word=part]"),
        (["MINE", "1", "--on", "mars"], "there is no such place"),
        (["BUGGY"], "buggy.py:2 KeyError: 'x'"),
        (["GROUP"], "The flow stopped: Subagent 'nobody' not found"),
        (["ASKS"], "The flow stopped: main: the script is out of turns"),
        (["LOADS"], "loads.py:1 ModuleNotFoundError: No module named 'nothing'"),
        (["EMPTY"], "has no `async def main(flow, …)`"),
    ],
)
def test_mistakes_end_in_two_lines(place: FlowPlace, words: list[str], message: str) -> None:
    files = {"MINE": many(place, 1), "EMPTY": place.flow("x = 1", "empty.py")}
    files["BUGGY"] = place.flow("async def main(flow):\n    return {}['x']\n", "buggy.py")
    files["GROUP"] = place.flow(GROUP.replace("explore", "nobody"), "group.py")
    files["ASKS"] = place.flow("async def main(flow):\n    await flow.session.ask('x')\n", "asks.py")
    files["LOADS"] = place.flow("import nothing\n", "loads.py")
    done = place.run(*[files.get(word, word) for word in words])
    assert done.returncode == (1 if words[0] in ("BUGGY", "GROUP", "ASKS") else 2)
    assert message in done.stderr
    assert len(done.stderr.splitlines()) <= 2


def test_the_budget_holds_over_all_tasks_and_runs(place: FlowPlace) -> None:
    file = many(place, 20, usage={"input_tokens": 100_000, "output_tokens": 1})
    done = place.run(file, "20", "--max-cost", "0.55", "--jobs", "2")
    assert done.returncode == 4
    assert "Cost limit reached" in done.stderr
    paid = json.loads(place.cowork("flow", "list", "--json").stdout)[0]["cost_usd"]
    assert 0.5 <= paid <= 0.75
    again = place.cowork("flow", "resume", "--max-cost", "0.5")
    assert again.returncode == 4
    assert "budget of $0.5 is spent" in again.stderr


def killed(place: FlowPlace, file: str, count: int, tasks: int) -> None:
    """Start it, and kill it outright when so many tasks are in its journal."""
    words = ["flow", "run", file, str(count), "--script", str(place.folder / "script.json"), "--jobs", "4"]
    process = subprocess.Popen(
        place.words(*words),
        cwd=place.work,
        env=place.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while sum(j.read_bytes().count(b'{"type":"done"') for j in place.home.rglob("journal.jsonl")) < tasks:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.001)
            break
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(50 if SOAK else 2))
def test_a_flow_that_is_killed_pays_for_nothing_twice(place: FlowPlace, seed: int) -> None:
    count = 100 if SOAK else 40
    file = many(place, count, delay_ms=3)
    killed(place, file, count, random.Random(seed).randrange(count))
    before = requests_of(place)
    end = result_of(place.cowork("flow", "resume", "--output", "json", "--jobs", "4"))
    assert (end["result"], end["tasks"]) == (f"the sum of {count}", count + 1)  # as an unbroken run
    paid = requests_of(place)
    assert sum(times > 1 for times in paid.values()) <= 4  # as many as were at work when it was killed
    assert max(paid.values()) <= 2
    assert sum(paid.values()) - sum(before.values()) == end["tasks"] - end["reused"]


def requests_of(place: FlowPlace) -> Counter[str]:
    """How often each task was put to the model, by the logs of the sessions."""
    asked: Counter[str] = Counter()
    for log in Path(place.home).rglob("events.jsonl"):
        prompts: dict[str, str] = {}
        for line in log.read_text().splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue  # torn by the kill
            if event["type"] == "prompt.added":
                prompts[event["agent"]] = event["text"]
            elif event["type"] == "reply.added":
                asked[prompts[event["agent"]]] += 1
    return asked


def test_half_a_line_of_a_killed_process_is_dropped(place: FlowPlace) -> None:
    end = result_of(place.run(many(place, 3), "3"))
    (journal,) = Path(place.home).rglob("journal.jsonl")
    whole = journal.read_bytes()
    journal.write_bytes(whole[:-40])  # of the last record, which says that it ended
    again = result_of(place.cowork("flow", "resume", "--output", "json"))
    assert (again["id"], again["result"], again["reused"]) == (end["id"], end["result"], 4)
    for line in journal.read_text().splitlines():
        json.loads(line)


# ---------------------------------------------------------------- shipped


def test_answer_asks_three_and_a_judge(place: FlowPlace) -> None:
    turns = [
        {"match": "Three agents answered", "turns": [{"say": "the best", "expect": {"contains": "one way"}}]},
        {"match": "why is it slow", "turns": [{"say": "one way"}]},
    ]
    place.script({"general-purpose": turns})
    end = result_of(place.run("answer", "why is it slow?"))
    assert (end["result"], end["tasks"]) == ("the best", 4)


def test_review_keeps_the_findings_that_hold(place: FlowPlace) -> None:
    place.repository(a_py="x = 1\n", b_py="y = 1\n")
    (place.work / "a.py").write_text("x = 1 / 0\n")
    (place.work / "b.py").write_text("y = 2\n")
    (place.work / "new.py").write_text("z = 3\n")
    (place.work / ".env").write_text("KEY=PLANTED\n")  # no scene matches it, nor what the rule denies
    (place.work / "private.txt").write_text("PLANTED\n")
    found = [{"file": "a.py", "line": 1, "title": t, "why": "it divides"} for t in ("crash", "taste")]
    scenes = [
        {"match": "crash. it divides", "turns": [{"say": json.dumps({"holds": True, "reason": "yes"})}]},
        {"match": "taste. it divides", "turns": [{"say": json.dumps({"holds": False, "reason": "no"})}]},
        {"match": "x = 1 / 0", "turns": [{"say": json.dumps({"findings": found})}]},
        {"match": "y = 2", "turns": [{"say": json.dumps({"findings": []})}]},
        {"match": "+z = 3", "turns": [{"say": json.dumps({"findings": []})}]},
    ]
    place.script({"explore": scenes})
    end = result_of(place.run("review", "--deny", "Read(private.txt)"))
    assert end["result"] == "1 finding in 3 files:\n- a.py:1 crash: it divides"


def test_migrate_merges_where_the_check_succeeds(place: FlowPlace) -> None:
    place.repository(a_py="old\n", b_py="old\n", c_py="old\n")

    def turns(name: str, text: str) -> list[Any]:
        read, write = {"Read": {"file_path": name}}, {"Write": {"file_path": name, "content": text}}
        return [{"call": read}, {"call": write}, {"say": "changed"}]

    scenes = [
        {"match": "file a.py", "turns": turns("a.py", "new\n")},
        {"match": "file b.py", "turns": turns("b.py", "broken\n")},
        {"match": "file c.py", "turns": [{"say": "nothing to do"}]},
    ]
    place.script({"general-purpose": scenes})
    words = ("*.py", "prompt=say new", "check=! grep -q broken *.py", "--permission-mode", "accept-edits")
    lines = result_of(place.run("migrate", *words))["result"].splitlines()
    assert lines[0] == "1 of 3 files merged:", lines
    assert lines[1] == "- a.py: merged 1 file: a.py"
    assert lines[2].startswith("- b.py: kept on the branch cowork/")
    assert lines[3] == "- c.py: no worktree"
    assert (place.work / "a.py").read_text() == "new\n"
    assert (place.work / "b.py").read_text() == "old\n"
    branch = lines[2].partition(" branch ")[2].split()[0]
    assert place.git("show", f"{branch}:b.py") == "broken\n"
    assert place.git("worktree", "list").count("\n") == 2


@pytest.mark.parametrize("where", [(), ("--on", "local:1")], ids=["here", "local"])
def test_what_an_interrupted_flow_had_used_counts_against_its_budget(place: FlowPlace, where: tuple[str, ...]) -> None:
    turns = [{"call": {"LS": {}}, "usage": {"input_tokens": 400_000}}, {"say": "late", "delay_ms": 600_000}]
    place.script({"explore": turns}, asides=[{"match": "look", "turns": turns}] if where else [])
    file = place.flow("async def main(flow):\n    return await flow.task('explore', 'look')\n")
    words = ["flow", "run", file, "--script", str(place.folder / "script.json"), "--max-cost", "1", *where]
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with subprocess.Popen(place.words(*words), cwd=place.work, env=place.env, text=True, **quiet) as process:  # type: ignore[call-overload]
        for line in process.stderr:
            if "LS" in line:  # the second request is under way
                process.send_signal(signal.SIGTERM)
    assert process.returncode == 143
    paid = json.loads(place.cowork("flow", "list", "--json").stdout)[0]["cost_usd"]
    assert paid >= 0.4
    assert "budget of $0.3 is spent" in place.cowork("flow", "resume", "--max-cost", "0.3").stderr


@pytest.mark.parametrize(
    ("name", "text", "words", "said"),
    [
        ("tasks.txt", "async def main(flow): return 'done'", (), None),
        ("mine.py", "async def main(flow, x: 'Later'): ...", ("5",), "name 'Later' is not defined"),
        ("mine.py", "async def main(flow, x: int): ...", ("five",), "x must be int"),
    ],
)
def test_a_flow_file_of_any_name_runs_or_says_what_is_wrong(
    place: FlowPlace, name: str, text: str, words: tuple[str, ...], said: str | None
) -> None:
    place.script({})
    done = place.run(place.flow(text, name), *words)
    assert done.returncode == (2 if said else 0)
    assert (said or "") in done.stderr


def test_options_before_the_command_count_for_it(place: FlowPlace) -> None:
    file, script = many(place, 1), str(place.folder / "script.json")
    done = place.cowork("--script", script, "flow", "run", file, "1", "--output", "json")
    assert result_of(done)["result"] == "the sum of 1"
