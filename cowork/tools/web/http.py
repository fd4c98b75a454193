"""Gets one web address: bounded in size and time, never on to another host, never into a private network unasked."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import SplitResult, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2

from cowork.core.errors import ToolError
from cowork.core.frozen import frozen

SECONDS = 30.0
MAX_BYTES = 5_000_000
_REDIRECTS = 5
_TRIES = 3  # addresses of a host
_EMBEDDING = ipaddress.ip_network("64:ff9b::/96")  # IPv4 addresses behind a translator
_AGENT = "Mozilla/5.0 (compatible; cowork)"


@frozen
class Fetched:
    """What an address answered; `elsewhere` is where it sends us instead, when that is another host."""

    url: str
    status: int
    kind: str  # media type
    charset: str
    body: bytes
    cut: bool = False  # there was more than `MAX_BYTES`
    elsewhere: str = ""


def host_of(url: str) -> str:
    """The host a URL names, as rules know it; empty when it is not one that can be fetched."""
    try:
        parts = urlsplit(url)
        return (parts.hostname or "").rstrip(".") if parts.scheme in ("http", "https") and parts.port != 0 else ""
    except ValueError:
        return ""


async def fetch(url: str, *, private: Collection[str], headers: Mapping[str, str] | None = None) -> Fetched:
    """The answer of an address. Redirects are followed on the same host only."""
    try:
        async with asyncio.timeout(SECONDS):
            for _ in range(_REDIRECTS + 1):
                found = await _get(url, private, headers or {})
                if not found.elsewhere or host_of(found.elsewhere) != host_of(url):
                    return found
                url = found.elsewhere
    except TimeoutError as error:
        raise ToolError("TIMEOUT", f"{host_of(url)} did not answer within {SECONDS:.0f} s.") from error
    raise ToolError("EXECUTION_ERROR", f"{url[:200]} redirects more than {_REDIRECTS} times.")


async def _get(url: str, private: Collection[str], headers: Mapping[str, str]) -> Fetched:
    host = host_of(url)
    if not host or (parts := urlsplit(url)).username is not None:
        raise ToolError("INVALID_PARAM", f"{url[:200]!r} is not an http(s) address without a password. Correct it.")
    proxies = {} if proxy_bypass(host) else getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    # Through a proxy it is the proxy that looks up names; what names a private place by itself is refused all the same.
    addresses = [host] if proxy and not _is_address(host) else await _lookup(parts, private)
    given = {"User-Agent": _AGENT, "Accept": "text/markdown, text/html, */*;q=0.8", **headers}
    reason = ""
    async with httpx2.AsyncClient(trust_env=False, proxy=proxy or None, timeout=SECONDS) as client:
        for address in addresses[:_TRIES]:
            # The address that was checked is the one that is asked, whatever the name would lead to by now.
            place = f"[{address}]" if ":" in address else address
            place = f"{place}:{parts.port}" if parts.port else place
            target = parts._replace(netloc=place, fragment="").geturl()
            named = {**given, "Host": parts.netloc}
            try:
                async with client.stream("GET", target, headers=named, extensions={"sni_hostname": host}) as response:
                    return await _read(url, response)
            except httpx2.HTTPError as error:
                reason = str(error) or type(error).__name__
    raise ToolError("EXECUTION_ERROR", f"{host} cannot be reached: {reason[:300]}.")


async def _read(url: str, response: Any) -> Fetched:
    kind, _, rest = response.headers.get("content-type", "").partition(";")
    charset = rest.partition("charset=")[2].split(";")[0].strip(" \"'")
    if location := response.headers.get("location") if 300 <= response.status_code < 400 else "":
        return Fetched(url, response.status_code, "", "", b"", elsewhere=urljoin(url, location))
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > MAX_BYTES:
            break
    cut = len(body) > MAX_BYTES
    return Fetched(url, response.status_code, kind.strip().lower(), charset, bytes(body[:MAX_BYTES]), cut)


async def _lookup(parts: SplitResult, private: Collection[str]) -> list[str]:
    """The addresses of the host; a ToolError when one of them is in a private network and the host is not let in."""
    host, port = (parts.hostname or "").rstrip("."), parts.port or (443 if parts.scheme == "https" else 80)
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ToolError("NOT_FOUND", f"There is no host {host[:200]}. Check the address.") from error
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    if host not in private and not all(map(_is_public, addresses)):
        said = f"{host} is in a private network, which is not fetched. The user can allow it: [web] private_hosts."
        raise ToolError("ACCESS_DENIED", said)
    return addresses


def _is_public(address: str) -> bool:
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if ip in _EMBEDDING:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        ip = inner or ip
    return ip.is_global and not ip.is_multicast


def _is_address(host: str) -> bool:
    """Whether a host needs no name server: a number, or a name of this machine."""
    try:
        socket.inet_aton(host)
    except OSError:
        return ":" in host or host == "localhost" or host.endswith(".localhost")
    return True
