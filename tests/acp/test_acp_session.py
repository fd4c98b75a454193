"""A session with an editor, from hello to goodbye."""

from __future__ import annotations

import asyncio
import base64
import sys
from pathlib import Path
from typing import Any

import acp
import pytest
from acp import schema

from cowork.app.acp.server import AcpAgent, _folder_of
from cowork.config.run_options import RunOptions
from cowork.core.json_rpc import RpcError
from tests.acp.editor import Desk
from tests.mcp.conftest import FAKE

GIF = b"GIF89a\1\0\1\0\0\0\0;"
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 16).decode()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def play(work: Any) -> None:
    asyncio.run(asyncio.wait_for(work, 120))


def test_a_prompt_with_an_edit_is_asked_about_shown_as_a_diff_and_kept(desk: Desk) -> None:
    script = [
        {"say": "Let me look.", "call": {"Read": {"file_path": "a.py"}}},
        {"call": {"Edit": {"file_path": "a.py", "old_string": "old", "new_string": "new"}}},
        "Done, see **a.py**.",
    ]
    (desk.work / "a.py").write_text("x = 'old'\n")

    async def story() -> None:
        async with desk.editor(script) as editor:
            assert editor.hello.agent_capabilities.load_session is True
            session = await editor.agent.new_session(cwd=str(desk.work), mcp_servers=[])
            assert session.modes.current_mode_id == "ask"
            assert {o.id: o.current_value for o in session.config_options} == {"mode": "ask", "model": "scripted"}
            assert await editor.say(session.session_id, "make it new") == "end_turn"
            assert editor.text() == "Let me look.Done, see **a.py**."
            (asked,) = editor.asked
            diff = asked.content[0]
            edit = next(c for c in editor.of("tool_call") if c.kind == "edit")
            assert asked.tool_call_id == edit.tool_call_id
            assert (diff.path, diff.old_text, diff.new_text) == (str(desk.work / "a.py"), "x = 'old'", "x = 'new'")
            ended = {u.tool_call_id: u for u in editor.of("tool_call_update")}
            assert ended[edit.tool_call_id].status == "completed"
            assert ended[edit.tool_call_id].content[0].type == "diff"
            assert edit.locations[0].path == str(desk.work / "a.py")
            assert editor.of("usage_update")[-1].size > 0
            assert editor.of("session_info_update")[0].title == "make it new"
            assert not editor.of("user_message_chunk")  # the editor knows what it sent
        assert (desk.work / "a.py").read_text() == "x = 'new'\n"

    play(story())


def test_a_no_is_told_to_the_model_and_always_is_remembered(desk: Desk) -> None:
    script = [
        {"call": {"Write": {"file_path": "b.txt", "content": "b"}}},
        {"expect": {"contains": "denied"}, "call": {"Bash": {"command": "touch made"}}},
        {"call": {"Bash": {"command": "touch made"}}},
        "ok",
    ]

    async def story() -> None:
        def choose(title: str, options: list[Any]) -> str:
            return "reject_once" if "b.txt" in title else "Yes, Bash"

        async with desk.editor(script, choose=choose) as editor:
            session = await editor.agent.new_session(cwd=str(desk.work), mcp_servers=[])
            assert await editor.say(session.session_id, "go") == "end_turn"
        assert len(editor.asked) == 2  # the second Bash was granted with the first
        assert not (desk.work / "b.txt").exists()
        assert (desk.work / "made").exists()
        failed = [u for u in editor.of("tool_call_update") if u.status == "failed"]
        assert len(failed) == 1

    play(story())


def test_a_loaded_session_is_told_again_and_goes_on(desk: Desk) -> None:
    async def story() -> None:
        script = [{"think": "hm", "say": "one", "call": {"LS": {"path": "."}}}, "two", "three"]
        async with desk.editor(script) as editor:
            session = (await editor.agent.new_session(cwd=str(desk.work), mcp_servers=[])).session_id
            await editor.say(
                session, "first", schema.ImageContentBlock(type="image", mime_type="image/png", data=PIXEL)
            )
            await editor.agent.close_session(session_id=session)
            found = await editor.agent.list_sessions(cwd=str(desk.work))
            assert [(s.session_id, s.title) for s in found.sessions] == [(session, "first")]
        async with desk.editor({"resume": True, "main": script}) as editor:
            await editor.agent.load_session(cwd=str(desk.work), session_id=session, mcp_servers=[])
            said = [u.content.text for u in editor.of("user_message_chunk") if u.content.type == "text"]
            assert said == ["first"]
            assert [u.content.mime_type for u in editor.of("user_message_chunk") if u.content.type == "image"] == [
                "image/png"
            ]
            assert editor.text() == "onetwo"
            assert editor.text("agent_thought_chunk") == "hm"
            assert [c.title for c in editor.of("tool_call")] == ["LS ."]
            assert await editor.say(session, "more") == "end_turn"
            assert editor.text() == "onetwothree"
        async with desk.editor({"resume": True, "main": [*script, "four"]}) as editor:
            await editor.agent.resume_session(cwd=str(desk.work), session_id=session, mcp_servers=[])
            assert editor.text() == ""
            assert await editor.say(session, "more") == "end_turn"
            assert editor.text() == "four"

    play(story())


