"""Compaction against services that refuse what does not fit their window, each in its own words."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

from cowork.core.errors import UserError
from cowork.core.events import AgentEnded, Notice, PromptAdded
from cowork.core.transcript import fold
from cowork.sessions.cost import totals
from cowork.sessions.log.reader import read
from cowork.sessions.log.writer import LOG, fork
from tests.fakes.live import SUMMARY, Live, Windowed, conversation, live, rewrites, size_of
from tests.wire.server import FORMATS, Hold, Server, Turn, call, say, status, think, turn

WINDOW = 14_000  # of which system prompt and tools take about a quarter
KNOWN = f"context_window = {WINDOW}\nmax_output_tokens = 1000"
UNKNOWN = "max_output_tokens = 1000"  # taken for 128,000
TASK = "Please rename the frobnicator everywhere."
TODOS = [{"content": "Rename it in docs", "activeForm": "Renaming", "status": "in_progress"}]
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("alpha\n")
    (folder / "page.txt").write_text("0123456789 abcdef\n" * 300)  # about 2,000 tokens as Read shows it
    (folder / "huge.txt").write_text("0123456789 abcdef\n" * 2_500)  # about the most a result may hold
    (folder / "dot.png").write_bytes(PNG)
    return folder


def read_(name: str = "page.txt") -> Any:
    return call("Read", file_path=name)


def long_work(turns: int = 12) -> list[Turn]:
    first = turn("I plan.", call("TodoWrite", todos=TODOS), read_("a.txt"))
    return [first, *(turn(f"Step {n}.", read_()) for n in range(turns)), say("Done.")]


def service(*turns: Turn, **rest: Any) -> tuple[Windowed, Server]:
    windowed = Windowed(WINDOW, list(turns), **rest)
    return windowed, Server(windowed)


def check(chat: Live, windowed: Windowed, server: Server) -> None:
    """Requests are valid, the prefix only breaks where it was compacted, and the log folds to what is live.

    What the log says was spent is what the ledger counted, whatever became of the requests for a summary.
    """
    assert server.violations == []
    main = [e for e in chat.compactions if e.agent == "main"]
    assert rewrites(windowed.main) <= len(main)
    for event in chat.compactions:
        assert 0 < event.tokens_after < event.tokens_before
        assert event.kept
    assert chat.run.log is not None
    events = read(chat.run.log.folder / LOG).events
    assert fold(events).messages() == chat.run.agent.transcript.messages()
    assert totals(e for e in chat.events if e.durable)[""].usage == chat.run.agent.ledger.spent.usage


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("settings", [KNOWN, UNKNOWN], ids=["known", "unknown"])
async def test_work_longer_than_the_window_goes_on(tmp_path: Path, work: Path, format: str, settings: str) -> None:
    windowed, server = service(*long_work())
    with server:
        async with live(tmp_path, server, format, settings=settings) as chat:
            outcome = await chat.say(TASK)
            assert (outcome.reason, outcome.text) == ("completed", "Done.")
            check(chat, windowed, server)
            assert {e.trigger for e in chat.compactions} == {"auto" if settings == KNOWN else "overflow"}
            assert bool(windowed.refused) is (settings == UNKNOWN)
            last = json.dumps(conversation(windowed.main[-1]))
            for kept in (TASK, "cwd: ", "Rename it in docs", "a.txt"):
                assert kept in last


@pytest.mark.parametrize("inside", ["an answer", "a call"])
async def test_an_answer_that_the_window_cut_off_is_believed(tmp_path: Path, work: Path, inside: str) -> None:
    """The next request makes room first, though the settings say that there is plenty."""
    cut = turn("Now I", *[read_("a.txt")] * (inside == "a call"), stop="context_overflow")
    windowed, server = service(*long_work(3)[:-1], cut, say("Done."))
    with server:
        async with live(tmp_path, server, settings=UNKNOWN) as chat:
            outcome = await chat.say(TASK)
            if inside == "an answer":
                assert (outcome.text, outcome.cut) == ("Now I", "because the context window is full")
                outcome = await chat.say("Go on.")
            assert outcome.text == "Done."
            check(chat, windowed, server)
            assert [e.trigger for e in chat.compactions] == ["overflow"]
            assert windowed.refused == []
            last = json.dumps(conversation(windowed.main[-1]))
            assert TASK in last
            assert ("cut off because the context window is full; write less" in last) is (inside == "a call")


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("settings", [KNOWN, UNKNOWN], ids=["known", "unknown"])
async def test_results_that_do_not_fit_are_shortened_not_forgotten(
    tmp_path: Path, work: Path, format: str, settings: str
) -> None:
    windowed, server = service(turn("All of it.", *(read_("huge.txt") for _ in range(3))), say("Done."))
    with server:
        async with live(tmp_path, server, format, settings=settings) as chat:
            assert (await chat.say(TASK)).text == "Done."
            check(chat, windowed, server)
            last = json.dumps(conversation(windowed.main[-1]))
            assert last.count("does not fit. Ask for a smaller part") >= 2
            assert TASK in last
            assert windowed.asked == []  # there was nothing to summarise


@pytest.mark.parametrize("format", ["anthropic", "openai"])
async def test_thinking_and_pictures_count_and_stay_valid(tmp_path: Path, work: Path, format: str) -> None:
    deep = [turn(think(f"Thought {n}. " * 150), f"Step {n}.", read_("dot.png")) for n in range(12)]
    windowed, server = service(*deep, say("Done."))
    thinking = f'{KNOWN}\nthinking = "low"\n'
    with server:
        async with live(tmp_path, server, format, settings=thinking.replace("= 1000", "= 2000")) as chat:
            assert (await chat.say(TASK)).text == "Done."
            check(chat, windowed, server)
            assert chat.compactions
            assert windowed.refused == []


async def test_pictures_of_the_person_can_be_made_room_for(tmp_path: Path, work: Path) -> None:
    from cowork.core.blocks import Image

    pictures = tuple(Image("image/png", base64.b64encode(PNG).decode()) for _ in range(3))
    windowed, server = service(*(say(f"Seen {n}.") for n in range(4)))
    with server:
        async with live(tmp_path, server, settings=KNOWN) as chat:
            for n in range(4):
                assert (await chat.say(f"Look {n}", images=pictures)).text == f"Seen {n}."
            check(chat, windowed, server)
            assert chat.compactions
            assert "[3 images]" in windowed.asked[0].opening


async def test_a_request_too_long_to_pin_can_be_read_whole(tmp_path: Path, work: Path) -> None:
    """The middle of it is in a file that the model is told of, even when the session is taken up or forked."""
    wish = f"{TASK}\n" + "Mind the gap.\n" * 900 + "The word is xyzzy.\n" + "Mind the step.\n" * 900
    windowed, server = service(say("One."), say("Two."))
    with server:
        async with live(tmp_path, server, settings=KNOWN) as chat:
            await chat.say(wish)
            await chat.run.compaction(chat.run.agent, "manual")
            summary = chat.compactions[0].summary
            assert "xyzzy" not in summary
            named = re.search(r"the whole is in (\S+), which", summary)
            assert named
            assert Path(named[1]).read_text() == wish
            assert TASK in summary
            first = chat.run.session_id
        copy = fork(tmp_path / "home" / "sessions", first)
        for taken_up in (first, copy):
            windowed.turns[:] = [turn("I look.", call("Read", file_path=named[1], offset=895, limit=20)), say("Two.")]
            async with live(tmp_path, server, resume=taken_up, permission_mode="ask") as chat:
                await chat.say("go on")
                assert "xyzzy" in json.dumps(conversation(windowed.main[-1])), taken_up


async def test_by_hand_twice_in_a_row_summarises_only_what_is_new(tmp_path: Path, work: Path) -> None:
    windowed, server = service(*long_work(2), turn("More.", read_()), say("Much."), say("Most."))
    with server:
        async with live(tmp_path, server, settings=KNOWN) as chat:
            compact, agent = chat.run.compaction, chat.run.agent
            await chat.say(TASK)
            assert await compact(agent, "manual", "the tests")
            assert "keep in mind: the tests" in windowed.asked[0].opening
            assert not await compact(agent, "manual")  # nothing new
            await chat.say("And now the tests.")
            assert await compact(agent, "manual")
            second = windowed.asked[1].opening
            assert SUMMARY in second
            assert "Step 1." not in second
            assert second.count("And now the tests.") == 1
            assert (await chat.say("Go on.")).text == "Most."
            check(chat, windowed, server)
            last = json.dumps(conversation(windowed.main[-1]))
            assert last.count(SUMMARY) == 1
            assert last.index(TASK) < last.index("And now the tests.") < last.index("Go on.")


FAILURES = {
    "refused": [status(422)],
    "empty": [say("  ")],
    "overflow": [status(413, body={"error": {"message": "prompt is too long"}})] * 2,
}


@pytest.mark.parametrize("failure", FAILURES)
async def test_without_a_summary_a_list_stands_for_it_and_that_is_said(
    tmp_path: Path, work: Path, failure: str
) -> None:
    windowed, server = service(*long_work(), summaries=list(FAILURES[failure]))
    with server:
        async with live(tmp_path, server, settings=KNOWN) as chat:
            assert (await chat.say(TASK)).text == "Done."
            check(chat, windowed, server)
            (warning,) = [e for e in chat.events if isinstance(e, Notice) and e.level == "warning"]
            assert "plain list of events" in warning.text
            assert "CALL Read" in chat.compactions[0].summary + chat.compactions[1].summary
            assert TASK in json.dumps(conversation(windowed.main[-1]))


async def test_a_summary_that_overflows_is_asked_for_again_with_less(tmp_path: Path, work: Path) -> None:
    windowed, server = service(*long_work(), summaries=[FAILURES["overflow"][0]])
    with server:
        async with live(tmp_path, server, settings=KNOWN) as chat:
            assert (await chat.say(TASK)).text == "Done."
            check(chat, windowed, server)
            assert SUMMARY in next(e.summary for e in chat.compactions if e.summary)
            assert size_of(windowed.asked[1]) < size_of(windowed.asked[0]) / 2


@pytest.mark.parametrize("failure", FAILURES)
async def test_by_hand_a_failure_changes_nothing(tmp_path: Path, work: Path, failure: str) -> None:
    windowed, server = service(*long_work(2), say("More."), summaries=list(FAILURES[failure]))
    with server:
        async with live(tmp_path, server, settings=KNOWN) as chat:
            await chat.say(TASK)
            with pytest.raises(UserError, match="Nothing was compacted"):
                await chat.run.compaction(chat.run.agent, "manual")
            assert (await chat.say("Go on.")).text == "More."
            check(chat, windowed, server)
            assert chat.compactions == []


async def test_by_hand_a_summary_that_makes_no_room_is_not_taken(tmp_path: Path, work: Path) -> None:
    windowed, server = service(say("One."), say("More."), summaries=[say(SUMMARY * 100)])
    with server:
        async with live(tmp_path, server, settings=KNOWN) as chat:
            await chat.say(TASK)
            with pytest.raises(UserError, match="as much room"):
                await chat.run.compaction(chat.run.agent, "manual")
            assert chat.compactions == []
            assert (await chat.say("Go on.")).text == "More."
            check(chat, windowed, server)


async def test_by_hand_a_stop_changes_nothing_and_is_counted(tmp_path: Path, work: Path) -> None:
    hold = Hold("middle")
    windowed, server = service(*long_work(2), say("More."), summaries=[say(SUMMARY * 20, hold=hold)])
    with server:
        async with live(tmp_path, server, settings=KNOWN) as chat:
            await chat.say(TASK)
            before = chat.run.agent.ledger.spent.usage
            task = asyncio.ensure_future(chat.run.compaction(chat.run.agent, "manual"))
            await asyncio.to_thread(hold.reached.wait, 30)
            task.cancel()
            await asyncio.wait([task])
            hold.release.set()
            spent = chat.run.agent.ledger.spent.usage
            assert spent.prompt_tokens > before.prompt_tokens
            check(chat, windowed, server)  # though no turn has ended since
            assert (await chat.say("Go on.")).text == "More."
            check(chat, windowed, server)
            assert chat.compactions == []


async def test_refused_credentials_end_the_run_and_leave_the_conversation_whole(tmp_path: Path, work: Path) -> None:
    _, server = service(*long_work(), summaries=[status(401)])
    with server:
        async with live(tmp_path, server, settings=KNOWN) as chat:
            assert (await chat.say(TASK)).reason == "auth"
            assert not any(e.summary for e in chat.compactions)


async def test_a_stop_in_the_middle_of_a_summary_changes_nothing(tmp_path: Path, work: Path) -> None:
    hold = Hold("middle")
    windowed, server = service(*long_work(), summaries=[say(SUMMARY, hold=hold)])
    with server:
        async with live(tmp_path, server, settings=KNOWN) as chat:
            task = asyncio.ensure_future(chat.say(TASK))
            await asyncio.to_thread(hold.reached.wait, 30)
            task.cancel()
            await asyncio.wait([task])
            hold.release.set()
            assert not any(e.summary for e in chat.compactions)
            assert (await chat.say("Go on.")).text == "Done."  # it compacts now
            check(chat, windowed, server)


async def test_right_after_resume_the_size_is_known(tmp_path: Path, work: Path) -> None:
    """What the service counted is taken up, so the first request already makes room."""
    windowed, server = service(*long_work(2), say("More."))
    with server:
        async with live(tmp_path, server, settings=KNOWN) as chat:
            await chat.say(TASK)
            before = chat.run.agent.transcript.tokens
        async with live(tmp_path, server, settings=KNOWN, continue_=True) as chat:
            assert chat.run.agent.transcript.tokens == before > 0
            windowed.window = before + 400  # a smaller model
            settings = KNOWN.replace(str(WINDOW), str(windowed.window))
        async with live(tmp_path, server, settings=settings, continue_=True) as chat:
            assert (await chat.say("Go on.")).text == "More."
            check(chat, windowed, server)
            assert [e.trigger for e in chat.compactions] == ["auto"]
            assert "Rename it in docs" in json.dumps(conversation(windowed.main[-1]))
            assert windowed.refused == []


async def test_after_a_rewind_the_window_is_as_empty_as_it_was(tmp_path: Path, work: Path) -> None:
    from cowork.core.events import SessionRewound

    _, server = service(say("First."), *long_work(4), say("More."))
    with server:
        async with live(tmp_path, server, settings=KNOWN) as chat:
            await chat.say("hello")
            before = chat.run.agent.transcript.tokens
            await chat.say(TASK)
            chat.run.emit(SessionRewound(chat.run.agent.transcript.prompts()[-1].id))
            assert chat.run.agent.transcript.tokens == before
            count = len(chat.compactions)
            assert (await chat.say("Go on.")).text == "More."
            assert len(chat.compactions) == count


async def test_a_child_makes_room_for_itself(tmp_path: Path, work: Path) -> None:
    send = call("Task", description="look at it", prompt="Look at every page.", subagent_type="general-purpose")
    below = [*(turn(f"Page {n}.", read_()) for n in range(8)), say("All pages are alike.")]
    windowed, server = service(turn(send), say("Done."), children=below)
    with server:
        async with live(tmp_path, server, settings=UNKNOWN) as chat:
            assert (await chat.say(TASK)).text == "Done."
            check(chat, windowed, server)
            assert {e.agent for e in chat.compactions} == {"main/general-purpose-1"}
            assert "Look at every page." in json.dumps(conversation(windowed.below[-1]))
            (ended,) = [e for e in chat.events if isinstance(e, AgentEnded)]
            assert ended.status == "completed"


async def test_a_child_at_work_in_the_background_is_not_forgotten(tmp_path: Path, work: Path) -> None:
    hold = Hold("headers")
    send = call("Task", description="look at it", prompt="Look.", subagent_type="explore", run_in_background=True)
    windowed, server = service(
        turn(send),
        *(turn(f"Step {n}.", read_()) for n in range(9)),
        say("Waiting."),
        say("Done."),
        children=[say("The child is done.", hold=hold)],
    )
    with server:
        async with live(tmp_path, server, settings=KNOWN) as chat:
            chat.run.emitter.add(lambda e: hold.release.set() if "Waiting." in str(e) else None)
            assert (await chat.say(TASK)).text == "Done."
            check(chat, windowed, server)
            first = next(e for e in chat.compactions if e.summary)
            assert "explore-1: look at it" in first.summary
            assert "1 child" in first.kept
            assert "The child is done." in json.dumps(conversation(windowed.main[-1]))


async def test_a_damaged_beginning_is_no_reason_to_fail(tmp_path: Path, work: Path) -> None:
    windowed, server = service(*long_work(2), say("More."))
    with server:
        async with live(tmp_path, server, settings=KNOWN) as chat:
            await chat.say(TASK)
            assert chat.run.log is not None
            path = chat.run.log.folder / LOG
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(line for line in lines if b'"prompt.added"' not in line))
        async with live(tmp_path, server, settings=KNOWN, continue_=False, resume=path.parent.name) as chat:
            assert await chat.run.compaction(chat.run.agent, "manual")
            assert (await chat.say("Go on.")).text == "More."
            check(chat, windowed, server)


async def test_a_prompt_that_does_not_fit_by_itself_is_said(tmp_path: Path, work: Path) -> None:
    _, server = service(say("Hi."), say("Never."))
    with server:
        async with live(tmp_path, server, settings=KNOWN) as chat:
            await chat.say("hello")
            outcome = await chat.say("word " * 20_000)
            assert (outcome.reason, outcome.error["code"]) == ("api_error", "context_overflow")
            chat.run.emit(PromptAdded("short", source="system"))
            assert server.violations == []
