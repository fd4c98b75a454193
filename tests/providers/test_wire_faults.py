"""Every fault in every place: a stream that is not whole is never a success, and the error says what happened."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import time

import pytest

from cowork.core.blocks import Usage
from cowork.core.errors import RETRYABLE, ProviderError, UserError
from cowork.core.ports import Delta, ModelSpec, Provider, Reply
from cowork.http.client import default_tls
from cowork.providers.open import open_provider
from tests.fakes.clock import Clock
from tests.wire.server import CERTIFICATE, FAULTS, FORMATS, WHERE, Hold, Server, broken, call, say, status, turn
from tests.wire.talk import ask, asking, provider_for, spec_for, text_of

TRANSPORTS = ("direct", "sdk")
LONG = turn("A text that is long enough to be cut in its middle.", call("Read", file_path="a"))

KINDS = {
    ("status", "headers"): {"overloaded"},
    ("error", "headers"): {"server"},
    ("reset", "headers"): {"connection"},
    ("close", "headers"): {"connection"},
    ("stall", "headers"): {"stalled"},
    ("pings", "headers"): {"stalled"},
}

SOAK = bool(os.environ.get("COWORK_SOAK"))
# Each fault in each place and each fault in each format, both over each transport; the soak has all four together.
PLACES = [
    (kind, where, format, transport)
    for k, kind in enumerate(FAULTS)
    for w, where in enumerate(WHERE)
    for t, transport in enumerate(TRANSPORTS)
    for f, format in enumerate(FORMATS)
    if SOAK or (k + w + t) % len(FORMATS) == f
]


async def failure(format: str, server: Server, *, idle_timeout: float = 20.0, **fields: object) -> ProviderError:
    async with provider_for(server, format, idle_timeout=idle_timeout, **fields) as provider:
        with pytest.raises(ProviderError) as caught:
            await ask(provider)
    error = caught.value
    assert error.message
    assert error.message.isprintable()
    assert len(error.message) <= 300
    assert "test-key" not in error.message
    return error


@pytest.mark.soak
@pytest.mark.parametrize(("kind", "where", "format", "transport"), PLACES)
async def test_every_fault_in_every_place_is_a_retryable_error(
    kind: str, where: str, format: str, transport: str
) -> None:
    idle = 0.25 if kind in ("stall", "pings") else 20.0
    fields = {"status": 529} if kind == "status" else {}
    with Server([broken(kind, where, LONG, **fields)]) as server:  # type: ignore[arg-type]
        error = await failure(format, server, idle_timeout=idle, transport=transport)
    assert error.kind in RETRYABLE
    if kind in ("stall", "pings"):
        assert error.kind == "stalled"
    elif (kind, where) in KINDS:
        assert error.kind in KINDS[kind, where]
    elif kind in ("status", "error"):
        assert error.kind in ("broken_stream", "overloaded")
    else:
        assert error.kind == "broken_stream"


@pytest.mark.parametrize("format", FORMATS)
async def test_the_next_request_after_any_fault_succeeds(format: str) -> None:
    turns = [broken(kind, where, LONG) for kind in ("reset", "close", "truncated", "malformed") for where in WHERE]
    with Server([each for fault in turns for each in (fault, say("fine"))]) as server:
        for _ in turns:  # on a new connection each, since on a kept one some of them are mended silently
            async with provider_for(server, format) as provider:
                with pytest.raises(ProviderError):
                    await ask(provider)
                _, reply = await ask(provider)
                assert reply.text == "fine"
    assert server.violations == []


@pytest.mark.parametrize("kind", ["reset", "truncated", "malformed", "error"])
async def test_what_a_failed_try_used_is_known(kind: str) -> None:
    with Server([broken(kind, "last", say("some text", usage=Usage(50, 9, 40, 10)))]) as server:  # type: ignore[arg-type]
        error = await failure("anthropic", server)
    assert error.usage == Usage(50, 9, 40, 10)


CODES = [
    (400, "bad_request"),
    (401, "auth"),
    (402, "spend_limit"),
    (403, "auth"),
    (404, "not_found"),
    (405, "bad_request"),
    (408, "server"),
    (409, "server"),
    (413, "too_large"),
    (422, "bad_request"),
    (429, "rate_limit"),
    (500, "server"),
    (502, "server"),
    (503, "overloaded"),
    (504, "server"),
    (529, "overloaded"),
    (599, "server"),
]


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("format", FORMATS)
async def test_each_status_has_its_kind(format: str, transport: str) -> None:
    with Server([status(code) for code, _ in CODES]) as server:
        async with provider_for(server, format, transport=transport) as provider:
            for code, kind in CODES:
                with pytest.raises(ProviderError) as caught:
                    await ask(provider)
                assert (code, caught.value.kind, caught.value.status) == (code, kind, code)
    assert len(server.requests) == len(CODES)


REFUSALS = [
    (400, "prompt is too long: 215000 tokens > 200000 maximum", "context_overflow"),
    (400, "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000", "context_overflow"),
    (400, "This model's maximum context length is 8192 tokens. However, you requested 9000", "context_overflow"),
    (400, "Your input exceeds the context window of this model.", "context_overflow"),
    (400, "the request exceeds the available context size. try increasing it", "context_overflow"),
    (400, "Input is too long for requested model.", "context_overflow"),
    (400, "The input token count (1200000) exceeds the maximum number of tokens allowed", "context_overflow"),
    (400, "Your credit balance is too low to access the API.", "spend_limit"),
    (429, "You exceeded your current quota, please check your plan and billing details.", "spend_limit"),
    (429, "Your organization has reached its monthly spend limit.", "spend_limit"),
    (400, "messages.1: tool_use ids were found without tool_result blocks", "bad_request"),
    (429, "Number of request tokens has exceeded your per-minute rate limit", "rate_limit"),
]


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_the_wording_of_a_refusal_tells_overflow_and_money_apart(transport: str) -> None:
    turns = [status(code, body={"error": {"message": text}}) for code, text, _ in REFUSALS]
    with Server(turns) as server:
        async with provider_for(server, "openai-chat", transport=transport) as provider:
            for _, text, kind in REFUSALS:
                with pytest.raises(ProviderError) as caught:
                    await ask(provider)
                assert (caught.value.kind, text) == (kind, text)


async def test_a_code_tells_overflow_and_money_apart_too() -> None:
    turns = [status(400, error="context_length_exceeded"), status(429, error="insufficient_quota")]
    with Server(turns) as server:
        assert (await failure("openai", server)).kind == "context_overflow"
        assert (await failure("openai", server)).kind == "spend_limit"


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_the_time_to_wait_is_read_from_the_headers(transport: str) -> None:
    headers = [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "Thu, 31 Feb 2030 00:00:00 GMT"}, None),
        ({"retry-after": "Thu, 01 Xyz 2030 00:00:00 GMT"}, None),
        ({"retry-after": "3600"}, 3600.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
    ]
    with Server([status(429, headers=each) for each, _ in headers]) as server:
        async with provider_for(server, "anthropic", transport=transport) as provider:
            for each, seconds in headers:
                with pytest.raises(ProviderError) as caught:
                    await ask(provider)
                assert (each, caught.value.retry_after) == (each, seconds)


async def test_a_date_to_wait_for_is_counted_from_now() -> None:
    later = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 90))
    with Server([status(503, headers={"retry-after": later})]) as server:
        error = await failure("openai", server)
    assert error.retry_after is not None
    assert 60 < error.retry_after <= 91


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("code", [301, 302, 307, 308])
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_redirect_is_not_followed(transport: str, code: int, format: str) -> None:
    with Server([say("stolen")]) as thief, Server([status(code, headers={"location": thief.url(format)})]) as server:
        error = await failure(format, server, transport=transport)
    assert error.kind == "bad_request"
    assert thief.requests == []


async def test_what_a_service_says_is_made_harmless() -> None:
    evil = "bad key test-key\r\n\x1b[31mred\x07 sk-ant-REDACTED\u202e " + "x" * 5000
    with Server([status(401, body={"error": {"message": evil}})]) as server:
        error = await failure("anthropic", server)
    assert "\x1b" not in error.message
    assert "sk-ant" not in error.message
    assert "\u202e" not in error.message


async def test_a_page_of_html_is_not_shown() -> None:
    with Server([status(502, body="<html><body>Bad gateway <script>x</script></body></html>")]) as server:
        error = await failure("openai-chat", server)
    assert "<" not in error.message
    assert "bad gateway" in error.message


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_an_error_with_status_200_is_an_error(transport: str) -> None:
    with Server([status(200, body={"error": {"message": "model crashed"}})]) as server:
        error = await failure("openai-chat", server, transport=transport)
    assert error.kind == "broken_stream"
    assert "model crashed" in error.message


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_refused_connection_is_told_by_its_host(transport: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        spec = ModelSpec("openai", "m", base_url=f"http://127.0.0.1:{port}/v1", api_key="k", transport=transport)  # type: ignore[arg-type]
        provider = open_provider(spec)
        with pytest.raises(ProviderError) as caught:
            await ask(provider)
        await provider.aclose()
    assert caught.value.kind == "connection"
    assert f"127.0.0.1:{port}" in caught.value.message


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_certificate_nobody_trusts_is_refused(transport: str) -> None:
    with Server([say("hi")], tls=True) as server:
        error = await failure("anthropic", server, transport=transport)
    assert error.kind == "certificate"
    assert not error.retryable
    assert server.requests == []


async def test_a_trusted_certificate_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    with Server([say("over TLS"), say("again")], tls=True) as server:
        async with provider_for(server, "anthropic") as provider:
            _, reply = await ask(provider)
            assert reply.text == "over TLS"
            await ask(provider)
        assert server.connections == 1


async def test_silence_counts_from_the_last_data_not_from_the_last_ping() -> None:
    deltas: list[Delta] = []

    async def listen(provider: Provider) -> None:
        async for each in provider.stream(asking()):
            assert not isinstance(each, Reply)
            if isinstance(each, Delta):
                deltas.append(each)

    with Server([broken("pings", "middle", LONG)]) as server:
        async with provider_for(server, "anthropic", idle_timeout=4) as provider:
            started = time.monotonic()
            with pytest.raises(ProviderError) as caught:
                await listen(provider)
    assert caught.value.kind == "stalled"
    assert text_of(deltas)
    assert time.monotonic() - started < 60


async def test_a_consumer_that_takes_its_time_is_no_stall() -> None:
    clock = Clock()
    with Server([LONG]) as server:
        async with provider_for(server, "anthropic", idle_timeout=60) as provider:
            seen: list[object] = []
            async for each in provider.stream(asking()):
                if not seen:
                    await clock.passes(90)
                seen.append(each)
    assert isinstance(seen[-1], Reply)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("where", ["headers", "middle"])
async def test_a_cancelled_request_ends_at_once_and_hangs_up(where: str, transport: str) -> None:
    hold = Hold(where)  # type: ignore[arg-type]
    with Server([say("a text that stops half way through", hold=hold), say("next")]) as server:
        async with provider_for(server, "anthropic", transport=transport) as provider:
            task = asyncio.create_task(ask(provider))
            await asyncio.to_thread(hold.reached.wait, 20)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.to_thread(server.wait_hung_up, 1)
            _, reply = await ask(provider)
    assert reply.text == "next"


async def test_a_stream_left_early_is_closed() -> None:
    hold = Hold("middle")
    with Server([say("a text that stops half way through", hold=hold)]) as server:
        async with provider_for(server, "openai") as provider:
            stream = provider.stream(asking())
            await anext(aiter(stream))
            await stream.aclose()  # type: ignore[attr-defined]
            await asyncio.to_thread(server.wait_hung_up, 1)


async def test_a_connection_the_service_closed_while_idle_is_replaced() -> None:
    with Server([say("one"), say("two")]) as server:
        async with provider_for(server, "anthropic") as provider:
            await ask(provider)
            idle = provider._transport._client._idle  # type: ignore[attr-defined]
            assert len(idle) == 1
            reader, writer = idle[0]
            writer.transport.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
            assert await reader.read() == b""
            _, reply = await ask(provider)
    assert reply.text == "two"
    assert server.connections == 2


async def test_the_key_goes_to_the_service_and_nowhere_else() -> None:
    bodies: list[bytes] = []
    with Server([say("hi")], key="sk-secret-000111222") as server:
        spec = spec_for(server, "anthropic", api_key="sk-secret-000111222")
        provider = open_provider(spec, on_request=bodies.append)
        await ask(provider)
        await provider.aclose()
    assert server.requests[0].headers["x-api-key"] == "sk-secret-000111222"
    assert bodies == [server.requests[0].raw]
    assert b"secret" not in bodies[0]
    assert "secret" not in repr(spec)


@pytest.mark.parametrize("key", ["with\nbreak", "käse", "two\r\nx-evil: 1"])
def test_a_key_that_cannot_be_sent_is_told_before_anything_is_sent(key: str) -> None:
    with pytest.raises(UserError) as caught:
        open_provider(ModelSpec("anthropic", "m", api_key=key))
    assert key not in caught.value.message


@pytest.mark.parametrize("url", ["localhost:8080", "ftp://x", "https://", "nonsense"])
def test_a_base_url_must_be_one(url: str) -> None:
    with pytest.raises(UserError):
        open_provider(ModelSpec("openai", "m", base_url=url, api_key="k"))


def test_an_unverified_tls_context_is_never_made() -> None:
    context = default_tls()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
