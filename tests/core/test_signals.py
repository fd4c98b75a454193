"""Signals end a command's coroutine wherever they land, after it has cleaned up."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

COWORK = Path(__file__).parents[2] / "cowork"
START = """
import asyncio, os, signal
from cowork.core import signals

async def main():
    try:
        busy = asyncio.ensure_future(work())
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0)
        print("closed", flush=True)

signals.catch()
try:
    signals.run(main())
except signals.Stopped as stop:
    print(stop.reason)
    raise SystemExit(stop.exit_code)
"""


def end_of(work: str) -> tuple[int, list[str]]:
    program = textwrap.dedent(work) + START
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert not done.stderr
    return done.returncode, done.stdout.split()


@pytest.mark.parametrize(("name", "code", "reason"), [("SIGINT", 130, "interrupted"), ("SIGTERM", 143, "terminated")])
def test_a_signal_that_lands_in_a_task_ends_the_whole(name, code, reason):
    work = f"""
    async def work():
        os.kill(os.getpid(), signal.{name})
    """
    assert end_of(work) == (code, ["closed", reason])


def test_a_signal_that_lands_in_a_callback_ends_the_whole():
    work = """
    async def work():
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGINT)
    """
    assert end_of(work) == (130, ["closed", "interrupted"])


def test_a_second_signal_does_not_cut_the_cleaning_short():
    work = """
    async def work():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
    """
    assert end_of(work) == (130, ["closed", "interrupted"])


def test_every_coroutine_of_a_command_goes_through_it():
    """`asyncio.run` elsewhere would leave a signal to whatever task is at work."""
    # A run listens itself; the API leaves signals to its user.
    own = {"core/signals.py", "app/once.py", "api/session.py"}
    found = {p.relative_to(COWORK).as_posix() for p in COWORK.rglob("*.py") if "asyncio.run(" in p.read_text()}
    assert found == own
