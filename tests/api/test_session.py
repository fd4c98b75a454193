"""`import cowork`: sessions, one-shot runs, typed results, own tools, errors."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import pydantic
import pytest

import cowork
from cowork.core.events import AgentStarted, PromptAdded, ReplyAdded, TextDelta, ToolEnded, TurnEnded
from cowork.core.ports import ToolRecord

Options = Callable[..., dict[str, Any]]


def test_importing_loads_nothing_heavy() -> None:
    heavy = ("typer", "rich", "prompt_toolkit", "anthropic", "openai", "pydantic", "asyncio", "json", "cowork.api")
    code = f"import sys, cowork; print([m for m in {heavy!r} if m in sys.modules])"
    code += "; cowork.Session, cowork.run, cowork.tool; print([m for m in sys.modules if m in " + repr(heavy[:6]) + "])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "[]"]


def test_every_public_name_is_there() -> None:
    for name in cowork._HOME_OF:
        assert getattr(cowork, name)
        assert name in dir(cowork)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = cowork.nothing  # type: ignore[attr-defined]


def test_one_prompt_gives_its_result(scripted: Options) -> None:
    result = cowork.run("hello", **scripted({"say": "Good day."}))
    assert (str(result), result.reason, result.turns, result.value) == ("Good day.", "completed", 1, None)
    assert result.usage.output_tokens > 0
    assert result.cost_usd


def test_an_interrupt_ends_a_run_inside_a_running_loop(scripted: Options) -> None:
    given = scripted({"call": {"Bash": {"command": "sleep 600"}}}, "never", mode="bypass")
    program = f"""
import asyncio, json, os, signal, threading
import cowork

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job would ignore it

def interrupt(event):
    if event.type == "tool.started":
        os.kill(os.getpid(), 2)

async def cell():
    cowork.run("go", on_event=interrupt, **json.loads({json.dumps(json.dumps(given, default=str))}))

try:
    asyncio.new_event_loop().run_until_complete(cell())
except KeyboardInterrupt:
    print([thread.name for thread in threading.enumerate()])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "['MainThread']\n", done.stderr


async def test_a_one_shot_run_works_inside_a_running_loop(scripted: Options) -> None:
    assert cowork.run("hello", **scripted({"say": "Good day."})).text == "Good day."


async def test_a_session_gives_events_and_goes_on(scripted: Options) -> None:
    async with cowork.Session(**scripted({"say": "one", "chunks": 2}, {"say": "two"})) as session:
        answer = session.ask("first")
        events = [event async for event in answer]
        assert [type(e) for e in events[-3:]] == [TextDelta, ReplyAdded, TurnEnded]
        assert answer.result is not None
        assert answer.result.text == "one"
        second = await session.ask("second")
        assert second.text == "two"
        assert session.cost == pytest.approx((answer.result.cost_usd or 0) + (second.cost_usd or 0))
        assert session.usage.total == answer.result.usage.total + second.usage.total


async def test_a_session_is_resumed_by_its_id(scripted: Options) -> None:
    async with cowork.Session(**scripted({"say": "one"})) as session:
        await session.ask("first")
        known = session.id
    async with cowork.Session(**scripted({"say": "again"}, resume=known)) as session:
        assert session.id == known
        assert (await session.ask("second")).text == "again"
        assert [p.text for p in session.run.agent.transcript.prompts()] == ["first", "second"]


async def test_what_is_not_stored_leaves_nothing(scripted: Options, clean_environment: Path) -> None:
    async with cowork.Session(**scripted({"say": "one"}, store=False)) as session:
        await session.ask("first")
    assert not list(clean_environment.rglob("events.jsonl"))


@dataclass
class Finding:
    file: str
    lines: list[int]
    note: str | None = None


class Row(TypedDict):
    file: str
    lines: list[int]
    note: NotRequired[str]


class Model(pydantic.BaseModel):
    file: str
    lines: list[int]


RAW = {"file": "a.py", "lines": [1, 2]}
SCHEMA = {"type": "object", "properties": {"file": {"type": "string"}}, "required": ["file"]}
KINDS = [(Finding, Finding("a.py", [1, 2])), (Row, RAW), (Model, Model(file="a.py", lines=[1, 2])), (SCHEMA, RAW)]


@pytest.mark.parametrize(("kind", "wanted"), KINDS)
async def test_a_result_has_the_type_of_its_schema(scripted: Options, kind: Any, wanted: Any) -> None:
    said = {"say": json.dumps(RAW)}
    async with cowork.Session(**scripted(said, children={"explore": [said]})) as session:
        assert (await session.ask("find", schema=kind)).value == wanted
        assert await session.task("explore", "find", schema=kind) == wanted


