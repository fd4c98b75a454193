"""The pages on delegating say what is: fields and parameters match the code, and the first example does as it says."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from cowork.config.sections import Subagent
from cowork.core.events import EVENTS, AgentStarted, Event
from cowork.engine.subagents.result import LOG_MESSAGES, ChildResult, record_of
from tests.fakes.calls import TOOLS
from tests.fakes.command import Command

DOCS = Path(__file__).parents[2] / "docs"


def rows(text: str) -> list[str]:
    """What stands in the first column of the first table, code marks left off."""
    table = re.search(r"^\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert table, text
    return [line.split("|")[1].strip().strip("`") for line in table[1].splitlines()]


def section(page: str, title: str) -> str:
    text = (DOCS / page).read_text()
    found = re.search(rf"^#+ `?{re.escape(title)}`?\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"{page} has no section {title}"
    return found[1]


def test_every_event_is_described_with_its_fields_in_order() -> None:
    text = (DOCS / "reference/events.md").read_text()
    assert re.findall(r"^## (\S+)$", text, re.MULTILINE) == list(EVENTS)
    envelope = {f.name for f in fields(Event())}
    for name, cls in EVENTS.items():
        body = section("reference/events.md", name)
        assert rows(body) == [f.name for f in fields(cls()) if f.name not in envelope], name
        assert ("*Live.*" in body) is not cls.durable, name
    assert rows(text) == ["type", *(f.name for f in fields(Event()))]


@pytest.mark.parametrize(("title", "tool"), [("Input", "Task"), ("subagent", "subagent")])
def test_the_parameters_are_those_of_the_schema(title: str, tool: str) -> None:
    body = section("reference/task.md", title)
    schema = TOOLS[tool].schema
    assert rows(body) == list(schema["properties"])
    required = [line.split("|")[1].strip(" `") for line in body.splitlines() if "| required |" in line]
    assert required == schema["required"]


def test_the_fields_of_the_record_are_all_there(tmp_path: Path) -> None:
    end = ChildResult(AgentStarted("explore-1", subagent_type="explore"), "completed", "r")
    record, _ = record_of(end, keep_in=tmp_path / "x")
    body = section("reference/task.md", "Record")
    assert rows(body) == list(record.data)
    for name in record.data["metadata"]:
        assert f"`{name}`" in body


def test_the_settings_and_log_lines_are_all_there() -> None:
    assert rows(section("reference/task.md", "Settings")) == list(Subagent.__annotations__)
    assert rows(section("reference/task.md", "Log lines")) == list(LOG_MESSAGES)


def test_the_first_example_really_sends_out_two_children(command: Command) -> None:
    (command.folder / "app.py").write_text("def helper():\n    return 1\n\n\ndef main():\n    return helper()\n")
    (question,) = re.findall(r'run --non-interactive "(How does[^"]*)"', (DOCS / "delegating.md").read_text())
    done = command.run("--no-session", prompt=question)
    assert {"explore-1", "explore-2"} <= set(re.findall(r"explore-\d", done.err))