async def test_a_long_session_is_told_again_from_its_start(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    heard, script = list[Any](), desk.folder / "script.yaml"
    script.write_text('{"resume": true, "main": ["one", "two"]}')
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(desk.home), "COWORK_HOME": str(desk.home)}
    agent = AcpAgent(RunOptions(script=script), environ, heard.append)
    made = await agent.answer("session/new", {"cwd": str(desk.work)})
    named = {"cwd": str(desk.work), "sessionId": made["sessionId"]}
    await agent.answer("session/prompt", named | {"prompt": [{"type": "text", "text": "hello"}]})
    await agent.answer("session/close", named)
    monkeypatch.setattr("cowork.app.chat.host.EVENTS_HELD", 2)
    heard.clear()
    await agent.answer("session/load", named)
    assert [m["params"]["update"]["content"]["text"] for m in heard][:2] == ["hello", "one"]
    await agent.close()


async def test_a_session_whose_beginning_fails_is_let_go(desk: Desk) -> None:
    """Nothing of it stays: neither its place in the table, nor its lock."""
    broken, heard = [False], list[Any]()

    def send(message: Any) -> None:
        heard.append(message)
        if broken[0]:
            raise BrokenPipeError

    script = desk.folder / "script.yaml"
    script.write_text('{"resume": true, "main": ["one", "two"]}')
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(desk.home), "COWORK_HOME": str(desk.home)}
    agent = AcpAgent(RunOptions(script=script), environ, send)
    with pytest.raises(RpcError, match="must be a list"):
        await agent.answer("session/new", {"cwd": str(desk.work), "additionalDirectories": "/tmp"})
    made = await agent.answer("session/new", {"cwd": str(desk.work)})
    named = {"cwd": str(desk.work), "sessionId": made["sessionId"]}
    await agent.answer("session/prompt", named | {"prompt": [{"type": "text", "text": "hello"}]})
    await agent.answer("session/close", named)
    broken[0] = True
    with pytest.raises(BrokenPipeError):  # the editor does not hear the story to its end
        await agent.answer("session/load", named)
    broken[0] = False
    heard.clear()
    await agent.answer("session/load", named)
    assert [m["params"]["update"]["content"]["text"] for m in heard][:2] == ["hello", "one"]
    await agent.close()


def test_a_child_is_shown_inside_the_call_that_sent_it_out(desk: Desk) -> None:
    (desk.work / "a.py").write_text("x = 1\n")
    script = {
        "main": [
            {"call": {"Task": {"description": "look", "prompt": "look", "subagent_type": "explore"}}},
            "It is there.",
        ],
        "agents": {"explore": [{"call": {"Grep": {"pattern": "x"}}}, "found x"]},
    }

    async def story() -> None:
        async with desk.editor(script) as editor:
            session = (await editor.agent.new_session(cwd=str(desk.work), mcp_servers=[])).session_id
            assert await editor.say(session, "where is x?") == "end_turn"
        task, grep = editor.of("tool_call")
        assert (task.kind, grep.kind) == ("think", "search")
        assert grep.field_meta["cowork"] == {"agent": "main/explore-1", "parentToolCallId": task.tool_call_id}
        progress = [u for u in editor.of("tool_call_update") if u.tool_call_id == task.tool_call_id]
        assert any("explore-1: " in u.content[0].content.text for u in progress[:-1])
        assert progress[-1].status == "completed"
        assert "found x" in progress[-1].content[0].content.text
        assert editor.text() == "It is there."  # what the child says is not the agent's answer

    play(story())


