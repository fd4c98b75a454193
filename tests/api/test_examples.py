"""The programs of examples/ and the Python of docs/api.md and docs/flows.md run as they are."""

from __future__ import annotations

import io
import json
import re
import runpy
import sys
from pathlib import Path

import pytest

from cowork.cli.main import main

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
BLOCKS = [
    pytest.param(text, id=f"{page}-{number}")
    for page in ("api", "flows")
    for number, text in enumerate(
        re.findall(r"```python\n(.*?)```", (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"), re.DOTALL)
    )
]
TYPED = json.dumps({"file": "app.py", "line": 2, "why": "it adds two"})


@pytest.fixture(autouse=True)
def place(tmp_path: Path, clean_environment: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small project, and a home whose model answers typed questions with one finding and others with a word."""
    asides = [
        {"match": "single JSON value", "turns": [{"say": TYPED}] * 9},
        {"match": "lamps", "turns": [{"call": {"price": {"article": "lamp", "pieces": 3}}}]},
        {"match": "Use the database", "turns": [{"call": {"query": {"sql": "drop table orders"}}}]},
        {"match": "only SELECT", "turns": [{"call": {"query": {"sql": "select sum(total) from orders"}}}]},
        {"match": "29.5", "turns": [{"say": "They come to 29.5."}]},
    ]
    script = tmp_path / "script.json"
    said = {"main": [{"say": "It adds."}] * 9, "agents": {"*": [{"say": "Changed."}]}, "asides": asides}
    said["price"] = {"input": 1.0, "output": 1.0}
    script.write_text(json.dumps(said))
    folder = clean_environment / ".config" / "cowork"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(f'[models.main]\nprovider = "scripted"\nscript = "{script}"\n')
    work = tmp_path / "work"
    work.mkdir()
    (work / "app.py").write_text("def add(x):\n    return x + 2\n")
    monkeypatch.chdir(work)
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    return work


def run(path: Path) -> None:
    if "async def main(flow" in path.read_text(encoding="utf-8"):
        assert main(["flow", "run", str(path)]) == 0
    else:
        runpy.run_path(str(path), run_name="__main__")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs(path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", [path.name])
    run(path)
    said = capsys.readouterr().out
    wanted = {"own_tool.py": "29.5", "watch.py": "It adds.", "docs_flow.py": "OVERVIEW.md, 8 characters"}
    assert wanted.get(path.name, "app.py:2 it adds two") in said
    assert len(path.read_text(encoding="utf-8").splitlines()) < 40


@pytest.mark.parametrize("text", BLOCKS)
def test_a_block_of_the_pages_runs(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "block.py"
    file.write_text(text)
    run(file)
    assert capsys.readouterr().out.strip()


def test_there_are_five_examples() -> None:
    assert len(EXAMPLES) == 5
