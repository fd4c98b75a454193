"""Trees a repository may bring so that a harmless command shows more than it says, and files the judge cannot read."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from cowork.core.ports import Effect
from cowork.core.workspace import Workspace
from cowork.permissions import Permissions
from cowork.permissions.shell import judge as judging
from cowork.permissions.shell.judge import judge
from cowork.permissions.shell.lookup import _unignored
from cowork.permissions.shell.repository import keeps_password, repository, tracked_secret
from tests.fakes.calls import TOOLS


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    (tmp_path / "repo/conf").mkdir(parents=True)
    (tmp_path / "repo/README.md").write_text("x\n")
    for words in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *words], cwd=tmp_path / "repo", check=True, timeout=30)
    return tmp_path / "repo"


def unasked(repo: Path, command: str, cwd: Path | None = None) -> bool:
    return judge(command, Workspace(repo), cwd or repo, trusted=True).read_only


# git joins flags, takes words that look like flags as values, and has its own patterns for paths.
SHOWING = """
git log -wp | git log -ip | git whatchanged -wp | git show --stat -wp | git diff --name-only -wp | git status -bv
git log --check | git diff-tree --check HEAD | git diff --cached -- ':!x' | git show HEAD -- ':^x' | git diff ':!x'
git grep KEY -- ':!x' | git grep KEY HEAD:conf | git diff HEAD~1:conf HEAD:conf | git cat-file -p HEAD:conf
git grep -e -c | git grep -e -l | git show -S -s | git log -p -n 5 | git log -p --skip 5 | git diff -- '5*'
git diff -- '?' | git show HEAD -- 'README.m[d]' | git log -p -S 5
"""
NAMING = """
git log -n 5 | git log -p -n 5 README.md | git log -p -n5 -- README.md 5 | git diff HEAD:README.md README.md
git show HEAD~1:README.md | git log -L 1,2:README.md | git grep -n -e KEY -- README.md | git grep -le KEY
git status -sb | git diff --stat -w | git log --oneline -5 -- conf | git show -sw
"""


def commands(text: str) -> list[str]:
    return [command.strip() for line in text.strip().splitlines() for command in line.split(" | ")]


def test_a_tracked_secret_is_not_shown_by_a_joined_flag_a_value_or_a_pattern(repo: Path) -> None:
    (repo / "conf/.env").write_text("KEY=sk-planted\n")
    for name in ("5", "5*", "?", "README.m[d]"):  # names that are also numbers and patterns
        (repo / name).write_text("x\n")
    subprocess.run(["git", "add", "."], cwd=repo, check=True, timeout=30)
    assert [command for command in commands(SHOWING) if unasked(repo, command)] == []
    assert [command for command in commands(NAMING) if not unasked(repo, command)] == []


def committed(repo: Path, *names: str) -> None:
    """The repository with these files committed, each with a key."""
    for name in names:
        (repo / name).write_text("KEY=sk-planted\n")
    for words in (["add", "-f", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]):
        subprocess.run(["git", *words], cwd=repo, check=True, timeout=30)


OBJECTS = """
git show -s BLOB | git show --stat BLOB | git show -s HEAD..BLOB | git show BLOB README.md | git show BLOB -- README.md
git diff BLOB README.md | git diff BLOB HEAD:README.md | git grep KEY BLOB -- README.md
git tag --format='%(raw)' | git for-each-ref --format='%(*raw)' | git branch --format='%(push:remotename)'
"""
COMMITS = """
git show -s HEAD | git show --stat work | git show --stat HEAD~1 -- conf | git show work -- README.md
git diff work README.md | git diff work...HEAD -- README.md
git grep KEY HEAD^ -- README.md | git log -p v1 -- README.md
"""


def test_a_tracked_secret_is_not_shown_by_the_name_of_its_object(repo: Path) -> None:
    committed(repo, "conf/.env")
    blob = subprocess.check_output(["git", "rev-parse", "HEAD:conf/.env"], cwd=repo, text=True, timeout=30).strip()
    for words in (["branch", "work"], ["tag", "v1", blob], ["branch", "both"], ["tag", "both", blob]):
        subprocess.run(["git", *words], cwd=repo, check=True, timeout=30)
    shown = [command.replace("BLOB", name) for command in commands(OBJECTS) for name in (blob, blob[:8], "v1", "both")]
    assert [command for command in shown if unasked(repo, command)] == []
    assert [command for command in commands(COMMITS) if not unasked(repo, command)] == []
    subprocess.run(["git", "pack-refs", "--all"], cwd=repo, check=True, timeout=30)
    assert [command for command in shown if unasked(repo, command)] == []
    assert [command for command in commands(COMMITS) if not unasked(repo, command)] == []


def test_a_file_where_git_knows_a_folder_asks(repo: Path) -> None:
    committed(repo, "conf/.env")
    shutil.rmtree(repo / "conf")
    (repo / "conf").write_text("x\n")
    for command in ("git diff conf", "git show HEAD -- conf", "git log -p conf", "git grep KEY HEAD:conf"):
        assert not unasked(repo, command), command
    assert unasked(repo, "git diff README.md")


def test_a_file_of_a_folder_known_by_its_object_asks(repo: Path) -> None:
    (repo / ".aws").mkdir()
    committed(repo, ".aws/config", "config")
    tree = subprocess.check_output(["git", "rev-parse", "HEAD:.aws"], cwd=repo, text=True, timeout=30).strip()
    for command in (f"git show {tree}:config", f"git cat-file -p {tree}:config", f"git diff-tree -p {tree} -- config"):
        assert not unasked(repo, command), command
    for command in ("git show HEAD:config", "git show :0:config", "git diff-tree -p HEAD -- config"):
        assert unasked(repo, command), command


def test_a_repository_without_an_index_may_hold_any_secret(repo: Path) -> None:
    committed(repo, "conf/.env")
    (repo / ".git/index").unlink()
    assert not unasked(repo, "git show")
    assert unasked(repo, "git show --stat")


def test_of_a_larger_repository_no_flag_shows_what_lies_outside(repo: Path) -> None:
    committed(repo, "top.txt", "conf/a.txt")
    for command in ("git show -s HEAD:top.txt", "git show HEAD:top.txt -- a.txt", "git diff HEAD:top.txt -- a.txt"):
        assert not unasked(repo / "conf", command), command
    assert unasked(repo / "conf", "git show HEAD -- a.txt")


def test_a_search_asks_where_a_configuration_of_git_holds_a_password(repo: Path) -> None:
    assert unasked(repo, "grep -rn url .")
    assert unasked(repo, "rg url .git")
    (repo / ".git/modules/m").mkdir(parents=True)
    (repo / ".git/modules/m/config").write_text('[remote "o"]\nurl = https://me:sk-planted@host.example/x\n')
    for command in ("grep -rn url .", "rg --hidden url", "rg url .git", "grep -r url .git/modules"):
        assert not unasked(repo, command), command
    assert unasked(repo, "rg url")


def test_a_password_git_noted_of_a_command_is_not_shown(repo: Path) -> None:
    committed(repo, "a.txt")
    showing = ("git reflog", "git log -g", "git log --oneline --walk-reflogs", "cat .git/logs/HEAD", "grep -r x .git")
    assert [command for command in showing if not unasked(repo, command)] == []
    with (repo / ".git/logs/HEAD").open("a") as file:
        file.write(f"{'0' * 40} {'1' * 40} a <a@b> 1 +0000\tpull https://me:sk-planted@host.example/x: Fast-forward\n")
    assert [command for command in showing if unasked(repo, command)] == []
    assert unasked(repo, "git log")


def test_rules_of_a_search_that_are_read_otherwise_by_rg_ask(repo: Path) -> None:
    (repo / "conf/x.pem").write_text("sk-planted\n")
    rules = repo / ".gitignore"
    for text in (
        b"# \xe9\n*.pem\n",
        b"*.pem\n" + b"# more\n" * 10_000 + b"!*.pem\n",
        b"*.pem**\n",
        b"*.pem\x1c\n",
        b"*.pem\n!*.pem\x0b\n",
    ):
        rules.write_bytes(text)
        assert not unasked(repo, "rg KEY"), text[:20]
    rules.write_text("*.pem\n.d.json/\n")
    assert unasked(repo, "rg KEY -g '*.json'")
    (repo / ".d.json").mkdir()
    (repo / ".d.json/credentials.json").write_text("sk-planted\n")
    assert not unasked(repo, "rg KEY -g '*.json'")


def test_rules_of_a_search_hold_from_the_real_folder_up(repo: Path) -> None:
    inner = repo / "conf/inner"
    (inner / "deep").mkdir(parents=True)
    (inner / "deep/x.pem").write_text("sk-planted\n")
    (repo / ".gitignore").write_text("*.pem\n")
    (repo / "linked").symlink_to("conf/inner/deep")
    assert unasked(repo, "rg KEY linked")
    (inner / ".git").symlink_to("nowhere")
    (inner / ".gitignore").write_text("*.pem\n")
    (repo / "conf/.ignore").write_text("!*.pem\n")  # above a repository of its own, too
    for command in ("rg KEY linked", "rg KEY conf/inner", "rg KEY"):
        assert not unasked(repo, command), command


def test_a_path_is_meant_from_the_top_or_from_here(repo: Path) -> None:
    (repo / "conf/.env").write_text("KEY=sk-planted\n")
    (repo / "sub/conf").mkdir(parents=True)
    (repo / "sub/conf/.env").write_text("KEY=sk-planted\n")
    (repo / "file").write_text("x\n")
    (repo / "sub/file").mkdir()
    subprocess.run(["git", "add", "."], cwd=repo, check=True, timeout=30)
    assert unasked(repo, "git show HEAD:file", repo / "sub")
    assert not unasked(repo, "git diff -- :file", repo / "sub")
    assert not unasked(repo, "git show HEAD:./file", repo / "sub")


def test_a_git_folder_of_another_repository_asks(repo: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    subprocess.run(["git", "init", "-q", str(other)], check=True, timeout=30)
    (repo / "kept").mkdir()
    (repo / ".git").rename(repo / "kept/.git")
    (repo / ".git").write_text(f"gitdir: {other}/.git\n")
    assert not unasked(repo, "git log")
    (repo / ".git").unlink()
    (repo / ".git").symlink_to(other / ".git")
    assert not unasked(repo, "git log")
    (repo / ".git").unlink()
    (repo / "kept/.git").rename(repo / ".git")
    assert unasked(repo, "git log")
    (repo / ".git/objects").rename(repo / "objects")
    (repo / ".git/objects").symlink_to(other / ".git/objects")
    assert not unasked(repo, "git log")


def test_a_worktree_of_an_honest_repository_runs_git(repo: Path, tmp_path: Path) -> None:
    made = ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "x"]
    for words in (made, ["worktree", "add", "-q", str(tmp_path / "tree")]):
        subprocess.run(["git", *words], cwd=repo, check=True, timeout=30)
    assert unasked(tmp_path / "tree", "git log")


def test_a_password_in_the_address_of_a_remote_is_not_shown(repo: Path) -> None:
    config = repo / ".git/config"
    showing = ["git remote -v", "git remote get-url origin", "git config --get remote.origin.url", "cat .git/config"]
    showing += ["grep -r url ."]
    plain = config.read_text()
    config.write_text(f'{plain}[remote "origin"]\n\turl = https://example.org/x.git\n')
    assert [command for command in showing if not unasked(repo, command)] == []
    config.write_text(f'{plain}[remote "origin"]\n\turl = https://me:sk-planted@example.org/x.git\n')
    assert [command for command in showing if unasked(repo, command)] == []
    assert unasked(repo, "git status")
    permit = Permissions(workspace=Workspace(repo), trusted=True)
    assert permit.judge("main", TOOLS["Read"], {}, [Effect("read", str(config))]).verdict == "ask"


def test_a_password_the_user_gave_git_for_an_address_is_not_shown(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(repo.parent))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    own = repo.parent / ".gitconfig"
    own.write_text("[user]\n\tname = a\n")
    assert unasked(repo, "git remote -v")
    for login in ("me:sk-planted", "ghp_planted0planted0planted0"):
        own.write_text(f'[url "https://{login}@example.org/"]\n\tinsteadOf = https://example.org/\n')
        assert not unasked(repo, "git remote -v")
        assert unasked(repo, "git status")


def test_a_name_is_matched_by_letters_and_by_bytes(repo: Path) -> None:
    (repo / "é").symlink_to("/etc/passwd")
    assert not unasked(repo, "cat ?")
    assert not unasked(repo, "cat ??")  # as the C locale reads it
    assert unasked(repo, "cat ???")


def test_what_comes_after_the_files_of_awk_is_a_file(repo: Path) -> None:
    (repo / "-F,").symlink_to("/etc/passwd")
    assert unasked(repo, "awk -F, '{print $1}' README.md")
    assert not unasked(repo, "awk '{print $1}' README.md -F,")


def test_a_flag_behind_an_operand_is_a_file_where_there_is_one(repo: Path) -> None:
    behind = ["cat README.md -n", "awk '{print $1}' -- README.md", "head README.md -n 20", "ls -w 80"]
    behind += ["column -t -", "rev -"]
    assert [command for command in behind if not unasked(repo, command)] == []
    for name in ("-n", "--", "80", "-"):
        (repo / name).symlink_to("/etc/passwd")
    assert [command for command in behind if unasked(repo, command)] == []


IGNORING = [
    (".gitignore", "[^s]*.pem\n"),  # all but those, in the words of git
    (".gitignore", " server.pem\n"),
    (".gitignore", "#server.pem\n"),
    (".gitignore", "server.pem/\n"),
    (".gitignore", "server.\\pem\n"),
    (".gitignore", "a/server.pem\n"),
]


@pytest.mark.parametrize(("file", "text"), IGNORING)
def test_a_secret_that_only_seems_ignored_asks(file: str, text: str, repo: Path) -> None:
    (repo / "server.pem").write_text("sk-planted\n")
    (repo / ".gitignore").write_text("server.pem\n")
    assert unasked(repo, "rg x")
    (repo / ".gitignore").write_text("")
    (repo / file).write_text(text)
    assert not unasked(repo, "rg x")


def test_a_glob_brings_back_what_is_ignored(repo: Path) -> None:
    (repo / "conf/credentials.json").write_text("sk-planted\n")
    (repo / ".gitignore").write_text("credentials.json\n")
    for command in ("rg x", "rg x -g '*.py'", "rg x -g '!*.json'", "rg x -g '*.{py,md}'"):
        assert unasked(repo, command), command
    for command in ("rg x -g '*.json'", "rg x -g '*.{py,json}'", "rg x --iglob '*.JSON'", "rg x -g 'conf/*.json'"):
        assert not unasked(repo, command), command


def test_a_file_brought_back_above_stays_so_below(repo: Path) -> None:
    (repo / "conf/server.pem").write_text("sk-planted\n")
    (repo / "conf/.gitignore").write_text("server.pem\n")
    assert unasked(repo, "rg x")
    (repo / ".ignore").write_text("!server.pem\n")  # beats every .gitignore
    assert not unasked(repo, "rg x")
    (repo / ".hidden").mkdir()
    (repo / ".hidden/server.pem").write_text("sk-planted\n")
    (repo / "conf/server.pem").unlink()
    (repo / ".ignore").write_text("")
    assert unasked(repo, "rg x")
    (repo / ".ignore").write_text("!.hidden/\n")
    assert not unasked(repo, "rg x")


@pytest.mark.parametrize("name", [".ignore", ".rgignore", ".gitignore", "conf/.ignore"])
def test_a_search_whose_rules_lie_elsewhere_asks(name: str, repo: Path) -> None:
    """rg shows the lines of such a file that it does not understand."""
    (repo / name).write_text("x\n")
    searches = ["rg x", "rg x conf", "rg x conf/*", "rg --files"]
    assert [command for command in searches if not unasked(repo, command)] == []
    (repo / name).unlink()
    (repo / name).symlink_to("/etc/passwd")
    assert [command for command in searches[:3] if unasked(repo, command)] == []
    (repo / name).unlink()
    os.mkfifo(repo / name)
    assert not unasked(repo, "rg x")


def test_a_search_that_may_wait_for_a_pipe_asks(repo: Path) -> None:
    assert unasked(repo, "grep -r x .")
    os.mkfifo(repo / "conf/pipe")
    assert not unasked(repo, "grep -r x .")
    assert unasked(repo, "rg x")


def test_git_does_not_search_through_a_folder_that_became_a_link(repo: Path) -> None:
    (repo / "conf/deep").mkdir()
    (repo / "conf/deep/a").write_text("x\n")
    subprocess.run(["git", "add", "."], cwd=repo, check=True, timeout=30)
    assert unasked(repo, "git grep x")
    (repo / "conf").rename(repo / "kept")
    (repo / "conf").symlink_to("/etc")
    assert not unasked(repo, "git grep x")
    assert not unasked(repo, "git grep -l x")
    assert unasked(repo, "git grep --cached x")


@pytest.mark.parametrize("name", [".gitattributes", ".gitignore", ".mailmap"])
def test_git_is_not_steered_from_elsewhere(name: str, repo: Path) -> None:
    (repo / name).symlink_to("conf")
    assert unasked(repo, "git log")
    (repo / name).unlink()
    (repo / name).symlink_to("/etc/passwd")
    assert not unasked(repo, "git log")
    (repo / name).unlink()
    os.mkfifo(repo / name)
    assert not unasked(repo, "git log")


def test_of_a_repository_larger_than_the_workspace_only_named_files_are_shown(repo: Path) -> None:
    (repo / "conf/a").write_text("x\n")

    def free(command: str) -> bool:
        return judge(command, Workspace(repo / "conf"), repo / "conf", trusted=True).read_only

    for command in ("git diff", "git show HEAD", "git log -p", "git show HEAD:README.md", "git diff HEAD"):
        assert not free(command), command
        assert unasked(repo, command), command
    for command in ("git diff a", "git diff -- .", "git log -p -- a", "git log --stat", "git status"):
        assert free(command), command


def spoiled(whole: bytes, chance: random.Random) -> bytes:
    """The bytes with a few changed, cut or put in."""
    data = bytearray(whole)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(4):
            case 0:
                del data[at:]
            case 1:
                data[at : at + 1] = chance.randbytes(1)
            case 2:
                data[at:at] = chance.choice([b"\0", b"\xff" * 8, b"[", b'"', b"\\\n", b"=", b"!", b"/", b"\xc3\x28"])
            case _:
                data[at : at + 4] = chance.choice([b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff"])
    return bytes(data)


def test_no_spoiled_file_of_git_makes_the_judge_stumble(repo: Path) -> None:
    git = repo / ".git"
    (repo / ".gitignore").write_text("*.pem\n!a.pem\n/b/\n")
    files = [git / "index", git / "config", git / "HEAD", repo / ".gitignore"]
    chance = random.Random(7)
    for number in range(600):
        file = files[number % len(files)]
        whole = file.read_bytes()
        file.write_bytes(spoiled(whole, chance))
        repository(git)
        tracked_secret(git)
        keeps_password(git / "config")
        _unignored(repo, "a.pem")
        file.write_bytes(whole)
    assert unasked(repo, "git diff")


def test_a_short_index_is_not_understood_rather_than_empty(repo: Path) -> None:
    (repo / ".git/index").write_bytes(b"DIRC\0\0\0\2\0\0\0\5")
    assert "not understood" in tracked_secret(repo / ".git")
    assert not unasked(repo, "git diff")


def test_what_the_judge_stumbles_over_is_never_allowed(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(*_: object, **__: object) -> None:
        raise IndexError("out of range")

    monkeypatch.setattr(judging, "folders_of", stumble)
    for mode, deny, verdict in [
        ("ask", (), "ask"),
        ("accept-edits", (), "ask"),
        ("plan", (), "deny"),
        ("bypass", (), "deny"),
        ("ask", ("Bash(rm:*)",), "deny"),
    ]:
        permit = Permissions(workspace=Workspace(repo), mode=mode, deny=deny, allow=["Bash(ls:*)"], trusted=True)
        decision = permit.judge("main", TOOLS["Bash"], {}, [Effect("exec", "ls")])
        assert (decision.verdict, decision.read_only) == (verdict, False), mode
        assert mode == "plan" or "IndexError" in decision.reason