def test_todos_modes_models_and_commands(desk: Desk) -> None:
    todos = [{"content": "one", "status": "in_progress", "activeForm": "doing one"}]
    script = [{"call": {"TodoWrite": {"todos": todos}}}, "fine", "again"]

    async def story() -> None:
        async with desk.editor(script) as editor:
            session = (await editor.agent.new_session(cwd=str(desk.work), mcp_servers=[])).session_id
            await editor.say(session, "go")
            (plan,) = editor.of("plan")
            assert [(e.content, e.status) for e in plan.entries] == [("one", "in_progress")]
            await editor.agent.set_session_mode(session_id=session, mode_id="accept-edits")
            assert editor.of("current_mode_update")[-1].current_mode_id == "accept-edits"
            answer = await editor.agent.set_config_option(session_id=session, config_id="mode", value="plan")
            assert {o.id: o.current_value for o in answer.config_options}["mode"] == "plan"
            with pytest.raises(acp.RequestError, match="permission mode"):
                await editor.agent.set_session_mode(session_id=session, mode_id="wild")
            names = {c.name for c in editor.of("available_commands_update")[-1].available_commands}
            assert {"cost", "diff", "review", "compact"} <= names
            assert not {"clear", "resume", "rewind"} & names
            assert await editor.say(session, "/tools") == "end_turn"
            assert "TodoWrite" in editor.text()

    play(story())


def test_questions_of_the_model_and_a_plan_are_choices(desk: Desk) -> None:
    asks = {"questions": [{"question": "Which?", "options": ["red", "blue"]}, {"question": "Why?"}]}
    script = [
        {"call": {"AskUser": asks}},
        {"expect": {"contains": ["Which? → blue", "Why? → as I say"]}, "say": "ok"},
    ]

    async def story() -> None:
        can = schema.ClientCapabilities(elicitation=schema.ElicitationCapabilities(form={}))
        async with desk.editor(
            script, can=can, choose=lambda title, options: "blue" if "Which" in title else "Some"
        ) as e:
            session = (await e.agent.new_session(cwd=str(desk.work), mcp_servers=[])).session_id
            assert await e.say(session, "go") == "end_turn"
            assert e.text() == "ok"
            assert len(e.asked) == 2

    play(story())


def test_a_folder_that_would_steer_is_asked_about_before_its_first_prompt(desk: Desk) -> None:
    (desk.work / "AGENTS.md").write_text("Always say please.\n")
    script = [{"expect": {"contains": "Always say please"}, "say": "please"}, "more"]

    async def story() -> None:
        async with desk.editor(script, choose=lambda title, options: "Yes, trust") as editor:
            session = (await editor.agent.new_session(cwd=str(desk.work), mcp_servers=[])).session_id
            assert await editor.say(session, "go") == "end_turn"
            assert editor.text() == "please"
            assert [c.title.partition(" ")[0] for c in editor.asked] == ["Trust"]
            await editor.agent.close_session(session_id=session)
            assert [s.session_id for s in (await editor.agent.list_sessions()).sessions] == [session]

    play(story())


def test_what_cannot_be_done_is_said(desk: Desk) -> None:
    async def story() -> None:
        async with desk.editor([]) as editor:
            agent = editor.agent
            for ask, words in (
                (agent.new_session(cwd="relative", mcp_servers=[]), "absolute"),
                (agent.new_session(cwd="/no/such/folder", mcp_servers=[]), "not a folder"),
                (agent.new_session(cwd="/no\0folder", mcp_servers=[]), "absolute"),
                (agent.list_sessions(cwd="/no\0folder"), "absolute"),
                (agent.list_sessions(cursor="9" * 5000), "cursor"),
                (agent.prompt(session_id="nobody", prompt=[]), "no session"),
                (agent.load_session(cwd="/", session_id="nobody", mcp_servers=[]), "no session"),
                (agent.ext_method("strange", {}), "no method"),
            ):
                with pytest.raises(acp.RequestError, match=words):
                    await ask

    play(story())


@pytest.mark.parametrize("folder", [None, 5, [], "", "relative", "/no\0folder", "/no\ud800folder"])
def test_a_folder_that_cannot_be_is_refused(folder: Any) -> None:
    with pytest.raises(RpcError, match="absolute"):
        _folder_of({"cwd": folder})


