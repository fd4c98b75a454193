"""The events' names and fields are public: a change shows up here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cowork.core.blocks import Image, Text, Usage
from cowork.core.events import EVENTS, Event, ReplyAdded, RunEnded, ToolEnded, from_dict, to_dict

GOLDEN = Path(__file__).parents[1] / "golden" / "events.json"


def shape() -> dict[str, dict[str, object]]:
    return {
        name: {
            "durable": cls.durable,
            "fields": [name for name in to_dict(cls()) if name not in ("type", "id", "at", "session_id", "agent")],
        }
        for name, cls in EVENTS.items()
    }


def test_wire_names_and_fields_are_the_golden_ones() -> None:
    assert shape() == json.loads(GOLDEN.read_text())


@pytest.mark.parametrize("cls", EVENTS.values(), ids=EVENTS.keys())
def test_every_event_survives_json(cls: type[Event]) -> None:
    event = cls(id=7, at=1.5, session_id="s", agent="main/explore-1")
    wire = json.loads(json.dumps(to_dict(event)))
    assert {k: wire[k] for k in ("type", "id", "at", "session_id", "agent")} == {
        "type": cls.type,
        "id": 7,
        "at": 1.5,
        "session_id": "s",
        "agent": "main/explore-1",
    }
    assert from_dict(wire) == (None if cls is RunEnded else event)  # its fields are those of the result


def test_blocks_usage_and_images_come_back_as_they_were() -> None:
    event = ReplyAdded((Text("x"),), "end_turn", Usage(1, 2, 3, 4), 0.5, "m", 9)
    assert from_dict(json.loads(json.dumps(to_dict(event)))) == event
    ended = ToolEnded("a", "Read", {"text": "t"}, {}, (Image("image/png", "AA"),))
    assert from_dict(json.loads(json.dumps(to_dict(ended)))) == ended


def test_the_last_event_lays_its_result_open() -> None:
    wire = to_dict(RunEnded({"type": "result", "status": "success", "result": "hi"}, id=3))
    assert (wire["type"], wire["status"], wire["result"]) == ("run.ended", "success", "hi")


def test_an_event_of_a_newer_version_is_skipped_and_its_new_fields_are_ignored() -> None:
    assert from_dict({"type": "moon.landed"}) is None
    assert from_dict({"type": "text.delta", "text": "a", "colour": "red"}) is not None
