"""The lean transport: POSTs whose answer is a stream of server-sent events, over our own HTTP client."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import field

from cowork.core.frozen import frozen
from cowork.http.client import CONNECT_TIMEOUT, NETWORK_ERRORS, HttpClient, Proxy, Response
from cowork.http.errors import HttpError, broken_stream, connection_error, proxy_refusal
from cowork.http.sse import SseParser
from cowork.providers.errors import http_error

_LONGEST_ERROR = 64 * 1024  # bytes of a refusal worth reading


@frozen
class Address:
    """Where requests go. Redirects are never followed, so the key reaches this host and no other."""

    url: str
    host: str  # for people
    headers: Mapping[str, str] = field(repr=False)
    secret: str = field(default="", repr=False)  # never to be shown, whatever the service echoes
    proxy: Proxy | None = None


class DirectTransport:
    """POSTs over connections that are kept for the life of the provider."""

    def __init__(
        self,
        address: Address,
        *,
        tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
        connect_timeout: float = CONNECT_TIMEOUT,
    ) -> None:
        self.host = address.host
        self._address = address
        self._client = HttpClient(address.url, proxy=address.proxy, tls=tls, connect_timeout=connect_timeout)
        self._headers = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            **{name.lower(): value for name, value in address.headers.items()},
        }

    async def post(self, body: bytes) -> AsyncGenerator[list[bytes], None]:
        response: Response | None = None
        try:
            response = await self._client.send("POST", self._headers, body)
            if response.status != 200:
                raise await self._refusal(response)
            parser = SseParser(self.host)
            while data := await response.read():
                if payloads := parser.feed(data):
                    yield payloads
            if payloads := parser.close():
                yield payloads
        except NETWORK_ERRORS as error:
            if response is None:
                raise connection_error(error, host=self.host, secret=self._address.secret) from error
            why = "the connection was lost in the middle of the answer"
            raise broken_stream(self.host, str(error) if isinstance(error, HttpError) else why) from error
        finally:
            if response is not None:
                response.close()

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _refusal(self, response: Response) -> Exception:
        if response.status == 407 and self._address.proxy:
            return proxy_refusal(response.status, self._address.proxy.name, self.host)
        body = await response.start_of(_LONGEST_ERROR)
        return http_error(response.status, response.headers, body, host=self.host, secret=self._address.secret)
