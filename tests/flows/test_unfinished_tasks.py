"""Tasks of flows that end short of what was asked: they fail, are seen, and run again."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cowork
from tests.flows.conftest import FlowPlace
from tests.flows.test_flows import result_of

ONE = "async def main(flow):\n    return await flow.task('general-purpose', 'write it')\n"
WRITE = {"call": {"Write": {"file_path": "new.txt", "content": "x"}}}


def shown(place: FlowPlace) -> list[tuple[str, str]]:
    """(state, the rest) of each task."""
    found = place.cowork("flow", "show").stdout.splitlines()
    return [(line.split()[0], line) for line in found]


@pytest.mark.parametrize(
    ("turns", "said"),
    [
        ([WRITE, {"say": "I wrote it."}], "It ended right after a denied call: Write."),
        ([{"say": "I cannot", "stop_reason": "refusal"}], "The model declined to answer in full."),
        ([{"say": "half of", "stop_reason": "max_tokens"}] * 4, "Its report was cut off"),
    ],
    ids=["denied", "refused", "cut"],
)
def test_a_task_that_ends_short_fails_and_runs_again(place: FlowPlace, turns: list[Any], said: str) -> None:
    place.script({"general-purpose": turns})
    done = place.run(place.flow(ONE))
    assert done.returncode == 1
    assert said in done.stderr
    assert [state for state, _ in shown(place)] == ["failed"]
    place.script({"general-purpose": [WRITE, {"say": "I wrote it."}]})
    end = result_of(place.cowork("flow", "resume", "--permission-mode", "accept-edits", "--output", "json"))
    assert (end["result"], end["reused"], end["failed"]) == ("I wrote it.", 0, 0)
    ((state, line),) = shown(place)
    assert state == "done"
    assert "I wrote it." in line


async def test_a_task_of_a_program_raises_when_it_ends_short(place: FlowPlace) -> None:
    script = place.script({"general-purpose": [WRITE, {"say": "I wrote it."}]})
    async with cowork.Session(cwd=place.work, script=script, environ=place.env) as session:
        with pytest.raises(cowork.TaskFailed, match="denied call: Write") as caught:
            await session.task("general-purpose", "write it")
    assert caught.value.record.data["result"] == "I wrote it."


def test_a_migration_that_lacked_permission_is_done_on_resume(place: FlowPlace) -> None:
    place.repository(a_py="old\n")
    edit = {"Edit": {"file_path": "a.py", "old_string": "old", "new_string": "new"}}
    place.script({"general-purpose": [{"call": {"Read": {"file_path": "a.py"}}}, {"call": edit}, {"say": "changed"}]})
    denied = result_of(place.run("migrate", "a.py", "prompt=change it"))
    assert "a.py: failed: Task incomplete: It ended right after a denied call: Edit." in denied["result"]
    assert (denied["tasks"], denied["failed"]) == (0, 1)
    end = result_of(place.cowork("flow", "resume", "--permission-mode", "accept-edits", "--output", "json"))
    assert end["result"].startswith("1 of 1 files merged")
    assert (place.work / "a.py").read_text() == "new\n"


def test_a_report_at_the_limit_of_turns_counts_until_there_are_more_turns(place: FlowPlace) -> None:
    look = {"call": {"LS": {}}}
    place.script({"general-purpose": [look, {"say": "as far as I got"}]})
    first = result_of(place.run(place.flow(ONE), "--max-turns", "1"))
    assert (first["result"], first["partial"]) == ("as far as I got", 1)
    ((state, line),) = shown(place)
    assert state == "partial"
    assert "It reached its limit of 1 turn." in line
    again = result_of(place.cowork("flow", "resume", "--output", "json"))
    assert (again["reused"], again["partial"], again["cost_usd"]) == (1, 1, first["cost_usd"])
    place.script({"general-purpose": [look, look, {"say": "all of it"}]})
    whole = result_of(place.cowork("flow", "resume", "--max-turns", "9", "--output", "json"))
    assert (whole["result"], whole["reused"], whole["partial"], whole["tasks"]) == ("all of it", 0, 0, 1)
    assert result_of(place.cowork("flow", "resume", "--output", "json"))["reused"] == 1


def test_an_agent_at_its_own_limit_is_not_paid_for_again(place: FlowPlace) -> None:
    folder = place.work / ".cowork/agents"
    folder.mkdir(parents=True)
    (folder / "short.md").write_text("---\nname: short\ndescription: d\nmax_turns: 1\n---\nLook.")
    place.script({"short": [{"call": {"LS": {}}}, {"say": "as far as I got"}]})
    file = place.flow("async def main(flow):\n    return await flow.task('short', 'look')\n")
    assert result_of(place.run(file, "--max-turns", "9", "--trust"))["partial"] == 1
    assert result_of(place.cowork("flow", "resume", "--output", "json"))["reused"] == 1


RETRY = """
from pathlib import Path
from cowork import TaskFailed

async def main(flow):
    for attempt in range(3):
        try:
            found = await flow.task("explore", "look")
            break
        except TaskFailed:
            Path("flag.txt").write_text("okay")
    if not Path("go").exists():
        raise RuntimeError("later code breaks")
    return [found, await flow.task("explore", "look")]
"""


def test_a_second_try_is_the_same_task_and_is_not_paid_for_again(place: FlowPlace) -> None:
    place.script({"explore": [{"call": {"LS": {}}}, {"say": "good", "expect": {"contains": "flag.txt"}}]})
    broken = place.run(place.flow(RETRY))
    assert "later code breaks" in broken.stderr
    ((state, line),) = shown(place)
    assert state == "done"
    assert line.endswith("good")
    (listed,) = json.loads(place.cowork("flow", "list", "--json").stdout)
    assert listed["tasks"] == 1
    assert json.loads(place.cowork("flow", "show", "--json").stdout)["cost_usd"] == listed["cost_usd"]
    (place.work / "go").touch()
    end = result_of(place.cowork("flow", "resume", "--output", "json"))
    assert (end["result"], end["reused"], end["tasks"]) == (["good", "good"], 1, 2)  # once more is another task


STRICT = """
from dataclasses import dataclass

@dataclass
class Count:
    number: int

    def __post_init__(self):
        if self.number < 0:
            raise ValueError("must be positive")

async def main(flow):
    return (await flow.task("explore", "count", schema=Count)).number
"""


def test_a_value_that_its_type_refuses_is_a_failed_task(place: FlowPlace) -> None:
    place.script({"explore": [{"say": '{"number": -1}'}]})
    done = place.run(place.flow(STRICT))
    assert done.returncode == 1
    assert "The answer is not valid: must be positive" in done.stderr
    assert [state for state, _ in shown(place)] == ["failed"]
    place.script({"explore": [{"say": '{"number": 5}'}]})
    assert result_of(place.cowork("flow", "resume", "--output", "json"))["result"] == 5
    place.flow(STRICT.replace("self.number < 0", "self.number < 9"))  # what is known does not fit any more
    place.script({"explore": [{"say": '{"number": 10}'}]})
    end = result_of(place.cowork("flow", "resume", "--output", "json"))
    assert (end["result"], end["reused"], end["tasks"]) == (10, 0, 1)
    assert not list(place.folder.rglob("__pycache__"))
