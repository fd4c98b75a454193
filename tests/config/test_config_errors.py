"""Every mistake is named with file, line, key and what is allowed; hostile files do no harm."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cowork.config import files
from cowork.core.errors import UserError

FILE = "~/.config/cowork/config.toml"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "[agent.subagent]\n\nmax_depth = 12\n",
            f"config: {FILE}:3 agent.subagent.max_depth cannot exceed 10 (stack overflow risk), it is 12",
            "Allowed: a whole number from 1 to 10.",
        ),
        (
            "[agent.subagent]\nmax_depth = 0",
            f"config: {FILE}:2 agent.subagent.max_depth must be greater than 0, it is 0",
            "Allowed: a whole number from 1 to 10.",
        ),
        (
            "agent.subagent.default_max_turns = 101",
            f"config: {FILE}:1 agent.subagent.default_max_turns cannot exceed 100, it is 101",
            "Allowed: a whole number from 1 to 100.",
        ),
        (
            "agent = {subagent = {output_max_size = 100}}",
            f"config: {FILE}:1 agent.subagent.output_max_size must be at least 1024 bytes, it is 100",
            "Allowed: a whole number of at least 1,024, or 0 (10,000 characters).",
        ),
        (
            "[sandbox]\nmode = 'maybe'",
            f'config: {FILE}:2 sandbox.mode must be one of auto, required, off, it is "maybe"',
            "Allowed: one of auto, required, off.",
        ),
        (
            "[permissions]\nmode = 'yolo'",
            f'config: {FILE}:2 permissions.mode must be one of ask, accept-edits, auto, plan, bypass, it is "yolo"',
            "Allowed: one of ask, accept-edits, auto, plan, bypass.",
        ),
        (
            "[limits]\nmax_turns = true",
            f"config: {FILE}:2 limits.max_turns must be a whole number, it is true",
            "Allowed: a whole number of at least 1, or 0 (no limit).",
        ),
        (
            "[limits]\nmax_turns = 1.5",
            f"config: {FILE}:2 limits.max_turns must be a whole number, it is 1.5",
            "Allowed: a whole number of at least 1, or 0 (no limit).",
        ),
        (
            "limits.max_cost_usd = nan",
            f"config: {FILE}:1 limits.max_cost_usd must be a finite number, it is nan",
            "Allowed: a number of at least 1e-06, or 0 (no limit).",
        ),
        (
            "[permissions]\nallow = [\n  'Edit',\n  3,\n]",
            f'config: {FILE}:2 permissions.allow must be a list of text, it is ["Edit", 3]',
            "Allowed: a list of text.",
        ),
        (
            "[agent.subagent]\nmax_dept = 2",
            f"config: {FILE}:2 unknown key agent.subagent.max_dept",
            "Did you mean agent.subagent.max_depth?",
        ),
        ("max_depth = 2", f"config: {FILE}:1 unknown key max_depth", "Did you mean agent.subagent.max_depth?"),
        ("\n[model.main]\nmodel = 'x'", f"config: {FILE}:2 unknown key model", "Did you mean models?"),
        ("[permission]\nmode = 'ask'", f"config: {FILE}:1 unknown key permission", "Did you mean permissions?"),
        ("ui = 3", f"config: {FILE}:1 ui must be a table", "Write it as [ui]."),
        ("mcp.servers = 3", f"config: {FILE}:1 mcp.servers must be a table", files._SERVERS),
        ("pricing = 3", f"config: {FILE}:1 pricing must be a table", files._PRICING),
        ("pricing.m = 3", f'config: {FILE}:1 pricing."m" must be a table', files._PRICING),
        (
            "[models.main]\napi_key = 'sk-ant-oops'",
            f"config: {FILE}:2 unknown key models.main.api_key",
            "Did you mean models.main.api_key_env?",
        ),
        (
            "[models.main]\napi_key_env = 'sk-ant-oops'",
            f"config: {FILE}:2 models.main.api_key_env must be the name of an environment variable, not the key itself",
            "Allowed: the name of an environment variable, not the key itself.",
        ),
        (
            "[models.main]\nbase_url = 'localhost:1234'",
            f"config: {FILE}:2 models.main.base_url must be an http:// or https:// address",
            "Allowed: an http:// or https:// address.",
        ),
        (
            "[models.main]\nthinking = 12",
            f"config: {FILE}:2 models.main.thinking must be off, low, medium, high or a number of tokens from 1,024, "
            "it is 12",
            "Allowed: off, low, medium, high or a number of tokens.",
        ),
        (
            "[pricing.x]\ninput = -1",
            f'config: {FILE}:2 pricing."x".input must be a price of 0 or more',
            'Write [pricing."model-name"] with input, output, cache_read, cache_write in USD per million tokens.',
        ),
        (
            '[pricing."a.b"]\nimput = 1',
            f'config: {FILE}:2 unknown key pricing."a.b".imput',
            "Allowed: input, output, cache_read, cache_write.",
        ),
        ("a = 1\nb = \n", f"config: {FILE}:2 invalid value", "The file is not valid TOML."),
        (
            "[ui]\ntheme='dark'\ntheme='light'\n",
            f"config: {FILE}:3 cannot overwrite a value",
            "The file is not valid TOML.",
        ),
        ("[ui]\n[ui]\n", f"config: {FILE}:2 cannot declare ('ui',) twice", "The file is not valid TOML."),
    ],
)
def test_a_mistake_is_named_with_its_line(place: Any, text: str, message: str, hint: str) -> None:
    place.user(text)
    with pytest.raises(UserError) as caught:
        place.load()
    assert (caught.value.message, caught.value.hint) == (message, hint)
    assert caught.value.exit_code == 2
    assert "oops" not in message + hint


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 100_000,
        "a = " + "{a=" * 20_000,
        "limits.max_turns = " + "9" * 5_000,
        "." * 1000,
        "a" + ".a" * 60_000 + " = 1",
        "x" * 300_000,
        '"""' * 50_000,
        "permissions.deny = ['''" + "'" * 100_000,
        "\x00",
        "[[ui]]\ntheme = 'dark'\n",
    ],
    ids=["brackets", "tables", "digits", "dots", "dotted", "large", "quotes", "unclosed", "nul", "array-of-tables"],
)
def test_a_hostile_file_is_refused_quickly(place: Any, text: str) -> None:
    place.user(text)
    started = time.process_time()
    with pytest.raises(UserError) as caught:
        place.load()
    assert time.process_time() - started < 5
    assert len(caught.value.message) < 400


