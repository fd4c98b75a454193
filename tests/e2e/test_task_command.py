"""Children of the installed command: crashes, background work at the exit, resuming, and what the log keeps of them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cowork.engine.subagents.result import view_000, view_002, view_003
from tests.fakes.command import COWORK, Command, Ended
from tests.fakes.record_rules import problems
from tests.fakes.stage import call, say, turn
from tests.wire import server as wire

NEVER = {**say("never"), "delay_ms": 60_000}
USAGE = {"input_tokens": 1_000, "output_tokens": 100}
PRICE = {"input": 3.0, "output": 15.0}


def task(kind: str = "explore", prompt: str = "find it", **rest: Any) -> dict[str, Any]:
    return call("Task", description="find the thing", prompt=prompt, subagent_type=kind, **rest)


def log_of(command: Command) -> list[dict[str, Any]]:
    (path,) = (command.home / ".local" / "state" / "cowork" / "sessions").glob("*/events.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def killed_at(command: Command, script: object, kind: str, agent: str) -> None:
    """Run until that event comes, then end the process without a word."""
    path = command.folder.parent / "crash.json"
    path.write_text(json.dumps(script))
    words = [str(COWORK), "run", "--non-interactive", "--output", "stream-json", "--script", str(path), "go"]
    environ = {"PATH": os.environ["PATH"], "HOME": str(command.home), "LANG": "C.UTF-8"}
    with subprocess.Popen(words, cwd=command.folder, env=environ, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            event = json.loads(line)
            if (event["type"], event["agent"]) == (kind, agent):
                break
        process.kill()


def asked(command: Command, script: object, *words: str) -> tuple[Ended, list[Any]]:
    """A run and the bodies of its requests."""
    dump = command.folder.parent / "requests.jsonl"
    dump.unlink(missing_ok=True)
    ended = command.play(script, "--dump-requests", str(dump), *words)
    return ended, [json.loads(line) for line in dump.read_text().splitlines()]


def test_a_crash_leaves_the_parent_what_its_child_had(command: Command) -> None:
    look = turn(call("LS", path="."), say="half of it", usage=USAGE)
    killed_at(
        command,
        {"main": [turn(task())], "agents": {"explore": [look, NEVER]}, "price": PRICE},
        "tool.ended",
        "main/explore-1",
    )
    ended, bodies = asked(command, [say("ok")], "--continue")
    assert ended.code == 0, ended.err
    (end,) = ended.of("agent.ended")
    assert (end["agent"], end["status"]) == ("main/explore-1", "aborted")
    record = ended.record()
    assert problems(record) == []
    data = record["data"]
    assert (data["status"], data["result"], data["subagent_id"]) == ("aborted", "half of it", "explore-1")
    assert data["tool_summary"] == [{"tool": "LS", "count": 1, "failed": 0, "denied": 0}]
    assert data["usage"] == {"prompt_tokens": 1_000, "completion_tokens": 100}
    assert data["metadata"]["turns_used"] == "1"
    assert data["duration_ms"] > 0
    listed = json.loads(command.cowork("tasks", "list", "--json").out)
    assert [(row["status"], row["duration_ms"]) for row in listed] == [("aborted", data["duration_ms"])]
    (said,) = [notice["text"] for notice in ended.of("notice") if "interrupted" in notice["text"]]
    assert "was interrupted after 1 turn and 1 tool call; last words: half of it [subagent_id explore-1]." in said
    assert view_000(record)["error"].startswith("Subagent was aborted: the process ended")
    assert view_002(record)["result"] == "half of it"
    assert view_003(record)["success"] is False
    shown = json.dumps(bodies[0])
    assert "half of it" in shown
    assert "subagent_id explore-1" in shown


def test_a_background_child_cut_off_by_a_crash_is_told_at_the_next_prompt(command: Command) -> None:
    look = turn(call("LS", path="."), say="half of it")
    script = {"main": [turn(task(run_in_background=True)), NEVER], "agents": {"explore": [look, NEVER]}}
    killed_at(command, script, "tool.ended", "main/explore-1")
    ended, bodies = asked(command, [say("ok")], "--continue")
    assert ended.code == 0, ended.err
    assert "Background subagent explore-1:" in json.dumps(bodies[0])
    assert "half of it" in json.dumps(bodies[0])


def test_a_child_is_resumed_in_a_resumed_session(command: Command) -> None:
    agents = {"*": [say("first"), say("second")]}
    assert command.play({"main": [turn(task()), say("ok")], "agents": agents}).code == 0
    again = {"main": [turn(task(prompt="and then?", resume="explore-1")), say("ok")], "agents": agents}
    ended, bodies = asked(command, again, "--continue")
    assert ended.record()["data"]["result"] == "second", ended.err
    child = next(b for b in bodies if "# Task\nfind the thing" in str(b["system"]))
    shown = json.dumps(child["messages"])
    assert [text in shown for text in ("find it", "first", "and then?")] == [True] * 3
    third, _ = asked(
        command, {"main": [turn(task("plan", "else")), say("ok")], "agents": {"plan": [say("p")]}}, "--continue"
    )
    assert third.of("agent.started")[0]["subagent_id"] == "plan-2"


@pytest.mark.parametrize(("words", "reason"), [(["--max-turns", "1"], "max_turns"), (["--timeout", "3"], "timeout")])
def test_background_children_are_ended_and_counted_before_the_run_ends(
    command: Command, words: list[str], reason: str
) -> None:
    look = turn(call("LS", path="."), say="half of it", usage=USAGE)
    script = {"main": [turn(task(run_in_background=True)), NEVER], "agents": {"explore": [look, NEVER]}}
    ended = command.play(script, *words)
    assert ended.events[-1]["type"] == "run.ended"
    assert ended.result["terminal_reason"] == reason
    assert [(t["subagent_id"], t["status"]) for t in ended.result["tasks"]] == [("explore-1", "aborted")]
    assert ended.result["cost_by_subagent_type"]["explore"]["tasks"] == 1
    assert len(ended.of("agent.started")) == len(ended.of("agent.ended")) == 1


def test_conversations_of_children_stay_out_of_the_log_when_they_are_not_to_be_kept(command: Command) -> None:
    command.configure("[agent.subagent]\npersistence_enabled = false\nallow_nesting = true\n")
    for name in ("alpha", "beta"):
        command.agent(name, f"---\nname: {name}\ndescription: does {name}\n---\nYou are {name}.")
    script = {
        "main": [turn(task("alpha", "start"), usage=USAGE), {**say("ok"), "usage": USAGE}],
        "agents": {
            "alpha": [turn(task("beta", "deeper"), usage=USAGE), {**say("secret words"), "usage": USAGE}],
            "beta": [{**say("deep secret"), "usage": USAGE}],
        },
        "price": PRICE,
    }
    ended = command.play(script, "--trust")
    assert ended.code == 0, ended.err
    log = log_of(command)
    kept = {(e["type"], e["agent"]) for e in log if e["agent"] != "main"}
    assert kept == {(k, a) for k in ("agent.started", "agent.ended") for a in ("main/alpha-1", "main/alpha-1/beta-2")}
    assert ended.of("reply.added", "main/alpha-1")
    result = ended.result
    own = round(5 * 1_000 * 3e-6 + 5 * 100 * 15e-6, 9)
    assert result["total_cost_usd"] == own
    sums = json.loads(command.cowork("cost", "--by", "agent", "--json").out)["by_agent"]
    costs = {name: spent["cost_usd"] for name, spent in sums.items()}
    assert costs == {"main": 0.009, "alpha": 0.009, "beta": 0.0045}
    assert round(sum(costs.values()), 9) == result["total_cost_usd"]
    assert {n: c["total_cost_usd"] for n, c in result["cost_by_subagent_type"].items()} == {
        "alpha": 0.009,
        "beta": 0.0045,
    }


def test_an_agent_file_cannot_loosen_what_the_one_above_it_may(command: Command) -> None:
    command.configure("[agent.subagent]\nallow_nesting = true\n")
    command.agent("alpha", "---\nname: alpha\ndescription: plans\npermission_mode: plan\n---\nYou are alpha.")
    command.agent("beta", "---\nname: beta\ndescription: writes\npermission_mode: bypass\n---\nYou are beta.")
    script = {
        "main": [turn(task("alpha", "start"), task("beta", "write too")), say("ok")],
        "agents": {
            "alpha": [turn(task("beta", "deeper")), say("alpha")],
            "beta": [
                {"match": "deeper", "turns": [turn(call("Write", file_path="deep.txt", content="x")), say("deep")]},
                {"match": "write too", "turns": [turn(call("Write", file_path="flat.txt", content="x")), say("flat")]},
            ],
        },
    }
    ended = command.play(script, "--trust", "--permission-mode", "accept-edits")
    assert not (command.folder / "deep.txt").exists()
    assert (command.folder / "flat.txt").exists(), ended.out
    (refused,) = [e for e in ended.of("tool.ended") if e["name"] == "Write" and "/alpha-1/" in e["agent"]]
    assert refused["record"]["error"]["code"] == "PERMISSION_DENIED"


def test_a_cost_limit_holds_for_children_without_prices_too(command: Command, tmp_path: Path) -> None:
    command.configure("[agent.subagent]\nmax_total_cost_usd = 1.0\n")
    ended = command.play({"main": [turn(task()), say("ok")], "agents": {"explore": [say("never")]}})
    assert "no prices are known for" in ended.record()["error"]["message"]


def test_a_background_child_that_ended_too_late_is_told_of_when_the_session_goes_on(command: Command) -> None:
    script = {"main": [turn(task(run_in_background=True))], "agents": {"explore": [NEVER]}}
    assert command.play(script, "--max-turns", "1").code == 4
    ended, bodies = asked(command, [say("ok")], "--continue")
    shown = json.dumps(bodies[0])
    assert shown.count("Background subagent explore-1:") == 1, ended.err
    again, bodies = asked(command, [say("ok")], "--continue")
    assert json.dumps(bodies[0]).count("Background subagent explore-1:") == 1, again.err


def test_an_agent_file_may_name_a_model_by_its_id(command: Command) -> None:
    command.agent("special", "---\nname: special\ndescription: d\nmodel: other-model-9\n---\nYou are special.")
    routes = {"find the thing": [wire.say("done")]}
    with wire.Server(
        [wire.turn(wire.call("Task", **task("special")["input"])), wire.say("ok")], routes=routes
    ) as server:
        ended = command.stream("--trust", env=server.env("anthropic"))
    assert [body["model"] for body in server.bodies] == ["test-model", "other-model-9", "test-model"]
    data = ended.record()["data"]
    assert (data["model_requested"], data["model_used"], data["model_id"]) == ("other-model-9",) * 3


def test_the_model_of_a_run_is_that_of_its_children_on_main_and_a_replay_need_not_name_it(command: Command) -> None:
    routes = {"find the thing": [wire.say("done")]}
    delegate = wire.turn(wire.call("Task", **task("general")["input"]))
    with wire.Server([delegate, wire.say("ok")], routes=routes) as server:
        ended = command.stream("--model", "other-model-9", "--record", "run.jsonl", env=server.env("anthropic"))
    assert [body["model"] for body in server.bodies] == ["other-model-9"] * 3
    data = ended.record()["data"]
    assert (data["model_requested"], data["model_used"], data["model_id"]) == ("main", "main", "other-model-9")
    again = command.stream("--replay", "run.jsonl")
    assert (again.code, again.record()["data"]["result"]) == (0, "done"), again.err


def test_the_files_that_commands_of_children_change_are_in_their_receipts(command: Command) -> None:
    for name in ("edited", "untouched", "gone", "theirs"):
        (command.folder / f"{name}.txt").write_text(f"{name}\n")
    (command.folder / ".gitignore").write_text("built/\n")
    change = "sed -i s/edited/new/ edited.txt; rm gone.txt; mkdir sub built; echo o > built/x; echo new > sub/new.txt"
    edit = {"file_path": "theirs.txt", "old_string": "theirs", "new_string": "ours"}
    wait = "until [ -e {} ]; do sleep 0.05; done"
    later = {"command": f"{wait.format('sub/new.txt')}; echo later > later.txt", "run_in_background": True}
    script = {
        "main": [
            {"calls": [task("general-purpose", "commands"), task("general-purpose", "background")]},
            {"say": "Done."},
        ],
        "agents": {
            "general-purpose": [
                {
                    "match": "commands",
                    "turns": [
                        {"call": {"Bash": {"command": "cat edited.txt"}}},
                        {"call": {"Bash": {"command": change}}},
                        {"say": "Changed."},
                    ],
                },
                {
                    "match": "background",
                    "turns": [
                        {"call": {"Read": {"file_path": "theirs.txt"}}},
                        {"call": {"Edit": edit}},
                        {"call": {"Bash": later}},
                        {"call": {"Bash": {"command": wait.format("later.txt")}}},
                        {"say": "Edited."},
                    ],
                },
            ]
        },
    }
    done = command.play(script, "--permission-mode", "bypass")
    assert done.code == 0, done.err
    by_commands, by_both = (e["record"] for e in done.of("tool.ended", "main"))
    assert {"edited.txt", "gone.txt", "sub/new.txt"} <= set(by_commands["data"]["files_changed"])
    assert not {"theirs.txt", "untouched.txt", "built/x", "sub"} & set(by_commands["data"]["files_changed"])
    assert "files changed: " in by_commands["text"]
    assert {"theirs.txt", "later.txt"} <= set(by_both["data"]["files_changed"])


def test_an_agent_run_as_main_lacks_what_its_file_refuses_by_another_name(command: Command) -> None:
    command.agent("solo", "---\nname: solo\ndescription: d\ndisallowedTools: [Agent, bash]\n---\nYou are solo.")
    ended = command.play([say("ok")], "--trust", "--agent", "solo")
    assert {"Task", "Bash"}.isdisjoint(ended.of("session.started")[0]["tools"])


@pytest.mark.parametrize("spelled", ["solo", "SO-LO", "solo\n", "\tsolo", "solo\u00a0", "\u2003s_olo"])
def test_no_spelling_of_an_agent_gets_around_a_deny_rule(command: Command, spelled: str) -> None:
    command.agent("solo", "---\nname: solo\ndescription: d\n---\nYou are solo.")
    script = {"main": [turn(task(spelled, "go")), say("ok")], "agents": {"*": [say("ran")]}}
    ended = command.play(script, "--trust", "--deny", "Task(solo)")
    assert ended.record("Task")["error"]["code"] == "PERMISSION_DENIED"
    assert not ended.of("agent.started")
