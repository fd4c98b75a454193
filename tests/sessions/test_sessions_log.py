from __future__ import annotations

import errno
import json
import os
import re
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cowork.core.blocks import Image, Text, Thinking, ToolUse
from cowork.core.errors import UserError
from cowork.core.events import Event, Notice, PromptAdded, ReplyAdded, SessionStarted, TextDelta, ToolEnded, TurnEnded
from cowork.core.transcript import fold
from cowork.private_files import private_folder
from cowork.sessions.log import writer as log_module
from cowork.sessions.log.lock import Lock, holder
from cowork.sessions.log.reader import read
from cowork.sessions.log.writer import LOCK, SessionLog, new_id
from tests.fakes.effort import calls


def durable(events: list[Event]) -> list[Event]:
    return [e for e in events if e.durable]


def test_what_was_logged_is_read_back_and_deltas_are_left_out(store, turns, stamp):
    events = stamp(turns(3))
    assert any(isinstance(e, TextDelta) for e in events)
    loaded = read(store(events))
    assert loaded.events == durable(events)
    assert loaded.damage == []
    assert loaded.last_id == len(events)


def test_every_line_is_json_of_its_own(store, turns, stamp):
    lines = store(stamp(turns(2))).read_text().splitlines()
    assert [json.loads(line)["_n"] for line in lines] == list(range(1, len(lines) + 1))


def test_odd_values_survive(store, stamp):
    events = stamp(
        [
            PromptAdded("lone \udcff surrogate, \u2028 separators \r\n \x00 and \x85"),
            ReplyAdded((Thinking("t", {"signature": "x==", "deep": [1, None, {"a": 1.5}]}, "m"), Text("é"))),
            ReplyAdded((ToolUse("1", "Bash", {"command": "printf '\\x1b'", "n": 10**30}),)),
            ToolEnded("1", "Bash", {"text": "\x1b[31m"}, {}, (Image("image/png", "AAAA"),)),
            Notice("", data={"nested": [[[]]]}),
        ]
    )
    assert read(store(events)).events == events


def test_a_value_that_is_not_json_is_stored_as_text(store, stamp):
    (event,) = read(store(stamp([PromptAdded("x"), Notice(data={"path": Path("/a")})]))).events[1:]
    assert event.data == {"path": "/a"}


def test_an_event_that_cannot_be_stored_is_said_and_the_rest_goes_on(sessions, stamp):
    loop: dict[str, object] = {}
    loop["self"] = loop
    said: list[str] = []
    log = SessionLog.create(sessions, "s1")
    log.report = said.append
    for event in stamp([PromptAdded("a"), Notice(data=loop), PromptAdded("b")]):
        log(event)
    log.close()
    assert [e.text for e in read(log.path).events] == ["a", "b"]
    assert len(said) == 1
    assert "notice" in said[0]


def test_opening_goes_on_where_it_ended(sessions, store, turns, stamp):
    first = stamp(turns(1))
    store(first)
    more = stamp([PromptAdded("more")], first=first[-1].id + 1)
    with SessionLog.open(sessions, "s1") as log:
        assert log.loaded.events == durable(first)
        log(more[0])
    loaded = read(log.path)
    assert loaded.events == durable(first) + more
    assert loaded.damage == []


def test_a_new_record_after_a_torn_tail_starts_on_a_line_of_its_own(sessions, store, turns, stamp):
    path = store(stamp(turns(1)))
    whole = read(path).events
    path.write_bytes(path.read_bytes()[:-20])
    with SessionLog.open(sessions, "s1") as log:
        assert len(log.loaded.damage) == 1
        log(stamp([PromptAdded("after")], first=500)[0])
    loaded = read(path)
    assert [e.id for e in loaded.events] == [*(e.id for e in whole[:-1]), 500]
    assert len(loaded.damage) == 1


