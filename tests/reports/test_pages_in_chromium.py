"""The pages as a browser shows them."""

from __future__ import annotations

import pytest

from cowork.core.blocks import Text, ToolUse
from cowork.core.events import (
    PromptAdded,
    QuestionAnswered,
    QuestionAsked,
    ReplyAdded,
    RetryScheduled,
    ToolEnded,
    ToolStarted,
)
from tests.reports.hostile import PAYLOADS, PLACES, hostile_session
from tests.reports.sample import Story

OPEN_ALL = "openAll(session)"


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (800, "light"), (1600, "dark")])
def test_the_page_opens_without_a_complaint_a_request_or_a_scroll_to_the_side(browser, written, story, width, scheme):
    url = written(story)
    browser.open(url, width, 1000, scheme)
    browser.settle()
    assert browser.run("document.documentElement.dataset.ready") == "1"
    assert browser.run("document.documentElement.dataset.theme") == scheme
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.problems == []
    assert [r for r in browser.requests if not r.startswith("data:image/png")] == [url]


def test_every_section_opens_and_holds_the_transcript_of_its_child(browser, written, story):
    browser.open(written(story))
    assert browser.run("[...document.querySelectorAll('#talk details')].filter((d) => d.open).length") == 0
    browser.run(OPEN_ALL)
    browser.settle()
    assert browser.run("[...document.querySelectorAll('#talk details')].filter((d) => !d.open).length") == 0
    found = browser.run("[...document.querySelectorAll('.child')].map((c) => [c.dataset.agent, c.innerText])")
    inside = dict(found)
    assert list(inside) == ["main/explore-1", "main/explore-1/explore-3", "main/general-purpose-2"]
    assert "Only shop/cart.py:44." in inside["main/explore-1/explore-3"]
    assert "KeyError: None" in inside["main/general-purpose-2"]
    assert "incomplete" in inside["main/general-purpose-2"]
    talk = browser.run("document.querySelector('#talk').innerText")
    assert "SECRET-OF-THE-PAST" not in talk
    assert browser.run("document.querySelectorAll('.diff .new').length") == 3
    edit = "[...document.querySelectorAll('.call')].find((c) => c.innerText.startsWith('✓\\nEdit'))"
    assert "approved after 7.5 s" in browser.run(f"{edit}.innerText")
    assert browser.run("[...document.querySelectorAll('#talk table td')].map((c) => c.innerText)")[:3] == [
        "shop/refunds.py",
        "looks up None",
        "3",
    ]
    assert browser.run("document.querySelector('#talk a').href") == "https://example.org/issues/7"
    assert browser.run("document.querySelectorAll('#talk img').length") == 1
    assert browser.problems == []


def test_search_finds_what_a_grandchild_said_and_opens_the_way_to_it(browser, written, story):
    browser.open(written(story))
    browser.press("/")
    for letter in "cart.py:44":
        browser.press(letter)
    browser.until("document.querySelector('.count').textContent === '2'")  # its reply, and the result its parent got
    browser.press("Enter")
    browser.settle()
    assert browser.run("document.querySelector('.count').textContent") == "1/2"
    shown = "[...document.querySelectorAll('details.child')].filter((d) => d.open).map((d) => d.dataset.agent)"
    assert "main/explore-1" in browser.run(shown)
    assert browser.run("CSS.highlights.get('found').size") >= 1
    assert browser.run("find(session, 'no such thing').length") == 0


def test_bars_of_the_timeline_are_the_times_of_the_events(browser, written, story):
    browser.open(written(story))
    drawn = browser.run(
        "[...document.querySelectorAll('[data-bar]')].map((b) => "
        "[b.getAttribute('class'), +b.dataset.from, +b.dataset.to, +b.getAttribute('width')])"
    )
    assert sorted((kind, round(start, 3), round(end, 3)) for kind, start, end, _ in drawn) == sorted(_bars(story))
    lanes = browser.run("[...document.querySelectorAll('.lane')].map((l) => l.innerText)")
    assert [name.split()[0] for name in lanes] == ["main", "explore-1", "explore-3", "general-purpose-2"]
    per_second = [width / (end - start) for _, start, end, width in drawn if end - start > 1]
    assert max(per_second) == pytest.approx(min(per_second), rel=0.01)  # one scale for all
    before = browser.run("document.querySelectorAll('[data-bar]').length")
    for _ in range(4):
        browser.press("+")
    assert browser.run("document.querySelectorAll('[data-bar]').length") < before
    browser.press("0")
    assert browser.run("document.querySelectorAll('[data-bar]').length") == before


