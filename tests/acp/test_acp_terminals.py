"""Commands with the person's own rights run in the editor's terminals, where there are some."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import acp
import pytest
from acp import schema

from tests.acp.editor import Desk, Editor

CAN = schema.ClientCapabilities(terminal=True)
OUTSIDE = {"needs": "outside", "why": "it must"}


@dataclass
class TerminalEditor(Editor):
    """Runs what it is asked to, as an editor does."""

    running: dict[str, Any] = field(default_factory=dict)
    printed: dict[str, bytes] = field(default_factory=dict)
    released: list[str] = field(default_factory=list)
    refuses: bool = False
    slow: asyncio.Event | None = None  # set once it was asked for a terminal, which takes it a while

    async def create_terminal(
        self, session_id: str, command: str, args: Any = None, cwd: Any = None, **rest: Any
    ) -> Any:
        if self.refuses:
            raise acp.RequestError.internal_error()
        id = f"t{len(self.running) + 1}"
        if self.slow:
            self.slow.set()
            await asyncio.sleep(0.3)
        pipe = asyncio.subprocess.PIPE
        self.running[id] = await asyncio.create_subprocess_exec(
            command, *args, cwd=cwd, stdout=pipe, start_new_session=True
        )
        return schema.CreateTerminalResponse(terminal_id=id)

    async def wait_for_terminal_exit(self, session_id: str, terminal_id: str, **rest: Any) -> Any:
        process = self.running[terminal_id]
        self.printed[terminal_id] = await process.stdout.read()
        return schema.WaitForTerminalExitResponse(exit_code=max(0, await process.wait()))

    async def terminal_output(self, session_id: str, terminal_id: str, **rest: Any) -> Any:
        return schema.TerminalOutputResponse(output=self.printed.get(terminal_id, b"").decode(), truncated=False)

    async def kill_terminal(self, session_id: str, terminal_id: str, **rest: Any) -> Any:
        os.killpg(self.running[terminal_id].pid, signal.SIGKILL)
        await self.running[terminal_id].wait()

    async def release_terminal(self, session_id: str, terminal_id: str, **rest: Any) -> Any:
        self.released.append(terminal_id)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def play(work: Any) -> None:
    asyncio.run(asyncio.wait_for(work, 120))


def shell(command: str, **given: Any) -> dict[str, Any]:
    return {"call": {"Bash": {"command": command, **given}}}


def test_what_leaves_the_box_runs_in_a_terminal_that_stays_in_the_call(desk: Desk) -> None:
    (desk.work / "sub").mkdir()
    script = [
        shell("echo boxed"),
        {**shell("cd sub && echo from the terminal", **OUTSIDE), "expect": "boxed"},
        {**shell("false", **OUTSIDE), "expect": ["from the terminal", "working directory is now"]},
        {"expect": "Exit code 1", "say": "ok"},
    ]

    async def story() -> None:
        async with desk.editor(script, can=CAN, kind=TerminalEditor) as editor:
            session = await editor.agent.new_session(cwd=str(desk.work), mcp_servers=[])
            assert await editor.say(session.session_id, "go") == "end_turn"
            assert editor.text() == "ok"
        assert [len(editor.asked), sorted(editor.running), editor.released] == [2, ["t1", "t2"], ["t1", "t2"]]
        assert b"from the terminal" in editor.printed["t1"]
        shown = [u.content[0] for u in editor.of("tool_call_update") if u.content and u.content[0].type == "terminal"]
        assert [content.terminal_id for content in shown] == ["t1", "t1", "t2", "t2"]  # while it runs, and at its end

    play(story())


def test_a_terminal_that_the_editor_refuses_is_a_command_as_any_other(desk: Desk) -> None:
    script = [shell("echo anyway", **OUTSIDE), {"expect": "anyway", "say": "ok"}]

    async def story() -> None:
        async with desk.editor(script, can=CAN, kind=TerminalEditor, refuses=True) as editor:
            session = await editor.agent.new_session(cwd=str(desk.work), mcp_servers=[])
            assert await editor.say(session.session_id, "go") == "end_turn"
            assert editor.text() == "ok"

    play(story())


@pytest.mark.parametrize("end", ["cancel", "timeout"])
def test_a_terminal_is_ended_with_its_call(desk: Desk, end: str) -> None:
    limit = {"timeout": 1} if end == "timeout" else {}
    script = [shell("sleep 600", **OUTSIDE, **limit), {"expect": "Command timed out", "say": "ok"}]

    async def story() -> None:
        async with desk.editor(script, can=CAN, kind=TerminalEditor) as editor:
            session = await editor.agent.new_session(cwd=str(desk.work), mcp_servers=[])

            def cancel(update: Any) -> None:
                contents = getattr(update, "content", None)
                if end == "cancel" and isinstance(contents, list) and contents[0].type == "terminal":
                    editor.on_update = lambda update: None
                    waiting.append(asyncio.ensure_future(editor.agent.cancel(session_id=session.session_id)))

            waiting: list[Any] = []
            editor.on_update = cancel
            reason = await editor.say(session.session_id, "go")
            assert reason == ("cancelled" if end == "cancel" else "end_turn")
            assert editor.released == ["t1"]
            assert editor.running["t1"].returncode is not None

    play(story())


def test_a_terminal_that_comes_after_the_cancel_is_ended_too(desk: Desk) -> None:
    script = [shell("sleep 600", **OUTSIDE)]

    async def story() -> None:
        async with desk.editor(script, can=CAN, kind=TerminalEditor, slow=asyncio.Event()) as editor:
            session = (await editor.agent.new_session(cwd=str(desk.work), mcp_servers=[])).session_id
            asking = asyncio.ensure_future(editor.say(session, "go"))
            await editor.slow.wait()  # type: ignore[attr-defined]
            await editor.agent.cancel(session_id=session)
            assert await asking == "cancelled"
            assert editor.released == ["t1"]
            assert editor.running["t1"].returncode is not None

    play(story())
