"""What panels, diffs, todo lists and dialogs look like, at three widths."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from cowork.core.blocks import Usage
from cowork.core.events import (
    AgentEnded,
    AgentStarted,
    AgentUpdated,
    Event,
    RetryScheduled,
    ToolEnded,
    TurnEnded,
)
from cowork.core.ports import Question
from cowork.frontends.dialog_choices import steps_of
from cowork.frontends.host import Choose, CommandResult, ContextUse, FileChange, Row, Status
from cowork.frontends.repl.input.dialogs import Dialog, dialog_lines
from cowork.frontends.repl.input.picker import Picking, picker_lines
from cowork.frontends.repl.view import notes
from cowork.frontends.repl.view.frame import _inline
from cowork.frontends.repl.view.notes import banner_lines, context_lines
from cowork.frontends.repl.view.panels import ChildState, ended_line, new_child, panels_lines
from cowork.frontends.repl.view.status_line import status_line
from cowork.frontends.repl.view.stream import markdown_lines
from cowork.frontends.repl.view.tool_lines import changes_lines, diff_lines, finished_lines
from cowork.frontends.styled import Line, Theme, line_width, plain
from tests.fakes.calls import started
from tests.fakes.repl_demo import ANSWER, DIFF, make

GOLDEN = Path(__file__).parents[1] / "golden" / "repl"
UPDATE = os.environ.get("COWORK_GOLDEN") == "update"  # read at import: tests run without it
THEME = Theme()
NOW = 14.0


def panel(number: int, kind: str, description: str, *, status: str = "active") -> ChildState:
    path = f"main/{kind}-{number}"
    made = new_child(AgentStarted(f"s{number}", "main", f"t{number}", description, "", kind, "light", max_turns=10,
                                  status=status, agent=path), 0.0)  # fmt: skip
    story: list[Event] = [
        started("a", "Grep", {"pattern": "guest"}),
        ToolEnded("a", "Grep", {"status": "success"}, {"summary": "31 in 9 files"}),
        started("b", "Read", {"file_path": "shop/checkout/gäste_支払い.py", "offset": 1, "limit": 200}),
        AgentUpdated(f"s{number}", status, 3, 2, Usage(5_000, 1_100), 0.004),
    ]
    for event in story:
        made.apply(event, 0.0)
    return made


def running(
    *, expanded: bool = False, count: int = 3, rows: int = 40, selected: str = ""
) -> Callable[[int], list[Line]]:
    names = ("guest checkout flow", "refund service", "run refund tests", "webhook", "mails", "admin pages", "docs")
    panels = [panel(n, "explore", name) for n, name in enumerate(names[:count])]
    panels.append(panel(9, "plan", "waits for its turn", status="waiting"))
    return lambda columns: panels_lines(panels, columns, rows, NOW, THEME, expanded=expanded, selected=selected)


def ended(columns: int) -> list[Line]:
    out: list[Line] = []
    for status, error in (
        ("completed", ""),
        ("incomplete", ""),
        ("error", "Subagent task timed out after 60000ms"),
        ("aborted", ""),
    ):
        data = {"total_cost_usd": 0.007, "duration_ms": 21_000, "tool_summary": [{"tool": "Read", "count": 9}],
                "usage": {"prompt_tokens": 10_000, "completion_tokens": 1_200}, "metadata": {"turns_used": "5"},
                "files_changed": ["a.py"] if status == "incomplete" else []}  # fmt: skip
        record = {"data": data, "error": {"message": error}} if error else {"data": data}
        out += ended_line(panel(1, "explore", "guest checkout flow"), AgentEnded("s1", status, record), columns, THEME)
    return out


def ask(
    question: Question, *, index: int = 0, why: str | None = None, waiting: tuple[Question, ...] = (), rows: int = 40
) -> Callable[[int], list[Line]]:
    def draw(columns: int) -> list[Line]:
        dialog = Dialog(question, steps_of(question), asyncio.Future(loop=asyncio.new_event_loop()), index, why)
        return dialog_lines(dialog, waiting, columns, rows)

    return draw


async def nothing(row: Row) -> CommandResult:
    return None


SESSIONS = [
    Row(f"s{n}2i374cynsr", title, f"{n + 1} h ago · {4 * n + 1} turns · ${n}.04 · s{n}2i374cynsr",
        f"**❯** {title}  \n**❯** and for guests?\n\nRefunds fail because `create` requires *order.user_id*.\n\n- one\n")
    for n, title in enumerate(("why do refunds fail for guest orders?", "支払い and a title that is much longer than "
                               "any reasonable box is wide", "fix the heading", *(f"session {n}" for n in range(12))))
]  # fmt: skip
MODES = [Row("ask", "ask", "now", "Asks first."), Row("plan", "plan", "", "Writes nothing.")]


def pick(rows: list[Row], *, index: int = 0, query: str = "", height: int = 30) -> Callable[[int], list[Line]]:
    def draw(columns: int) -> list[Line]:
        picking = Picking(Choose("Go on with which session?", rows, nothing), asyncio.Future(loop=LOOP), index, query)
        return picker_lines(picking, columns, height, THEME)

    return draw


LOOP = asyncio.new_event_loop()
CHANGES = [FileChange("shop/refunds/service.py", DIFF, "+3 −1"), FileChange("logo.png", remark="new")]
EDIT = Question("permission", "Allow this edit?", tool="Edit", input={"file_path": "shop/refunds/service.py"},
                family="write", line="shop/refunds/service.py",
                rule="Edit(shop/refunds/**)", session_rule="edits in shop/refunds/**", reason="writes outside src/",
                display={"kind": "diff", "diff": DIFF}, mode="accept-edits")  # fmt: skip
COMMAND = Question("permission", "Allow this command?", agent="main/explore-1", tool="Bash", family="exec",
                   input={"command": 'git add -A && git commit -m "Allow guest refunds"'}, rule="Bash(git commit:*)",
                   session_rule="Bash(git commit:*)",
                   display={"kind": "command", "parts": [
                       {"text": "git add -A", "verdict": "allow", "why": "rule Bash(git add:*)"},
                       {"text": 'git commit -m "Allow guest refunds"', "verdict": "ask", "why": "runs hooks"},
                   ]})  # fmt: skip
SCRIPT = Question(
    "permission",
    "Allow this command?",
    tool="Bash",
    family="exec",
    input={"command": "set -e\ncd build && make\nrm -rf /"},
)
TODOS = (
    {"content": "Read the refund service", "status": "completed", "activeForm": "Reading the refund service"},
    {"content": "Write a failing test for guests", "status": "in_progress", "activeForm": "Writing a failing test"},
    {"content": "Fix the lookup, so that an order without a user works everywhere in the shop", "status": "pending"},
)
STATUS = Status("0.1", "/srv/shop", "main", True, "claude-sonnet-4-5", "haiku-4-5", "accept-edits", 83.4, 0.0234, 2, 6,
                ("AGENTS.md",), ("no model key found: running on the offline model (search only)",))  # fmt: skip


NO_MATCH = """old_string is not in auth.py; nothing was changed.
The nearest is lines 12-14:
--- old_string
+++ lines 12-14
@@ -1,3 +1,3 @@
 def check(user):
