"""A class that is finished late behaves like one that was finished at once."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from dataclasses import field

import pytest

from cowork.core.frozen import frozen


@frozen
class Base:
    _: dataclasses.KW_ONLY
    id: int = 0


@frozen
class Point(Base):
    x: int
    tags: tuple[str, ...] = ()
    seen: list[int] = field(default_factory=list)


def test_positional_keyword_and_inherited_fields() -> None:
    point = Point(1, ("a",), id=7)
    assert (point.x, point.tags, point.seen, point.id) == (1, ("a",), [], 7)
    assert repr(point) == "Point(id=7, x=1, tags=('a',), seen=[])"


def test_equal_by_value_replaceable_and_not_changeable() -> None:
    assert Point(1) == Point(1)
    assert Point(1) != Point(2)
    assert dataclasses.replace(Point(1), x=3) == Point(3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Point(1).x = 2  # type: ignore[misc]


def test_patterns_see_the_fields_in_order() -> None:
    match Point(5):
        case Point(x, tags):
            assert (x, tags) == (5, ())


def test_each_instance_gets_its_own_default() -> None:
    one, other = Point(1), Point(1)
    one.seen.append(1)
    assert other.seen == []


def test_wrong_arguments_are_refused_from_the_first_instance_on() -> None:
    @frozen
    class Pair:
        a: int
        b: int

    with pytest.raises(TypeError, match="missing 1 required positional argument: 'b'"):
        Pair(1)  # type: ignore[call-arg]
    assert Pair(1, 2).b == 2


def test_importing_the_events_finishes_none_of_them() -> None:
    code = "import cowork.core.events as e; print(sum('__dataclass_fields__' in c.__dict__ for c in e.EVENTS.values()))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "0\n"
