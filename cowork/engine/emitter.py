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
    """One a session. Sinks are called in the order they were added, so the log goes first, and one agent's go last."""

    def __init__(
        self, session_id: str, *, first_id: int = 1, on_failure: SinkFailed = lambda sink, error: None
    ) -> None:
        self.session_id = session_id
        self.next_id = first_id
        self._on_failure = on_failure
        self._sinks: dict[str, list[Emit]] = {}  # by the agent they hear; "" hears all
        self._pending: deque[Event] = deque()
        self._delivering = False

    def add(self, sink: Emit, agent: str = "") -> None:
        """With `agent` it hears of that one only: fifty children should not each be told of all others."""
        self._sinks.setdefault(agent, []).append(sink)

    def remove(self, sink: Emit) -> None:
        left = {agent: [known for known in sinks if known != sink] for agent, sinks in self._sinks.items()}
        self._sinks = {agent: sinks for agent, sinks in left.items() if sinks}

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
                event = self._pending.popleft()
                for sink in (*self._sinks.get("", ()), *self._sinks.get(event.agent, ())):
                    try:
                        sink(event)
                    except Exception as error:  # a broken consumer is dropped, never the turn
                        self.remove(sink)
                        self._on_failure(sink, error)
                        self.publish(Notice(f"An output was dropped: {error}", "warning", "sink.dropped"))
        finally:
            self._delivering = False
