from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cowork.core.blocks import Text, Usage
from cowork.core.errors import UserError
from cowork.core.events import (
    AgentEnded,
    AgentStarted,
    ContextCompacted,
    PromptAdded,
    ReplyAdded,
    RetryScheduled,
    SessionRewound,
    SessionStarted,
)
from cowork.sessions import index as index_module
from cowork.sessions import index as summary_module
from cowork.sessions.cost import Spending, TaskRow, add_up, charges, figures, totals
from cowork.sessions.cost_report import By, CostRow, cost_report, days_of
from cowork.sessions.index import INDEX, find, find_task, latest, list_sessions, prune, remove, title_of
from cowork.sessions.log.reader import read
from cowork.sessions.log.writer import LOG, SessionLog


def test_an_entry_says_what_the_log_says(store, turns, stamp, sessions):
    store(stamp(turns(3), "s1", at=5000), "s1")
    (entry,) = list_sessions(sessions)
    assert entry.title == "prompt 0: äöü ☃ \U0001f600"
    assert (entry.id, entry.cwd, entry.branch, entry.model) == ("s1", "/project", "trunk", "big")
    assert (entry.prompts, entry.turns) == (3, 6)
    assert (entry.created, entry.last_used) == (5001.0, 5040.0)
    assert entry.cost_usd == 3 * (0.25 + 0.125 + 0.5)
    assert entry.summary.spent.usage == Usage(3 * 270, 3 * 27, 3 * 105, 3)


def test_the_last_used_is_first_and_empty_ones_are_left_out(store, turns, stamp, sessions):
    store(stamp(turns(1), "old", at=1000), "old")
    store(stamp(turns(1), "new", at=9000), "new")
    log = SessionLog.create(sessions, "empty")
    log(stamp([SessionStarted("/project")])[0])
    assert [e.id for e in list_sessions(sessions)] == ["new", "old"]
    assert {e.id for e in list_sessions(sessions, empty=True)} == {"new", "old", "empty"}
    log.close()


def test_no_folder_is_no_sessions(sessions):
    assert list_sessions(sessions) == []


def test_a_folder_is_known_by_its_real_path(store, turns, stamp, sessions, tmp_path):
    project, other = tmp_path / "project", tmp_path / "other"
    project.mkdir()
    other.mkdir()
    (tmp_path / "link").symlink_to(project)
    store(stamp(turns(1, cwd=str(project)), "a1", at=1000), "a1")
    store(stamp(turns(1, cwd=str(project)), "a2", at=2000), "a2")
    store(stamp(turns(1, cwd=str(other)), "b1", at=3000), "b1")
    assert [e.id for e in list_sessions(sessions, tmp_path / "link")] == ["a2", "a1"]
    assert latest(sessions, project).id == "a2"
    with pytest.raises(UserError, match="no session of this folder"):
        latest(sessions, tmp_path)


def test_a_prefix_is_enough_and_an_ambiguous_one_lists_the_candidates(store, turns, stamp, sessions):
    for name in ("abcd", "abef", "ab"):
        store(stamp(turns(1), name), name)
    assert find(sessions, "abc").id == "abcd"
    assert find(sessions, "ab").id == "ab"
    assert find(sessions, "ABE").id == "abef"
    with pytest.raises(UserError, match=r"could be 3 sessions: .*abcd") as caught:
        find(sessions, "a")
    assert "abef" in caught.value.message
    for nothing in ("x", "", "  "):
        with pytest.raises(UserError, match="no session"):
            find(sessions, nothing)


@pytest.mark.parametrize("ruin", [b"", b"{", b"[]", b'{"version":99}', b'{"version":1,"sessions":[{}]}', b"\xff\xfe"])
def test_a_ruined_index_is_rebuilt_from_the_logs(store, turns, stamp, sessions, ruin):
    store(stamp(turns(2)))
    right = list_sessions(sessions)
    good = (sessions / INDEX).read_bytes()
    (sessions / INDEX).write_bytes(ruin)
    assert list_sessions(sessions) == right
    assert (sessions / INDEX).read_bytes() == good
    (sessions / INDEX).unlink()
    assert list_sessions(sessions) == right


def test_an_unchanged_log_is_not_read_again_and_a_grown_one_is(store, turns, stamp, sessions, monkeypatch):
    store(stamp(turns(1), "s1"), "s1")
    store(stamp(turns(1), "s2"), "s2")
    list_sessions(sessions)
    reads: list[str] = []
    real = index_module.summarize
    monkeypatch.setattr(
        index_module, "summarize", lambda path, *rest: reads.append(path.parent.name) or real(path, *rest)
    )
    list_sessions(sessions)
    assert reads == []
    with SessionLog.open(sessions, "s2") as log:
        log(stamp([PromptAdded("more")], first=99)[0])
    assert {e.id: e.prompts for e in list_sessions(sessions)} == {"s1": 1, "s2": 2}
    assert reads == ["s2"]


