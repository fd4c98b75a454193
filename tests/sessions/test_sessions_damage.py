from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cowork.core.blocks import Image, Text, Thinking, ToolUse, Usage
from cowork.core.events import (
    ContextCompacted,
    Event,
    Notice,
    PromptAdded,
    ReplyAdded,
    SessionRewound,
    TodoUpdated,
    ToolEnded,
    ToolStarted,
    TurnEnded,
)
from cowork.core.transcript import Transcript, fold
from cowork.sessions.log.reader import encode, read
from cowork.sessions.log.writer import SessionLog, fork
from cowork.sessions.resume_state import diagnose
from tests.fakes.wire_rules import violations

SOAK = bool(os.environ.get("COWORK_SOAK"))
ROOT = Path(__file__).parents[2]


@pytest.fixture
def whole(store, turns, stamp) -> tuple[Path, list[Event], bytes]:
    path = store(stamp(turns(2)))
    return path, read(path).events, path.read_bytes()


def line_starts(data: bytes) -> list[int]:
    return [0, *(n + 1 for n, byte in enumerate(data[:-1]) if byte == 10)]


@pytest.mark.soak
def test_a_log_cut_at_any_byte_keeps_every_whole_record_and_says_what_is_torn(whole):
    path, events, data = whole
    starts = line_starts(data)
    for size in range(0, len(data) + 1, 1 if SOAK else 23):
        path.write_bytes(data[:size])
        loaded = read(path)
        complete = sum(1 for end in [*starts[1:], len(data)] if end - 1 <= size)  # a missing line end costs nothing
        assert loaded.events == events[:complete]
        torn = size not in starts and size != len(data) and size + 1 not in starts and size + 1 != len(data)
        assert len(loaded.damage) == torn, (size, loaded.damage)
        assert not torn or "ends in the middle of a record" in loaded.damage[0]
        fold(loaded.events).messages()


@pytest.mark.soak
def test_a_flipped_byte_costs_at_most_its_record_and_is_said(whole):
    path, events, data = whole
    chance = random.Random(7)
    for _ in range(2000 if SOAK else 80):
        at, bit = chance.randrange(len(data)), 1 << chance.randrange(8)
        path.write_bytes(data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :])
        loaded = read(path)
        record = data[:at].count(b"\n")
        expected = events if data[at] == 10 else events[:record] + events[record + 1 :]
        assert loaded.events == expected, (at, bit)
        assert loaded.damage or (data[at] == 10 and at == len(data) - 1)
        fold(loaded.events).messages()


@pytest.mark.soak
def test_every_line_end_overwritten_costs_nothing(whole):
    path, events, data = whole
    for at in [n for n, byte in enumerate(data) if byte == 10]:
        for wrong in (b"\0", b"}", b"\xff", b"x"):
            path.write_bytes(data[:at] + wrong + data[at + 1 :])
            assert read(path).events == events


@pytest.mark.parametrize(
    ("ruin", "said"),
    [
        (lambda lines: [*lines[:3], lines[2], *lines[3:]], "there twice"),
        (lambda lines: [*lines[:3], b"", b"", *lines[3:]], ""),
        (lambda lines: [*lines[:3], b"not json", *lines[3:]], "Line 4 is damaged: 8 bytes"),
        (lambda lines: [*lines[:3], b"\xff\xfe\x00" * 9, *lines[3:]], "Line 4 is damaged: 27 bytes"),
        (lambda lines: [b"\0" * 4096, *lines], "Line 1 is damaged: 4096 bytes"),
        (lambda lines: [lines[1], lines[0], *lines[2:]], "out of order"),
        (lambda lines: [lines[0], lines[1][:50] + lines[1], *lines[2:]], "Line 2 is damaged: 50 bytes"),
    ],
)
def test_damage_that_loses_nothing(whole, ruin, said):
    path, events, data = whole
    path.write_bytes(b"\n".join(ruin(data.splitlines())) + b"\n")
    before = path.read_bytes()
    loaded = read(path)
    assert loaded.events == events
    assert bool(loaded.damage) == bool(said)
    assert any(said in text for text in [*loaded.damage, ""])
    assert path.read_bytes() == before, "the file stays as it was"


