"""Going back in the middle of what git does, across submodules, on a full disk, and after going back."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from cowork.sessions.checkpoints import entries as nodes
from cowork.sessions.checkpoints.recorder import Checkpoints
from tests.sessions.test_sessions_rewind import git, picture, sh, turn, write


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """Two branches that cannot be merged by themselves."""
    root = tmp_path / "project"
    root.mkdir()
    git(root, "init", "-q", "-b", "trunk")
    git(root, "config", "user.name", "t")
    git(root, "config", "user.email", "t@t")
    for branch, text in (("trunk", "base\n"), ("topic", "theirs\n"), ("trunk", "ours\n")):
        if branch == "topic":
            git(root, "checkout", "-qb", "topic")
        elif text == "ours\n":
            git(root, "checkout", "-q", "trunk")
        (root / "a.txt").write_text(text)
        (root / f"{text.strip()}.txt").write_text("only here\n")
        git(root, "add", ".")
        git(root, "commit", "-qm", text.strip())
    return root


@pytest.fixture
def points(tmp_path: Path, repo: Path) -> Checkpoints:
    return Checkpoints(tmp_path / "store", repo)


def state_of_git(repo: Path) -> tuple[object, ...]:
    """Everything of git's own that must stay: index, refs, what is under way."""
    inside = repo / ".git"
    kept = [p for p in inside.rglob("*") if p.is_file() and p.name not in ("COMMIT_EDITMSG", "index.lock")]
    return tuple(sorted((str(p.relative_to(inside)), p.read_bytes()) for p in kept))


@pytest.mark.parametrize("step", ["merge topic", "rebase topic", "cherry-pick topic"])
def test_in_the_middle_of_a_merge_only_files_go_back(repo: Path, points: Checkpoints, step: str) -> None:
    started = subprocess.run(["git", *step.split()], cwd=repo, capture_output=True)
    assert started.returncode  # it stopped at the conflict
    before, mine = picture(repo), state_of_git(repo)
    turn(points, 1, sh(repo, "printf 'solved\\n' > a.txt; rm -f theirs.txt; echo new > new.txt"))
    points.restore(points.preview(1))
    assert picture(repo) == before
    assert state_of_git(repo) == mine
    turn(points, 2, sh(repo, "printf 'solved\\n' > a.txt; git add -A; git -c core.editor=true commit -qm solved"))
    points.restore(points.preview(2))
    assert picture(repo) == before  # the conflict is in the file again; the commit stays made


@pytest.mark.parametrize("step", ["merge topic", "rebase topic"])
def test_a_merge_that_the_agent_began_is_undone_in_the_files(repo: Path, points: Checkpoints, step: str) -> None:
    before = picture(repo)
    turn(points, 1, sh(repo, f"git {step} || true"))
    assert picture(repo) != before
    points.restore(points.preview(1))
    assert picture(repo) == before


def test_files_in_a_submodule_come_back(repo: Path, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    (inner / "lib.c").write_text("int x;\n")
    git(inner, "add", ".")
    git(inner, "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "first")
    git(repo, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "lib")
    points = Checkpoints(tmp_path / "store", repo)
    before, mine = picture(repo), state_of_git(repo)
    turn(points, 1, sh(repo, "echo 'int y;' >> lib/lib.c; rm a.txt; echo z > lib/new.c"))
    points.restore(points.preview(1))
    assert picture(repo) == before
    assert state_of_git(repo) == mine


def test_going_back_goes_further_back_and_on_in_another_process(
    repo: Path, points: Checkpoints, tmp_path: Path
) -> None:
    pictures = [picture(repo)]
    for prompt in (1, 2, 3):
        turn(points, prompt, write(repo / "a.txt", f"{prompt}\n"), sh(repo, f"echo {prompt} > made{prompt}.txt"))
        pictures.append(picture(repo))
    points.restore(points.preview(3))
    turn(points, 4, sh(repo, "rm made1.txt; echo four > a.txt"))
    points.restore(points.preview(4))
    assert picture(repo) == pictures[2]
    points.close()
    again = Checkpoints(tmp_path / "store", repo)
    again.restore(again.preview(2))
    assert picture(repo) == pictures[1]
    assert again.restore(again.preview(1)).failed == ()
    assert picture(repo) == pictures[0]
    assert again.preview(1).steps == ()


def test_a_disk_that_fills_up_while_going_back_loses_nothing(
    repo: Path, points: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What could not be put back is named, stays as it was, and comes back at the next try."""
    before = picture(repo)
    turn(points, 1, sh(repo, "for f in *.txt; do echo changed > $f; done; chmod 600 a.txt; ln -s a.txt link"))
    changed = picture(repo)
    real, written = nodes._fill, []

    def fill(name: str, folder: int, mode: int, data: bytes, owner: tuple[int, int]) -> None:
        written.append(name)
        if len(written) > 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(name, folder, mode, data, owner)

    monkeypatch.setattr(nodes, "_fill", fill)
    done = points.restore(points.preview(1))
    assert done.failed
    assert all("space" in why for _, why in done.failed)
    now = picture(repo)
    assert all(now[path] == changed[path] for path, _ in done.failed)
    assert not any(".cowork-" in path for path in now)
    monkeypatch.setattr(nodes, "_fill", real)
    points.restore(points.preview(1))
    assert picture(repo) == before
