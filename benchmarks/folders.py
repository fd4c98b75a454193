"""The chat in very large folders, in a terminal: `python -m benchmarks folders`; takes minutes and 6 GB of /var/tmp.

Four folders: 190,000 small files and 5 GB in large ones, each without and with git. For each step it prints how long it
took and the longest step of the event loop meanwhile, by the clock and by processor time.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.terminal import Terminal

BUILD = Path("/var/tmp/cowork-folders")  # in no repository
WAIT_S = 300
# The installed command, with every step of its event loop that takes longer than 5 ms noted: end, wall, processor.
PROGRAM = """
import asyncio.events, sys, time
real, notes = asyncio.events.Handle._run, open(sys.argv.pop(1), "a", buffering=1)
def run(self):
    wall, cpu = time.perf_counter(), time.thread_time()
    real(self)
    if (took := time.perf_counter() - wall) > 0.005:
        print(time.time(), took, time.thread_time() - cpu, file=notes)
asyncio.events.Handle._run = run
from cowork.__main__ import main
sys.exit(main())
"""
SEARCHES = [
    {"name": "Glob", "input": {"pattern": "**/*77.py"}},
    {"name": "Grep", "input": {"pattern": "name_4242"}},
    {"name": "LS", "input": {"path": "."}},
]
CHANGE = {"name": "Bash", "input": {"command": "echo changed > changed.txt && sed -i 1d p0/f0.py"}}


def main() -> None:
    """Build the folders, play the same chat in each, and remove them."""
    chosen = sys.argv[2:] or ["many_files", "large_files"]
    for build in [build for build in (many_files, large_files) if build.__name__ in chosen]:
        root = BUILD / build.__name__
        if not root.exists():  # of a run that was stopped
            build(root)
        print(f"\n{build.__name__}", flush=True)
        play(root)
        for words in ("init -q", "-c core.compression=0 add .", "-c user.name=x -c user.email=x@x commit -qm all"):
            subprocess.run(["git", *words.split()], cwd=root, check=True)
        print(f"\n{build.__name__} in git", flush=True)
        play(root)
    shutil.rmtree(BUILD, ignore_errors=True)


def many_files(root: Path) -> None:
    for number in range(190_000):
        if number % 20 == 0:
            folder = root / f"p{number // 2000}" / f"q{number // 20}" if number >= 20 else root / "p0"
            folder.mkdir(parents=True, exist_ok=True)
        (folder / f"f{number}.py").write_text(f"def name_{number}(value): return value\n" * 30)


def large_files(root: Path) -> None:
    """5 GB: 500 files of 10 MB and 1,700 small ones."""
    (root / "p0").mkdir(parents=True)
    for number in range(1_700):
        (root / "p0" / f"f{number}.py").write_text(f"def name_{number}(value): return value\n" * 30)
    for number in range(500):
        (root / f"large{number}.bin").write_bytes(os.urandom(10_000_000))


class Steps:
    """Prints what each step took."""

    def __init__(self, terminal: Terminal, notes: Path) -> None:
        self.terminal, self.notes = terminal, notes

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        begun, start = time.time(), time.perf_counter()
        yield
        took = time.perf_counter() - start
        self.terminal.settle(0.3)
        seen = [tuple(map(float, line.split())) for line in self.notes.read_text().splitlines()]
        during = [(wall, cpu) for at, wall, cpu in seen if at >= begun]
        wall, cpu = (max((pair[n] for pair in during), default=0) * 1e3 for n in (0, 1))
        print(f"  {name:60} {took:6.2f} s   longest step {wall:5.0f} ms, processor {cpu:5.0f} ms", flush=True)


def play(root: Path) -> None:
    home, notes = BUILD / "home", BUILD / "notes"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    turns = [[CHANGE], SEARCHES, [CHANGE]]
    answers = [turn for n, calls in enumerate(turns, 1) for turn in ({"calls": calls}, {"say": f"Done {n}."})]
    (BUILD / "script.json").write_text(json.dumps(answers))
    notes.write_text("")
    words = [sys.executable, "-c", PROGRAM, str(notes), "--script", str(BUILD / "script.json"),
             "--permission-mode", "bypass"]  # fmt: skip
    env = {"HOME": str(home), "COWORK_HOME": str(home / "cowork")}
    with Terminal(words, cwd=root, env=env) as terminal:
        on = Steps(terminal, notes)

        def ready() -> bool:
            return "Esc interrupt" not in terminal.text()

        def say(text: str, answer: str = "") -> None:
            """Send a line and wait until what it asks for is done."""
            terminal.type("<Ctrl+U>", text, "<Enter>")
            terminal.settle(0.15)
            terminal.wait_until(ready, WAIT_S, text)
            if answer:
                terminal.wait_for(answer, WAIT_S)
                terminal.wait_until(ready, WAIT_S)

        def stop(text: str) -> None:
            """Send a line, and Esc while it is at work."""
            terminal.type("<Ctrl+U>", text, "<Enter>")
            terminal.settle(0.4)
            shown = next((line for line in terminal.screen() if "looking at" in line), "nothing to wait for")
            with on.step(f"Esc in {text}: {shown.strip()}"):
                terminal.type("<Esc>")
                terminal.wait_until(ready, WAIT_S)

        with on.step("start"):
            terminal.wait_for("/help", 60)
        with on.step("@ completion"):
            terminal.settle(0.5)
            terminal.type("@f1699")
            terminal.wait_for("/f1699.py", WAIT_S)
        with on.step("the files are looked at"):  # as they are while a person writes a first prompt
            terminal.settle(6)
        with on.step("first Bash"):
            say("go", "Done 1.")
        stop("/diff")
        for time_ in ("first", "second"):
            with on.step(f"the {time_} /diff"):
                say("/diff")
        with on.step("Glob, Grep, LS"):
            say("look", "Done 2.")
        with on.step("another Bash"):
            say("again", "Done 3.")
        stop("/rewind 1 both")
        with on.step("/rewind"):
            say("/rewind 1 files")
        print(f"  rewound: {not (root / 'changed.txt').exists()}")
        peak = next(line for line in Path(f"/proc/{terminal.pid}/status").read_text().splitlines() if "VmHWM" in line)
        print(f"  memory at most {int(peak.split()[1]) // 1024} MB")


if __name__ == "__main__":
    main()
