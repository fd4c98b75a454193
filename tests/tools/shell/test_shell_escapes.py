"""No process outlives its command, whatever it tries, and no flood fills the memory."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import textwrap
import time
from pathlib import Path

import pytest

from cowork.tools.shell import jobs, reaper
from cowork.tools.shell.bash import bash, kill_bash
from tests.tools.shell.artists import ARTISTS, FLOODS
from tests.tools.shell.conftest import GONE, Desk, make_desk, soon, survivors, within

ROUNDS = 5 if os.environ.get("COWORK_SOAK") else 1
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def test_there_are_enough_of_them() -> None:
    assert len(ARTISTS) >= 40


@pytest.mark.soak
async def test_nobody_is_left_when_a_command_ends_or_times_out(tmp_path: Path) -> None:
    for _ in range(ROUNDS):
        names = list(ARTISTS)  # some at once, for they must not be taken for one another
        left = await asyncio.gather(*(_left(tmp_path, names[start::14]) for start in range(14)))
        assert {name: who for each in left for name, who in each.items()} == {name: [] for name in names}


async def _left(folder: Path, names: list[str]) -> dict[str, list[str]]:
    """Who is left of each, one after the other at one desk."""
    desk = make_desk(folder / os.urandom(6).hex())
    left = {}
    for name in names:
        call = asyncio.create_task(desk.call(bash, command=ARTISTS[name], timeout=400))
        assert await within(0.4 + GONE, call.done), name
        await call
        await within(1.0, lambda: not desk.survivors())
        left[name] = desk.survivors()
    await jobs.close(desk.ctx.tree)
    return left


async def test_a_bystander_is_left_alone(desk: Desk) -> None:
    other = await desk.call(bash, command="sleep 600", run_in_background=True)
    await desk.call(bash, command=ARTISTS["a killed keeper"], timeout=300)
    await desk.call(bash, command=ARTISTS["setsid in the background"])
    job = desk.ctx.tree.jobs[other.data["bash_id"]]
    assert job.running
    assert len(desk.survivors()) == 2  # the shell and its sleep


async def test_cancelling_ends_everything(desk: Desk) -> None:
    for name in ("deaf python with a child", "a deaf session", "twenty sessions", "a python daemon"):
        task = asyncio.create_task(desk.call(bash, command=f"{ARTISTS[name]} & sleep 600"))
        assert await soon(lambda: len(desk.survivors()) >= 2), name
        task.cancel()
        assert await within(0.6, task.done), name
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await within(GONE, lambda: not desk.survivors()), (name, desk.survivors())


async def test_killing_a_background_command_ends_its_whole_tree(desk: Desk) -> None:
    for name in ("deaf python with a child", "python that forks when told to end", "setsid twice"):
        started = await desk.call(bash, command=f"{ARTISTS[name]} & sleep 600", run_in_background=True)
        assert await soon(lambda: len(desk.survivors()) >= 3)
        await desk.call(kill_bash, shell_id=started.data["bash_id"])
        assert desk.survivors() == [], name


async def test_all_background_commands_end_together(desk: Desk) -> None:
    for name in ("deaf to TERM", "a deaf session", "a sleeper"):
        await desk.call(bash, command=ARTISTS[name], run_in_background=True)
    await asyncio.gather(*(job.end() for job in desk.ctx.tree.jobs.values()))
    assert desk.survivors() == []
    assert not any(job.running for job in desk.ctx.tree.jobs.values())


RUNNER = """
import asyncio, json, sys
from pathlib import Path
from tests.tools.shell.artists import ARTISTS
from tests.tools.shell.conftest import make_desk
from cowork.tools.shell.bash import bash

async def main():
    desk = make_desk(Path(sys.argv[1]))
    names = [n for n in ARTISTS if n not in ("a killed keeper", "a busy loop", "a pipe nobody reads")]
    background = [desk.call(bash, command=f"{ARTISTS[n]}\\nsleep 600", run_in_background=True) for n in names[::3]]
    await asyncio.gather(*background)
    calls = [asyncio.create_task(desk.call(bash, command=f"{ARTISTS[name]}\\nsleep 600")) for name in names[1::9]]
    await asyncio.sleep(0.5)
    print(json.dumps({"mark": desk.mark, "reaper": desk.ctx.tree.reaper.process.pid}), flush=True)
    await asyncio.gather(*calls)

