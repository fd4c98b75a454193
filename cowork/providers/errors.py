"""What a model service refused, as a ProviderError: HTTP statuses and error events in one clear line each."""

from __future__ import annotations

import contextlib
import json
import math
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from cowork.core.errors import ProviderError, ProviderErrorKind
from cowork.http.errors import one_line, phrase

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
_LONGEST = 300


def http_error(status: int, headers: Mapping[str, str], body: bytes, *, host: str, secret: str = "") -> ProviderError:
    """The refusal an HTTP status stands for; header names are in lower case."""
    try:
        code, said = _fields_of(json.loads(body))
    except (ValueError, RecursionError):
        code, said = "", "" if body.lstrip()[:1] == b"<" else body[:_LONGEST].decode("utf-8", "replace")
    kind = kind_of_status(status, f"{code} {said}")
    wait = retry_after(headers) if kind in ("rate_limit", "overloaded", "server") else None
    if 300 <= status < 400:
        said = "it redirects, which is not followed; set base_url to the final address"
    if not said and kind != "auth":
        said = phrase(status)
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
        kind = kind_of_status(int(code), text)
    if _OVERFLOW.search(text):
        kind = "context_overflow"
    elif _SPENT.search(text):
        kind = "spend_limit"
    named = f" ({code})" if code else ""
    return ProviderError(kind, one_line(f"{host} broke off{named}: {said or 'no reason given'}", secret))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait as the service asks, from 0; None when it says nothing that can be read."""
    for name, per_second in (("retry-after-ms", 1000), ("retry-after", 1)):
        with contextlib.suppress(ValueError):
            seconds = float(headers.get(name, "")) / per_second
            return max(0.0, seconds) if seconds < math.inf else None
    until = _http_date(headers.get("retry-after", ""))
    if until is None:
        return None
    # The service's own clock where it tells it, since a date means nothing to a clock that is off.
    return max(0.0, until - (_http_date(headers.get("date", "")) or time.time()))


def kind_of_status(status: int, said: str = "") -> ProviderErrorKind:
    """What a status means, with what was said about it."""
    if status in (400, 413, 422, 500) and _OVERFLOW.search(said):
        return "context_overflow"
    if status in (400, 402, 403, 429) and _SPENT.search(said):
        return "spend_limit"
    return _KINDS.get(status) or ("server" if status >= 500 else "bad_request")


def _http_date(text: str) -> float | None:
    try:
        return datetime.strptime(text.strip(), "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


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
