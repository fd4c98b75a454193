"""What a program says that cowork does not understand: nothing is let through by it, and the program hears of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import cowork
from cowork.api.options import SessionOptions
from cowork.core.events import QuestionAnswered, ToolEnded

Options = Callable[..., dict[str, Any]]
WRITE = {"call": {"Write": {"file_path": "new.txt", "content": "x"}}}


@pytest.fixture
def logged() -> Iterator[list[logging.LogRecord]]:
    """What is logged for the program; its own handler, since a command may have taken the log for itself."""
    records: list[logging.LogRecord] = []
    handler, log = logging.Handler(), logging.getLogger("cowork.api")
    handler.emit = records.append  # type: ignore[method-assign]
    log.addHandler(handler)
    yield records
    log.removeHandler(handler)


def answering(said: Any) -> Any:
    async def ask(question: cowork.Question) -> Any:
        return said

    return ask


@pytest.mark.parametrize("word", ["deny", "No", "reject", "yes", False, None])
async def test_an_answer_with_a_word_that_is_none_refuses_and_names_those_there_are(
    scripted: Options, tmp_path: Path, logged: list[logging.LogRecord], word: Any
) -> None:
    heard: list[Any] = []
    given = scripted(WRITE, "done", ask=answering(cowork.Answer(word)), on_event=heard.append)
    async with cowork.Session(**given) as session:
        with pytest.raises(cowork.ActionDenied):
            await session.ask("go")
    assert not (tmp_path / "work" / "new.txt").exists()
    assert [event.choice for event in heard if isinstance(event, QuestionAnswered)] == ["no"]
    told = f"Write was denied: `ask` returned {word!r}; a cowork.Answer is once, session, always or no"
    assert [record.getMessage() for record in logged] == [told]


@pytest.mark.parametrize("said", [None, True, "once"])
async def test_what_is_no_answer_refuses(scripted: Options, tmp_path: Path, said: Any) -> None:
    async with cowork.Session(**scripted(WRITE, "done", ask=answering(said))) as session:
        with pytest.raises(cowork.ActionDenied):
            await session.ask("go")
    assert not (tmp_path / "work" / "new.txt").exists()


def plain(x: int) -> int:
    return x


@pytest.mark.parametrize("tools", [[plain], ["Read", 3]])
def test_what_is_no_tool_is_a_mistake(tools: Any) -> None:
    with pytest.raises(cowork.UserError, match="is not a tool") as caught:
        cowork.Session(tools=tools)
    assert "@cowork.tool" in str(caught.value.hint)


async def test_tasks_have_no_other_options_than_those_they_name(scripted: Options) -> None:
    look = {"call": {"LS": {}}}
    async with cowork.Session(**scripted(children={"explore": [look, {"say": "so far"}]})) as session:
        with pytest.raises(cowork.UserError, match="There is no option 'timeout'"):
            await session.task("explore", "look", timeout=1)  # type: ignore[call-overload]
        record = await session.task_record("explore", "look", max_turns=1)
    assert record.data["metadata"]["max_turns_reached"] == "true"


def test_an_option_that_is_none_is_not_given(scripted: Options) -> None:
    names = [*SessionOptions.__annotations__]
    given = dict.fromkeys(names) | scripted("hello")
    assert cowork.run("go", **given).text == "hello"


def test_a_listener_that_fails_is_logged_and_left_out(scripted: Options, logged: list[logging.LogRecord]) -> None:
    def listen(event: Any) -> None:
        raise ValueError("my bug")

    assert cowork.run("go", **scripted("hello", on_event=listen)).text == "hello"
    assert [str(record.exc_info[1]) for record in logged if record.exc_info] == ["my bug"]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (cowork.HookVerdict("block", "not today"), "Write was denied: not today."),  # type: ignore[arg-type]
        (cowork.HookVerdict("refuse", "why"), "why; a hook decided 'refuse', which is not allow, ask or deny"),  # type: ignore[arg-type]
        ("deny", "the hook of PreToolUse returned 'deny', which is neither a HookVerdict nor None"),
        (False, "returned False, which is neither"),
    ],
)
async def test_a_hook_that_is_not_understood_lets_nothing_through(
    scripted: Options, tmp_path: Path, said: Any, reason: str
) -> None:
    hooks = {"PreToolUse:Write": lambda call: said}
    heard: list[Any] = []
    given = scripted(WRITE, "done", mode="bypass", hooks=hooks, on_event=heard.append)
    async with cowork.Session(**given) as session:
        with pytest.raises(cowork.ActionDenied):
            await session.ask("go")
    assert [reason in event.record["text"] for event in heard if isinstance(event, ToolEnded)] == [True]
    assert not (tmp_path / "work" / "new.txt").exists()
