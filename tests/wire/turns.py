"""What a scripted model service answers: turns made of text, thinking and calls, and the faults that befall them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from cowork.core.blocks import Usage

Where = Literal["headers", "first", "middle", "last"]
WHERE: tuple[Where, ...] = ("headers", "first", "middle", "last")

FaultKind = Literal["status", "reset", "close", "truncated", "stall", "pings", "malformed", "error"]
FAULTS: tuple[FaultKind, ...] = ("status", "reset", "close", "truncated", "stall", "pings", "malformed", "error")

Cut = int | Iterable[int] | Callable[[bytes], Iterable[bytes]]
"""How a body is cut into HTTP chunks: pieces of n bytes, at these byte positions, or by a function."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call. `raw` replaces the JSON of `input` on the wire, for arguments that cannot be read."""

    name: str
    input: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""
    raw: str | None = None


@dataclass(frozen=True, slots=True)
class Think:
    text: str
    redacted: bool = False


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong, and where.

    `where`: "headers" is before the status line, "first" in place of the first event, "middle" after half of
    them, "last" in place of the stop event.
    `kind`: "status" answers `status` with `headers` and `body` (after the headers were sent: as an error event),
    "reset" is a TCP RST, "close" a FIN without an end of the body, "truncated" a clean end of the body,
    "stall" silence, "pings" keep-alives without data, "malformed" a data line that is no JSON, "error" an error
    event of the service.
    """

    kind: FaultKind
    where: Where = "headers"
    status: int = 500
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | Mapping[str, Any] | None = None
    code: str = ""  # error type/code in the body or event; "" is what the service says for the status


@dataclass(frozen=True, slots=True, eq=False)
class Hold:
    """A place where the server waits: `reached` is set when it gets there, and it goes on when `release` is."""

    where: Where = "headers"
    reached: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer. `parts` stream in order; `stop` is one of cowork's stop reasons, guessed when empty."""

    parts: tuple[str | Call | Think, ...] = ()
    stop: str = ""
    usage: Usage = field(default_factory=lambda: Usage(100, 20, 0, 0))
    fault: Fault | None = None
    hold: Hold | None = None
    cut: Cut | None = None  # None: one HTTP chunk an event, or the server's own `cut`
    piece: int = 12  # characters in a text, thinking or arguments delta
    shape: str = "standard"  # how openai-chat writes tool calls: see encode.SHAPES
    delay_s: float = 0.0  # before the first byte, for benchmarks
    send_usage: bool = True
    extra: tuple[tuple[str, str], ...] = ()  # (event, data) pairs put in after the first event, such as unknown ones
    raw: bytes | None = None  # the whole body as it is, in place of all of the above

    @property
    def calls(self) -> tuple[Call, ...]:
        return tuple(p for p in self.parts if isinstance(p, Call))

    @property
    def text(self) -> str:
        return "".join(p for p in self.parts if isinstance(p, str))

    @property
    def stop_reason(self) -> str:
        return self.stop or ("tool_use" if self.calls else "end_turn")


def say(text: str, **fields: Any) -> Turn:
    """A turn of nothing but text."""
    return Turn((text,), **fields)


def turn(*parts: str | Call | Think, **fields: Any) -> Turn:
    """A turn of these parts, in this order."""
    return Turn(parts, **fields)


def call(name: str, /, id: str = "", raw: str | None = None, **input: Any) -> Call:
    """A call of a tool, with its arguments."""
    return Call(name, input, id, raw)


def think(text: str, *, redacted: bool = False) -> Think:
    return Think(text, redacted)


def status(code: int, *, headers: Mapping[str, str] | None = None, body: Any = None, error: str = "") -> Turn:
    """An answer that is only an HTTP status."""
    return Turn(fault=Fault("status", status=code, headers=headers or {}, body=body, code=error))


def broken(kind: FaultKind, where: Where = "headers", turn: Turn | None = None, **fields: Any) -> Turn:
    """`turn` (or a short text) with a fault in it."""
    return replace(turn or say("a text that will not arrive whole"), fault=Fault(kind, where, **fields))
