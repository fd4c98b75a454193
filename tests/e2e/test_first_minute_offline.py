"""The offline model through the installed command: the real loop, the real tools, children and permissions."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.offline import expected_texts, prepare, questions, words_of
from tests.fakes.command import Command, run_command

CALC = (
    '"""Sums."""\n\n\ndef add(a, b):\n    """The sum."""\n    return a - b\n\n\ndef twice(x):\n    return add(x, x)\n'
)
TESTS = (
    "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n\n\n"
    "def test_zero():\n    assert add(1, 0) == 1\n"
)


@pytest.fixture
def shop(command: Command) -> Command:
    """A small repository with a fault in it."""
    (command.folder / "calc.py").write_text(CALC)
    (command.folder / "test_calc.py").write_text(TESTS)
    (command.folder / "README.md").write_text("# calc\n\nA calculator that is not there yet, for tests.\n")
    for words in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "First"],
    ):
        subprocess.run(["git", *words], cwd=command.folder, check=True, env={"PATH": "/usr/bin:/bin", "HOME": "/"})
    return command


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sources")


@pytest.mark.parametrize("question", questions(sample=True), ids=lambda q: f"{q['repo']}: {q['ask']}")
def test_a_sample_of_the_questions_is_answered_with_the_right_place(question: dict[str, Any], work: Path) -> None:
    if question["repo"] != "." and importlib.util.find_spec(question["repo"]) is None:
        pytest.skip(f"{question['repo']} is not installed here")
    root = prepare(question["repo"], work)
    if any(place.endswith(":0") for place in expected_texts(question, root)):
        pytest.skip(f"this version of {question['repo']} has no such place")
    env = {"PATH": os.environ["PATH"], "HOME": str(work / "home"), "COWORK_HOME": str(work / "home")}
    answer = run_command(words_of(question), cwd=root, env=env, given=None).stdout.decode()
    assert [place for place in expected_texts(question, root) if place not in answer] == [], answer


def test_every_place_that_is_expected_of_this_repo_exists(work: Path) -> None:
    """A question whose answer moved away would never be right, or always."""
    own = [q for q in questions() if q["repo"] == "."]
    lost = [q for q in own for at in expected_texts(q, prepare(".", work)) if at.endswith(":0")]
    assert lost == []
    assert len(questions()) >= 60


def test_without_a_key_a_run_says_what_it_runs_on_and_how_to_change_that(shop: Command) -> None:
    done = shop.run(prompt="where is add defined?")
    assert (done.code, "`calc.py:4`" in done.out) == (0, True)
    assert "no model key found: running on the built-in offline model (search only)" in done.err
    assert "cowork config init" in done.err
    assert "no model key" not in shop.run("--provider", "offline", prompt="where is add?").err


def test_an_order_to_change_a_file_is_declined(shop: Command) -> None:
    done = shop.run("--permission-mode", "accept-edits", prompt='replace "a - b" by "a + b" in calc.py')
    assert done.out.startswith("I cannot answer that.")
    assert "I change no files" in done.out
    assert (shop.folder / "calc.py").read_text() == CALC


def test_it_runs_the_tests_and_names_what_failed_and_where(shop: Command) -> None:
    rule = ("--allow", "Bash(python3:*)")
    here = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}  # a python3 that has pytest
    done = shop.run(*rule, prompt="run the tests and say which failed", env=here)
    assert done.code == 0
    assert "1 test failed (1 failed, 1 passed)" in done.out
    assert "`test_calc.py::test_add`" in done.out
    assert "`test_calc.py:5`" in done.out
    denied = shop.run("--deny", "Bash", prompt="run the tests")
    assert denied.code == 5
    assert "I did not run the tests" in denied.out
    assert "--allow 'Bash(python3:*)'" in denied.out


def test_without_pytest_it_says_that_no_tests_ran(shop: Command) -> None:
    bare = shop.folder / "bare"
    bare.mkdir()
    python = os.path.realpath(sys.executable)  # commands may not see the folder of the virtual environment
    (bare / "python3").write_text(f'#!/bin/sh\nexec {python} -S "$@"\n')
    (bare / "python3").chmod(0o755)
    own = shop.folder / ".venv" / "bin"  # the interpreter of the project goes first, although git ignores its folder
    own.mkdir(parents=True)
    (own / "python").symlink_to(bare / "python3")
    (own.parent / ".gitignore").write_text("*\n")
    done = shop.run("--allow", "Bash(.venv/bin/python:*)", prompt="run the tests")
    assert "`.venv/bin/python -m pytest -q` said last" in done.out
    assert done.out.startswith("No tests ran: ")
    assert "No module named pytest" in done.out
    assert "pass" not in done.out.split("\n")[0]


def test_a_why_question_says_first_that_it_needs_a_real_model(shop: Command) -> None:
    done = shop.run(prompt="why does add subtract?")
    first, *rest = done.out.splitlines()
    assert first.startswith("Why something is so needs a real model")
    assert "`calc.py:4`" in "\n".join(rest)


def test_what_changed_comes_from_git_or_says_why_not(shop: Command) -> None:
    (shop.folder / "calc.py").write_text(CALC + "# more\n")
    done = shop.run("--trust", prompt="what changed?")
    assert " M calc.py" in done.out
    assert "1 file changed, 1 insertion(+)" in done.out
    done = shop.run("--deny", "Bash", prompt="what changed?")
    assert done.code == 5
    assert "I may not run git here" in done.out
    assert "--trust" in done.out


def test_parts_are_looked_into_by_children_side_by_side(shop: Command) -> None:
    done = shop.run("--output", "stream-json", prompt="where is add, what calls add and how many tests are there?")
    started = [e["id"] for e in done.of("agent.started")]
    ended = [e["id"] for e in done.of("agent.ended")]
    assert len(started) == 3
    assert max(started) < min(ended), "they ran at once"
    result = done.result
    assert result["total_cost_usd"] == 0.0
    assert [t["subagent_type"] for t in result["tasks"]] == ["explore"] * 3
    assert all(piece in result["result"] for piece in ("`calc.py:4`", "`calc.py:10`", "2 tests"))


def test_a_chat_remembers_what_it_was_about(shop: Command) -> None:
    first = shop.run("--output", "json", prompt="where is add defined?").result
    second = shop.run("--resume", first["session_id"], "--output", "json", prompt="and where is it used?").result
    assert "`calc.py:10` in `twice`" in second["result"]


def test_an_output_schema_is_satisfied(shop: Command) -> None:
    schema = {
        "type": "object",
        "properties": {"file": {"type": "string"}, "line": {"type": "integer"}},
        "required": ["file", "line"],
        "additionalProperties": False,
    }
    (shop.folder / "schema.json").write_text(json.dumps(schema))
    done = shop.run("--output", "json", "--output-schema", "schema.json", prompt="where is twice defined?")
    assert done.result["structured_output"] == {"file": "calc.py", "line": 9}


def test_a_recording_of_it_replays(shop: Command) -> None:
    record = str(shop.home / "talk.jsonl")
    first = shop.run("--record", record, prompt="where is add defined?")
    again = shop.run("--replay", record, prompt="where is add defined?")
    assert (first.code, again.code) == (0, 0)
    assert again.out == first.out
