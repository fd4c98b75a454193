"""`cowork report`: figures over many sessions."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cowork.core.events import AgentEnded, ReplyAdded, SessionStarted
from cowork.reports.overview import Overview, bar, report_lines, sparkline
from cowork.reports.page import report_page
from cowork.sessions.index import list_sessions
from cowork.sessions.log.writer import SessionLog
from tests.reports.sample import START, sample
from tests.reports.test_export_command import run

DAY = 86_400
NOW = START + 3 * DAY


def keep(sessions, name, *, days_ago=0.0, factor=1.0, cwd="/src/shop", status="completed", took=1_000):
    """Store the sample as another session of another day and price."""
    log = SessionLog.create(sessions, name)
    for event in sample():
        event = replace(event, at=event.at - START + NOW - days_ago * DAY - 3600, session_id=name)
        match event:
            case SessionStarted():
                event = replace(event, cwd=cwd)
            case ReplyAdded():
                event = replace(event, cost_usd=(event.cost_usd or 0.0) * factor)
            case AgentEnded():
                data = {"total_cost_usd": 0.1 * factor, "duration_ms": took, "usage": {"prompt_tokens": 1_000}}
                event = replace(event, status=status, record={"data": data})
        log(event)
    log.close()


@pytest.fixture
def sessions(tmp_path):
    folder = tmp_path / "home" / "sessions"
    keep(folder, "aaa")
    keep(folder, "bbb", days_ago=1, factor=3, cwd="/src/web", status="error", took=90_000)
    keep(folder, "ccc", days_ago=40, factor=10)
    return folder


def test_the_stretch_of_days_decides_what_counts(sessions):
    found = Overview(list_sessions(sessions, empty=True), 30, NOW)
    assert (found.session_count, found.tasks.tasks, found.tasks.failed) == (2, 6, 3)
    assert found.spent.known_usd == pytest.approx(0.098 * 4)
    assert [(row.name, round(row.spent.known_usd, 3)) for row in found.rows["repo"]] == [
        ("/src/web", 0.294),
        ("/src/shop", 0.098),
    ]
    assert len(found.days) == 30
    assert sum(row.spent.known_usd for row in found.days) == pytest.approx(found.spent.known_usd)
    assert found.before is not None
    assert found.before.known_usd == pytest.approx(0.98)
    assert {task.session_id for task in found.standouts["slowest"][:3]} == {"bbb"}
    assert {task.session_id for task in found.standouts["failed"]} == {"bbb"}
    assert (found.tasks.p50_s, found.tasks.p95_s) == (1.0, 90.0)
    everything = Overview(list_sessions(sessions, empty=True), None, NOW)
    assert (everything.session_count, everything.before) == (3, None)
    assert set(everything.session_ids()) == {"aaa", "bbb", "ccc"}
    assert json.loads(json.dumps(everything.to_dict()))["sessions"] == 3


def test_the_terminal_shows_bars_as_long_as_their_part(sessions):
    lines = list(report_lines(Overview(list_sessions(sessions, empty=True), 30, NOW)))
    (shop,) = [line for line in lines if line.startswith("  shop")]
    (web,) = [line for line in lines if line.startswith("  web")]
    assert (shop.count("█"), web.count("█")) == (8, 24)
    assert lines[0].endswith("2 sessions · ▼ 60% against the days before")
    assert "6 tasks: 3 failed (50%) · p50 1 s · p95 90 s" in "\n".join(lines)
    assert [sparkline([0, 1, 4, 8]), sparkline([])] == ["·▂▅█", ""]
    assert [bar(0, 8), bar(1, 8, 1), bar(0.001, 8)] == ["", "▏", "▏"]


def test_nothing_kept_is_a_short_report(tmp_path):
    found = Overview([], 30, NOW)
    assert list(report_lines(found)) == [f"{found.first_day} to {found.last_day}: $0.00 · 0 tokens · 0 sessions"]
    "".join(report_page(found.to_dict(), {}))


def test_sessions_of_tomorrow_are_no_traceback(tmp_path):
    """A clock that was set back."""
    keep(tmp_path, "k3vq7m2a9xyz", days_ago=-30)
    lines = list(report_lines(Overview(list_sessions(tmp_path, empty=True), None, NOW)))
    assert "1 session" in lines[0]


def test_the_page_draws_a_bar_a_day_and_links_to_the_task(sessions, browser, tmp_path):
    home = sessions.parent
    done = run(home, "report", "--since", "all", "--html", "-o", "report.html", "--pages")
    assert (done.code, done.out, done.err) == (0, "", "")
    data = json.loads(run(home, "report", "--since", "all", "--json").out)
    browser.open((home / "report.html").as_uri(), 800, 900, "dark")
    drawn = browser.run("[...document.querySelectorAll('[data-day]')].map((b) => [b.dataset.day, +b.dataset.value])")
    assert drawn == [[day["day"], pytest.approx(day["known_usd"])] for day in data["days"]]
    assert browser.run("document.documentElement.scrollWidth") <= 800
    link = browser.run("[...document.querySelectorAll('td a')].find((a) => a.innerText === 'bbb/explore-3').href")
    browser.open(link)
    shown = "[...document.querySelectorAll('details.child')].filter((d) => d.open).map((d) => d.dataset.agent)"
    assert browser.run(shown) == [
        "main/explore-1",
        "main/explore-1/explore-3",
    ]
    assert browser.problems == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--html", "--json"), "--html and --json ask for two forms."),
        (("--pages",), "--pages needs a file to put the pages beside."),
        (("--since", "never"), "--since does not know 'never'."),
    ],
)
def test_mistakes_are_told_in_two_lines(sessions, words, said):
    done = run(sessions.parent, "report", *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
