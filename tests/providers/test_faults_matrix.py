"""Every fault of the table, at every place of a stream, in every wire format, through the real transports.

Each case ends in one of two ways: with exactly one whole reply, or with exactly one error of the right kind. A reply is
what makes tools run, so one reply at most means no tool runs twice.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from cowork.core.blocks import Message, Text, ToolUse
from cowork.core.errors import ProviderError
from cowork.core.ports import Delta, ModelSpec, Reply, Request, Retry, ToolSpec
from cowork.http.errors import one_line
from cowork.providers.open import open_provider
from cowork.providers.retry import Retrying
from tests.wire.server import FORMATS, WHERE, Server, Turn, broken, call, status, turn

READ = ToolSpec(
    "Read",
    "Reads a file.",
    {
        "type": "object",
        "properties": {"file_path": {"type": "string"}},
        "required": ["file_path"],
        "additionalProperties": False,
    },
)
ASKED = Request("You help.", (Message("user", (Text("Look at a.py"),)),), (READ,))
WANTED = turn("Let me look at it, one moment.", call("Read", file_path="a.py"))
IDLE = 0.3  # seconds, in the cases that stall; the others never wait for it


@dataclass
class Story:
    """What one request came to."""

    items: list[Any] = field(default_factory=list)
    error: ProviderError | None = None
    slept: list[float] = field(default_factory=list)
    requests: int = 0

    @property
    def retries(self) -> list[Retry]:
        return [item for item in self.items if isinstance(item, Retry)]

    @property
    def replies(self) -> list[Reply]:
        return [item for item in self.items if isinstance(item, Reply)]

    @property
    def shown(self) -> str:
        """The text that still stands: what came after the last retry."""
        last = max((i for i, item in enumerate(self.items) if isinstance(item, Retry)), default=-1)
        return "".join(i.text for i in self.items[last + 1 :] if isinstance(i, Delta) and i.kind == "text")

    def is_whole(self) -> None:
        """One reply, the last item, and all of it."""
        assert self.error is None
        assert self.replies == self.items[-1:]
        [reply] = self.replies
        assert reply.text == self.shown == WANTED.text
        assert [(c.name, c.input, c.malformed) for c in reply.calls] == [("Read", {"file_path": "a.py"}, "")]
        assert reply.stop_reason == "tool_use"

    def is_one_error(self, kind: str) -> None:
        """No reply, and one clear line."""
        assert self.replies == []
        assert self.error is not None
        assert self.error.kind == kind
        assert "\n" not in self.error.message
        assert "Traceback" not in self.error.message
        assert 10 < len(self.error.message) < 500
        assert "test-key" not in self.error.message


async def ask(base_url: str, format: str, *, transport: Any = "direct", attempts: int = 3, idle: float = 30.0) -> Story:
    """One request through the whole stack; no wait is waited."""
    story = Story()

    async def sleep(seconds: float) -> None:
        story.slept.append(seconds)

    spec = ModelSpec(format, "test-model", base_url, "test-key-0123456789", transport=transport)
    provider = Retrying(
        open_provider(spec, idle_timeout=idle), max_attempts=attempts, sleep=sleep, jitter=lambda most: most / 2
    )
    try:
        async for item in provider.stream(ASKED):
            story.items.append(item)
    except ProviderError as error:
        story.error = error
    finally:
        await provider.aclose()
    return story


async def tell(turns: list[Turn], format: str, **how: Any) -> Story:
    async with Server(turns) as server:
        story = await ask(server.url(format), format, **how)
        assert server.violations == []
        story.requests = len(server.requests)
    return story


# ---------------------------------------------------------------- faults that pass

STATUS_KINDS = {
    408: "server",
    409: "server",
    429: "rate_limit",
    500: "server",
    502: "server",
    503: "overloaded",
    529: "overloaded",
}
CONNECTION_KINDS = {
    "reset": "connection",
    "close": "connection",
    "truncated": "broken_stream",
    "malformed": "broken_stream",
}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("code", STATUS_KINDS)
async def test_a_passing_refusal_is_tried_again(code: int, format: str) -> None:
    story = await tell([status(code), WANTED], format)
    story.is_whole()
    assert [r.kind for r in story.retries] == [STATUS_KINDS[code]]
    assert (story.requests, len(story.slept)) == (2, 1)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("kind", ["reset", "close", "truncated", "malformed"])
async def test_a_broken_answer_is_tried_again_and_what_was_shown_is_void(kind: Any, where: Any, format: str) -> None:
    story = await tell([broken(kind, where, WANTED), WANTED], format)
    story.is_whole()
    expected = CONNECTION_KINDS[kind] if where == "headers" else "broken_stream"
    assert [r.kind for r in story.retries] == [expected]
    assert story.requests == 2


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("kind", ["stall", "pings"])
async def test_silence_and_pings_alone_are_a_stall_and_tried_again(kind: Any, where: Any, format: str) -> None:
    story = await tell([broken(kind, where, WANTED), *[WANTED] * 4], format, idle=IDLE, attempts=5)
    story.is_whole()
    assert {r.kind for r in story.retries} == {"stalled"}  # a busy machine may need more than one try
    assert story.requests == 1 + len(story.retries)


EVENTS = {
    "anthropic": {"overloaded_error": "overloaded", "api_error": "broken_stream", "rate_limit_error": "rate_limit"},
    "openai": {"server_error": "broken_stream", "rate_limit_exceeded": "rate_limit"},
    "openai-chat": {"server_error": "broken_stream", "rate_limit_exceeded": "rate_limit"},
}


@pytest.mark.parametrize("where", ["first", "middle", "last"])
@pytest.mark.parametrize(("format", "code"), [(f, code) for f in FORMATS for code in EVENTS[f]])
async def test_an_error_event_after_a_good_start_is_tried_again(format: str, code: str, where: Any) -> None:
    story = await tell([broken("error", where, WANTED, code=code), WANTED], format)
    story.is_whole()
    assert [r.kind for r in story.retries] == [EVENTS[format][code]]


@pytest.mark.parametrize("format", FORMATS)
async def test_different_faults_in_a_row_are_counted_together(format: str) -> None:
    faults = [status(529), broken("reset", "middle", WANTED), broken("truncated", "last", WANTED), status(500)]
    story = await tell([*faults, WANTED], format, attempts=5)
    story.is_whole()
    assert [r.attempt for r in story.retries] == [2, 3, 4, 5]
    assert [r.kind for r in story.retries] == ["overloaded", "broken_stream", "broken_stream", "server"]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("where", WHERE)
async def test_a_fault_that_stays_ends_with_one_error_after_the_last_try(where: Any, format: str) -> None:
    story = await tell([broken("reset", where, WANTED)] * 3, format)
    story.is_one_error("connection" if where == "headers" else "broken_stream")
    assert story.error is not None
    assert story.error.message.endswith("(gave up after 3 tries)")
    assert (story.requests, len(story.retries)) == (3, 2)
    assert story.error.retryable  # what exits 75


# ---------------------------------------------------------------- faults that stay


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (400, "bad_request"),
        (401, "auth"),
        (402, "spend_limit"),
        (403, "auth"),
        (404, "not_found"),
        (413, "too_large"),
        (422, "bad_request"),
    ],
)
async def test_a_lasting_refusal_is_one_error_at_once(code: int, kind: str, format: str) -> None:
    story = await tell([status(code), WANTED], format)
    story.is_one_error(kind)
    assert story.error is not None
    assert story.error.status == code
    assert (story.requests, story.slept) == (1, [])


LASTING_EVENTS = {
    "anthropic": {"authentication_error": "auth", "invalid_request_error": "bad_request"},
    "openai": {"invalid_prompt": "bad_request", "insufficient_quota": "spend_limit"},
    "openai-chat": {"invalid_api_key": "auth", "insufficient_quota": "spend_limit"},
}


@pytest.mark.parametrize("where", ["first", "middle", "last"])
@pytest.mark.parametrize(("format", "code"), [(f, code) for f in FORMATS for code in LASTING_EVENTS[f]])
async def test_a_lasting_error_event_is_one_error_at_once(format: str, code: str, where: Any) -> None:
    story = await tell([broken("error", where, WANTED, code=code), WANTED], format)
    story.is_one_error(LASTING_EVENTS[format][code])
    assert story.requests == 1


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("code", "said", "kind"),
    [
        (429, "You exceeded your current quota, please check your plan and billing details", "spend_limit"),
        (400, "Your credit balance is too low", "spend_limit"),
        (400, "prompt is too long: 210000 tokens > 200000 maximum", "context_overflow"),
        (400, "This model's maximum context length is 8192 tokens", "context_overflow"),
    ],
)
async def test_what_no_waiting_cures_is_known_by_its_words(code: int, said: str, kind: str, format: str) -> None:
    body = {"type": "error", "error": {"type": "invalid_request_error", "message": said}}
    story = await tell([status(code, body=body, headers={"retry-after": "1"}), WANTED], format)
    story.is_one_error(kind)
    assert story.requests == 1


@pytest.mark.parametrize("format", FORMATS)
async def test_a_bad_certificate_is_one_error_at_once(format: str) -> None:
    async with Server([WANTED], tls=True) as server:
        story = await ask(server.url(format), format)
        assert server.requests == []
    story.is_one_error("certificate")
    assert story.slept == []


@pytest.mark.parametrize("format", FORMATS)
async def test_a_refused_connection_is_tried_again_and_then_reported(format: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    story = await ask(f"http://127.0.0.1:{port}", format)
    story.is_one_error("connection")
    assert [r.kind for r in story.retries] == ["connection"] * 2


async def test_a_host_that_does_not_exist_is_a_connection_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_name(*args: Any, **kwargs: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", no_name)
    story = await ask("http://no-such-host.invalid", "anthropic")
    story.is_one_error("connection")
    assert story.error is not None
    assert "no-such-host.invalid" in story.error.message


# ---------------------------------------------------------------- retry-after


def http_date(seconds: float) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("headers", "low", "high"),
    [
        ({"retry-after": "7"}, 7.0, 7.5),
        ({"retry-after": "0.5"}, 0.5, 0.6),
        ({"retry-after-ms": "250"}, 0.25, 0.3),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25, 0.3),
        ({"retry-after": "in 30 s"}, 25, 31.6),  # a date: see below
        ({"retry-after": "past"}, 0.5, 0.5),  # what the jitter makes of the usual second
        ({"retry-after": "soon"}, 0.5, 0.5),
        ({"retry-after": "-3"}, 0.5, 0.5),
        ({"retry-after": "nan"}, 0.5, 0.5),
    ],
)
async def test_a_retry_after_is_obeyed_in_every_form(
    headers: dict[str, str], low: float, high: float, format: str
) -> None:
    dates = {"in 30 s": 30, "past": -3600}
    given = {name: http_date(dates[v]) if v in dates else v for name, v in headers.items()}
    story = await tell([status(429, headers=given), WANTED], format)
    story.is_whole()
    [wait] = story.slept
    assert low <= wait <= high
    assert story.retries[0].delay_s == wait


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("wait", ["3600", "date"])
async def test_an_hour_is_not_sat_out(wait: str, format: str) -> None:
    story = await tell(
        [status(429, headers={"retry-after": http_date(3600) if wait == "date" else wait}), WANTED], format
    )
    story.is_one_error("rate_limit")
    assert story.error is not None
    assert "more than the 60 s" in story.error.message
    assert (story.requests, story.slept) == (1, [])


# ---------------------------------------------------------------- not faults of the wire


@pytest.mark.parametrize("format", FORMATS)
async def test_malformed_arguments_are_a_reply_that_says_so_and_no_retry(format: str) -> None:
    story = await tell([turn(call("Read", raw='{"file_path": "a'))], format)
    [reply] = story.replies
    assert (story.retries, story.error) == ([], None)
    assert [c.input for c in reply.calls] == [{}]
    assert reply.calls[0].malformed


@pytest.mark.parametrize("format", FORMATS)
async def test_a_reply_cut_off_inside_a_call_keeps_its_stop_reason(format: str) -> None:
    story = await tell([turn("x", call("Read", raw='{"file_pa'), stop="max_tokens")], format)
    [reply] = story.replies
    assert reply.stop_reason == "max_tokens"
    assert all(c.malformed for c in reply.content if isinstance(c, ToolUse))
    assert story.requests == 1


# ---------------------------------------------------------------- the same over the vendors' clients

SAMPLE: list[tuple[Turn, str]] = [
    (status(529), "overloaded"),
    (status(408), "server"),
    (broken("reset", "headers", WANTED), "connection"),
    (broken("reset", "middle", WANTED), "broken_stream"),
    (broken("truncated", "last", WANTED), "broken_stream"),
    (broken("malformed", "middle", WANTED), "broken_stream"),
]


@pytest.mark.parametrize("format", FORMATS)
async def test_over_the_clients_passing_faults_are_tried_again_by_us_and_by_nobody_else(format: str) -> None:
    for fault, kind in SAMPLE:
        story = await tell([fault, WANTED], format, transport="sdk")
        story.is_whole()
        assert [r.kind for r in story.retries] == [kind], fault
        assert story.requests == 2
    story = await tell(
        [broken("stall", "middle", WANTED), *[WANTED] * 4], format, transport="sdk", idle=IDLE, attempts=5
    )
    story.is_whole()
    assert {r.kind for r in story.retries} == {"stalled"}


@pytest.mark.parametrize("format", FORMATS)
async def test_over_the_clients_lasting_faults_are_one_error(format: str) -> None:
    for code, kind in [(400, "bad_request"), (401, "auth"), (404, "not_found"), (413, "too_large")]:
        story = await tell([status(code), WANTED], format, transport="sdk")
        story.is_one_error(kind)
        assert (story.requests, story.slept) == (1, [])


def test_a_short_key_does_not_blot_out_ordinary_words() -> None:
    assert one_line("the context is too long", "x") == "the context is too long"
    assert one_line("bad key sk-0123456789", "sk-0123456789") == "bad key ***"
