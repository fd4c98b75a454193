"""Definitions in many languages, and the output of many test runners."""

from __future__ import annotations

import re

import pytest
from pygments.lexers import get_lexer_by_name

from cowork.providers.offline import project
from cowork.providers.offline.languages import (
    Line,
    body,
    definition,
    definition_pattern,
    first_words,
    outline_pattern,
)
from cowork.providers.offline.plans import fence


@pytest.mark.parametrize(
    ("path", "line", "kind", "name"),
    [
        ("a.py", "async def fetch(url):", "function", "fetch"),
        ("a.py", "    def fetch(self):", "method", "fetch"),
        ("a.py", "class Table(Base):", "class", "Table"),
        ("a.py", "LIMIT: int = 3", "variable", "LIMIT"),
        ("a.py", "        self.limit = limit", "attribute", "limit"),
        ("a.ts", "export async function load(a: string) {", "function", "load"),
        ("a.ts", "export interface Props {", "type", "Props"),
        ("a.ts", "export const load = async (x: number) => {", "function", "load"),
        ("a.js", "res.send = function send(body) {", "function", "send"),
        ("a.js", "  parse(argv, options) {", "method", "parse"),
        ("a.js", "const LIMIT = 3;", "variable", "LIMIT"),
        ("a.go", "func (c *Client) Do(req *Request) error {", "function", "Do"),
        ("a.go", "type Client struct {", "type", "Client"),
        ("a.rs", "pub(crate) async fn run(self) -> Result<()> {", "function", "run"),
        ("a.rs", "pub enum Shape {", "type", "Shape"),
        ("a.rs", "macro_rules! vecs {", "macro", "vecs"),
        ("a.c", "static int parse_line(const char *s)", "function", "parse_line"),
        ("a.h", "#define MAX_LINE 80", "macro", "MAX_LINE"),
        ("a.c", "struct node {", "type", "node"),
        ("A.java", "    public static void main(String[] args) {", "method", "main"),
        ("A.kt", "data class Point(val x: Int)", "class", "Point"),
        ("a.rb", "  def self.call(env)", "function", "call"),
        ("a.sh", "usage() {", "function", "usage"),
        ("Makefile", "test: check", "target", "test"),
        ("Makefile", "JOBS ?= auto", "variable", "JOBS"),
        ("a.sql", "CREATE TABLE IF NOT EXISTS orders (", "table", "orders"),
        ("a.toml", "max_depth = 3", "key", "max_depth"),
        ("a.yaml", "  image: python", "key", "image"),
        ("a.lua", "local function helper(x)", "function", "helper"),
        ("a.proto", "message Order {", "type", "Order"),
    ],
)
def test_a_definition_is_recognised_and_found_by_the_patterns_for_grep(
    path: str, line: str, kind: str, name: str
) -> None:
    found = definition(Line(path, 3, line), name)
    assert found is not None
    assert (found.kind, found.name, found.at) == (kind, name, f"{path}:3")
    assert re.search(definition_pattern(name), line)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("a.py", "    return fetch(url)"),
        ("a.py", "from x import fetch"),
        ("a.py", "if fetch == 3:"),
        ("a.js", "  fetch(url);"),
        ("a.js", "  if (fetch) {"),
        ("a.c", "  fetch(url);"),
        ("a.go", "\tfetch(url)"),
    ],
)
def test_a_use_is_no_definition(path: str, line: str) -> None:
    assert definition(Line(path, 1, line), "fetch") is None


def test_an_outline_finds_what_has_no_word_for_it() -> None:
    assert re.search(outline_pattern(), "View.prototype.lookup = function lookup(name) {")
    assert re.search(outline_pattern(), "int main(int argc, char **argv)")
    assert not re.search(outline_pattern(), "x = fetch(url)")


@pytest.mark.parametrize(
    "path", ["a.pyi", "a.h", "b.hpp", "a.mjs", "a.cts", "a.rs", "a.rake", "a.mk", "src/GNUmakefile"]
)
def test_code_is_shown_in_a_language_that_has_colours(path: str) -> None:
    assert get_lexer_by_name(fence("x", path).split("\n")[0].strip("`")).name != "Text only"


def test_the_body_of_a_definition_ends_where_it_ends() -> None:
    text = 'def add(\n    a,\n    b,\n):\n    """Sum."""\n\n    return a + b\n\n\ndef other():\n    pass\n'
    lines = dict(enumerate(text.splitlines(), 1))
    found = definition(Line("a.py", 1, lines[1]), "add")
    assert found
    assert len(body(lines, found)) == 7
    assert first_words(lines, found) == "Sum."
    script = dict(
        enumerate("/** Adds. */\nfunction add(a, b) {\n  return a + b\n}\nfunction other() {\n}".splitlines(), 1)
    )
    found = definition(Line("a.js", 2, script[2]), "add")
    assert found
    assert len(body(script, found)) == 3
    assert first_words(script, found) == "Adds."


