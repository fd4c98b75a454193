"""Commands of a hostile grammar: each one judged safe is really run, as nobody in a box, and must change nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from cowork.core.hygiene import clean_environ
from cowork.core.workspace import Workspace
from cowork.permissions.shell import commands, gitread
from cowork.permissions.shell.judge import judge
from tests.permissions.conftest import make_shop

NOBODY = 65534
SOAK = bool(os.environ.get("COWORK_SOAK"))
SOAK_EXAMPLES = 24_000
EXAMPLES = SOAK_EXAMPLES if SOAK else 300

NAMES = [
    *commands._COMMANDS,
    *["git"] * 12,
    *["find"] * 6,
    "cd",
    "time",
    "timeout 5",
    "sh",
    "rm",
    "touch",
    "env",
    "xargs",
    "tee",
]
NAMES = [name for name in NAMES if name not in ("sleep", "ps", "pgrep", "cal")]  # slow, or differing from run to run
FLAGS = sorted({flag for spec in commands._COMMANDS.values() for flag in (*spec.flags, *(spec.values or {}))})
GIT = [
    *gitread._GIT,
    *(" ".join(pair) for pair in gitread._GIT_PAIRS),
    "commit",
    "push",
    "stash",
    "-c x=y status",
    "-C src status",
]
GIT_FLAGS = sorted({flag for spec in gitread._GIT.values() for flag in (*spec.flags, *(spec.values or {}))})
WRITES = [
    "-o pwned",
    "-opwned",
    "--output=pwned",
    "--output pwned",
    "-exec touch pwned ;",
    "-exec touch pwned {} +",
    "-delete",
]
WRITES += [
    "-fprint pwned",
    "-fls pwned",
    "-i",
    "--in-place",
    "-w pwned",
    "--pre touch",
    "--pre=touch",
    "--compress-program=touch",
]
WRITES += [
    "-C -m pwned",
    "-r - pwned",
    "--ext-diff",
    "--textconv",
    "-O",
    "-v pwned",
    "> pwned",
    ">> pwned",
    "2>pwned",
    "&>pwned",
]
WRITES += [
    ">| pwned",
    "| tee pwned",
    "; touch pwned",
    "&& touch pwned",
    "|| touch pwned",
    "& touch pwned",
    "\ntouch pwned",
]
WRITES += [
    "$(touch pwned)",
    "`touch pwned`",
    '"$(touch pwned)"',
    "${x:-$(touch pwned)}",
    "<(touch pwned)",
    "$((a[$(touch pwned)]))",
]
WRITES += [
    "'1w pwned'",
    "'s/a/b/w pwned'",
    "'1e touch pwned'",
    "'{print > \"pwned\"}'",
    "'BEGIN{system(\"touch pwned\")}'",
    "--set-upstream x",
]
WRITES += [
    "-D main",
    "-d main",
    "new-branch",
    "-m renamed",
    "pwned",
    "--edit-description",
    "-f",
    "expire --all",
    "--files0-from=-",
]
OPERANDS = [
    "README.md",
    "src/a.py",
    "src",
    ".",
    "docs",
    "src/*.py",
    "*.md",
    "'file with spaces.txt'",
    "HEAD",
    "HEAD~1",
    "main",
    "--",
    "-",
]
OPERANDS += [
    "foo",
    "'foo.*'",
    '"def main"',
    "1",
    "5",
    "10",
    "1,5",
    "'1,5p'",
    "'{print $1}'",
    "a-z",
    "A-Z",
    "+%Y",
    "'*.py'",
    "*.py",
    "x",
]
OPERANDS += [
    "/etc/passwd",
    "outside.txt",
    "outdir",
    ".env",
    "$HOME",
    "~",
    "nonexistent",
    "-n.txt",
    "*.txt",
    "''",
    "'$x'",
    "evilrepo",
    "user.name",
]
JOINS = [" | ", " && ", "; ", " || ", "\n"]

word = st.one_of(
    st.sampled_from(OPERANDS),
    st.sampled_from(FLAGS),
    st.sampled_from(OPERANDS),
    st.sampled_from(WRITES),
    st.builds("{}={}".format, st.sampled_from([f for f in FLAGS if f.startswith("--")]), st.sampled_from(OPERANDS)),
    st.builds("-{}".format, st.text("abcdefghilmnopqrstuvwxyzABCDEFHILORSTVZ0159", min_size=1, max_size=3)),
    st.text("ab'\"\\$`|;&<>*?~#!(){}[] \n=-", max_size=4),
)
plain = st.one_of(st.sampled_from(OPERANDS[:34]), st.sampled_from(FLAGS))
git_word = st.one_of(
    st.sampled_from(GIT_FLAGS), st.sampled_from(OPERANDS), st.sampled_from(WRITES), st.sampled_from(OPERANDS[:12])
)


def simple(name: str) -> st.SearchStrategy[str]:
    if name == "git":
        return st.builds(
            lambda sub, words: " ".join(["git", sub, *words]), st.sampled_from(GIT), st.lists(git_word, max_size=3)
        )
    own = commands._COMMANDS.get(name)
    known = sorted({*own.flags, *(own.values or {})}) if own else []
    words = st.lists(st.one_of(plain, word, st.sampled_from(known or ["-l"])), max_size=4)
    return words.map(lambda found: " ".join([name, *found]))


COMMANDS = st.lists(st.sampled_from(NAMES).flatmap(simple), min_size=1, max_size=3).flatmap(
    lambda parts: st.lists(st.sampled_from(JOINS), min_size=len(parts) - 1, max_size=len(parts) - 1).map(
        lambda joins: "".join(part + join for part, join in zip(parts, [*joins, ""], strict=True))
    )
)


@pytest.fixture
def yard() -> Iterator[Path]:
    """The shop, owned by nobody, so that a command that wants to write it can."""
    for tool in ("bwrap", "strace", "setpriv"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed, so commands judged safe cannot be tried out here")
    base = Path(tempfile.mkdtemp(prefix="cowork-fuzz-", dir="/var/tmp"))
    base.chmod(0o755)
    make_shop(base)
    (base / "trace").mkdir()
    if os.geteuid() == 0:
        for path in [base, *base.rglob("*")]:
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    yield base
    shutil.rmtree(base)


def state(base: Path) -> dict[str, tuple[int, int, int, bytes]]:
    found = {}
    for path in [
        base / "shop",
        base / "outside",
        *sorted((base / "shop").rglob("*")),
        *sorted((base / "outside").rglob("*")),
    ]:
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        found[str(path)] = (status.st_mode, status.st_mtime_ns, status.st_ino, content)
    return found


def run(safe: list[str], base: Path) -> tuple[set[str], set[str]]:
    """Run commands one after the other in a box without network; the programs started and the sockets opened."""
    script = "".join(f"(\n{command}\n) </dev/null >/dev/null 2>&1\n" for command in safe)
    (base / "trace/script").write_text(script)
    (base / "trace/script").chmod(0o644)
    box = [
        "bwrap",
        "--unshare-all",
        "--cap-drop",
        "ALL",
        "--die-with-parent",
        "--new-session",
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
    ]
    box += ["--proc", "/proc", "--tmpfs", "/tmp", "--bind", str(base), str(base), "--chdir", str(base / "shop"), "--"]
    argv = [
        *box,
        "strace",
        "-f",
        "-qq",
        "-e",
        "trace=execve,socket",
        "-e",
        "signal=none",
        "-o",
        str(base / "trace/log"),
    ]
    argv += ["timeout", "-k", "5", "300", "/bin/bash", "--noprofile", "--norc", str(base / "trace/script")]
    if os.geteuid() == 0:
        argv = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", *argv]
    environ = clean_environ({"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(base), "LANG": "C.UTF-8"})
    subprocess.run(argv, env=environ, cwd=base, timeout=400, check=False, capture_output=True)
    log = (base / "trace/log").read_text(errors="replace")
    assert "exited with 124" not in log, "a command judged safe did not end"
    started = {os.path.basename(path) for path in re.findall(r'execve\("([^"]+)".*= 0$', log, re.MULTILINE)}
    return started, set(re.findall(r"socket\((AF_\w+)", log))


# bash and timeout run the batch; sh is what `which` is written in.
HARNESS = {"bash", "timeout", "sh", "dash"}
ALLOWED = {*commands._COMMANDS, *commands._VERSIONED, "git", "find", "gawk", "mawk", "original-awk"} | HARNESS


@pytest.mark.soak
@pytest.mark.timeout(3000)
def test_what_is_judged_safe_changes_no_file_opens_no_socket_and_starts_nothing_else(yard: Path) -> None:
    workspace = Workspace(yard / "shop")
    safe: list[str] = []
    judged: set[str] = set()

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(COMMANDS)
    def look(command: str) -> None:
        judged.add(command)
        if judge(command, workspace, workspace.root, trusted=True).read_only:
            safe.append(command)

    look()
    safe = list(dict.fromkeys(safe))
    print(f"{len(judged)} commands judged, {len(safe)} of them safe and run")
    assert len(judged) >= EXAMPLES * 0.8
    assert len(safe) >= EXAMPLES // 20
    for start in range(0, len(safe), 400):
        batch = safe[start : start + 400]
        before = state(yard)
        started, sockets = run(batch, yard)
        guilty = [] if state(yard) == before else [one for one in batch if _changes([one], yard)]
        assert state(yard) == before, guilty
        assert started <= ALLOWED, started - ALLOWED
        assert sockets <= {"AF_UNIX"}, sockets  # the name service's own


def _changes(safe: list[str], base: Path) -> bool:
    before = state(base)
    run(safe, base)
    return state(base) != before


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_every_reading_command_of_the_table_changes_nothing_when_run(yard: Path) -> None:
    from tests.permissions.test_permissions_shell_table import ROWS

    safe = [command for verdict, command in ROWS if verdict == "read" and not command.startswith("ps")]
    safe = [command for command in safe if "sleep" not in command][:: 1 if SOAK else 4]
    before = state(yard)
    started, sockets = run(safe, yard)
    assert state(yard) == before
    assert started <= ALLOWED, started - ALLOWED
    assert sockets <= {"AF_UNIX"}


def test_the_box_would_notice_a_change(yard: Path) -> None:
    before = state(yard)
    started, _ = run(["touch pwned"], yard)
    assert "touch" in started
    assert state(yard) != before
