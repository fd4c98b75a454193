from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cowork.core.errors import UserError
from cowork.core.events import PromptAdded, TurnEnded
from cowork.sessions.checkpoints.recorder import Checkpoints
from cowork.sessions.checkpoints.scan import TICK_NS, TooManyFiles
from cowork.sessions.checkpoints.store import JOURNAL, Contents

SOAK = bool(os.environ.get("COWORK_SOAK"))
KINDS = ("git", "plain")
Picture = dict[str, tuple[str, int, bytes]]


def git(folder: Path, *args: str) -> str:
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false", *args]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def picture(folder: Path) -> Picture:
    """Every entry with its kind, mode and bytes, .git left out."""
    found: Picture = {}
    for top, folders, files in os.walk(folder):
        folders[:] = [f for f in folders if f != ".git"]
        for name in [*folders, *files]:
            path = os.path.join(top, name)
            status = os.lstat(path)
            shown = os.path.relpath(path, folder)
            if stat.S_ISLNK(status.st_mode):
                found[shown] = ("l", 0, os.fsencode(os.readlink(path)))
            elif stat.S_ISDIR(status.st_mode):
                found[shown] = ("d", stat.S_IMODE(status.st_mode), b"")
            else:
                found[shown] = ("f", stat.S_IMODE(status.st_mode), Path(path).read_bytes())
    return found


