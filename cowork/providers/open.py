"""From a ModelSpec to a Provider, importing only what was chosen."""

from __future__ import annotations

import importlib
from typing import Any
from urllib.parse import urlsplit

from cowork import __version__
from cowork.core.errors import UserError
from cowork.core.later import later
from cowork.core.ports import ModelSpec, OnRequest, Provider

with later(__name__):
    from cowork.http.client import HttpClient, default_tls, proxy_for

IDLE_TIMEOUT = 180.0

_FORMATS = {  # the module in `codecs`, its codec, and the path below the base URL
    "anthropic": ("anthropic", "AnthropicCodec", "/v1/messages"),
    "openai": ("openai_responses", "OpenAICodec", "/responses"),
    "openai-chat": ("openai_chat", "ChatCodec", "/chat/completions"),
}


def open_provider(spec: ModelSpec, *, idle_timeout: float = IDLE_TIMEOUT, on_request: OnRequest = None) -> Provider:
    """The provider a spec asks for."""
    if spec.provider == "scripted":
        from cowork.providers.scripted import open_scripted

        return open_scripted(spec, on_request)
    if spec.provider == "offline":
        from cowork.providers.offline.model import Offline

        return Offline(spec)
    if spec.provider not in _FORMATS:
        raise UserError(f"Unknown provider {spec.provider!r}", f"Known: {', '.join(_FORMATS)}, offline, scripted")
    return _open_wire(spec, idle_timeout, on_request)


def _open_wire(spec: ModelSpec, idle_timeout: float, on_request: OnRequest) -> Provider:
    from cowork.providers.wire import DirectTransport, WireProvider

    if not spec.model:
        raise UserError(f"No model is named for the provider {spec.provider}", "Set `model` in the configuration.")
    module, name, path = _FORMATS[spec.provider]
    format: Any = importlib.import_module(f"cowork.providers.codecs.{module}")
    base_url = (spec.base_url or format.BASE_URL).rstrip("/")
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UserError("base_url is not an address", "It starts with https:// or http:// and names a host.")
    host = parts.netloc.rpartition("@")[2]
    if spec.transport == "sdk":
        from cowork.providers.sdk import SdkTransport

        transport: Any = SdkTransport(spec, host=host, proxy=proxy_for(base_url), tls=default_tls())
    else:
        if not base_url.endswith(path):
            base_url += path.removeprefix("/v1") if base_url.endswith("/v1") else path
        transport = DirectTransport(HttpClient(base_url), _headers(spec), host=host, secret=spec.api_key)
    codec = getattr(format, name)(spec, transport.host)
    return WireProvider(spec, codec, transport, idle_timeout=idle_timeout, on_request=on_request)


def _headers(spec: ModelSpec) -> dict[str, str]:
    headers = {"user-agent": f"cowork/{__version__}"}
    given = {name.lower(): value for name, value in spec.headers.items()}
    has_key = bool(given.keys() & {"authorization", "x-api-key", "api-key"})
    if spec.provider == "anthropic":
        from cowork.providers.codecs.anthropic import VERSION

        headers["anthropic-version"] = VERSION
    if spec.api_key and not has_key:
        is_anthropic = spec.provider == "anthropic"
        headers |= {"x-api-key": spec.api_key} if is_anthropic else {"authorization": f"Bearer {spec.api_key}"}
    headers |= given
    for name, value in headers.items():
        if not value.isprintable() or not value.isascii() or value != value.strip():
            what = "The API key" if spec.api_key and spec.api_key in value else f"The header {name}"
            raise UserError(f"{what} holds characters that cannot be sent", "Look for a stray space or line break.")
    return headers
