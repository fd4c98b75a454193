"""Every exception cowork raises on purpose. All else is a bug.

CoworkError
├── UserError       something the person can put right: one line, a hint, an exit code
├── ToolError       a tool could not do it: a code and a text for the model that says the next step
└── ProviderError   the model service failed: `kind` decides whether a retry makes sense
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from cowork.core.blocks import Usage

ToolErrorCode = Literal[
    "NOT_FOUND",
    "ACCESS_DENIED",
    "PERMISSION_DENIED",
    "INVALID_PARAM",
    "TIMEOUT",
    "INTERNAL_ERROR",
    "EXECUTION_ERROR",
    "IS_DIRECTORY",
    "BINARY_FILE",
    "CONFLICT",
    "CIRCUIT_OPEN",
    "QUOTA_EXCEEDED",
    "ABORTED",
]

ProviderErrorKind = Literal[
    "rate_limit",  # 429: wait as told, then try again
    "overloaded",  # 529, 503
    "server",  # other 5xx, 408, 409
    "connection",  # refused, DNS, reset
    "stalled",  # silence, or pings without data
    "broken_stream",  # ended without its stop event, error event after 200, malformed chunk
    "auth",  # 401, 403, no key
    "spend_limit",  # 429 that no waiting will cure, 402
    "bad_request",  # 400 and other refusals
    "not_found",  # 404
    "too_large",  # 413
    "context_overflow",  # the conversation does not fit the window
    "certificate",  # not trusted
    "protocol",  # no TLS, no HTTP/1.1: the address is wrong
    "proxy",  # away, or it wants credentials
    "script",  # a scripted model ran out of turns or a replay did not match
]

NEXT_STEPS: dict[str, str] = {
    "connection": "Is the service there? `cowork doctor` looks, `cowork config init` finds local ones.",
    "certificate": "SSL_CERT_FILE=/path/to/ca.pem names the authorities to trust, such as your company's.",
    "protocol": "Check models.main.base_url: http or https, the port, the path.",
    "proxy": "Check HTTPS_PROXY, HTTP_PROXY and ALL_PROXY; NO_PROXY lists hosts to reach without a proxy.",
    "auth": "`cowork doctor` says which key is used and where it comes from.",
    "not_found": "`cowork config init` lists the models a service has.",
    "spend_limit": "Raise the limit with the service, or use another model: --model.",
    "rate_limit": "Try again later, or use another model: --model.",
    "overloaded": "Try again later, or use another model: --model.",
}

RETRYABLE: frozenset[str] = frozenset({"rate_limit", "overloaded", "server", "connection", "stalled", "broken_stream"})


class CoworkError(Exception):
    """Base of what cowork raises on purpose."""


class UserError(CoworkError):
    """What happened in one line, and the next step in another."""

    def __init__(self, message: str, hint: str = "", *, exit_code: int = 2) -> None:
        super().__init__(message)
        self.message, self.hint, self.exit_code = message, hint, exit_code


@contextmanager
def os_error_as(what: str, hint: str = "") -> Iterator[None]:
    """An OSError in the block becomes a UserError: what could not be done, why, and the next step."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{what}: {error.strerror}.", hint) from error


class ToolError(CoworkError):
    """A tool's refusal; `text` is what the model reads, `data` what programs read."""

    def __init__(self, code: ToolErrorCode, text: str, **data: Any) -> None:
        super().__init__(text)
        self.code: ToolErrorCode = code
        self.text, self.data = text, data


class ProviderError(CoworkError):
    """A failure of the model service, with what is known about it."""

    def __init__(
        self,
        kind: ProviderErrorKind,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        usage: Usage | None = None,
    ) -> None:
        super().__init__(message)
        self.kind: ProviderErrorKind = kind
        self.message, self.status, self.retry_after = message, status, retry_after
        self.usage = usage or Usage()  # what the failed try had already used, as far as the service said

    @property
    def retryable(self) -> bool:
        return self.kind in RETRYABLE

    @property
    def hint(self) -> str:
        """What the person can do about it, if that is known."""
        return NEXT_STEPS.get(self.kind, "")