def _pipe(log: Path) -> None:
    os.mkfifo(log)


def _folder(log: Path) -> None:
    log.mkdir()


def _endless(log: Path) -> None:
    log.symlink_to("/dev/zero")


def _itself(log: Path) -> None:
    log.symlink_to(log.name)


@pytest.mark.parametrize("make", [_pipe, _folder, _endless, _itself])
def test_what_is_no_log_is_left_out_and_never_waited_for(store, turns, stamp, sessions, make):
    store(stamp(turns(1)))
    (sessions / "other").mkdir()
    make(sessions / "other" / LOG)
    assert [e.id for e in list_sessions(sessions, empty=True)] == ["s1"]
    with pytest.raises(UserError, match="no session other"):
        SessionLog.open(sessions, "other")
    with pytest.raises(OSError):
        read(sessions / "other" / LOG)


def test_a_name_that_is_no_id_is_not_offered(store, turns, stamp, sessions):
    log = store(stamp(turns(1)))
    shutil.copytree(log.parent, sessions / "Copy of s1")
    assert [e.id for e in list_sessions(sessions)] == ["s1"]


def test_a_folder_that_cannot_be_listed_is_said(tmp_path):
    (tmp_path / "sessions").write_text("")
    with pytest.raises(UserError, match="cannot be read"):
        list_sessions(tmp_path / "sessions")


def test_the_index_is_private(store, turns, stamp, sessions):
    store(stamp(turns(1)))
    list_sessions(sessions)
    assert stat.S_IMODE((sessions / INDEX).stat().st_mode) == 0o600


@pytest.mark.parametrize("at", [0.3, 0.999])
def test_a_damaged_log_is_listed_with_what_is_whole(store, turns, stamp, sessions, at):
    path = store(stamp(turns(3)))
    data = bytearray(path.read_bytes())
    data[int(len(data) * at)] ^= 1
    path.write_bytes(data)
    assert [(e.prompts, e.title) for e in list_sessions(sessions)] == [(3, "prompt 0: äöü ☃ \U0001f600")]
    with path.open("ab") as file:
        file.write(b"torn")
    assert [e.turns >= 5 for e in list_sessions(sessions)] == [True]


@pytest.mark.parametrize("cut", [2, 7, 20, 30])
def test_a_log_that_grew_is_read_from_where_it_ended(store, turns, stamp, sessions, monkeypatch, cut):
    """In two halves it comes to the same as at once, children at work over the cut among it."""
    events = [e for e in stamp(turns(3), "s1") if e.durable]
    store(events[:cut], "s1")
    list_sessions(sessions, empty=True)
    offsets: list[int] = []
    real = summary_module.open_log
    monkeypatch.setattr(summary_module, "open_log", lambda path, offset: offsets.append(offset) or real(path, offset))
    with SessionLog.open(sessions, "s1") as log:
        size = log.path.stat().st_size
        for event in events[cut:]:
            log(event)
    (grown,) = list_sessions(sessions, empty=True)
    assert offsets == [size]
    (sessions / INDEX).unlink()
    (whole,) = list_sessions(sessions, empty=True)
    assert grown.summary.to_dict() == whole.summary.to_dict()


def test_a_log_that_was_replaced_is_read_anew(store, turns, stamp, sessions):
    path = store(stamp(turns(1)), "s1")
    list_sessions(sessions)
    other = store(stamp(turns(3), "s1"), "s2")
    path.write_bytes(other.read_bytes())
    assert {e.id: e.prompts for e in list_sessions(sessions)} == {"s1": 3, "s2": 3}


def test_the_title_follows_a_rewind_to_the_start(store, stamp, sessions):
    events = stamp([SessionStarted("/p"), PromptAdded("first"), SessionRewound(2), PromptAdded("second")])
    store(events)
    assert list_sessions(sessions)[0].title == "second"


def test_titles_are_one_clipped_line():
    assert title_of("\n\n  fix \t the   bug \nand more") == "fix the bug"
    assert title_of("x" * 200) == "x" * 79 + "…"
    assert title_of("") == ""


def test_a_session_in_use_is_not_removed_and_another_is(store, turns, stamp, sessions):
    store(stamp(turns(1), "s1"), "s1")
    store(stamp(turns(1), "s2"), "s2")
    with SessionLog.open(sessions, "s1"), pytest.raises(UserError, match=f"process {os.getpid()}"):
        remove(sessions, "s1")
    remove(sessions, "s2")
    assert sorted(os.listdir(sessions)) == ["s1"]
    assert [e.id for e in list_sessions(sessions)] == ["s1"]
    with pytest.raises(UserError, match="no session"):
        remove(sessions, "s2")


