"""PanelSelection from a list: what typing finds, what keys do, previews that come when they are looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cowork.frontends.host import Choose, Command, CommandResult, Draft, FileChange, PromptResult, Row
from cowork.frontends.repl.input.picker import Picker, Picking, match_rows, picker_lines
from cowork.frontends.repl.turns import Turns
from cowork.frontends.repl.view.scene import Scene
from cowork.frontends.styled import Theme, line_width, plain
from cowork.tools.base import short_glob, short_pattern
from tests.fakes.repl_host import FakeHost

ROWS = [
    Row("a1", "fix the login", "2 h ago · $0.02"),
    Row("b2", "why do refunds fail?", "1 d ago · $1.20"),
    Row("c3", "login page colours", "3 d ago · $0.10"),
]


async def nothing(row: Row) -> CommandResult:
    return None


def of(rows: Sequence[Row] = ROWS, start: int = 0) -> Choose:
    return Choose("Which?", rows, nothing, start)


async def pick(keys: list[str], choose: Choose | None = None) -> Row | None:
    picker = Picker(lambda: None)
    waiting = asyncio.ensure_future(picker.choose(choose or of()))
    await asyncio.sleep(0)
    acts = {"enter": Picking.enter, "esc": Picking.escape, "back": lambda p: p.narrow(p.query[:-1]),
            "clear": lambda p: p.narrow(""), "page": lambda p: p.move(1, page=True),
            "down": lambda p: p.move(1), "up": lambda p: p.move(-1)}  # fmt: skip
    for key in keys:
        picker.act(acts.get(key) or (lambda p, key=key: p.narrow(p.query + key)))
    row = await asyncio.wait_for(waiting, 60)
    assert picker.current is None
    return row


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (["enter"], "a1"),
        (["down", "enter"], "b2"),
        (["up", "enter"], "c3"),
        (["down", "down", "down", "enter"], "a1"),
        (["page", "enter"], "c3"),
        (["refunds", "enter"], "b2"),
        (["login", "enter"], "c3"),  # what starts with it comes first
        (["1.20", "enter"], "b2"),
        (["c3", "enter"], "c3"),
        (["lg pg", "enter"], "c3"),
        (["zzz", "enter", "back", "back", "back", "enter"], "a1"),
        (["down", "x", "clear", "enter"], "a1"),
        (["login", "esc", "enter"], "c3"),  # the row found stays chosen when the search is taken back
    ],
)
async def test_keys_lead_to_a_row(keys: list[str], value: str) -> None:
    row = await pick(keys)
    assert row is not None
    assert row.value == value


async def test_escape_leaves_without_a_choice() -> None:
    assert await pick(["esc"]) is None
    assert await pick(["log", "esc", "esc"]) is None


async def test_the_cursor_starts_where_the_list_says() -> None:
    row = await pick(["enter"], of(start=2))
    assert row is not None
    assert row.value == "c3"


async def test_a_preview_is_found_when_its_row_is_looked_at_and_only_once() -> None:
    asked: list[str] = []

    def found(value: str) -> Callable[[], Awaitable[str]]:
        async def find() -> str:
            asked.append(value)
            if value == "two":
                raise OSError("it is gone")
            return f"about {value}"

        return find

    drawn = asyncio.Event()
    picker = Picker(drawn.set)
    rows = [Row(v, v, preview=found(v)) for v in ("one", "two", "three")]
    waiting = asyncio.ensure_future(picker.choose(of(rows)))

    async def shows(text: str) -> None:
        async with asyncio.timeout(2):
            while True:
                drawn.clear()
                if picker.current and text in screen(picker.current):
                    return
                await drawn.wait()

    await shows("about one")
    picker.act(lambda p: p.move(1))
    await shows("No preview: it is gone")
    picker.act(lambda p: p.move(-1))
    await shows("about one")
    assert asked == ["one", "two"]
    picker.leave()
    assert await waiting is None


async def test_a_second_list_waits_for_the_first() -> None:
    picker = Picker(lambda: None)
    first = asyncio.ensure_future(picker.choose(of()))
    second = asyncio.ensure_future(picker.choose(of(ROWS[1:])))
    await asyncio.sleep(0)
    picker.act(Picking.enter)
    row = await first
    assert row is not None
    assert row.value == "a1"
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    picker.act(Picking.enter)
    row = await second
    assert row is not None
    assert row.value == "b2"


@settings(deadline=None)
@given(st.lists(st.text(max_size=12), max_size=8), st.text(max_size=6))
def test_typing_only_narrows_and_never_invents(labels: list[str], query: str) -> None:
    rows = [Row(str(n), label) for n, label in enumerate(labels)]
    found = match_rows(rows, query)
    assert set(found) <= set(rows)
    assert len(set(found)) == len(found)
    assert set(match_rows(rows, query + "a")) <= set(found) or not query.strip()
    assert all(row in match_rows(rows, row.label) for row in rows)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.text(max_size=40), st.text(max_size=60), st.text(max_size=200)), min_size=1, max_size=15),
    st.text(max_size=5), st.integers(20, 130), st.integers(1, 40), st.integers(0, 20),
)  # fmt: skip
def test_the_box_keeps_to_its_room(
    parts: list[tuple[str, str, str]], query: str, columns: int, rows: int, index: int
) -> None:
    listed = [Row(str(n), *part) for n, part in enumerate(parts)]
    loop = asyncio.new_event_loop()
    picking = Picking(of(listed), loop.create_future(), index, query)
    lines = picker_lines(picking, columns, rows, Theme())
    loop.close()
    assert len(lines) <= rows
    assert all(line_width(line) <= columns for line in lines)
    assert not any(ord(char) < 32 for line in lines for char in plain(line))


@pytest.mark.parametrize(("rows", "last"), [(40, "… 22 more lines"), (10, "… 26 more lines")])
async def test_a_preview_that_is_cut_says_so(rows: int, last: str) -> None:
    long = Row("a", "a", preview="\n".join(f"- file {n}" for n in range(30)))
    lines = picker_lines(Picking(of([long]), asyncio.get_running_loop().create_future()), 60, rows, Theme())
    shown = [plain(line) for line in lines if "file" in plain(line) or "more" in plain(line)]
    assert last in shown[-1]
    assert len(shown) - 1 + int(last.split()[1]) == 30


class Stage:
    """Turns over commands that let the person choose; `answers` are the values chosen, None for Esc."""

    def __init__(self, command: Command, answers: list[str | None]) -> None:
        self.host = FakeHost({})
        self.host.commands = lambda: (command,)  # type: ignore[method-assign]
        self.scene = Scene()
        self.given_back: list[str] = []
        self.seconds: list[float] = []
        self.answers = answers
        self.turns = Turns(self.host, self.scene, tuple, self.seconds.append, self.given_back.append, self.choose)

    async def choose(self, choose: Choose) -> Row | None:
        value = self.answers.pop(0)
        return next((row for row in choose.rows if row.value == value), None)

    async def said(self, text: str) -> str:
        self.turns.send(text)
        await self.turns.idle()
        return "\n".join(plain(line) for line in self.scene.take(80, Theme()))


def twice(last: CommandResult) -> Callable[[str], Awaitable[CommandResult]]:
    """A command that asks two things and then gives `last`."""

    async def end(row: Row) -> CommandResult:
        return last

    async def then(row: Row) -> CommandResult:
        return Choose("And?", [Row("y", f"{row.value}, yes")], end)

    async def run(rest: str) -> CommandResult:
        return Choose("Which?", ROWS, then)

    return run


async def test_a_command_may_ask_twice_and_then_tells() -> None:
    stage = Stage(Command("go", "", twice("It is **done**."), resets=True), ["b2", "y"])
    assert "It is done." in await stage.said("/go")


async def test_leaving_a_list_does_nothing_and_says_nothing() -> None:
    stage = Stage(Command("go", "", twice("done")), ["b2", None])
    assert (await stage.said("/go")).strip() == "❯ /go"


async def test_a_draft_goes_into_the_input() -> None:
    stage = Stage(Command("go", "", twice(Draft("the old prompt", "went back"))), ["a1", "y"])
    assert "went back" in await stage.said("/go")
    assert stage.given_back == ["the old prompt"]


async def test_a_command_that_sends_a_prompt_is_shown_once() -> None:
    async def run(rest: str) -> CommandResult:
        return PromptResult("Explore this repository.", label="/go")

    stage = Stage(Command("go", "", run, sends=True), [])
    stage.host.emit_to = stage.scene.apply
    assert (await stage.said("/go")).count("❯ /go") == 1
    assert stage.host.said == ["Explore this repository."]


async def test_changes_are_shown_as_diffs() -> None:
    diff = "--- a/x\n+++ b/x\n@@ -1,1 +1,1 @@\n-old\n+new"
    stage = Stage(Command("go", "", twice([FileChange("x", diff, "+1 −1")])), ["a1", "y"])
    told = await stage.said("/go")
    assert "● x · +1 −1" in told
    assert "1 │-old" in told
    assert "1 │+new" in told


@pytest.mark.parametrize(
    ("pattern", "shown"),
    [
        ("Picker", "Picker"),
        (r"def login\(", r"def login\("),
        (r"(?:^|[^\w])wrap(?:[^\w]|$)", "…wrap…"),
        (r"(?:^|[^\w$])rewind_points(?:[^\w$]|$)", "…rewind_points…"),
        (r"(?:^|[^\w])(?:def|class|function|fn|struct)\b[^=;]*[^\w$]Picker(?:[^\w]|$)", "…def|class|…Picker…"),
        (r"^\s*(?:\"\"\"|'''|///?!?|#+|--)\s?.*(?:pick)", "…pick…"),
        ("(((((((((((((((((((((((((((((((((((((", "((((((((((((((((((((((((((((((((((((("),
    ],
)
def test_a_long_pattern_is_shown_by_its_words(pattern: str, shown: str) -> None:
    assert short_pattern(pattern) == shown


@pytest.mark.parametrize(
    ("glob", "shown"),
    [("*.{c,h,cc,cpp,java}", "*.{c,h,cc,…}"), ("*.{ts,tsx,js,jsx}", "*.{ts,tsx,js,jsx}"), ("**/*.py", "**/*.py")],
)
def test_a_long_list_in_a_glob_is_cut(glob: str, shown: str) -> None:
    assert short_glob(glob) == shown


@settings(deadline=None)
@given(st.text(st.sampled_from(r"ab|()[]{}\?*+.^$:<=!2,"), min_size=25, max_size=200))
def test_any_pattern_can_be_shortened(pattern: str) -> None:
    assert short_pattern(pattern)


def screen(picking: Picking) -> str:
    return "\n".join(plain(line) for line in picker_lines(picking, 60, 20, Theme()))
