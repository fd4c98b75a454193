"""Edit, MultiEdit and Write: nothing without a look first, nothing lost, and every refusal says the way on."""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cowork.core.errors import ToolError
from cowork.core.ports import Effect
from cowork.core.workspace import Workspace
from cowork.tools.base import AgentState, Tool, TreeState
from cowork.tools.files.edit import edit, multi_edit, write
from cowork.tools.files.match import MAX_CARRIED, find, replace
from cowork.tools.files.read import read
from tests.tools.conftest import Agent


async def seen(agent: Agent, name: str, content: str | bytes) -> Path:
    """A file of the workspace that the agent has read."""
    path = agent.workspace.root / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    record = await agent.call(read, file_path=name)
    assert record.status in ("success", "partial")
    return path


async def test_an_edit_gives_its_diff_and_counts(agent: Agent) -> None:
    path = await seen(agent, "a.py", "one\ntwo\nthree\n")
    record = await agent.call(edit, file_path="a.py", old_string="two", new_string="2\n2b")
    assert path.read_text() == "one\n2\n2b\nthree\n"
    assert record.text == "Edited a.py (line 2): +2 −1."
    diff = "--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,4 @@\n one\n-two\n+2\n+2b\n three\n"
    assert record.data == {"path": "a.py", "diff": diff, "added": 2, "removed": 1, "replacements": 1}
    assert record.display == {
        "kind": "diff",
        "path": "a.py",
        "diff": diff,
        "added": 2,
        "removed": 1,
        "summary": "+2 −1",
    }


async def test_an_edit_without_a_read_is_a_conflict_that_says_so(agent: Agent, folder: Path) -> None:
    (folder / "a.py").write_text("one\n")
    for tool, args in ((edit, {"old_string": "one", "new_string": "two"}), (write, {"content": "two"})):
        record = await agent.call(tool, file_path="a.py", **args)
        assert record.error is not None
        assert record.error["code"] == "CONFLICT"
        assert "Read it first" in record.text
    assert (folder / "a.py").read_text() == "one\n"


async def test_edits_follow_each_other_without_reading_again(agent: Agent) -> None:
    path = await seen(agent, "a.py", "one\n")
    for old, new in (("one", "two"), ("two", "three")):
        assert (await agent.call(edit, file_path="a.py", old_string=old, new_string=new)).status == "success"
    assert (await agent.call(write, file_path="a.py", content="four\n")).status == "success"
    assert path.read_text() == "four\n"


async def test_a_change_by_another_program_is_shown(agent: Agent) -> None:
    path = await seen(agent, "a.py", "one\ntwo\n")
    path.write_text("one\nTWO\n")
    record = await agent.call(edit, file_path="a.py", old_string="one", new_string="1")
    assert record.error is not None
    assert record.error["code"] == "CONFLICT"
    assert "by a command or another program" in record.text
    assert "-two\n+TWO" in record.text
    assert "Read it again" in record.text
    assert path.read_text() == "one\nTWO\n"


async def test_a_change_by_a_child_names_the_child(agents: Callable[[str], Agent]) -> None:
    main, child = agents("main"), agents("main/fixer-1")
    path = await seen(main, "a.py", "one\ntwo\n")
    await seen(child, "a.py", "one\ntwo\n")
    assert (await child.call(edit, file_path="a.py", old_string="two", new_string="2")).status == "success"

    record = await main.call(write, file_path="a.py", content="mine\n")

    assert record.error is not None
    assert record.error["code"] == "CONFLICT"
    assert "by main/fixer-1" in record.text
    assert record.data["changed_by"] == "main/fixer-1"
    assert path.read_text() == "one\n2\n"


