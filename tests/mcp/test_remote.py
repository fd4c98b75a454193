"""Remote servers over loopback: streamable HTTP in both eras, and the whole of a login."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from cowork.core.blocks import Json
from cowork.mcp import oauth
from cowork.mcp.client import McpClient
from cowork.mcp.content import result_content
from cowork.mcp.entries import entry_of, fill
from cowork.mcp.http import HttpChannel
from cowork.mcp.oauth import OAuth
from cowork.mcp.protocol import LEGACY, MODERN, LoginNeeded, McpError, ServerGone
from cowork.mcp.servers import ListCache, Server, ServerPorts
from tests.fakes.command import COWORK, QUIET, Command
from tests.mcp.conformance import Memory, browse, elicit
from tests.mcp.conftest import until
from tests.mcp.remote_server import Remote, remote

ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])


async def connected(server: Remote, auth: OAuth | None = None, **rest: Any) -> McpClient:
    client = McpClient(HttpChannel(server.url, {}, auth), elicit=elicit, **rest)
    await client.connect()
    return client


@ERAS
async def test_a_call_is_answered_in_a_stream_with_its_progress(era: str) -> None:
    with remote(era=era) as server:
        client, heard = await connected(server), list[str]()
        assert client.facts.version == (MODERN if era == "modern" else LEGACY[0])
        assert [tool["name"] for tool in await client.tools()] == ["echo", "slow", "broken"]
        assert result_content(await client.call("echo", {"text": "hi"}, heard.append)).text == "echo: hi"
        await client.aclose()
        ((headers, _),) = server.calls("tools/call")
        said = {name.lower(): value for name, value in headers.items()}
        assert (said["mcp-protocol-version"], heard) == (client.facts.version, ["1/2 half\n"])
        if era == "modern":
            assert (said["mcp-method"], said["mcp-name"], "mcp-session-id" in said) == ("tools/call", "echo", False)
        else:
            assert (said["mcp-session-id"], server.asked[-1][0]) == ("s1", "DELETE")


@ERAS
async def test_a_cancelled_call_leaves_its_stream_and_says_so_where_that_is_needed(era: str) -> None:
    with remote(era=era) as server:
        client, heard = await connected(server), list[str]()
        call = asyncio.ensure_future(client.call("slow", {}, heard.append))
        await until(lambda: bool(heard))
        call.cancel()
        await asyncio.wait([call])
        await until(server.closed.is_set)
        assert result_content(await client.call("echo", {"text": "on"})).text == "echo: on"
        await client.aclose()
        assert bool(server.calls("notifications/cancelled")) == (era == "legacy")


async def test_a_stream_that_broke_off_is_taken_up_in_a_legacy_session_and_lost_in_none() -> None:
    with remote(era="legacy") as server:
        client = await connected(server)
        for half in (False, True):  # of an event came before it broke off
            assert result_content(await client.call("broken", {"half": half})).text == "taken up"
        await client.aclose()
    with remote() as server:
        client = await connected(server)
        with pytest.raises(ServerGone, match="closed the stream without an answer"):
            await client.call("broken", {})
        await client.aclose()


async def test_a_legacy_server_tells_of_changes_and_a_session_it_forgot_is_known() -> None:
    with remote(era="legacy") as server:
        changed = list[str]()
        client = await connected(server, changed=changed.append)
        await client.follow()
        await until(lambda: changed == ["tools"])
        server.sessions += 1
        with pytest.raises(ServerGone, match="ended the session"):
            await client.call("echo", {})
        await client.aclose()


async def test_a_session_that_no_request_can_name_is_a_failure_of_the_server() -> None:
    with remote(era="legacy", session="é") as server, pytest.raises(McpError, match="cannot be written"):
        await connected(server)


async def test_calls_side_by_side_begin_a_forgotten_session_anew_once(tmp_path: Path) -> None:
    with remote(era="legacy") as server:
        entry = fill(entry_of("far", {"url": server.url}, "user"), {})
        cache = ListCache(Path(os.devnull, "none"), {})
        ports = ServerPorts(lambda entry: HttpChannel(entry.url, {}), lambda *said: None, lambda server: None, cache)
        one = Server(entry, ports)
        await one.connect()
        server.sessions += 1
        said = await asyncio.gather(*(one.call("echo", {"text": str(n)}, print, elicit) for n in range(4)))
        assert [result_content(result).text for result in said] == [f"echo: {n}" for n in range(4)]
        assert len(server.calls("initialize")) == 2
        await one.close()


async def test_a_call_under_way_when_the_server_is_switched_off_says_so() -> None:
    with remote(era="legacy") as server:
        entry = fill(entry_of("far", {"url": server.url}, "user"), {})
        cache = ListCache(Path(os.devnull, "none"), {})
        ports = ServerPorts(lambda entry: HttpChannel(entry.url, {}), lambda *said: None, lambda server: None, cache)
        one, heard = Server(entry, ports), list[str]()
        waits = asyncio.ensure_future(one.connect())
        await asyncio.sleep(0)
        await one.switch(on=False)
        with pytest.raises(McpError, match="was stopped"):  # and no cancellation, which would end the turn
            await waits
        await one.switch(on=True)
        call = asyncio.ensure_future(one.call("slow", {}, heard.append, elicit))
        await until(lambda: bool(heard))
        await one.switch(on=False)
        with pytest.raises(McpError, match="was stopped"):
            await asyncio.wait_for(call, 10)


# ------------------------------------------------------------ logins


async def test_calls_side_by_side_refresh_a_token_once() -> None:
    with remote(login=True, lasts=31) as server:
        store = Memory()
        client = await connected(server, OAuth(server.url, {}, store, browse))
        store.kept["expires_at"] = time.time()  # over
        await asyncio.gather(*(client.call("echo", {"text": "in"}) for _ in range(4)))
        assert server.refreshed == 1
        server.tokens.clear()  # revoked
        store.kept["expires_at"] = time.time() + 3600
        await asyncio.gather(*(client.call("echo", {"text": "in"}) for _ in range(4)))
        assert server.refreshed == 2
        await client.aclose()


async def test_a_redirect_of_no_kind_does_not_end_a_login() -> None:
    with remote(login=True) as server:

        async def person(url: str) -> None:
            back = urlsplit(dict(parse_qsl(urlsplit(url).query))["redirect_uri"])
            for line in (b"rubbish", b"GET", b"GET //[ HTTP/1.1"):
                reader, writer = await asyncio.open_connection(back.hostname, back.port)
                writer.write(line + b"\r\n\r\n")
                await asyncio.wait_for(reader.read(), 10)
                writer.close()
            await browse(url)

        client = await connected(server, OAuth(server.url, {}, Memory(), person))
        await client.aclose()


async def test_a_login_proves_itself_and_its_token_is_refreshed_without_anybody() -> None:
    with remote(login=True, lasts=10) as server:  # over as soon as it is there
        store, opened = Memory(), list[str]()

        async def person(url: str) -> None:
            opened.append(url)
            await browse(url)

        client = await connected(server, OAuth(server.url, {}, store, person))
        assert result_content(await client.call("echo", {"text": "in"})).text == "echo: in"
        forms = [body for _, path, _, body in server.asked if path == "/token"]
        assert (forms[0]["grant_type"], forms[0]["resource"]) == ("authorization_code", server.url)
        assert {form["grant_type"] for form in forms[1:]} == {"refresh_token"}
        assert (len(opened), server.refreshed > 0, store.kept["scope"]) == (1, True, "use")
        store.kept["expires_at"] = time.time() + 3600
        server.tokens.clear()  # revoked at the server: the refusal makes it refresh
        assert result_content(await client.call("echo", {"text": "still"})).text == "echo: still"
        assert len(opened) == 1
        await client.aclose()


async def test_logins_that_must_fail_fail_with_a_reason() -> None:
    with remote(login=True) as server:
        with pytest.raises(LoginNeeded, match="wants a login"):  # nobody is there
            await connected(server, OAuth(server.url, {}, Memory()))
        server.wrong_state = True
        with pytest.raises(LoginNeeded, match="does not belong to this login"):
            await connected(server, OAuth(server.url, {}, Memory(), browse))
        server.wrong_state, server.challenge = False, ""

        async def thief(url: str) -> None:
            await browse(url)
            server.challenge = "of another verifier"

        with pytest.raises(LoginNeeded, match="invalid_grant"):
            await connected(server, OAuth(server.url, {}, Memory(), thief))


@pytest.mark.parametrize(
    "facts",
    [{"resource": "https://["}, {"authorization_servers": ["https://["]}, {"authorization_servers": ["https://é:0x"]}],
)
async def test_an_address_of_no_kind_ends_a_login_with_a_reason(facts: Json, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fetch(method: str, url: str, *rest: Any) -> tuple[int, Json]:
        return (200, facts) if url.startswith("https://me/") else await real(method, url, *rest)

    real = oauth.fetch
    monkeypatch.setattr(oauth, "fetch", fetch)
    with pytest.raises(McpError, match="which is no address"):
        await OAuth("https://me/x", {}, Memory(), browse).login()


async def test_a_token_that_lasts_longer_than_time_does_is_kept() -> None:
    with remote(login=True, lasts=10**400) as server:
        await (await connected(server, OAuth(server.url, {}, Memory(), browse))).aclose()


def test_a_run_goes_on_without_a_token_and_the_command_it_names_logs_in(command: Command) -> None:
    with remote(login=True) as server:
        command.cowork("mcp", "add", "far", "--url", server.url)
        done = command.play([{"say": "done"}])
        said = [event["text"] for event in done.of("notice") if event["code"] == "mcp"]
        assert (done.code, said) == (0, ["MCP server far wants a login; `cowork mcp login far`."])
        words = [str(COWORK), "mcp", "login", "far", "--no-browser"]
        env = {"PATH": os.environ["PATH"], "HOME": str(command.home), "LANG": "C.UTF-8", **QUIET}
        with subprocess.Popen(words, cwd=command.folder, env=env, stdout=subprocess.PIPE, text=True) as login:
            assert login.stdout is not None
            login.stdout.readline()
            asyncio.run(browse(login.stdout.readline().strip()))
            assert login.stdout.read() == "logged in to far\n"
        (kept,) = [path for path in command.home.rglob("*") if path.is_file() and "token-" in _text(path)]
        assert kept.stat().st_mode & 0o777 == 0o600
        assert "3 tools" in command.cowork("mcp", "test", "far").out
        assert command.cowork("mcp", "logout", "far").out == "logged out of far\n"
        assert "token-" not in _text(kept)


def _text(path: Path) -> str:
    return path.read_text(errors="replace")
