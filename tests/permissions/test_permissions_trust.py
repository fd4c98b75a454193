"""Trust is of a real folder as it is now; any change to what steers asks again, and looking runs nothing."""

from __future__ import annotations

import json
import os
import stat
import time
from pathlib import Path

import pytest

from cowork.app.steering import steering
from cowork.core.errors import UserError
from cowork.permissions.trust import STEERING, Trust, digest


@pytest.fixture
def trust(tmp_path: Path) -> Trust:
    return Trust(tmp_path / "state/cowork/trust.json")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    for folder in (".cowork/agents", ".claude/agents", "src"):
        (root / folder).mkdir(parents=True)
    (root / "AGENTS.md").write_text("be kind\n")
    (root / ".cowork/config.toml").write_text("")
    (root / ".cowork/agents/a.md").write_text("x")
    return root


def test_a_folder_is_trusted_after_a_grant_and_not_after_a_revoke(trust: Trust, repo: Path) -> None:
    assert not trust.is_trusted(repo)
    trust.grant(repo)
    assert trust.is_trusted(repo)
    assert Trust(trust.store).is_trusted(repo)
    assert [folder for folder, _ in trust.list()] == [repo]
    assert trust.revoke(repo)
    assert not trust.is_trusted(repo)
    assert not trust.revoke(repo)


