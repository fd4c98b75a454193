"""Children in the real chat: stopped from the keyboard, asked for and killed, and left in the background."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.e2e.terminal import Terminal
from tests.engine.test_compaction_window import PNG
from tests.fakes.command import COWORK
from tests.fakes.stage import call, say, turn

READY = "/help"
NEVER = {**say("never"), "delay_ms": 60_000}


def task(kind: str, label: str, **rest: Any) -> dict[str, Any]:
    return call("Task", description=label, prompt=f"please {label}", subagent_type=kind, **rest)


@contextmanager
def chat(folder: Path, script: object, *words: str, **env: str) -> Iterator[Terminal]:
    work = folder / "work"
    work.mkdir()
    (folder / "script.json").write_text(json.dumps(script))
    command = [str(COWORK), "--script", str(folder / "script.json"), *words]
    with Terminal(command, cwd=work, env={"COWORK_HOME": str(folder / "home"), **env}) as terminal:
        terminal.wait_for(READY, 20)
        yield terminal


def events(folder: Path) -> list[dict[str, Any]]:
    (log,) = (folder / "home" / "sessions").glob("*/events.jsonl")
    return [json.loads(line) for line in log.read_text().splitlines()]


def runs(word: str) -> bool:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in path.read_bytes():
                return True
        except OSError:
            continue
    return False


def test_a_child_is_killed_from_the_keyboard_with_its_command_and_the_turn_goes_on(tmp_path: Path) -> None:
    sleep = f"sleep 97.{os.getpid()}"
    script = {
        "main": [turn(task("bash", "run it"), task("explore", "look")), say("The rest is in.")],
        "agents": {"bash": [turn(call("Bash", command=sleep), say="Running it now.")], "explore": [say("seen")]},
    }
    with chat(tmp_path, script, "--permission-mode", "bypass") as terminal:
        terminal.type("go", "<Enter>")
        terminal.wait_for(sleep, 20)
        terminal.wait_until(lambda: runs(sleep.removeprefix("sleep ")), what="the command")
        terminal.type("<Tab>")
        terminal.wait_for("x stops")
        terminal.type("x")
        terminal.wait_for("stopping, x again ends it")
        terminal.type("x")
        terminal.wait_for("The rest is in.", 20)
        terminal.wait_for(READY)
        terminal.wait_until(lambda: not runs(sleep.removeprefix("sleep ")), what="the end of the command")
    ended = {e["subagent_id"]: e["record"]["data"] for e in events(tmp_path) if e["type"] == "agent.ended"}
    assert {id: data["status"] for id, data in ended.items()} == {"bash-1": "aborted", "explore-2": "completed"}
    assert ended["bash-1"]["result"] == "Running it now."


def test_a_child_is_sent_a_message_with_a_file_and_an_image(tmp_path: Path) -> None:
    wait = turn(call("Bash", command="until [ -e go ]; do sleep 0.02; done"))
    script = {"main": [turn(task("bash", "wait")), say("All in.")], "agents": {"bash": [wait, say("seen")]}}
    with chat(tmp_path, script, "--permission-mode", "bypass") as terminal:
        (tmp_path / "work/note.txt").write_text("the port is 8417")
        (tmp_path / "work/shot.png").write_bytes(PNG)
        terminal.type("go", "<Enter>")
        terminal.wait_for("until [ -e go ]", 20)
        terminal.type("<Tab>")
        terminal.wait_for("m message")
        terminal.type("m")
        terminal.wait_for("to bash-1 ❯")
        terminal.paste(str(tmp_path / "work/shot.png"))
        terminal.type(" and @note.txt ", "<Enter>")
        terminal.wait_for("told bash-1")
        (tmp_path / "work/go").touch()
        terminal.wait_for("All in.", 20)
    (said,) = [e for e in events(tmp_path) if e["type"] == "prompt.added" and e["source"] == "steer"]
    assert (said["agent"], len(said["images"]), "the port is 8417" in said["context"]) == ("main/bash-1", 1, True)


def test_the_question_of_a_child_that_is_stopped_leaves_the_screen(tmp_path: Path) -> None:
    write = turn(call("Write", file_path="a.txt", content="x"))
    script = {"main": [turn(task("general-purpose", "write it")), say("Never said.")],
              "agents": {"general-purpose": [write, say("done")]}}  # fmt: skip
    with chat(tmp_path, script) as terminal:
        terminal.type("go", "<Enter>")
        terminal.wait_for("asked by general-purpose-1", 20)
        terminal.settle(1.2)  # a question takes keys only after a moment
        terminal.type("<Ctrl+C>")
        terminal.wait_gone("asked by general-purpose-1")
        terminal.wait_for(READY)
    told = events(tmp_path)
    answers = [e for e in told if e["type"] == "question.answered"]
    assert [e["choice"] for e in answers] == ["no"]
    assert [e["status"] for e in told if e["type"] == "agent.ended"] == ["aborted"]
    (record,) = [e["record"] for e in told if e["type"] == "tool.ended" and e["name"] == "Task"]
    assert record["data"]["subagent_id"] == "general-purpose-1"
    assert not (tmp_path / "work" / "a.txt").exists()


def test_a_background_child_reports_with_the_next_message(tmp_path: Path) -> None:
    slow = {**say("found it in a.py:1"), "delay_ms": 60}
    script = {
        "main": [turn(task("explore", "look", run_in_background=True)), say("Sent out."), say("Heard of it.")],
        "agents": {"explore": [slow]},
    }
    with chat(tmp_path, script) as terminal:
        terminal.type("go", "<Enter>")
        terminal.wait_for("Sent out.", 20)
        terminal.wait_until(lambda: any(e["type"] == "agent.ended" for e in events(tmp_path)), what="its end")
        terminal.type("and?", "<Enter>")
        terminal.wait_for("Heard of it.", 20)
    prompts = [
        (e["source"], e["text"].splitlines()[0])
        for e in events(tmp_path)
        if e["type"] == "prompt.added" and e["agent"] == "main"
    ]
    assert prompts == [("user", "go"), ("user", "and?"), ("agent", "Background subagent explore-1:")]


def test_log_lines_go_to_a_file_that_is_named_and_never_onto_the_screen(tmp_path: Path) -> None:
    script = {"main": [turn(task("explore", "look"), task("explore", "look")), say("All in.")]}
    script |= {"agents": {"explore": [say("found")]}}  # type: ignore[dict-item]
    with chat(tmp_path, script, COWORK_LOG="info") as terminal:
        terminal.wait_for("Log lines go to", 20)
        terminal.type("go", "<Enter>")
        terminal.wait_for("All in.", 20)
        shown = terminal.text()
    assert "subagent.event" not in shown
    (log,) = (tmp_path / "home" / "sessions").glob("*/log.txt")
    lines = log.read_text().splitlines()
    session = events(tmp_path)[0]["session_id"]
    assert [line.split("subagent.event=")[1].split()[0] for line in lines] == ["spawn"] * 2 + ["complete"] * 2
    assert all(line.startswith("time=2") and f" session={session} " in line for line in lines)
    ids = {line.split(" subagent_id=")[1].split()[0] for line in lines}
    assert ids == {"explore-1", "explore-2"}, "one label, told apart"
