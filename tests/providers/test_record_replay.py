"""Recording and replay: the same items to the byte, in any order, and a clear word where they part."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cowork.core.blocks import Image, Message, Text, Thinking, ToolResult, ToolUse, Usage
from cowork.core.errors import ProviderError, UserError
from cowork.core.ports import TASK_MARK, Delta, Provider, Reply, Request, Retry, Source, ToolSpec
from cowork.providers.recording.record import Recorder, RequestDump, item_to_dict, request_to_dict
from cowork.providers.recording.replay import Replay, difference, item_from_dict, move, settle
from cowork.providers.retry import Retrying
from cowork.providers.scripted import Scripted


def asked(*texts: str, system: str = "sys", **fields: Any) -> Request:
    roles = ("user", "assistant")
    return Request(system, tuple(Message(roles[i % 2], (Text(t),)) for i, t in enumerate(texts)), **fields)  # type: ignore[arg-type]


async def play(provider: Provider, request: Request) -> list[Any]:
    """Everything a stream gave, its failure included."""
    items: list[Any] = []
    try:
        async for item in provider.stream(request):
            items.append(item)
    except ProviderError as e:
        items.append((e.kind, e.message, e.status, e.retry_after, e.usage))
    return items


async def no_wait(seconds: float) -> None:
    pass


TALK = [
    {"think": "hm", "say": "Let me look.", "chunks": 3, "call": {"Read": {"file_path": "a\u2028é\ud800"}}},
    {"say": "abc", "chunks": 3, "fault": [{"status": 529, "at": "middle"}, {"kind": "stalled", "at": "last"}]},
    {"fault": {"status": 401, "message": "no key"}},
    "end",
]
REQUESTS = [
    asked("a", tools=(ToolSpec("Read", "reads", {"type": "object"}),)),
    asked("a", "b", "c"),
    asked("a", "b", "c", "d", "e", tool_choice="none"),
    asked("a", "b", "c", "d", "f", thinking="high", max_output_tokens=9),
]


async def test_a_replay_is_identical_to_the_byte_faults_and_waits_included(tmp_path: Path) -> None:
    first, second = tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    model = Scripted(TALK, price={"input": 3, "output": 15}, model="m", context_window=99)
    recorder = Recorder(first)
    recorded = recorder.wrap(Retrying(model, sleep=no_wait))
    told = [await play(recorded, request) for request in REQUESTS]
    costs = [recorded.price(item.usage) for items in told for item in items if isinstance(item, Reply)]
    recorder.close()

    recording = Replay(first)
    again = Recorder(second)
    replayed = again.wrap(recording.open())
    assert [await play(replayed, request) for request in REQUESTS] == told
    assert [type(i) for i in told[1]] == [Delta, Delta, Retry, Delta, Delta, Delta, Retry, Delta, Delta, Delta, Reply]
    assert told[2] == [("auth", "no key", 401, None, Usage())]
    assert [replayed.price(i.usage) for items in told for i in items if isinstance(i, Reply)] == costs
    assert (replayed.name, replayed.model, replayed.context_window) == ("scripted", "m", 99)
    again.close()
    assert first.read_bytes() == second.read_bytes()


async def test_parallel_children_may_ask_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    children = {"*": [{"match": f"p{i}", "turns": [f"one {i}", f"two {i}"]} for i in range(5)]}

    def child(i: int, *later: str) -> Request:
        return asked(f"p{i}", *later, system=f"r{TASK_MARK}d{i}", session_id=f"s/explore-{i}")

    async def whole(provider: Provider, i: int, order: list[int]) -> list[Any]:
        first = await play(provider, child(i))
        order.append(i)
        return [first, await play(provider, child(i, f"one {i}", "go on"))]

    recorder = Recorder(path)
    recorded = recorder.wrap(Scripted([], children))
    told = [await whole(recorded, i, []) for i in range(5)]
    replayed = Replay(path).open()
    order: list[int] = []
    backwards = await asyncio.gather(*(whole(replayed, i, order) for i in reversed(range(5))))
    assert order == [4, 3, 2, 1, 0]
    assert list(reversed(backwards)) == told


async def test_the_same_request_twice_is_answered_in_the_recorded_order_and_no_third_time(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    recorder = Recorder(path)
    recorded = recorder.wrap(Scripted(["one", "two", "three"]))
    told = [await play(recorded, r) for r in (asked("a"), asked("a"), asked("b"))]
    replayed = Replay(path).open()
    assert [await play(replayed, asked("a")) for _ in range(2)] == told[:2]
    [(kind, message, *_)] = await play(replayed, asked("a"))
    assert kind == "script"
    assert message == f"{path}: request number 1 of the recording is made once more than it was recorded"
    await play(replayed, asked("b"))
    [(_, message, *_)] = await play(replayed, asked("c"))
    assert message == f"{path}: all 3 recorded requests were played, and one more was made"


async def test_a_mismatch_names_the_nearest_request_the_place_and_both_sides(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    recorder = Recorder(path)
    recorded = recorder.wrap(Scripted(["one", "two"]))
    await play(recorded, asked("hello there"))
    await play(recorded, asked("hello there", "one", "please read the file src/auth.py and fix it"))
    replayed = Replay(path).open()
    [(kind, message, *_)] = await play(
        replayed, asked("hello there", "one", "please read the file src/login.py and fix it")
    )
    assert kind == "script"
    assert message == (
        f"{path}: no recorded request is like this one; nearest is number 2: messages[2].content[0].text: "
        'recorded …"e read the file src/auth.py and fix it", now …"e read the file src/login.py and fix it"'
    )
    [(_, message, *_)] = await play(replayed, asked("hello there", system="other"))
    assert message.endswith('nearest is number 1: system: recorded "sys", now "other"')
    [(_, message, *_)] = await play(replayed, asked("hello there", "one"))
    assert "messages: recorded 1 of them, now 2" in message or "messages: recorded 3 of them, now 2" in message


async def test_another_folder_another_day_and_another_session_still_replay(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"

    def request(cwd: str, session: str, date: str, took: str, commit: str) -> Request:
        env = f"<environment>\ncwd: {cwd}\nplatform: x\ndate: {date}\ngit branch: b{took}\n</environment>"
        result = f"{cwd}/src/a.py in {took}s at {date}T10:00:00Z, commit {commit}, log ~/.cowork/{session}/out"
        return Request(
            "sys",
            (
                Message("user", (Text(env), Text("go"))),
                Message("assistant", (ToolUse(f"call_{commit}", "Bash", {"command": f"ls {cwd}"}),)),
                Message("user", (ToolResult(f"call_{commit}", result),)),
            ),
            session_id=session,
        )

    recorder = Recorder(path, facts={"cwd": "/home/ann/shop", "session": "abcdefghijk2"})
    model = Scripted([{"say": "see /home/ann/shop/src", "call": {"Read": {"file_path": "/home/ann/shop/a.py"}}}])
    await play(recorder.wrap(model), request("/home/ann/shop", "abcdefghijk2", "2026-01-02", "1.25", "ab12cd3"))

    here = {"cwd": "/srv/bob/repo", "session": "zyxwvutsrq77"}
    later = request("/srv/bob/repo", "zyxwvutsrq77", "2027-05-06", "0.4", "9f8e7d6c5b")
    later = Request(later.system, later.messages, session_id="other")
    unlike = Replay(path, facts={}).open()
    assert (await play(unlike, later))[0][0] == "script"
    items = await play(Replay(path, facts=here).open(), later)
    assert isinstance(items[-1], Reply), items
    assert items[-1].text == "see /srv/bob/repo/src"
    assert items[-1].calls[0].input == {"file_path": "/srv/bob/repo/a.py"}


async def test_keys_are_in_no_file_and_the_files_are_private(tmp_path: Path) -> None:
    secret = 'sk-"quoted"\\key-1234567890'
    path, dump_path = tmp_path / "r.jsonl", tmp_path / "d.jsonl"
    old = os.umask(0)
    try:
        recorder = Recorder(path, secrets=[secret, ""])
        dump = RequestDump(dump_path, secrets=[secret])
    finally:
        os.umask(old)
    model = Scripted([f"your key is {secret}"], on_request=dump)
    told = await play(recorder.wrap(model), asked(f"env shows {secret}"))
    dump({"input": secret, "n": 1})
    dump(json.dumps({"input": "plain"}).encode())
    recorder.close()
    dump.close()
    dump.close()
    for file in (path, dump_path):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert "1234567890" not in file.read_text()
    lines = [json.loads(line) for line in dump_path.read_text().splitlines()]
    assert lines[0]["messages"][0]["content"][0]["text"] == "env shows <key>"
    assert lines[1:] == [{"input": "<key>", "n": 1}, {"input": "plain"}]
    bodies: list[bytes] = []
    again = Replay(path, secrets=[secret], on_request=bodies.append)
    replayed = await play(again.open(), asked(f"env shows {secret}"))
    assert [json.loads(body)["system"] for body in bodies] == ["sys"]
    assert [type(i) for i in replayed] == [type(i) for i in told]


async def test_an_existing_file_is_replaced_only_when_it_is_a_recording(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    path.write_text("my notes\n")
    with pytest.raises(UserError, match="exists and is not a recording"):
        Recorder(path)
    assert path.read_text() == "my notes\n"
    fine = tmp_path / "r.jsonl"
    fine.touch(mode=0o644)
    for say in ("one", "two"):
        recorder = Recorder(fine)
        await play(recorder.wrap(Scripted([say])), asked("a"))
        recorder.close()
    assert stat.S_IMODE(fine.stat().st_mode) == 0o600
    assert (await play(Replay(fine).open(), asked("a")))[-1].text == "two"
    with pytest.raises(UserError, match="Cannot write"):
        Recorder(tmp_path / "none" / "r.jsonl")


async def test_an_interrupted_reply_is_recorded_as_such(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    reached = asyncio.Event()

    async def forever(seconds: float) -> None:
        reached.set()
        await asyncio.Event().wait()

    recorder = Recorder(path)
    task = asyncio.create_task(play(recorder.wrap(Scripted([{"say": "x", "delay_ms": 1}], sleep=forever)), asked("a")))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    [(kind, message, *_)] = await play(Replay(path).open(), asked("a"))
    assert (kind, message) == ("script", f"{path}: this reply was interrupted when it was recorded")


async def test_a_torn_last_line_is_left_out_and_damage_elsewhere_is_said(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    recorder = Recorder(path)
    provider = recorder.wrap(Scripted(["one", "two"]))
    told = await play(provider, asked("a"))
    await play(provider, asked("b"))
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    assert await play(Replay(path).open(), asked("a")) == told
    lines = whole.split(b"\n")
    path.write_bytes(b"\n".join([*lines[:2], b"{oops", *lines[3:]]))
    with pytest.raises(UserError, match="is damaged in line 3"):
        Replay(path)
    for content, message in [
        (b"hello\n", "not a recording"),
        (b"\xff\xfe\n", "not a recording"),
        (b"", "holds no exchange"),
        (b'{"type": "recording", "version": 99, "facts": {}}\n', "not a recording of this version"),
    ]:
        path.write_bytes(content)
        with pytest.raises(UserError, match=message):
            Replay(path).open()
    with pytest.raises(UserError, match="Cannot read"):
        Replay(tmp_path / "none")


async def test_main_and_light_models_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    recorder = Recorder(path)
    main, light = recorder.wrap(Scripted(["big"], model="m")), recorder.wrap(Scripted(["small"], model="l"), "light")
    await play(main, asked("a"))
    await play(light, asked("a"))
    recording = Replay(path)
    assert (await play(recording.open("light"), asked("a")))[-1].text == "small"
    assert (recording.open("light").model, recording.open("other").model) == ("l", "m")


def test_a_long_conversation_is_stored_once_and_not_once_a_turn(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    recorder = Recorder(path)
    texts: list[str] = []
    for turn in range(40):
        texts += [f"{turn} " + "x" * 1000, "y" * 1000]
        recorder.keep("main", asked(*texts, system="s" * 5000), [], "cut")
    assert path.stat().st_size < 40 * 2000 * 2 + 5000 + 40 * 1200


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, JSON)
def test_a_difference_is_found_exactly_when_there_is_one(a: Any, b: Any) -> None:
    assert difference(a, a) == ""
    same = json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)
    found = difference(a, b, "x")
    assert "\n" not in found
    if same:
        assert found == ""
    elif a != b:
        assert found.startswith("x")


@given(st.text(max_size=60))
def test_settling_twice_changes_nothing_more(text: str) -> None:
    facts = {"cwd": "/home/ann/shop"}
    once = settle(f"{text} /home/ann/shop/a 3.5 s 2026-01-01", facts)
    assert once.endswith("<cwd>/a <duration> <date>")
    assert settle(once, facts) == once


def test_facts_move_as_whole_names_and_the_longest_first() -> None:
    old = {"cwd": "/home/ann/shop", "home": "/home/ann", "tiny": "/w"}
    new = {"cwd": "/srv/x", "home": "/root", "tiny": "/elsewhere"}
    text = "/home/ann/shop/a /home/ann/b /home/ann/shop-old /home/anna /w"
    assert move({"k": [text]}, old, new) == {"k": ["/srv/x/a /root/b /root/shop-old /home/anna /w"]}


@pytest.mark.parametrize(
    "item",
    [
        Delta("text", "é\n"),
        Delta("thinking", ""),
        Delta("tool", "{"),
        Retry(2, 5, 0.5, "server", "no", Usage(1, 2, 3, 4)),
        Reply(
            (Thinking("t", {"signature": "s"}, "m"), Text("x"), ToolUse("i", "n", {"a": [1.5]}, "cut")),
            "max_tokens",
            Usage(1),
            "m",
        ),
        Reply((Text("x"),), "end_turn", Usage(1), "m", 2, (Source("https://a.example/", "Guide", "é"), Source("u"))),
    ],
)
def test_items_survive_json(item: Any) -> None:
    raw = json.loads(json.dumps(item_to_dict(item, Scripted([]))))
    assert item_from_dict(raw) == item


def test_a_request_is_shown_whole_without_its_session() -> None:
    message = Message("user", (ToolResult("t", (Text("x"), Image("image/png", "aa")), True), Text("y")))
    request = Request("s", (message,), (ToolSpec("T", "d", {"type": "object"}),), "none", 5, 1000, "abc")
    assert request_to_dict(request) == {
        "system": "s",
        "tools": [{"name": "T", "description": "d", "schema": {"type": "object"}}],
        "messages": [
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "t",
                        "content": [
                            {"type": "text", "text": "x"},
                            {"type": "image", "media_type": "image/png", "data": "aa"},
                        ],
                        "is_error": True,
                    },
                    {"type": "text", "text": "y"},
                ],
            }
        ],
        "tool_choice": "none",
        "max_output_tokens": 5,
        "thinking": 1000,
    }