def test_keys_theme_and_printing(browser, written, story):
    browser.open(written(story))
    browser.press("t")
    assert browser.run("document.documentElement.dataset.theme") == "dark"
    browser.press("j")
    assert browser.run("document.activeElement.innerText").startswith("You")
    browser.press("?")
    assert browser.run("document.querySelector('dialog').open") is True
    browser.press("Escape")
    assert len(browser.call("Page.printToPDF")["data"]) > 10_000
    assert browser.problems == []


def test_hostile_contents_stay_text(browser, written):
    assert len(PAYLOADS) * PLACES == 300
    url = written(hostile_session())
    browser.call("Page.addScriptToEvaluateOnNewDocument", source="window.hits = []; window.hit = (n) => hits.push(n);")
    browser.open(url, 1200, 900)
    browser.run(OPEN_ALL)
    browser.run("for (const words of ['script', 'evil', '<img']) find(session, words).length")
    browser.settle()
    browser.run("document.querySelectorAll('#talk *').forEach((n) => n.dispatchEvent(new Event('mouseover')))")
    assert browser.run("hits") == []
    assert (
        browser.run(
            "document.querySelectorAll('iframe, object, embed, base, form:not(dialog form), svg script, "
            "link:not([rel=icon])').length"
        )
        == 0
    )
    assert browser.run("document.querySelectorAll('script').length") == 1
    assert (
        browser.run(
            "[...document.querySelectorAll('*')].filter((n) => [...n.attributes].some((a) => /^on/.test(a.name)))"
            ".length"
        )
        == 0
    )
    assert browser.run("[...document.links].filter((a) => !/^https?:/.test(a.href)).length") == 0
    assert browser.run("document.body.innerText.includes('\\u202e')") is False
    assert [r for r in browser.requests if r != url] == []
    assert browser.problems == []


def test_ten_thousand_events_are_drawn_as_one_comes_near_them(browser, written):
    story = Story()
    for n in range(2_000):
        call = ToolUse(f"c{n}", "Read", {"file_path": f"m{n}.py"})
        story.add(PromptAdded(f"prompt {n}"), 5 * n)
        story.reply(5 * n + 2, 1.5, Text(f"I read **m{n}**."), call)
        story.tool(call, 5 * n + 2, 5 * n + 3, f"needle-{n} " * 20)
        story.reply(5 * n + 4, 1, Text("done"))
    browser.open(written(story.events))
    assert browser.run("session.main.entries.length") == 6_000
    assert browser.run("document.querySelectorAll('*').length") < 8_000
    browser.run("scrollTo(0, document.body.scrollHeight)")
    browser.until("document.querySelector('#talk').innerText.includes('prompt 1999')")
    assert browser.run("find(session, 'needle-1234 ').length") == 1
    assert browser.run("[...document.querySelectorAll('.group')].filter((g) => !g.filled).length") > 150
    assert browser.problems == []


def _bars(events):
    ends = {e.tool_use_id: e.at for e in events if isinstance(e, ToolEnded)}
    answers = {e.question_id: e.at for e in events if isinstance(e, QuestionAnswered)}
    for event in events:
        match event:
            case ReplyAdded():
                yield "request", round(event.at - event.duration_ms / 1000, 3), event.at
            case ToolStarted():
                yield "tool", event.at, ends[event.tool_use_id]
            case QuestionAsked():
                yield "wait", event.at, answers[event.question_id]
            case RetryScheduled():
                yield "retry", event.at, event.at + event.delay_s
