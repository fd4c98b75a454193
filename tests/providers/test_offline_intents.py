"""From plain words to what is wanted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cowork.providers.offline import words
from cowork.providers.offline.questions import Intent, intents, parse


@pytest.mark.parametrize(
    ("text", "kind", "subject"),
    [
        ("where is Console defined?", "where", "Console"),
        ("Where's `fold`?", "where", "fold"),
        ("please tell me where parse_script is", "where", "parse_script"),
        ("definition of HTTPServer", "where", "HTTPServer"),
        ("which class implements the LRU cache?", "describe", "the LRU cache"),
        ("where is the agent loop?", "describe", "the agent loop"),
        ("what calls fold?", "uses", "fold"),
        ("which files import asyncio?", "uses", "asyncio"),
        ("where is `Edit` used?", "uses", "Edit"),
        ("callers of main()", "uses", "main"),
        ("what is in this repo?", "outline", ""),
        ("give me an overview", "outline", ""),
        ("what does this project do?", "outline", ""),
        ("how do I run it?", "howto", "run it"),
        ("how can I build this?", "howto", "build this"),
        ("what is the entry point?", "manifest", "what is the entry point"),
        ("what are the dependencies?", "manifest", "what are the dependencies"),
        ("how many python files are there?", "count", "python files are there"),
        ("list the TODOs", "list", "list the TODOs"),
        ("show function parse_script", "show", "parse_script"),
        ("what does fold do?", "show", "fold"),
        ("explain cowork/engine/loop.py", "explain", "cowork/engine/loop.py"),
        ("read setup.py", "read", "setup.py"),
        ("list the classes in a/b.py", "list", "the classes in a/b.py"),
        ("search for 'connection reset'", "search", "connection reset"),
        ("what changed?", "changes", "what changed"),
        ("git status", "changes", "git status"),
        ("run the tests and say which failed", "tests", ""),
        ("do the tests pass?", "tests", ""),
        ("does this repo use asyncio?", "uses", "asyncio"),
        ("find all classes that inherit from Section", "uses", "Section"),
        ("what are the largest files?", "count", "lines"),
        ("which environment variables are read?", "list", "which environment variables are read"),
        ("which errors can prepare_url raise?", "show", "prepare_url"),
        ("what can Router.match throw?", "show", "Router.match"),
        ("which exceptions are raised by `connect`?", "where", "connect"),
        ("where are errors handled?", "describe", "errors handled"),
        ("which tests cover send_file?", "uses", "send_file"),
        ("where is cargo invoked to compile?", "describe", "cargo invoked to compile"),
        ("where does it decide whether to retry?", "describe", "decide whether to retry"),
        ("which code turns markdown into HTML?", "describe", "turns markdown into HTML"),
        ("show me the signature of fold", "show", "fold"),
        ("what arguments does fold take?", "show", "fold"),
        ("summarize the README", "explain", "README"),
        ("what's the difference between Edit and MultiEdit?", "unknown", ""),
        ("hello", "hello", ""),
        ("what can you do?", "hello", ""),
        ("write me a poem about cats", "unknown", ""),
        ("refactor the loop", "unknown", ""),
        ('replace "a - b" by "a + b" in calc.py', "unknown", ""),
        ("rename the function foo to bar in x.py", "unknown", ""),
        ('add the line "x = 1" to conf.py', "unknown", ""),
        ("create a file notes/a.txt with hello there", "unknown", ""),
    ],
)
def test_questions_are_understood(text: str, kind: str, subject: str) -> None:
    intent = parse(text)
    assert (intent.kind, intent.subject) == (kind, subject)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("list the TODOs", "todos"),
        ("which environment variables are read?", "variables"),
        ("what exceptions does this library define?", "errors"),
        ("what error classes are there?", "errors"),
        ("what command line flags are supported?", "options"),
        ("which commands does it have?", "commands"),
        ("list the classes in a/b.py", "classes"),
        ("list the functions", "functions"),
    ],
)
def test_what_is_to_be_listed_is_understood(text: str, hint: str) -> None:
    assert (parse(text).kind, parse(text).hint) == ("list", hint)


def test_a_method_is_looked_for_in_its_class() -> None:
    assert parse("where is the print method of Console?").subject == "Console.print"
    assert parse("where is Console.print?").subject == "Console.print"
    assert parse("where is `style` in `rich.text`?").subject == "rich.text.style"
    assert parse("where is `style` set from `--no-color`?").subject == "style"


def test_of_an_endless_word_only_the_start_is_read() -> None:
    assert [len(intent.subject) for intent in intents("x" * 3_000)] == [200]


def test_a_place_narrows_the_search() -> None:
    assert parse("where is foo_bar in src/app.py?").path == "src/app.py"
    assert parse("how many lines are in the docs folder?").path == "docs"


def test_it_is_what_was_asked_before() -> None:
    before = parse("where is parse_script defined?")
    assert parse("and where is it used?", before).subject == "parse_script"
    assert parse("who calls it?", before).kind == "uses"
    assert parse("show it", before).subject == "parse_script"
    assert parse("where is Table?", before).subject == "Table"
    assert parse("how many functions are there?", before).subject == "functions are there"
    assert parse("how many times is it called?", before).subject == "times is `parse_script` called"


def test_parts_become_questions_of_their_own() -> None:
    found = intents("where is `Agent`, where is fold_all and how do I run the tests?")
    assert [(i.kind, i.subject) for i in found] == [
        ("where", "Agent"),
        ("where", "fold_all"),
        ("howto", "run the tests"),
    ]
    found = intents("1. what is in this repo?\n2. how do I build it?\n3. list the TODOs")
    assert [i.kind for i in found] == ["outline", "howto", "list"]


def test_one_question_with_an_and_in_it_stays_one() -> None:
    assert len(intents("where are requests read and parsed?")) == 1
    assert len(intents("run the tests and say which failed")) == 1
    assert len(intents('replace "a and b" by "c; d" in x.py')) == 1


@pytest.mark.parametrize(
    ("word", "root"),
    [
        ("parsing", "pars"),
        ("parsed", "pars"),
        ("parser", "pars"),
        ("retries", "retr"),
        ("connections", "connect"),
        ("string", "string"),
        ("loop", "loop"),
        ("running", "run"),
    ],
)
def test_relatives_share_a_stem(word: str, root: str) -> None:
    assert words.stem(word) == root


def test_names_are_told_from_words_and_files() -> None:
    assert words.names("where is parse_HTTP and Console.print, not setup.py or the CLI") == [
        "parse_HTTP",
        "Console.print",
        "CLI",
    ]
    assert words.files("see src/app.py, Makefile and v1.2") == ["src/app.py", "Makefile"]
    assert words.parts("parse_HTTPHeader2") == ["parse", "http", "header", "2"]


@given(st.text(max_size=200))
def test_any_text_means_something(text: str) -> None:
    found = intents(text, Intent("where", "before"))
    assert found
    assert all(intent.kind for intent in found)


@pytest.mark.parametrize(
    ("asked", "second"),
    [
        ("where is the LRU cache implemented and how does it evict?", "how does the LRU cache evict"),
        ("how does login work, and how is it tested?", "how is login tested"),
    ],
)
def test_it_stands_for_what_the_part_before_was_about(asked: str, second: str) -> None:
    assert [intent.subject for intent in intents(asked)][1:] == [second]