async def test_a_later_change_by_a_program_is_not_blamed_on_the_child(agents: Callable[[str], Agent]) -> None:
    main, child = agents("main"), agents("main/fixer-1")
    path = await seen(main, "a.py", "one\n")
    await seen(child, "a.py", "one\n")
    await child.call(edit, file_path="a.py", old_string="one", new_string="2")
    path.write_text("3\n")
    record = await main.call(edit, file_path="a.py", old_string="one", new_string="1")
    assert "by a command or another program" in record.text


async def test_a_file_touched_but_not_changed_is_no_conflict(agent: Agent) -> None:
    path = await seen(agent, "a.py", "one\n")
    os.utime(path)
    assert (await agent.call(edit, file_path="a.py", old_string="one", new_string="1")).status == "success"


async def test_text_that_occurs_more_than_once_is_told_where(agent: Agent) -> None:
    path = await seen(agent, "a.py", "x = 1\ny\nx = 1\n\nx = 1\n")
    record = await agent.call(edit, file_path="a.py", old_string="x = 1", new_string="x = 2")
    assert record.error is not None
    assert record.error["code"] == "INVALID_PARAM"
    assert "occurs 3 times in a.py: lines 1, 3, 5" in record.text
    assert record.data == {"matches": 3, "lines": [1, 3, 5]}

    record = await agent.call(edit, file_path="a.py", old_string="x = 1", new_string="x = 2", replace_all=True)
    assert path.read_text() == "x = 2\ny\nx = 2\n\nx = 2\n"
    assert record.data["replacements"] == 3


async def test_overlapping_matches_are_not_unique(agent: Agent) -> None:
    await seen(agent, "a.txt", "aaa\n")
    record = await agent.call(edit, file_path="a.txt", old_string="aa", new_string="b")
    assert "occurs 2 times" in record.text


@pytest.mark.parametrize(
    ("content", "old", "said"),
    [
        (
            "def f():\n\treturn 1\n",
            "def f():\n    return 1\n",
            "line 2 is '\\treturn 1', old_string has '    return 1'",
        ),
        ("a = 1  \nb\n" * 2, "a = 1\nb", "line 1 is 'a = 1  ', old_string has 'a = 1'"),
        (
            "call(a,  b)\n",
            "call(a, b)",
            "look-alike characters differ: line 1 is 'call(a,  b)', old_string has 'call(a, b)'",
        ),
        (
            "Hello World\n",
            "hello world",
            "only whitespace, case or look-alike characters differ: line 1 is 'Hello World'",
        ),
        ("say “hi”\n" * 2, 'say "hi"', "line 1 is 'say \\u201chi\\u201d', old_string has 'say \"hi\"'"),
        ("a\u00a0b = 1\n", "a b = 1", "line 1 is 'a\\xa0b = 1', old_string has 'a b = 1'"),
        ("alpha\nbeta\n" * 2, "1\talpha\n2\tbeta", "holds the line numbers that Read puts before each line"),
        ("alpha\nbeta\n", "alpha\\nbeta", "escaped once too often"),
        ("alpha\nbeta\n", "\\n", "escaped once too often"),
        ("alpha beta\n", "alpha beta\n\n", "line 1; only newlines at the start or end of old_string"),
        ("alpha beta gamma\n", "  beta ga  ", "without the whitespace at the start or end of old_string"),
        ("one\ntwo\nthree\nfour\n", "one\ntwo\n3\nfour", "The nearest is lines 1-4:"),
        ("def compute_total(items):\n", "def compute_sum(items, tax):", "The nearest is line 1:"),
        ("zero\nreturn getUserName()\n", "retrun get_user_name()", "The nearest is line 2:"),
        ("hello\nworld\n", "hallo", "The nearest is line 1:"),
        ("abc\n", "zzz qqq", "No line is like it"),
    ],
)
async def test_a_miss_shows_the_nearest_lines_and_names_the_difference(
    agent: Agent, content: str, old: str, said: str
) -> None:
    path = await seen(agent, "a.txt", content)
    record = await agent.call(edit, file_path="a.txt", old_string=old, new_string="new")
    assert record.error is not None
    assert record.error["code"] == "NOT_FOUND"
    assert said in record.text
    assert path.read_text() == content


