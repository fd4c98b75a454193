"""The channel to a remote server: each message a POST, answered by JSON or by a stream of events."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from itertools import count
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

from cowork.core.blocks import Json
from cowork.core.errors import ProviderError
from cowork.core.json_rpc import Answer, Hear, Peer, RpcError, encode
from cowork.http.client import NETWORK_ERRORS, HttpClient, Response, proxy_for
from cowork.http.errors import connection_error
from cowork.http.sse import SseParser
from cowork.mcp import protocol
from cowork.mcp.param_headers import header_value
from cowork.mcp.protocol import MODERN, LoginNeeded, McpError, ServerGone, SessionEnded, refuse_all

T = TypeVar("T")
_ACCEPT = "application/json, text/event-stream"
_RESUMES = 5  # of one stream that broke off
_RETRY_S = 1.0  # before that, where the server does not say
_GOODBYE_S = 2.0
_LISTEN_S = 2.0
_LOGINS = 3  # for one request
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class Authorizer(Protocol):
    """Keeps the token of a server."""

    async def token(self) -> str: ...  # empty where there is none
    async def challenged(self, status: int, challenge: str, refused: str) -> bool: ...  # whether there is another token


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


class HttpChannel:
    """Messages over POSTs; the connection is stateless, or a session by its id."""

    remote = True

    def __init__(self, url: str, headers: Mapping[str, str], auth: Authorizer | None = None) -> None:
        self.answer: Answer = refuse_all
        self.hear: Hear = lambda method, params: None
        self.on_close: Callable[[ServerGone], None] = lambda gone: None
        self.version = ""
        self.host = urlsplit(url).netloc.rpartition("@")[2]
        self._url, self._auth = url, auth
        self._headers = {name.lower(): value for name, value in headers.items()}
        self._session = ""
        self._client = HttpClient(url, proxy=proxy_for(url))
        self._ids = count(1)
        self._tasks: set[asyncio.Task[Any]] = set()  # requests under way, and messages that have no answer
        self._peer = Peer(  # for what the server asks and tells; each request has an answer of its own
            self._post_soon,
            lambda method, params: self.answer(method, params),
            lambda method, params: self.hear(method, params),
            cancel=protocol.CANCEL,
            tells_cancelled=False,
        )

    async def open(self) -> None:
        """Nothing is sent before the first request."""

    async def request(self, method: str, params: Json, headers: Mapping[str, str]) -> Json:
        id = next(self._ids)
        exchange = self._start(self._exchange({"id": id, "method": method, "params": params}, headers))
        try:
            message = await protocol.unless_stopped(exchange)
        except asyncio.CancelledError:
            if self.version != MODERN:  # there, closing the stream says it
                self._peer.notify(protocol.CANCEL, {"requestId": id})
            raise
        if message.get("error") is not None:
            raise protocol.refusal_of(RpcError.from_dict(message["error"]))
        return protocol.result_of(message.get("result"))

    async def _exchange(self, message: Json, headers: Mapping[str, str]) -> Json:
        response = await self._send("POST", message, headers)
        try:
            if "text/event-stream" in response.headers.get("content-type", ""):
                return await self._answer_in(response, message["id"])
            return protocol.decode(await self._whole(response))
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

    def _post_soon(self, message: Json) -> None:
        async def post() -> None:
            with contextlib.suppress(McpError):
                await self._post(message)

        self._start(post())

    def _start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def listen(self) -> None:
        """Hear what a server of a legacy revision says by itself, if it has a stream for that.

        What it says before the stream is there is lost, so that is waited for, a little.
        """
        there = asyncio.Event()
        self._start(self._listen(there))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(there.wait(), _LISTEN_S)

    async def aclose(self) -> None:
        await self._peer.stop()
        for task in (ending := list(self._tasks)):
            task.cancel()
        if ending:
            await asyncio.wait(ending)
        if self._session:
            with contextlib.suppress(McpError, TimeoutError):
                async with asyncio.timeout(_GOODBYE_S):
                    (await self._send("DELETE", None, {})).close()
        await self._client.aclose()

    # ------------------------------------------------------------ one request

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
            self._session = response.headers.get("mcp-session-id", self._session)
            if response.status < 300:
                return response
            challenge = response.headers.get("www-authenticate", "")
            wanted = response.status == 401 or (response.status == 403 and "insufficient_scope" in challenge)
            refused = await self._refusal(response, message)
            if not wanted:
                raise refused
            if logins == _LOGINS or not (self._auth and await self._auth.challenged(response.status, challenge, token)):
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
                found["mcp-name"] = header_value(message["params"].get(key, ""))
        elif self._session:
            found["mcp-session-id"] = self._session
        return found

    async def _refusal(self, response: Response, message: Json | None) -> McpError:
        body = await response.start_of(64 * 1024)
        response.close()
        if response.status == 404 and self._session:
            return SessionEnded("ended the session")
        with contextlib.suppress(McpError):
            if isinstance(error := protocol.decode(body).get("error"), dict) and error.get("code"):
                return protocol.refusal_of(RpcError.from_dict(error))
        return McpError(f"{self.host} answered {response.status}")

    async def _whole(self, response: Response) -> bytes:
        body = await self._guarded(response.start_of(protocol.MOST_BYTES + 1))
        if len(body) > protocol.MOST_BYTES:
            raise McpError(f"sent a message longer than {protocol.MOST_BYTES >> 20} MB")
        return bytes(body)

    async def _guarded(self, work: Any) -> Any:
        try:
            return await work
        except (*NETWORK_ERRORS, ProviderError) as error:
            raise ServerGone(
                f"{self.host} broke off: {protocol.one_line(str(error) or type(error).__name__)}"
            ) from error

    # ------------------------------------------------------------ streams

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
        raise ServerGone(f"{self.host} closed the stream without an answer")

    async def _messages(self, response: Response, events: _Events) -> AsyncIterator[Json]:
        while data := await self._guarded(response.read()):
            for payload in await self._guarded(_parsed(events, data)):
                yield protocol.decode(payload)
        for payload in events.close():
            yield protocol.decode(payload)

    async def _listen(self, there: asyncio.Event) -> None:
        last, delay = "", _RETRY_S
        for _ in range(_RESUMES):
            with contextlib.suppress(ServerGone):
                try:
                    response = await self._send("GET", None, {"last-event-id": last} if last else {})
                except ServerGone:
                    raise
                except McpError:  # it has no such stream
                    return
                finally:
                    there.set()
                events = _Events(self.host)
                try:
                    async for message in self._messages(response, events):
                        self._peer.take(message)
                finally:
                    response.close()
                    last, delay = events.last_id or last, events.retry_s
            await asyncio.sleep(delay)


async def _parsed(events: _Events, data: bytes) -> list[bytes]:
    return events.feed(data)


async def fetch(
    method: str, url: str, headers: Mapping[str, str] | None = None, body: bytes = b""
) -> tuple[int, Mapping[str, str], bytes]:
    """(status, headers, body) of one small request; redirects are not followed."""
    client = HttpClient(url, proxy=proxy_for(url))
    try:
        async with asyncio.timeout(20):
            response = await client.send(method, {"accept": "application/json", **(headers or {})}, body)
            found = response.status, response.headers, await response.start_of(1 << 20)
            response.close()
            return found
    except (*NETWORK_ERRORS, ProviderError) as error:
        said = error.message if isinstance(error, ProviderError) else connection_error(error, host=url).message
        raise ServerGone(said) from error
    finally:
        await client.aclose()
