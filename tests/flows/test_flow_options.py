"""Options of `cowork flow`: each does what its help says, here and when the flow goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.flows.conftest import FlowPlace
from tests.flows.test_flows import many, result_of

LOOK = "async def main(flow):\n    return await flow.task('explore', 'look')\n"


@pytest.mark.parametrize("where", [(), ("--on", "local:1")], ids=["here", "local"])
def test_a_flow_ends_at_its_time_limit(place: FlowPlace, where: tuple[str, ...]) -> None:
    slow = [{"say": "late", "delay_ms": 600_000}]
    place.script({"explore": slow}, main=slow)
    done = place.run(place.flow(LOOK), "--timeout", "1.5", *where)
    assert done.returncode == 124
    assert "The flow timed out after 1.5 s." in done.stderr
    assert "cowork flow resume" in done.stderr
    assert place.cowork("flow", "resume").returncode == 124  # the limit is one of the flow


def test_a_time_limit_that_the_flow_sets_itself_is_its_own(place: FlowPlace) -> None:
    place.script({"explore": [{"say": "late", "delay_ms": 600_000}]})
    text = "import asyncio\nasync def main(flow):\n    await asyncio.wait_for(flow.task('explore', 'look'), 0.1)\n"
    done = place.run(place.flow(text), "--timeout", "300")
    assert done.returncode == 1
    assert "mine.py:3 TimeoutError" in done.stderr


def test_a_stream_has_an_event_a_line_and_the_result_last(place: FlowPlace) -> None:
    script = str(place.folder / "script.json")
    done = place.cowork("flow", "run", many(place, 2), "2", "--script", script, "--output", "stream-json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = [line["type"] for line in lines]
    assert kinds[0] == "session.started"
    assert kinds.count("agent.ended") == 3
    assert kinds[-1] == "flow"
    assert "run.ended" not in kinds
    assert lines[-1]["result"] == "the sum of 2"


OPTIONS = """
async def main(flow):
    given = flow.session.run.project.options
    names = "system_prompt_append strict_denials timeout script config_file mcp_config add_dirs allow max_turns"
    return {name: getattr(given, name) for name in names.split()}
"""


def test_a_flow_goes_on_with_all_its_options_from_any_folder(place: FlowPlace) -> None:
    place.script({})
    (place.folder / "mine.toml").write_text("")
    (place.folder / "mcp.json").write_text('{"mcpServers": {}}')
    words = ["--system-prompt-append", "be kind", "--strict-denials", "--timeout", "300", "--config", "../mine.toml"]
    words += ["--mcp-config", "../mcp.json", "--add-dir", "../home", "--allow", "Bash(ls:*)", "--max-turns", "7"]
    first = result_of(place.run(place.flow(OPTIONS), *words, script=Path("../script.json")))["result"]
    place.work = place.folder
    again = result_of(place.cowork("flow", "resume", "--output", "json", "--deny", "Read(x)"))["result"]
    files = {"script": "script.json", "config_file": "mine.toml", "mcp_config": "mcp.json"}
    assert again == {
        "system_prompt_append": "be kind",
        "strict_denials": True,
        "timeout": 300.0,
        **{name: str(place.folder / file) for name, file in files.items()},
        "add_dirs": [str(place.home)],
        "allow": ["Bash(ls:*)"],
        "max_turns": 7,
    }
    assert again == first


def test_a_task_elsewhere_is_shown_with_the_model_it_runs_on(place: FlowPlace) -> None:
    models = {name: place.folder / f"{name}.json" for name in ("main", "light")}
    for name, script in models.items():
        script.write_text(json.dumps({"model": f"{name}-1", "main": [{"say": f"from {name}"}]}))
    lines = [f'[models.{name}]\nprovider = "scripted"\nscript = "{script}"' for name, script in models.items()]
    (place.folder / "mine.toml").write_text("\n".join(lines))
    done = place.cowork("flow", "run", place.flow(LOOK), "--on", "local:1", "--config", "../mine.toml")
    assert done.stdout == "from light\n", done.stderr
    assert "started · light" in done.stderr


def test_strict_denials_fail_the_task(place: FlowPlace) -> None:
    write = {"call": {"Write": {"file_path": "x", "content": "x"}}}
    place.script({"general-purpose": [write, {"call": {"LS": {}}}, {"say": "well"}]})
    file = place.flow(LOOK.replace("explore", "general-purpose"))
    assert result_of(place.run(file))["result"] == "well"
    strict = place.run(file, "--strict-denials")
    assert strict.returncode == 1
    assert "An action was denied." in strict.stderr


def test_a_flow_that_runs_cannot_be_resumed_and_says_so(place: FlowPlace) -> None:
    place.script({"explore": [{"say": "late", "delay_ms": 600_000}]})
    words = place.words("flow", "run", place.flow(LOOK), "--script", str(place.folder / "script.json"))
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, cwd=place.work, env=place.env, text=True, **quiet) as process:  # type: ignore[call-overload]
        assert "started" in process.stderr.readline()
        (flow,) = json.loads(place.cowork("flow", "list", "--json").stdout)
        refused = place.cowork("flow", "resume")
        os.kill(process.pid, signal.SIGTERM)
    assert flow["state"] == "running"
    assert refused.returncode == 2
    assert f"Flow {flow['id']} is running, in process {process.pid}." in refused.stderr
    assert "fork" not in refused.stderr


def test_what_a_flow_asks_outside_tasks_counts_for_its_cost(place: FlowPlace) -> None:
    paid = {"usage": {"input_tokens": 100_000, "output_tokens": 0}}
    place.script({"explore": [{"say": "looked", **paid}]}, main=[{"say": "hello", **paid}])
    asks = LOOK.replace("return await", "await").replace("(flow):\n", "(flow):\n    await flow.session.ask('hi')\n")
    file = place.flow(asks + "    return flow.cost\n")
    end = result_of(place.run(file))
    assert (end["result"], end["cost_usd"]) == (0.2, 0.2)
    again = result_of(place.cowork("flow", "resume", "--output", "json"))  # the task is known, the prompt is not
    assert (again["result"], again["cost_usd"], again["reused"]) == (0.3, 0.3, 1)
    (listed,) = json.loads(place.cowork("flow", "list", "--json").stdout)
    assert (listed["cost_usd"], listed["state"]) == (0.3, "done")
    assert "budget of $0.3 is spent" in place.cowork("flow", "resume", "--max-cost", "0.3").stderr