def test_a_tail_that_only_lacks_its_line_end_is_whole(sessions, store, turns, stamp):
    path = store(stamp(turns(1)))
    path.write_bytes(path.read_bytes()[:-1])
    with SessionLog.open(sessions, "s1") as log:
        assert log.loaded.damage == []
        log(stamp([PromptAdded("after")], first=500)[0])
    assert read(path).damage == []


def test_a_session_without_a_prompt_leaves_nothing(sessions, stamp):
    log = SessionLog.create(sessions, "s1")
    log(stamp([SessionStarted("/project")])[0])
    log.close()
    assert os.listdir(sessions) == []


def test_a_ruined_log_that_is_opened_and_closed_is_kept(sessions, store, stamp):
    path = store(stamp([PromptAdded("x")]))
    path.write_bytes(b"\xff" * 100)
    SessionLog.open(sessions, "s1").close()
    assert path.read_bytes() == b"\xff" * 100


def test_calls_after_the_end_change_nothing(sessions, stamp):
    log = SessionLog.create(sessions, "s1")
    log(stamp([PromptAdded("x")])[0])
    log.close()
    size = log.path.stat().st_size
    log(stamp([PromptAdded("y")])[0])
    log.close()
    log.sync()
    assert log.path.stat().st_size == size


@pytest.mark.parametrize("name", ["nope", "../s1", "", "/etc", "S1"])
def test_a_session_that_does_not_exist_is_a_user_error(sessions, store, stamp, name):
    store(stamp([PromptAdded("x")]))
    with pytest.raises(UserError, match="no session"):
        SessionLog.open(sessions, name)


def test_an_id_in_use_cannot_be_created_again(sessions, store, stamp):
    store(stamp([PromptAdded("x")]))
    with pytest.raises(UserError, match="exists already"):
        SessionLog.create(sessions, "s1")


def test_a_session_that_cannot_begin_leaves_nothing_open(sessions):
    private_folder(sessions / "a")
    (sessions / "a/events.jsonl").symlink_to("nowhere")
    before = os.listdir("/dev/fd")
    with pytest.raises(OSError):
        SessionLog.create(sessions, "a")
    assert (os.listdir("/dev/fd"), os.listdir(sessions)) == (before, [])


def test_ids_are_twelve_base32_characters_and_differ():
    ids = {new_id() for _ in range(200)}
    assert len(ids) == 200
    assert all(re.fullmatch("[a-z2-7]{12}", i) for i in ids)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o177, 0o277, 0o777])
def test_only_the_owner_can_read_whatever_the_umask(sessions, store, turns, stamp, umask):
    before = os.umask(umask)
    try:
        path = store(stamp(turns(1)))
    finally:
        os.umask(before)
    modes = {p: stat.S_IMODE(p.stat().st_mode) for p in [sessions, path.parent, path, path.parent / LOCK]}
    assert list(modes.values()) == [0o700, 0o700, 0o600, 0o600]


def test_loose_permissions_are_tightened_on_open(sessions, store, stamp):
    path = store(stamp([PromptAdded("x")]))
    path.chmod(0o644)
    path.parent.chmod(0o755)
    SessionLog.open(sessions, "s1").close()
    assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o600, 0o700)


def test_a_log_that_is_a_link_is_not_followed(sessions, tmp_path, stamp):
    target = tmp_path / "victim"
    target.write_text("precious")
    (sessions / "s1").mkdir(parents=True)
    (sessions / "s1" / "events.jsonl").symlink_to(target)
    with pytest.raises(UserError, match="no session s1"):
        SessionLog.open(sessions, "s1")
    assert target.read_text() == "precious"


# ---------------------------------------------------------------- the disk is asked to keep it


def test_the_disk_is_asked_at_the_end_of_each_turn_of_main_and_at_the_end(sessions, stamp, turns, monkeypatch):
    synced: list[int] = []
    monkeypatch.setattr(log_module.os, "fdatasync", synced.append)
    with SessionLog.create(sessions, "s1") as log:
        for event in stamp(turns(3)):
            log(event)
        log(stamp([TurnEnded(agent="main/explore-1")], first=900)[0])
        assert len(synced) == 3
    assert len(synced) == 4


