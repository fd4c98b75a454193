"""What models see of every tool is pinned: a change shows up as a diff of the golden file and of the reference page.

After a change that is meant: `python -m tests.tools.test_tool_schemas` and
`python -m benchmarks.tools_reference > docs/reference/tools.md`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.tools_reference import PROMPTS, render
from cowork.tools.base import Tool
from cowork.tools.json_schema import schema_problems
from tests.fakes.calls import TOOLS

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "tool_schemas.json"
UNITS = list(TOOLS.values())


def schemas() -> str:
    return json.dumps({tool.name: tool.schema for tool in UNITS}, indent=2, ensure_ascii=False) + "\n"


def test_schemas_are_as_reviewed() -> None:
    assert schemas() == GOLDEN.read_text("utf-8")


def test_the_reference_page_is_current() -> None:
    assert (ROOT / "docs" / "reference" / "tools.md").read_text("utf-8") == render()


@pytest.mark.parametrize("tool", UNITS, ids=lambda tool: tool.name)
def test_a_schema_is_sound_closed_and_described(tool: Tool) -> None:
    assert schema_problems(tool.schema) == []
    for place in objects(tool.schema):
        assert place["additionalProperties"] is False
        assert set(place["required"]) <= set(place["properties"])
        assert all(inner.get("description") or "enum" in inner for inner in place["properties"].values())


@pytest.mark.parametrize("tool", UNITS, ids=lambda tool: tool.name)
def test_what_the_model_reads_of_a_tool_is_there_and_short(tool: Tool) -> None:
    prose = (PROMPTS / "tools" / f"{tool.name}.md").read_text("utf-8")
    assert 10 <= len(prose.split()) <= 130


def objects(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The object schemas with named properties in this one, itself included."""
    inner = [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]
    return [*([schema] if "properties" in schema else []), *(found for one in inner for found in objects(one))]


if __name__ == "__main__":
    GOLDEN.write_text(schemas(), "utf-8")
