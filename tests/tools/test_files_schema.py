"""Arguments are checked exactly, forgiven where they can mean only one thing, and refused with every problem named."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cowork.core.errors import ToolError
from cowork.tools import json_schema
from cowork.tools.arguments import check, nearest
from cowork.tools.json_schema import schema_problems, validate
from tests.fakes.record_rules import problems

OPTION = {"type": "object", "properties": {"label": {"type": "string"}}, "required": ["label"]}
EDITS = {
    "type": "object",
    "properties": {
        "file_path": {"type": "string", "minLength": 1},
        "offset": {"type": "integer", "minimum": 1, "maximum": 9},
        "ratio": {"type": "number"},
        "replace_all": {"type": "boolean"},
        "mode": {"type": "string", "enum": ["count", "content"]},
        "edits": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"old": {"type": "string"}, "all": {"type": "boolean"}},
                "required": ["old"],
                "additionalProperties": False,
            },
        },
        "extra": {"type": "object"},
        "options": {"type": "array", "items": {"anyOf": [{"type": "string"}, OPTION]}},
    },
    "required": ["file_path"],
    "additionalProperties": False,
}


def refusal(args: object) -> str:
    with pytest.raises(ToolError) as caught:
        check(EDITS, args)
    assert caught.value.code == "INVALID_PARAM"
    return caught.value.text


@pytest.mark.parametrize(
    ("given_args", "taken"),
    [
        ({"offset": "5"}, {"offset": 5}),
        ({"offset": " 5 "}, {"offset": 5}),
        ({"offset": 5.0}, {"offset": 5}),
        ({"offset": "5.0"}, {"offset": 5}),
        ({"ratio": "-1.5"}, {"ratio": -1.5}),
        ({"replace_all": "true"}, {"replace_all": True}),
        ({"replace_all": "False"}, {"replace_all": False}),
        ({"offset": None, "edits": None}, {}),
        ({"edits": '[{"old": "a", "all": "true"}]'}, {"edits": [{"old": "a", "all": True}]}),
        ({"edits": [{"old": "a", "all": None}]}, {"edits": [{"old": "a"}]}),
        ({"edits": ['{"old": "a"}']}, {"edits": [{"old": "a"}]}),
        ({"extra": '{"a": 1}'}, {"extra": {"a": 1}}),
        ({"options": ["a", {"label": "b"}]}, {"options": ["a", {"label": "b"}]}),
    ],
)
def test_a_slip_that_can_mean_only_one_thing_is_taken(given_args: dict[str, Any], taken: dict[str, Any]) -> None:
    result = check(EDITS, {"file_path": "a"} | given_args)
    assert result == {"file_path": "a"} | taken
    assert [type(v) for v in result.values()] == [type(v) for v in ({"file_path": "a"} | taken).values()]


def test_whole_arguments_as_a_json_string_are_taken() -> None:
    assert check(EDITS, '{"file_path": "a", "offset": "3"}') == {"file_path": "a", "offset": 3}


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"offset": "five"}, '`offset` expected an integer, got the string "five"'),
        ({"offset": True}, "`offset` expected an integer, got the boolean true"),
        ({"offset": 2.5}, "`offset` expected an integer, got the number 2.5"),
        ({"offset": "1_0"}, '`offset` expected an integer, got the string "1_0"'),
        ({"offset": "9" * 5000}, "`offset` expected an integer"),
        ({"offset": 0}, "`offset` must be between 1 and 9, got 0"),
        ({"replace_all": 1}, "`replace_all` expected true or false, got the number 1"),
        ({"replace_all": "yes"}, '`replace_all` expected true or false, got the string "yes"'),
        ({"ratio": float("nan")}, "`ratio` expected a number"),
        ({"mode": "Count"}, '`mode` must be one of "count", "content"; got the string "Count"'),
        ({"edits": {"old": "a"}}, '`edits` expected an array, got the object {"old": "a"}'),
        ({"edits": "[oops"}, '`edits` expected an array, got the string "[oops"'),
        ({"edits": [{}]}, "missing field `edits[0].old`"),
        ({"edits": [{"old": 1}]}, "`edits[0].old` expected a string, got the number 1"),
        ({"options": [1]}, "`options[0]` expected a string, or expected an object"),
        ({"options": [{"label": 1}]}, "`options[0].label` expected a string, got the number 1"),
        ({"file_path": None}, "`file_path` expected a string, got null"),
        ({"file_path": ""}, "`file_path` must not be empty"),
        ({"filePath": "a"}, "unknown parameter `filePath` (did you mean `file_path`? allowed: file_path, offset"),
        ({"zzz": 1}, "unknown parameter `zzz` (allowed: file_path"),
    ],
)
def test_a_wrong_argument_is_named_with_what_came_and_what_is_allowed(bad: dict[str, Any], said: str) -> None:
    assert said in refusal({"file_path": "a"} | bad)


def test_one_missing_field_reads_exactly() -> None:
    assert refusal({}) == "Invalid input: missing field `file_path`"
    assert refusal(None) == "Invalid input: missing field `file_path`"


def test_all_problems_come_in_one_message() -> None:
    said = refusal({"offset": "x", "path": 1, "edits": [{"old": "a"}, {"old": None}]})
    assert said.count(";") == 3
    for part in ("missing field `file_path`", "`offset` expected", "unknown parameter `path`", "`edits[1].old`"):
        assert part in said


def test_arguments_that_are_no_object_are_refused() -> None:
    assert "expected an object, got an array of 0" in refusal([])
    assert "expected an object, got the string" in refusal("ls -l")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


def schema_of(value: Any) -> Any:
    """A schema that fits this value exactly as it is."""
    match value:
        case dict():
            return {
                "type": "object",
                "properties": {k: schema_of(v) for k, v in value.items()},
                "required": list(value),
                "additionalProperties": False,
            }
        case []:
            return {"type": "array", "maxItems": 0}
        case list():
            return {"type": "array", "items": [schema_of(v) for v in value], "additionalItems": False}
    return {"const": value}


@given(JSON)
def test_a_value_fits_its_own_schema_and_that_schema_is_sound(value: Any) -> None:
    schema = schema_of(value)
    assert schema_problems(schema) == []
    assert validate(schema, value) == []
    assert validate({"enum": [value]}, json.loads(json.dumps(value))) == []
    assert validate({"not": schema}, value) != []
    assert validate({"oneOf": [schema, schema]}, value) != []
    assert validate({"anyOf": [False, schema]}, value) == []


@given(JSON, JSON)
def test_const_is_json_equality(a: Any, b: Any) -> None:
    alike = json.dumps(_plain(a), sort_keys=True) == json.dumps(_plain(b), sort_keys=True)
    assert (validate({"const": a}, b) == []) == alike


def _plain(value: Any) -> Any:
    match value:
        case bool():
            return value
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_plain(v) for v in value]
        case dict():
            return {k: _plain(v) for k, v in value.items()}
    return value


@given(st.dictionaries(st.sampled_from([*EDITS["properties"], "nope"]), JSON, max_size=6))  # type: ignore[misc]
def test_what_check_takes_is_valid_to_the_letter_and_stays_so(args: dict[str, Any]) -> None:
    try:
        taken = check(EDITS, args)
    except ToolError:
        assert refusal(args).startswith("Invalid input: ")
        return
    assert validate(EDITS, taken) == []
    assert check(EDITS, taken) == taken


@given(JSON, JSON)
def test_no_schema_whatever_breaks_the_checker_of_schemas(schema: Any, value: Any) -> None:
    if schema_problems(schema) == []:
        validate(schema, value)


NODE = {
    "type": "object",
    "properties": {"name": {"type": "string", "pattern": "^[a-z]+$"}, "next": {"$ref": "#/definitions/node"}},
    "required": ["name"],
}
TREE = {"definitions": {"node": NODE}, "$ref": "#/definitions/node"}
NEWEST = "https://json-schema.org/draft/2020-12/schema"
OLDER = "http://json-schema.org/draft-07/schema#"


@pytest.mark.parametrize(
    ("schema", "value", "places"),
    [
        (TREE, {"name": "a", "next": {"name": "B"}}, ["$.next.name"]),
        (TREE, {"name": "a", "next": {}}, ["$.next"]),
        (TREE, {"name": "a", "next": {"name": "b"}}, []),
        ({"type": ["string", "null"]}, 1, ["$"]),
        ({"minItems": 1}, [], ["$"]),
        ({"uniqueItems": True}, [1, 1.0], ["$"]),
        ({"uniqueItems": True}, [1, True], []),
        ({"contains": {"const": 2}}, [1], ["$"]),
        ({"allOf": [{"minimum": 2}, {"maximum": 0}]}, 1, ["$", "$"]),
        ({"if": {"type": "string"}, "then": {"minLength": 1}, "else": {"const": 0}}, 1, ["$"]),
        ({"patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": False}, {"xa": 1, "y": 1}, ["$"]),
        ({"type": "integer"}, 5.0, []),
        ({"type": "integer"}, "5", ["$"]),
        ({"type": "string", "format": "date"}, "not a date", []),
        ({"anyOf": [{"type": "string"}, {"minimum": 2}]}, 1, ["$"]),
        ({"items": [{"type": "string"}], "additionalItems": False}, ["a", 1], ["$"]),
        ({"$schema": OLDER, "items": [{"type": "string"}]}, [1], ["$[0]"]),
        ({"$schema": NEWEST, "prefixItems": [{"type": "string"}], "items": False}, ["a", 1], ["$"]),
        ({"prefixItems": [{"type": "string"}]}, [1], ["$[0]"]),
        ({"properties": {"a": {}}, "unevaluatedProperties": False}, {"b": 1}, ["$"]),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, ["$"]),
        ({"$defs": {"n": {"type": "number"}}, "items": {"$ref": "#/$defs/n"}}, ["x"], ["$[0]"]),
    ],
)
def test_keywords_of_draft_07_and_of_2020_12_hold(schema: dict[str, Any], value: Any, places: list[str]) -> None:
    assert schema_problems(schema) == []
    assert [problem.partition(": ")[0] for problem in validate(schema, value)] == places


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"$ref": "#"}, 1),
        ({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, 1),
        ({"$ref": "#/nowhere"}, 1),
        ({"$ref": "http://127.0.0.1:1/x.json"}, 1),
        ({"pattern": "^(a+)+$"}, "a" * 60 + "b"),
        ({"patternProperties": {"(x*)*y": {"type": "string"}}}, {"x" * 60: 1}),
    ],
)
def test_a_hostile_schema_ends_with_a_problem(
    schema: dict[str, Any], value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_schema, "SECONDS", 1)
    (problem,) = validate(schema, value)
    assert problem.startswith("$: ")


@pytest.mark.parametrize("leaf", [{}, {"pattern": "a"}])
@pytest.mark.parametrize(("levels", "key"), [(600, "not"), (5_000, "not"), (5_000, "items")])
def test_a_schema_nested_without_end_is_refused(levels: int, key: str, leaf: dict[str, Any]) -> None:
    deep = leaf
    for _ in range(levels):
        deep = {key: deep}
    assert validate(deep, 1) == schema_problems(deep) == ["$: nested too deeply to check"]
    with pytest.raises(ToolError, match="nested too deeply to check"):
        check({"type": "object", "properties": {"a": deep}}, {"a": 1})


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "strnig"}, "$.type"),
        ({"properties": []}, "$.properties"),
        ({"required": "a"}, "$.required"),
        ({"properties": {"a": {"pattern": "("}}}, "$.properties.a.pattern: '(' is not a 'regex'"),
        ({"items": {"$ref": "#/definitions/x"}}, "$.items.$ref: #/definitions/x is not a definition"),
        ({"$ref": "https://example.org/x.json"}, "$.$ref"),
        ([], "$: [] is not of type"),
    ],
)
def test_a_broken_schema_is_told_where(schema: Any, said: str) -> None:
    assert any(problem.startswith(said) for problem in schema_problems(schema)), schema_problems(schema)


def test_arguments_of_a_foreign_tool_are_held_to_all_its_schema_says() -> None:
    foreign = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^x"}, "b": {"oneOf": [{}, False]}}}
    assert check(foreign, {"a": "xy", "b": 1}) == {"a": "xy", "b": 1}
    with pytest.raises(ToolError, match="does not match"):
        check(foreign, {"a": "y"})


def test_nearest_ignores_case_and_dashes() -> None:
    assert nearest("general_purpose", ["explore", "General-Purpose"]) == ["General-Purpose"]
    assert nearest("xyz", ["explore", "plan"]) == []


GOOD = {
    "status": "success",
    "data": {},
    "text": "done",
    "stats": {"time_ms": 3},
    "context": {"cwd": ".", "params_input": {}},
}


def test_a_sound_record_has_no_problems() -> None:
    assert problems(GOOD) == []
    assert problems(GOOD | {"status": "error", "error": {"code": "NOT_FOUND", "message": "gone"}}) == []


@pytest.mark.parametrize(
    "change",
    [
        {"status": "fine"},
        {"status": "error"},
        {"error": {"code": "NOT_FOUND", "message": "gone"}},
        {"status": "error", "error": {"code": "OOPS", "message": "gone"}},
        {"status": "error", "error": {"code": "NOT_FOUND", "message": ""}},
        {"status": "error", "error": "gone"},
        {"text": " \n"},
        {"data": []},
        {"data": {"x": {1, 2}}},
        {"data": {"x": float("nan")}},
        {"stats": {}},
        {"stats": {"time_ms": True}},
        {"context": {"cwd": "."}},
        {"context": {"params_input": {}}},
        {"more": 1},
    ],
)
def test_a_record_that_breaks_a_rule_is_caught(change: dict[str, Any]) -> None:
    assert len(problems(GOOD | change)) == 1
