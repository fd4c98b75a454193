"""Types of a program: what a model may answer under them, what they refuse, and what functions give back."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, ClassVar, Optional, TypedDict

import pydantic
import pytest

import cowork
from cowork.core.events import PromptAdded, ToolEnded

Options = Callable[..., dict[str, Any]]


class Color(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Finding:
    file: str
    line: int | None


@dataclass
class Lenient:
    file: str
    line: Optional[int] = None  # noqa: UP045


class FindingDict(TypedDict):
    file: str
    line: int | None


@dataclass
class Point:
    KINDS: ClassVar[int] = 3
    x: float
    color: Color = Color.RED
    number: int = field(init=False, default=7)


class Holder(TypedDict):
    point: Point
    points: list[Annotated[Point, "each"]]


class Inner(pydantic.BaseModel):
    a: int


class Model(pydantic.BaseModel):
    inner: Inner


@dataclass
class ModelHolder:
    model: Model
    either: int | Point | None = None


@pytest.mark.parametrize(
    ("kind", "raw", "wanted"),
    [
        (Finding, {"file": "a", "line": None}, Finding("a", None)),
        (Finding, {"file": "a", "line": 3}, Finding("a", 3)),
        (Lenient, {"file": "a", "line": None}, Lenient("a")),
        (FindingDict, {"file": "a", "line": None}, {"file": "a", "line": None}),
        (list[int | None], [1, None], [1, None]),
        (Point, {"x": 1, "color": "blue"}, Point(1.0, Color.BLUE)),
        (Holder, {"point": {"x": 1}, "points": [{"x": 2}]}, {"point": Point(1.0), "points": [Point(2.0)]}),
        (list[Model], [{"inner": {"a": 1}}], [Model(inner=Inner(a=1))]),
        (
            ModelHolder,
            {"model": {"inner": {"a": 1}}, "either": {"x": 1}},
            ModelHolder(Model(inner=Inner(a=1)), Point(1.0)),
        ),
    ],
)
async def test_an_answer_is_taken_at_once_as_its_type(scripted: Options, kind: Any, raw: Any, wanted: Any) -> None:
    said = {"say": json.dumps(raw)}
    async with cowork.Session(**scripted(said, children={"explore": [said]})) as session:
        assert (await session.ask("find", schema=kind)).value == wanted
        assert await session.task("explore", "find", schema=kind) == wanted


class Validated(pydantic.BaseModel):
    a: int

    @pydantic.field_validator("a")
    @classmethod
    def check(cls, value: int) -> int:
        assert value > 0, "too small"
        return value


@dataclass
class Checked:
    a: int

    def __post_init__(self) -> None:
        if self.a <= 0:
            raise ValueError("too small")


@pytest.mark.parametrize("kind", [Validated, Checked, list[Checked]])
async def test_what_a_type_refuses_is_sent_back_and_then_a_failure(scripted: Options, kind: Any) -> None:
    def say(number: int) -> Any:
        return {"say": json.dumps([{"a": number}] if kind == list[Checked] else {"a": number})}

    turns = [say(0), say(1), say(0), say(0), say(0)]
    async with cowork.Session(**scripted(*turns, children={"explore": turns[:2]})) as session:
        pending = session.ask("find", schema=kind)
        heard = [event.text async for event in pending if isinstance(event, PromptAdded)]
        assert ["too small" in text for text in heard] == [False, True]
        assert pending.result
        assert pending.result.turns == 2
        with pytest.raises(cowork.InvalidAnswer, match="too small") as caught:
            await session.ask("find", schema=kind)
        assert caught.value.result.turns == 3
        await session.task("explore", "find", schema=kind)
    async with cowork.Session(**scripted(children={"explore": turns[2:]})) as session:
        with pytest.raises(cowork.TaskFailed, match="too small"):
            await session.task("explore", "find", schema=kind)


@dataclass
class Node:
    children: list[Node]


async def test_a_dataclass_that_holds_itself_is_a_mistake_in_a_line(scripted: Options) -> None:
    async with cowork.Session(**scripted()) as session:
        with pytest.raises(cowork.UserError, match="Node'> holds itself"):
            session.ask("find", schema=Node)


# ---------------------------------------------------------------- parameters and results of functions


@cowork.tool(reads=True)
def show(line: int | None, color: Color = Color.RED, point: Point | None = None, checked: Checked | None = None) -> Any:
    """Shows what it got."""
    return [line, color, point]


async def test_a_required_parameter_may_be_null_and_an_enum(scripted: Options) -> None:
    calls = [
        {"line": None, "color": "blue"},
        {"line": "5", "point": {"x": 1}},
        {},
        {"line": 1, "checked": {"a": 0}},
    ]
    turns = [{"call": {"show": given}} for given in calls]
    async with cowork.Session(**scripted(*turns, "done", tools=[show])) as session:
        ended = [e.record["text"] async for e in session.ask("go") if isinstance(e, ToolEnded)]
    assert ended == [
        '[null, "blue", null]',
        '[5, "red", {"x": 1.0, "color": "red", "number": 7}]',
        "Invalid input: missing field `line`",
        "Invalid input: too small",
    ]
    assert show.schema["properties"]["line"] == {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    assert show.schema["properties"]["color"] == {"type": "string", "enum": ["red", "blue"], "default": "red"}
    assert show.schema["properties"]["point"]["type"] == "object"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (Point(1.0), {"x": 1.0, "color": "red", "number": 7}),
        ([Color.BLUE], ["blue"]),
        ({"b", "a"}, ["a", "b"]),
        ({(1, 2): Path("a")}, {"(1, 2)": "a"}),
        ({Color.RED: [Model(inner=Inner(a=1))]}, {"red": [{"inner": {"a": 1}}]}),
        (SimpleNamespace(a={1}), "namespace(a={1})"),
    ],
)
async def test_a_function_gives_json(scripted: Options, value: Any, told: Any) -> None:
    give = cowork.tool(name="give", description="Gives.")(lambda: value)
    async with cowork.Session(**scripted({"call": {"give": {}}}, "done", tools=[give])) as session:
        ended = [e.record async for e in session.ask("go") if isinstance(e, ToolEnded)]
    assert [(e["text"], e["data"]["value"]) for e in ended] == [
        (told if isinstance(told, str) else json.dumps(told), told)
    ]


def test_a_parameter_without_a_schema_is_named_with_its_tool() -> None:
    def measure(when: Path) -> None: ...
    def grow(tree: Node) -> None: ...

    with pytest.raises(cowork.UserError, match=r"The tool measure: the parameter when: <class .* has no JSON"):
        cowork.tool(measure)
    with pytest.raises(cowork.UserError, match="The tool grow: the parameter tree: its type holds itself"):
        cowork.tool(grow)