async def test_the_nearest_lines_come_as_a_diff(agent: Agent) -> None:
    await seen(agent, "a.txt", "zero\none\ntwo\nthree\n")
    record = await agent.call(edit, file_path="a.txt", old_string="one\n2\nthree", new_string="new")
    assert "--- old_string\n+++ lines 2-4\n" in record.text
    assert "-2\n+two\n" in record.text
    assert record.data["nearest_line"] == 2


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("last", ["there", "not there"])
async def test_no_pattern_is_made_of_a_long_text(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, newline: str, last: str
) -> None:
    lines = [f"line {number}" for number in range(100_000)]
    path = await seen(agent, "big.txt", newline.join([*lines, "there", "end"]))
    escaped, escape = [0], re.escape

    def count(text: str) -> str:
        escaped.append(len(text))
        return escape(text)

    monkeypatch.setattr(re, "escape", count)
    record = await agent.call(edit, file_path="big.txt", old_string="\n".join([*lines, last]), new_string="a\nb")
    assert max(escaped) <= MAX_CARRIED
    assert record.status == ("success" if last == "there" else "error")
    assert path.read_bytes().startswith((b"a" if last == "there" else b"line 0") + newline.encode())


@pytest.mark.parametrize(
    ("old", "new", "after"),
    [("\r", "", b"one\ntwo\n"), ("one\r\ntwo\r", "1\r\n2\r", b"1\r\n2\r\n"), ("one\r", "1\r", b"1\r\ntwo\r\n")],
)
async def test_a_carriage_return_can_be_wanted_itself(agent: Agent, old: str, new: str, after: bytes) -> None:
    path = await seen(agent, "a.txt", b"one\r\ntwo\r\n")
    record = await agent.call(edit, file_path="a.txt", old_string=old, new_string=new, replace_all=True)
    assert record.status == "success"
    assert path.read_bytes() == after


@pytest.mark.parametrize(
    ("content", "old", "new", "after"),
    [
        (b"0\r\na\rb\r\nc\r\n", "a\rb\nc", "1\n2\n3", b"0\r\n1\r\n2\r\n3\r\n"),
        (b"0\r\na\rb\r\nc\r\n", "a\rb", "1\r2\n3", b"0\r\n1\r2\r\n3\r\nc\r\n"),
        (b"0\na\rb\n", "a\rb", "1\r\n2", b"0\n1\n2\n"),
        (b"a\rb\r\nc\r\n", "\r", "", b"ab\nc\n"),
    ],
)
async def test_newlines_beside_a_carriage_return_are_those_of_the_file(
    agent: Agent, content: bytes, old: str, new: str, after: bytes
) -> None:
    path = await seen(agent, "a.txt", content)
    record = await agent.call(edit, file_path="a.txt", old_string=old, new_string=new, replace_all=True)
    assert record.status == "success"
    assert path.read_bytes() == after


async def test_a_miss_in_a_hundred_thousand_lines_is_quick(agent: Agent) -> None:
    lines = [f"    value_{i} = compute(value_{i - 1}, {i % 7})  # step" for i in range(100_000)]
    await seen(agent, "big.py", "\n".join(lines))
    for old in ("\tvalue_50000 = compute(value_49999, 6)  # step", "value_77777 = computed(value_77776)"):
        started = time.process_time()
        record = await agent.call(edit, file_path="big.py", old_string=old, new_string="x")
        assert time.process_time() - started < 2
        assert f"line {50001 if '50000' in old else 77778}" in record.text


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"old_string": "one", "new_string": "one"}, "are the same"),
        ({"old_string": "one\n", "new_string": "one\r\n"}, "are the same"),
        ({"old_string": "", "new_string": "x"}, "`old_string` is empty"),
    ],
)
async def test_an_edit_that_changes_nothing_is_refused(agent: Agent, args: dict[str, str], said: str) -> None:
    await seen(agent, "a.txt", "one\ntwo\n")
    record = await agent.call(edit, file_path="a.txt", **args)
    assert record.error is not None
    assert record.error["code"] == "INVALID_PARAM"
    assert said in record.text


