"""A transport for networks that need a proxy: a keep-alive pool on httpx2's own engine."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import httpcore2

from cowork.providers.errors import broken_stream, connection_error, http_error, unstreamed
from cowork.providers.transports.direct import CONNECT_TIMEOUT, LONGEST_ERROR, Address
from cowork.providers.transports.sse import SseParser

_WRITE = 60.0
_NETWORK_ERRORS = (
    httpcore2.NetworkError,
    httpcore2.TimeoutException,
    httpcore2.ProtocolError,
    httpcore2.ProxyError,
    OSError,
)


class ProxiedTransport:
    """POSTs over a pool that lives as long as the provider."""

    def __init__(self, address: Address, *, connect_timeout: float = CONNECT_TIMEOUT) -> None:
        self.host = address.host
        self._address = address
        self._headers: dict[bytes | str, bytes | str] = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            "accept-encoding": "identity",
            **{name.lower(): value for name, value in address.headers.items()},
        }
        self._timeouts = {"connect": connect_timeout, "read": None, "write": _WRITE, "pool": None}
        self._pool: httpcore2.AsyncConnectionPool | None = None

    async def post(self, body: bytes) -> AsyncGenerator[list[bytes], None]:
        began = False
        try:
            if self._pool is None:
                self._pool = self._open_pool()
            request = self._pool.stream(
                "POST",
                self._address.url,
                headers=self._headers,
                content=body,
                extensions={"timeout": self._timeouts},
            )
            async with request as response:
                await self._check(response)
                began = True
                parser = SseParser()
                async for chunk in response.aiter_stream():
                    if payloads := parser.feed(chunk):
                        yield payloads
                if payloads := parser.close():
                    yield payloads
        except _NETWORK_ERRORS as error:
            if began:
                raise broken_stream(self.host, "the connection was lost in the middle of the answer") from error
            raise connection_error(error, host=self.host, secret=self._address.secret) from error

    async def aclose(self) -> None:
        if self._pool is not None:
            await self._pool.aclose()

    async def _check(self, response: httpcore2.Response) -> None:
        """Raise for anything but a stream of events."""
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
        kind = headers.get("content-type", "").partition(";")[0].strip()
        if response.status == 200 and kind not in ("application/json", "text/html"):
            return
        body = await _read_some(response)
        if response.status != 200:
            raise http_error(response.status, headers, body, host=self.host, secret=self._address.secret)
        raise unstreamed(kind, body, host=self.host, secret=self._address.secret)

    def _open_pool(self) -> httpcore2.AsyncConnectionPool:
        return httpcore2.AsyncConnectionPool(
            proxy=_proxy(self._address.proxy), max_connections=None, max_keepalive_connections=20
        )


async def _read_some(response: httpcore2.Response) -> bytes:
    found = bytearray()
    async for chunk in response.aiter_stream():
        found += chunk
        if len(found) >= LONGEST_ERROR:
            break
    return bytes(found[:LONGEST_ERROR])


def _proxy(url: str) -> httpcore2.Proxy | None:
    if not url:
        return None
    scheme, _, rest = url.partition("://") if "://" in url else ("http", "", url)
    login, _, place = rest.rpartition("@")
    user, _, password = login.partition(":")
    return httpcore2.Proxy(f"{scheme}://{place}", auth=(user, password) if login else None)
