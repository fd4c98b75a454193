"""Servers, proxies and networks as they are: what works elsewhere works here, and what cannot work says why."""

from __future__ import annotations

import gzip
import json
import socket
import ssl
import time
import zlib
from pathlib import Path

import pytest

from cowork.core.blocks import ToolUse, Usage
from cowork.core.errors import ProviderError, UserError
from cowork.core.ports import ModelSpec, Provider
from cowork.http.client import HttpClient
from cowork.providers.open import open_provider
from cowork.providers.retry import Retrying
from cowork.providers.wire import DirectTransport
from tests.wire.network import (
    AUTHORITY,
    SIGNED,
    Play,
    ProxyServer,
    RawServer,
    answer,
    chunked,
    read_request,
    replying,
    stream_of,
)
from tests.wire.server import CERTIFICATE, FORMATS, Server, say, status
from tests.wire.talk import MODELS, ask, asking, text_of

EVENTS = "Content-Type: text/event-stream"
HELLO = say("Hello there.")
TRANSPORTS = ("direct", "sdk")


def provider_at(url: str, format: str = "openai-chat", **fields: object) -> Provider:
    """One attempt and no more: what is retried silently does not count as one."""
    spec = ModelSpec(format, MODELS[format], base_url=url, api_key="test-key", **fields)  # type: ignore[arg-type]
    return Retrying(open_provider(spec, idle_timeout=20), max_attempts=1)


async def reply_from(server: RawServer, format: str = "openai-chat", **fields: object) -> str:
    provider = provider_at(server.url(format), format, **fields)
    try:
        deltas, reply = await ask(provider)
    finally:
        await provider.aclose()
    assert text_of(deltas) == reply.text
    return reply.text


async def failure_at(url: str, format: str = "openai-chat", **fields: object) -> ProviderError:
    provider = provider_at(url, format, **fields)
    with pytest.raises(ProviderError) as caught:
        await ask(provider)
    await provider.aclose()
    message = caught.value.message
    assert "test-key" not in message
    assert "Separator" not in message
    assert len(message) <= 300
    return caught.value


# ---------------------------------------------------------------- kept connections


async def test_a_kept_connection_closed_in_between_is_replaced_without_an_attempt() -> None:
    body = answer(stream_of("openai-chat", HELLO), EVENTS)

    def leave(peer: socket.socket) -> None:
        read_request(peer)
        peer.sendall(body)
        read_request(peer)  # and closes in place of an answer

    with RawServer(leave, replying(body)) as server:
        provider = provider_at(server.url("openai-chat"))
        assert (await ask(provider))[1].text == "Hello there."
        assert (await ask(provider))[1].text == "Hello there."
        await provider.aclose()
    assert server.connections == 2


async def test_a_service_that_says_408_while_it_closes_is_asked_again() -> None:
    body = answer(stream_of("openai-chat", HELLO), EVENTS)
    late = answer(b"", "Connection: close", status="408 Request Timeout")
    with RawServer(replying(body, late), replying(body)) as server:
        provider = provider_at(server.url("openai-chat"))
        await ask(provider)
        assert (await ask(provider))[1].text == "Hello there."
        await provider.aclose()


async def test_a_new_connection_closed_without_an_answer_is_a_failure() -> None:
    with RawServer(lambda peer: peer.close()) as server:
        error = await failure_at(server.url("openai-chat"))
    assert error.kind == "connection"
    assert server.connections == 1


async def test_connection_close_between_turns() -> None:
    body = answer(stream_of("anthropic", HELLO), EVENTS, "Connection: close")
    with RawServer(replying(body)) as server:
        provider = provider_at(server.url("anthropic"), "anthropic")
        for _ in range(3):
            assert (await ask(provider))[1].text == "Hello there."
        await provider.aclose()
    assert server.connections == 3


# ---------------------------------------------------------------- odd but readable answers


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


ODD: dict[str, tuple[bytes, tuple[str, ...]]] = {
    "gzip": (gzip.compress(stream_of("openai-chat", HELLO)), ("Content-Encoding: gzip",)),
    "GZIP": (gzip.compress(stream_of("openai-chat", HELLO)), ("Content-Encoding: GZIP",)),
    "deflate": (zlib.compress(stream_of("openai-chat", HELLO)), ("Content-Encoding: deflate",)),
    "raw deflate": (raw_deflate(stream_of("openai-chat", HELLO)), ("Content-Encoding: deflate",)),
    "type in capitals": (stream_of("openai-chat", HELLO), ("Content-Type: Text/Event-Stream; Charset=UTF-8",)),
    "wrong type": (stream_of("openai-chat", HELLO), ("Content-Type: application/json",)),
    "two equal lengths": (
        stream_of("openai-chat", HELLO),
        (f"content-length: {len(stream_of('openai-chat', HELLO))}",),
    ),
}