@pytest.fixture(params=KINDS)
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A small project, in a git repository with a clean, a dirty, a staged and an untracked file, or without git."""
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "src" / "app.py").write_text("one\ntwo\nthree\n")
    (root / "src" / "other.py").write_text("def other(): pass\n")
    (root / "README.md").write_text("read me\n")
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "data.bin").write_bytes(bytes(range(256)) * 10)
    (root / "empty").touch()
    (root / "link").symlink_to("src/app.py")
    (root / ".gitignore").write_text("*.log\nbuild/\n.env\n")
    if request.param == "git":
        git(root, "init", "-q")
        git(root, "add", ".")
        git(root, "commit", "-qm", "first")
        (root / "README.md").write_text("read me, dirty\n")
        (root / "staged.txt").write_text("staged\n")
        git(root, "add", "staged.txt")
    (root / "untracked.txt").write_text("untracked\n")
    (root / "debug.log").write_text("old log\n")
    (root / ".env").write_text("SECRET=1\n")
    (root / "build").mkdir()
    (root / "build" / "out.o").write_bytes(b"\x7fELF")
    return root


def let_it_age(folder: Path) -> None:
    """Wait until everything is older than what a look takes for fresh."""
    newest = max(os.lstat(os.path.join(top, f)).st_ctime_ns for top, _, files in os.walk(folder) for f in files)
    while time.time_ns() < newest + 2 * TICK_NS:
        time.sleep(0.01)


@pytest.fixture
def points(tmp_path: Path, project: Path) -> Checkpoints:
    return Checkpoints(tmp_path / "store", project)


def sh(project: Path, command: str) -> Callable[[Checkpoints], None]:
    def run(points: Checkpoints) -> None:
        asyncio.run(points.before_command())
        subprocess.run(["bash", "-c", command], cwd=project, check=True)

    return run


def write(path: Path, text: str) -> Callable[[Checkpoints], None]:
    """What the file tools do: say so, then replace the file."""

    def run(points: Checkpoints) -> None:
        points.before_write(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(".draft")
        draft.write_text(text)
        if path.exists():
            draft.chmod(stat.S_IMODE(path.stat().st_mode))
        os.replace(draft, path)

    return run


def turn(points: Checkpoints, prompt: int, *actions: Callable[[Checkpoints], None]) -> tuple[str, ...]:
    points.begin(prompt)
    for action in actions:
        action(points)
    return points.end()


COMMANDS = [
    "sed -i s/two/TWO/ src/app.py",
    "echo more >> src/app.py",
    "rm -r src",
    "rm link && ln -s README.md link",
    "rm link && echo now a file > link",
    "mv src/app.py src/renamed.py",
    "mv src source",
    "chmod 600 run.sh",
    "truncate -s 0 data.bin",
    "rm empty data.bin untracked.txt",
    "echo x > new.txt; mkdir -p a/b/c; echo y > a/b/c/new.txt; mkdir hollow",
    "rm README.md && mkdir README.md && echo inside > README.md/file",
    "rm -r src && echo now a file > src",
    "rm -r src && mkdir ../elsewhere && ln -s ../elsewhere src",
    "printf '*\\n' > .gitignore; echo w >> README.md",
    "ln -s nowhere dangling; printf 'x' > $'odd \\xff\\n name'; printf y > $'tab\\there'",
    "cp src/app.py src/copy.py; rm src/app.py; mkdir src/app.py",
    "for i in $(seq 50); do echo $i > file$i.txt; done",
    "touch src/app.py run.sh",
    "chmod 700 src",
]


# Every other command with git and the rest without; the soak has each in both.
DONE_IN = [(kind, c) for n, c in enumerate(COMMANDS) for kind in (KINDS if SOAK else [KINDS[n % 2]])]


@pytest.mark.soak
@pytest.mark.parametrize(("project", "command"), DONE_IN, indirect=["project"])
def test_whatever_a_command_did_is_undone_to_the_byte(project, points, command):
    before = picture(project)
    changed = turn(points, 1, sh(project, command))
    after = picture(project)
    plan = points.preview(1)
    assert picture(project) == after, "a preview changes nothing"
    assert {s.path for s in plan.steps} == {p for p in before | after if before.get(p) != after.get(p)} == set(changed)
    done = points.restore(plan)
    assert picture(project) == before
    assert (done.kept, done.failed) == ((), ())


def test_edits_commands_and_children_of_several_prompts_are_undone_back_to_any_of_them(project, points):
    pictures = [picture(project)]
    turn(points, 10, write(project / "src/app.py", "edited\n"), write(project / "docs/new/guide.md", "guide\n"))
    pictures.append(picture(project))
    turn(
        points, 20, sh(project, "sed -i s/edited/again/ src/app.py; rm README.md"), write(project / "README.md", "r\n")
    )
    pictures.append(picture(project))
    turn(points, 30)  # nothing changed
    turn(points, 40, write(project / "src/app.py", "last\n"), sh(project, "mv docs documentation; rm -f data.bin"))
    for prompt, expected in [(40, pictures[2]), (30, pictures[2]), (20, pictures[1]), (10, pictures[0])]:
        done = points.restore(points.preview(prompt))
        assert picture(project) == expected
        assert done.failed == ()
        assert done.kept == ()
    assert points.preview(10).steps == ()


def test_as_a_sink_of_events_each_prompt_of_the_person_is_a_place_to_go_back_to(project, points):
    pictures = []
    for number, source in enumerate(["user", "steer", "system", "queue"], 1):
        pictures.append(picture(project))
        points(PromptAdded("x", source=source, id=number * 10))
        points(PromptAdded("child's", id=number * 10 + 1, agent="main/explore-1"))
        write(project / "src/app.py", f"{source}\n")(points)
        points(TurnEnded(id=number * 10 + 2, agent="main/explore-1"))
        sh(project, f"echo {source} > {source}.txt")(points)
    points(TurnEnded(id=90))
    for number in (4, 2, 1):
        points.restore(points.preview(number * 10))
        assert picture(project) == pictures[number - 1]


def test_going_back_several_prompts_at_once(project, points):
    before = picture(project)
    turn(points, 1, write(project / "src/app.py", "1\n"))
    turn(points, 2, sh(project, "echo 2 > src/app.py; rm README.md"))
    turn(points, 3, write(project / "README.md", "3\n"), sh(project, "echo 3 >> src/app.py"))
    points.restore(points.preview(1))
    assert picture(project) == before


def test_a_preview_says_what_would_happen_with_line_counts(project, points):
    turn(
        points,
        1,
        write(project / "src/app.py", "one\nTWO\nthree\nfour\n"),
        sh(project, "rm data.bin; echo n > new.txt"),
    )
    shown = {s.path: (s.action, s.added, s.removed, s.conflict) for s in points.preview(1).files}
    assert shown == {
        "src/app.py": ("modify", 1, 2, False),
        "data.bin": ("create", None, None, False),
        "new.txt": ("delete", 0, 1, False),
    }


def test_only_files_and_empty_folders_are_shown(project, points):
    turn(points, 1, sh(project, "mkdir -p a/b hollow; echo x > a/b/c"))
    assert [s.path for s in points.preview(1).files] == ["a/b/c", "hollow"]


# ---------------------------------------------------------------- anything, in any order

NAMES = ["a", "b", "d/a", "d/b", "d/e/a", "f", "f/a", ".gitignore"]


def act(root: Path, points: Checkpoints, kind: str, name: str, other: str) -> None:
    """One thing a tool or a command may do; what cannot be done is left."""
    path, second = root / name, root / other
    tool = kind == "write"
    if tool:
        points.before_write(path)
    else:
        asyncio.run(points.before_command())
    with contextlib.suppress(OSError, shutil.Error):
        if kind in ("write", "create"):
            path.parent.mkdir(parents=True, exist_ok=True)
            draft = path.parent / ".draft"
            draft.write_text(f"{other}\n" * 3)
            os.replace(draft, path)
        elif kind == "append":
            with path.open("a") as file:
                file.write(other)
        elif kind == "move":
            second.parent.mkdir(parents=True, exist_ok=True)
            os.rename(path, second)
        elif kind == "remove":
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        elif kind == "link":
            path.parent.mkdir(parents=True, exist_ok=True)
            os.symlink(other, path)
        elif kind == "mode" and not path.is_symlink():
            path.chmod(0o700 if path.is_dir() else 0o640)
        elif kind == "folder":
            path.mkdir(parents=True)
    with contextlib.suppress(OSError):
        (root / name).parent.joinpath(".draft").unlink()


actions = st.tuples(
    st.sampled_from(["write", "create", "append", "move", "remove", "link", "mode", "folder"]),
    st.sampled_from(NAMES[:-1]),
    st.sampled_from(NAMES[:-1]),
)


@pytest.mark.soak
@example([], [[("create", "a", "a"), ("write", "a", "a"), ("move", "a", "b")]], [0], False, False)
@example([], [[("create", "d/b", "a"), ("write", "d/b", "a"), ("move", "d/b", "a")]], [0], False, False)
@settings(max_examples=1000 if SOAK else 40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    start=st.lists(actions, max_size=8),
    rounds=st.lists(st.lists(actions, max_size=6), min_size=1, max_size=4),
    back_to=st.lists(st.integers(0, 3), min_size=1, max_size=3),
    with_git=st.booleans(),
    reopen=st.booleans(),
)
def test_any_history_can_be_taken_back_to_any_prompt(tmp_path_factory, start, rounds, back_to, with_git, reopen):
    top = tmp_path_factory.mktemp("any")
    root = top / "project"
    root.mkdir()
    setup = Checkpoints(top / "setup", root)
    for action in start:
        act(root, setup, *action)
    if with_git:
        git(root, "init", "-q")
        git(root, "add", ".")
    points = Checkpoints(top / "store", root)
    pictures = []
    for number, steps in enumerate(rounds):
        pictures.append(picture(root))
        points.begin(number + 1)
        for action in steps:
            act(root, points, *action)
        points.end()
    if reopen:
        points.close()
        points = Checkpoints(top / "store", root)
    for place in sorted({min(b, len(rounds) - 1) for b in back_to}, reverse=True):
        done = points.restore(points.preview(place + 1))
        assert picture(root) == pictures[place]
        assert (done.kept, done.failed) == ((), ())
    points.close()
    shutil.rmtree(top)


# ---------------------------------------------------------------- others are at work too


def test_a_file_changed_outside_since_is_left_alone_and_the_rest_is_restored(project, points):
    turn(points, 1, write(project / "src/app.py", "mine\n"), sh(project, "echo mine > README.md"))
    (project / "README.md").write_text("the person's\n")
    plan = points.preview(1)
    assert [s.path for s in plan.conflicts] == ["README.md"]
    done = points.restore(plan)
    assert done.kept == ("README.md",)
    assert (project / "README.md").read_text() == "the person's\n"
    assert (project / "src/app.py").read_text() == "one\ntwo\nthree\n"


def test_forced_it_is_restored_and_what_was_there_is_in_the_backup(project, points):
    turn(points, 1, write(project / "src/app.py", "mine\n"), sh(project, "rm run.sh; mkdir run.sh"))
    (project / "src/app.py").write_text("the person's\n")
    (project / "run.sh" / "inside").write_text("also theirs\n")
    done = points.restore(points.preview(1), force=True)
    assert (project / "src/app.py").read_text() == "one\ntwo\nthree\n"
    assert (done.backup / "src/app.py").read_text() == "the person's\n"
    assert (project / "run.sh/inside").read_text() == "also theirs\n", "a folder with others' files stays"
    assert [path for path, _ in done.failed] + list(done.kept) == ["run.sh"]
    for path in [done.backup, *done.backup.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


def test_forced_a_file_comes_back_into_a_folder_that_the_person_removed(project, points):
    points.begin(1)
    points.before_write(project / "src/app.py")
    (project / "src/app.py").write_text("changed\n")
    points.end()
    shutil.rmtree(project / "src")
    done = points.restore(points.preview(1), force=True)
    assert (done.restored, done.failed) == (("src/app.py",), ())
    assert (project / "src/app.py").read_text() == "one\ntwo\nthree\n"


def test_a_pipe_in_the_place_of_a_file_stays_and_is_said(project, points):
    points.begin(1)
    points.before_write(project / "README.md")
    (project / "README.md").unlink()
    os.mkfifo(project / "README.md")
    points.end()
    done = points.restore(points.preview(1), force=True)
    assert (done.restored, done.failed) == ((), (("README.md", "It is not a file any more."),))
    assert stat.S_ISFIFO(os.lstat(project / "README.md").st_mode)


def test_lines_of_files_too_long_to_align_are_counted(project, points):
    points.begin(1)
    points.before_write(project / "long")
    (project / "long").write_text("".join(f"{n}\n" for n in range(5_000)))
    points.end()
    points.begin(2)
    points.before_write(project / "long")
    (project / "long").write_text("".join(f"{n}\n" for n in range(3, 5_001)))
    points.end()
    (step,) = points.preview(2).files
    assert (step.added, step.removed) == (3, 1)


def test_a_change_after_the_preview_is_seen_by_the_restore(project, points):
    turn(points, 1, write(project / "src/app.py", "mine\n"))
    plan = points.preview(1)
    (project / "src/app.py").write_text("just now\n")
    assert points.restore(plan).kept == ("src/app.py",)
    assert (project / "src/app.py").read_text() == "just now\n"


def test_a_change_by_others_between_two_prompts_is_a_conflict_for_going_back_past_it(project, points):
    turn(points, 1, write(project / "src/app.py", "first\n"))
    (project / "src/app.py").write_text("theirs\n")
    turn(points, 2, sh(project, "echo second >> src/app.py"))
    assert [s.conflict for s in points.preview(1).files] == [True]
    assert [s.conflict for s in points.preview(2).files] == [False]
    points.restore(points.preview(2))
    assert (project / "src/app.py").read_text() == "theirs\n"
    assert points.restore(points.preview(1)).kept == ("src/app.py",)
    done = points.restore(points.preview(1), force=True)
    assert done == type(done)(), "it was given up with the first try"


def test_files_of_others_in_a_created_folder_stay(project, points):
    turn(points, 1, sh(project, "mkdir made; echo x > made/ours"))
    (project / "made" / "theirs").write_text("t")
    done = points.restore(points.preview(1))
    assert sorted(os.listdir(project / "made")) == ["theirs"]
    assert done.kept == ("made",)


def test_a_new_folder_with_ignored_files_is_no_change_of_its_own(project, points):
    (project / ".gitignore").write_text("*.pyc\n")
    made = "mkdir -p made/__pycache__ cache/deep; echo x > made/a.py; echo x > made/__pycache__/a.pyc"
    turn(points, 1, sh(project, f"{made}; echo '*' > cache/.gitignore; touch cache/deep/x"))
    plan = points.preview(1)
    assert [step.path for step in plan.files] == ["made/a.py"]
    done = points.restore(plan)
    assert (done.restored, done.kept, done.failed) == (("made/a.py",), (), ())
    assert (project / "made/__pycache__/a.pyc").exists()


def test_what_others_changed_elsewhere_is_not_touched(project, points):
    turn(points, 1, write(project / "src/app.py", "mine\n"))
    (project / "README.md").write_text("theirs\n")
    assert [s.path for s in points.preview(1).steps] == ["src/app.py"]


def test_a_link_put_in_the_way_leads_nowhere(project, points, tmp_path):
    turn(points, 1, sh(project, "echo changed > src/app.py"))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "app.py").write_text("changed\n")
    shutil.rmtree(project / "src")
    (project / "src").symlink_to(elsewhere)
    done = points.restore(points.preview(1), force=True)
    assert (elsewhere / "app.py").read_text() == "changed\n"
    assert [path for path, _ in done.failed] == ["src/app.py"]


# ---------------------------------------------------------------- ignored files


def test_ignored_files_are_left_alone_unless_a_file_tool_changed_them(project, points):
    turn(
        points,
        1,
        sh(project, "echo new >> debug.log; rm -r build; echo x > trace.log"),
        write(project / ".env", "SECRET=2\n"),
    )
    assert [s.path for s in points.preview(1).steps] == [".env"]
    points.restore(points.preview(1))
    assert (project / ".env").read_text() == "SECRET=1\n"
    assert (project / "debug.log").read_text() == "old log\nnew\n"
    assert (project / "trace.log").exists()
    assert not (project / "build").exists()


def test_a_file_that_stops_being_ignored_is_not_taken_for_a_new_one(project, points):
    let_it_age(project)
    turn(points, 1, sh(project, "printf '' > .gitignore; echo x > new.txt"))
    assert {s.path for s in points.preview(1).steps} == {".gitignore", "new.txt"}
    points.restore(points.preview(1))
    assert (project / "debug.log").read_text() == "old log\n"
    assert (project / "build/out.o").exists()


@pytest.mark.parametrize("project", ["git"], indirect=True)
def test_a_tracked_file_in_an_ignored_place_is_covered(project, points):
    git(project, "add", "-f", "build/out.o", "debug.log")
    git(project, "commit", "-qm", "forced")
    turn(points, 1, sh(project, "rm build/out.o; echo x >> debug.log"))
    points.restore(points.preview(1))
    assert (project / "build/out.o").read_bytes() == b"\x7fELF"
    assert (project / "debug.log").read_text() == "old log\n"


# ---------------------------------------------------------------- git stays the user's


@pytest.mark.parametrize("project", ["git"], indirect=True)
def test_the_users_index_stash_and_history_are_never_touched(project, points):
    (project / "src/other.py").write_text("stash me\n")
    git(project, "stash", "-q")
    states = []
    for _ in range(2):
        index = (project / ".git/index").read_bytes()
        refs = git(project, "for-each-ref") + git(project, "reflog") + git(project, "stash", "list")
        objects = sorted(p.name for p in (project / ".git/objects").rglob("*"))
        states.append((index, refs, objects))
        turn(points, 1, sh(project, "echo x > src/app.py; rm src/other.py"))
        points.restore(points.preview(1))
    assert states[0] == states[1]


@pytest.mark.parametrize("project", ["git"], indirect=True)
@pytest.mark.parametrize(
    "command",
    [
        "git commit -qam all && echo x > src/app.py",
        "git checkout -q -b topic && git rm -q src/other.py && git commit -qm removed",
        "git reset -q --hard",
        "git stash -q -u",
        "echo x > src/app.py && git add -A && git commit -q --amend -m new && git reflog expire --expire=now --all",
    ],
)
def test_files_come_back_after_git_commands_too(project, points, command):
    before = picture(project)
    turn(points, 1, sh(project, f"git config user.name t; git config user.email t@t; {command}"))
    points.restore(points.preview(1))
    assert picture(project) == before


@pytest.mark.parametrize("project", ["git"], indirect=True)
def test_contents_survive_the_end_of_the_repository(project, points):
    before = picture(project)
    turn(points, 1, sh(project, "sed -i s/two/2/ src/app.py"))
    shutil.rmtree(project / ".git")
    points.restore(points.preview(1))
    assert picture(project) == before


@pytest.mark.parametrize("project", ["git"], indirect=True)
@pytest.mark.parametrize("attributes", ["* text=auto eol=crlf\n", "*.py filter=swap\n", "*.py ident\n"])
def test_conversions_between_git_and_the_files_do_not_change_a_byte(project, points, attributes):
    git(project, "config", "filter.swap.clean", "tr a-z n-za-m")
    git(project, "config", "filter.swap.smudge", "tr n-za-m a-z")
    (project / ".gitattributes").write_text(attributes)
    (project / "src/id.py").write_text("$Id$\nword\n")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "converted")
    for path in ("src/id.py", "src/app.py"):
        (project / path).unlink()
        git(project, "checkout", "-q", path)
    before = picture(project)
    turn(points, 1, sh(project, "rm src/*.py"))
    points.restore(points.preview(1))
    assert picture(project) == before


@pytest.mark.parametrize("project", ["git"], indirect=True)
def test_nothing_a_hostile_repository_names_is_run(project, points, tmp_path):
    proof = tmp_path / "ran"
    for key in ("core.fsmonitor", "core.pager", "core.sshCommand", "filter.evil.clean", "filter.evil.smudge"):
        git(project, "config", key, f"touch {proof} #")
    git(project, "config", "extensions.partialClone", "evil")
    git(project, "config", "remote.evil.url", f"ext::touch {proof}")
    git(project, "config", "remote.evil.promisor", "true")
    (project / ".git/info/attributes").write_text("* filter=evil\n")
    for path in (project / ".git/objects").glob("??/*"):
        path.chmod(0o600)
        path.unlink()
    before = picture(project)
    turn(points, 1, sh(project, "echo x > src/app.py"))
    points.restore(points.preview(1))
    assert picture(project) == before
    assert not proof.exists()


@pytest.mark.parametrize("project", ["git"], indirect=True)
@pytest.mark.parametrize("version", ["2", "4"])
def test_clean_files_are_not_copied(project, tmp_path, version):
    git(project, "update-index", "--index-version", version)
    index = project / ".git/index"
    os.utime(index, ns=(index.stat().st_mtime_ns + 10**9,) * 2)  # git looked long after the files were written
    points = Checkpoints(tmp_path / "store", project)
    turn(points, 1, sh(project, "true"))
    kept = (tmp_path / "store" / "contents.pack").read_bytes()
    assert b"read me, dirty" in kept
    assert b"untracked" in kept
    assert b"def other" not in kept
    assert bytes(range(256)) not in kept


@pytest.mark.parametrize("project", ["git"], indirect=True)
def test_a_folder_inside_a_repository_and_a_worktree_are_covered(project, tmp_path):
    git(project, "worktree", "add", "-q", str(tmp_path / "tree"))
    for root in (project / "src", tmp_path / "tree"):
        points = Checkpoints(tmp_path / f"store-{root.name}", root)
        before = picture(root)
        turn(points, 1, sh(root, "find . -name '*.py' -exec rm {} +; echo x > y"))
        assert picture(root) != before
        points.restore(points.preview(1))
        assert picture(root) == before


def test_what_a_background_child_changes_after_the_answer_belongs_to_its_prompt(project, points):
    before = picture(project)
    turn(points, 1, write(project / "src/app.py", "1\n"))
    write(project / "src/app.py", "late\n")(points)
    sh(project, "rm README.md; echo x > late.txt")(points)
    middle = picture(project)
    turn(points, 2, write(project / "late.txt", "2\n"))
    points.restore(points.preview(2))
    assert picture(project) == middle
    points.restore(points.preview(1))
    assert picture(project) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")
def test_files_stay_their_owners(project, points):
    for path in ("src/app.py", "src", "README.md"):
        os.chown(project / path, 65534, 65534)
    turn(points, 1, sh(project, "echo x > README.md; rm src/app.py"))
    points.restore(points.preview(1))
    for path in ("README.md", "src/app.py"):
        status = (project / path).stat()
        assert (status.st_uid, status.st_gid) == (65534, 65534)


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "killed"])
def test_another_folder_is_never_rewound_by_what_was_done_in_the_first(project, points, tmp_path, closed):
    other = tmp_path / "other"
    before = picture(project)
    points.begin(1)
    sh(project, "echo x > new.txt; rm README.md")(points)
    shutil.copytree(project, other, symlinks=True)
    if closed:
        points.close()
    there = Checkpoints(tmp_path / "store", other)
    copied = picture(other)
    assert there.preview(1).steps == ()
    turn(there, 2, sh(other, "rm empty"))
    assert [s.path for s in there.preview(1).steps] == ["empty"]
    there.restore(there.preview(1))
    there.close()
    assert picture(other) == copied
    if closed:  # and in the first it can be taken back as ever, even when that was moved meanwhile
        moved = project.rename(tmp_path / "moved")
        again = Checkpoints(tmp_path / "store", moved)
        again.restore(again.preview(1))
        assert picture(moved) == before


@contextlib.contextmanager
def an_ordinary_user() -> Iterator[Path]:
    """A folder where modes bind us, as they bind everybody but root."""
    with tempfile.TemporaryDirectory() as folder:
        if os.geteuid() != 0:
            yield Path(folder)
            return
        os.chown(folder, 65534, 65534)
        os.setresuid(65534, 65534, 0)
        try:
            yield Path(folder)
        finally:
            os.setresuid(0, 0, 0)


@pytest.mark.parametrize(
    ("start", "command"),
    [
        ("chmod 555 d", "chmod 755 d; rm -rf d"),
        ("chmod 555 d", "chmod 755 d; rm d/a; echo n > d/n; chmod 555 d"),
        ("chmod 555 d", "echo more >> d/a"),
        ("chmod 555 d", "mv d other"),
        ("true", "echo n > d/n; chmod 555 d"),
        ("true", "echo more > d/a; chmod 000 d"),
        ("true", "mkdir -p k/l; echo 1 > k/l/f; chmod 555 k/l k"),
    ],
)
def test_folders_that_may_not_be_written_go_back_too(start, command):
    with an_ordinary_user() as folder:
        project = folder / "project"
        subprocess.run(["mkdir", "-p", project / "d" / "e"], check=True)
        subprocess.run(["bash", "-c", f"echo a > d/a; echo b > d/e/b; {start}"], cwd=project, check=True)
        points = Checkpoints(folder / "store", project)
        before = picture(project)
        turn(points, 1, sh(project, command))
        done = points.restore(points.preview(1), force="000" in command)
        assert (done.kept, done.failed) == ((), ())
        assert picture(project) == before
        subprocess.run(["chmod", "-R", "u+w", folder], check=True)


# ---------------------------------------------------------------- crashes, limits, trouble


def test_a_turn_that_a_crash_cut_off_can_be_rewound(project, points, tmp_path):
    before = picture(project)
    points.begin(7)
    write(project / "docs/new.md", "n\n")(points)
    write(project / ".env", "SECRET=2\n")(points)
    sh(project, "sed -i s/two/2/ src/app.py; rm README.md; echo x > new.txt")(points)
    again = Checkpoints(tmp_path / "store", project)  # the first process is gone
    again.restore(again.preview(7))
    assert picture(project) == before


def test_checkpoints_outlive_the_process(project, points, tmp_path):
    before = picture(project)
    turn(points, 1, sh(project, "rm -r src; echo x > new.txt"))
    turn(points, 2, write(project / "new.txt", "y\n"))
    points.close()
    again = Checkpoints(tmp_path / "store", project)
    again.restore(again.preview(1))
    assert picture(project) == before
    assert Checkpoints(tmp_path / "store", project).preview(1).steps == ()


def test_a_torn_journal_loses_only_its_tail(project, points, tmp_path):
    turn(points, 1, write(project / "src/app.py", "1\n"))
    turn(points, 2, write(project / "README.md", "2\n"))
    points.close()
    journal = tmp_path / "store" / JOURNAL
    journal.write_bytes(journal.read_bytes()[:-10])
    again = Checkpoints(tmp_path / "store", project)
    assert [s.path for s in again.preview(1).steps] == ["src/app.py"]
    turn(again, 3, write(project / "run.sh", "3\n"))
    again.close()
    assert [s.path for s in Checkpoints(tmp_path / "store", project).preview(1).steps] == ["run.sh", "src/app.py"]


def test_the_store_is_private_and_not_part_of_the_workspace(project):
    store = project / ".state" / "store"
    points = Checkpoints(store, project)
    turn(points, 1, sh(project, "echo x > new.txt"))
    assert [s.path for s in points.preview(1).steps] == ["new.txt"]
    turn(points, 2, sh(project, "echo y > new.txt"))
    points.restore(points.preview(2))
    sh(project, "true")(points)
    files = [p for p in store.rglob("*") if p.is_file()]
    assert {p.name for p in files} >= {"contents.pack", "journal.jsonl", "new.txt", "open-tree.jsonl"}
    assert {stat.S_IMODE(p.stat().st_mode) for p in files} == {0o600}
    assert stat.S_IMODE(store.stat().st_mode) == 0o700


def test_a_file_too_large_to_keep_is_said_and_the_rest_comes_back(project, points):
    with open(project / "huge.bin", "wb") as file:
        file.truncate(40 * 1024 * 1024)
    turn(points, 1, sh(project, "echo x >> huge.bin; echo x > src/app.py"))
    plan = points.preview(1)
    assert {s.path: bool(s.problem) for s in plan.steps} == {"huge.bin": True, "src/app.py": False}
    done = points.restore(plan)
    assert done.restored == ("src/app.py",)
    assert "too large" in dict(done.failed)["huge.bin"]


@pytest.mark.parametrize("project", ["plain"], indirect=True)
def test_closing_keeps_only_what_a_rewind_can_need(project, points, tmp_path):
    before = picture(project)
    turn(points, 1, sh(project, "echo x > README.md"))
    pack = tmp_path / "store" / "contents.pack"
    assert b"def other" in pack.read_bytes()
    points.close()
    assert b"def other" not in pack.read_bytes()
    assert b"read me" in pack.read_bytes()
    again = Checkpoints(tmp_path / "store", project)
    turn(again, 2, sh(project, "rm -r src"))
    again.restore(again.preview(1))
    assert picture(project) == before


def test_contents_survive_a_torn_end_and_a_full_disk(tmp_path, monkeypatch):
    blobs = Contents(tmp_path, limit=10_000)
    names = [blobs.put(bytes([n]) * 100) for n in range(5)]
    blobs.close()
    pack = tmp_path / "contents.pack"
    pack.write_bytes(pack.read_bytes()[:-30])
    blobs = Contents(tmp_path, limit=10_000)
    assert [blobs.get(name) for name in names] == [*(bytes([n]) * 100 for n in range(4)), None]
    room = [50]
    real = os.write

    def write(fd: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(28, "No space left on device")
        done = real(fd, data[: room[0]])
        room[0] -= done
        return done

    monkeypatch.setattr("cowork.sessions.checkpoints.store.os.write", write)
    lost = blobs.put(b"lost" * 100)
    with pytest.raises(OSError, match="No space"):
        blobs.flush()
    assert lost not in blobs
    room[0] = 10**6
    kept = blobs.put(b"kept" * 100)
    blobs.keep_only([kept, names[1]])
    blobs.close()
    again = Contents(tmp_path, limit=10_000)
    assert (again.get(kept), again.get(names[1]), again.get(names[0])) == (b"kept" * 100, b"\1" * 100, None)
    again.close()


def test_the_store_is_bounded_and_says_when_it_is_full(project, tmp_path):
    said: list[str] = []
    for n in range(20):
        (project / f"bulk{n}").write_bytes(os.urandom(1000))
    points = Checkpoints(tmp_path / "store", project, report=said.append, limit=10_000)
    for prompt in range(1, 4):
        turn(points, prompt, sh(project, "true"))
    assert (tmp_path / "store" / "contents.pack").stat().st_size <= 10_000
    assert len(said) == 1
    assert "full" in said[0]


def test_a_tree_too_large_to_look_at_is_said_and_file_tools_are_still_covered(project, tmp_path, monkeypatch):
    said: list[str] = []

    def endless(*args: object, **kwargs: object) -> None:
        raise TooManyFiles

    monkeypatch.setattr("cowork.sessions.checkpoints.scan.walk", endless)
    points = Checkpoints(tmp_path / "store", project, report=said.append)
    turn(points, 1, sh(project, "echo x > README.md"), sh(project, "true"), write(project / "src/app.py", "x\n"))
    assert len(said) == 1
    assert "too many files" in said[0]
    points.restore(points.preview(1))
    assert (project / "src/app.py").read_text() == "one\ntwo\nthree\n"


def test_a_full_disk_stops_no_work_and_is_said(project, tmp_path, monkeypatch):
    said: list[str] = []
    points = Checkpoints(tmp_path / "store", project, report=said.append)

    def full(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("cowork.sessions.checkpoints.store.os.write", full)
    turn(points, 1, sh(project, "echo x > untracked.txt"), write(project / "src/app.py", "x\n"))
    assert said
    assert all("No space left" in text for text in said)


def test_a_rewind_that_cannot_back_up_changes_nothing(project, points, tmp_path):
    turn(points, 1, write(project / "src/app.py", "mine\n"), sh(project, "rm README.md"))
    plan = points.preview(1)
    shutil.rmtree(tmp_path / "store" / "backups", ignore_errors=True)
    (tmp_path / "store" / "backups").write_text("in the way")
    after = picture(project)
    with pytest.raises(UserError, match="Nothing was rewound"):
        points.restore(plan)
    assert picture(project) == after


def test_other_folders_of_the_workspace_are_covered(project, tmp_path):
    extra = tmp_path / "extra"
    extra.mkdir()
    (extra / "lib.py").write_text("lib\n")
    points = Checkpoints(tmp_path / "store", project, [extra])
    turn(points, 1, sh(project, f"echo x > {extra}/lib.py; echo x > {extra}/new"), write(project / "README.md", "x\n"))
    points.restore(points.preview(1))
    assert {p.name: p.read_text() for p in extra.iterdir()} == {"lib.py": "lib\n"}


def test_pipes_and_sockets_never_block_a_look(project, points):
    os.mkfifo(project / "pipe")
    turn(points, 1, sh(project, "mkfifo other; echo x > src/app.py"))
    assert [s.path for s in points.preview(1).steps] == ["src/app.py"]


def test_a_quick_change_of_the_same_length_is_seen(project, points):
    for prompt in range(1, 15):
        (project / "src/app.py").write_text("AAAA")
        points.begin(prompt)
        asyncio.run(points.before_command())
        (project / "src/app.py").write_text("BBBB")
        assert points.end() == ("src/app.py",)
