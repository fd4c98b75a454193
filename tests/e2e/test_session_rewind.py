"""Going back in the installed chat: what a child and a command changed is listed, then restored to the byte."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.terminal import Terminal
from tests.fakes.command import COWORK
from tests.fakes.stage import call, say, turn

READY = "/help"
BYTES = bytes(range(256)) + b"\r\nno end"
CHILD = [
    turn(call("Read", file_path="child.txt")),
    turn(call("Edit", file_path="child.txt", old_string="one", new_string="ONE"), call("Bash", command="rm gone.txt")),
    turn(call("Write", file_path="made/by_child.txt", content="new")),
    say("child done"),
]
STORY = {
    "main": [
        say("Ready."),
        turn(call("Task", description="change", prompt="change it", subagent_type="general-purpose")),
        turn(call("Bash", command="sed -i s/two/TWO/ sed.txt && printf x >> bytes.bin && chmod +x sed.txt")),
        say("All changed."),
    ],
    "agents": {"general-purpose": CHILD},
}


@pytest.fixture(params=["git", "plain"])
def repo(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    for name, data in {"child.txt": b"one\n", "sed.txt": b"two\r\n", "gone.txt": b"here\n", "bytes.bin": BYTES}.items():
        (work / name).write_bytes(data)
    if request.param == "git":
        git(work, "init", "-q")
        git(work, "add", "child.txt")
    return work


def git(work: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=work, check=True, capture_output=True, text=True)
    return done.stdout


def state(work: Path) -> dict[str, tuple[bytes, int]]:
    files = (p for p in work.rglob("*") if p.is_file() and ".git" not in p.parts)
    return {str(p.relative_to(work)): (p.read_bytes(), p.stat().st_mode & 0o111) for p in files}


def index(work: Path) -> Any:
    return git(work, "ls-files", "--stage"), git(work, "stash", "list") if (work / ".git").is_dir() else None


@contextmanager
def chat(work: Path) -> Iterator[Terminal]:
    script = work.parent / "script.json"
    script.write_text(json.dumps(STORY))
    command = [str(COWORK), "--script", str(script), "--permission-mode", "bypass"]
    with Terminal(command, cwd=work, env={"COWORK_HOME": str(work.parent / "home")}, rows=40) as terminal:
        terminal.wait_for(READY, 30)
        for prompt, answer in (("hello", "Ready."), ("change everything", "All changed.")):
            terminal.type(prompt, "<Enter>")
            terminal.wait_until(lambda a=answer: a in terminal.text() and READY in terminal.text(), 40, answer)  # type: ignore[misc]
        yield terminal


def test_what_a_child_and_sed_changed_is_listed_and_restored_to_the_byte(repo: Path) -> None:
    before = state(repo)
    staged = index(repo) if (repo / ".git").is_dir() else None
    with chat(repo) as terminal:
        assert state(repo) != before
        terminal.type("/rewind", "<Enter>")
        terminal.wait_for("❯ change everything")
        for line in ("restores child.txt", "restores sed.txt", "restores bytes.bin", "brings back gone.txt"):
            terminal.wait_for(line)
        terminal.wait_for("removes made/by_child.txt")
        terminal.settle(0.5)
        terminal.type("<Enter>")
        terminal.wait_for("❯ Conversation and files")
        terminal.settle(0.5)
        terminal.type("<Enter>")
        terminal.wait_for("↺ went back")
    assert state(repo) == before
    assert staged is None or index(repo) == staged


def test_a_file_changed_outside_since_is_not_lost(repo: Path) -> None:
    before = state(repo)
    with chat(repo) as terminal:
        terminal.type("/diff", "<Enter>")  # which waits until what the turn changed is known
        terminal.wait_for("by_child.txt")
        terminal.wait_for(READY)
        (repo / "sed.txt").write_text("mine, by hand\n")
        os.utime(repo / "sed.txt", ns=(1, 1))
        terminal.type("/rewind", "<Enter>")
        terminal.wait_for("❯ change everything")
        terminal.wait_for_pattern(r"sed\.txt .*changed outside since: kept")
        terminal.settle(0.5)  # a list takes keys only after a moment
        terminal.type("<Enter>")
        terminal.wait_for("❯ Conversation and files")
        terminal.settle(0.5)
        terminal.type("<Enter>")
        terminal.wait_for("↺ went back")
    assert (repo / "sed.txt").read_text() == "mine, by hand\n"
    assert {n: f for n, f in state(repo).items() if n != "sed.txt"} == {
        n: f for n, f in before.items() if n != "sed.txt"
    }