@pytest.mark.parametrize("name", ODD)
async def test_an_odd_answer_is_read(name: str) -> None:
    body, headers = ODD[name]
    with RawServer(replying(answer(body, *headers))) as server:
        assert await reply_from(server) == "Hello there."


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_gzip_in_chunks(transport: str) -> None:
    body = chunked(gzip.compress(stream_of("anthropic", HELLO)))
    packed = answer(body, EVENTS, "Content-Encoding: gzip", "Transfer-Encoding: chunked", length=False)
    with RawServer(replying(packed)) as server:
        assert await reply_from(server, "anthropic", transport=transport) == "Hello there."


async def test_two_different_lengths_are_refused() -> None:
    body = stream_of("openai-chat", HELLO)
    with RawServer(replying(answer(body, "content-length: 5"))) as server:
        assert "no readable length" in (await failure_at(server.url("openai-chat"))).message


async def test_an_encoding_nobody_asked_for_is_named() -> None:
    with RawServer(replying(answer(b"xx", EVENTS, "content-encoding: zstd"))) as server:
        assert "zstd" in (await failure_at(server.url("openai-chat"))).message


@pytest.mark.parametrize("damage", ["cut", "garbage", "bomb"])
async def test_damaged_compression_is_a_broken_stream(damage: str) -> None:
    whole = gzip.compress(stream_of("openai-chat", HELLO))
    bomb = zlib.compressobj(wbits=31)
    bodies = {
        "cut": whole[: len(whole) // 2],
        "garbage": whole[:12] + b"\xff" * 40,
        "bomb": b"".join(bomb.compress(b"\0" * (1 << 20)) for _ in range(64)) + bomb.flush(),
    }
    with RawServer(replying(answer(bodies[damage], EVENTS, "Content-Encoding: gzip"))) as server:
        assert (await failure_at(server.url("openai-chat"))).kind == "broken_stream"


async def test_announcements_before_the_answer_are_skipped() -> None:
    early = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    with RawServer(replying(early + answer(stream_of("openai", HELLO), EVENTS))) as server:
        assert await reply_from(server, "openai") == "Hello there."


async def test_an_answer_over_ipv6() -> None:
    try:
        server = RawServer(replying(answer(stream_of("openai", HELLO), EVENTS)), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6")
    with server:
        assert await reply_from(server, "openai") == "Hello there."


WHOLE = {
    "anthropic": {
        "type": "message",
        "role": "assistant",
        "content": [
            {"type": "text", "text": "Hello there."},
            {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "a"}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 7, "output_tokens": 3},
    },
    "openai": {
        "object": "response",
        "status": "completed",
        "error": None,
        "output": [
            {"type": "message", "content": [{"type": "output_text", "text": "Hello there."}]},
            {"type": "function_call", "call_id": "toolu_1", "name": "Read", "arguments": '{"file_path": "a"}'},
        ],
        "usage": {"input_tokens": 7, "output_tokens": 3},
    },
    "openai-chat": {
        "object": "chat.completion",
        "choices": [
            {
                "finish_reason": "tool_calls",
                "message": {
                    "role": "assistant",
                    "content": "Hello there.",
                    "tool_calls": [
                        {
                            "id": "toolu_1",
                            "type": "function",
                            "function": {"name": "Read", "arguments": '{"file_path": "a"}'},
                        }
                    ],
                },
            }
        ],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3},
    },
}


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("indent", [None, 2])
async def test_a_whole_json_answer_to_a_streamed_request_is_used(
    indent: int | None, format: str, transport: str
) -> None:
    body = json.dumps(WHOLE[format], indent=indent).encode()
    with RawServer(replying(answer(body, "Content-Type: Application/JSON; charset=utf-8"))) as server:
        provider = provider_at(server.url(format), format, transport=transport)
        deltas, reply = await ask(provider)
        await provider.aclose()
    assert reply.text == text_of(deltas) == "Hello there."
    assert reply.calls == (ToolUse("toolu_1", "Read", {"file_path": "a"}),)
    assert reply.stop_reason == "tool_use"
    assert reply.usage == Usage(7, 3)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("body", [b"<html>hi</html>", b'{"version": "1"}', b"", b"[]"])
async def test_what_is_no_answer_asks_for_the_base_url(body: bytes, format: str, transport: str) -> None:
    with RawServer(replying(answer(body))) as server:
        error = await failure_at(server.url(format), format, transport=transport)
    assert error.kind == "broken_stream"
    assert "base URL" in error.message


# ---------------------------------------------------------------- refusals and floods


async def test_a_refusal_sent_before_the_body_was_read_is_seen() -> None:
    def refuse(peer: socket.socket) -> None:
        peer.recv(1000)
        peer.sendall(answer(b'{"error": {"message": "no such key"}}', status="401 Unauthorized"))

    with RawServer(refuse) as server:
        provider = provider_at(server.url("anthropic"), "anthropic")
        with pytest.raises(ProviderError) as caught:
            await ask(provider, asking("x" * 8_000_000))
        await provider.aclose()
    assert caught.value.kind == "auth"


async def test_a_flood_of_headers_is_cut_off() -> None:
    flood = b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"y" * 900) for n in range(2_000)) + b"\r\n"
    with RawServer(replying(flood)) as server:
        error = await failure_at(server.url("openai"), "openai")
    assert "too many headers" in error.message


