"""The quick parser and typer read the same words the same way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.main import get_command

from cowork.cli import quick_parser
from cowork.cli.typer_app import app
from cowork.cli.typer_help import given_values, run_options
from cowork.config.run_options import RunOptions, options_of

_GROUP: Any = get_command(app)


def by_typer(argv: list[str]) -> tuple[str, str | None, RunOptions]:
    """What typer makes of a command line."""
    run = argv[:1] == ["run"]
    command = _GROUP.commands["run"] if run else _GROUP
    context = command.make_context("x", argv[1:] if run else list(argv), resilient_parsing=False)
    params = dict(context.params)
    prompt = params.pop("prompt", None)
    kinds = {name: kind for name, kind, *_ in options_of(chat=False)}
    given = given_values({name: value for name, value in params.items() if name in kinds})
    # typer makes a Path of the text only when it calls the command
    given = {name: Path(value) if kinds[name] == "Path | None" else value for name, value in given.items()}
    return "run" if run else "chat", prompt, run_options(given)


def _values(kind: str, choices: tuple[str, ...]) -> st.SearchStrategy[str]:
    if choices:
        return st.sampled_from([*choices, "wrong", ""])
    if kind in ("int | None", "float | None"):
        return st.sampled_from(["3", "-3", "0.5", "1_000", "x", "", " 7 ", "1e3", "٣", "inf"])
    return st.sampled_from(["a", "a b", "-", "--", "--output", "=", "a=b", "", "é", "\udcff", "/tmp/x", "~"])


@st.composite
def _words(draw: st.DrawFn, *, chat: bool) -> list[str]:
    _, kind, _, option = draw(st.sampled_from(options_of(chat=chat)))
    flag = draw(st.sampled_from(option.flags))
    if kind == "bool":
        return [flag]
    value = draw(_values(kind, option.choices))
    return [f"{flag}={value}"] if draw(st.booleans()) else [flag, value]


_PROMPTS = st.sampled_from(
    [[], ["fix it"], ["-"], ["--", "-x"], ["a", "b"], [""], ["-qc"], ["--nope"], ["-m"], ["-mx"]]
)


@st.composite
def _argv(draw: st.DrawFn) -> list[str]:
    chat = draw(st.booleans())
    parts = draw(st.lists(_words(chat=chat), max_size=5))
    if not chat:
        parts.insert(draw(st.integers(0, len(parts))), draw(_PROMPTS))
    return ([] if chat else ["run"]) + [word for part in parts for word in part]


@given(_argv())
def test_what_the_quick_parser_takes_typer_takes_alike(argv: list[str]) -> None:
    plain = quick_parser.parse(argv)
    if plain is not None:
        assert plain == by_typer(argv)


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["run", "fix it"],
        ["run", "-"],
        ["run"],
        ["-c"],
        ["run", "--output", "json", "--max-turns=3", "x", "--allow", "Edit", "--allow=Bash(ls:*)", "-q"],
        ["--model", "light", "--permission-mode", "plan"],
    ],
)
def test_ordinary_command_lines_are_plain(argv: list[str]) -> None:
    assert quick_parser.parse(argv) == by_typer(argv)


def test_the_words_that_are_commands_are_those_typer_knows() -> None:
    assert set(quick_parser.COMMANDS) == set(_GROUP.commands)


@pytest.mark.parametrize(
    ("argv", "prompt", "model"),
    [
        (["fix the bug"], "fix the bug", ""),
        (["hello"], "hello", ""),
        (["--model", "light", "config show"], "config show", "light"),
        (["why?", "-m", "x"], "why?", "x"),
    ],
    ids=str,
)
def test_a_prompt_without_a_command_opens_the_chat_with_it(argv: list[str], prompt: str, model: str) -> None:
    assert quick_parser.parse(argv) == ("chat", prompt, RunOptions(model=model))


@pytest.mark.parametrize(
    ("argv", "same"),
    [
        (["-p", "fix it"], ["run", "fix it"]),
        (["--print", "fix it", "--output", "json"], ["run", "fix it", "--output", "json"]),
        (["--model", "light", "-p", "fix it"], ["run", "--model", "light", "fix it"]),
        (["fix it", "-p"], ["run", "fix it"]),
        (["-p"], ["run"]),
        (["tools", "-p"], ["tools", "-p"]),
        (["run", "--", "-p"], ["run", "--", "-p"]),
    ],
    ids=str,
)
def test_p_is_another_way_to_say_run(argv: list[str], same: list[str]) -> None:
    assert quick_parser.spell_out(argv) == same


@pytest.mark.parametrize(
    "argv",
    [
        ["--help"],
        ["fix", "it"],
        ["confg"],
        ["sessions"],
        ["run", "--help"],
        ["config", "show"],
        ["run", "--nope"],
        ["run", "--output", "xml", "x"],
        ["run", "--max-turns", "many", "x"],
        ["run", "--model"],
        ["run", "a", "b"],
        ["run", "--", "x"],
        ["run", "-qc", "x"],
        ["run", "--outp", "json", "x"],
        ["--output", "json"],
        ["--quiet=yes"],
    ],
)
def test_anything_else_is_left_to_typer(argv: list[str]) -> None:
    assert quick_parser.parse(argv) is None


@pytest.mark.parametrize(
    ("argv", "output"),
    [
        (["run", "--output", "json", "--nope"], "json"),
        (["run", "--nope", "--output=stream-json"], "stream-json"),
        (["run", "-o", "json", "a", "b"], "json"),
        (["run", "-ojson", "--max-turns"], "json"),
        (["run", "-qo", "json", "--nope"], "json"),
        (["--cwd", "x", "run", "--output", "json"], "json"),
        (["run", "--output", "json", "--output", "text", "--nope"], "text"),
        (["run", "--output", "xml"], "text"),
        (["run", "--output"], "text"),
        (["run", "--", "--output", "json"], "text"),
        (["tools", "--output", "json"], "text"),
        ([], "text"),
    ],
    ids=str,
)
def test_the_output_is_known_even_where_the_rest_is_wrong(argv: list[str], output: str) -> None:
    assert quick_parser.output_of(argv) == output
