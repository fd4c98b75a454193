"""Skills and commands in runs of the installed command: who may call them, what they may run, and what stays out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.terminal import Terminal
from tests.e2e.test_slash_commands import chat, say
from tests.fakes.command import Command, Ended

SKILL = "---\nname: {name}\ndescription: Greets people\n{head}---\nSay hello to $ARGUMENTS. {body}"


def skill(base: Path, name: str = "greet", head: str = "", body: str = "") -> Path:
    path = base / "skills" / name / "SKILL.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SKILL.format(name=name, head=head, body=body))
    return path


def play(command: Command, *turns: Any, prompt: str = "go", words: tuple[str, ...] = ("--trust",)) -> Ended:
    dump = command.folder.parent / "requests.jsonl"
    dump.unlink(missing_ok=True)
    return command.play([*turns], *words, "--dump-requests", str(dump), prompt=prompt)


def requests(command: Command) -> list[dict[str, Any]]:
    dump = command.folder.parent / "requests.jsonl"
    return [json.loads(line) for line in dump.read_text().splitlines()] if dump.exists() else []


def call(name: str, **given: Any) -> dict[str, Any]:
    return {"call": {name: given}}


def test_a_model_is_told_of_skills_and_loads_one(command: Command) -> None:
    path = skill(command.folder / ".claude", body="See table.md.")
    (path.parent / "table.md").write_text("data")
    done = play(command, call("Skill", skill="greet", args="Ann"), {"say": "Hello Ann"})
    record = done.record("Skill")
    assert record["text"].startswith("Say hello to Ann. See table.md.")
    assert f"in {path.parent}: table.md" in record["text"]
    text = json.dumps(requests(command)[0])
    assert "- greet: Greets people" in text
    assert '"enum": ["greet"]' in text


def test_without_skills_nothing_is_told_and_nothing_of_an_untrusted_folder(command: Command) -> None:
    play(command, {"say": "hi"})
    without = json.dumps(requests(command)[0]["tools"])
    skill(command.folder / ".agents")
    play(command, {"say": "hi"}, words=())
    assert json.dumps(requests(command)[0]["tools"]) == without
    assert "Skill" not in without


def test_shipped_skills_are_told_only_where_that_is_wanted(command: Command) -> None:
    command.configure("[skills]\nshipped = true\n")
    play(command, {"say": "hi"})
    assert "- explain-ci: " in json.dumps(requests(command)[0]["tools"])


def test_people_call_a_skill_or_command_by_its_name(command: Command) -> None:
    (command.folder / "a.txt").write_text("alpha")
    (command.folder / "b c.txt").write_text("beta")
    commands = command.folder / ".cowork" / "commands"
    commands.mkdir(parents=True)
    (commands / "fix.md").write_text('---\nargument-hint: NUMBER\n---\nFix $1: !`echo out-$1` and @a.txt, @"b c.txt"')
    done = play(command, {"say": "done"}, prompt="/fix 7")
    (prompt,) = done.of("prompt.added")
    assert prompt["label"] == "/fix 7"
    assert prompt["text"].startswith("Fix 7: out-7 and @a.txt")
    assert '<file path="a.txt">' in prompt["text"]
    assert "alpha" in prompt["text"]
    assert "beta" in prompt["text"]


def test_a_name_that_no_file_can_have_is_text(command: Command) -> None:
    (command.folder / "commands").mkdir()
    skill(command.folder / ".cowork", body="Look at $ARGUMENTS")
    done = play(command, "ok", prompt=f"/greet @{'a' * 300} @a.md/b @~nobody-of-that-name/c")
    assert done.result["status"] == "success"


def test_a_file_among_the_words_of_a_skill_is_sent_once(command: Command) -> None:
    (command.folder / "a.md").write_text("WORD-OF-THE-FILE")
    skill(command.folder / ".cowork", body="Look at $ARGUMENTS")
    play(command, {"say": "ok"}, prompt="/greet @a.md")
    assert json.dumps(requests(command)).count("WORD-OF-THE-FILE") == 1


def test_a_command_of_a_text_is_judged(command: Command) -> None:
    commands = command.folder / ".cowork" / "commands"
    commands.mkdir(parents=True)
    (commands / "evil.md").write_text("Now !`touch made`")
    done = play(command, {"say": "done"}, prompt="/evil", words=("--trust", "--deny", "Bash"))
    assert (done.code, done.result.get("status")) == (2, "error")
    assert "`touch made` of /evil was not run" in done.err
    assert not (command.folder / "made").exists()


def test_what_is_no_name_of_ours_is_a_prompt(command: Command) -> None:
    done = play(command, {"say": "ok"}, prompt="/usr/bin is what?")
    assert done.of("prompt.added")[0]["text"] == "/usr/bin is what?"


def test_grants_of_a_skill_need_somebody_who_gives_them(command: Command) -> None:
    skill(command.folder / ".claude", head="allowed-tools: Write\n")
    turns = (call("Skill", skill="greet"), call("Write", file_path="w.txt", content="x"), {"say": "ok"})
    done = play(command, *turns)
    assert done.of("question.asked")[0]["question"]["session_rule"] == "Write"
    assert done.record("Write")["error"]["code"] == "PERMISSION_DENIED"


@pytest.mark.parametrize("how", ["model", "person", "fork"])
def test_what_a_skill_forbids_is_refused_until_the_next_prompt(command: Command, how: str) -> None:
    head = "disallowed-tools: Write, Bash(git *)\n" + ("context: fork\n" if how == "fork" else "")
    skill(command.folder / ".claude", head=head)
    tried = [call("Write", file_path="w", content="x"), call("Bash", command="true && git status")]
    tried += [call("Bash", command="echo fine"), {"say": "done"}]
    script: Any = [call("Skill", skill="greet"), *tried] if how == "model" else tried
    if how == "fork":
        script = {"main": [{"say": "done"}], "agents": {"*": tried}}
    options = ("--trust", "--permission-mode", "bypass")
    done = command.play(script, *options, prompt="go" if how == "model" else "/greet Bo")
    ended = [(e["name"], (e["record"].get("error") or {}).get("code")) for e in done.of("tool.ended")]
    refused = [("Write", "PERMISSION_DENIED"), ("Bash", "PERMISSION_DENIED"), ("Bash", None)]
    assert [row for row in ended if row[0] not in ("Skill", "Task")] == refused
    assert not (command.folder / "w").exists()
    again = command.play([call("Write", file_path="w", content="x"), {"say": "ok"}], *options, "--continue")
    assert again.record("Write")["status"] == "success"


@pytest.mark.parametrize("how", ["summaries", "clearing"])
def test_a_skill_that_was_loaded_survives_compaction(command: Command, how: str) -> None:
    skill(command.folder / ".claude", body="In verse. " * 300)
    for name in "abc":
        (command.folder / name).write_text("0123456789 0123456789\n" * 1_000)
    small, read = call("LS", path="."), [call("Read", file_path=name) for name in "abc"]
    rest = [{**small, "say": "thought " * 2_000}] * 10 if how == "summaries" else [*read[:2], *[small] * 5, read[2]]
    script = {
        "main": [call("Skill", skill="greet", args="Ann"), *rest, {"say": "done"}],
        "asides": [{"match": "<conversation>", "turns": [{"say": "They wanted X."}] * 9}],
        "context_window": 20_000,
    }
    dump = command.folder.parent / "requests.jsonl"
    done = command.play(script, "--trust", "--dump-requests", str(dump))
    made = done.of("context.compacted")
    assert [bool(event["summary"]) for event in made] == ([True] * len(made) if how == "summaries" else [False])
    assert len(made) > 1 or how == "clearing"
    asked = json.dumps(requests(command)[-1]["messages"])
    assert asked.count("Say hello to Ann. In verse.") == 1
    assert ('<skill name=\\"greet\\">' in asked) == (how == "summaries")
    assert ("Old result cleared" in asked) == (how == "clearing")


@pytest.mark.parametrize("by_model", [True, False])
def test_a_forked_skill_is_the_work_of_a_child(command: Command, by_model: bool) -> None:
    skill(command.folder / ".claude", head="context: fork\nagent: explore\n")
    script = {
        "main": [call("Skill", skill="greet", args="Bo"), {"say": "done"}] if by_model else [{"say": "done"}],
        "agents": {"*": [{"say": "Hello from the child"}]},
    }
    dump = command.folder.parent / "requests.jsonl"
    done = command.play(script, "--trust", "--dump-requests", str(dump), prompt="go" if by_model else "/greet Bo")
    (started,) = done.of("agent.started")
    assert (started["subagent_type"], started["prompt"].strip()) == ("explore", "Say hello to Bo.")
    assert "Hello from the child" in json.dumps(requests(command)[-1])


def test_a_command_can_name_its_model(command: Command) -> None:
    commands = command.folder / ".cowork" / "commands"
    commands.mkdir(parents=True)
    (commands / "quick.md").write_text("---\nmodel: light\n---\nBe quick.")
    done = play(command, {"say": "ok"}, prompt="/quick")
    assert done.result["status"] == "success"


def test_a_bad_file_is_said_and_the_run_goes_on(command: Command) -> None:
    path = skill(command.folder / ".claude")
    path.write_text("no head")
    done = play(command, {"say": "ok"})
    assert any("SKILL.md:1 does not start with front matter" in e["text"] for e in done.of("notice"))
    listed = command.cowork("extensions", "check")
    assert (listed.code, "1 file refused" in listed.out) == (2, True)


def test_files_that_change_are_used_from_the_next_prompt_on(tmp_path: Path) -> None:
    script = [{"say": "One."}, {"say": "Two."}]
    commands = tmp_path / "home" / "commands"
    commands.mkdir(parents=True)
    with chat(tmp_path, script=script) as terminal:
        say(terminal, "hello", "One.")
        (commands / "later.md").write_text("Be later with $ARGUMENTS.")
        skill(tmp_path / "home", "fresh")
        terminal.wait_until(lambda: _offers(terminal, "/lat", "/later"), 30, "the new command")
        terminal.type("<Esc>", "<Ctrl+U>")
        say(terminal, "/later x", "Two.")
        asked = (tmp_path / "asked").read_text().splitlines()[-1]
        assert "Be later with x." in asked
        assert "- fresh: Greets people" in asked


def _offers(terminal: Terminal, typed: str, name: str) -> bool:
    terminal.type("<Ctrl+U>", typed)
    terminal.settle(0.3)
    return name in terminal.text()
