"""What goes wrong between us and an HTTP peer, as a ProviderError of one clear line."""

from __future__ import annotations

import os
import re
import socket
import ssl
from http import HTTPStatus

from cowork.core.errors import ProviderError, ProviderErrorKind

NO_TLS = "it does not speak TLS; is it an http:// address?"
ONLY_HTTP2 = "it speaks only HTTP/2, which cowork does not"
_TLS_REASONS = {
    **dict.fromkeys(("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"), NO_TLS),
    "TLSV1_ALERT_NO_APPLICATION_PROTOCOL": ONLY_HTTP2,
}
_SECRET = re.compile(r"\b(sk|pk|key|xai|gsk|AIza)[-_][A-Za-z0-9_-]{12,}|Bearer\s+\S{8,}")
_LONGEST = 300
_SHORTEST_SECRET = 6  # a shorter one would blot out ordinary words


class HttpError(Exception):
    """The peer does not keep to HTTP/1.1."""


class WrongProtocolError(HttpError):
    """The peer speaks another protocol: trying again is no use."""


def connection_error(error: BaseException, *, host: str, secret: str = "") -> ProviderError:
    """What an exception of a socket, of TLS or of an HTTP client means."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__ or current.__context__
    reason = next((text for cause in reversed(chain) if (text := _reason(cause))), type(error).__name__)
    message = f"No connection to {host}: {reason}"
    kind: ProviderErrorKind = "connection"
    for cause in chain:
        if isinstance(cause, ssl.SSLError) and "certificate" in str(cause).lower():
            why = getattr(cause, "verify_message", "") or cause.reason
            file = os.environ.get("SSL_CERT_FILE", "")
            missing = f"; SSL_CERT_FILE names {file}, which is not there" if file and not os.path.exists(file) else ""
            message, kind = f"The certificate of {host} was refused: {why}{missing}", "certificate"
        elif isinstance(cause, WrongProtocolError):
            kind = "protocol"
        elif isinstance(cause, ssl.SSLError) and cause.reason and not isinstance(cause, ssl.SSLEOFError):
            kind = "protocol"  # it would fail in the same way next time
    return ProviderError(kind, one_line(message, secret))


def proxy_refusal(status: int, proxy: str, target: str) -> ProviderError:
    """A proxy that does not let a request through; one that cannot reach the service may reach it later."""
    if status == 407:
        return ProviderError("proxy", f"The proxy {proxy} wants a user name and password, or others (407)", status=407)
    kind: ProviderErrorKind = "connection" if status >= 500 else "proxy"
    said = phrase(status)
    return ProviderError(kind, f"The proxy {proxy} gives no way to {target}: {status} {said}".rstrip(), status=status)


def broken_stream(host: str, why: str) -> ProviderError:
    """A reply that cannot be trusted to be whole."""
    return ProviderError("broken_stream", one_line(f"{host}: {why}"))


def one_line(text: str, secret: str = "") -> str:
    """Without keys, control characters and line breaks, and not too long."""
    if len(secret) >= _SHORTEST_SECRET:
        text = text.replace(secret, "***")
    text = _SECRET.sub("***", text)
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def phrase(status: int) -> str:
    """The usual words for a status, in lower case."""
    try:
        return HTTPStatus(status).phrase.lower()
    except ValueError:
        return ""


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "it took too long"
    if isinstance(error, EOFError):
        return "it was closed without an answer"
    if isinstance(error, ssl.SSLError) and error.reason in _TLS_REASONS:
        return _TLS_REASONS[error.reason]
    if isinstance(error, ssl.SSLError | socket.gaierror):
        return error.strerror or str(error)
    if isinstance(error, OSError):
        # asyncio joins several failed tries to one text: the number of the first stands in it.
        found = re.search(r"\[Errno (\d+)\]", str(error))
        if number := error.errno or (int(found[1]) if found else 0):
            return os.strerror(number).lower()
    return str(error)
