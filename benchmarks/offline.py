"""How many questions the offline model answers with the right place: `python -m benchmarks.offline [repo ...]`.

Every question runs as a person would ask it, with `cowork run`, in a copy of an installed package or in this repo.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TOP = Path(__file__).parent.parent
QUESTIONS = TOP / "tests" / "offline" / "questions.json"
COMMAND = Path(sys.executable).parent / "cowork"  # `-m` would put the folder asked about on the path
WANTED = 0.9


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, its answer and what is missing from it."""

    question: str
    answer: str
    missing: tuple[str, ...]
    first: bool  # the expected place stands in the first line
    seconds: float


def questions(*, sample: bool = False) -> list[dict[str, Any]]:
    """The list, or the part of it that is quick enough for every test run."""
    return [q for q in json.loads(QUESTIONS.read_text(encoding="utf-8")) if q.get("sample") or not sample]


def expected_texts(question: dict[str, Any], root: Path) -> list[str]:
    """What an answer must hold: places are looked up in the source as it is now, so that versions may differ."""
    return [*(_place(at, root) for at in question.get("at", ())), *question.get("says", ())]


def _place(at: str, root: Path) -> str:
    """`file: text` as `file:line`; of a pattern of files, the first that holds the text, so that files may move."""
    name, _, text = at.partition(": ")
    files = sorted(root.glob(name)) if "*" in name else [root / name]
    found = [(file, _line(file, text)) for file in files]
    file, number = next((pair for pair in found if pair[1]), found[0] if found else (root / name, 0))
    path = file.relative_to(root).as_posix()
    return f"{path}:{number}" if text else f"{path.rstrip(':')}:"


def _line(file: Path, text: str) -> int:
    """The line a text stands in; of `class > method`, the method after the class. 0 if it is not there."""
    rows = file.read_text(encoding="utf-8").splitlines() if text else []
    number = 0
    for piece in text.split(" > "):
        after = number
        hits = [n for n, row in enumerate(rows, 1) if n > after and row.strip().startswith(piece)]
        bodies = [n for n in hits if rows[n - 2].strip() != "@overload"]  # an overload only declares
        number = (bodies or hits or [0])[0]
    return number


def ask(question: dict[str, Any], root: Path, home: Path) -> Asked:
    """Ask one question with the installed command."""
    started = time.monotonic()
    done = subprocess.run(
        [COMMAND, *words_of(question)],
        cwd=root,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "COWORK_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    wanted = expected_texts(question, root)
    missing = tuple(w for w in wanted if w not in done.stdout)
    head = done.stdout.strip().split("\n")[0]
    first = not question.get("at") or wanted[0] in head
    return Asked(question["ask"], done.stdout or done.stderr, missing, first, time.monotonic() - started)


def words_of(question: dict[str, Any]) -> list[str]:
    """The words of the command that asks it."""
    return ["run", "--provider", "offline", "--non-interactive", "--quiet", question["ask"]]


def prepare(repo: str, work: Path) -> Path:
    """This repo, or a copy of an installed package's source."""
    if repo == ".":
        return TOP
    spec = importlib.util.find_spec(repo)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    target = work / repo
    if not target.exists():
        source = next(iter(spec.submodule_search_locations))
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    return target


def main() -> None:
    """Print the score, and every answer that misses."""
    only = [name for name in sys.argv[1:] if not name.startswith("-") and name != "offline"]
    chosen = [q for q in questions() if not only or q["repo"] in only]
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        roots = {q["repo"]: prepare(q["repo"], work) for q in chosen}
        with ThreadPoolExecutor(2) as pool:
            asked = list(pool.map(lambda q: ask(q, roots[q["repo"]], work / "home"), chosen))
    for question, result in zip(chosen, asked, strict=True):
        if result.missing:
            print(f"✗ [{question['repo']}] {result.question}\n  missing: {', '.join(result.missing)}")
            print("  " + "\n  ".join(result.answer.strip().splitlines()[:6]))
        elif not result.first:
            print(f"~ [{question['repo']}] {result.question}: not in the first line")
    right = sum(not result.missing for result in asked)
    first = sum(not result.missing and result.first for result in asked)
    seconds = sorted(result.seconds for result in asked)[len(asked) // 2]
    print(
        f"{right} of {len(asked)} right ({right / len(asked):.0%}), {first} in the first line; median {seconds:.2f} s"
    )
    if right < WANTED * len(asked):
        sys.exit(1)


if __name__ == "__main__":
    main()