PYTEST = """F.                                                                       [100%]
=================================== FAILURES ===================================
___________________________________ test_add ___________________________________

    def test_add():
>       assert add(1, 2) == 3
E       assert -1 == 3

test_calc.py:5: AssertionError
=========================== short test summary info ============================
FAILED test_calc.py::test_add - assert -1 == 3
1 failed, 1 passed in 0.01s

Exit code 1."""
UNITTEST = """.E
======================================================================
ERROR: test_guest (tests.test_refunds.Refunds.test_guest)
----------------------------------------------------------------------
Traceback (most recent call last):
  File "/w/tests/test_refunds.py", line 14, in test_guest
    refund(order)
  File "/w/shop/refunds.py", line 12, in receiver
    return USERS[order.user_id]
KeyError: None

----------------------------------------------------------------------
Ran 2 tests in 0.000s

FAILED (errors=1)

Exit code 1."""
GO = """--- FAIL: TestAdd (0.00s)
    calc_test.go:8: got -1, want 3
FAIL
Exit code 1."""
CARGO = """running 2 tests
test tests::adds ... FAILED
test tests::works ... ok

---- tests::adds stdout ----
thread 'tests::adds' panicked at src/lib.rs:12:9:
assertion `left == right` failed

test result: FAILED. 1 passed; 1 failed; 0 ignored
Exit code 101."""
JEST = """FAIL src/calc.test.js
  ● adds numbers

    expect(received).toBe(expected)

      at Object.<anonymous> (src/calc.test.js:4:18)

Tests:       1 failed, 1 passed, 2 total
Exit code 1."""


@pytest.mark.parametrize(
    ("output", "name", "at"),
    [
        (PYTEST, "test_calc.py::test_add", "test_calc.py:5"),
        (UNITTEST, "test_guest (tests.test_refunds.Refunds.test_guest)", "/w/shop/refunds.py:12"),
        (GO, "TestAdd", "calc_test.go:8"),
        (CARGO, "tests::adds", "src/lib.rs:12"),
        (JEST, "adds numbers", "src/calc.test.js:4"),
    ],
)
def test_a_failed_test_is_named_with_its_place(output: str, name: str, at: str) -> None:
    assert project.failed_tests(output) == [name]
    assert at in project.failure_places(output)
    said = project.report("the tests", output, failed=False)
    assert said.startswith("1 test failed")
    assert f"`{name}`" in said
    assert f"`{at}`" in said


def test_a_panic_without_a_message_gives_no_empty_reason() -> None:
    said = project.report("cargo test", "panicked at src/a.rs:3:5:\n\ntest foo ... FAILED\n", failed=True)
    assert "`foo`" in said
    assert "``" not in said


def test_a_run_that_cannot_be_read_is_not_called_a_success() -> None:
    said = project.report("make test", "make: *** No rule to make target 'test'.\n\nExit code 2.", failed=False)
    assert "exit code 2" in said
    assert "pass" not in said
    assert project.report("pytest", "3 passed in 0.1s", failed=False) == "All tests pass: 3 passed (`pytest`)."


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ("Ran 0 tests in 0.000s\n\nOK", "Ran 0 tests"),
        ("Ran 0 tests in 0.000s\n\nNO TESTS RAN\n\nExit code 5.", "Ran 0 tests"),
        ("no tests ran in 0.01s\n\nExit code 5.", "it found none"),
        ("5 skipped in 0.02s", "5 skipped"),
        ("3 deselected in 0.02s\n\nExit code 5.", "3 deselected"),
        ("?   \texample.org/x\t[no test files]", "it found none"),
        ("running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored", "test result: ok. 0 passed"),
        ("/usr/bin/python3: No module named pytest\n\nExit code 1.", "runner is missing (No module named pytest)"),
        ("bash: cargo: command not found\n\nExit code 127.", "runner is missing (bash: cargo: command not found)"),
        ("sh: 1: jest: not found\n\nExit code 127.", "runner is missing (sh: 1: jest: not found)"),
    ],
)
def test_a_run_of_no_tests_is_never_called_a_pass(output: str, why: str) -> None:
    said = project.report("the tests", output, failed=False)
    assert said.startswith("No tests ran: ")
    assert why in said.split("\n")[0]
    assert "All tests pass" not in said


def test_an_output_that_tells_no_number_is_not_called_a_pass() -> None:
    said = project.report("make test", "done", failed=False)
    assert "could not read how many tests ran" in said
    assert "All tests pass" not in said
    assert project.report("go test", "ok  \texample.org/x\t0.01s", failed=False) == "All tests pass (`go test`)."
