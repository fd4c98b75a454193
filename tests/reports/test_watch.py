"""`cowork watch`: a page that follows a running session, for this machine and its user alone."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
from dataclasses import replace

import pytest

from cowork.core.blocks import Text
from cowork.core.events import PromptAdded, ReplyAdded, to_dict
from cowork.reports.watch import WatchServer
from cowork.sessions.index import find
from cowork.sessions.log.reader import read_from
from cowork.sessions.log.writer import SessionLog
from tests.fakes.command import COWORK
from tests.reports.sample import START, sample


@pytest.fixture
def log(tmp_path):
    """The sample session, still being written."""
    kept = SessionLog.create(tmp_path / "home" / "sessions", "k3vq7m2a9xyz")
    for event in sample():
        kept(event)
    yield kept
    kept.close()


@pytest.fixture
async def served(log):
    server = WatchServer(log.folder, find(log.folder.parent, log.id))
    listening = await server.start()
    yield server
    listening.close()


async def ask(server, target="/", method="GET", **headers):
    """Status, headers and body of one request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    given = {"Host": f"127.0.0.1:{server.port}"} | {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items()), "", ""]
    writer.write("\r\n".join(lines).encode())
    whole = (await reader.read()).decode()
    writer.close()
    head, _, body = whole.partition("\r\n\r\n")
    return int(head.split()[1]), head, body


def path_of(server):
    return server.url.partition(str(server.port))[2]


async def enter(server):
    """The cookie that the token is exchanged for."""
    status, head, _ = await ask(server, path_of(server))
    assert status == 303
    cookie = re.search(r"Set-Cookie: ([^;]+); HttpOnly; SameSite=Strict", head)
    assert cookie
    return cookie[1]


async def test_the_token_opens_the_page_once(served):
    first = path_of(served)
    cookie = await enter(served)
    assert (await ask(served, first))[0] == 403
    status, head, page = await ask(served, Cookie=cookie)
    assert status == 200
    assert "X-Frame-Options: DENY" in head
    assert "connect-src 'self'" in page
    assert "guest orders" in page


@pytest.mark.parametrize(
    ("target", "method", "headers", "status"),
    [
        ("/", "GET", {}, 403),
        ("/events", "GET", {}, 403),
        ("/?token=wrong", "GET", {}, 403),
        ("/?token=", "GET", {}, 403),
        ("TOKEN", "GET", {"Host": "evil.example:PORT"}, 403),
        ("TOKEN", "GET", {"Host": "127.0.0.1"}, 403),
        ("TOKEN", "GET", {"Origin": "https://evil.example"}, 403),
        ("TOKEN", "GET", {"Origin": "null"}, 403),
        ("TOKEN", "GET", {"Sec_Fetch_Site": "cross-site"}, 403),
        ("TOKEN", "POST", {}, 405),
        ("TOKEN", "OPTIONS", {}, 405),
        ("http://127.0.0.1/", "GET", {}, 400),
        ("TOKEN", "GET", {"host": "127.0.0.1:PORT"}, 400),
    ],
)
async def test_nothing_is_told_to_others(served, target, method, headers, status):
    given = {name: value.replace("PORT", str(served.port)) for name, value in headers.items()}
    got = await ask(served, target.replace("TOKEN", path_of(served)), method, **given)
    assert got[0] == status
    assert "guest" not in got[2]
    assert (await ask(served, path_of(served)))[0] == 303  # the token is still good


async def test_the_stream_has_every_event_and_what_comes_after(served, log):
    cookie = await enter(served)
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(f"GET /events HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nCookie: {cookie}\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    first = (await reader.readuntil(b"\n\n")).decode()
    part = json.loads(first.partition("data: ")[2])
    assert [e["id"] for e in part["events"]] == [e.id for e in sample()]
    log(replace(PromptAdded("One more thing"), id=900, at=START + 2_000, session_id=log.id))
    second = (await reader.readuntil(b"\n\n")).decode()
    assert [e["text"] for e in json.loads(second.partition("data: ")[2])["events"]] == ["One more thing"]
    log.close()
    assert await reader.readuntil(b"\n\n") == b"event: ended\ndata: {}\n\n"
    writer.close()
    offset = re.search(r"id: (\d+)", first)[1]
    again = (await ask(served, "/events", Cookie=cookie, Last_Event_ID=offset))[2]
    assert again.startswith("id: ")
    assert again.count("data: ") == 2  # the whole block in which something was new, and the end


def test_a_follower_waits_for_the_end_of_a_line(log):
    whole, end = read_from(log.path, 0)
    assert [to_dict(e) for e in whole] == [to_dict(e) for e in sample()]
    size = log.path.stat().st_size
    assert end == size
    with log.path.open("ab") as file:
        file.write(b'{"type":"notice"')
        file.flush()
        assert read_from(log.path, end) == ([], size)
        file.write(b"}\n")
    assert read_from(log.path, end) == ([], size + 18)  # a line without its checksum is passed over
    some, middle = read_from(log.path, 0, most=2_000)
    rest, _ = read_from(log.path, middle)
    assert 0 < len(some) < len(whole)
    assert some + rest == whole


def test_the_page_grows_while_the_session_runs(log, browser, tmp_path):
    env = os.environ | {"COWORK_HOME": str(tmp_path / "home")}
    server = subprocess.Popen([COWORK, "watch", "k3v"], stdout=subprocess.PIPE, text=True, env=env)
    try:
        assert server.stdout.readline().startswith("Why do refunds fail")
        url = server.stdout.readline().split()[0]
        browser.open(url, 1200, 900)
        browser.until("session.main.entries.length >= 10")
        browser.until("document.querySelector('#talk').innerText.includes('two places at once')")
        said = ReplyAdded((Text("And **that** was all."),), "end_turn", model="m", duration_ms=900)
        log(replace(said, id=901, at=START + 2_000, session_id=log.id))
        browser.run("scrollTo(0, document.body.scrollHeight)")
        browser.until("document.querySelector('#talk').innerText.includes('And that was all.')")
        assert browser.run("document.querySelector('.live').textContent") == "live"
        log.close()
        browser.until("document.querySelector('.live').textContent === 'ended'")
        assert browser.run("location.search") == ""
        assert browser.problems == []
    finally:
        server.send_signal(signal.SIGINT)
        assert server.wait(20) == 130


async def test_a_request_of_no_kind_is_no_traceback(served, log, caplog):
    cookie = await enter(served)
    assert (await ask(served, "//[", Cookie=cookie))[0] == 400
    log.close()
    status, _, story = await ask(served, "/events", Cookie=cookie, Last_Event_ID="9" * 5_000)
    assert (status, "guest orders" in story, caplog.records) == (200, True, [])