def test_one_write_a_record(sessions, stamp, turns, monkeypatch):
    writes: list[int] = []
    real = os.write
    monkeypatch.setattr(log_module.os, "write", lambda fd, data: writes.append(len(data)) or real(fd, data))
    events = stamp(turns(2))
    with SessionLog.create(sessions, "s1") as log:
        for event in events:
            log(event)
    assert len(writes) == len(durable(events))


# ---------------------------------------------------------------- the disk is full


class FullDisk:
    """`os.write` on a disk with so many bytes left."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int, error: int = errno.ENOSPC) -> None:
        self.room = room
        self._error = error
        self._write = os.write
        monkeypatch.setattr(log_module.os, "write", self.write)

    def write(self, fd: int, data: bytes) -> int:
        if not self.room:
            raise OSError(self._error, os.strerror(self._error))
        done = self._write(fd, data[: self.room])
        self.room -= done
        return done


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
@pytest.mark.parametrize("room", [0, 1, 300, 1000, 1001, 5000])
def test_a_full_disk_is_said_once_and_nothing_is_corrupt(sessions, stamp, turns, monkeypatch, room, error):
    said: list[str] = []
    events = stamp(turns(6))
    disk = FullDisk(monkeypatch, room, error)
    log = SessionLog.create(sessions, "s1")
    log.report = said.append
    for event in events:
        log(event)
    assert len(said) == 1
    assert os.strerror(error) in said[0]
    loaded = read(log.path)
    assert loaded.damage == []
    assert loaded.events == durable(events)[: len(loaded.events)]
    disk.room = 10**9
    last = stamp([PromptAdded("room again")], first=len(events) + 1)
    log(last[0])
    log.close()
    loaded = read(log.path)
    assert loaded.damage == []
    assert loaded.events == durable(events) + last
    assert said[1:] == ["The session is being saved again. Nothing was lost."]


def test_what_waits_in_memory_is_bounded_and_a_loss_is_said(sessions, stamp, monkeypatch):
    monkeypatch.setattr(log_module, "BACKLOG_BYTES", 3000)
    said: list[str] = []
    disk = FullDisk(monkeypatch, 0)
    log = SessionLog.create(sessions, "s1")
    log.report = said.append
    for event in stamp(PromptAdded("x" * 500) for _ in range(20)):
        log(event)
    disk.room = 10**9
    log.close()
    loaded = read(log.path)
    assert 1 < len(loaded.events) < 6
    assert loaded.events[-1].id == 20
    lost = 20 - len(loaded.events)
    assert loaded.damage == [f"{lost} records are missing before line 1."]
    assert said[1] == f"The session is being saved again. {lost} records were lost meanwhile."


def test_very_many_records_for_a_full_disk_take_little_time_each(sessions, stamp, monkeypatch):
    FullDisk(monkeypatch, 0)
    log = SessionLog.create(sessions, "s1")
    first, later = ([*stamp(PromptAdded("x") for _ in range(3_000))] for _ in range(2))
    effort = calls(lambda: [log(event) for event in first])
    assert calls(lambda: [log(event) for event in later]) < 1.1 * effort
    log.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_real_full_file_system(tmp_path, stamp, turns):
    mount = tmp_path / "small"
    mount.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(mount)], capture_output=True).returncode:
        pytest.skip("no mounts here")
    try:
        said: list[str] = []
        events = stamp(turns(60))
        log = SessionLog.create(mount / "sessions", "s1")
        log.report = said.append
        for event in events:
            log(event)
        assert len(said) == 1
        loaded = read(log.path)
        assert loaded.damage == []
        assert 10 < len(loaded.events) < len(durable(events))
        subprocess.run(["mount", "-o", "remount,size=4m", str(mount)], check=True)
        log.close()
        assert read(log.path).events == durable(events)
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=False)


# ---------------------------------------------------------------- one writer


_WRITER = """
import sys
from pathlib import Path
from cowork.core.errors import UserError
from cowork.core.events import PromptAdded
from cowork.sessions.log.writer import SessionLog
try:
    log = SessionLog.open(Path(sys.argv[1]), "s1")
