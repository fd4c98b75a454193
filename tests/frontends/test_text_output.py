"""What a run looks like as text, from a list of events alone."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

import pytest

from cowork.core.blocks import Text, ToolUse, Usage
from cowork.core.events import (
    AgentEnded,
    AgentStarted,
    ContextCompacted,
    Event,
    Notice,
    ReplyAdded,
    RetryScheduled,
    RunEnded,
    SessionStarted,
    TextDelta,
    TodoUpdated,
    ToolEnded,
    ToolOutput,
)
from cowork.frontends.drawing import TerminalText
from cowork.frontends.text import TextOutput
from tests.fakes.calls import started

GOLDEN = Path(__file__).parents[1] / "golden/text"


def called(id: str, name: str, given: dict[str, object], *, agent: str = "main", **ended: object) -> list[Event]:
    record = {"status": "success", "data": {}, "text": "x", "stats": {}, "context": {}}
    error, summary = ended.get("error"), ended.get("summary")
    if error:
        record |= {"status": "error", "error": error, "data": ended.get("data", {})}
    display = {"kind": "text", "text": "x"} | ({"summary": summary} if summary else {})
    return [started(id, name, given, cwd="/src/shop", agent=agent), ToolEnded(id, name, record, display, agent=agent)]


def result(**fields: object) -> RunEnded:
    base = {
        "type": "result",
        "status": "success",
        "result": "Refunds fail because of service.py:74.",
        "terminal_reason": "completed",
        "num_turns": 6,
        "duration_ms": 41_200,
        "usage": {"input_tokens": 9000, "output_tokens": 1100, "cache_read_tokens": 4000, "cache_write_tokens": 0},
        "total_cost_usd": 0.0312,
    }
    return RunEnded(base | fields)


CHILD = "main/explore-1"
STORY: list[Event] = [
    SessionStarted(cwd="/src/shop", model="m"),
    Notice("This folder is not trusted: its settings are not used."),
    TextDelta("I'll look "),
    TextDelta("at it."),
    ReplyAdded((Text("I'll look at it."), ToolUse("1", "Read"), ToolUse("2", "Task"))),
    *called("1", "Read", {"file_path": "/src/shop/refunds/service.py"}, summary="212 lines"),
    started("2", "Task", {"description": "refund service", "prompt": "p", "subagent_type": "explore"}),
    AgentStarted("a1", "main", "2", "refund service", "p", "explore", "light", agent=CHILD),
    TextDelta("the child's words stay with it", agent=CHILD),
    *called("3", "Grep", {"pattern": "user_id", "path": "/src/shop"}, agent=CHILD, summary="14 matches"),
    *called("4", "Read", {"file_path": "no.py"}, agent=CHILD, error={"code": "NOT_FOUND", "message": "no.py is not"}),
    AgentEnded(
        "a1",
        "completed",
        {
            "data": {
                "metadata": {"turns_used": "5"},
                "usage": {"prompt_tokens": 11_000, "completion_tokens": 200},
                "total_cost_usd": 0.007,
                "duration_ms": 21_000,
            }
        },
        agent=CHILD,
    ),
    ToolEnded("2", "Task", {"status": "success", "text": "t"}, {"kind": "task", "summary": "done"}),
    ToolOutput("9", "noise"),
    *called(
        "5",
        "Bash",
        {"command": "git push"},
        error={"code": "PERMISSION_DENIED", "message": "Bash was denied: no. Do not try to get around this."},
        data={"reason": "non-interactive, no rule allows it"},
    ),
    TodoUpdated(
        (
            {"content": "Find", "status": "completed", "activeForm": "Finding"},
            {"content": "Fix", "status": "in_progress", "activeForm": "Fixing the service"},
        )
    ),
    TextDelta("Refunds fa"),
    RetryScheduled(3, 5, 8.0, "overloaded", "The service is overloaded (529)", Usage()),
    ContextCompacted("summary", tokens_before=120_000, tokens_after=14_400),
    Notice("The session could not be stored: disk full.", level="warning"),
    TextDelta("Refunds fail because of service.py:74."),
    ReplyAdded((Text("Refunds fail because of service.py:74."),)),
    result(),
]


def play(events: list[Event], **how: bool) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    output = TextOutput(out, err, **how)
    for event in events:
        output(event)
    return out.getvalue(), err.getvalue()


def test_a_pipe_gets_the_final_answer_alone_and_progress_goes_to_stderr() -> None:
    out, err = play(STORY)
    assert out == "Refunds fail because of service.py:74.\n"
    golden("progress.txt", err)


def test_a_terminal_sees_the_answer_as_it_comes() -> None:
    out, _ = play(STORY, live=True)
    golden("live.txt", out)


def test_what_is_streamed_and_what_is_told_interleave_line_by_line() -> None:
    both = io.StringIO()
    output = TextOutput(both, both, live=True)
    for event in STORY:
        output(event)
    golden("both.txt", both.getvalue())


def test_quiet_keeps_the_answer_and_the_errors() -> None:
    assert play(STORY, quiet=True) == ("Refunds fail because of service.py:74.\n", "")
    failed = result(
        status="error",
        result="",
        terminal_reason="auth",
        error={"code": "auth", "message": "The key was refused (401)."},
    )
    assert play([failed], quiet=True) == ("", "cowork: The key was refused (401).\n")


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("completed", "done"),
        ("max_turns", "stopped at the turn limit"),
        ("budget", "stopped at the budget"),
        ("denied", "stopped: an action was denied"),
        ("schema", "failed: the answer does not fit the schema"),
        ("timeout", "timed out"),
        ("interrupted", "interrupted"),
        ("terminated", "terminated"),
        ("auth", "failed: no or refused credentials"),
        ("api_error", "failed: the service refused the request"),
        ("unavailable", "failed: the service is unavailable"),
        ("internal_error", "failed"),
    ],
)
def test_every_end_has_its_words(reason: str, words: str) -> None:
    _, err = play([result(terminal_reason=reason, result="", total_cost_usd=None, num_turns=1, duration_ms=400)])
    assert err == f"cowork: {words} · 1 turn · 14.1k tok · cost unknown · 0.4 s\n"


@pytest.mark.parametrize(
    ("code", "words"), [("empty", "failed: the model gave no answer"), ("refusal", "failed: the model refused")]
)
def test_what_the_model_did_is_not_put_down_to_the_service(code: str, words: str) -> None:
    _, err = play([result(terminal_reason="api_error", result="", error={"code": code, "message": "No."})])
    assert err.splitlines()[-1].startswith(f"cowork: {words} · ")


def test_text_a_stream_never_brought_is_printed_when_the_reply_is_there() -> None:
    out, _ = play([ReplyAdded((Text("whole"),)), result(result="whole")], live=True)
    assert out == "whole\n"


def test_an_answer_that_differs_from_the_last_words_is_printed() -> None:
    out, _ = play([ReplyAdded((Text("words"),)), result(result="salvaged")], live=True)
    assert out == "words\nsalvaged\n"


PAYLOADS = ["\x1b[2J", "\x1b]0;x\x07", "\x9b31m", "a\rb", "\x08", "\u202eevil", "\x1bP q\x1b\\", "\U000e0041", "\ud800"]


@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize("live", [True, False])
def test_nothing_of_model_tool_or_file_reaches_the_terminal_raw(payload: str, live: bool) -> None:
    events: list[Event] = [
        SessionStarted(cwd=payload),
        *(TextDelta(character) for character in payload),
        ReplyAdded((Text(payload),)),
        *called("1", payload, {"file_path": payload}, summary=payload),
        *called("2", "Bash", {"command": payload}, error={"code": "PERMISSION_DENIED", "message": payload}),
        AgentStarted("a", "main", "3", payload, payload, "explore", "light", agent=CHILD),
        AgentEnded("a", "error", {"error": {"code": "TIMEOUT", "message": payload}}, agent=CHILD),
        TodoUpdated(({"content": payload, "status": "in_progress"},)),
        RetryScheduled(2, 5, 1, "server", payload),
        Notice(payload),
        result(result=payload + "!", error={"code": "x", "message": payload}),
    ]
    out, err = play(events, live=live)
    for character in payload:
        if not character.isprintable():
            assert character not in out + err
    assert all(line.startswith("cowork: ") for line in err.splitlines())


def test_two_children_whose_calls_have_the_same_ids_keep_their_arguments() -> None:
    first, second = "main/explore-1", "main/explore-2"
    begun = [started("c1", "Grep", {"pattern": name}, agent=name) for name in (first, second)]
    ended = [ToolEnded("c1", "Grep", {"status": "success"}, {"summary": "2 files"}, agent=a) for a in (second, first)]
    children = [AgentStarted(a, "main", f"t{a}", "", "p", "explore", agent=a) for a in (first, second)]
    _, err = play([*children, *begun, *ended])
    assert err.splitlines()[2:] == [
        f'cowork: [explore-2] Grep "{second}" · 2 files',
        f'cowork: [explore-1] Grep "{first}" · 2 files',
    ]


def test_a_denied_end_is_said_once() -> None:
    ended = result(status="error", terminal_reason="denied",
                   error={"code": "denied", "message": "The run ended on a denied action."})  # fmt: skip
    _, err = play([ended])
    assert err == "cowork: stopped: an action was denied · 6 turns · 14.1k tok · $0.031 · 41 s\n"
    assert play([ended], quiet=True)[1] == "cowork: The run ended on a denied action.\n"


def test_a_terminal_gets_a_long_run_of_looks_folded_and_a_log_each_of_them() -> None:
    looks = [
        e for n in range(6) for e in called(str(n), "Grep" if n % 2 else "Read", {"path": f"p{n}", "pattern": "x"})
    ]
    story = [*looks, *called("x", "Bash", {"command": "ls"}, summary="exit 0"), result()]
    assert play(story)[1].count("cowork: Grep") == 3
    assert play(story, fold=True)[1].splitlines()[:4] == [
        "cowork: Read p0",
        'cowork: Grep "x" in p1',
        "cowork: 4 more looks: Read 2 · Grep 2",
        "cowork: Bash $ ls · exit 0",
    ]


def test_a_long_or_many_lined_command_stays_one_line() -> None:
    _, err = play(called("1", "Bash", {"command": "cat <<E\n" + "x" * 5000 + "\nE"}, summary="exit 0"))
    assert err.count("\n") == 1
    assert len(err) < 120


def golden(name: str, text: str) -> None:
    file = GOLDEN / name
    if os.environ.get("PYTEST_GOLDEN"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8"), f"{name} differs; PYTEST_GOLDEN=1 writes it anew"


class Terminal(io.TextIOWrapper):
    """A stream that keeps what is written to it."""

    def __init__(self) -> None:
        self._kept = io.BytesIO()
        super().__init__(self._kept, encoding="utf-8")

    def getvalue(self) -> str:
        self.flush()
        return self._kept.getvalue().decode()


def test_a_terminal_gets_markdown_and_diffs_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    out, err = Terminal(), Terminal()
    rendering = TerminalText({"TERM": "xterm-256color", "COLORTERM": "truecolor"})
    output = TextOutput(out, err, live=True, fold=True, rendering=rendering)
    diff = "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"
    text = "# Done\n\nIt is **fixed** in `a.py`.\n\n- one\n- two\n"
    for event in (
        started("1", "Edit", {"file_path": "a.py"}),
        ToolEnded("1", "Edit", {"status": "success"}, {"kind": "diff", "diff": diff, "summary": "+1 −1"}),
        *(TextDelta(text[n : n + 7]) for n in range(0, len(text), 7)),
        ReplyAdded((Text(text),), "end_turn"),
        RunEnded({"result": text, "terminal_reason": "completed", "num_turns": 1}),
    ):
        output(event)
    plainly = re.sub(r"\x1b\[[\d;]*m", "", out.getvalue())
    assert plainly.split("\n") == ["Done", "", "It is fixed in a.py.", "", " • one", " • two", ""]
    assert "\x1b[1m" in out.getvalue()
    lines = re.sub(r"\x1b\[[\d;]*m", "", err.getvalue()).split("\n")
    assert lines[:3] == ["cowork: Edit a.py · +1 −1", "  1 │-x = 1", "  1 │+x = 2"]


def test_an_answer_that_is_withdrawn_does_not_mix_with_the_next() -> None:
    out, err = Terminal(), Terminal()
    output = TextOutput(out, err, live=True, rendering=TerminalText({"TERM": "xterm"}))
    output(TextDelta("The first tr"))
    output(RetryScheduled(2, 5, 1.0, "overloaded", "overloaded"))
    output(TextDelta("The second.\n"))
    output(ReplyAdded((Text("The second.\n"),), "end_turn"))
    assert out.getvalue() == "The second.\n"
