"""What becomes of a sent line: nothing is lost, nothing is sent twice, starting costs little."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from cowork.core.errors import UserError
from cowork.core.events import Event, PromptAdded
from cowork.frontends.host import Command, ConversationOpened, Options
from cowork.frontends.repl.repl import Repl
from cowork.frontends.repl.turns import Turns
from cowork.frontends.repl.view.scene import Scene
from cowork.frontends.styled import Theme, plain
from tests.fakes.repl_host import FakeHost


class Stage:
    """Turns over a host whose `wait` script ends when the test says so."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.host = FakeHost({"wait": self._wait, "boom": self._boom})
        self.scene = Scene()
        self.given_back: list[str] = []
        self.turns = Turns(self.host, self.scene, tuple, lambda seconds: None, self.given_back.append)
        self.host.emit_to = self._take

    def _take(self, event: Event) -> None:
        self.scene.apply(event)
        self.turns.on_event(event)

    async def _wait(self, host: FakeHost, text: str) -> None:
        await self.go.wait()

    async def _boom(self, host: FakeHost, text: str) -> None:
        raise RuntimeError("boom")

    def printed(self) -> list[str]:
        return [plain(line) for line in self.scene.take(80, Theme())]


async def test_queued_messages_run_in_order_after_the_turn() -> None:
    stage = Stage()
    for text in ("wait", "two", "three"):
        stage.turns.send(text)
    await asyncio.sleep(0)
    assert [s.text for s in stage.turns.queue] == ["two", "three"]
    stage.go.set()
    await stage.turns.idle()
    assert stage.host.said == ["wait", "two", "three"]


async def test_what_was_steered_too_late_is_sent_as_the_next_message() -> None:
    stage = Stage()
    stage.turns.send("wait")
    await asyncio.sleep(0)
    stage.turns.send("queued")
    stage.turns.steer("in time")
    stage.turns.steer("too late")
    stage.host.emit(PromptAdded("in time", source="steer"))
    assert stage.turns.steering == ["too late"]
    stage.go.set()
    await stage.turns.idle()
    assert stage.host.said == ["wait", "too late", "queued"]
    assert stage.host.steered == ["in time", "too late"]


async def test_an_interrupt_hands_everything_unsent_back() -> None:
    stage = Stage()
    stage.turns.send("wait")
    await asyncio.sleep(0)
    stage.turns.send("queued [image /x/a b.png]", (Path("/x/a b.png"),))
    stage.turns.steer("steered")
    assert stage.host.waiting == ["steered", "queued [image /x/a b.png]"]  # whoever goes on can attach it
    stage.turns.interrupt()
    await stage.turns.idle()
    assert stage.given_back == ["steered\nqueued [image /x/a b.png]"]
    assert stage.host.said == ["wait"]
    assert not stage.turns.working


async def test_messages_that_come_back_below_a_shell_line_are_not_run_with_it() -> None:
    stage = Stage()
    stage.turns.send("wait")
    await asyncio.sleep(0)
    for text in ("!ls", "then clean up"):
        stage.turns.send(text)
    stage.turns.interrupt()
    await stage.turns.idle()
    assert stage.given_back == [" !ls\nthen clean up"]  # behind a blank it is a message


async def test_what_waits_is_told_to_the_host_until_the_log_has_it() -> None:
    stage = Stage()
    stage.turns.send("wait")
    await asyncio.sleep(0)
    for text in ("two", "/compact", "three", "four"):
        stage.turns.send(text)
    stage.turns.steer("steered")
    assert stage.host.waiting == ["steered", "two", "/compact", "three", "four"]
    assert stage.turns.recall() == "four"
    stage.host.emit(PromptAdded("steered", source="steer"))
    assert stage.host.waiting == ["two", "/compact", "three"]
    told: list[list[str]] = []
    stage.host.keep_waiting = lambda texts: told.append(list(texts))  # type: ignore[method-assign]
    stage.go.set()
    await stage.turns.idle()
    assert told[0] == ["two", "/compact", "three"]  # begun, but not said yet
    assert ["/compact", "three"] in told
    assert told[-1] == []


async def test_leaving_begins_nothing_that_waits_and_the_host_still_has_it() -> None:
    stage = Stage()
    stage.turns.send("wait")
    await asyncio.sleep(0)
    stage.turns.send("two")
    await stage.turns.close()
    await stage.turns.idle()
    assert stage.host.said == ["wait"]
    assert stage.host.waiting == ["two"]


async def test_what_stands_on_the_lines_below_a_command_is_its_argument() -> None:
    stage = Stage()
    stage.turns.send("/compact\nthe tests")
    await stage.turns.idle()
    assert any("compacted the tests" in row for row in stage.printed())


