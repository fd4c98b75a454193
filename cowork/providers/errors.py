"""What went wrong, as a ProviderError: HTTP statuses, error events and broken connections in one clear line each."""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from cowork.core.errors import ProviderError, ProviderErrorKind

_KINDS: dict[int, ProviderErrorKind] = {
    401: "auth",
    402: "spend_limit",
    403: "auth",
    404: "not_found",
    408: "server",
    409: "server",
    413: "too_large",
    425: "server",
    429: "rate_limit",
    503: "overloaded",
    529: "overloaded",
}

_OVERFLOW = re.compile(
    r"context_length_exceeded|exceed_context_size|maximum context length|context (window|length|limit|size)"
    r"|prompt is too long|input is too long|too many (input )?tokens|input token count .{0,40}exceeds"
    r"|reduce the length of the (messages|prompt|input)",
    re.IGNORECASE,
)
_SPENT = re.compile(
    r"insufficient[ _](quota|credit|fund|balance)|exceeded your current quota|credit balance|out of credits"
    r"|spend(ing)?[ _-]limit|billing|usage limits?\b|payment required",
    re.IGNORECASE,
)
_EVENT_KINDS: dict[str, ProviderErrorKind] = {
    "authentication_error": "auth",
    "permission_error": "auth",
    "invalid_api_key": "auth",
    "rate_limit_error": "rate_limit",
    "rate_limit_exceeded": "rate_limit",
    "overloaded_error": "overloaded",
    "invalid_request_error": "bad_request",
    "invalid_prompt": "bad_request",
    "not_found_error": "not_found",
    "request_too_large": "too_large",
}
_TLS_REASONS = {
    "WRONG_VERSION_NUMBER": "it does not speak TLS; is it an http:// address?",
    "RECORD_LAYER_FAILURE": "it does not speak TLS; is it an http:// address?",
    "HTTP_REQUEST": "it does not speak TLS; is it an http:// address?",
    "TLSV1_ALERT_NO_APPLICATION_PROTOCOL": "it speaks only HTTP/2, which cowork does not",
}
_SECRET = re.compile(r"\b(sk|pk|key|xai|gsk|AIza)[-_][A-Za-z0-9_-]{12,}|Bearer\s+\S{8,}")
_DATE = re.compile(r"\w{3}, (\d\d) (\w{3}) (\d{4}) (\d\d):(\d\d):(\d\d) GMT")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_LONGEST = 300
_SHORTEST_SECRET = 6  # a shorter one would blot out ordinary words


class HttpError(Exception):
    """The peer does not keep to HTTP/1.1."""


class WrongProtocolError(HttpError):
    """The peer speaks another protocol: trying again is no use."""


def http_error(status: int, headers: Mapping[str, str], body: bytes, *, host: str, secret: str = "") -> ProviderError:
    """The refusal an HTTP status stands for; header names are in lower case."""
    code, said = _error_fields(body)
    kind = _kind(status, f"{code} {said}")
    wait = retry_after(headers) if kind in ("rate_limit", "overloaded", "server") else None
    if 300 <= status < 400:
        said = "it redirects, which is not followed; set base_url to the final address"
    if not said and kind != "auth":
        said = _phrase(status)
    lead = {
        "auth": f"{host} refused the credentials ({status})",
        "not_found": f"{host} knows no such model or address (404)",
        "rate_limit": f"{host} asks to slow down ({status})",
        "spend_limit": f"{host} says the spending limit is reached ({status})",
        "overloaded": f"{host} is overloaded ({status})",
        "context_overflow": f"The conversation does not fit the model's context window ({status})",
        "too_large": f"{host} says the request is too large ({status})",
    }.get(kind, f"{host} answered {status}")
    message = one_line(f"{lead}: {said}" if said else lead, secret)
    return ProviderError(kind, message, status=status, retry_after=wait)


def event_error(error: object, *, host: str, secret: str = "") -> ProviderError:
    """The error a service put into a stream that had begun well."""
    code, said = _fields_of(error)
    text = f"{code} {said}"
    kind: ProviderErrorKind = _EVENT_KINDS.get(code, "broken_stream")
    if re.fullmatch(r"[45]\d\d", code):  # routers and local servers put the status they would have answered
        kind = _kind(int(code), text)
    if _OVERFLOW.search(text):
        kind = "context_overflow"
    elif _SPENT.search(text):
        kind = "spend_limit"
    named = f" ({code})" if code else ""
    return ProviderError(kind, one_line(f"{host} broke off{named}: {said or 'no reason given'}", secret))


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
    phrase = _phrase(status)
    return ProviderError(kind, f"The proxy {proxy} gives no way to {target}: {status} {phrase}".rstrip(), status=status)


def broken_stream(host: str, why: str) -> ProviderError:
    """A reply that cannot be trusted to be whole."""
    return ProviderError("broken_stream", one_line(f"{host}: {why}"))


def stalled(host: str, seconds: float) -> ProviderError:
    return ProviderError("stalled", f"{host} sent no data for {seconds:g} s")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait as the service asks, from 0; None when it says nothing that can be read."""
    try:
        return _seconds(float(headers["retry-after-ms"]) / 1000)
    except (KeyError, ValueError):
        pass
    given = headers.get("retry-after", "").strip()
    try:
        return _seconds(float(given))
    except ValueError:
        pass
    until = _http_date(given)
    if until is None:
        return None
    # The service's own clock where it tells it, since a date means nothing to a clock that is off.
    return max(0.0, until - (_http_date(headers.get("date", "")) or time.time()))


def one_line(text: str, secret: str = "") -> str:
    """Without keys, control characters and line breaks, and not too long."""
    if len(secret) >= _SHORTEST_SECRET:
        text = text.replace(secret, "***")
    text = _SECRET.sub("***", text)
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _kind(status: int, text: str) -> ProviderErrorKind:
    if status in (400, 413, 422, 500) and _OVERFLOW.search(text):
        return "context_overflow"
    if status in (400, 402, 403, 429) and _SPENT.search(text):
        return "spend_limit"
    return kind_of_status(status)


def kind_of_status(status: int) -> ProviderErrorKind:
    """What a status means when nothing more is said."""
    return _KINDS.get(status) or ("server" if status >= 500 else "bad_request")


def _seconds(value: float) -> float | None:
    return max(0.0, value) if value == value and value != float("inf") else None


def _http_date(text: str) -> float | None:
    found = _DATE.fullmatch(text.strip())
    if not found or found[2] not in _MONTHS:
        return None
    day, month, year, hour, minute, second = found.groups()
    try:
        moment = datetime(
            int(year), _MONTHS.index(month) + 1, int(day), int(hour), int(minute), int(second), tzinfo=UTC
        )
        return moment.timestamp()
    except ValueError:
        return None


def _error_fields(body: bytes) -> tuple[str, str]:
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        return "", "" if body.lstrip()[:1] == b"<" else body[:_LONGEST].decode("utf-8", "replace")
    return _fields_of(parsed)


def _fields_of(error: Any) -> tuple[str, str]:
    """(code or type, message) from the shapes services use: nested, flat, a list of one, a plain string."""
    if isinstance(error, list) and error:
        error = error[0]
    if isinstance(error, dict) and error.get("error"):
        error = error["error"]
    if isinstance(error, str):
        return "", error
    if not isinstance(error, dict):
        return "", ""
    code = next((str(error[k]) for k in ("code", "type") if isinstance(error.get(k), str | int) and error[k]), "")
    said = next((str(error[k]) for k in ("message", "detail", "error_description") if error.get(k)), "")
    return code, said


def _phrase(status: int) -> str:
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