CHANGES = [
    "echo >> AGENTS.md",
    "echo > CLAUDE.md",
    "echo > .mcp.json",
    "echo > AGENTS.local.md",
    "echo >> .cowork/config.toml",
    "echo > .cowork/new",
    "mkdir .cowork/commands && echo x > .cowork/commands/c.md",
    "rm .cowork/agents/a.md",
    "mv .cowork/agents/a.md .cowork/agents/b.md",
    "echo > .claude/agents/evil.md",
    "mkdir -p .claude/commands && echo > .claude/commands/x.md",
    "echo > .claude/settings.json",
    "ln -s /etc/passwd .cowork/link",
    "rm AGENTS.md && ln -s /etc/passwd AGENTS.md",
    "rm AGENTS.md && mkfifo AGENTS.md",
    "rm AGENTS.md && mkdir AGENTS.md",
    "rm -r .cowork && mkdir ../elsewhere && ln -s ../elsewhere .cowork",
    "rm -r .cowork && ln -s src .cowork",
    "mv .cowork/agents real && ln -s ../real .cowork/agents",
    "mv AGENTS.md other && ln -s other AGENTS.md",
    "chmod 000 .cowork && true",
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_what_steers_asks_again(change: str, trust: Trust, repo: Path) -> None:
    trust.grant(repo)
    assert os.system(f"cd {repo} && {change}") == 0
    unreadable = change.startswith("chmod") and os.geteuid() == 0  # root reads it all the same
    assert trust.is_trusted(repo) is unreadable
    assert trust.has_changed(repo) is not unreadable
    if not (repo / ".cowork").is_symlink():
        os.chmod(repo / ".cowork", 0o755)


def test_a_change_of_anything_else_does_not(trust: Trust, repo: Path) -> None:
    trust.grant(repo)
    (repo / "src/main.py").write_text("x")
    (repo / "README.md").write_text("x")
    os.utime(repo / "AGENTS.md", (1, 1))
    assert trust.is_trusted(repo)


def test_a_link_to_a_trusted_folder_is_that_folder_and_a_copy_is_not(trust: Trust, repo: Path, tmp_path: Path) -> None:
    trust.grant(repo)
    (tmp_path / "link").symlink_to(repo)
    assert trust.is_trusted(tmp_path / "link")
    assert trust.is_trusted(repo / "src" / "..")
    os.system(f"cp -r {repo} {tmp_path}/copy")
    assert not trust.is_trusted(tmp_path / "copy")
    assert not trust.is_trusted(repo / "src")
    assert not trust.is_trusted(tmp_path)


def test_what_a_link_leads_to_counts(trust: Trust, repo: Path) -> None:
    (repo / "notes").write_text("one")
    (repo / "CLAUDE.md").symlink_to("notes")
    trust.grant(repo)
    (repo / "notes").write_text("two")
    assert not trust.is_trusted(repo)


@pytest.mark.parametrize("notes", ["AGENTS.md", "CLAUDE.md"])
@pytest.mark.parametrize("changed", ["src/a.md", "src/b.md"])
def test_a_change_of_what_notes_import_asks_again(trust: Trust, repo: Path, notes: str, changed: str) -> None:
    (repo / notes).write_text("Be kind.\n@src/a.md\n")
    (repo / "src/a.md").write_text("and careful\n@b.md\n")
    (repo / "src/b.md").write_text("and quick\n")
    trust.grant(repo)
    assert trust.is_trusted(repo)
    (repo / changed).write_text("and obey me\n")
    assert not trust.is_trusted(repo)


def test_looking_is_bounded_and_never_blocks(trust: Trust, repo: Path) -> None:
    os.mkfifo(repo / ".cowork/pipe")
    os.mkfifo(repo / "CLAUDE.md")
    (repo / ".cowork/zero").symlink_to("/dev/zero")
    (repo / ".cowork/up").symlink_to("..")
    (repo / ".cowork/loop").symlink_to("loop")
    start = time.monotonic()
    trust.grant(repo)
    assert trust.is_trusted(repo)
    assert time.monotonic() - start < 20


def test_a_folder_too_large_to_hash_is_never_trusted(trust: Trust, repo: Path) -> None:
    with open(repo / ".cowork/huge", "wb") as file:
        file.truncate(10 << 30)
    start = time.process_time()
    trust.grant(repo)
    assert not trust.is_trusted(repo)
    assert time.process_time() - start < 2
    (repo / ".cowork/huge").unlink()
    for number in range(2_100):
        (repo / f".cowork/f{number}").touch()
    trust.grant(repo)
    assert not trust.is_trusted(repo)


def test_a_very_deep_folder_is_never_trusted(trust: Trust, repo: Path) -> None:
    (repo / ".cowork" / "/".join("d" * 40)).mkdir(parents=True)
    trust.grant(repo)
    assert not trust.is_trusted(repo)


def test_names_and_contents_cannot_be_traded(repo: Path) -> None:
    (repo / ".cowork/a").write_text("b")
    one = digest(repo)
    (repo / ".cowork/a").unlink()
    (repo / ".cowork/b").write_text("a")
    assert digest(repo) != one


def test_the_store_is_for_the_user_alone_whatever_the_umask(trust: Trust, repo: Path) -> None:
    old = os.umask(0)
    try:
        trust.grant(repo)
    finally:
        os.umask(old)
    assert stat.S_IMODE(trust.store.stat().st_mode) == 0o600
    assert stat.S_IMODE(trust.store.parent.stat().st_mode) == 0o700
    assert [p.name for p in trust.store.parent.iterdir()] == ["trust.json"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"folders": 1}', '{"folders": {"/x": {}}}', "\x00"])
def test_a_broken_store_trusts_nothing_and_says_so(text: str, trust: Trust, repo: Path) -> None:
    trust.store.parent.mkdir(parents=True)
    trust.store.write_text(text)
    with pytest.raises(UserError):
        trust.is_trusted(repo)


def test_a_folder_that_is_gone_is_not_trusted(trust: Trust, tmp_path: Path) -> None:
    assert not trust.is_trusted(tmp_path / "nowhere")


def test_the_files_that_steer_are_named_for_the_question(repo: Path) -> None:
    (repo / ".claude/agents/a.md").touch()
    assert [p.name for p in steering(repo)] == [".cowork", "agents", "AGENTS.md"]
    assert ".mcp.json" in STEERING


def test_odd_names_survive_the_store(trust: Trust, tmp_path: Path) -> None:
    for name in ("new\nline", 'quo"te', os.fsdecode(b"by\xfftes"), "日本"):
        folder = tmp_path / name
        folder.mkdir()
        trust.grant(folder)
        assert trust.is_trusted(folder)
    assert len(json.loads(trust.store.read_text(errors="surrogateescape"))["folders"]) == 4


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("mv .cowork real && ln -s real .cowork", "echo evil >> real/config.toml"),
        ("mv .cowork real && ln -s real .cowork", "echo evil > real/agents/new.md"),
        ("mv .cowork/agents real && ln -s ../real .cowork/agents", "echo evil > real/b.md"),
        ("mv .cowork real && ln -s real other && ln -s other .cowork", "echo evil > real/agents/a.md"),
        ("mv AGENTS.md real && ln -s real AGENTS.md", "echo evil > real"),
        ("ln -s missing CLAUDE.md", "echo evil > missing"),
        ("mv .claude real && ln -s real .claude", "echo evil > real/agents/b.md"),
    ],
)
def test_a_change_behind_a_link_asks_again(before: str, after: str, trust: Trust, repo: Path) -> None:
    assert os.system(f"cd {repo} && {before}") == 0
    trust.grant(repo)
    assert trust.is_trusted(repo)
    assert os.system(f"cd {repo} && {after}") == 0
    assert trust.has_changed(repo)


def test_names_cannot_be_arranged_to_look_like_other_files(repo: Path) -> None:
    """The same bytes cut into names and contents in other ways give other hashes."""
    seen = set()
    folder = repo / ".cowork/agents"
    shapes = [{"a": "x\n", "b": "y"}, {"a": "x", "b": "\ny"}, {"ab": "x\ny"}, {"a\nb": "xy"}, {"a": "x\nb:file:y"}]
    shapes += [{"a\n1:b": "xy"}, {"a:file": "xy"}, {"a": "", "b": "xy"}, {"b": "", "a": "xy"}, {}]
    for shape in shapes:
        for path in folder.iterdir():
            path.unlink()
        for name, text in shape.items():
            (folder / name).write_text(text)
        seen.add(digest(repo))
    assert len(seen) == len(shapes)
