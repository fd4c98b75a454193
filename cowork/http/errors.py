"""What goes wrong between us and an HTTP peer, as a ProviderError of one clear line."""

from __future__ import annotations

import os
import re
import socket
import ssl
from http import HTTPStatus

from cowork.core.errors import ProviderError, ProviderErrorKind

_TLS_REASONS = {
    "WRONG_VERSION_NUMBER": "it does not speak TLS; is it an http:// address?",
    "RECORD_LAYER_FAILURE": "it does not speak TLS; is it an http:// address?",
    "HTTP_REQUEST": "it does not speak TLS; is it an http:// address?",
    "TLSV1_ALERT_NO_APPLICATION_PROTOCOL": "it speaks only HTTP/2, which cowork does not",
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
    chain = list(_causes(error))
    reason = next((text for cause in reversed(chain) if (text := _reason(cause))), type(error).__name__)
    message = f"No connection to {host}: {reason}"
    kind: ProviderErrorKind = "connection"
    for cause in chain:
        if isinstance(cause, ssl.SSLError) and "certificate" in str(cause).lower():
            why = getattr(cause, "verify_message", "") or cause.reason
            message, kind = f"The certificate of {host} was refused: {why}{_missing_authorities()}", "certificate"
        elif isinstance(cause, WrongProtocolError) or _is_final(cause):
            kind = "protocol"
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


def _causes(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in found:
        found.append(current)
        current = current.__cause__ or current.__context__
    return found


def _is_final(error: BaseException) -> bool:
    """Whether TLS failed for a reason that will be the same next time, other than a certificate."""
    return isinstance(error, ssl.SSLError) and bool(error.reason) and not isinstance(error, ssl.SSLEOFError)


def _missing_authorities() -> str:
    """A certificate file that is named but not there is the likeliest reason of all."""
    named = os.environ.get("SSL_CERT_FILE", "")
    return f"; SSL_CERT_FILE names {named}, which is not there" if named and not os.path.exists(named) else ""


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "it took too long"
    if isinstance(error, EOFError):
        return "it was closed without an answer"
    if isinstance(error, ssl.SSLError) and error.reason in _TLS_REASONS:
        return _TLS_REASONS[error.reason]
    if isinstance(error, ssl.SSLError | socket.gaierror):
        return error.strerror or str(error)
    if isinstance(error, OSError) and (number := error.errno or _errno_in(str(error))):
        return os.strerror(number).lower()
    return str(error)


def _errno_in(text: str) -> int:
    """The first number of several failed tries, which asyncio only gives as a text."""
    found = re.search(r"\[Errno (\d+)\]", text)
    return int(found[1]) if found else 0
