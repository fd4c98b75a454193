"""Every shell command in the documentation is run, in a small repository, without a key."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fakes.command import QUIET

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
_BLOCK = re.compile(
    r"^(?P<before>[^\n]*)\n(?P<mark>```+)(?P<kind>[\w-]*)\n(?P<text>.*?)^(?P=mark)$", re.MULTILINE | re.DOTALL
)
_NEEDS = re.compile(r"<!-- needs .+ -->")
_NAMED = re.compile(r"^# ([\w.-]+\.(?:ya?ml|json|toml))\b")
_ENDLESS = re.compile(  # these run the tests, or for long
    r"^make (?:test|unit|check|coverage|lock|bench|soak)\b.*$", re.MULTILINE
)
_SHELL = ("sh", "bash", "shell", "console")

APP = """def helper(x):
    return x + 1  # TODO: two more


def main():
    print(helper(1))
"""
HELLO = "- say: Let me look.\n  call: {Read: {file_path: README.md}}\n- say: It is a readme.\n"


@dataclass(frozen=True)
class Block:
    """A fenced block of shell commands."""

    page: str
    number: int
    text: str


def blocks(*, needing: bool) -> list[Block]:
    """The shell blocks of all pages; those that need something no test has, or the others."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for hit in _BLOCK.finditer(text):
            if hit["kind"] in _SHELL and bool(_NEEDS.search(hit["before"])) == needing:
                line = text.count("\n", 0, hit.start("text")) + 1
                found.append(Block(str(page.relative_to(ROOT)), line, hit["text"]))
    return found


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """A repository like the ones the pages speak of, with the files that a page writes out under a name."""
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "app.py").write_text(APP)
    (folder / "README.md").write_text("# sample\n\nA small program that adds one to a number.\n")
    (folder / "test_app.py").write_text("from app import helper\n\n\ndef test_helper():\n    assert helper(1) == 2\n")
    (folder / "hello.yaml").write_text(HELLO)
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    for words in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "First"],
    ):
        subprocess.run(["git", *words], cwd=folder, check=True, env=environ)
    return folder


@pytest.mark.parametrize("page", sorted({b.page for b in blocks(needing=False)}))
def test_the_commands_of_a_page_work_one_after_the_other(page: str, sample: Path, tmp_path: Path) -> None:
    for text in re.findall(r"```(?:yaml|json|toml)\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL):
        if named := _NAMED.match(text):
            (sample / named[1]).write_text(text)
    env = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "COWORK_HOME": str(tmp_path / "cowork"),
        "TMPDIR": str(tmp_path),
        "LANG": "C.UTF-8",
        "MAKEFLAGS": f"-- VENV={sys.prefix}",  # the environment that the tests run in, and no other
        **QUIET,
    }
    for block in blocks(needing=False):
        text = _ENDLESS.sub("", block.text)
        if block.page != page or not text.strip():
            continue
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=ROOT if re.search(r"^make\b", text, re.MULTILINE) else sample,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=110,
        )
        assert done.returncode == 0, (
            f"{page}:{block.number}\n{text}\n--- exit {done.returncode}\n{done.stdout}{done.stderr}"
        )


def test_what_is_not_run_says_what_it_needs() -> None:
    assert [(b.page, b.number) for b in blocks(needing=True)], "the pages show real models too"
    assert len(blocks(needing=False)) >= 15


def test_links_between_pages_lead_somewhere() -> None:
    lost = []
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)\s#]+)", page.read_text(encoding="utf-8")):
            if not (page.parent / target).exists():
                lost.append(f"{page.relative_to(ROOT)}: {target}")
    assert lost == []
