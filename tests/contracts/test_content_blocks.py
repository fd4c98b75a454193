"""Source design 004: real content blocks on the wire, one message with all results, and when to delegate."""

from __future__ import annotations

import pytest

from tests.fakes.command import Command
from tests.wire.server import FORMATS, Server, call, say, turn

FIND = {"description": "find the needle", "prompt": "Where is it?", "subagent_type": "explore"}


@pytest.fixture
def project(command: Command) -> Command:
    (command.folder / "a.py").write_text("needle = 1\n")
    (command.folder / "big.txt").write_text("needle\n" + "0123456789abcdef\n" * 12_500)
    return command


def test_results_are_blocks_in_one_user_message_and_errors_are_marked(project: Command) -> None:
    looks = turn(
        "Looking.",
        call("Read", file_path="a.py"),
        call("Grep", pattern="needle"),
        call("Read", file_path="nowhere.py"),
        call("Bash", command="touch x"),
    )
    with Server([looks, say("Done.")]) as server:
        ended = project.run(env=server.env("anthropic"))
    assert ended.code == 5, "the answer came straight after a denied call"
    assistant, user = server.bodies[1]["messages"][1:]
    assert [b["type"] for b in assistant["content"]] == ["text"] + ["tool_use"] * 4
    assert user["role"] == "user"
    assert [b["type"] for b in user["content"]] == ["tool_result"] * 4
    assert [b["tool_use_id"] for b in user["content"]] == [b["id"] for b in assistant["content"][1:]]
    assert [b.get("is_error") for b in user["content"]] == [None, None, True, True]
    assert all("is_error" not in b for b in user["content"][:2])
    assert server.violations == []


@pytest.mark.parametrize("format", FORMATS)
def test_the_conversation_is_valid_on_every_wire(project: Command, format: str) -> None:
    turns = [turn(call("Read", file_path="a.py"), call("Task", **FIND)), turn(call("LS", path=".")), say("Done.")]
    child = [turn(call("Grep", pattern="needle")), say("a.py:1")]
    with Server(turns, routes={"find the needle": child}) as server:
        ended = project.run("--output", "json", env=server.env(format))
    assert ended.code == 0, ended.err
    assert ended.result["result"] == "Done."
    assert server.violations == []


def test_guidance_is_there_only_when_task_exists(project: Command) -> None:
    with Server([say("a"), say("b")]) as server:
        project.run(env=server.env("anthropic"))
        project.run("--tools", "Read,Grep", env=server.env("anthropic"))
    with_task, without = server.bodies
    assert "Task Tool Usage (Subagents)" in str(with_task["system"])
    assert "Subagent" not in str(without["system"])
    assert [t["name"] for t in without["tools"]] == ["Read", "Grep"]


def test_twelve_thousand_characters_become_ten_and_a_notice_with_a_file(project: Command) -> None:
    with Server([turn(call("Task", **FIND)), say("ok")], routes={"find the needle": [say("z" * 12_000)]}) as server:
        ended = project.stream(env=server.env("anthropic"))
    content = str(server.bodies[-1]["messages"][-1]["content"])
    assert "z" * 10_000 + "...\\n\\n[Result truncated - 12000 chars total]\\n[Output truncated]" in content
    assert "z" * 10_001 not in content
    assert ended.record()["data"]["truncated"] is True


def test_what_a_child_read_does_not_reach_the_parent(project: Command) -> None:
    reads = [turn(call("Read", file_path="big.txt")), say("big.txt:1 has it.")]
    with Server([turn(call("Task", **FIND)), say("ok")], routes={"find the needle": reads}) as server:
        ended = project.run(env=server.env("anthropic"))
    assert ended.code == 0
    child = [b for b in server.bodies if "find the needle" in str(b["system"])][-1]
    assert "0123456789abcdef" in str(child["messages"])
    parent = server.bodies[-1]
    assert "0123456789abcdef" not in str(parent)
    assert "big.txt:1 has it." in str(parent)


def test_the_prefix_of_every_request_is_the_request_before_it(project: Command) -> None:
    turns = [turn(call("Read", file_path="a.py")) for _ in range(4)]
    with Server([*turns, say("ok")]) as server:
        project.run(env=server.env("openai-chat"))
    for before, after in zip(server.bodies, server.bodies[1:], strict=False):
        assert after["messages"][: len(before["messages"])] == before["messages"]
        assert after["tools"] == before["tools"]