def test_missing_lines_are_counted(whole):
    path, events, data = whole
    lines = data.splitlines()
    path.write_bytes(b"\n".join([*lines[:4], *lines[7:]]) + b"\n")
    loaded = read(path)
    assert loaded.events == events[:4] + events[7:]
    assert loaded.damage == ["3 records are missing before line 5."]


def test_a_missing_file_is_said(tmp_path):
    loaded = read(tmp_path / "events.jsonl")
    assert loaded.events == []
    assert loaded.damage == ["events.jsonl is missing."]


def signed(raw: dict[str, object]) -> bytes:
    body = json.dumps(raw).encode()[:-1]
    return b'%s,"_crc":"%08x"}' % (body, zlib.crc32(body))


def test_events_of_a_newer_version_are_set_aside_and_their_ids_not_used_again(whole, sessions, stamp):
    path, events, data = whole
    new = {"type": "dream.had", "id": 900, "at": 1.0, "session_id": "s1", "agent": "main", "about": "sheep", "_n": 999}
    path.write_bytes(data + signed(new) + b"\n")
    loaded = read(path)
    assert loaded.events == events
    assert loaded.last_id == 900
    assert any("'dream.had'" in text and "newer version" in text for text in loaded.damage)


@pytest.mark.parametrize(
    "raw",
    [
        {"type": "prompt.added", "id": "one", "_n": 1},
        {"type": "prompt.added", "_n": 1},
        {"type": "prompt.added", "id": 1},
        {"type": "prompt.added", "id": True, "_n": 1},
        {"type": ["prompt.added"], "id": 77, "_n": 1},
        {"type": "reply.added", "id": 77, "_n": 1, "usage": {"input_tokens": "many"}},
    ],
)
def test_records_that_only_look_right_are_set_aside(whole, raw):
    path, events, data = whole
    path.write_bytes(data + signed(raw) + b"\n")
    loaded = read(path)
    assert loaded.events == events
    assert loaded.damage


def test_a_damaged_line_full_of_records_in_disguise_takes_no_time(tmp_path):
    start, end = b'{"type":"prompt.added","id":1,"at":1.0,"session_id":"', b'"_crc":"00000000"}'
    path = tmp_path / "events.jsonl"
    path.write_bytes(start * 20_000 + end + (start + end) * 20_000 + end * 20_000)
    began = time.process_time()
    assert read(path).events == []
    assert time.process_time() - began < 2


def test_the_doctor_explains_gaps_in_the_story(stamp, store):
    healthy = store(stamp([PromptAdded("x")]), "s1")
    assert diagnose(read(healthy)) == ["The start of the session is missing: its folder and model are unknown."]
    events = stamp(
        [
            PromptAdded("x"),
            ReplyAdded((Thinking("t", {}, "a"), ToolUse("1", "Read", {}), ToolUse("2", "Bash", {}))),
            ToolEnded("1", "Read", {"text": "x"}),
            ReplyAdded((Thinking("t", {}, "b"), Text("y"))),
            ToolEnded("9", "Read", {"text": "x"}),
        ]
    )
    said = "\n".join(diagnose(read(store(events, "s2"))))
    assert "1 tool calls (Bash) have no result" in said
    assert "1 results belong to a reply that is missing" in said
    assert "reasoning of 2 models" in said


# ---------------------------------------------------------------- live = resumed