-    return user.active
+    return user.is_active"""


def tool_lines(columns: int) -> list[Line]:
    out: list[Line] = []
    calls = (
        ("Read", {"file_path": "/srv/shop/cowork/app.py"}, {"status": "success"}, {"summary": "212 lines"}),
        ("Bash", {"command": "pytest -q\nrm x"}, {"status": "partial"},
         {"kind": "terminal", "output": "a\nb\nc\nd\ne\nf\n1 failed\n", "exit_code": 1, "lines": 120,
          "summary": "exit 1"}),
        ("Edit", {"file_path": "shop/refunds/service.py"}, {"status": "success"},
         {"kind": "diff", "diff": DIFF, "summary": "+3 −1"}),
        ("Read", {"file_path": "nope.py"}, {"status": "error", "error": {"code": "NOT_FOUND",
         "message": "nope.py does not exist. Nearest: hope.py"}}, {}),
        ("Edit", {"file_path": "auth.py"},
         {"status": "error", "error": {"code": "NOT_FOUND", "message": NO_MATCH}}, {}),
        ("Weird", {"x": [1, 2], "y": "z"}, {"status": "success"}, {}),
        ("Grep", {"pattern": r"^\s*(?:export\s+)?(?:def|class|function|func|fn|struct|enum)\b\s*[\w$]*Refund\b"},
         {"status": "success"}, {"summary": "1 match in 1 file"}),
    )  # fmt: skip
    for name, given, record, display in calls:
        out += finished_lines(started("1", name, given, cwd="/srv/shop"), record, dict(display), columns)
    return out


def ends(columns: int) -> list[Line]:
    out: list[Line] = []
    for event in (
        TurnEnded("completed", num_turns=6, usage=Usage(13_000, 1_100), cost_usd=0.031, duration_ms=41_000),
        TurnEnded("interrupted"),
        TurnEnded("auth", error={"message": "The key was refused (401).", "hint": "Set ANTHROPIC_API_KEY, or /model."}),
        TurnEnded("max_turns", error={"code": "max_turns", "message": "Turn limit reached: 40"}),
    ):
        out += notes.note_lines(event, columns)
    return [*out, notes.retry_line(RetryScheduled(3, 5, 8.0, "overloaded", "x"), 8.0, columns)]


NETWORK = Question(
    "permission",
    "Let this command use the network?",
    tool="Bash",
    family="exec",
    input={"command": "npm ci"},
    line="npm ci",
    reason="it asks for the network: installs dependencies",
    rule="Network(npm ci:*)",
    session_rule="Network(npm ci)",
    box="network",
)
QUESTIONS = Question(
    "questions",
    "Questions",
    agent="main/general-purpose-3",
    input={
        "questions": [
            {
                "question": "Which store should refunds of guests be kept in, now that there is no user for them?",
                "options": [
                    "A table of their own",
                    "A made-up user",
                ],
            },
            {"question": "And the name?"},
        ]
    },
)


CONTEXT = ContextUse(
    [("system prompt", 2_100), ("tools", 5_300), ("your messages", 400), ("answers", 1_900),
     ("results of Read", 21_000), ("results of mcp__a_server__with_a_long_name", 800), ("images", 0)], 31_400, 200_000,
)  # fmt: skip

PICTURES: dict[str, Callable[[int], list[Line]]] = {
    "panels-collapsed": running(),
    "panels-expanded": running(expanded=True, selected="main/explore-1"),
    "panels-seven": running(count=7),
    "panels-low": running(count=7, rows=6),
    "panels-ended": ended,
    "diff": lambda columns: diff_lines(DIFF, columns),
    "diff-limited": lambda columns: diff_lines(DIFF, columns, limit=3),
    "dialog-edit": ask(EDIT, index=2, waiting=(COMMAND, COMMAND)),
    "dialog-command": ask(COMMAND),
    "dialog-why": ask(COMMAND, index=3, why="use the staging branch instead"),
    "dialog-script": ask(SCRIPT),
    "dialog-low": ask(EDIT, rows=10),
    "dialog-network": ask(NETWORK),
    "dialog-questions": ask(QUESTIONS, index=1),
    "dialog-plan": ask(Question("plan", "Go on with this plan?", options=("accept-edits", "ask"))),
    "dialog-trust": ask(Question("trust", "Trust this folder?", agent="", reason="It has a hook.", mode="auto")),
    "picker": pick(SESSIONS, index=1),
    "picker-filtered": pick(SESSIONS, query="session 1"),
    "picker-nothing": pick(SESSIONS, query="zebra"),
    "picker-low": pick(SESSIONS, index=9, height=9),
    "picker-short": pick(MODES, index=1),
    "context": lambda columns: context_lines(CONTEXT, columns, THEME),
    "changes": lambda columns: changes_lines(CHANGES, columns),
    "todo": lambda columns: notes.todo_lines(TODOS, columns),
    "todo-folded": lambda columns: [notes.todo_line(TODOS, columns)],
    "todo-change": lambda columns: notes.todo_change((), TODOS, columns),
    "tools": tool_lines,
    "turn-ends": ends,
    "banner": lambda columns: banner_lines(STATUS, columns),
    "status": lambda columns: [status_line(STATUS, columns, queued=1, children=3, hint="/help")],
    "markdown": lambda columns: markdown_lines(ANSWER, columns, THEME),
}  # fmt: skip


@pytest.mark.parametrize("columns", [40, 80, 120])
@pytest.mark.parametrize("name", PICTURES)
def test_the_picture_is_the_golden_one(name: str, columns: int) -> None:
    lines = PICTURES[name](columns)
    drawn = "".join(f"{plain(line).rstrip()}\n" for line in lines)
    path = GOLDEN / f"{name}-{columns}.txt"
    if UPDATE:
        path.write_text(drawn)
    assert drawn == path.read_text()


@pytest.mark.parametrize("columns", [20, 24, 31, 40, 57, 80, 120, 200])
@pytest.mark.parametrize("name", [n for n in PICTURES if n != "markdown"])
def test_no_line_is_wider_than_the_screen(name: str, columns: int) -> None:
    wide = [plain(line) for line in PICTURES[name](columns) if line_width(line) > columns]
    assert wide == []


NAMES = ("explore", "explore", "general-purpose", "explore", "test-runner", "explore", "explore", "reviewer")
TASKS = ("map the signer module", "how is data encoded", "run the encoding tests", "look for dead code", "explain tox",
         "callers of legacy_loads", "read the changelog", "check the error messages of the parser")  # fmt: skip


def screen(columns: int, rows: int, count: int, *, keys: str = "") -> str:
    """The live part of a chat with so many children: one asks, one has a child, the last waits in line."""
    repl, _ = make()
    now = [0.0]
    repl.scene.clock = lambda: now[0]
    paths = [f"main/{name}-{n}" for n, name in enumerate(NAMES[:count], 1)]
    if count > 5:
        paths[5] = f"{paths[3]}/explore-6"
    repl.scene.begin()
    for n, (path, task) in enumerate(zip(paths, TASKS, strict=False), 1):
        waits = n == 8 or (n == 5 == count)
        repl.scene.apply(AgentStarted(f"s{n}", "main", f"t{n}", task, "", NAMES[n - 1], "main" if n == 3 else "light",
                                      max_turns=10, status="waiting" if waits else "active", agent=path))  # fmt: skip
        if waits:
            continue
        repl.scene.apply(started("a", "Grep", {"pattern": "def ", "path": "src"}, agent=path))
        repl.scene.apply(ToolEnded("a", "Grep", {"status": "success"}, {"summary": "31 in 9 files"}, agent=path))
        repl.scene.apply(AgentUpdated(f"s{n}", "active", n % 4 + 1, 2, Usage(900 * n * n, 90), 0.0006 * n, agent=path))
        if n % 3:
            repl.scene.apply(started("b", "Read", {"file_path": f"src/shop/part{n}/encoding.py"}, agent=path))
    if count > 2:
        asked = {"command": ".venv/bin/pytest -q tests/test_encoding.py"}
        call = started("c", "Bash", asked, agent=paths[2])
        repl.scene.apply(call)
        question = Question("permission", "?", paths[2], "Bash", asked, family="exec", line=call.line, tool_use_id="c")
        repl.scene.panels[paths[2]].asking.append(question)
    now[0] = 14.0
    if "s" in keys:
        repl.selection.path = paths[-2]
        repl.scene.panels[paths[-2]].open = True
    repl.expanded = "o" in keys
    frame = _inline(repl, columns, rows, columns - 1)
    assert len(frame.lines) < rows
    assert all(line_width(line) < columns for line in frame.lines)
    return "".join(f"{plain(line).rstrip()}\n" for line in frame.lines)


@pytest.mark.parametrize("rows", [24, 50])
@pytest.mark.parametrize("columns", [60, 80, 100, 120, 200])
async def test_the_screen_with_children_is_the_golden_one(columns: int, rows: int) -> None:
    drawn = "".join(f"== {n} children\n{screen(columns, rows, n)}" for n in (1, 3, 5, 8))
    drawn += f"== 5 children, one unfolded\n{screen(columns, rows, 5, keys='s')}"
    drawn += f"== 8 children, all unfolded\n{screen(columns, rows, 8, keys='o')}"
    path = GOLDEN / f"screen-{columns}x{rows}.txt"
    if UPDATE:
        path.write_text(drawn)
    assert drawn == path.read_text()


@pytest.mark.parametrize("keys", ["", "s", "o"])
@pytest.mark.parametrize("columns", [80, 120])
async def test_every_child_keeps_its_facts_whatever_is_open(columns: int, keys: str) -> None:
    model = r"(main|light) [ ·]*" if columns == 120 else ""  # the task needs the room
    facts = re.compile(model + r"0:14 [ ·]*[\d.]+k? [ ·]*<?\$0\.00\d")
    rows = screen(columns, 24, 4, keys=keys).split("\n")
    assert sum(bool(facts.search(row)) for row in rows) == 4
