"""Snapshots beside commands: nothing waits for a large tree, and what is promised of it holds."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cowork.core import spawn
from cowork.core.events import PromptAdded, TurnEnded
from cowork.core.workspace import Workspace
from cowork.sessions.checkpoints import recorder, scan
from cowork.sessions.checkpoints.entries import Snapshot
from cowork.sessions.checkpoints.recorder import Checkpoints
from cowork.sessions.checkpoints.scan import Control, Listing, Moment, Scanner, ScanStopped
from cowork.sessions.checkpoints.store import Contents
from tests.sessions.test_sessions_rewind import let_it_age, picture


class Gate:
    """A tree so large that the walk stands still in the middle until it is let on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, after: str) -> None:
        self.reached, self.open = threading.Event(), threading.Event()
        real = scan.walk

        def walk(*args: object, **kwargs: object) -> Iterator[tuple[str, Listing]]:
            for folder, listing in real(*args, **kwargs):  # type: ignore[arg-type]
                yield folder, listing
                if folder == after and not self.open.is_set():
                    self.reached.set()
                    assert self.open.wait(60)

        monkeypatch.setattr(scan, "walk", walk)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for name in ("a", "b"):
        (root / name).mkdir(parents=True)
        for number in range(3):
            (root / name / f"{number}.txt").write_text(f"{name} {number}\n")
    (root / "b" / "link").symlink_to("0.txt")
    let_it_age(root)
    return root


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def points(tmp_path: Path, project: Path, said: list[str], monkeypatch: pytest.MonkeyPatch) -> Checkpoints:
    monkeypatch.setattr(recorder, "SAY_AFTER_S", 0.02)
    monkeypatch.setattr(recorder, "WAIT_S", 0.04)
    return Checkpoints(tmp_path / "s" / "id" / "checkpoints", project, report=said.append)