asyncio.run(main())
"""


@pytest.mark.parametrize("user", ["me", "nobody"])
async def test_kill_9_of_cowork_leaves_nobody(user: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-c", textwrap.dedent(RUNNER), str(tmp_path)]
    if user == "nobody":
        if os.geteuid() != 0:
            pytest.skip("only root can become somebody else")
        python = shutil.which(f"python3.{sys.version_info.minor}", path="/usr/bin:/usr/local/bin")
        if not python or not shutil.which("setpriv"):
            pytest.skip("no interpreter that everybody may run")
        paths = [str(Path(__file__).parents[3]), sysconfig.get_path("purelib")]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", python, *command[1:-1]]
        folder = tempfile.mkdtemp(prefix="cowork-test-")  # the folders of pytest are closed to others
        os.chown(folder, 65534, 65534)
        command.append(folder)
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[3])
    assert process.stdout is not None
    told = json.loads(await process.stdout.readline())
    assert await soon(lambda: len(survivors(told["mark"])) > 15)
    process.kill()
    await process.wait()
    assert await within(GONE, lambda: not survivors(told["mark"])), survivors(told["mark"])
    assert await within(GONE, lambda: not _alive(told["reaper"])), "the reaper is still there"
    shutil.rmtree(command[-1])


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_kill_9_of_the_reaper_is_survived(desk: Desk) -> None:
    await desk.call(bash, command="true")
    pid = desk.ctx.tree.reaper.process.pid
    record = await desk.call(bash, command=f"setsid sleep 600 & kill -9 {pid}; sleep 600", timeout=1_000)
    assert record.status == "error"
    assert await within(GONE, lambda: not desk.survivors())
    assert (await desk.call(bash, command="echo again")).text == "again"


FLOODER = """
import asyncio, json, resource, sys, time
from pathlib import Path
from tests.tools.shell.artists import FLOODS
from tests.tools.shell.conftest import make_desk
from cowork.tools.shell import jobs
from cowork.tools.shell import reaper
from cowork.tools.shell.bash import bash

async def main():
    desk = make_desk(Path(sys.argv[1]))
    await desk.call(bash, command="seq 100000")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seen = {}
    for name, command in FLOODS.items():
        desk.heard.clear()
        worst, last = 0.0, time.process_time()
        async def tick():
            nonlocal worst, last
            while True:
                await asyncio.sleep(0.01)
                now = time.process_time()  # what the loop is kept busy by us, not by the rest of the machine
                worst, last = max(worst, now - last), now
        ticking = asyncio.create_task(tick())
        timeout = int(sys.argv[2])
        while (record := await desk.call(bash, command=command, timeout=timeout)).data["bytes"] <= 100_000:
            assert timeout < 60_000, (name, record)  # a busy machine may need longer to start at all
            timeout *= 4
        ticking.cancel()
        files = list(desk.ctx.tree.scratch.iterdir())
        largest = max((file.stat().st_size for file in files), default=0)
        seen[name] = {"bytes": record.data["bytes"], "text": len(record.text), "live": sum(map(len, desk.heard)),
                      "worst": worst, "file": largest}
        for file in files:
            file.unlink()
    await jobs.close(desk.ctx.tree)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(json.dumps({"grown": grown, "seen": seen, "mark": desk.mark}))

asyncio.run(main())
"""


@pytest.mark.soak
def test_floods_take_no_memory_and_leave_the_loop_free(tmp_path: Path) -> None:
    time_ms = "8000" if os.environ.get("COWORK_SOAK") else "250"
    command = [sys.executable, "-c", FLOODER, str(tmp_path), time_ms]
    done = subprocess.run(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[3], check=True)
    told = json.loads(done.stdout)
    assert set(told["seen"]) == set(FLOODS)
    assert told["grown"] < 50 * 1024, told
    for name, seen in told["seen"].items():
        assert seen["bytes"] > 100_000, name
        assert seen["text"] < 50_000, name
        assert seen["live"] < 400_000, name
        assert seen["file"] <= 100 << 20, name
        assert seen["worst"] < 1.0, (name, seen)
    assert survivors(told["mark"]) == []


def test_without_proc_the_process_table_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    if not shutil.which("ps"):
        pytest.skip("no ps here")
    monkeypatch.setattr(reaper, "_LINUX", False)
    mark = f"mark{os.urandom(6).hex()}"
    environ = {**os.environ, "MARK": mark}
    command = ["bash", "-c", "sleep 600 & (setsid sleep 600 & sleep 600) & echo; wait"]
    with subprocess.Popen(command, env=environ, start_new_session=True, stdout=subprocess.PIPE) as shell:
        assert shell.stdout is not None
        shell.stdout.readline()
        try:
            deadline = time.monotonic() + 20
            while len(found := {shell.pid, *reaper._living(shell.pid)}) < 5 and time.monotonic() < deadline:
                time.sleep(0.02)
            assert sorted(found) == sorted(int(line.split()[0]) for line in survivors(mark))
        finally:
            for pid in reaper._living(shell.pid):
                os.kill(pid, 9)