async def test_a_multi_edit_is_all_or_nothing(agent: Agent) -> None:
    path = await seen(agent, "a.txt", "one\ntwo\n")
    first = {"old_string": "one", "new_string": "1"}
    record = await agent.call(multi_edit, file_path="a.txt", edits=[first, {"old_string": "three", "new_string": "3"}])
    assert record.text.startswith("Edit 2 of 2: old_string is not in a.txt")
    assert path.read_text() == "one\ntwo\n"

    record = await agent.call(multi_edit, file_path="a.txt", edits=[first, {"old_string": "1", "new_string": "eins"}])
    assert path.read_text() == "eins\ntwo\n"
    assert record.data["replacements"] == 2


async def test_edits_that_undo_each_other_are_refused(agent: Agent) -> None:
    await seen(agent, "a.txt", "one\n")
    there = {"old_string": "one", "new_string": "two"}
    back = {"old_string": "two", "new_string": "one"}
    record = await agent.call(multi_edit, file_path="a.txt", edits=[there, back])
    assert "undo each other" in record.text
    assert (await agent.call(multi_edit, file_path="a.txt", edits=[])).error is not None


async def test_a_missing_file_names_its_neighbours(agent: Agent, folder: Path) -> None:
    (folder / "settings.py").touch()
    record = await agent.call(edit, file_path="setings.py", old_string="a", new_string="b")
    assert record.error is not None
    assert record.error["code"] == "NOT_FOUND"
    assert record.data["nearest"] == ["settings.py"]


async def test_a_file_that_went_away_is_said_so(agent: Agent) -> None:
    path = await seen(agent, "a.txt", "one\n")
    path.unlink()
    record = await agent.call(edit, file_path="a.txt", old_string="one", new_string="b")
    assert "is gone" in record.text


@pytest.mark.parametrize("tool", [edit, write])
async def test_what_is_no_regular_file_is_left_alone(agent: Agent, folder: Path, tool: object) -> None:
    (folder / "dir").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "blob").write_bytes(b"\0\1\2")
    args = {"old_string": "a", "new_string": "b"} if tool is edit else {"content": "x"}
    chosen = edit if tool is edit else write
    codes = {}
    for name in ("dir", "pipe", "blob"):
        record = await agent.call(chosen, file_path=name, **args)
        codes[name] = record.error and record.error["code"]
    assert codes == {"dir": "IS_DIRECTORY", "pipe": "ACCESS_DENIED", "blob": "CONFLICT"}
    assert (folder / "blob").read_bytes() == b"\0\1\2"


async def test_a_new_file_makes_its_folders(agent: Agent, folder: Path) -> None:
    record = await agent.call(write, file_path="a/b/c.txt", content="one\ntwo")
    assert (folder / "a/b/c.txt").read_text() == "one\ntwo"
    assert record.text == "Created a/b/c.txt: 2 lines."
    assert record.data["created"] is True
    assert record.data["added"] == 2
    again = await agent.call(write, file_path="a/b/c.txt", content="one\ntwo")
    assert "nothing was written" in again.text


async def test_a_new_file_has_the_mode_of_the_umask(agent: Agent, folder: Path) -> None:
    before = os.umask(0o027)
    try:
        await agent.call(write, file_path="a.txt", content="x")
    finally:
        os.umask(before)
    assert (folder / "a.txt").stat().st_mode & 0o777 == 0o640


async def test_writing_through_a_dangling_link_makes_its_target(agent: Agent, folder: Path) -> None:
    (folder / "link").symlink_to("target.txt")
    await agent.call(write, file_path="link", content="x\n")
    assert (folder / "link").is_symlink()
    assert (folder / "target.txt").read_text() == "x\n"