async def overtake(points: Checkpoints, project: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """A command that changes what the snapshot before it has not come to."""
    gate = Gate(monkeypatch, after="")
    points.begin(1)
    shown: list[str] = []
    await points.before_command(shown.append)
    assert "Looking at the files first" in shown[0]
    await asyncio.to_thread(gate.reached.wait, 60)
    await asyncio.to_thread(subprocess.run, ["bash", "-c", command], cwd=project, check=True)
    gate.open.set()
    await asyncio.to_thread(points.end)


async def test_a_command_does_not_wait_for_a_whole_scan_and_that_is_said(points, project, monkeypatch, said):
    await overtake(points, project, monkeypatch, "echo changed > b/0.txt; echo new > b/new.txt")
    assert len(said) == 1
    assert "still being looked at" in said[0]
    plan = points.preview(1)
    assert {step.path: bool(step.problem) for step in plan.steps} == {"b/0.txt": True, "b/new.txt": True}
    done = points.restore(plan)
    assert (done.restored, len(done.failed)) == ((), 2)
    assert (project / "b/0.txt").read_text() == "changed\n"  # never taken for what was there before


COMMAND = "echo changed > b/0.txt; echo new > b/new.txt; rm b/1.txt b/link; mkdir b/more; echo n > b/more/n; rm -r a"


async def test_what_the_last_look_knew_comes_back_even_from_under_a_running_scan(points, project, monkeypatch, said):
    points.warm()
    await asyncio.to_thread(points.end)
    before = picture(project)
    await overtake(points, project, monkeypatch, COMMAND)
    done = points.restore(points.preview(1))
    assert done.failed == ()
    assert picture(project) == before
    assert said == []  # nothing is at risk, so nobody is alarmed


async def test_what_a_command_changes_under_the_first_look_of_a_chat_is_not_taken_for_old(
    points, project, monkeypatch, said
):
    gate = Gate(monkeypatch, after="")
    points.warm()
    points.begin(1)
    await asyncio.to_thread(gate.reached.wait, 60)
    await points.before_command()
    (project / "b" / "0.txt").write_text("changed\n")
    gate.open.set()
    plan = await asyncio.to_thread(points.preview, 1)
    assert [(step.path, bool(step.problem)) for step in plan.steps] == [("b/0.txt", True)]
    assert len(said) == 1


async def test_everyone_who_asks_waits_for_the_scans_even_after_one_who_gave_up(points, project, monkeypatch):
    gate = Gate(monkeypatch, after="")
    points.begin(1)
    await points.before_command()
    (project / "a/0.txt").write_text("changed\n")
    first = asyncio.create_task(asyncio.to_thread(points.preview, 1))
    await asyncio.to_thread(gate.reached.wait, 60)
    await asyncio.sleep(0.05)  # it waits for the scan that runs and the one after it
    first.cancel()
    second = asyncio.create_task(asyncio.to_thread(points.preview, 1))
    await asyncio.sleep(0.05)
    gate.open.set()
    assert [step.path for step in (await second).steps] == ["a/0.txt"]


class SlowDisk:
    """A disk that gives no content after the first few until it is let on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, gives: int) -> None:
        self.open, self.reads = threading.Event(), 0
        real = scan._read

        def read(*args: object) -> object:
            self.reads += 1
            assert self.reads <= gives or self.open.wait(60)
            return real(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(scan, "_read", read)


@pytest.fixture
def many(project: Path) -> Path:
    for number in range(100):
        (project / "a" / f"more{number}.txt").write_text(str(number))
    let_it_age(project)
    return project


async def test_a_command_does_not_wait_for_more_than_can_be_read_in_that_time(points, many, monkeypatch, said):
    monkeypatch.setattr(recorder, "WAIT_S", 3600)
    monkeypatch.setattr(recorder, "READS_A_SECOND", 0.001)
    disk = SlowDisk(monkeypatch, gives=0)
    points.begin(1)
    await points.before_command()
    assert len(said) == 1
    assert "still being looked at" in said[0]
    disk.open.set()


async def test_at_the_end_of_a_turn_the_rest_is_not_read_and_what_was_read_comes_back(points, many, monkeypatch, said):
    """The times of a file tell whether the turn changed it; its content is of use only to later turns."""
    disk = SlowDisk(monkeypatch, gives=50)
    points.begin(1)
    await points.before_command()
    before = picture(many)
    (many / "a" / "0.txt").write_text("changed\n")  # the first that was read
    points._end_soon()
    disk.open.set()
    plan = points.preview(1)
    assert disk.reads < 60
    assert [step.path for step in plan.steps] == ["a/0.txt"]
    assert points.restore(plan).failed == ()
    assert picture(many) == before
    points.begin(2)  # whose snapshot goes on where the first left off
    monkeypatch.setattr(recorder, "WAIT_S", 60)
    await points.before_command()
    shutil.rmtree(many / "a")
    assert points.restore(points.preview(2)).failed == ()
    assert picture(many) == before


async def test_after_a_turn_what_is_not_kept_yet_is_copied_while_nobody_waits(points, many, monkeypatch):
    points(PromptAdded("begin", id=1))
    await points.before_command()
    points._unfinished[-1].control.enough = True
    points(TurnEnded())
    await asyncio.to_thread(points._worker.settle)
    assert points._scanner.has_all_contents
    assert points.progress() == ""


@pytest.mark.parametrize("set_by", [-7200, 7200])
@pytest.mark.parametrize("overtaken", [False, True])
async def test_a_clock_that_is_set_meanwhile_spoils_no_snapshot(
    tmp_path, project, monkeypatch, set_by: int, overtaken: bool
):
    ahead = -set_by  # files show the clock of the machine, so the one before it was set is the other one
    points = Checkpoints(
        tmp_path / "s" / "id" / "checkpoints",
        project,
        moment=lambda: Moment(lambda: time.time_ns() + ahead * 1_000_000_000),
    )
    monkeypatch.setattr(recorder, "WAIT_S", 0.04 if overtaken else 60)
    points.warm()
    await asyncio.to_thread(points.end)
    before = picture(project)
    gate = Gate(monkeypatch, after="")
    if not overtaken:
        gate.open.set()
    points.begin(1)
    await points.before_command()
    ahead = 0  # the clock is set
    await asyncio.to_thread(subprocess.run, ["bash", "-c", COMMAND], cwd=project, check=True)
    gate.open.set()
    await asyncio.to_thread(points.end)
    done = points.restore(points.preview(1))
    assert done.failed == ()
    assert picture(project) == before


async def test_stopping_while_a_command_waits_for_the_scan_takes_no_time(points, project, monkeypatch):
    monkeypatch.setattr(recorder, "WAIT_S", 3600)
    gate = Gate(monkeypatch, after="")
    points.begin(1)
    waiting = asyncio.create_task(points.before_command())
    await asyncio.to_thread(gate.reached.wait, 60)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    gate.open.set()
    await asyncio.to_thread(points.end)


async def test_the_end_of_a_turn_waits_for_nothing_and_the_next_write_is_its_own(points, project, monkeypatch):
    points.begin(1)
    await points.before_command()
    (project / "a/0.txt").write_text("one\n")
    gate = Gate(monkeypatch, after="")
    points._end_soon()
    await asyncio.to_thread(gate.reached.wait, 60)
    points.begin(2)
    points.before_write(project / "b/0.txt")
    (project / "b/0.txt").write_text("two\n")
    gate.open.set()
    await asyncio.to_thread(points.end)
    assert [step.path for step in points.preview(2).steps] == ["b/0.txt"]
    plan = points.preview(1)
    assert [(step.path, step.conflict) for step in plan.steps] == [("a/0.txt", False), ("b/0.txt", False)]


async def test_a_process_that_ends_gives_up_a_long_scan_and_the_next_one_finds_what_changed(
    points, project, tmp_path, monkeypatch
):
    before = picture(project)
    monkeypatch.setattr(recorder, "WAIT_S", 60)
    monkeypatch.setattr(recorder, "CLOSE_S", 0.02)
    points.begin(1)
    await points.before_command()
    (project / "a/0.txt").write_text("changed\n")
    gate = Gate(monkeypatch, after="")
    threading.Timer(0.2, gate.open.set).start()  # it is asked to stop while it stands still
    await points.aclose()
    again = Checkpoints(tmp_path / "s" / "id" / "checkpoints", project)
    again.restore(again.preview(1))
    assert picture(project) == before


def test_past_the_limit_of_the_store_nothing_is_read_again(project, tmp_path, monkeypatch):
    contents = Contents(tmp_path / "store", limit=200)
    scanner = Scanner(Workspace(project), contents)
    scanner.take(Control(), keep=True)
    assert contents.full
    reads: list[str] = []
    real = scan._read
    monkeypatch.setattr(scan, "_read", lambda full, record: reads.append(full) or real(full, record))
    scanner.take(Control(), keep=True)
    scanner.take(Control(), keep=False)
    assert reads == []
    (project / "a/0.txt").write_text("other\n")
    scanner.take(Control(), keep=False)
    assert [Path(path).name for path in reads] == ["0.txt"]


def test_a_scan_that_nobody_waits_for_stops(project, tmp_path):
    control = Control()
    control.stop = True
    with pytest.raises(ScanStopped):
        Scanner(Workspace(project), Contents(tmp_path / "store", limit=1)).take(control, keep=False)


def test_a_program_that_nobody_waits_for_is_stopped():
    control = Control()
    control.stop = True
    start = time.monotonic()
    with pytest.raises(ScanStopped):
        spawn.run(["sleep", "60"], environ={}, seconds=60, check=control.check)
    assert time.monotonic() - start < 30
    slow = ["sh", "-c", "sleep 0.3; cat"]  # it is told everything although it is waited for in steps
    assert spawn.run(slow, environ={}, seconds=60, given=bytes(200_000)).stdout == bytes(200_000)


def test_a_snapshot_is_small_and_survives_being_written(project, tmp_path):
    for number in range(500):
        (project / "a" / f"file{number}.py").touch()
    taken = Scanner(Workspace(project), Contents(tmp_path / "store", limit=1 << 20)).take(Control(), keep=True)
    held = sum(sys.getsizeof(part) for table in taken.tables.values() for part in table[:3])
    assert held / sum(len(table.rows()) for table in taken.tables.values()) < 100
    again = Snapshot.from_lines(b"".join(taken.to_lines()).splitlines())
    assert [table[:4] for table in again.tables.values()] == [table[:4] for table in taken.tables.values()]


HANGUP = """
import asyncio, os, signal, sys, time
from pathlib import Path
from cowork.sessions.checkpoints import entries
from cowork.sessions.checkpoints.recorder import Checkpoints

async def main():
    root = Path(sys.argv[1])
    points = Checkpoints(root.parent / "s" / "id" / "checkpoints", root)
    points.begin(1)
    await points.before_command()
    for path in root.glob("*/*.txt"):
        path.write_text("changed")
    real = entries._fill
    def fill(*args):
        os.kill(os.getpid(), signal.SIGHUP)  # the terminal goes away in the middle of each file
        time.sleep(0.01)
        real(*args)
    entries._fill = fill
    plan = await asyncio.to_thread(points.preview, 1)
    await points.rewind(plan)

asyncio.run(main())
"""


def test_a_hangup_in_a_rewind_leaves_no_draft_and_every_file_whole(project):
    before = picture(project)
    done = subprocess.run([sys.executable, "-c", HANGUP, str(project)], check=False)
    assert done.returncode == -signal.SIGHUP
    assert picture(project) == before
    assert not [name for name in os.listdir(project / "a") if name.startswith(".cowork-")]


async def test_an_edit_of_an_ignored_file_that_a_command_made_is_taken_back(project, tmp_path):
    (project / ".gitignore").write_text(".env\n")
    points = Checkpoints(tmp_path / "s" / "id" / "checkpoints", project)
    points.begin(1)
    await points.before_command()
    (project / ".env").write_text("made by a command")
    points.before_write(project / ".env")
    (project / ".env").write_text("changed by a tool")
    points.end()
    plan = await asyncio.to_thread(points.preview, 1)
    assert [step.path for step in plan.steps] == [".env"]
