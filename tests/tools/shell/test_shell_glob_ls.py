"""Glob and LS on real folders and repositories."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cowork.core.errors import ToolError
from cowork.core.ports import Effect
from cowork.tools.search.files import glob, ls
from cowork.tools.search.ripgrep import plan_glob, split_glob, translate
from tests.tools.shell.conftest import Desk


@pytest.fixture
def repo(desk: Desk) -> Desk:
    desk.git("init", "-q")
    for age, name in enumerate(
        [
            "src/a.py",
            "src/deep/b.py",
            "src/deep/c.ts",
            "tests/test_a.py",
            ".hidden/h.py",
            "README.md",
            "node_modules/x/i.js",
            "debug.log",
        ]
    ):
        os.utime(desk.write(name, "x"), (1_000_000 - age, 1_000_000 - age))
    os.utime(desk.write(".gitignore", "node_modules\n*.log\n"), (1, 1))
    return desk


def listed(text: str) -> list[str]:
    return text.partition("\n\n")[0].splitlines()


@pytest.mark.parametrize(
    ("pattern", "files"),
    [
        ("**/*.py", ["src/a.py", "src/deep/b.py", "tests/test_a.py", ".hidden/h.py"]),
        ("*.py", ["src/a.py", "src/deep/b.py", "tests/test_a.py", ".hidden/h.py"]),
        ("src/*.py", ["src/a.py"]),
        ("src/**/*.py", ["src/a.py", "src/deep/b.py"]),
        ("src/**", ["src/a.py", "src/deep/b.py", "src/deep/c.ts"]),
        ("src/", ["src/a.py", "src/deep/b.py", "src/deep/c.ts"]),
        ("./src/a.py", ["src/a.py"]),
        ("{src,tests}/**/*.py", ["src/a.py", "src/deep/b.py", "tests/test_a.py"]),
        ("*/deep/?.ts", ["src/deep/c.ts"]),
        ("**/deep/**", ["src/deep/b.py", "src/deep/c.ts"]),
        ("[R]EADME*", ["README.md"]),
        ("test_[!b].py", ["tests/test_a.py"]),
    ],
)
async def test_files_are_found_newest_first(repo: Desk, pattern: str, files: list[str]) -> None:
    record = await repo.call(glob, pattern=pattern)
    assert listed(record.text) == files
    assert record.data == {"paths": files, "total": len(files), "truncated": False}


async def test_everything_means_everything_not_ignored(repo: Desk) -> None:
    record = await repo.call(glob, pattern="**/*")
    assert set(listed(record.text)) == {
        *("src/a.py", "src/deep/b.py", "src/deep/c.ts", "tests/test_a.py", ".hidden/h.py", "README.md", ".gitignore")
    }


@pytest.mark.parametrize("pattern", ["*.log", "node_modules/**/*.css", "nowhere/*.py", "*.none"])
async def test_nothing_found_is_said_with_a_hint(repo: Desk, pattern: str) -> None:
    record = await repo.call(glob, pattern=pattern)
    assert record.status == "success"
    assert record.text.startswith(f"No files match {pattern}")
    assert record.data["total"] == 0


async def test_an_ignored_folder_can_be_looked_into(repo: Desk) -> None:
    assert listed((await repo.call(glob, pattern="**/*.js", path="node_modules")).text) == ["node_modules/x/i.js"]
    assert listed((await repo.call(glob, pattern="node_modules/**/*.js")).text) == ["node_modules/x/i.js"]


async def test_only_the_newest_are_shown_of_many(desk: Desk) -> None:
    for i in range(500):
        os.utime(desk.write(f"f{i:03}.txt"), (1_000 + i, 1_000 + i))
    record = await desk.call(glob, pattern="*.txt")
    assert listed(record.text) == [f"f{i:03}.txt" for i in range(499, 299, -1)]
    assert (record.status, record.data["total"], record.data["truncated"]) == ("partial", 500, True)
    assert "500 files" in record.text
    assert "narrow" in record.text


async def test_a_tree_too_large_to_sort_shows_some_files_and_says_so(
    repo: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = await repo.call(glob, pattern="**/*.py")
    monkeypatch.setattr("cowork.tools.search.files.MOST_SORTED", 0)
    record = await repo.call(glob, pattern="**/*.py")
    assert record.status == "partial"
    assert sorted(record.data["paths"]) == sorted(whole.data["paths"]) != []
    assert record.data["truncated"] is True
    assert "newest first" not in record.text
    assert "They are in no order" in record.text


async def test_a_file_as_path_is_refused(repo: Desk) -> None:
    with pytest.raises(ToolError, match="is a file"):
        await repo.call(glob, pattern="*", path="README.md")
    with pytest.raises(ToolError, match="Nearest: src"):
        await repo.call(glob, pattern="*", path="srd")
    with pytest.raises(ToolError, match="glob"):
        await repo.call(glob, pattern="{a")


async def test_the_effect_follows_the_folder_in_the_pattern(repo: Desk) -> None:
    (repo.root / "link").symlink_to("/usr")
    real = os.path.realpath("/usr")
    assert glob.effects(repo.ctx, {"pattern": "link/**/*.py"}) == [Effect("read", real)]
    assert glob.effects(repo.ctx, {"pattern": "/usr/*"}) == [Effect("read", real)]
    assert glob.effects(repo.ctx, {"pattern": "../*"}) == [Effect("read", str(repo.root.parent))]
    assert glob.effects(repo.ctx, {"pattern": "*.py", "path": "src"}) == [Effect("read", str(repo.root / "src"))]


async def test_links_are_not_listed_as_files(repo: Desk) -> None:
    (repo.root / "link.py").symlink_to("/etc/passwd")
    assert "link.py" not in (await repo.call(glob, pattern="*.py")).text


async def test_what_a_rule_forbids_is_not_named(repo: Desk) -> None:
    repo.ctx.tree.may_read = lambda path: path.name != "a.py"
    assert listed((await repo.call(glob, pattern="src/*.py")).text)[0].startswith("No files")


@given(st.text(st.sampled_from("ab/*?[]{},!\\."), max_size=12))
def test_any_glob_is_read_or_refused(pattern: str) -> None:
    try:
        made = plan_glob(pattern)
    except ToolError as error:
        assert error.code == "INVALID_PARAM"  # noqa: PT017
        return
    made.accepts("a/b.a")
    assert "".join(split_glob(pattern, "/")) == pattern.replace("/", "") or "{" in pattern or "\\" in pattern


@given(st.text(st.sampled_from("abc.-_ é"), min_size=1, max_size=10))
def test_a_plain_name_matches_itself_alone(name: str) -> None:
    import re

    assert re.fullmatch(translate(name), name)
    assert not re.fullmatch(translate(name), name + "x")


async def test_a_folder_is_shown_as_a_tree(repo: Desk) -> None:
    (repo.root / "empty").mkdir()
    (repo.root / "link").symlink_to("/etc/hosts")
    record = await repo.call(ls)
    assert record.text.splitlines() == [
        "./: 7 files in 5 folders",
        ".hidden/",
        "  h.py",
        "empty/",
        "src/",
        "  deep/",
        "    b.py",
        "    c.ts",
        "  a.py",
        "tests/",
        "  test_a.py",
        ".gitignore",
        "README.md",
        "link -> /etc/hosts",
        "Ignored: .git/, debug.log, node_modules/",
    ]
    assert record.data["files"] == 7
    assert record.display["summary"] == "7 files"


async def test_globs_to_ignore_are_left_out(repo: Desk) -> None:
    record = await repo.call(ls, ignore=["deep", "*.md"])
    assert "deep" not in record.text
    assert "README" not in record.text
    assert "a.py" in record.text


async def test_a_large_folder_fits_a_page_with_counts(desk: Desk) -> None:
    for i in range(40):
        for j in range(30):
            desk.write(f"d{i:02}/f{j:02}.txt")
    record = await desk.call(ls)
    assert len(record.text.splitlines()) <= 202
    assert "d39/ (30)" in record.text
    assert "1,200 files in 41 folders" in record.text


async def test_a_folder_of_too_many_entries_says_so(desk: Desk) -> None:
    for i in range(500):
        desk.write(f"f{i:03}.txt")
    record = await desk.call(ls)
    assert record.status == "partial"
    assert "300 more entries" in record.text


async def test_an_empty_folder_and_a_missing_one(desk: Desk) -> None:
    assert "(empty)" in (await desk.call(ls)).text
    with pytest.raises(ToolError) as caught:
        await desk.call(ls, path="nope")
    assert caught.value.code == "NOT_FOUND"
    desk.write("file.txt")
    with pytest.raises(ToolError, match="is a file"):
        await desk.call(ls, path="file.txt")


async def test_a_glob_that_is_a_folder_says_how_to_look_into_it(desk: Desk) -> None:
    desk.write("src/deep/a.py")
    for pattern in ("src", "src/deep", "src/deep/"):
        record = await desk.call(glob, pattern=pattern)
        assert record.data["paths"] or f"{pattern.rstrip('/')}/** finds its files" in record.text