def test_a_failing_service_is_an_error_answer(desk: Desk) -> None:
    async def story() -> None:
        async with desk.editor([{"fault": {"status": 401, "message": "bad key"}}]) as editor:
            session = (await editor.agent.new_session(cwd=str(desk.work), mcp_servers=[])).session_id
            with pytest.raises(acp.RequestError) as error:
                await editor.say(session, "go")
            assert error.value.code == -32000
            assert error.value.data == {"terminalReason": "auth"}

    play(story())


def test_what_the_editor_has_not_saved_is_seen_and_kept(desk: Desk) -> None:
    file = desk.work / "a.py"
    file.write_bytes(b"old\r\n")
    (desk.work / "b.py").write_text("same\n")
    script = [
        {"call": {"Read": {"file_path": "a.py"}}},
        {"expect": {"contains": "typed"}, "call": {"Read": {"file_path": "b.py"}}},
        {"call": {"Edit": {"file_path": "a.py", "old_string": "typed", "new_string": "changed"}}},
        "done",
    ]
    can = schema.ClientCapabilities(fs=schema.FileSystemCapabilities(read_text_file=True, write_text_file=True))

    async def story() -> None:
        async with desk.editor(script, "--permission-mode", "accept-edits", can=can) as editor:
            editor.buffers = {str(file): "typed\n", str(desk.work / "b.py"): "same\n"}
            session = (await editor.agent.new_session(cwd=str(desk.work), mcp_servers=[])).session_id
            assert await editor.say(session, "go") == "end_turn"
        assert editor.saved == {str(file): "typed\n"}  # b.py was as it is on disk
        assert file.read_text() == "changed\n"

    play(story())


def link(uri: str) -> schema.ResourceContentBlock:
    return schema.ResourceContentBlock(type="resource_link", uri=uri, name="x")


def embedded(uri: str, data: bytes) -> schema.EmbeddedResourceContentBlock:
    blob = schema.BlobResourceContents(uri=uri, blob=base64.b64encode(data).decode())
    return schema.EmbeddedResourceContentBlock(type="resource", resource=blob)


def test_a_mentioned_file_is_attached_as_it_stands_in_the_editor(desk: Desk) -> None:
    (desk.work / "sp ace").mkdir()
    file = desk.work / "sp ace" / "my file.txt"
    file.write_text("on disk\n")
    other = desk.work / "b.txt"
    other.write_text("of b\n")
    wanted = ["typed", "of b", f'look at @"{file}", @{other} please see https://example.com/x']
    script = [{"say": "ok", "expect": {"contains": wanted, "lacks": "on disk"}}]
    can = schema.ClientCapabilities(fs=schema.FileSystemCapabilities(read_text_file=True, write_text_file=True))

    async def story() -> None:
        async with desk.editor(script, can=can) as editor:
            editor.buffers = {str(file): "typed\n"}
            session = (await editor.agent.new_session(cwd=str(desk.work), mcp_servers=[])).session_id
            blocks = ["look at", link(f"{desk.work.as_uri()}/sp%20ace/my%20file.txt"), ",", link(other.as_uri())]
            blocks += ["please see", link("https://example.com/x")]
            assert await editor.say(session, *blocks) == "end_turn"
        assert (editor.text(), file.read_text()) == ("ok", "typed\n")
        assert editor.text("agent_thought_chunk") == f"{file} · 1 line\n{other} · 1 line\n"

    play(story())


def test_a_file_given_as_bytes_is_a_text_an_image_or_left_out_with_a_line(desk: Desk) -> None:
    script = [{"say": "ok", "expect": {"contains": '<attached name="/x/a.json">\n{}'}}]

    async def story() -> None:
        async with desk.editor(script) as editor:
            session = (await editor.agent.new_session(cwd=str(desk.work), mcp_servers=[])).session_id
            given = (("a.json", b"{}"), ("b.gif", GIF), ("c.pdf", b"%PDF\0"), ("d", b"\xff"))
            blocks = [embedded(f"file:///x/{name}", data) for name, data in given]
            assert await editor.say(session, "see", *blocks) == "end_turn"
            left_out = "".join(f"/x/{name} · not attached: neither text nor an image\n" for name in ("c.pdf", "d"))
            assert (editor.text(), editor.text("agent_thought_chunk")) == ("ok", left_out)
            await editor.agent.close_session(session_id=session)
            await editor.agent.load_session(cwd=str(desk.work), session_id=session, mcp_servers=[])
            assert [u.content.type for u in editor.of("user_message_chunk")] == ["text", "image"]

    play(story())