async def test_an_endless_line_is_cut_off() -> None:
    sent = 0

    def pour(peer: socket.socket) -> None:
        nonlocal sent
        read_request(peer)
        peer.sendall(answer(b"", EVENTS, length=False) + b"data: ")
        piece = b"x" * (1 << 20)
        for _ in range(100):
            peer.sendall(piece)
            sent += len(piece)

    with RawServer(pour) as server:
        error = await failure_at(server.url("openai"), "openai")
    assert error.kind == "broken_stream"
    assert "16 MB" in error.message
    assert sent < 40 << 20


# ---------------------------------------------------------------- TLS


def test_one_certificate_is_signed_by_the_authority() -> None:
    context = ssl.create_default_context(cafile=str(AUTHORITY))
    with (
        RawServer(replying(answer(b"")), certificate=SIGNED) as server,
        socket.create_connection(("127.0.0.1", server.port)) as plain,
        context.wrap_socket(plain, server_hostname="model.test") as peer,
    ):
        assert peer.version()


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_an_authority_of_ones_own_is_trusted_when_named(transport: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body = answer(stream_of("openai", HELLO), EVENTS)
    with RawServer(replying(body), certificate=SIGNED) as server:
        error = await failure_at(server.url("openai"), "openai", transport=transport)
        assert error.kind == "certificate"
        assert "SSL_CERT_FILE" in error.hint
        monkeypatch.setenv("SSL_CERT_FILE", str(AUTHORITY))
        assert await reply_from(server, "openai", transport=transport) == "Hello there."


async def test_a_self_signed_certificate_is_named_as_such() -> None:
    with RawServer(replying(b""), certificate=CERTIFICATE) as server:
        error = await failure_at(server.url("openai"), "openai")
    assert "self-signed" in error.message
    assert str(server.port) in error.message
    assert not error.retryable


async def test_a_certificate_file_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "gone.pem"))
    with RawServer(replying(b""), certificate=SIGNED) as server:
        error = await failure_at(server.url("openai"), "openai")
    assert "gone.pem" in error.message


def keep_silent(peer: socket.socket) -> None:
    """Waits for the end of a head, as a plain HTTP server does."""
    if peer.recv(1, socket.MSG_PEEK) == b"H":
        replying(answer(b"", status="404 Not Found"))(peer)
    else:
        read_request(peer)


PLAIN_PORTS: dict[str, Play] = {
    "says 400": lambda peer: (peer.recv(1000), peer.sendall(answer(b"", status="400 Bad Request")))[1],
    "stays silent": keep_silent,
}


@pytest.mark.parametrize("kind", PLAIN_PORTS)
async def test_https_to_a_plain_port_fails_at_once(kind: str) -> None:
    with RawServer(PLAIN_PORTS[kind]) as server:
        started = time.monotonic()
        error = await failure_at(server.url("openai", "https"), "openai")
    assert error.kind == "protocol"
    assert "http://" in error.message
    assert not error.retryable
    assert time.monotonic() - started < 14  # of the 15 s that a connection may take


SETTINGS = b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64"


@pytest.mark.parametrize("certificate", [None, SIGNED])
async def test_a_server_that_only_speaks_http_2_is_named(
    certificate: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(AUTHORITY))
    with RawServer(replying(SETTINGS), certificate=certificate) as server:
        error = await failure_at(server.url("anthropic"), "anthropic")
    assert "HTTP/2" in error.message
    assert not error.retryable


# ---------------------------------------------------------------- proxies


@pytest.fixture(params=TRANSPORTS)
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def proxied(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, url)