async def test_nested_types_come_back_as_they_are(scripted: Options) -> None:
    raw = [{"file": "a", "lines": [], "note": "x"}, {"file": "b", "lines": [3]}]
    async with cowork.Session(**scripted({"say": json.dumps({"found": raw})})) as session:
        value = (await session.ask("find", schema=Report)).value
    assert value == Report((Finding("a", [], "x"), Finding("b", [3])))


@dataclass
class Report:
    found: tuple[Finding, ...]


async def test_tasks_run_side_by_side_and_give_their_texts(scripted: Options) -> None:
    agents = {"explore": [{"match": f"part {n}", "turns": [{"say": f"found {n}"}]} for n in range(4)]}
    async with cowork.Session(**scripted(children=agents)) as session:
        found = await asyncio.gather(*(session.task("explore", f"look at part {n}") for n in range(4)))
        assert found == [f"found {n}" for n in range(4)]
        assert session.cost


async def test_an_agent_of_the_program_is_sent_out(scripted: Options) -> None:
    poet = cowork.AgentDef("poet", "Writes verse.", "You write verse.", tools=())
    async with cowork.Session(**scripted(children={"poet": [{"say": "a rose"}, {"say": "is"}]})) as session:
        assert await session.task(poet, "write") == "a rose"
    async with cowork.Session(**scripted(children={"poet": [{"say": "a rose"}]}, agents=[poet])) as session:
        assert await session.task("poet", "write") == "a rose"


async def test_a_program_sends_out_agents_where_the_model_cannot(scripted: Options) -> None:
    tools, heard = ["Read", "Grep"], list[Any]()
    given = scripted(children={"explore": [{"say": "found"}]}, tools=tools, on_event=heard.append)
    async with cowork.Session(**given) as session:
        assert await session.task("explore", "look") == "found"
    assert [set(event.tools) for event in heard if isinstance(event, AgentStarted)] == [set(tools)]
    async with cowork.Session(**scripted(tools=tools, deny=["Task(explore)"])) as session:
        with pytest.raises(cowork.TaskFailed, match=r"the rule Task\(explore\) denies it"):
            await session.task("explore", "look")


async def test_an_agent_that_is_sent_out_changes_no_cached_prompt(scripted: Options) -> None:
    poet = cowork.AgentDef("poet", "Writes verse.", "You write verse.", tools=())
    async with cowork.Session(**scripted("hello", children={"poet": [{"say": "a rose"}]})) as session:
        await session.ask("hi")
        told = session.run.agent.specs
        await session.task(poet, "write")
        assert session.run.agent.specs is told


async def test_a_failed_task_raises_its_record(scripted: Options) -> None:
    fault = {"fault": {"kind": "auth", "message": "no"}}
    async with cowork.Session(**scripted(children={"explore": [fault]})) as session:
        with pytest.raises(cowork.TaskFailed, match="no") as caught:
            await session.task("explore", "look")
        assert caught.value.record.data["status"] == "error"
        with pytest.raises(cowork.TaskFailed, match="not found"):
            await session.task("nobody-of-that-name", "look")


# ---------------------------------------------------------------- own tools


@cowork.tool
def population(city: str, year: int = 2020) -> dict[str, int]:
    """How many people live in a city."""
    return {city: year * 1000}


@cowork.tool(reads=True)
async def nearest(ctx: Any, place: Finding) -> str:
    """What is near a place."""
    return f"{type(place).__name__} near {ctx.agent}"


async def test_a_function_is_a_tool(scripted: Options) -> None:
    calls = {"calls": [{"name": "population", "input": {"city": "Ulm"}}, {"name": "nearest", "input": {"place": RAW}}]}
    async with cowork.Session(**scripted(calls, {"say": "done"}, tools=[population, nearest])) as session:
        ended = [e async for e in session.ask("how many?") if isinstance(e, ToolEnded)]
    assert [e.record["text"] for e in ended] == ['{"Ulm": 2020000}', "Finding near main"]
    assert population.schema["required"] == ["city"]
    assert population.description == "How many people live in a city."


@cowork.tool(reads=True)
def lookup(kind: str) -> Any:
    """Look it up."""
    if kind == "failed":
        return ToolRecord("error", "No.", error={"code": "NOT_FOUND", "message": "No."})
    if kind in ("bare", "own"):
        return ToolRecord("success", "one\ntwo\n", display={"summary": "as I say"} if kind == "own" else {})
    return {"line": "All is well.", "none": None}.get(kind, {"count": 3})


async def test_what_a_function_gave_is_on_the_line_of_its_call(scripted: Options) -> None:
    said = {"bare": "2 lines", "own": "as I say", "line": "All is well.", "none": "Done.", "value": '{"count": 3}'}
    kinds = [*said, "failed"]
    calls = [{"call": {"lookup": {"kind": kind}}} for kind in kinds]
    async with cowork.Session(**scripted(*calls, "done", tools=[lookup])) as session:
        ended = [e.display.get("summary") async for e in session.ask("go") if isinstance(e, ToolEnded)]
    assert ended == [*said.values(), None]