def test_pruning_keeps_the_young_and_those_in_use(store, turns, stamp, sessions):
    day = 86400.0
    for n in range(5):
        store(stamp(turns(1), f"s{n}", at=n * day), f"s{n}")
    assert prune(sessions, keep_days=100, now=100 * day) == []
    with SessionLog.open(sessions, "s0"):
        assert sorted(prune(sessions, keep_days=3.5, now=5 * day)) == ["s1"]
    assert prune(sessions, keep_days=2.5, now=5 * day) == ["s2", "s0"]
    assert [e.id for e in list_sessions(sessions)] == ["s4", "s3"]


_LISTER = """
import sys
from pathlib import Path
from cowork.core.events import PromptAdded
from cowork.sessions.index import list_sessions
from cowork.sessions.log.writer import SessionLog
folder, name = Path(sys.argv[1]), sys.argv[2]
for n in range(15):
    with SessionLog.create(folder, f"{name}-{n}") as log:
        log(PromptAdded("x", id=1))
    found = [e.id for e in list_sessions(folder) if e.id.startswith(name)]
    assert len(found) == n + 1, found
"""


def test_processes_that_list_and_write_together_see_their_own_sessions(sessions):
    command = [sys.executable, "-c", _LISTER, str(sessions)]
    running = [subprocess.Popen([*command, f"p{n}"], cwd=Path(__file__).parents[2]) for n in range(3)]
    assert [p.wait(60) for p in running] == [0, 0, 0]
    assert len(list_sessions(sessions)) == 45
    assert len((sessions / INDEX).read_bytes().splitlines()) == 2 + 45


# ---------------------------------------------------------------- cost


def test_a_parent_is_its_own_and_its_children(stamp):
    child, grandchild = "main/explore-1", "main/explore-1/plan-1"
    events = list(
        stamp(
            [
                ReplyAdded((Text("a"),), "end_turn", Usage(10, 1), 0.1, "big"),
                AgentStarted("1", "main", "t", "d", "p", "explore", agent=child),
                ReplyAdded((Text("b"),), "end_turn", Usage(20, 2), 0.2, "small", agent=child),
                AgentStarted("2", child, "t", "d", "p", "plan", agent=grandchild),
                ReplyAdded((Text("c"),), "end_turn", Usage(40, 4), 0.7, "small", agent=grandchild),
                RetryScheduled(2, 3, 1.0, "overloaded", "", Usage(5), 0.05, "big"),
                ContextCompacted("sum", 1, usage=Usage(80, 8), cost_usd=0.4, model="small"),
                ContextCompacted("", cleared=("x",)),
                AgentEnded("1", "completed", {"data": {"usage": {"prompt_tokens": 60}}}, agent=child),
            ]
        )
    )
    paid = list(charges(events))
    sums, own_sums = totals(events), add_up((charge.agent, charge.spent) for charge in paid)
    own = {path: (spent.requests, spent.usage.total, spent.cost_usd) for path, spent in own_sums.items()}
    assert own == {"main": (3, 104, 0.1 + 0.05 + 0.4), child: (1, 22, 0.2), grandchild: (1, 44, 0.7)}
    assert sums["main"] == own_sums["main"] + sums[child]
    assert sums[child] == own_sums[child] + sums[grandchild]
    assert sums[""] == sums["main"]
    assert sums[""].usage.total == 104 + 22 + 44
    assert {charge.model for charge in paid} == {"big", "small"}
    by_agent = add_up((charge.kind, charge.spent) for charge in paid)
    assert {kind: s.requests for kind, s in by_agent.items()} == {"main": 3, "explore": 1, "plan": 1}


def test_an_unknown_price_is_unknown_all_the_way_up_but_what_is_known_stays(stamp):
    child = "main/explore-1"
    events = list(
        stamp(
            [
                ReplyAdded((), "end_turn", Usage(10), 0.5, "big"),
                ReplyAdded((), "end_turn", Usage(10), None, "odd", agent=child),
            ]
        )
    )
    assert {(c.kind, c.model): c.spent.cost_usd for c in charges(events)} == {
        ("main", "big"): 0.5,
        ("explore", "odd"): None,
    }
    assert totals(events)[""] == totals(events)["main"] == Spending(2, Usage(20), None, 0.5)
    assert totals(events)[child].cost_usd is None


def test_a_child_whose_conversation_was_not_kept_counts_by_its_report(stamp):
    child = "main/explore-1"
    report = {
        "data": {
            "usage": {"prompt_tokens": 70, "completion_tokens": 7},
            "total_cost_usd": 0.3,
            "model_id": "small",
            "metadata": {"turns_used": "4"},
        }
    }
    events = stamp(
        [AgentStarted("1", subagent_type="explore", agent=child), AgentEnded("1", record=report, agent=child)]
    )
    assert totals(events)["main"] == Spending(4, Usage(70, 7), 0.3, 0.3)
    assert [(charge.model, charge.spent) for charge in charges(events)] == [
        ("small", Spending(4, Usage(70, 7), 0.3, 0.3))
    ]


