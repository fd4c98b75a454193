"""The way out of the loop: stamps events and hands them to every sink in order. It never fails."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from cowork.core.events import Event, Notice
from cowork.core.ports import Emit

SinkFailed = Callable[[Emit, Exception], None]


class Emitter:
    """One a session. Sinks are called in the order they were added, so the log goes first."""

    def __init__(
        self, session_id: str, *, first_id: int = 1, on_failure: SinkFailed = lambda sink, error: None
    ) -> None:
        self.session_id = session_id
        self.next_id = first_id
        self._on_failure = on_failure
        self._sinks: list[tuple[Emit, str]] = []
        self._pending: deque[Event] = deque()
        self._delivering = False

    def add(self, sink: Emit, agent: str = "") -> None:
        """With `agent` it hears of that one only: fifty children should not each be told of all others."""
        self._sinks.append((sink, agent))

    def remove(self, sink: Emit) -> None:
        self._sinks = [known for known in self._sinks if known[0] != sink]

    def bind(self, agent: str) -> Emit:
        """The `emit` of one agent."""
        return lambda event: self.publish(event, agent)

    def publish(self, event: Event, agent: str = "main") -> None:
        """Stamp and deliver. An event that a sink emits waits until the current one has reached everybody."""
        stamped = replace(event, id=self.next_id, at=round(time.time(), 3), session_id=self.session_id, agent=agent)
        self.next_id += 1
        self._pending.append(stamped)
        if self._delivering:
            return
        self._delivering = True
        try:
            while self._pending:
                self._deliver(self._pending.popleft())
        finally:
            self._delivering = False

    def _deliver(self, event: Event) -> None:
        for sink, agent in tuple(self._sinks):
            if agent and agent != event.agent:
                continue
            try:
                sink(event)
            except Exception as error:  # a broken consumer is dropped, never the turn
                self.remove(sink)
                self._on_failure(sink, error)
                self.publish(Notice(f"An output was dropped: {error}", level="warning", code="sink.dropped"))