async def test_names_narrow_the_tools_and_functions_stay(scripted: Options) -> None:
    async with cowork.Session(**scripted({"say": "x"}, tools=["Read", population])) as session:
        assert set(session.run.agent.runner.tools) == {"Read", "population"}


async def test_a_tool_that_asks_is_judged_like_any_other(scripted: Options) -> None:
    asked: list[cowork.Question] = []

    async def ask(question: cowork.Question) -> cowork.Answer:
        asked.append(question)
        return cowork.Answer("once")

    @cowork.tool(asks=True)
    def publish(text: str) -> str:
        """Publishes a text."""
        return f"published {text}"

    turns = ({"call": {"publish": {"text": "a"}}}, {"say": "done"})
    async with cowork.Session(**scripted(*turns, tools=[publish])) as session:
        with pytest.raises(cowork.ActionDenied):
            await session.ask("publish it")
    async with cowork.Session(**scripted(*turns, tools=[publish], ask=ask)) as session:
        assert (await session.ask("publish it")).text == "done"
    assert [q.tool for q in asked] == ["publish"]


async def test_plan_mode_holds_for_functions_that_change_things(scripted: Options) -> None:
    turns = ({"call": {"population": {"city": "Ulm"}}}, {"say": "done"})
    async with cowork.Session(**scripted(*turns, tools=[population], mode="plan")) as session:
        with pytest.raises(cowork.ActionDenied):
            await session.ask("go")


# ---------------------------------------------------------------- errors


def refused(kind: str) -> dict[str, Any]:
    return {"fault": {"kind": kind, "message": "said no", "times": 9}}


@pytest.mark.parametrize(
    ("turns", "options", "error"),
    [
        ([refused("auth")], {}, cowork.AuthFailed),
        ([refused("bad_request")], {}, cowork.ServiceFailed),
        ([{"call": {"LS": {}}}, {"say": "x"}], {"max_turns": 1}, cowork.LimitReached),
        ([{"say": "no JSON"}] * 3, {"schema": SCHEMA}, cowork.InvalidAnswer),
        ([{"say": "late", "delay_ms": 60_000}], {"timeout": 0.05}, cowork.TimedOut),
        ([{"call": {"Write": {"file_path": "a", "content": "b"}}}, {"say": "no"}], {}, cowork.ActionDenied),
    ],
)
def test_failures_have_types(scripted: Options, turns: Any, options: Any, error: type[cowork.RunFailed]) -> None:
    with pytest.raises(error) as caught:
        cowork.run("go", **scripted(*turns, **options))
    assert caught.value.result.error["message"] in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cwd": "/nowhere"}, "/nowhere is not a folder"),
        ({"colour": "red"}, "no option 'colour'"),
        ({"hooks": {"PreToolUse:(": print}}, "has a bad pattern"),
        ({"settings": {"no.such": 1}}, "no setting 'no.such'"),
        ({"resume": "zzzz"}, "zzzz"),
        ({"tools": [cowork.tool(name="Read")(lambda: "")]}, "already a tool 'Read'"),
    ],
)
def test_mistakes_are_user_errors(scripted: Options, options: Any, message: str) -> None:
    with pytest.raises(cowork.UserError, match=message):
        cowork.run("go", **scripted({"say": "x"}, **options))


# ---------------------------------------------------------------- stopping


async def test_cancel_ends_the_answer_and_the_session_goes_on(scripted: Options) -> None:
    async with cowork.Session(**scripted({"say": "long", "delay_ms": 60_000}, {"say": "next"})) as session:
        heard = session.ask("first").__aiter__()
        assert isinstance(await anext(heard), PromptAdded)
        threading.Thread(target=session.cancel).start()  # any thread may
        with pytest.raises(cowork.Cancelled) as caught:
            _ = [event async for event in heard]
        assert caught.value.result.reason == "interrupted"
        assert (await session.ask("second")).text == "next"


async def test_closing_a_session_cancels_the_answer_that_is_under_way(scripted: Options) -> None:
    session = cowork.Session(**scripted({"call": {"Bash": {"command": "sleep 100"}}}, "no", mode="bypass"))
    await session.open()
    answer = asyncio.ensure_future(session.ask("wait")._whole())
    await asyncio.sleep(0)
    await session.close()
    with pytest.raises(cowork.Cancelled):
        await answer