text = st.text(max_size=30)
ids = st.sampled_from([f"c{n}" for n in range(6)])
agents = st.sampled_from(["main", "main", "main", "main/explore-1"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(text, json_values, max_size=3)
images = st.builds(Image, st.just("image/png"), st.just("AAAA"))
blocks = st.one_of(
    st.builds(Text, text),
    st.builds(Thinking, text, objects, st.sampled_from(["m1", "m2"])),
    st.builds(ToolUse, ids, st.sampled_from(["Read", "Bash", ""]), objects, st.sampled_from(["", "bad"])),
    images,
)
usages = st.builds(Usage, *[st.integers(0, 10**6)] * 4)
costs = st.none() | st.floats(0, 10)
events_of_any_kind = st.one_of(
    st.builds(PromptAdded, text, text, st.lists(images, max_size=1).map(tuple)),
    st.builds(
        ReplyAdded,
        st.lists(blocks, max_size=4).map(tuple),
        st.just("tool_use"),
        usages,
        costs,
        st.sampled_from(["m1", "m2"]),
    ),
    st.builds(ToolStarted, ids, st.just("Read"), objects),
    st.builds(
        ToolEnded,
        ids,
        st.just("Read"),
        st.fixed_dictionaries({"text": text, "status": st.sampled_from(["success", "error"])}),
    ),
    st.builds(
        ContextCompacted,
        text,
        st.integers(0, 30),
        st.lists(ids, max_size=2).map(tuple),
        st.lists(ids, max_size=2).map(tuple),
        tokens_after=st.integers(0, 1000),
    ),
    st.builds(SessionRewound, st.integers(0, 30), st.booleans()),
    st.builds(TodoUpdated, st.lists(objects, max_size=2).map(tuple)),
    st.builds(Notice, text, st.just("info"), st.just("x"), objects),
    st.builds(TurnEnded),
)
histories = st.lists(st.tuples(events_of_any_kind, agents), max_size=30)


@pytest.mark.soak
@settings(max_examples=3000 if SOAK else 60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(histories)
@example([(ContextCompacted(" "), "main")])
def test_the_live_transcript_is_the_resumed_one(tmp_path_factory, history):
    events = [replace(e, id=n, at=float(n), session_id="s", agent=a) for n, (e, a) in enumerate(history, 1)]
    live = {agent: Transcript(agent) for agent in ("main", "main/explore-1")}
    path = tmp_path_factory.mktemp("logs") / "s" / "events.jsonl"
    path.parent.mkdir()
    with path.open("wb") as file:
        for n, event in enumerate(events, 1):
            file.write(encode(event, n))
            for transcript in live.values():
                transcript.apply(event)
    loaded = read(path)
    assert loaded.damage == []
    assert loaded.events == events
    copies = [loaded.events]
    if events:
        copies.append(read(path.parents[1] / fork(path.parents[1], "s") / "events.jsonl").events)
    for agent, transcript in live.items():
        for resumed in (fold(copy, agent) for copy in copies):
            for model in (None, "m1", "m2"):
                assert resumed.messages(model) == transcript.messages(model)
            assert resumed.open_calls() == transcript.open_calls()
            assert (resumed.tokens, resumed.uncounted_blocks()) == (transcript.tokens, transcript.uncounted_blocks())
        assert violations(transcript.messages()) == []
    shutil.rmtree(path.parents[1])


# ---------------------------------------------------------------- kill -9

_WRITER = """
import os, signal, sys
from dataclasses import replace
from pathlib import Path
from cowork.core.blocks import Text, ToolUse, Usage
from cowork.core.events import *
from cowork.sessions.log import writer as module
from cowork.sessions.log.writer import SessionLog

sessions, turns, die_at = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
part = sys.argv[4] if len(sys.argv) > 4 else "whole"
real, count = os.write, 0

def write(fd, data):
    global count
    count += 1
    if count == die_at:
        real(fd, data[: {"none": 0, "half": len(data) // 2, "whole": len(data)}[part]])
        os.kill(os.getpid(), signal.SIGKILL)
    return real(fd, data)

module.os.write = write
try:
    log = SessionLog.open(sessions, "s1")
    number = log.loaded.last_id
except module.UserError:
    log = SessionLog.create(sessions, "s1")
    number = 0

def emit(event, agent="main"):
    global number
    number += 1
    log(replace(event, id=number, at=float(number), session_id="s1", agent=agent))

for turn in range(turns):
    emit(PromptAdded(f"prompt {turn} " + "x" * 300))
    calls = (ToolUse(f"r{number}", "Read", {}), ToolUse(f"t{number}", "Task", {}))
    emit(ReplyAdded(calls, "tool_use", Usage(1, 1), 0.1, "m"))
    call = number - 1
    emit(ToolStarted(f"r{call}", "Read"))
    emit(ToolEnded(f"r{call}", "Read", {"status": "success", "text": "y" * 500}))
    child = f"main/explore-{number}"
    emit(AgentStarted("x", tool_use_id=f"t{call}", subagent_type="explore"), child)
    emit(PromptAdded("look"), child)
    emit(ReplyAdded((Text("found"),), "end_turn", Usage(1, 1), 0.1, "m"), child)
    emit(AgentEnded("x"), child)
    emit(ToolEnded(f"t{call}", "Task", {"status": "success", "text": "found"}))
    emit(ReplyAdded((Text("done"),), "end_turn", Usage(1, 1), 0.1, "m"))
    emit(TurnEnded("completed", "done"))
    print(turn, flush=True)
log.close()
"""
EVENTS_A_TURN = 11


@pytest.fixture
def run_writer(sessions: Path) -> Callable[..., subprocess.Popen[str]]:
    def start(turns: int, die_at: int = 0, part: str = "whole") -> subprocess.Popen[str]:
        command = [sys.executable, "-c", _WRITER, str(sessions), str(turns), str(die_at), part]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)

    return start


def check_after_death(sessions: Path, finished: int) -> None:
    """No finished turn is lost, the session opens, goes on, and what would be sent is valid."""
    path = sessions / "s1" / "events.jsonl"
    if not path.exists():
        assert finished == 0
        return
    with SessionLog.open(sessions, "s1") as log:
        loaded = log.loaded
        assert sum(isinstance(e, TurnEnded) for e in loaded.events) >= finished
        assert len(loaded.damage) <= 1
        number = loaded.last_id + 1
        log(PromptAdded("after the crash", id=number, session_id="s1"))
    again = read(path)
    assert again.events[:-1] == loaded.events
    assert again.events[-1].id == number
    messages = fold(again.events).messages()
    for here, after in itertools.pairwise(messages):
        assert here.role != after.role
        if here.calls:
            assert [r.tool_use_id for r in after.results] == [c.id for c in here.calls]


@pytest.mark.soak
def test_killed_at_every_write_no_finished_turn_is_lost(sessions, run_writer):
    turns = 20
    chance = random.Random(3)
    every = [(n, part) for n in range(1, turns * EVENTS_A_TURN + 1) for part in ("none", "half", "whole")]
    for die_at, part in every if SOAK else chance.sample(every, 8):
        process = run_writer(turns, die_at, part)
        finished = len(process.communicate()[0].splitlines())
        assert process.returncode == -signal.SIGKILL
        assert finished == (die_at - 1) // EVENTS_A_TURN
        check_after_death(sessions, finished)
        shutil.rmtree(sessions)


@pytest.mark.soak
def test_killed_at_any_instant_no_finished_turn_is_lost(sessions, run_writer):
    chance = random.Random(11)
    for _ in range(300 if SOAK else 6):
        process = run_writer(100_000)
        first = process.stdout.readline()
        assert first == "0\n"
        deadline = time.monotonic() + chance.random() * 0.05
        while time.monotonic() < deadline:
            time.sleep(0.001)
        process.kill()
        finished = 1 + len(process.communicate()[0].splitlines())
        check_after_death(sessions, finished)
        shutil.rmtree(sessions)


def test_a_session_killed_again_and_again_keeps_every_finished_turn(sessions, run_writer):
    finished = 0
    for die_at in (17, 30, 5, 26, 12):
        process = run_writer(20, die_at, "half")
        finished += len(process.communicate()[0].splitlines())
        loaded = read(sessions / "s1" / "events.jsonl")
        assert sum(isinstance(e, TurnEnded) for e in loaded.events) == finished
        fold(loaded.events).messages()
    assert finished >= 4
