"""What a session takes up when a process goes on with it, as the model service sees it."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from cowork.app.build import build
from cowork.app.chat.host import ChatHost
from cowork.config.run_options import RunOptions
from cowork.core.errors import UserError
from cowork.core.events import (
    AgentEnded,
    Event,
    Notice,
    PromptAdded,
    SessionRewound,
    SessionStarted,
    ToolEnded,
    to_dict,
)
from cowork.core.ports import Emit
from cowork.frontends.host import ConversationOpened
from cowork.sessions.log.reader import read
from tests.fakes import stage
from tests.fakes.live import Live, conversation, live
from tests.sessions.test_sessions_scan import Gate
from tests.wire.server import FORMATS, Hold, Server, call, say, turn

TODOS = [{"content": "Paint it", "activeForm": "Painting", "status": "in_progress"}]
LIGHT = '[models.light]\nmodel = "small-model"\n'


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("hello world\n")
    (folder / "link.txt").symlink_to("a.txt")
    return folder


def edit(old: str, new: str, name: str = "a.txt") -> Any:
    return call("Edit", file_path=name, old_string=old, new_string=new)


def record(chat: Live, name: str) -> dict[str, Any]:
    found = [e.record for e in chat.events if isinstance(e, ToolEnded) and e.name == name]
    return found[-1]


def last_words(server: Server) -> str:
    """The newest message that was sent, as text."""
    return json.dumps(conversation(server.requests[-1])[-1], ensure_ascii=False)


def cut_off(events: list[Event], tmp_path: Path) -> None:
    """Make the log end where the process died: without what closing it added."""
    (log,) = (tmp_path / "home" / "sessions").glob("*/events.jsonl")
    last = max(e.id for e in events)
    lines = [line for line in log.read_bytes().splitlines(keepends=True) if json.loads(line)["id"] <= last]
    log.write_bytes(b"".join(lines))


@pytest.mark.parametrize("format", FORMATS)
async def test_read_files_todo_and_folder(tmp_path: Path, work: Path, format: str) -> None:
    """The files read by a link too: an Edit needs no second Read while they are as they were."""
    begin = turn(
        call("Read", file_path="link.txt"), call("TodoWrite", todos=TODOS), call("Bash", command="cd sub && pwd")
    )
    with Server([begin, say("One.")]) as server:
        async with live(tmp_path, server, format, permission_mode="accept-edits") as chat:
            await chat.say("begin")
        server.add(turn(edit("hello", "bye", "../link.txt"), call("Bash", command="pwd")), say("Two."))
        async with live(tmp_path, server, format, continue_=True, permission_mode=None) as chat:
            assert chat.run.agent.runner.state.todos == TODOS
            assert chat.run.permissions.mode == "accept-edits"
            assert (await chat.say("go on")).text == "Two."
        assert str(work / "sub") in last_words(server)
        assert (work / "a.txt").read_text() == "bye world\n"
        server.add(turn(edit("bye", "hello again", "../a.txt")), say("Three."))
        (work / "a.txt").write_text("bye, other world\n")
        async with live(tmp_path, server, format, continue_=True, permission_mode=None) as chat:
            await chat.say("and now")
            assert record(chat, "Edit")["error"]["code"] == "CONFLICT"
        assert (work / "a.txt").read_text() == "bye, other world\n"
        assert server.violations == []


async def test_the_mode_outlives_every_resume_until_another_is_asked_for(tmp_path: Path, work: Path) -> None:
    with Server([say(f"{n}") for n in range(9)]) as server:
        async with live(tmp_path, server, permission_mode="plan") as chat:
            await chat.say("begin")
        for _ in range(3):
            async with live(tmp_path, server, continue_=True, permission_mode=None) as chat:
                assert chat.run.permissions.mode == "plan"
                (started,) = [e for e in chat.events if isinstance(e, SessionStarted)]
                assert started.mode == "plan"
        async with live(tmp_path, server, continue_=True, permission_mode="accept-edits"):
            pass
        async with live(tmp_path, server, continue_=True, permission_mode=None) as chat:
            assert chat.run.permissions.mode == "accept-edits"


@pytest.mark.parametrize("chosen", ["small-model", "odd-model"])
async def test_a_model_chosen_by_hand_is_asked_again(tmp_path: Path, work: Path, chosen: str) -> None:
    with Server([say(f"{n}") for n in range(9)]) as server:
        async with live(tmp_path, server, settings=LIGHT) as chat:
            await chat.say("begin")
            chat.run.emit(Notice("Model", code="model.changed", data={"model": chosen}))
        for _ in range(2):
            async with live(tmp_path, server, settings=LIGHT, continue_=True) as chat:
                await chat.say("go on")
                assert any("as chosen before" in e.text for e in chat.events if isinstance(e, Notice))
        async with live(tmp_path, server, settings=LIGHT, continue_=True, model="main") as chat:
            await chat.say("go on")
        assert [body["model"] for body in server.bodies] == ["test-model", chosen, chosen, "test-model"]


async def test_a_child_and_a_command_that_died_are_told_with_what_they_had(tmp_path: Path, work: Path) -> None:
    hold = Hold("headers")
    task = call("Task", description="look", prompt="look around", subagent_type="explore")
    begin = [turn(call("Bash", command="echo begun; sleep 600", run_in_background=True)), turn(task)]
    below = [turn("I found a.txt:1.", call("Read", file_path="a.txt")), say("never", hold=hold)]
    with Server(begin, routes={"# Task\\n": below}) as server:
        async with live(tmp_path, server) as chat:
            running = asyncio.ensure_future(chat.say("begin"))
            await asyncio.to_thread(hold.reached.wait, 60)
            had = list(chat.events)
            running.cancel()
            await asyncio.wait([running])
        cut_off(had, tmp_path)
        server.add(turn(call("Bash", command="sleep 600", run_in_background=True)), say("Two."))
        async with live(tmp_path, server, continue_=True) as chat:
            (ended,) = [e for e in chat.events if isinstance(e, AgentEnded)]
            assert ended.status == "aborted"
            assert (await chat.say("go on")).text == "Two."
            assert record(chat, "Bash")["data"]["bash_id"] == "bash_2"  # the first one's name is not used again
        told = json.dumps([conversation(seen) for seen in server.requests[-2:]])
        assert "I found a.txt:1." in told
        assert "bash_1 (`echo begun; sleep 600`) ended with the process" in told
        hold.release.set()
        assert server.violations == []


async def test_after_going_back_to_the_first_prompt_the_model_knows_where_it_is(tmp_path: Path, work: Path) -> None:
    with Server([say("One."), say("Two."), say("Three.")]) as server:
        async with live(tmp_path, server) as chat:
            await chat.say("begin")
            chat.run.emit(SessionRewound(chat.run.agent.transcript.prompts()[0].id))
            await chat.say("begin again")
            chat.run.emit(SessionRewound(chat.run.agent.transcript.prompts()[0].id))
        async with live(tmp_path, server, continue_=True) as chat:
            await chat.say("begin a third time")
        assert all("cwd: " in json.dumps(conversation(seen)) for seen in server.requests)
        assert all(len(conversation(seen)) == 1 for seen in server.requests)


async def test_in_another_folder_the_person_and_the_model_are_told(tmp_path: Path, work: Path) -> None:
    with Server([say("One."), say("Two.")]) as server:
        async with live(tmp_path, server) as chat:
            await chat.say("begin")
            name = chat.run.session_id
        moved = work.rename(tmp_path / "moved")
        async with live(tmp_path, server, cwd=moved, resume=name) as chat:
            assert f"This session was in {work}; it goes on in {moved}." in [
                e.text for e in chat.events if isinstance(e, Notice)
            ]
            await chat.say("go on")
        assert f"The working directory is now {moved}" in last_words(server)
        assert server.violations == []


async def test_what_is_shown_again_is_what_was_shown(tmp_path: Path, work: Path) -> None:
    with Server([turn(call("Read", file_path="a.txt")), say("One.")]) as server:
        async with live(tmp_path, server) as chat:
            await chat.say("begin")
            shown = [to_dict(e) for e in chat.events if e.durable]
        async with live(tmp_path, server, continue_=True) as chat:
            assert chat.run.log is not None
            assert [to_dict(e) for e in read(chat.run.log.path).events][: len(shown)] == shown


async def test_a_stop_in_the_middle_of_a_switch_comes_too_late(tmp_path: Path, work: Path) -> None:
    """Otherwise the chat would go on in a conversation whose log is closed."""
    host = chat_host(tmp_path, work)
    first = host.run
    switch = asyncio.ensure_future(host.reopen(host.options))
    await asyncio.sleep(0)
    switch.cancel()
    await switch
    assert host.run is not first
    assert host.events[0].session_id == host.run.session_id
    await host.close()


async def test_a_fork_goes_on_in_the_mode_of_the_moment(tmp_path: Path, work: Path) -> None:
    """It is the same chat and the same person; a session taken up from elsewhere brings no looser mode along."""
    host = chat_host(tmp_path, work)
    commands = {command.name: command for command in host.commands()}
    await commands["mode"].run("bypass")
    host.run.emit(PromptAdded("begin"))  # an empty session cannot be forked
    await commands["fork"].run("")
    assert host.run.permissions.mode == "bypass"
    await commands["clear"].run("")
    assert host.run.permissions.mode == "ask"
    await host.close()


async def test_esc_stops_the_look_at_the_files_before_a_rewind(
    tmp_path: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps([stage.turn(stage.call("Bash", command="echo changed > a.txt")), stage.say("Done.")]))
    host = chat_host(tmp_path, work, script=script, permission_mode="bypass")
    commands = {command.name: command for command in host.commands()}
    gate = Gate(monkeypatch, after="")
    begun = asyncio.create_task(host.submit("begin"))
    await asyncio.to_thread(gate.reached.wait, 60)
    await begun  # the look goes on beside the command and after it
    rewinding = asyncio.create_task(commands["rewind"].run("1 both"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert host.status().activity.startswith("looking at the files: ")
    host.interrupt()
    assert await rewinding == "Stopped: everything is as it was."
    assert host.status().activity == ""
    assert (work / "a.txt").read_text() == "changed\n"
    gate.open.set()
    await host.close()


@pytest.mark.parametrize("way", ["fork", "clear", "resume"])
async def test_who_leaves_a_session_is_told_what_stops_with_it(tmp_path: Path, work: Path, way: str) -> None:
    """Children end in the session that sent them out, with their receipts; the next one starts without them."""
    sends = stage.call("Task", description="look", prompt="look", subagent_type="explore", run_in_background=True)
    runs = stage.call("Bash", command="sleep 600", run_in_background=True)
    never = {"explore": [stage.say("never", delay_ms=600_000)]}
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"main": [stage.turn(sends, runs), stage.say("Sent.")], "agents": never}))
    host = chat_host(tmp_path, work, script=script, permission_mode="bypass")
    commands = {command.name: command for command in host.commands()}
    host.run.emit(PromptAdded("the first session"))
    first = host.run.session_id
    assert await commands["clear"].run("") == "A new conversation. `/resume` has the one before."
    await host.submit("begin")
    left = host.run
    assert len(left.subagents.running) == 1
    told = await commands[way].run(first if way == "resume" else "")
    assert "1 child and 1 background command stopped with the session you left" in str(told)
    assert host.run is not left
    assert not host.run.subagents.running
    assert left.log is not None
    (receipt,) = [e for e in read(left.log.path).events if isinstance(e, AgentEnded)]
    assert (receipt.status, receipt.session_id) == ("aborted", left.session_id)
    assert host.status().jobs == 0
    await host.close()


async def test_an_export_is_written_by_its_ending_or_told_in_plain_words(tmp_path: Path, work: Path) -> None:
    host = chat_host(tmp_path, work)
    (export,) = [command for command in host.commands() if command.name == "export"]
    with pytest.raises(UserError, match=r"^nowhere/x.md cannot be written: No such file or directory.$"):
        await export.run("nowhere/x.md")
    assert await export.run("talk.html") == "Written to talk.html."
    assert (work / "talk.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    with pytest.raises(UserError, match=r"^talk.html exists already.$"):
        await export.run("talk.html")
    await host.close()


async def test_a_long_conversation_is_shown_from_its_beginning(
    tmp_path: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The viewer holds only the newest events; whoever shows the conversation, such as an editor, gets them all."""
    host = chat_host(tmp_path, work)
    for number in range(3):
        await host.submit(f"question {number}")
    before = list(host.events)
    await host.close()
    monkeypatch.setattr("cowork.app.chat.host.EVENTS_HELD", 2)
    shown: list[Event] = []
    await chat_host(tmp_path, work, shown.append, provider="offline", continue_=True).close()
    (opened,) = [event for event in shown if isinstance(event, ConversationOpened)]
    assert list(opened.history[: len(before)]) == before
    assert isinstance(opened.history[-1], SessionStarted)


def chat_host(tmp_path: Path, work: Path, show: Emit = lambda event: None, **options: Any) -> ChatHost:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "COWORK_HOME": str(tmp_path / "home")}
    host = ChatHost(
        RunOptions(cwd=work, **(options or {"provider": "offline"})),
        environ,
        lambda opts, host: build(opts, environ, ask=host.ask, sinks=[host.on_event], on_sink_failure=_raise, chat=True),
    )
    host.join(show, host.ask)
    return host


def _raise(sink: object, error: Exception) -> None:
    raise error