async def test_whoever_stops_iterating_stops_the_answer(scripted: Options) -> None:
    turns = ({"say": "a b c d", "chunks": 4, "delay_ms": 20}, {"say": "next"})
    async with cowork.Session(**scripted(*turns)) as session:
        async for event in session.ask("first"):
            if isinstance(event, TextDelta):
                break
        assert (await session.ask("second")).text == "next"


async def test_a_task_that_waits_takes_its_answer_along(scripted: Options) -> None:
    async with cowork.Session(**scripted({"say": "long", "delay_ms": 60_000}, {"say": "next"})) as session:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await session.ask("first")
        assert (await session.ask("second")).text == "next"


# ---------------------------------------------------------------- many at once


async def test_fifty_sessions_do_not_disturb_each_other(scripted: Options, tmp_path: Path) -> None:
    async def one(number: int) -> tuple[str, int, str]:
        folder = tmp_path / f"work-{number}"
        folder.mkdir()
        turns = (
            {"call": {"Write": {"file_path": "a.txt", "content": f"text {number}"}}},
            {"call": {"Read": {"file_path": "a.txt"}}},
            {"say": f"answer {number}", "chunks": 3, "delay_ms": 1, "expect": {"contains": f"text {number}"}},
        )
        heard: list[str] = []
        options = scripted(*turns, mode="accept-edits", on_event=lambda event: heard.append(event.session_id))
        async with cowork.Session(**options | {"cwd": folder}) as session:
            result = await session.ask("go")
            mine = session.id
        assert set(heard) == {mine}
        return result.text, result.turns, (folder / "a.txt").read_text()

    ends = await asyncio.gather(*map(one, range(50)))
    assert ends == [(f"answer {n}", 3, f"text {n}") for n in range(50)]


def test_threads_have_sessions_of_their_own(scripted: Options) -> None:
    ends: dict[int, str] = {}
    options = [scripted({"call": {"Bash": {"command": f"echo {n}"}}}, {"say": f"answer {n}"}) for n in range(8)]

    def one(number: int) -> None:
        ends[number] = cowork.run("go", **options[number]).text

    threads = [threading.Thread(target=one, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ends == {n: f"answer {n}" for n in range(8)}


def test_a_session_leaves_the_process_as_it_was(scripted: Options) -> None:
    loop_log = logging.getLogger("asyncio")
    before = (Path.cwd(), loop_log.handlers, loop_log.propagate, logging.getLogger("cowork").handlers)
    cowork.run("go", **scripted({"call": {"Bash": {"command": "cd /; pwd"}}}, {"say": "x"}))
    assert (Path.cwd(), loop_log.handlers, loop_log.propagate, logging.getLogger("cowork").handlers) == before


async def test_functions_are_hooks(scripted: Options) -> None:
    heard: list[str] = []

    def refuse(call: cowork.HookCall) -> cowork.HookVerdict:
        heard.append(call.subject)
        return cowork.HookVerdict("deny", "not today")

    async def note(call: cowork.HookCall) -> None:
        heard.append(call.event)

    hooks = {"PreToolUse:LS|Glob": refuse, "Stop": note}
    turns = ({"call": {"LS": {}}}, {"call": {"Grep": {"pattern": "x"}}}, {"say": "done"})
    async with cowork.Session(**scripted(*turns, hooks=hooks)) as session:
        ended = [e.record["text"] async for e in session.ask("go") if isinstance(e, ToolEnded)]
    assert "not today" in ended[0]
    assert "not today" not in ended[1]
    assert heard == ["LS", "Stop"]
    with pytest.raises(cowork.UserError, match="no hook event 'Sometimes'"):
        cowork.Session(hooks={"Sometimes": refuse})


async def test_a_long_result_comes_whole(scripted: Options) -> None:
    text = "word " * 5_000
    async with cowork.Session(**scripted(children={"explore": [{"say": text}]})) as session:
        assert await session.task("explore", "look") == text.strip()


def test_a_session_in_use_is_refused_and_can_be_taken_up_later(scripted: Options) -> None:
    given = scripted({"say": "One."}, {"say": "Two."})
    first = cowork.run("hello", **given)

    async def twice() -> None:
        async with cowork.Session(**given, resume=first.session_id) as session:
            with pytest.raises(cowork.CoworkError, match="in use"):
                await cowork.Session(**given, resume=first.session_id).open()
            assert session.id == first.session_id
        async with cowork.Session(**given, resume=first.session_id) as session:
            assert session.id == first.session_id

    asyncio.run(twice())


def test_a_cancel_that_comes_after_the_end_is_no_error(scripted: Options) -> None:
    session = cowork.Session(**scripted({"say": "One."}))

    async def once() -> None:
        async with session:
            await session.ask("hello")

    thread = threading.Thread(target=lambda: asyncio.run(once()))
    thread.start()
    thread.join()
    session.cancel()
