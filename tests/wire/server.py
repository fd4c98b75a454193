"""A loopback model service: real sockets, real SSE, the three wire formats, and the refusals of the real ones.

    from tests.wire.server import Server, say, turn, call, think, status, broken, Hold

    with Server([                                    # `async with` works too; it runs in threads of its own
        turn(think("hm"), "Let me look.", call("Read", file_path="a.py"), call("Grep", pattern="x")),
        say("Done.", usage=Usage(10, 5, 90, 0)),
    ]) as server:
        spec = ModelSpec("anthropic", "claude-sonnet-4-5", base_url=server.url("anthropic"), api_key="k")
        env = server.env("anthropic")                # for the installed `cowork` in a subprocess
        ...
        assert server.violations == []

One server speaks every format: `/v1/messages`, `/v1/responses`, `/v1/chat/completions`; `url(format)` is what goes
into `base_url` for "anthropic", "openai" or "openai-chat".

Which turn answers: the next one of `turns`. With `routes={"needle": [turns]}` a request whose system prompt or
first user message holds the needle takes the next one of that list instead (children, side requests). `turns` may
also be a function `(Seen) -> Turn`. A script that has run out answers 400 and counts as a violation.
Text within a turn streams in pieces; see `Turn` in tests/wire/turns.py for `usage`, `stop`, `piece`, `shape`, `cut`,
`hold`, `delay_s`, `extra`, `raw`.

Faults: `broken(kind, where, turn)` with the kinds and places of `Fault` in tests/wire/turns.py, and
`status(429, headers={"retry-after": "1"})`. Each uses up one turn, so the retry gets the next one. A stall lasts until
the client goes away or the server closes.
Timing: `hold=Hold("middle")`: the server sets `hold.reached` and waits for `hold.release`; no sleeps needed.

What was asked: `server.requests` (`Seen`: format, headers, body, raw bytes, violations, the turn that answered),
`server.bodies`, `server.wait(n)` for the n-th request, `server.violations` (every reason, should stay empty),
`server.connections` (how many TCP connections), `server.hung_up` and `server.wait_hung_up(n)` (answers that clients
left before the end).
An invalid request is answered 400 with its reason, as the real services do.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.wire.encode import error_body
from tests.wire.exchange import Http, Seen
from tests.wire.turns import FAULTS, WHERE, Call, Cut, Fault, Hold, Think, Turn, broken, call, say, status, think, turn
from tests.wire.validate import validate

__all__ = [
    "FAULTS",
    "FORMATS",
    "WHERE",
    "Call",
    "Fault",
    "Hold",
    "Seen",
    "Server",
    "Think",
    "Turn",
    "broken",
    "call",
    "say",
    "status",
    "think",
    "turn",
]

FORMATS = ("anthropic", "openai", "openai-chat")
CERTIFICATE = Path(__file__).parent / "loopback.pem"


Answer = Callable[[Seen], Turn]


class Server:
    """The service; a context manager, sync or async. See the top of the file."""

    def __init__(
        self,
        turns: Iterable[Turn] | Answer = (),
        *,
        routes: Mapping[str, Iterable[Turn]] | None = None,
        cut: Cut | None = None,
        key: str | None = None,  # the only key accepted; None: any, but there must be one
        refuse: Iterable[str] = (),  # top-level fields this service answers 400 to, such as "stream_options"
        refuse_null: bool = False,  # answer 422 to `content: null`, as llama-cpp-python does
        check: bool = True,  # refuse invalid requests
        tls: bool = False,  # with a certificate nobody trusts
    ) -> None:
        self.requests: list[Seen] = []
        self.connections = 0
        self.hung_up = 0
        self.cut = cut
        self.key = key
        self.refuse = frozenset(refuse)
        self.refuse_null = refuse_null
        self.check = check
        self.closing = threading.Event()
        self._answer = turns if callable(turns) else None
        self._turns = [] if callable(turns) else list(turns)
        self._routes = {needle: list(each) for needle, each in (routes or {}).items()}
        self._changed = threading.Condition()
        self._http = Http(self)
        self._scheme = "http"
        if tls:
            self._scheme = "https"
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CERTIFICATE)
            self._http.socket = context.wrap_socket(self._http.socket, server_side=True)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @property
    def port(self) -> int:
        return int(self._http.server_address[1])

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [seen.body for seen in self.requests]

    @property
    def violations(self) -> list[str]:
        return [f"request {n}: {reason}" for n, seen in enumerate(self.requests) for reason in seen.violations]

    @property
    def left(self) -> int:
        """Turns not used yet."""
        return len(self._turns) + sum(len(each) for each in self._routes.values())

    def url(self, format: str) -> str:
        """The base URL for a provider of this format."""
        return f"{self._scheme}://127.0.0.1:{self.port}" + ("" if format == "anthropic" else "/v1")

    def env(self, format: str, model: str = "test-model") -> dict[str, str]:
        """Environment variables that point the `cowork` command at this server."""
        return {
            "LLM_PROVIDER": format,
            "LLM_MODEL_ID": model,
            "LLM_API_KEY": self.key or "test-key",
            "LLM_BASE_URL": self.url(format),
        }

    def add(self, *turns: Turn) -> None:
        """More turns at the end of the script."""
        self._turns.extend(turns)

    def wait(self, count: int, timeout: float = 100.0) -> Seen:
        """The request number `count`, from 1, when it has come."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.requests) >= count, timeout):
                raise AssertionError(f"only {len(self.requests)} of {count} requests came within {timeout} s")
            return self.requests[count - 1]

    def wait_hung_up(self, count: int, timeout: float = 100.0) -> None:
        """Until clients have left `count` answers before their end."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.hung_up >= count, timeout):
                raise AssertionError(f"only {self.hung_up} of {count} clients hung up within {timeout} s")

    def note_hung_up(self) -> None:
        with self._changed:
            self.hung_up += 1
            self._changed.notify_all()

    def start(self) -> Self:
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop listening and end every held or stalled answer."""
        if self.closing.is_set():
            return
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def take(self, seen: Seen) -> Turn:
        """Note the request and pick its answer."""
        with self._changed:
            paused = bool(self.requests and self.requests[-1].turn and self.requests[-1].turn.stop == "pause_turn")
            self.requests.append(seen)
            if self.check:
                seen.violations += validate(seen.format, seen.body, paused=paused)
            refused = sorted(self.refuse & set(seen.body))
            if not self._authorized(seen):
                chosen = status(401)
            elif refused:
                chosen = _refusal(seen.format, f"Unrecognized request argument supplied: {refused[0]}")
            elif seen.violations:
                chosen = _refusal(seen.format, seen.violations[0])
            elif self.refuse_null and any(m.get("content", "") is None for m in seen.body.get("messages", ())):
                where = {"type": "string_type", "loc": ["body", "messages", 2, "content"], "input": None}
                chosen = status(422, body={"detail": [where | {"msg": "Input should be a valid string"}]})
            else:
                chosen = self._next(seen)
            seen.turn = chosen
            self._changed.notify_all()
            return chosen

    def _next(self, seen: Seen) -> Turn:
        if self._answer:
            return self._answer(seen)
        opening = seen.opening
        script = next((turns for needle, turns in self._routes.items() if needle in opening), self._turns)
        if script:
            return script.pop(0)
        seen.violations.append("the script has run out of turns")
        return _refusal(seen.format, "the script has run out of turns")

    def _authorized(self, seen: Seen) -> bool:
        bearer = seen.headers.get("authorization", "").removeprefix("Bearer ")
        given = seen.headers.get("x-api-key") or bearer
        if seen.format == "anthropic" and "anthropic-version" not in seen.headers:
            seen.violations.append("anthropic-version: header is required")
        return bool(given) if self.key is None else given == self.key

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()


def _refusal(format: str, reason: str) -> Turn:
    return status(400, body=error_body(format, 400, message=reason))
