from __future__ import annotations

import os
import subprocess
from collections.abc import Collection
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cowork.core.workspace import Workspace
from cowork.sessions.checkpoints.scan import MAX_ENTRIES, Scanner, TooManyFiles, walk
from cowork.sessions.checkpoints.store import Contents

SOAK = bool(os.environ.get("COWORK_SOAK"))


def git_keeps(root: Path) -> set[str]:
    out = subprocess.run(
        ["git", "ls-files", "-coz", "--exclude-standard"], cwd=root, check=True, capture_output=True
    ).stdout
    return {os.fsdecode(name) for name in out.split(b"\0") if name}


def paths(root: Path, skip: Collection[str] = (), limit: int = MAX_ENTRIES) -> set[str]:
    ignored = Scanner(Workspace(root), Contents(root.parent / "store", limit=0)).ignored_paths
    found = walk(root, {}, ignored=ignored, skip=skip, limit=limit)
    return {prefix + name for prefix, listing in found for name, _ in listing}


def we_keep(root: Path) -> set[str]:
    return {path for path in paths(root) if not os.path.isdir(root / path) or os.path.islink(root / path)}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tree")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    folders = ("", "a/", "a/b/", "a/b/a/", "b/", "ab/", "build/", "x.y/", "a/build/b/")
    for folder in folders:
        (root / folder).mkdir(exist_ok=True, parents=True)
    for folder in folders:
        for name in (
            "a",
            "b.c",
            "ab",
            "x.y",
            "a.b.c",
            ".env",
            "a b",
            "[a]",
            "!x",
            "#x",
            "build.log",
            "éa",
            "7",
            "trail ",
        ):
            if not (root / folder / name).exists():
                (root / folder / name).write_text("x")
    return root


PATTERNS = [
    "a", "/a", "a/", "/a/", "*.c", "!b.c", "*", "!*", "**", "a/**", "**/a", "a/**/a", "**/b.c", "a/*", "a/*/a", "?b",
    "[ab]", "[!a]", "[a-c]*", "[]a]*", "\\[a]", "\\!x", "\\#x", "#x", "!x", "a b", "trail\\ ", "trail ", "*b*", "a*c",
    "build", "build/", "a/build", "!build/", ".*", "!.env", "x.y/*", "*.y/", "é*", "[", "a/b/", "/a/b", "b", "**/",
    "/**", "*.*.c", "a**b", "[[:alpha:]]", "[^[:alpha:]]", "[[:digit:]x]*", "[!", "[]", "[a-", "[\\a]", "\\", "",
    "   ", "a//b",
]  # fmt: skip


@pytest.mark.soak
@settings(max_examples=2000 if SOAK else 60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    top=st.lists(st.sampled_from(PATTERNS), max_size=5),
    inner=st.lists(st.sampled_from(PATTERNS), max_size=3),
)
def test_rules_say_what_git_says(tree, top, inner):
    (tree / ".gitignore").write_text("\n".join(top))
    (tree / "a" / ".gitignore").write_text("\n".join(inner))
    assert we_keep(tree) == git_keeps(tree)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_each_pattern_alone_says_what_git_says(tree, pattern):
    (tree / ".gitignore").write_text(pattern)
    (tree / "a" / ".gitignore").write_text("")
    assert we_keep(tree) == git_keeps(tree)


def test_a_walk_is_bounded_and_stays_on_its_side_of_links_and_repositories(tmp_path):
    root = tmp_path / "root"
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "config").touch()
    (root / "nested" / ".git").mkdir(parents=True)
    (root / "nested" / "file").touch()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").touch()
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "loop").symlink_to(root)
    assert paths(root) == {"nested", "nested/file", "link", "loop"}
    assert paths(root, skip=[str(root / "nested")]) == {"link", "loop"}
    with pytest.raises(TooManyFiles):
        paths(root, limit=2)


def test_without_a_repository_and_in_an_ignored_folder_of_one_the_rules_count_too(tmp_path):
    for name in ("plain", "repo/build/work", "plain/nested"):
        root = tmp_path / name
        (root / "made").mkdir(parents=True)
        (root / ".gitignore").write_text("made\n")
        (root / "made" / "x").touch()
        (root / "kept").touch()
    subprocess.run(["git", "init", "-q", str(tmp_path / "repo")], check=True)
    subprocess.run(["git", "init", "-q", str(tmp_path / "plain" / "nested")], check=True)
    (tmp_path / "repo" / ".gitignore").write_text("/build\n")
    inner = {"nested", "nested/.gitignore", "nested/kept"}
    assert paths(tmp_path / "plain") == {".gitignore", "kept"} | inner
    assert paths(tmp_path / "repo" / "build") == {"work", "work/.gitignore", "work/kept"}
    assert paths(tmp_path / "repo" / "build" / "work") == {".gitignore", "kept"}


def test_an_ignore_file_that_is_a_pipe_is_empty_for_git(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for folder in ("a", "a/b"):
        (root / folder).mkdir(parents=True)
        os.mkfifo(root / folder / ".gitignore")
    (root / ".gitignore").write_text("*.log\n")
    for name in ("x.log", "a/y.log", "a/b/z.txt"):
        (root / name).write_text("")
    assert {"a/b/z.txt"} == {path for path in we_keep(root) if not path.endswith(".gitignore")}