async def test_a_link_swapped_in_after_the_check_is_not_followed(agent: Agent, folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text("secret\n")
    (folder / "dir").mkdir()
    (folder / "dir" / "a.txt").write_text("mine\n")
    ctx = agent.context()
    args = {"file_path": "dir/a.txt", "content": "overwritten"}
    effects = write.effects(ctx, args)
    assert list(effects) == [Effect("write", str(folder / "dir" / "a.txt"))]
    (folder / "dir").rename(folder / "moved")
    (folder / "dir").symlink_to(outside)

    with pytest.raises(Exception, match=r"link|changed"):
        await write(ctx, args)

    assert (outside / "a.txt").read_text() == "secret\n"


async def test_effects_name_the_resolved_path(agent: Agent, folder: Path) -> None:
    (folder / "real").mkdir()
    (folder / "link").symlink_to("real")
    target = str(folder / "real" / "x.py")
    for tool in (edit, multi_edit, write):
        assert list(tool.effects(agent.context(), {"file_path": "link/x.py"})) == [Effect("write", target)]
    assert list(read.effects(agent.context(), {"file_path": "link/x.py"})) == [Effect("read", target)]


async def test_a_checkpoint_is_taken_before_each_change_and_only_then(agent: Agent, folder: Path) -> None:
    taken: list[tuple[str, str]] = []

    def before_write(path: Path) -> None:
        taken.append((path.name, path.read_text() if path.exists() else ""))

    agent.tree.before_write = before_write
    await agent.call(write, file_path="a.txt", content="one\n")
    await agent.call(edit, file_path="a.txt", old_string="one", new_string="two")
    await agent.call(edit, file_path="a.txt", old_string="missing", new_string="two")
    assert taken == [("a.txt", ""), ("a.txt", "one\n")]
    assert agent.tree.writers == {str(folder / "a.txt"): "main"}


async def test_a_preview_is_the_diff_and_writes_nothing(agent: Agent, folder: Path) -> None:
    path = await seen(agent, "a.txt", "one\n")
    assert edit.preview is not None
    assert write.preview is not None
    change = edit.preview(agent.context(), {"file_path": "a.txt", "old_string": "one", "new_string": "two"})
    assert change["diff"].endswith("-one\n+two\n")
    fresh = write.preview(agent.context(), {"file_path": "new.txt", "content": "x\n"})
    assert fresh["diff"] == "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+x\n"
    assert path.read_text() == "one\n"
    assert not (folder / "new.txt").exists()


async def test_a_preview_of_no_edits_says_what_the_call_would_say(agent: Agent) -> None:
    await seen(agent, "a.txt", "one\n")
    assert multi_edit.preview is not None
    with pytest.raises(ToolError, match="`edits` is empty"):
        multi_edit.preview(agent.context(), {"file_path": "a.txt", "edits": []})


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user to be")
def test_what_the_system_does_not_permit_a_plain_user_is_denied_and_left_alone() -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for leaf, mode in (("protected.txt", 0o444), ("hidden.txt", 0o000)):
            (root / leaf).write_text("one\n")
            (root / leaf).chmod(mode)
            os.chown(root / leaf, NOBODY, NOBODY)
        (root / "closed").mkdir()
        (root / "closed" / "a.txt").write_text("one\n")
        (root / "closed" / "a.txt").chmod(0o666)
        os.chown(root, NOBODY, NOBODY)

        codes = _as_nobody(
            root,
            (read, {"file_path": "protected.txt"}),
            (edit, {"file_path": "protected.txt", "old_string": "one", "new_string": "two"}),
            (read, {"file_path": "hidden.txt"}),
            (read, {"file_path": "closed/a.txt"}),
            (edit, {"file_path": "closed/a.txt", "old_string": "one", "new_string": "two"}),
            (write, {"file_path": "closed/deeper/new.txt", "content": "x"}),
        )

        denied = "ACCESS_DENIED"
        assert codes == ["success", denied, denied, "success", denied, denied]
        assert (root / "protected.txt").read_text() == (root / "closed/a.txt").read_text() == "one\n"
        assert sorted(p.name for p in root.rglob("*")) == ["a.txt", "closed", "hidden.txt", "protected.txt"]


NOBODY = 65534


def _as_nobody(root: Path, *calls: tuple[Tool, dict[str, str]]) -> list[str]:
    """The outcome of each call, made in a process of a plain user."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            agent = Agent("main", Workspace(root), TreeState(root), AgentState(root))

            async def run() -> list[str]:
                records = [await agent.call(tool, **args) for tool, args in calls]
                return [r.error["code"] if r.error else r.status for r in records]

            os.write(into, " ".join(asyncio.run(run())).encode())
        finally:
            os._exit(0)
    os.close(into)
    os.waitpid(child, 0)
    with os.fdopen(out) as pipe:
        return pipe.read().split()


TEXT = st.text(st.sampled_from("ab \t\n\r"), max_size=30)


@example("\r\r\n", "a", "")
@given(TEXT, st.text(st.sampled_from("ab\n"), min_size=1, max_size=4), TEXT)
def test_replacing_is_what_it_says_once_newlines_are_alike(text: str, wanted: str, new: str) -> None:
    new = new.replace("\r\n", "\n")
    plain = text.replace("\r\n", "\n")
    result, count = replace(text, plain, wanted, new)
    if "\r" not in new:
        # A lone carriage return may come to stand before a line end, so those count as one with it.
        assert re.sub(r"\r+\n", "\n", result) == re.sub(r"\r+\n", "\n", plain.replace(wanted, new))
    assert count == plain.count(wanted)
    assert len(find(plain, wanted)[1]) == min(20, find(plain, wanted)[0])
    if "\r\n" not in text:
        assert result == text.replace(wanted, new)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(
        st.tuples(st.text(st.sampled_from("abc é"), max_size=6), st.sampled_from(["\n", "\r\n"])), max_size=8
    ),
    where=st.integers(0, 8),
    encoding=st.sampled_from(["utf-8", "utf-16-le", "cp1252"]),
)
async def test_what_lies_around_an_edit_is_byte_for_byte_the_same(
    tmp_path: Path, lines: list[tuple[str, str]], where: int, encoding: str
) -> None:
    bom = b"\xff\xfe" if encoding == "utf-16-le" else b""
    where = min(where, len(lines))
    before = "".join(line + end for line, end in lines[:where])
    after = "".join(line + end for line, end in lines[where:])
    path = tmp_path / "f.txt"
    path.write_bytes(bom + f"{before}TARGET{after}".encode(encoding))
    agent = Agent("main", Workspace(tmp_path), TreeState(tmp_path), AgentState(tmp_path))
    await agent.call(read, file_path="f.txt")

    record = await agent.call(edit, file_path="f.txt", old_string="TARGET", new_string="changed")

    assert record.status == "success", record.text
    assert path.read_bytes() == bom + f"{before}changed{after}".encode(encoding)


async def test_other_hard_links_are_mentioned(agent: Agent, folder: Path) -> None:
    path = await seen(agent, "a.txt", "one\n")
    os.link(path, folder / "b.txt")
    record = await agent.call(edit, file_path="a.txt", old_string="one", new_string="two")
    assert record.text.endswith("Its other hard links keep the old content.")
    assert (folder / "b.txt").read_text() == "one\n"


async def test_an_edit_that_would_blow_the_file_up_is_refused_before_it_does(agent: Agent) -> None:
    path = await seen(agent, "a.txt", "a\n" * 10_000)
    record = await agent.call(edit, file_path="a.txt", old_string="a", new_string="b" * 10_000, replace_all=True)
    assert "would grow past 20 MB" in record.text
    assert path.stat().st_size == 20_000


async def test_a_name_that_is_no_utf8_can_be_written_read_and_edited(agent: Agent, folder: Path) -> None:
    name = "caf\udce9.txt"
    assert (await agent.call(write, file_path=name, content="one\n")).text == "Created caf�.txt: 1 line."
    assert (await agent.call(read, file_path=name)).text == "1\tone"
    assert (await agent.call(edit, file_path=name, old_string="one", new_string="two")).status == "success"
    assert [os.fsencode(p.name) for p in folder.iterdir()] == [b"caf\xe9.txt"]


@pytest.mark.parametrize(
    ("content", "old", "new", "after", "said"),
    [
        ("one\ntwo\nthree\n", "2\ttwo\n3\tthree", "2\tTWO\n3\tthree", "one\nTWO\nthree\n", "line numbers"),
        ("one\ntwo\n", "     2\ttwo", "TWO", "one\nTWO\n", "line numbers"),
        ("one\n\ntwo\n", "1\tone\n2\t\n3\ttwo\n", "1\tone\n2\ttwo\n", "one\ntwo\n", "line numbers"),
        ("say “hi” — it’s\n", 'say "hi" — it\'s', 'say "ho" — it\'s', "say “ho” — it’s\n", "kind of quotes"),
        ('it\'s "a"\n', "it’s “a”", "it’s “b”", 'it\'s "b"\n', "kind of quotes"),
        ("a  \nb\t\nc\n", "a\nb\nc", "a\nB\nc", "a  \nB\nc\n", "ends of lines"),
        ("a\nb\nc\n", "a \nb", "a \nB", "a\nB\nc\n", "ends of lines"),
        ("a \r\nb\r\nc\r\n", "a\nb\n", "a\nB\n", "a \r\nB\r\nc\r\n", "ends of lines"),
    ],
)
async def test_a_slip_that_can_mean_one_place_only_is_taken_and_said(
    agent: Agent, content: str, old: str, new: str, after: str, said: str
) -> None:
    path = await seen(agent, "a.txt", content)
    record = await agent.call(edit, file_path="a.txt", old_string=old, new_string=new)
    assert record.status == "success", record.text
    assert path.read_bytes().decode() == after
    assert said in record.text


@pytest.mark.parametrize(
    ("content", "old", "new"),
    [
        ("two\ntwo\n", "1\ttwo", "1\tTWO"),  # two places
        ("one\ntwo\n", "1\tone\n2\ttwo", "1\tone\nTWO"),  # is the number in the new text meant?
        ("one\ntwo\n", "1\tone\ntwo", "one"),
        ("“a” “a”\n", '"a"', '"b"'),
        ("a \nb\na\t\nb\n", "a\nb", "c"),
        ("  a\n", "\ta", "b"),  # indentation is never guessed
    ],
)
async def test_a_slip_that_could_mean_more_is_refused(agent: Agent, content: str, old: str, new: str) -> None:
    path = await seen(agent, "a.txt", content)
    record = await agent.call(edit, file_path="a.txt", old_string=old, new_string=new)
    assert record.status == "error", record.text
    assert path.read_bytes().decode() == content


async def test_a_path_with_backslashes_means_the_file_with_slashes(agent: Agent, folder: Path) -> None:
    (folder / "src").mkdir()
    await seen(agent, "src/a.txt", "one\n")
    assert (await agent.call(edit, file_path="src\\a.txt", old_string="one", new_string="two")).data[
        "path"
    ] == "src/a.txt"
    assert (await agent.call(write, file_path=".\\src\\new.txt", content="x\n")).data["path"] == "src/new.txt"
    (folder / "odd\\name.txt").write_text("mine\n")  # a name may hold one, and then it is meant
    assert "mine" in (await agent.call(read, file_path="odd\\name.txt")).text
