"""The vendors' own clients as a transport, for Bedrock, Vertex, Azure and whatever needs their way to log in.

Only their raw streaming responses are used; retries are off, so that each try is seen and counted.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import ssl
from collections.abc import AsyncGenerator
from operator import attrgetter
from typing import Any

import httpx2

from cowork.core.blocks import Json
from cowork.core.errors import ProviderError, UserError
from cowork.core.ports import ModelSpec
from cowork.http.client import CONNECT_TIMEOUT, Proxy
from cowork.http.errors import broken_stream, connection_error, one_line, proxy_refusal
from cowork.providers.errors import event_error, http_error

_CLIENTS: dict[tuple[str, str], str] = {
    ("anthropic", ""): "AsyncAnthropic",
    ("anthropic", "bedrock"): "AsyncAnthropicBedrock",
    ("anthropic", "vertex"): "AsyncAnthropicVertex",
    ("anthropic", "azure"): "AsyncAnthropicFoundry",
    ("openai", ""): "AsyncOpenAI",
    ("openai", "azure"): "AsyncAzureOpenAI",
}
_RESOURCES = {"anthropic": "messages", "openai": "responses", "openai-chat": "chat.completions"}
_OUR_OPTIONS = ("client", "echo_reasoning")
_NEEDED = {"bedrock": "botocore", "vertex": "google.auth"}
_BINARY = ("bedrock",)  # frames of their own in place of SSE: only the client can read them


class SdkTransport:
    """POSTs through a client of `anthropic` or `openai`, imported when this is made."""

    def __init__(self, spec: ModelSpec, *, host: str, proxy: Proxy | None, tls: ssl.SSLContext) -> None:
        self.host = host
        self._proxy = proxy
        self._secret = spec.api_key
        self._package = "anthropic" if spec.provider == "anthropic" else "openai"
        self._kind = str(spec.options.get("client") or "")
        self._module: Any = importlib.import_module(self._package)
        # The clients would follow redirects, key included, and read proxies from the environment in their own way.
        http = self._module.DefaultAsyncHttpxClient(
            follow_redirects=False,
            timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT),
            proxy=httpx2.Proxy(proxy.name, headers=proxy.headers) if proxy else None,
            verify=tls,
            trust_env=False,
        )
        self._client = self._open_client(spec, http)
        self.aclose = self._client.close
        if self._kind:
            self.host = str(self._client.base_url.host)
        self._create = attrgetter(_RESOURCES[spec.provider])(self._client)

    async def post(self, body: bytes) -> AsyncGenerator[bytes, None]:
        fields: Json = json.loads(body)
        began = False
        try:
            reads = self._events(fields) if self._kind in _BINARY else self._bytes(fields)
            async with contextlib.aclosing(reads):
                async for data in reads:
                    began = True
                    yield data
        except self._module.APIStatusError as error:
            raise self._refusal(error) from error
        except (httpx2.HTTPError, self._module.APIError, OSError) as error:
            if began:
                raise broken_stream(self.host, "the connection was lost in the middle of the answer") from error
            raise self._connection_failure(error) from error
        except json.JSONDecodeError:
            raise broken_stream(self.host, "a piece of the stream is not readable") from None
        except TypeError as error:
            if "authentication" not in str(error):
                raise
            raise ProviderError("auth", one_line(f"No credentials for {self.host}: {error}")) from error

    async def _bytes(self, fields: Json) -> AsyncGenerator[bytes, None]:
        async with self._create.with_streaming_response.create(**fields) as response:
            yield b""  # the answer has begun: from here on a lost connection is a broken stream
            async for data in response.iter_bytes():
                yield data

    async def _events(self, fields: Json) -> AsyncGenerator[bytes, None]:
        stream = await self._create.create(**fields)
        async with stream:
            async for event in stream:
                yield b"data: %s\n\n" % event.to_json(indent=None).encode()

    def _refusal(self, error: Any) -> ProviderError:
        status = error.response.status_code
        if status == 200:
            return event_error(error.body, host=self.host, secret=self._secret)
        if status == 407 and self._proxy:
            return proxy_refusal(status, self._proxy.name, self.host)
        headers = {name.lower(): value for name, value in error.response.headers.items()}
        return http_error(status, headers, error.response.content, host=self.host, secret=self._secret)

    def _connection_failure(self, error: Exception) -> ProviderError:
        """No answer came; with a proxy between, a connection that could not be opened is the proxy's."""
        failure = connection_error(error, host=self.host, secret=self._secret)
        cause = error.__cause__ or error
        if self._proxy and isinstance(cause, httpx2.ProxyError) and str(cause)[:3].isdigit():
            return proxy_refusal(int(str(cause)[:3]), self._proxy.name, self.host)
        if self._proxy and failure.kind == "connection" and isinstance(cause, httpx2.ConnectError):
            return ProviderError("proxy", connection_error(error, host=f"the proxy {self._proxy.name}").message)
        return failure

    def _open_client(self, spec: ModelSpec, http: Any) -> Any:
        name = _CLIENTS.get((self._package, self._kind))
        if name is None:
            kinds = ", ".join(kind for package, kind in _CLIENTS if package == self._package and kind)
            raise UserError(f"No {self._package} client called {self._kind!r}", f"Known: {kinds}")
        given: dict[str, Any] = {key: value for key, value in spec.options.items() if key not in _OUR_OPTIONS}
        if spec.base_url:
            is_azure_openai = self._package == "openai" and self._kind == "azure"
            given["azure_endpoint" if is_azure_openai else "base_url"] = spec.base_url
        if spec.api_key:
            given["access_token" if self._kind == "vertex" else "api_key"] = spec.api_key
        elif self._package == "openai" and not self._kind:
            given["api_key"] = "none"  # local servers want no key, but the client does
        try:
            found = "access_token" in given or importlib.util.find_spec(_NEEDED.get(self._kind, "json"))
        except ModuleNotFoundError:  # not even its parent is there
            found = None
        if not found:
            raise UserError(f"{name} needs a package that is missing", f"pip install 'anthropic[{self._kind}]'")
        base_error = self._module.AnthropicError if self._package == "anthropic" else self._module.OpenAIError
        try:
            return getattr(self._module, name)(
                max_retries=0, http_client=http, default_headers=dict(spec.headers), **given
            )
        except (TypeError, ValueError, ImportError, base_error) as error:
            raise UserError(one_line(f"The {name} client cannot be made: {error}", spec.api_key)) from error
