"""The channel to a remote server: each message a POST, answered by JSON or by a stream of events."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cowork.core.blocks import Json, as_object
from cowork.core.errors import ProviderError
from cowork.core.format import one_line
from cowork.core.json_rpc import RpcError, encode
from cowork.core.workspace import parse_json
from cowork.http.client import NETWORK_ERRORS, HttpClient, Response
from cowork.http.errors import connection_error
from cowork.http.sse import SseParser
from cowork.mcp import protocol
from cowork.mcp.protocol import MODERN, Background, Channel, LoginNeeded, McpError, ServerGone, SessionEnded

if TYPE_CHECKING:
    from cowork.mcp.oauth import OAuth

_ACCEPT = "application/json, text/event-stream"
_RESUMES = 5  # of one stream that broke off
_RETRY_S = 1.0  # before that, where the server does not say
_GOODBYE_S = 2.0
_LISTEN_S = 2.0
_LOGINS = 3  # for one request
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class _Events(SseParser):
    """Server-sent events with what is needed to go on with a stream that broke off."""

    last_id = ""
    retry_s = _RETRY_S

    def data_of(self, event: bytes) -> bytes:
        for line in event.split(b"\n"):
            if line[:3] == b"id:":
                self.last_id = line[3:].strip().decode("ascii", "ignore")
            elif line[:6] == b"retry:" and line[6:].strip().isdigit():
                self.retry_s = min(int(line[6:].strip()[:9]) / 1000, 60.0)
        return super().data_of(event)


class HttpChannel(Channel):
    """Messages over POSTs; the connection is stateless, or a session by its id."""

    remote = True

    def __init__(self, url: str, headers: Mapping[str, str], auth: OAuth | None = None) -> None:
        self.host = urlsplit(url).netloc.rpartition("@")[2]
        self._auth = auth
        self._headers = {name.lower(): value for name, value in headers.items()}
        self._session = ""
        self._client = HttpClient(url)
        self._ids = count(1)
        self._tasks = Background()  # requests under way, and messages that have no answer

    async def _exchange(self, method: str, params: Json, headers: Mapping[str, str]) -> Any:
        id = next(self._ids)
        answer = self._tasks.start(self._answer_to({"id": id, "method": method, "params": params}, headers))
        try:
            message = await protocol.unless_stopped(answer)
        except asyncio.CancelledError:
            if self.version != MODERN:  # there, closing the stream says it
                self._peer.notify(protocol.CANCEL, {"requestId": id})
            raise
        if message.get("error") is not None:
            raise RpcError.from_dict(message["error"])
        return message.get("result")

    async def _answer_to(self, message: Json, headers: Mapping[str, str]) -> Json:
        response = await self._send("POST", message, headers)
        try:
            if "text/event-stream" in response.headers.get("content-type", ""):
                return await self._answer_in(response, message["id"])
            with self._convert_errors():
                body = await response.start_of(protocol.MOST_BYTES + 1)
            if len(body) > protocol.MOST_BYTES:
                raise McpError(f"sent a message longer than {protocol.MOST_BYTES >> 20} MB")
            return protocol.decode(bytes(body))
        finally:
            response.close()

    async def notify(self, method: str) -> None:
        await self._post({"method": method})

    async def _post(self, message: Json) -> None:
        """Send what has no answer."""
        response = await self._send("POST", message, {})
        with contextlib.suppress(*NETWORK_ERRORS):
            await response.start_of(1024)
        response.close()

    def _write(self, message: Json) -> None:
        async def post() -> None:
            with contextlib.suppress(McpError):
                await self._post(message)

        self._tasks.start(post())

    async def listen(self) -> None:
        """Hear what a server of a legacy revision says by itself, if it has a stream for that.

        What it says before the stream is there is lost, so that is waited for, a little.
        """
        there = asyncio.Event()
        self._tasks.start(self._listen(there))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(there.wait(), _LISTEN_S)

    async def aclose(self) -> None:
        await self._peer.stop()
        await self._tasks.stop()
        if self._session:
            with contextlib.suppress(McpError, TimeoutError):
                async with asyncio.timeout(_GOODBYE_S):
                    (await self._send("DELETE", None, {})).close()
        await self._client.aclose()

    async def _send(self, method: str, message: Json | None, headers: Mapping[str, str]) -> Response:
        """A response that is no refusal; a refused token is renewed, a few times at most."""
        body = encode(message).rstrip() if message else b""
        for logins in range(_LOGINS + 1):
            token = await self._auth.token() if self._auth else ""
            given = self._headers | self._standard(message) | dict(headers)
            given |= {"authorization": f"Bearer {token}"} if token else {}
            try:
                response = await self._client.send(method, given, body)
            except NETWORK_ERRORS as error:
                raise ServerGone(connection_error(error, host=self.host).message) from error
            except ProviderError as error:
                raise ServerGone(error.message) from error
            except ValueError as error:  # a session, an event or a token that is no ASCII
                raise McpError(f"{self.host} wants a request that cannot be written") from error
            self._session = response.headers.get("mcp-session-id", self._session)
            if response.status < 300:
                return response
            challenge = response.headers.get("www-authenticate", "")
            wanted = response.status == 401 or (response.status == 403 and "insufficient_scope" in challenge)
            refused = await self._refusal(response)
            if not wanted:
                raise refused
            if logins == _LOGINS or not (self._auth and await self._auth.renew(response.status, challenge, token)):
                raise LoginNeeded(f"{self.host} {'refuses every token' if logins else 'wants a login'}")
        raise AssertionError  # the last try returns or raises

    def _standard(self, message: Json | None) -> dict[str, str]:
        found = {"accept": _ACCEPT if message else "text/event-stream"}
        if message:
            found["content-type"] = "application/json"
        if self.version:
            found["mcp-protocol-version"] = self.version
        if self.version == MODERN and message and "method" in message:
            method = str(message["method"])
            found["mcp-method"] = method
            if key := _NAMED.get(method):
                found["mcp-name"] = protocol.header_value(message["params"].get(key, ""))
        elif self._session:
            found["mcp-session-id"] = self._session
        return found

    async def _refusal(self, response: Response) -> McpError:
        body = await response.start_of(64 * 1024)
        response.close()
        if response.status == 404 and self._session:
            return SessionEnded("ended the session")
        with contextlib.suppress(McpError):
            if isinstance(error := protocol.decode(body).get("error"), dict) and error.get("code"):
                return protocol.refusal_of(RpcError.from_dict(error))
        return McpError(f"{self.host} answered {response.status}")

    @contextlib.contextmanager
    def _convert_errors(self) -> Iterator[None]:
        try:
            yield
        except (*NETWORK_ERRORS, ProviderError) as error:
            why = one_line(str(error) or type(error).__name__, 500)
            raise ServerGone(f"{self.host} broke off: {why}") from error

    async def _answer_in(self, response: Response, id: int) -> Json:
        """The answer to a request in a stream of events, which a server of a legacy revision may break off."""
        events = _Events(self.host)
        for attempt in range(_RESUMES + 1):
            try:
                async for message in self._messages(response, events):
                    if message.get("id") == id and "method" not in message:
                        await asyncio.sleep(0)  # in which what came before it is heard
                        return message
                    self._peer.take(message)
            except ServerGone:
                if not events.last_id or self.version == MODERN:
                    raise
            finally:
                response.close()
            if not events.last_id or self.version == MODERN or attempt == _RESUMES:
                break
            await asyncio.sleep(events.retry_s)
            response = await self._send("GET", None, {"last-event-id": events.last_id})
            broken, events = events, _Events(self.host)  # without the half of an event that came
            events.last_id, events.retry_s = broken.last_id, broken.retry_s
        raise ServerGone(f"{self.host} closed the stream without an answer")

    async def _messages(self, response: Response, events: _Events) -> AsyncIterator[Json]:
        data = b"."
        while data:
            with self._convert_errors():
                data = await response.read()
                payloads = events.feed(data) if data else events.close()
            for payload in payloads:
                yield protocol.decode(payload)

    async def _listen(self, there: asyncio.Event) -> None:
        last, delay = "", _RETRY_S
        for _ in range(_RESUMES):
            events = _Events(self.host)
            try:
                response = await self._send("GET", None, {"last-event-id": last} if last else {})
                there.set()
                with contextlib.closing(response):
                    async for message in self._messages(response, events):
                        self._peer.take(message)
            except ServerGone:
                pass
            except McpError:  # it has no such stream
                return
            finally:
                there.set()
                last, delay = events.last_id or last, events.retry_s
            await asyncio.sleep(delay)


async def fetch(method: str, url: str, kind: str = "", body: str = "", **headers: str) -> tuple[int, Json]:
    """(status, the table in the answer) of one small request; redirects are not followed."""
    given = {"accept": "application/json", **headers} | ({"content-type": f"application/{kind}"} if kind else {})
    try:
        async with contextlib.aclosing(HttpClient(url)) as client, asyncio.timeout(20):
            response = await client.send(method, given, body.encode())
            raw = await response.start_of(1 << 20)
            response.close()
    except (*NETWORK_ERRORS, ProviderError) as error:
        said = error.message if isinstance(error, ProviderError) else connection_error(error, host=url).message
        raise ServerGone(said) from error
    except ValueError as error:
        raise McpError(f"names {one_line(url, 100)}, which is no address") from error
    with contextlib.suppress(ValueError):
        return response.status, as_object(parse_json(raw))
    return response.status, {}
