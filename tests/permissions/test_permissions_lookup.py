"""git runs unasked only where the repository's configuration can start nothing, and programs only from outside it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from cowork.core.hygiene import clean_environ
from cowork.core.workspace import Workspace
from cowork.permissions.shell.judge import explain_text, judge

HARMLESS = [
    "",
    "# a comment\n; another\n",
    "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n",
    '[remote "origin"]\n\turl = git@github.com:a/b.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n',
    '[branch "main"]\n\tremote = origin\n\tmerge = refs/heads/main\n',
    "[user]\n\tname = A\n\temail = a@b\n[pull]\n\trebase = true\n",
    "[CORE]\n\tFileMode = true\r\n",
    "[core] filemode = true # why not\n",
]
HARMFUL = [
    "[core]\n\tfsmonitor = x\n",
    "[core] fsmonitor = x\n",
    "[Core]\n\tFSMonitor = x\n",
    "[core]\n\tfsmonitor\n",
    "[core]\n\tpager = x\n",
    "[core]\n\thooksPath = x\n",
    "[core]\n\tworktree = /\n",
    "[core]\n\tsshCommand = x\n",
    "[core]\n\tgitProxy = x\n",
    "[diff]\n\texternal = x\n",
    '[diff "x"]\n\ttextconv = x\n',
    '[diff "x"]\n\tcommand = x\n',
    '[filter "x"]\n\tclean = x\n',
    "[include]\n\tpath = x\n",
    '[includeIf "gitdir:/"]\n\tpath = x\n',
    "[alias]\n\tstatus = !x\n",
    "[gpg]\n\tprogram = x\n",
    "[extensions]\n\tworktreeConfig = true\n",
    "[extensions]\n\tpartialClone = origin\n",
    '[remote "o"]\n\tpromisor = true\n',
    '[remote "o"]\n\tuploadpack = x\n',
    '[remote "o"]\n\turl = ext::sh -c x\n',
    "[credential]\n\thelper = x\n",
    "[status]\n\tsubmoduleSummary = true\n",
    "[log]\n\tshowSignature = true\n",
    "[log]\n\tdate = format:%999999999d\n",
    "[diff]\n# \x0c[push]\n\texternal = x\n",
    "[diff]\n# \x0b[push]\n\texternal = x\n",
    "[diff]\n# \x1c[push]\n\texternal = x\n",
    "[diff]\n# \r[push]\n\texternal = x\n",
    "[diff]\n# \u2028[push]\n\texternal = x\n",
    "[diff]\n# \x85[push]\n\texternal = x\n",
    '[push "]\n[diff]\n\texternal = x\n',
    "[push]\n\tx = a\\\n[diff]\n\texternal = x\n",
    "\ufeff[core]\n\tfsmonitor = x\n",
    "[diff.x]\n\ttextconv = x\n",
    "garbage\n",
]


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    (tmp_path / "repo").mkdir()
    subprocess.run(["git", "init", "-q", str(tmp_path / "repo")], check=True, timeout=30)
    return tmp_path / "repo"


def unasked(repo: Path, command: str = "git status", *, trusted: bool = True) -> bool:
    return judge(command, Workspace(repo), repo, trusted=trusted).read_only


@pytest.mark.parametrize("text", HARMLESS)
def test_an_ordinary_git_configuration_is_no_obstacle(text: str, repo: Path) -> None:
    (repo / ".git/config").write_text(text, newline="")
    assert unasked(repo)
    assert not unasked(repo, trusted=False)


@pytest.mark.parametrize("text", HARMFUL, ids=ascii)
def test_a_git_configuration_that_may_start_a_program_asks(text: str, repo: Path) -> None:
    (repo / ".git/config").write_text(text, newline="")
    assert not unasked(repo)
    assert not unasked(repo, "git log -1")


def git(repo: Path, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=repo, check=True, timeout=30)


def test_a_configuration_behind_a_link_is_looked_at_again_when_it_changes(repo: Path) -> None:
    config = repo / ".git/config"
    target = repo / ".git/settings"
    target.write_text(config.read_text())
    config.unlink()
    config.symlink_to(target)
    assert unasked(repo)
    target.write_text(HARMFUL[0])
    assert not unasked(repo)


# What a folder of git may hold so that git shows a file from elsewhere, reads another repository or waits for ever.
LEADING_OUT = "worktrees/x/gitdir worktrees/x/locked branches/origin remotes/origin rebase-merge/done info/exclude"
LEADING_OUT += " info/attributes refs/heads/x logs/HEAD packed-refs index objects/ab objects/pack/x.idx shallow"


@pytest.mark.parametrize("name", LEADING_OUT.split())
def test_a_link_out_of_the_git_folder_or_a_pipe_in_it_asks(name: str, repo: Path) -> None:
    place = repo / ".git" / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    assert unasked(repo)
    place.symlink_to("/etc/hostname")
    assert not unasked(repo)
    place.unlink()
    os.mkfifo(place)
    assert not unasked(repo)
    place.unlink()
    place.symlink_to(repo / ".git/description")
    assert unasked(repo)


def test_an_object_that_is_a_link_asks(repo: Path) -> None:
    (repo / ".git/objects/ab").mkdir()
    (repo / ".git/objects/ab/cd").write_bytes(b"")
    assert unasked(repo)
    (repo / ".git/objects/ab/ef").symlink_to("/etc/hostname")
    assert not unasked(repo)


@pytest.mark.parametrize("pointer", ["evil ", " evil", "link/../evil", "./" * 2043 + "clean/../evil", "evil\udcff"])
@pytest.mark.parametrize("kind", [".git", "commondir"])
def test_a_pointer_of_git_is_read_as_git_reads_it(kind: str, pointer: str, repo: Path) -> None:
    (repo / "deep/er").mkdir(parents=True)
    (repo / "link").symlink_to("deep/er")
    last = os.path.basename(pointer)
    for place in (repo / last, repo / last.strip(), repo / "deep" / last, repo / "evil\ufffd"):
        shutil.copytree(repo / ".git", place, dirs_exist_ok=True)
    (repo / ("deep" if "link" in pointer else "") / last / "config").write_text(HARMFUL[9])
    if kind == ".git":
        (repo / ".git").rename(repo / "clean")
        (repo / ".git").write_bytes(os.fsencode(f"gitdir: {pointer}\n"))
    else:
        (repo / ".git/commondir").write_bytes(os.fsencode(f"{repo}/{pointer}\n"))
    assert not unasked(repo)


def test_half_a_repository_asks(repo: Path) -> None:
    (repo / "sub/.git").mkdir(parents=True)
    (repo / "sub/.git/HEAD").write_text("A" * 40)
    assert not judge("git status", Workspace(repo), repo / "sub", trusted=True).read_only
    (repo / "bare").mkdir()
    (repo / "bare/HEAD").write_text("ref: refs/heads/main\n")
    assert judge("git status", Workspace(repo), repo / "bare", trusted=True).read_only
    (repo / "bare/commondir").write_text("../.git\n")
    assert not judge("git status", Workspace(repo), repo / "bare", trusted=True).read_only


def test_a_git_folder_that_is_no_repository_hides_none_above(repo: Path) -> None:
    (repo / "sub/.git").mkdir(parents=True)
    assert judge("git status", Workspace(repo), repo / "sub", trusted=True).read_only
    (repo / ".git/config").write_text(HARMFUL[0])
    assert not judge("git status", Workspace(repo / "sub"), repo / "sub", trusted=True).read_only


def test_git_asks_where_there_is_no_repository_or_it_shows_another(repo: Path) -> None:
    (repo / ".git/objects/info").mkdir(exist_ok=True)
    (repo / ".git/objects/info/alternates").write_text("/elsewhere\n")
    assert not unasked(repo)
    (repo / ".git/objects/info/alternates").unlink()
    (repo / ".git/sharedindex.abc").write_text("")
    (repo / ".git/index").write_bytes(b"DIRC\0\0\0\2\0\0\0\0")
    assert not unasked(repo)
    (repo / ".git").rename(repo / "put-aside")
    assert not unasked(repo, "git diff a b")


SHOWING = ["git diff", "git show", "git log -p", "git log -U3", "git log --cc", "git diff --cached", "git grep KEY"]
SHOWING += ["git stash show -p", "git status -v", "git cat-file -p HEAD", "git diff conf", "git log -p -- conf"]
SHOWING += ["git grep README.md", "git show --stat -p", "git diff README.md conf", "git show -- 'conf/.e*'"]
NAMING = ["git diff --stat", "git log --oneline", "git show --name-only", "git grep -l KEY", "git diff README.md"]
NAMING += [
    "git log -p README.md",
    "git show HEAD:README.md",
    "git diff HEAD -- README.md",
    "git status",
    "git cat-file -t HEAD",
]


def test_what_git_would_show_of_a_tracked_secret_asks(repo: Path) -> None:
    (repo / "conf").mkdir()
    (repo / "README.md").write_text("x\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "first")
    assert [command for command in [*SHOWING, *NAMING] if not unasked(repo, command)] == []
    (repo / "conf/.env").write_text("KEY=sk-planted\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "second")
    assert [command for command in SHOWING if unasked(repo, command)] == []
    assert [command for command in NAMING if not unasked(repo, command)] == []


def test_a_search_asks_where_a_secret_would_be_read_at_any_depth(repo: Path) -> None:
    deep = repo / "a/b/c"
    deep.mkdir(parents=True)
    assert unasked(repo, "rg foo")
    assert unasked(repo, "grep -r foo .")
    (deep / ".env").write_text("KEY=x\n")
    assert unasked(repo, "rg foo")
    assert unasked(repo, "rg foo -g '*.py'")
    for command in [
        "grep -r foo .",
        "grep -r foo *",
        "grep -rn foo a",
        "rg --hidden foo",
        "rg foo -g '.e*'",
        "rg -uu x",
    ]:
        assert not unasked(repo, command), command
    (repo / ".ignore").write_text("!.env\n")
    assert not unasked(repo, "rg foo")
    (repo / ".ignore").write_text("")
    (deep / "credentials.json").write_text("{}\n")
    assert not unasked(repo, "rg foo")
    (repo / ".gitignore").write_text("credentials.json\n")
    assert unasked(repo, "rg foo")
    assert not unasked(repo, "rg --no-ignore foo")


def test_a_name_is_the_file_the_program_would_open(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(repo))
    for name in ("~", "file:"):
        (repo / name).symlink_to("/etc")
    assert not unasked(repo, "cat '~/passwd'")
    assert not unasked(repo, "cat 'file:/passwd'")
    assert not unasked(repo, "cat 'file:///passwd'")
    (repo / "[a]b").symlink_to("/etc/passwd")
    assert not unasked(repo, "cat '[a]'*")


def test_a_cd_through_a_link_or_a_closed_door_asks(repo: Path) -> None:
    (repo / "deep/er").mkdir(parents=True)
    (repo / "link").symlink_to("deep/er")
    assert not unasked(repo, "cd link/.. && cat ../x")
    assert not unasked(repo, "cd link && cd .. && cat ../x")
    assert unasked(repo, "cd deep/er && cat ../x")


@pytest.mark.parametrize("folder", ["shims", ".volta/bin", ".asdf/x"])
def test_a_program_that_obeys_the_folder_asks(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "jq").write_text("")
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / folder}:/usr/bin:/bin")
    assert not unasked(tmp_path / "work", "jq . x.json")
    assert unasked(tmp_path / "work", "wc -l x")


def test_wrappers_and_linked_programs_must_come_from_outside_too(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{repo}/bin:/usr/bin:/bin")
    assert unasked(repo, "timeout 5 ls")
    (repo / "bin").mkdir()
    (repo / "bin/timeout").write_text("#!/bin/sh\nevil\n")
    assert not unasked(repo, "timeout 5 ls")
    elsewhere = repo.parent / f"{repo.name}-bin"
    elsewhere.mkdir()
    (elsewhere / "wc").symlink_to(repo / "bin/timeout")
    monkeypatch.setenv("PATH", f"{elsewhere}:/usr/bin:/bin")
    assert not unasked(repo, "wc -l x")


def test_hooks_submodules_and_odd_repositories_ask(repo: Path) -> None:
    assert unasked(repo)
    (repo / ".git/hooks/post-index-change").write_text("x")
    assert not unasked(repo)
    (repo / ".git/hooks/post-index-change").unlink()
    (repo / ".git/index").write_bytes(b"DIRC" + b"\0" * 20 + b"\x00\x00\xe0\x00")
    assert not unasked(repo)
    (repo / ".git/index").unlink()
    (repo / ".git/config.worktree").write_text("")
    assert not unasked(repo)
    (repo / ".git/config.worktree").unlink()
    (repo / ".git/commondir").write_text("../evil")
    (repo / "evil").mkdir()
    (repo / "evil/config").write_text(HARMFUL[0])
    assert not unasked(repo)


def test_a_git_file_is_followed_to_its_configuration(tmp_path: Path) -> None:
    work = tmp_path / "work"
    for name in ("objects", "refs"):
        (work / "real" / name).mkdir(parents=True)
    (work / "real/HEAD").write_text("ref: refs/heads/main\n")
    (work / "real/config").write_text(HARMFUL[0])
    (work / ".git").write_text("gitdir: real\n")
    assert not unasked(work)
    (work / "real/config").write_text(HARMLESS[2])
    assert unasked(work)
    (work / ".git").write_text("nonsense")
    assert not unasked(work)


def test_the_folder_a_command_runs_in_decides(repo: Path) -> None:
    (repo / "sub/.git").mkdir(parents=True)
    (repo / "sub/.git/config").write_text(HARMFUL[0])
    assert unasked(repo)
    assert not judge("git status", Workspace(repo), repo / "sub", trusted=True).read_only
    assert not judge("cat ../x", Workspace(repo / "sub"), repo / "sub", trusted=True).read_only


@pytest.mark.parametrize("path", ["{repo}/bin:/usr/bin:/bin", ".:/usr/bin:/bin", ":/usr/bin:/bin", "bin:/usr/bin:/bin"])
def test_a_program_the_workspace_brings_asks(path: str, repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repo / "bin").mkdir()
    (repo / "bin/ls").write_text("#!/bin/sh\nevil\n")
    (repo / "ls").write_text("#!/bin/sh\nevil\n")
    monkeypatch.chdir(repo)
    monkeypatch.setenv("PATH", path.format(repo=repo))
    assert not unasked(repo, "ls")
    assert unasked(repo, "wc -l x")


def test_children_get_no_relative_path_entries() -> None:
    assert (
        clean_environ({"PATH": f"{os.pathsep}.{os.pathsep}bin{os.pathsep}/usr/bin{os.pathsep}"})["PATH"] == "/usr/bin"
    )


def test_an_explanation_names_every_part_and_shows_no_escapes(repo: Path) -> None:
    text = explain_text("ls && sudo rm x; echo \x1b[31m", Workspace(repo), repo)
    assert "\x1b" not in text
    assert "sudo rm x" in text
    assert "also starts, for deny rules: rm" in text
    assert text.splitlines()[-1] == "the whole: asks"
    assert explain_text("ls", Workspace(repo), repo).splitlines()[-1] == "the whole: runs without asking"
    assert explain_text("rm -rf /", Workspace(repo), repo).splitlines()[-1] == "the whole: refused"


def test_an_explanation_blames_only_the_part_that_never_runs(repo: Path) -> None:
    lines = explain_text("ls && rm -rf / && npm test", Workspace(repo), repo).splitlines()
    assert [line.strip().partition(":")[0] for line in lines[1::2]] == ["runs without asking", "refused", "asks"]
    together = explain_text("f() { f | f & }; f", Workspace(repo), repo)
    assert "refused: f is a function that keeps starting itself" in together