except UserError as error:
    print(error.message, flush=True)
else:
    print("mine", flush=True)
    sys.stdin.read()
    log(PromptAdded("from a process", id=log.loaded.last_id + 1))
    log.close()
"""


@pytest.fixture
def writer(sessions: Path) -> Callable[[], subprocess.Popen[str]]:
    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(sessions)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )

    return start


@pytest.mark.parametrize("count", [2, 8])
def test_of_many_processes_one_writes_and_the_others_are_told_who(store, stamp, sessions, writer, count):
    path = store(stamp([PromptAdded("x")]))
    started = [writer() for _ in range(count)]
    answers = [p.stdout.readline().strip() for p in started]
    winners = [p for p, said in zip(started, answers, strict=True) if said == "mine"]
    assert len(winners) == 1
    losers = [said for said in answers if said != "mine"]
    assert losers == [f"Session s1 is in use by process {winners[0].pid}."] * (count - 1)
    assert holder(path.parent / LOCK) == winners[0].pid
    for process in started:
        process.communicate()
    loaded = read(path)
    assert len(loaded.events) == 2
    assert loaded.damage == []
    assert holder(path.parent / LOCK) is None


def test_the_lock_of_a_killed_process_is_free(store, stamp, sessions, writer):
    store(stamp([PromptAdded("x")]))
    process = writer()
    assert process.stdout.readline() == "mine\n"
    process.kill()
    process.communicate()
    SessionLog.open(sessions, "s1").close()


def test_the_same_process_is_refused_too(store, stamp, sessions):
    store(stamp([PromptAdded("x")]))
    with SessionLog.open(sessions, "s1"), pytest.raises(UserError, match=f"process {os.getpid()}"):
        SessionLog.open(sessions, "s1")


def test_without_file_locks_the_process_id_decides(store, stamp, sessions, monkeypatch):
    path = store(stamp([PromptAdded("x")]))

    def unsupported(fd: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("cowork.sessions.log.lock.fcntl.flock", unsupported)
    with SessionLog.open(sessions, "s1"), pytest.raises(UserError, match=f"process {os.getpid()}"):
        SessionLog.open(sessions, "s1")
    (path.parent / LOCK).write_text("4194303999\n")  # nobody has this id
    SessionLog.open(sessions, "s1").close()
    (path.parent / LOCK).write_text(f"{os.getpid()} 1\n")  # a process that began at another time had it
    SessionLog.open(sessions, "s1").close()


def test_a_resumed_session_sends_what_a_live_one_would(store, turns, stamp):
    events = stamp(turns(4))
    assert fold(read(store(events)).events).messages() == fold(events).messages()


def test_a_link_of_the_users_keeps_the_mode_of_what_it_leads_to(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    (tmp_path / "sessions").symlink_to(shared)
    private_folder(tmp_path / "sessions")
    private_folder(tmp_path / "sessions" / "one")
    assert [stat.S_IMODE(path.stat().st_mode) for path in (shared, shared / "one")] == [0o755, 0o700]


def test_without_file_locks_only_one_of_many_that_start_at_once_gets_the_session(tmp_path, monkeypatch):
    def unsupported(fd: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("cowork.sessions.log.lock.fcntl.flock", unsupported)
    path, crowd = tmp_path / LOCK, 8
    start = threading.Barrier(crowd)

    def attempt(_: int) -> Lock | None:
        start.wait()
        try:
            return Lock(path)
        except UserError:
            return None

    with ThreadPoolExecutor(crowd) as pool:
        for round in range(40):
            (held,) = [lock for lock in pool.map(attempt, range(crowd)) if lock]
            held.release()
            if round % 2:  # as if it had died with the right in its hands
                (claim,) = tmp_path.glob("lock.*")
                claim.unlink()
                claim.symlink_to(f"{os.getpid()} 1")
                path.write_text(f"{os.getpid()} 1\n")
