"""Tools, agents, sessions, cost, trust and permissions from the command line."""

from __future__ import annotations

import json
from typing import Any

from tests.fakes.calls import TOOLS


def test_tools_lists_every_tool_with_its_parameters(cowork: Any) -> None:
    done = cowork("tools")
    assert done.returncode == 0
    heads = [line.split("(")[0] for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert heads == list(TOOLS)
    assert "Read(file_path, offset?, limit?)" in done.stdout


def test_tools_shows_one_in_full_and_speaks_json(cowork: Any) -> None:
    assert cowork("tools", "bash").stdout.startswith("Bash(command, ")
    found = json.loads(cowork("tools", "--json").stdout)
    assert [tool["name"] for tool in found] == list(TOOLS)
    assert found[0]["input_schema"]["additionalProperties"] is False


def test_agents_lists_the_shipped_ones_and_those_of_a_trusted_project(cowork: Any) -> None:
    folder = cowork.folder / ".cowork/agents"
    folder.mkdir(parents=True)
    (folder / "reviewer.md").write_text("---\nname: reviewer\ndescription: Reviews\ntools: Read\n---\nYou review.\n")
    plain, trusted = cowork("agents"), cowork("agents", "list", "--trust")
    assert "explore" in plain.stdout
    assert "reviewer" not in plain.stdout
    assert "reviewer" in trusted.stdout
    for words in (("agents",), ("extensions",), ("hooks",), ("mcp",), ("tools", "Read")):
        assert "This folder is not trusted" in cowork(*words).stderr, words
    assert trusted.stderr == ""
    shown = cowork("agents", "show", "Reviewer", "--trust")
    assert "tools: Read\n" in shown.stdout
    assert shown.stdout.endswith("You review.\n")
    assert json.loads(cowork("agents", "show", "reviewer", "--trust", "--json").stdout)["origin"] == "project"


def test_agents_check_names_the_bad_file(cowork: Any) -> None:
    assert cowork("agents", "check").returncode == 0
    folder = cowork.folder / ".cowork/agents"
    folder.mkdir(parents=True)
    (folder / "bad.md").write_text("---\nname: bad\n---\nrole\n")
    done = cowork("agents", "check")
    assert done.returncode == 2
    assert "bad.md:" in done.stdout


def test_sessions_are_listed_shown_and_removed(cowork: Any) -> None:
    assert cowork("sessions", "list").stdout.startswith("no conversations")
    cowork("run", "--script", cowork.script("- Hello, world."), "say hello")
    listed = json.loads(cowork("sessions", "list", "--json").stdout)
    assert [entry["title"] for entry in listed] == ["say hello"]
    id = listed[0]["id"]
    assert id in cowork("sessions", "list").stdout
    shown = cowork("sessions", "show", id[:6])
    assert "say hello" in shown.stdout
    assert "Hello, world." in shown.stdout
    assert cowork("sessions", "rm", id[:6]).stdout.startswith(f"removed {id}")
    assert json.loads(cowork("sessions", "list", "--all", "--json").stdout) == []


def test_sessions_rm_removes_nothing_when_one_name_is_wrong(cowork: Any) -> None:
    cowork("run", "--script", cowork.script("- Hello."), "hello")
    id = json.loads(cowork("sessions", "list", "--json").stdout)[0]["id"]
    assert cowork("sessions", "rm", id, "zzzz").returncode == 2
    assert len(json.loads(cowork("sessions", "list", "--json").stdout)) == 1


def test_a_run_that_stores_nothing_is_not_listed(cowork: Any) -> None:
    cowork("run", "--no-session", "--script", cowork.script("- Hello."), "hello")
    assert json.loads(cowork("sessions", "list", "--all", "--json").stdout) == []


def test_cost_sums_what_was_used(cowork: Any) -> None:
    script = "- {say: Hello, usage: {input_tokens: 1000, output_tokens: 500}}"
    env = {"COWORK_HOME": str(cowork.folder / "home")}
    (cowork.folder / "home").mkdir()
    (cowork.folder / "home/config.toml").write_text('[pricing."scripted"]\ninput = 1000\noutput = 2000\n')
    assert cowork("run", "--script", cowork.script(script), "hello", env=env).returncode == 0
    found = json.loads(cowork("cost", "--json", env=env).stdout)
    assert found["by_agent"]["main"]["cost_usd"] == 2.0
    assert found["periods"]["today"] == found["periods"]["all"]
    assert found["periods"]["today"].items() <= found["by_agent"]["main"].items()
    shown = cowork("cost", "--by", "model", env=env).stdout
    assert shown.splitlines()[0].split()[:2] == ["today", "$2.00"]
    assert "scripted" in shown


def test_a_task_can_be_looked_up_over_all_sessions(cowork: Any) -> None:
    env = {"COWORK_HOME": str(cowork.folder / "home")}
    (cowork.folder / "home").mkdir()
    call = "{Task: {description: look around, prompt: look, subagent_type: explore}}"
    script = f"main:\n- {{call: {call}}}\n- {{say: done}}\nagents:\n  explore:\n  - {{say: I looked around}}"
    assert cowork("tasks", "list", env=env).stdout.startswith("no tasks")
    ended = cowork("run", "--output", "json", "--script", cowork.script(script), "go", env=env)
    (told,) = json.loads(ended.stdout)["tasks"]
    assert (told["description"], told["status"], bool(told["model"])) == ("look around", "completed", True)
    (task,) = json.loads(cowork("tasks", "list", "--json", env=env).stdout)
    assert (task["subagent_type"], task["description"], task["status"]) == ("explore", "look around", "completed")
    session = task["session_id"]
    shown = cowork("tasks", "show", f"{session[:5]}/explore-1", env=env)
    assert "I looked around" in shown.stdout
    assert task["id"] in shown.stdout.splitlines()[0]
    whole = json.loads(cowork("tasks", "show", task["id"], "--json", env=env).stdout)
    assert [message["role"] for message in whole["messages"]] == ["user", "assistant"]
    wrong = cowork("tasks", "show", f"{session}/nobody-9", env=env)
    assert (wrong.returncode, "explore-1" in wrong.stderr) == (2, True)
    figures = json.loads(cowork("cost", "--json", env=env).stdout)["by_agent"]["explore"]
    assert (figures["tasks"], figures["failure_rate"]) == (1, 0.0)


def test_a_folder_whose_name_has_a_line_in_it_is_one_row(cowork: Any) -> None:
    folder = cowork.folder / "a\n2026-01-01  "
    folder.mkdir()
    cowork("trust", str(folder))
    assert len(cowork("trust", "--list").stdout.splitlines()) == 1
    assert "a\\n2026-01-01" in cowork("trust", "--list").stdout
    assert "\n2026-01-01" not in cowork("doctor", "-C", str(folder)).stdout


def test_trust_is_given_listed_and_taken_back(cowork: Any) -> None:
    (cowork.folder / "AGENTS.md").write_text("be kind")
    done = cowork("trust")
    assert done.stdout.splitlines() == [f"trusted: {cowork.folder}", f"  uses {cowork.folder}/AGENTS.md"]
    assert str(cowork.folder) in cowork("trust", "--list").stdout
    (cowork.folder / "AGENTS.md").write_text("be rude")
    assert "changed since: not trusted" in cowork("trust", "--list").stdout
    assert cowork("trust", "--revoke").returncode == 0
    assert cowork("trust", "--list").stdout.startswith("No folder is trusted.")
    assert cowork("trust", "--revoke").returncode == 2


def test_permissions_explain_judges_each_part_and_runs_none(cowork: Any) -> None:
    done = cowork("permissions", "explain", "ls && touch made")
    assert done.returncode == 0
    assert "touch made" in done.stdout
    assert not (cowork.folder / "made").exists()
    found = json.loads(cowork("permissions", "explain", "ls && touch made", "--json").stdout)
    assert [(part["text"], part["verdict"]) for part in found["parts"]] == [("ls", "allow"), ("touch made", "ask")]
    assert (found["verdict"], found["rule"]) == ("ask", "Bash(touch made)")
    for mode, box in (("plan", "read"), ("auto", "masked")):
        found = json.loads(cowork("permissions", "explain", "touch made", "--mode", mode, "--json").stdout)
        assert (found["verdict"], found["box"]) in [("allow", box), ("deny", ""), ("ask", "")]  # by what works here