def test_a_command_may_end_in_a_line_break_and_takes_along_what_is_attached(desk: Desk) -> None:
    script = [{"say": "looked", "expect": {"contains": "the selection"}}]

    async def story() -> None:
        async with desk.editor(script) as editor:
            session = (await editor.agent.new_session(cwd=str(desk.work), mcp_servers=[])).session_id
            assert await editor.say(session, "/tools\n") == "end_turn"
            assert "TodoWrite" in editor.text()
            assert await editor.say(session, "/review\n", embedded("file:///x/a.py", b"the selection")) == "end_turn"
        assert editor.text().endswith("looked")

    play(story())


def test_a_buffer_that_lags_behind_the_disk_does_not_undo_an_edit(desk: Desk) -> None:
    file = desk.work / "a.py"
    file.write_text("old\n")
    script = [
        {"call": {"Read": {"file_path": "a.py"}}},
        {"call": {"Edit": {"file_path": "a.py", "old_string": "old", "new_string": "new"}}},
        {"call": {"Read": {"file_path": "a.py"}}},
        {"expect": {"contains": "new"}, "say": "done"},
    ]
    can = schema.ClientCapabilities(fs=schema.FileSystemCapabilities(read_text_file=True, write_text_file=True))

    async def story() -> None:
        async with desk.editor(script, "--permission-mode", "accept-edits", can=can) as editor:
            editor.buffers = {str(file): "old\n"}  # it has not seen yet that the file changed
            session = (await editor.agent.new_session(cwd=str(desk.work), mcp_servers=[])).session_id
            assert await editor.say(session, "go") == "end_turn"
        assert (editor.saved, file.read_text()) == ({}, "new\n")

    play(story())


def test_a_buffer_looked_at_first_after_a_command_does_not_undo_what_the_command_did(desk: Desk) -> None:
    changed, typed = desk.work / "changed.py", desk.work / "typed.py"
    changed.write_text("old\n")
    typed.write_text("old\n")
    script = [
        {"call": {"Bash": {"command": "echo new > changed.py; touch -d 2001-01-01 changed.py"}}},
        {"call": {"Read": {"file_path": "changed.py"}}},
        {"expect": {"contains": "new"}, "call": {"Read": {"file_path": "typed.py"}}},
        {"expect": {"contains": "unsaved"}, "say": "done"},
    ]
    can = schema.ClientCapabilities(fs=schema.FileSystemCapabilities(read_text_file=True, write_text_file=True))

    async def story() -> None:
        async with desk.editor(script, "--permission-mode", "bypass", can=can) as editor:
            editor.buffers = {str(changed): "old\n", str(typed): "unsaved\n"}
            session = (await editor.agent.new_session(cwd=str(desk.work), mcp_servers=[])).session_id
            assert await editor.say(session, "go") == "end_turn"
        assert (editor.saved, changed.read_text()) == ({str(typed): "unsaved\n"}, "new\n")

    play(story())


def test_a_command_is_cancelled_like_an_answer(desk: Desk) -> None:
    script = ["hello", "again", {"say": "a summary", "delay_ms": 600_000}]

    async def story() -> None:
        async with desk.editor(script) as editor:
            session = (await editor.agent.new_session(cwd=str(desk.work), mcp_servers=[])).session_id
            assert await editor.say(session, "go") == "end_turn"
            assert await editor.say(session, "on") == "end_turn"
            asking = asyncio.ensure_future(editor.say(session, "/compact"))
            done, _ = await asyncio.wait([asking], timeout=0.5)
            assert not done
            await editor.agent.cancel(session_id=session)
            assert await asyncio.wait_for(asking, 20) == "cancelled"

    play(story())


def test_servers_the_editor_passes_are_the_sessions_tools(desk: Desk) -> None:
    script = [{"call": {"mcp__My_Server__echo": {"text": "hello"}}}, {"expect": {"contains": "hello"}, "say": "done"}]

    async def story() -> None:
        async with desk.editor(script) as editor:
            server = schema.McpServerStdio(
                name="My Server", command=sys.executable, args=["-I", "-S", str(FAKE)], env=[]
            )
            session = (await editor.agent.new_session(cwd=str(desk.work), mcp_servers=[server])).session_id
            assert await editor.say(session, "go") == "end_turn"
        assert editor.text() == "done"
        assert [call.kind for call in editor.asked] == ["other"]

    play(story())
