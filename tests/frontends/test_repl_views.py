"""What the lists of the chat say: sessions, files that would go back, models, agents, changes on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from cowork.agents import Agents
from cowork.app.chat import pages
from cowork.core import format
from cowork.core.blocks import Text
from cowork.core.events import Event, PromptAdded, ReplyAdded, SessionRewound
from cowork.core.ports import AgentDef
from cowork.core.workspace import Workspace
from cowork.sessions.checkpoints.recorder import Checkpoints
from cowork.sessions.checkpoints.rewind import RewindPlan


def story(*said: str) -> list[Event]:
    """Prompts and answers in turn."""
    kinds = (lambda t, n: PromptAdded(t, id=n), lambda t, n: ReplyAdded((Text(t),), "end_turn", id=n))
    return [kinds[n % 2](text, n + 1) for n, text in enumerate(said)]


def test_a_sessions_preview_is_its_last_prompts_and_its_last_answer() -> None:
    events = story("one", "first", "two", "second", "three", "third", "four", "fo" + "u" * 900 + "rth")
    shown = pages.session_preview(events)
    assert "**❯** one" not in shown
    assert shown.startswith("**❯** two  \n**❯** three  \n**❯** four\n\nfou")
    assert shown.endswith("u …")


def test_what_was_taken_back_is_not_in_the_preview() -> None:
    events = [*story("one", "first", "two", "second"), SessionRewound(3, True, id=9)]
    assert pages.session_preview(events) == "**❯** one\n\nfirst"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "just now"), (59, "just now"), (60, "1 min ago"), (7_300, "2 h ago"), (200_000, "2 d ago"), (-5, "just now")],
)
def test_time_is_told_in_one_unit(seconds: float, text: str) -> None:
    assert pages.ago(seconds) == text


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("Run a command: build, test. More.", "Run a command"),
        ("Create a file, with its folders. A file that exists must be read.", "Create a file, with its folders."),
        ("word " * 40, ("word " * 20).strip() + " …"),
        ("x" * 200, "x" * 100 + " …"),
        ("", ""),
    ],
)
def test_the_first_sentence_says_what_a_tool_does(text: str, first: str) -> None:
    assert format.first_sentence(text) == first


def test_a_cell_of_a_table_cannot_end_its_row() -> None:
    assert format.table(("a", "b"), [("x|y", "two\nlines"), (1, "")]).split("\n") == [
        "| a | b |",
        "| --- | --- |",
        "| x\\|y | two lines |",
        "| 1 |  |",
    ]


def test_a_row_of_agents_tells_role_tools_and_problems() -> None:
    explore = AgentDef("explore", "finds  things", "You explore.", tools=("Read", "Grep"), model="light", max_turns=1)
    (row,) = pages.agent_rows(Agents([explore]))
    assert row.value == "explore"
    assert row.preview == (
        "**explore**: finds things\n\ntools: Read, Grep  \nmodel: light · at most 1 turn · shipped\n\nYou explore."
    )


class Folder:
    """A workspace with checkpoints."""

    def __init__(self, path: Path) -> None:
        self.root = path / "work"
        self.root.mkdir()
        self.store = path / "sessions" / "id" / "checkpoints"
        self.checkpoints = Checkpoints(self.store, self.root)

    def change(self, prompt: int, name: str, data: bytes | None) -> None:
        self.checkpoints.begin(prompt)
        self.checkpoints.before_write(self.root / name)
        if data is None:
            (self.root / name).unlink()
        else:
            (self.root / name).write_bytes(data)
        self.checkpoints.end()

    def plan(self, prompt: int = 1) -> RewindPlan:
        return self.checkpoints.preview(prompt)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_changes_are_diffs_from_the_first_prompt_to_now(folder: Folder) -> None:
    (folder.root / "a.py").write_text("one\ntwo\n")
    (folder.root / "gone.py").write_text("old\n")
    folder.change(1, "a.py", b"one\n2\n")
    folder.change(2, "a.py", b"one\n2\nthree\n")
    folder.change(3, "new.py", b"fresh\n")
    folder.change(4, "gone.py", None)
    folder.change(5, "logo.bin", b"\0\1\2")
    found = {c.path: c for c in pages.changes(folder.plan(), folder.checkpoints, Workspace(folder.root))}
    assert found["a.py"].diff.split("\n")[2:] == ["@@ -1,2 +1,3 @@", " one", "-two", "+2", "+three"]
    assert (found["a.py"].remark, found["a.py"].edited) == ("+2 −1", True)
    assert (found["new.py"].remark, found["new.py"].edited) == ("new +1 −0", False)
    assert (found["gone.py"].remark, found["gone.py"].diff[-4:]) == ("deleted +0 −1", "-old")
    assert (found["logo.bin"].remark, found["logo.bin"].diff) == ("new", "")


def test_a_rewind_offers_files_only_when_some_would_change(folder: Folder) -> None:
    folder.checkpoints.begin(1)
    assert [row.value for row in pages.rewind_rows(folder.plan())] == ["chat"]
    assert [row.value for row in pages.rewind_rows(None)] == ["chat"]
    folder.change(2, "a.py", b"x\n")
    rows = pages.rewind_rows(folder.plan())
    assert [row.value for row in rows] == ["both", "chat", "files"]
    assert rows[0].preview == "- removes `a.py` +0 −1"
    (folder.root / "a.py").write_text("someone else\n")
    rows = pages.rewind_rows(folder.plan())
    assert [row.value for row in rows] == ["both", "chat", "files", "both force"]
    assert "`a.py`" in str(rows[3].preview)


def test_what_a_rewind_keeps_is_listed_first_and_not_counted(folder: Folder) -> None:
    for number, name in enumerate(("a.py", "b.py", "c.py"), 1):
        folder.change(number, name, b"x\n")
    (folder.root / "c.py").write_text("someone else\n")
    both = pages.rewind_rows(folder.plan())[0]
    assert both.detail == "2 files"
    first, *others = str(both.preview).split("\n")
    assert "`c.py`" in first
    assert "changed outside since: kept" in first
    assert others == ["- removes `a.py` +0 −1", "- removes `b.py` +0 −1"]


async def test_prompts_are_previewed_by_the_files_that_would_change(folder: Folder) -> None:
    folder.change(1, "a.py", b"x\n")
    points = [PromptAdded("first", id=1), PromptAdded("second", id=2)]
    rows = pages.prompt_rows(points, folder.checkpoints)
    assert [(row.value, row.label) for row in rows] == [("1", "first"), ("2", "second")]
    found = [await row.preview() for row in rows if not isinstance(row.preview, str)]
    assert found == ["- removes `a.py` +0 −1", "No files would change."]
    assert [row.preview for row in pages.prompt_rows(points[:1], None)] == [
        "Files are not covered: checkpoints are off."
    ]