async def test_a_slash_or_a_mark_makes_a_command_only_of_what_can_be_one() -> None:
    stage = Stage()
    texts = ["/usr/share/dict/words has odd entries", "/* a comment */", "/", "# one\ntwo", " !ls", " # x", "!", "#"]
    for text in (*texts, "/usr", "!ls", "# note"):
        stage.turns.send(text)
    await stage.turns.idle()
    assert stage.host.said == texts
    printed = "\n".join(stage.printed())
    assert "There is no command /usr." in printed
    assert "Bash $ ls" in printed
    assert "added to AGENTS.md: note" in printed


async def test_what_only_looks_like_a_command_can_be_said_before_the_next_step() -> None:
    stage = Stage()
    stage.turns.send("wait")
    await asyncio.sleep(0)
    for text in ("/etc/hosts is odd", " !ls", "!ls", "/compact"):
        stage.turns.steer(text)
    assert stage.host.steered == ["/etc/hosts is odd", " !ls"]
    assert [sent.text for sent in stage.turns.queue] == ["!ls", "/compact"]
    await stage.turns.close()


async def test_a_command_that_may_runs_beside_a_turn_and_others_wait() -> None:
    stage = Stage()
    stage.turns.send("wait")
    await asyncio.sleep(0)
    stage.turns.send("/cost")
    stage.turns.send("/compact the tests")
    await asyncio.sleep(0.01)
    assert any("haiku" in row for row in stage.printed())
    assert [s.text for s in stage.turns.queue] == ["/compact the tests"]
    stage.go.set()
    await stage.turns.idle()
    assert any("compacted the tests" in row for row in stage.printed())


async def test_an_interrupt_stops_what_a_command_does_but_never_between_two_conversations() -> None:
    stage = Stage()
    ended: list[str] = []

    async def work(name: str) -> None:
        await stage.go.wait()
        ended.append(name)

    stage.turns.own_commands = lambda: (
        Command("summarise", "waits", work),
        Command("switch", "waits", work, resets=True),
    )
    stage.turns.send("/summarise it")
    await asyncio.sleep(0)
    stage.turns.send("queued")
    assert stage.turns.interrupt()
    await stage.turns.idle()
    assert "· /summarise was stopped" in stage.printed()
    assert stage.given_back == ["queued"]
    stage.turns.send("/switch there")
    await asyncio.sleep(0)
    assert stage.turns.interrupt()
    stage.go.set()
    await stage.turns.idle()
    assert ended == ["there"]


async def test_a_turn_that_breaks_is_told_calmly_and_the_queue_goes_on() -> None:
    stage = Stage()
    stage.turns.send("boom")
    stage.turns.send("next")
    await stage.turns.idle()
    assert "✗ That did not work: RuntimeError: boom" in stage.printed()
    assert stage.host.said == ["boom", "next"]


async def test_a_note_that_cannot_be_stored_is_told_and_handed_back() -> None:
    stage = Stage()

    async def refuse(text: str) -> str:
        raise UserError("Not noted: AGENTS.md is a folder.", "Make it a file.")

    stage.host.add_note = refuse  # type: ignore[method-assign]
    handed_back = asyncio.Event()
    stage.turns.give_back = lambda text: (stage.given_back.append(text), handed_back.set())
    stage.turns.send("#keep this")
    await handed_back.wait()
    assert stage.given_back == ["#keep this"]
    assert "Not noted: AGENTS.md is a folder." in "".join(stage.printed())


async def test_leaving_stops_the_turn() -> None:
    stage = Stage()
    stage.turns.send("wait")
    await asyncio.sleep(0)
    await asyncio.wait_for(stage.turns.close(), 1)
    assert not stage.turns.working


async def test_the_end_of_an_earlier_conversation_is_shown_and_the_rest_counted() -> None:
    host = FakeHost({})
    for number in range(6):
        await host.submit(f"question {number}")
    repl = Repl(host, Options(), {"TERM": "xterm"})
    repl.on_event(ConversationOpened(host.history()))
    rows = [plain(line) for line in repl.scene.take(80, Theme())]
    rows = rows[rows.index("") + 1 :]  # below the banner
    assert rows[0] == "· 3 earlier prompts · Ctrl+O shows all"
    assert [row for row in rows if row.startswith("❯")] == ["❯ question 3", "❯ question 4", "❯ question 5"]


def loaded(statement: str) -> Sequence[str]:
    code = f"import sys; {statement}; print(*sys.modules)"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()


def test_starting_loads_neither_markdown_nor_pygments() -> None:
    modules = set(loaded("import cowork.frontends.repl.repl"))
    heavy = ("rich.markdown", "rich.syntax", "rich.console", "pygments", "markdown_it", "httpx2", "typer", "yaml")
    assert not modules.intersection(heavy)
    assert not [m for m in modules if m.startswith("cowork.") and m.split(".")[1] not in ("core", "frontends")]
