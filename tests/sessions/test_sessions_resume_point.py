"""Going on with a large log: only what is needed is read, and it is what the whole log says."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cowork.core.blocks import Block, Text, ToolUse
from cowork.core.events import (
    AgentEnded,
    AgentStarted,
    ContextCompacted,
    Event,
    Notice,
    PromptAdded,
    ReplyAdded,
    SessionRewound,
    SessionStarted,
    TodoUpdated,
    ToolEnded,
    ToolStarted,
)
from cowork.core.transcript import PROMPTS_KEPT, Transcript, fold
from cowork.sessions.log.reader import Loaded, encode, events_of, read
from cowork.sessions.log.resume_reader import RESUME_POINT, read_to_resume
from cowork.sessions.log.writer import SessionLog
from cowork.sessions.resume_state import restore

SOAK = bool(os.environ.get("COWORK_SOAK"))


def write(path: Path, events: Sequence[Event]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        for event in events:
            file.write(encode(event, event.id))


def conversation(path: Path, loaded: Loaded) -> Transcript:
    return fold(loaded.events, recall=lambda: events_of(path, "main"))


def state(loaded: Loaded, root: Path) -> tuple[object, ...]:
    found = restore(loaded.events, root)
    children = [(vars(child) | {"tally": vars(child.tally)}) for child in found.children]
    return replace(found, children=()), children


# ---------------------------------------------------------------- any story

names = st.sampled_from(["a.py", "b.py", "/c.py"])
jobs = st.sampled_from(["bash_1", "bash_2", "bash_10"])
children = st.sampled_from(["main/plan-1", "main/plan-2", "main/plan-2/explore-3"])
words = st.text(max_size=20)
data = st.one_of(
    st.builds(lambda path, digest: {"path": path, "hash": digest}, names, st.sampled_from(["1", "2"])),
    st.builds(lambda name, running: {"bash_id": name, "running": running, "output_file": "f"}, jobs, st.booleans()),
    st.builds(lambda name: {"skill": name}, st.sampled_from(["review", "fix"])),
    st.just({"text": "no file", "path": 3}),
    st.none(),
)
results = st.builds(
    lambda data, cwd, text: {
        "status": "success",
        "data": data,
        "text": text * 300,
        "context": {"cwd": cwd, "params_input": {"command": "make"}},
    },
    data,
    st.sampled_from([".", "sub"]),
    words,
)
calls = st.sampled_from([f"c{n}" for n in range(5)])  # each may be used again once no model sees it any more
families = st.sampled_from(["", "read", "write", "exec", "other"])


def of_child(event: Event, agent: str) -> Event:
    name = agent.rpartition("/")[2]
    return replace(
        event, agent=agent, **({"subagent_id": name} if isinstance(event, AgentStarted | AgentEnded) else {})
    )


def numbered(story: Sequence[Event]) -> list[Event]:
    """The story as a log has it: a summary keeps nothing that an earlier one stands for, a call's id is not in use."""
    events, summarised, live = [], 0, Transcript()
    for n, event in enumerate(story, 1):
        if isinstance(event, ContextCompacted) and event.keep_from:
            event = replace(event, keep_from=max(summarised + 1, n - event.keep_from))
        summarised = n if isinstance(event, ContextCompacted) else summarised
        if isinstance(event, ReplyAdded):  # as the loop does
            event = replace(event, content=tuple(_unused(block, live, n) for block in event.content))
        events.append(replace(event, id=n, at=float(n), session_id="s"))
        live.apply(events[-1])
    return events


def _unused(block: Block, live: Transcript, n: int) -> Block:
    return replace(block, id=f"d{n}") if isinstance(block, ToolUse) and block.id in live.ids() else block


happenings = st.one_of(
    st.builds(PromptAdded, words, st.sampled_from(["", "know this"]), source=st.sampled_from(["user", "system"])),
    st.builds(lambda n: PromptAdded("done", source="agent", label=f"plan-{n} ended: completed"), st.integers(1, 2)),
    st.builds(lambda text, call: ReplyAdded((Text(text), ToolUse(call, "Read"))), words, calls),
    st.builds(lambda call, family: ToolStarted(call, "Read", family=family), calls, families),
    st.builds(ToolEnded, calls, st.just("Read"), results),
    st.builds(ToolEnded, calls, st.just("Read"), results),
    st.builds(ContextCompacted, words, st.integers(0, 6), st.lists(calls, max_size=2).map(tuple)),
    st.builds(ContextCompacted, words, st.integers(0, 6)),
    st.builds(SessionRewound, st.integers(1, 60), st.booleans()),
    st.builds(TodoUpdated, st.lists(st.just({"content": "a"}), max_size=2).map(tuple)),
    st.builds(SessionStarted, st.sampled_from(["/p", "/q"]), st.sampled_from(["m1", "m2"]), mode=st.just("ask")),
    st.builds(lambda mode: Notice(code="mode.changed", data={"mode": mode}), st.sampled_from(["plan", "ask"])),
    st.builds(lambda name: Notice(code="model.changed", data={"model": name}), st.sampled_from(["m1", "m2"])),
    st.builds(of_child, st.builds(AgentStarted, background=st.booleans(), parent=st.just("main")), children),
    st.builds(of_child, st.builds(AgentEnded, status=st.just("completed")), children),
    st.builds(of_child, st.builds(ToolEnded, calls, st.just("Read"), results), children),
    st.builds(of_child, st.builds(ReplyAdded, st.builds(lambda t: (Text(t),), words)), children),
)