async def test_plain_http_through_a_proxy(transport: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Server([HELLO]) as server, ProxyServer(server.port) as proxy:
        proxied(monkeypatch, f"http://127.0.0.1:{proxy.port}")
        provider = provider_at("http://model.test/v1", transport=transport)
        assert (await ask(provider))[1].text == "Hello there."
        await provider.aclose()
    assert proxy.asked[0].startswith("POST http://model.test/v1/chat/completions ")
    assert server.violations == []


async def test_https_through_a_proxy_with_a_password(transport: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(AUTHORITY))
    body = answer(stream_of("openai", HELLO), EVENTS)
    server = RawServer(replying(body, body), certificate=SIGNED)
    with server, ProxyServer(server.port, login="me@home:p:ss/w%rd") as proxy:
        proxied(monkeypatch, f"http://me%40home:p%3Ass%2Fw%25rd@127.0.0.1:{proxy.port}")
        provider = provider_at("https://model.test/v1", "openai", transport=transport)
        assert (await ask(provider))[1].text == "Hello there."
        assert (await ask(provider))[1].text == "Hello there."
        await provider.aclose()
    assert proxy.asked == ["CONNECT model.test:443 HTTP/1.1"]


async def test_a_proxy_that_is_reached_over_tls_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(AUTHORITY))
    body = answer(stream_of("openai", HELLO), EVENTS)
    server = RawServer(replying(body), certificate=SIGNED)
    with server, ProxyServer(server.port, certificate=SIGNED) as proxy:
        proxied(monkeypatch, f"https://127.0.0.1:{proxy.port}")
        provider = provider_at("https://model.test/v1", "openai")
        assert (await ask(provider))[1].text == "Hello there."
        await provider.aclose()


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_that_wants_a_password_is_named(
    scheme: str, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server([HELLO]) as server, ProxyServer(server.port, login="me:secret") as proxy:
        proxied(monkeypatch, f"http://me:wrong-word@127.0.0.1:{proxy.port}")
        error = await failure_at(f"{scheme}://model.test/v1", transport=transport)
    assert (error.kind, error.retryable) == ("proxy", False)
    assert f"127.0.0.1:{proxy.port}" in error.message
    assert "wrong-word" not in error.message
    assert "PROXY" in error.hint


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_dead_proxy_is_named_and_not_tried_again(
    scheme: str, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        proxied(monkeypatch, f"http://127.0.0.1:{port}")
        error = await failure_at(f"{scheme}://model.test/v1", transport=transport)
    assert (error.kind, error.retryable) == ("proxy", False)
    assert f"127.0.0.1:{port}" in error.message


async def test_a_proxy_that_never_answers_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with RawServer(lambda peer: (read_request(peer), peer.recv(1))[0]) as silent:  # type: ignore[arg-type,return-value]
        proxied(monkeypatch, f"http://127.0.0.1:{silent.port}")
        client = HttpClient("https://model.test/v1", connect_timeout=0.3)
        transport = DirectTransport(client, {}, host="model.test")
        with pytest.raises(ProviderError) as caught:
            await anext(transport.post(b"{}"))
    assert (caught.value.kind, caught.value.retryable) == ("proxy", False)
    assert f"127.0.0.1:{silent.port}" in caught.value.message


@pytest.mark.parametrize(("refusal", "retryable"), [("403 Forbidden", False), ("502 Bad Gateway", True)])
async def test_a_proxy_that_gives_no_way_through_is_named(
    refusal: str, retryable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ProxyServer(1, refuse=refusal) as proxy:
        proxied(monkeypatch, f"http://127.0.0.1:{proxy.port}")
        error = await failure_at("https://model.test/v1")
    assert error.retryable is retryable
    assert f"127.0.0.1:{proxy.port}" in error.message
    assert refusal[:3] in error.message


@pytest.mark.parametrize("url", ["socks5://127.0.0.1:1080", "socks5h://x", "nonsense://x", "http://", "http://a:b:c"])
async def test_a_proxy_that_cannot_be_used_is_the_users_to_mend(
    url: str, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxied(monkeypatch, url)
    with pytest.raises(UserError) as caught:
        provider_at("https://model.test/v1", transport=transport)
    assert caught.value.exit_code == 2
    assert "NO_PROXY" in caught.value.hint


async def test_a_proxy_is_not_used_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    proxied(monkeypatch, "http://127.0.0.1:9")
    with Server([HELLO, status(500)]) as server:
        provider = provider_at(server.url("openai"), "openai")
        assert (await ask(provider))[1].text == "Hello there."
        await provider.aclose()
