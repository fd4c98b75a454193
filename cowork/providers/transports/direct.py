"""The lean transport: POSTs whose answer is a stream of server-sent events, over our own HTTP client."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping

from cowork.http.client import NETWORK_ERRORS, HttpClient, Response
from cowork.http.errors import HttpError, broken_stream, connection_error, proxy_refusal
from cowork.http.sse import SseParser
from cowork.providers.errors import http_error

_LONGEST_ERROR = 64 * 1024  # bytes of a refusal worth reading


class DirectTransport:
    """POSTs over connections that are kept for the life of the provider.

    Redirects are never followed, so the key reaches this host and no other. `host` is its name for people, `secret`
    what is never to be shown, whatever the service echoes.
    """

    def __init__(self, client: HttpClient, headers: Mapping[str, str], *, host: str, secret: str = "") -> None:
        self.host = host
        self._secret = secret
        self._client = client
        self._headers = {"content-type": "application/json", "accept": "text/event-stream", **headers}
        self.aclose = client.aclose

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
                raise connection_error(error, host=self.host, secret=self._secret) from error
            why = "the connection was lost in the middle of the answer"
            raise broken_stream(self.host, str(error) if isinstance(error, HttpError) else why) from error
        finally:
            if response is not None:
                response.close()

    async def _refusal(self, response: Response) -> Exception:
        if response.status == 407 and (proxy := self._client.proxy):
            return proxy_refusal(response.status, proxy.name, self.host)
        body = await response.start_of(_LONGEST_ERROR)
        return http_error(response.status, response.headers, body, host=self.host, secret=self._secret)
