"""The proxy that the environment names for a service."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from dataclasses import field
from urllib.parse import unquote, urlsplit

from cowork.core.errors import UserError
from cowork.core.frozen import frozen
from cowork.http.errors import one_line

_VARIABLES = ("http_proxy", "https_proxy", "all_proxy")
_HINT = (
    "HTTPS_PROXY, HTTP_PROXY and ALL_PROXY take http://host:port or https://host:port, not SOCKS; "
    "NO_PROXY lists the hosts to reach without one."
)


@frozen
class Proxy:
    """An HTTP proxy; `name` is its address for people, without the password."""

    name: str
    host: str
    port: int
    secure: bool
    headers: Mapping[str, str] = field(repr=False)


def proxy_for(url: str) -> Proxy | None:
    """The proxy for a URL; looked up only where the environment names one at all."""
    if not any(name in os.environ or name.upper() in os.environ for name in _VARIABLES):
        return None
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(url)
    host = parts.hostname or ""
    if host in ("localhost", "127.0.0.1", "::1") or proxy_bypass(host):
        return None
    proxies = getproxies()
    found = proxies.get(parts.scheme) or proxies.get("all")
    return parse_proxy(found) if found else None


def parse_proxy(url: str) -> Proxy:
    """The proxy at a URL, with its credentials percent-decoded."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        raise UserError("The proxy address in the environment cannot be read", _HINT) from None
    name = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    if parts.scheme not in ("http", "https") or not parts.hostname or " " in parts.netloc:
        raise UserError(one_line(f"The proxy {name} cannot be used"), _HINT)
    headers: dict[str, str] = {}
    if "@" in parts.netloc:
        login = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        headers["proxy-authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
    return Proxy(name, parts.hostname, port, parts.scheme == "https", headers)