@pytest.mark.soak
@example([of_child(AgentStarted(parent="main"), f"main/plan-{n}") for n in (2, 1, 2)] + [ContextCompacted("s")], 0)
@example(
    [
        ToolStarted("c", "x", family="exec"),
        ToolEnded("c", "x", {"data": {"path": "a", "hash": "1"}}),
        ContextCompacted("s", 1),
    ],
    0,
)
@settings(max_examples=3000 if SOAK else 60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(happenings, max_size=60), st.integers(0, 60))
def test_what_is_read_to_go_on_says_what_the_whole_log_says(tmp_path_factory, story, cut):
    events = numbered(story)
    root = tmp_path_factory.mktemp("logs")
    path = root / "s" / "events.jsonl"
    (root / "sub").mkdir()
    write(path, events[:cut])
    read_to_resume(path, large=1)  # leaves a resume point in the middle of the story
    write(path, events[cut:])
    whole = read(path)
    live = Transcript(recall=lambda: events_of(path, "main"))
    for event in whole.events:
        live.apply(event)
    for _ in range(2):
        needed = read_to_resume(path, large=1)
        assert (needed.damage, needed.last_id, needed.last_line) == ([], len(events), len(events))
        resumed = conversation(path, needed)
        assert resumed.messages() == live.messages() == fold(whole.events).messages()
        assert resumed.open_calls() == live.open_calls()
        assert state(needed, root) == state(whole, root)
    shutil.rmtree(root)


# ---------------------------------------------------------------- bounds


def long_story(prompts: int) -> list[Event]:
    events: list[Event] = [SessionStarted("/p", "big")]
    for n in range(prompts):
        bulk = {"status": "success", "data": {"path": f"f{n % 50}", "hash": "0" * 64}, "text": "x" * 2_000}
        call = ToolUse(f"c{n}", "Read")
        events += [
            PromptAdded(f"prompt {n}", "know this" if not n else ""),
            ReplyAdded((call,)),
            ToolEnded(call.id, "Read", bulk),
        ]
        if n % 100 == 99:
            events.append(ContextCompacted(f"so far {n}", keep_from=len(events) - 5))
    return [replace(e, id=n, at=float(n), session_id="s") for n, e in enumerate(events, 1)]


def test_memory_follows_the_conversation_and_not_the_log(tmp_path):
    held = []
    for size in (1_200, 1_800):
        path = tmp_path / str(size) / "events.jsonl"
        write(path, long_story(size))
        loaded = read_to_resume(path, large=100_000)
        held.append(len(loaded.events))
        assert conversation(path, loaded).messages() == fold(read(path).events).messages()
        assert [p.text for p in conversation(path, loaded).prompts()[:1]] == ["prompt 0"]  # it says what to know
        assert (path.parent / RESUME_POINT).stat().st_size < path.stat().st_size / 5
    assert held[0] == held[1] < PROMPTS_KEPT + 1_000


def test_what_was_left_out_is_not_read_again(tmp_path):
    path = tmp_path / "s" / "events.jsonl"
    write(path, long_story(250))
    first = read_to_resume(path, large=100_000)
    with path.open("r+b") as file:  # nobody looks here any more
        file.seek(50_000)
        file.write(b"damage")
    again = read_to_resume(path, large=100_000)
    assert (again.events, again.damage) == (first.events, [])
    assert read(path).damage


@pytest.mark.parametrize("damage", [b"", b"{}\n", b"\xff\xfe", b'{"version":1,"lines":0}\n'])
def test_a_resume_point_that_is_broken_or_of_another_log_is_passed_over(tmp_path, damage):
    path = tmp_path / "s" / "events.jsonl"
    write(path, long_story(250))
    first = read_to_resume(path, large=100_000)
    point = path.parent / RESUME_POINT
    kept = point.read_bytes()
    point.write_bytes(damage)
    assert read_to_resume(path, large=100_000).events == first.events
    point.write_bytes(kept[: len(kept) // 2])
    assert read_to_resume(path, large=100_000).events == first.events
    point.write_bytes(kept)
    path.unlink()
    write(path, long_story(30))
    assert read_to_resume(path, large=100_000).events == read(path).events


def test_a_large_log_that_is_damaged_is_still_read_as_far_as_it_is_whole(tmp_path):
    path = tmp_path / "s" / "events.jsonl"
    write(path, long_story(250))
    lines = path.read_bytes().splitlines(keepends=True)
    lines[-3] = lines[-3][:-30] + b"\n"
    lines.insert(900, lines[2])
    path.write_bytes(b"".join(lines))
    loaded = read_to_resume(path, large=100_000)
    assert len(loaded.damage) == 2
    assert conversation(path, loaded).messages() == fold(read(path).events).messages()


def test_a_summary_in_a_large_log_moves_its_resume_point(sessions, monkeypatch):
    monkeypatch.setattr("cowork.sessions.log.resume_reader.LARGE", 100_000)
    monkeypatch.setattr("cowork.sessions.log.resume_reader.read_to_resume.__kwdefaults__", {"large": 100_000})
    with SessionLog.create(sessions, "s1") as log:
        for event in long_story(300):
            log(event)
    point = log.folder / RESUME_POINT
    assert point.exists()
    before = point.read_bytes()
    with SessionLog.open(sessions, "s1") as log:
        assert log.loaded.leftovers
    assert len(point.read_bytes()) >= len(before) > 1_000
