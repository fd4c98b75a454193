"""Tasks that work in a git worktree of their own: made with the first call, merged, kept or removed."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import cowork
from tests.tools.shell.conftest import soon

Options = Callable[..., dict[str, Any]]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir(exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("one\n")
    (folder / "sub").mkdir()
    (folder / "sub" / "b.txt").write_text("two\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return folder


def git(folder: Path, *words: str) -> str:
    names = ["-c", "user.name=t", "-c", "user.email=t@t"]
    return subprocess.run(["git", *names, *words], cwd=folder, capture_output=True, text=True, check=True).stdout


def sleeping(seconds: bytes) -> list[Path]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found += [path] if path.read_bytes() == b"sleep\0" + seconds + b"\0" else []
    return found


def writes(name: str, text: str) -> list[dict[str, Any]]:
    read, write = {"Read": {"file_path": name}}, {"Write": {"file_path": name, "content": text}}
    return [{"call": read}, {"call": write}, {"say": "done"}]


def apart(options: Options, *scenes: tuple[str, list[Any]], **more: Any) -> cowork.Session:
    children = {"general-purpose": [{"match": match, "turns": turns} for match, turns in scenes]}
    return cowork.Session(**options(children=children, **{"mode": "accept-edits", **more}))


async def sent(session: cowork.Session, prompt: str, **more: Any) -> dict[str, Any]:
    record = await session.task_record("general-purpose", prompt, isolation="worktree", **more)
    return dict(record.data)


async def test_changes_are_merged_and_the_worktree_is_gone(scripted: Options, repository: Path) -> None:
    (repository / "a.txt").write_text("one\nnot committed\n")
    command = "pwd; cat a.txt; echo x > made.txt"
    turns = [{"call": {"Bash": {"command": command}}}, *writes("sub/b.txt", "new\n")]
    async with apart(scripted, ("go", turns), mode="bypass") as session:
        data = await sent(session, "go")
    assert data["worktree"]["line"] == "merged 2 files: made.txt, sub/b.txt"
    assert data["files_changed"] == ["made.txt", "sub/b.txt"]
    assert (repository / "sub" / "b.txt").read_text() == "new\n"
    assert (repository / "a.txt").read_text() == "one\nnot committed\n"
    assert git(repository, "worktree", "list").count("\n") == 1


async def test_commands_run_inside_it(scripted: Options, repository: Path) -> None:
    turns = [
        {"call": {"Bash": {"command": "pwd; cat a.txt; git rev-parse --show-toplevel"}}},
        {"say": "done", "expect": {"contains": "worktrees"}},
    ]
    async with apart(scripted, ("go", turns)) as session:
        data = await sent(session, "go")
    assert data["status"] == "completed", data
    assert data["worktree"] == {"status": "unchanged", "line": "it changed nothing"}
    assert git(repository, "worktree", "list").count("\n") == 1


async def test_nothing_is_made_for_a_child_that_calls_nothing(scripted: Options, repository: Path) -> None:
    async with apart(scripted, ("go", [{"say": "42"}])) as session:
        assert "worktree" not in await sent(session, "go")
    assert not (repository / ".git" / "worktrees").exists()


async def test_two_that_change_the_same_lines_leave_one_on_a_branch(scripted: Options, repository: Path) -> None:
    scenes = [("first", writes("a.txt", "1\n")), ("second", writes("a.txt", "2\n"))]
    async with apart(scripted, *scenes) as session:
        ends = await asyncio.gather(sent(session, "first"), sent(session, "second"))
    kept = [end["worktree"] for end in ends if end["worktree"]["status"] == "kept"]
    assert len(kept) == 1
    merged = (repository / "a.txt").read_text()
    other = {"1\n": "2\n", "2\n": "1\n"}[merged]
    assert git(repository, "show", f"{kept[0]['branch']}:a.txt") == other
    assert "the same lines changed" in kept[0]["line"]


async def test_a_failing_check_keeps_it(scripted: Options, repository: Path) -> None:
    async with apart(scripted, ("go", writes("a.txt", "bad\n"))) as session:
        worktree = (await sent(session, "go", check="grep -q good a.txt"))["worktree"]
    assert worktree["status"] == "kept"
    assert "`grep -q good a.txt` failed: exit code 1" in worktree["line"]
    assert (repository / "a.txt").read_text() == "one\n"


async def test_a_check_that_is_stopped_ends_and_keeps_it(scripted: Options, repository: Path) -> None:
    async with apart(scripted, ("go", writes("a.txt", "new\n"))) as session:
        task = asyncio.ensure_future(sent(session, "go", check="(sleep 97.31 &); sleep 97.32"))
        assert await soon(lambda: bool(sleeping(b"97.32")))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    (kept,) = git(repository, "branch", "--list", "cowork/*").split()[-1:]
    assert git(repository, "show", f"{kept}:a.txt") == "new\n"
    assert (repository / "a.txt").read_text() == "one\n"
    assert not sleeping(b"97.31") + sleeping(b"97.32")


async def test_an_agent_file_asks_for_one_and_the_parent_is_told(scripted: Options, repository: Path) -> None:
    folder = repository / ".cowork" / "agents"
    folder.mkdir(parents=True)
    (folder / "careful.md").write_text("---\nname: careful\ndescription: Works apart.\nisolation: worktree\n---\nWork.")
    task = {"Task": {"description": "try it", "prompt": "go", "subagent_type": "careful"}}
    merged = {"say": "ok", "expect": {"contains": "[Worktree: merged 1 file: a.txt]"}}
    options = scripted({"call": task}, merged, children={"careful": writes("a.txt", "new\n")}, trust=True)
    async with cowork.Session(**options, mode="accept-edits") as session:
        assert (await session.ask("go")).text == "ok"
    assert (repository / "a.txt").read_text() == "new\n"


async def test_outside_a_repository_it_says_what_is_missing(scripted: Options) -> None:
    async with apart(scripted, ("go", [{"say": "x"}])) as session:
        record = await session.task_record("general-purpose", "go", isolation="worktree")
    assert "needs a git repository" in record.text
