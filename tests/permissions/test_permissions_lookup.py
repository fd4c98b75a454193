"""git runs unasked only where the repository's configuration can start nothing, and programs only from outside it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from cowork.core.hygiene import clean_environ
from cowork.core.workspace import Workspace
from cowork.permissions.shell import explain_text, judge

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
def repo(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True, timeout=30)
    return tmp_path


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
    (tmp_path / "real").mkdir()
    (tmp_path / "real/config").write_text(HARMFUL[0])
    (tmp_path / "work").mkdir()
    (tmp_path / "work/.git").write_text("gitdir: ../real\n")
    assert not unasked(tmp_path / "work")
    (tmp_path / "real/config").write_text(HARMLESS[2])
    assert unasked(tmp_path / "work")
    (tmp_path / "work/.git").write_text("nonsense")
    assert not unasked(tmp_path / "work")


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
