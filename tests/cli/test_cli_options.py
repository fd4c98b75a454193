"""Every option of `cowork run` does what it says, alone and where two of them meet."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.command import COWORK, run_command

HELLO = "- Hello."
READS = """
- call: {Read: {file_path: a.txt}}
- It says hello.
"""
WRITES = """
- call: {Write: {file_path: new.txt, content: "hi"}}
- call: {Read: {file_path: a.txt}}
- Done.
"""
FIELDS = [
    *("type", "status", "result", "terminal_reason", "session_id", "num_turns", "duration_ms", "usage"),
    *("total_cost_usd", "model", "tasks", "cost_by_subagent_type", "denials", "warnings"),
    *("structured_output", "error"),
]
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def run(cowork: Any, script: str, *words: str) -> tuple[int, dict[str, Any], str]:
    """(exit code, the JSON result, stderr)."""
    done = cowork("run", "--script", cowork.script(script), "--output", "json", *words, "go")
    return done.returncode, json.loads(done.stdout), done.stderr


def first_request(cowork: Any, script: str, *words: str) -> dict[str, Any]:
    run(cowork, script, "--dump-requests", "dump.jsonl", *words)
    return dict(json.loads((cowork.folder / "dump.jsonl").read_text().splitlines()[0]))


@pytest.fixture
def place(cowork: Any) -> Any:
    (cowork.folder / "a.txt").write_text("hello\n")
    (cowork.folder / "schema.json").write_text(json.dumps(SCHEMA))
    return cowork


def test_the_result_has_exactly_its_fields(place: Any) -> None:
    _, result, _ = run(place, READS)
    assert list(result) == FIELDS
    assert list(result["usage"]) == ["input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"]
    assert (result["total_cost_usd"], result["error"], result["num_turns"]) == (None, None, 2)


def test_an_agent_brings_its_role_and_tools(place: Any) -> None:
    request = first_request(place, READS, "--agent", "Explore")
    assert "explores code" in request["system"]
    assert [tool["name"] for tool in request["tools"]] == ["Read", "Grep", "Glob", "LS", "TodoWrite"]


def test_only_the_tools_named_are_offered_and_run(place: Any) -> None:
    request = first_request(place, READS, "--tools", "Grep", "--tools", "Glob, LS")
    assert [tool["name"] for tool in request["tools"]] == ["Grep", "Glob", "LS"]
    done = place("run", "--script", "script.yaml", "--tools", "Grep", "--output", "stream-json", "go")
    (ended,) = [e for e in map(json.loads, done.stdout.splitlines()) if e["type"] == "tool.ended"]
    assert ended["record"]["error"]["code"] == "PERMISSION_DENIED"


def test_text_is_added_to_the_system_prompt(place: Any) -> None:
    assert first_request(place, HELLO, "--system-prompt-append", "Answer in rhyme.")["system"].endswith(
        "\n\nAnswer in rhyme."
    )
    assert run(place, HELLO, "--system-prompt-append", "")[0] == 0


def test_a_conversation_goes_on_by_folder_and_by_the_start_of_its_id(place: Any) -> None:
    script = "resume: true\nmain: [one, two, three]"
    _, first, _ = run(place, script)
    _, second, _ = run(place, script, "--continue")
    _, third, _ = run(place, script, "--resume", first["session_id"][:6])
    assert [first["result"], second["result"], third["result"]] == ["one", "two", "three"]
    assert len({first["session_id"], second["session_id"], third["session_id"]}) == 1


def test_no_session_leaves_nothing(place: Any, tmp_path: Path) -> None:
    home, temporary = tmp_path / "home", tmp_path / "temporary"
    home.mkdir()
    temporary.mkdir()
    env = {"COWORK_HOME": str(home), "HOME": str(home), "TMPDIR": str(temporary)}
    done = place("run", "--script", place.script(READS), "--no-session", "go", env=env)
    assert done.returncode == 0
    assert [*home.rglob("*"), *temporary.rglob("*")] == []


@pytest.mark.parametrize("other", [["--continue"], ["--resume", "abc"]])
def test_no_session_does_not_write_to_an_old_one(place: Any, other: list[str]) -> None:
    run(place, HELLO)
    code, result, _ = run(place, HELLO, "--no-session", *other)
    assert (code, "--no-session" in result["error"]["message"]) == (2, True)


def test_bare_knows_nothing_of_user_and_project(place: Any, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "agents").mkdir(parents=True)
    (home / "config.toml").write_text("[limits]\nmax_turns = 1\n")
    (home / "AGENTS.md").write_text("WORD-OF-USER")
    (home / "agents" / "mine.md").write_text("---\nname: mine\ndescription: AGENT-OF-USER\n---\nrole\n")
    (home / "rules.json").write_text(json.dumps({"version": 1, "allow": {str(place.folder): ["Write"]}}))
    for name in ("AGENTS.md", "CLAUDE.md"):
        (place.folder / name).write_text("WORD-OF-PROJECT")
    for folder in (".cowork", ".claude"):
        (place.folder / folder / "agents").mkdir(parents=True)
        (place.folder / folder / "agents" / "its.md").write_text(
            "---\nname: its\ndescription: AGENT-OF-PROJECT\n---\nr\n"
        )
    (place.folder / ".cowork" / "config.toml").write_text("[limits]\nmax_turns = 1\n")
    words = ["--output", "json", "--bare", "--trust", "--dump-requests", "dump.jsonl", "--strict-denials", "go"]
    done = place("run", "--script", place.script(WRITES), *words, env={"COWORK_HOME": str(home)})
    result = json.loads(done.stdout)
    assert (done.returncode, result["num_turns"], result["terminal_reason"]) == (5, 3, "denied")
    sent = (place.folder / "dump.jsonl").read_text()
    assert "OF-USER" not in sent
    assert "OF-PROJECT" not in sent
    assert not (place.folder / "new.txt").exists()


def test_a_bad_rules_file_does_not_stop_a_bare_run(place: Any, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "rules.json").write_text("[")
    env = {"COWORK_HOME": str(tmp_path / "home")}
    assert place("run", "--script", place.script(HELLO), "--bare", "go", env=env).returncode == 0


def test_any_denial_is_exit_5_when_strict(place: Any) -> None:
    code, result, _ = run(place, WRITES, "--non-interactive")
    assert (code, result["terminal_reason"], len(result["denials"])) == (0, "completed", 1)
    code, result, _ = run(place, WRITES, "--non-interactive", "--strict-denials")
    assert (code, result["error"]) == (5, {"code": "denied", "message": "An action was denied."})
    assert result["denials"][0]["tool"] == "Write"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--allow", "Write(new.txt)"], 0),
        (["--allow", "Write(other.txt)"], 5),
        (["--permission-mode", "accept-edits"], 0),
        (["--permission-mode", "plan", "--allow", "Write"], 5),
        (["--permission-mode", "bypass"], 0),
        (["--permission-mode", "bypass", "--deny", "Write"], 5),
        (["--allow", "Write", "--deny", "Write(new.txt)"], 5),
    ],
)
def test_modes_and_rules_decide(place: Any, words: list[str], code: int) -> None:
    assert run(place, WRITES, "--non-interactive", "--strict-denials", *words)[0] == code
    assert (place.folder / "new.txt").exists() == (code == 0)


def test_limits_on_tokens_and_cost_are_exit_4(place: Any) -> None:
    priced = "model: m\nprice: {input: 3, output: 15}\nmain:\n" + "  - call: {Read: {file_path: a.txt}}\n" * 9
    for words, message in (
        (["--max-tokens", "5000"], "Token limit reached: "),
        (["--max-cost", "0.02"], "Cost limit reached: $"),
    ):
        code, result, _ = run(place, priced, *words)
        assert (code, result["terminal_reason"]) == (4, "budget")
        assert result["error"]["message"].startswith(message)
    assert run(place, HELLO, "--max-cost", "1")[0] == 2  # no price is known, so the limit could not be held


@pytest.mark.parametrize(
    ("turns", "words", "code", "reason", "value"),
    [
        (['{"n": 3}'], [], 0, "completed", {"n": 3}),
        (["three", '{"n": "x"}', '```json\n{"n": 4}\n```'], [], 0, "completed", {"n": 4}),
        (["no", "no", "no", '{"n": 5}'], [], 1, "schema", None),
        (['{"n": 6, "x": NaN}', '{"n": 6, "x": 1e999}', '{"n": 6, "x": 0.5}'], [], 0, "completed", {"n": 6, "x": 0.5}),
        (["no", '{"n": 5}'], ["--max-turns", "1"], 4, "max_turns", None),
        (["no", '{"n": 5}'], ["--max-turns", "2"], 0, "completed", {"n": 5}),
        (["no", '{"n": 5}'], ["--max-tokens", "100"], 4, "budget", None),
        (["no", {"fault": {"status": 401}}], [], 3, "auth", None),
    ],
)
def test_a_typed_answer(place: Any, turns: list[Any], words: list[str], code: int, reason: str, value: Any) -> None:
    got, result, _ = run(place, json.dumps(turns), "--output-schema", "schema.json", *words)
    assert (got, result["terminal_reason"], result["structured_output"]) == (code, reason, value)
    if value:
        assert json.loads(result["result"]) == value  # no fence: it goes straight into a program


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--resume", ""], "--resume needs a value"),
        (["--model", ""], "--model needs a value"),
        (["-qm", ""], "--model needs a value"),
        (["--agent="], "--agent needs a value"),
        (["--deny", ""], "--deny needs a value"),
        (["--tools", ""], "--tools needs a value"),
        (["--cwd", ""], "--cwd needs a value"),
        (["-C", ""], "--cwd needs a value"),
        (["--output-schema="], "--output-schema needs a value"),
        (["--tools", ","], "--tools names no tool"),
        (["--add-dir", "nowhere"], "nowhere is not a folder."),
    ],
)
def test_an_empty_value_is_a_mistake_not_a_wish(place: Any, words: list[str], message: str) -> None:
    done = place("run", "--script", place.script(HELLO), *words, "go")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[0] == f"cowork: {message}"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sessions", "export", "-o", ""], "--output needs a value"),
        (["batch", "tasks.jsonl", "--out", ""], "--out needs a value"),
        (["config", "show", "--cwd="], "--cwd needs a value"),
        (["--cwd", "", "agents"], "--cwd needs a value"),
        (["config", "key", ""], "Which key?"),
    ],
)
def test_an_empty_value_is_a_mistake_for_every_command(place: Any, words: list[str], message: str) -> None:
    done = place(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[0] == f"cowork: {message}"


def test_a_recording_is_not_overwritten_by_its_own_replay(place: Any) -> None:
    run(place, HELLO, "--record", "run.jsonl")
    before = (place.folder / "run.jsonl").read_bytes()
    done = place("run", "--record", "run.jsonl", "--replay", "run.jsonl", "go")
    assert (done.returncode, (place.folder / "run.jsonl").read_bytes()) == (2, before)
    assert place("run", "--replay", "run.jsonl", "-q", "go").stdout == "Hello.\n"


def test_another_model_than_asked_for_never_answers(place: Any) -> None:
    done = place("run", "--model", "some-model", "--output", "json", "where is hello?")
    assert done.returncode == 2
    assert "some-model" in json.loads(done.stdout)["error"]["message"]


@pytest.mark.parametrize("output", ["json", "stream-json"])
@pytest.mark.parametrize(("words", "stdin"), [([], ""), (["-"], "  \n"), ([""], None), ([], None)])
def test_programs_get_their_object_without_a_prompt_too(
    place: Any, output: str, words: list[str], stdin: str | None
) -> None:
    done = place("run", "--script", place.script(HELLO), "--output", output, *words, input=stdin)
    last = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, last["status"], last["error"]["code"]) == (2, "error", "usage")
    if output == "stream-json":
        assert (last["type"], last["id"], last["at"] > 1e9) == ("run.ended", 1, True)


@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
def test_output_that_finds_no_room_is_a_failure_in_one_line(place: Any, output: str) -> None:
    with Path("/dev/full").open("wb") as full:
        words = ["run", "--script", place.script(HELLO), "-q", "--output", output, "go"]
        done = run_command(words, cwd=place.folder, env=os.environ, given=None, stdout=full.fileno())
    assert (done.returncode, done.stderr.decode()) == (
        1,
        "cowork: stdout could not be written: No space left on device\n",
    )


def test_progress_that_finds_no_room_is_no_failure(place: Any) -> None:
    words = [str(COWORK), "run", "--script", place.script(HELLO), "go"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(words, cwd=place.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=full)
    assert (done.returncode, done.stdout) == (0, b"Hello.\n")


@pytest.mark.parametrize("unbuffered", [{}, {"PYTHONUNBUFFERED": "1"}], ids=["", "1"])
@pytest.mark.parametrize(
    "words",
    ["config path", "config show", "tools --json", "tools", "cost", "--help", "run --help", "--version", "run hi"],
)
def test_a_listing_that_finds_no_room_is_told_the_same_way(place: Any, words: str, unbuffered: dict[str, str]) -> None:
    line = [*words.split(), *["-q"] * (words == "run hi")]
    env = {**os.environ, **unbuffered, "COWORK_HOME": str(place.folder / "häuschen")}
    with Path("/dev/full").open("wb") as full:
        done = run_command(line, cwd=place.folder, env=env, given=None, stdout=full.fileno())
    assert (done.returncode, done.stderr.decode()) == (
        1,
        "cowork: stdout could not be written: No space left on device\n",
    )
