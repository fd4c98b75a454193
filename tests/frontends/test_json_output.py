"""What programs read: whole lines of ASCII JSON, the result last."""

from __future__ import annotations

import io
import json

from hypothesis import given
from hypothesis import strategies as st

from cowork.core.events import Notice, RunEnded, SessionStarted, TextDelta, from_dict
from cowork.frontends.json_output import JsonOutput

RESULT = {"type": "result", "status": "success", "result": "done", "total_cost_usd": None}


class Counting(io.StringIO):
    """A stream that knows how often it was flushed."""

    flushes = 0

    def flush(self) -> None:
        self.flushes += 1


def test_json_is_one_object_at_the_end() -> None:
    out = io.StringIO()
    for event in (SessionStarted(cwd="/"), TextDelta("d"), Notice("n"), RunEnded(RESULT)):
        JsonOutput(out, stream=False)(event)
    assert json.loads(out.getvalue()) == RESULT
    assert out.getvalue().count("\n") == 1


def test_stream_json_is_one_flushed_event_a_line_and_ends_with_the_result() -> None:
    out = Counting()
    stream = JsonOutput(out, stream=True)
    events = [SessionStarted(id=1, cwd="/"), TextDelta(id=2, text="a\nb"), RunEnded(id=3, result=RESULT)]
    for number, event in enumerate(events, 1):
        stream(event)
        assert out.flushes == number
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["type"] for line in lines] == ["session.started", "text.delta", "run.ended"]
    assert {"id", "at", "session_id", "agent"} <= lines[0].keys()
    assert lines[-1]["status"] == "success"
    assert lines[-1]["result"] == "done"


@given(st.text())
def test_any_text_survives_and_no_byte_can_steer_a_terminal(text: str) -> None:
    out = io.StringIO()
    JsonOutput(out, stream=True)(TextDelta(text=text))
    assert out.getvalue().isascii()
    assert all(character.isprintable() for character in out.getvalue()[:-1])
    assert from_dict(json.loads(out.getvalue())) == TextDelta(text=text)
