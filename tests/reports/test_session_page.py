"""What a page is made of, without looking at it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace

import pytest

from cowork.core.blocks import Text, ToolUse
from cowork.core.events import PromptAdded, ReplyAdded
from cowork.reports.page import session_page, to_script
from cowork.sessions.log.reader import read
from cowork.sessions.log.writer import SessionLog
from tests.fakes.effort import calls
from tests.reports.sample import Story

BLOCK = re.compile(r'<script type="application/json">(.*?)</script>', re.S)


def blocks(page: str) -> list:
    return [json.loads(found) for found in BLOCK.findall(page)]


def test_the_policy_names_the_one_script_and_the_one_style(story):
    page = "".join(session_page(story))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    script, style = re.search(r"<script>(.*)</script>", page, re.S)[1], re.search(r"<style>(.*)</style>", page, re.S)[1]
    for text, kind in ((script, "script-src"), (style, "style-src")):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert "http://" not in script.replace("http://www.w3.org/2000/svg", "")


def test_the_page_holds_the_story_once_and_nothing_that_was_rewound(story):
    page = "".join(session_page(story))
    facts, body = blocks(page)
    assert (facts["title"], facts["cwd"], facts["branch"]) == (
        "Why do refunds fail for guest orders? Fix it, with a test.",
        "/home/ada/src/shop",
        "main",
    )
    assert "SECRET-OF-THE-PAST" not in page
    assert page.count("Ran 3 tests in") == 1
    assert [e["type"] for e in body["events"] if e.get("gone")] == ["prompt.added", "reply.added", "turn.ended"]
    priced = [charge[-1] for charge in body["charges"]]
    assert sum(price or 0 for price in priced) == pytest.approx(0.098)
    assert priced.count(None) == 1


def test_redacted_it_tells_times_and_prices_and_nothing_that_was_said(story):
    page = "".join(session_page(story, redact=True))
    said = ("refund", "guest", "shop", "ada", "unittest", "USERS", "529", "Prices", "iVBOR", "Three places")
    data = "".join(BLOCK.findall(page))
    assert [word for word in said if word in data or word in page[:2000]] == []
    full, bare = blocks("".join(session_page(story)))[1], blocks(page)[1]
    assert bare["charges"] == full["charges"]
    assert [(e["type"], e["at"], e["agent"]) for e in bare["events"]] == [
        (e["type"], e["at"], e["agent"]) for e in full["events"]
    ]


@pytest.mark.parametrize(
    "value", ["</script><!--<script>", "\u2028", "\ud800", float("nan"), {"a": [float("inf")]}, "é\x7f"]
)
def test_any_value_is_json_that_cannot_leave_its_element(value):
    text = to_script({"value": value})
    assert "<" not in text
    text.encode()
    again = json.loads(text)["value"]
    assert again == value or "nan" in text or "inf" in text


def test_a_session_without_events_has_a_page_too():
    assert "Session " in "".join(session_page([]))


def test_a_long_session_is_exported_in_little_more_than_it_takes_to_read(tmp_path):
    story = Story()
    for n in range(100):
        call = ToolUse(f"c{n}", "Read", {"file_path": f"m{n}.py"})
        story.add(PromptAdded(f"prompt {n} with <b>some</b> words"), n)
        story.reply(n, 1, Text("I read it. " * 10), call)
        story.tool(
            call,
            n,
            n,
            "12\tdef name(value: list[int]) -> int: return value[0] < 3\n" * 30,
            kind="text",
            summary="30 lines",
        )
        story.reply(n, 1, Text("It is **short**. " * 10))
    log = SessionLog.create(tmp_path, "long")
    for event in story.events:
        log(event)
    log.close()
    size = len("".join(session_page(read(log.path).events)).encode())
    assert size < 1.5 * log.path.stat().st_size
    reading = calls(lambda: read(log.path))
    assert calls(lambda: list(session_page(read(log.path).events))) < 3 * reading


def test_events_of_odd_shapes_do_not_stop_an_export(story):
    odd = [
        replace(e, content=(*e.content, ToolUse("x", "Odd", {"n": float("nan")}))) if isinstance(e, ReplyAdded) else e
        for e in story
    ]
    assert "nan" in "".join(session_page(odd))