def test_a_pipe_in_the_place_of_the_file_does_not_block(place: Any) -> None:
    os.mkfifo(place.user_file)
    with pytest.raises(UserError, match="not a plain file"):
        place.load()


def test_a_folder_in_the_place_of_the_file_is_refused(place: Any) -> None:
    place.user_file.mkdir()
    with pytest.raises(UserError, match="Is a directory"):
        place.load()


def test_a_byte_order_mark_and_windows_line_ends_are_fine(place: Any) -> None:
    place.user_file.write_bytes(b"\xef\xbb\xbf# mine\r\n[ui]\r\ntheme = 'dark'\r\nkeys = 'vi'\r\n")
    config = place.load()
    assert (config.ui.theme, config.ui.keys, config.origin("ui.keys")) == ("dark", "vi", f"{FILE}:4")


def test_text_that_is_not_utf_8_names_its_line(place: Any) -> None:
    place.user_file.write_bytes(b"[ui]\n\n# caf\xe9\n")
    with pytest.raises(UserError, match=r"config\.toml:3 is not UTF-8"):
        place.load()


def test_lines_are_found_through_everything_toml_has() -> None:
    text = '''# top
a.b = 1   # one
"quoted key" = [ # not = a key
  "x = 1", 'y',
  { z = 3 },
]
multi = """
fake = 1
[fake]
\\""" still
"""
literal = \'\'\'
# no
fake = 2\'\'\'
[table . "dotted.name" . 'lit']
c = { d = 1, e = "}" }
[[many]]
f = "[#"
[[many]]
f = "\\u0041"
"\\u0041" = 1
'''
    assert files.lines_of(text) == {
        ("a",): 2,
        ("a", "b"): 2,
        ("quoted key",): 3,
        ("multi",): 7,
        ("literal",): 12,
        ("table",): 15,
        ("table", "dotted.name"): 15,
        ("table", "dotted.name", "lit"): 15,
        ("table", "dotted.name", "lit", "c"): 16,
        ("many",): 17,
        ("many", "f"): 18,
        ("many", "A"): 21,
    }


@given(st.text(alphabet="ab.=[]{}\"'#\n\\ ,1", max_size=60))
def test_finding_lines_ends_on_any_text(text: str) -> None:
    found = files.lines_of(text)
    assert all(1 <= line <= text.count("\n") + 1 for line in found.values())


_NAMES = st.lists(st.sampled_from(["a", "b-c", "d_1", '"e f"', "'g.h'"]), min_size=1, max_size=3, unique=True)
_VALUES = st.sampled_from(["1", '"x # y"', "[1,\n 2, # c\n]", "'''\nk = 1\n'''", '"""a\n\\"""b"""', "{ q = '}' }"])


@given(st.lists(st.tuples(_NAMES, _VALUES), max_size=8, unique_by=lambda pair: pair[0][0]))
def test_the_line_of_a_key_is_where_it_was_written(entries: list[tuple[list[str], str]]) -> None:
    text, expected = "", {}
    for names, value in entries:
        path = tuple(name.strip("\"'") for name in names)
        expected |= {path[: n + 1]: text.count("\n") + 1 for n in range(len(path))}
        text += f"{' . '.join(names)} = {value}\n\n"
    assert files.lines_of(text) == expected
    files.parse(text, "t")