def cost(
    sessions: Path, by: By, cwd: Path | None = None, days: int | None = None, now: float = 0
) -> dict[str, CostRow]:
    return {row.name: row for row in cost_report(list_sessions(sessions, cwd, empty=True), by, days, now).rows}


def test_cost_over_sessions_by_everything(store, turns, stamp, sessions):
    noon = 1_700_000_000.0
    store(stamp(turns(2), "s1", at=noon), "s1")
    store(stamp(turns(1), "s2", at=noon + 86400 * 2), "s2")
    assert {k: s.spent.cost_usd for k, s in cost(sessions, "model").items()} == {"big": 2.25, "small": 0.375}
    assert {k: s.spent.cost_usd for k, s in cost(sessions, "agent").items()} == {"main": 2.25, "explore": 0.375}
    assert {k: s.spent.cost_usd for k, s in cost(sessions, "session").items()} == {"s1": 1.75, "s2": 0.875}
    assert {k: s.spent.cost_usd for k, s in cost(sessions, "repo").items()} == {"/project": 2.625}
    days = cost(sessions, "day")
    assert [row.spent for row in days.values()] == [
        Spending(3, Usage(270, 27, 105, 1), 0.875, 0.875),
        Spending(6, Usage(540, 54, 210, 2), 1.75, 1.75),
    ]
    assert list(days) == sorted(days, reverse=True)
    assert {name: row.tasks.tasks for name, row in cost(sessions, "agent").items()} == {"main": 0, "explore": 3}
    assert cost(sessions, "model", Path("/elsewhere")) == {}


def test_a_stretch_of_days_is_compared_with_the_one_before(store, turns, stamp, sessions):
    now = 1_700_000_000.0
    for days, count in ((0, 3), (2, 1), (9, 2), (15, 5)):
        store(stamp(turns(count), f"s{days}", at=now - days * 86400), f"s{days}")
    main = cost(sessions, "agent", days=7, now=now)["main"]
    assert main.before is not None
    assert (main.spent.cost_usd, main.before.cost_usd, main.change) == (4 * 0.75, 2 * 0.75, 1.0)
    assert cost(sessions, "agent", now=now)["main"].before is None
    report = cost_report(list_sessions(sessions), "agent", 7, now)
    assert [round(spent.known_usd / 0.875) for spent in report.periods.values()] == [3, 4, 11]


@pytest.mark.parametrize(("word", "days"), [("7d", 7), ("today", 1), ("30 days", 30), ("all", None), ("week", 7)])
def test_since_understands_everyday_words(word, days):
    assert days_of(word) == days


def test_since_says_what_it_understands():
    with pytest.raises(UserError, match="yesterday") as caught:
        days_of("yesterday")
    assert "7d" in caught.value.hint


def test_figures_of_tasks():
    rows = [
        TaskRow("s", "main/x", f"x-{n}", "x", "d", "m", status, 0.0, n * 1000, 100 * n, 5, 0.01)
        for n, status in enumerate(["completed"] * 18 + ["error", "aborted"], 1)
    ]
    found = figures(rows)
    assert (found.tasks, found.failed, found.failure_rate) == (20, 2, 0.1)
    assert (found.mean_s, found.p50_s, found.p95_s, found.max_s) == (10.5, 10, 19, 20)
    assert (found.prompt_tokens_per_task, round(found.cost_per_task or 0, 6)) == (1050, 0.01)
    assert figures([*rows, rows[0].__class__("s", "a", "x-9", "x", "d", "m")]).cost_per_task is None
    assert figures([]).failure_rate is None


def test_a_task_is_found_by_its_name_and_one_that_was_cut_off_says_so(store, turns, stamp, sessions):
    store(stamp(turns(2)[:-4], "s1"), "s1")  # before the end of the second child
    entry = find(sessions, "s1")
    assert [(row.id, row.status, row.subagent_type, row.model) for row in entry.tasks()] == [
        ("s1/id0", "completed", "explore", "small"),
        ("s1/id1", "interrupted", "explore", "small"),
    ]
    assert find_task(entry, "id1").description == "look"
    with pytest.raises(UserError, match="no task 'id7'"):
        find_task(entry, "id7")


def test_events_of_another_session_are_not_paid_twice(store, turns, stamp, sessions):
    past = stamp(turns(1), "s1")
    store(past, "s1")
    own = [replace(e, session_id="s2") for e in stamp(turns(1), first=100)]
    store([*past, *own], "s2")
    assert {k: s.spent.cost_usd for k, s in cost(sessions, "session").items()} == {"s1": 0.875, "s2": 0.875}
