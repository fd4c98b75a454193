"""The attack tables, run in the boxes: nothing changes outside what a box allows, nothing connects, no secret is seen.

As root only what the never-list does not name; all of it as nobody. Nothing that sets a clock or a host name is run.
"""

from __future__ import annotations

import os
import random
import re
import secrets
import shutil
import socket
import subprocess
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from cowork.core.hygiene import clean_environ
from cowork.core.ports import BoxName
from cowork.core.workspace import Workspace
from cowork.permissions.rules import Rules
from cowork.permissions.sandbox.box import Sandbox
from tests.permissions.conftest import acting_as, make_shop, until_made, yard_base
from tests.permissions.test_permissions_shell_table import READING, ROWS

NOBODY = 65534
SOAK = bool(os.environ.get("COWORK_SOAK"))
SOAK_FUZZED = 20_000
SAMPLE = 1 if SOAK else 180  # every so many strings of the table
FUZZED = SOAK_FUZZED // (2 if os.geteuid() == 0 else 1) if SOAK else 8  # for each user they are tried as
IN_A_BOX, AT_ONCE = (40 if SOAK else FUZZED), 4
PIECES = range(8 if SOAK else 1)  # a table is tried in so many tests, for all of it in one takes a quarter of an hour
UNTRIED = re.compile(
    r"\b(date|hwclock|timedatectl|hostname|hostnamectl|settimeofday|adjtimex|ntpdate|chrony|reboot|halt)\b"
)
PLACES = ("workspace", "deeper", "key", "home", "environment")
SECRETS = {place: f"PLANTED-{place}-{secrets.token_hex(4)}" for place in PLACES}  # the yard next door has others
LIMITS = "ulimit -v 4000000 -t 5 -f 40960 -u 300 2>/dev/null; "
PROBES = [
    "cat .env secret.pem nested/deep/.env ~/.ssh/id_rsa ~/.aws/credentials",
    "grep -rs PLANTED . ~ /proc/self/environ",
    "find / -xdev \\( -name .env -o -name 'id_*' -o -name '*.pem' \\) -exec cat {} + 2>/dev/null",
    "tar cf - . ~ 2>/dev/null | strings | grep PLANTED",
    "cat /proc/*/environ | tr '\\0' '\\n' | grep PLANTED; env; export -p",
    "ln -s .env /tmp/x; cat /tmp/x loop/.env",
    "python3 -c \"import os; print([open(f'{d}/{f}', 'rb').read() for d, _, n in os.walk('.') for f in n])\"",
    "git --no-pager diff --no-index /dev/null .env; rg -uuu PLANTED; cp .env /tmp/y; base64 /tmp/y",
    "unshare -Ur cat .env; umount .env; cat .env; mount --bind .env /tmp; cat ~/.ssh/*",
]
MUTATIONS = [
    "; touch pwned",
    "$(touch ~/pwned)",
    " > ../pwned",
    "`id > /var/tmp/pwned`",
    " | tee ~/.bashrc",
    "; cat .env",
]
MUTATIONS += [
    "; cat ~/.ssh/id_rsa",
    " && rm -rf ~",
    " & echo x > .git/config",
    "; ln -sf / src/all",
    "\ncp -r . ~/copy",
]


@dataclass
class Yard:
    """A home with secrets and the shop in it, for one user."""

    user: int
    base: Path

    @property
    def root(self) -> Path:
        return self.base / "shop"

    def run(self, script: str, box: BoxName, *, seconds: int = 4) -> str:
        return until_made(lambda: self._run(script, box, seconds))

    def _run(self, script: str, box: BoxName, seconds: int) -> str:
        given = {"HOME": str(self.base), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        environ = clean_environ({**given, "SHOP_API_KEY": SECRETS["environment"]})
        sandbox = Sandbox(workspace=Workspace(self.root), environ=environ)
        words = ["timeout", "-k", "1", str(seconds)]
        if box != "read" and self.root.exists():
            self.root.chmod(0o755)  # some strings close it, after which nothing runs until a person opens it again
        with acting_as(self.user):
            words += sandbox.wrap(["/bin/bash", "-c", LIMITS + script], self.root, box)
        if self.user != os.geteuid():
            words = ["setpriv", "--reuid", str(self.user), "--regid", str(self.user), "--clear-groups", *words]
        done = subprocess.run(
            words, env=environ, cwd=self.root, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
        )
        return (done.stdout + done.stderr).decode("utf-8", "replace")

    def state(self, box: BoxName) -> dict[str, tuple[int, int, bytes]]:
        """All that must not change: everything, or what lies outside the workspace."""
        found = {}
        for place in (self.base, Path("/var/tmp")):
            for path in place.rglob("*") if place == self.base else place.glob("pwned*"):
                status = path.lstat()
                kept = (self.root / ".git/config", self.root / ".git/hooks", self.root / ".git/info")
                inside = path.is_relative_to(self.root) and not any(path.is_relative_to(one) for one in kept)
                if not (inside and box != "read"):
                    content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
                    found[str(path)] = (status.st_mode, status.st_uid, content)
        return found


USERS = [pytest.param(0, id="root"), pytest.param(NOBODY, id="nobody")]


@pytest.fixture(params=USERS if os.geteuid() == 0 else [pytest.param(os.geteuid(), id="user")])
def yard(request: pytest.FixtureRequest) -> Iterator[Yard]:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap (bwrap) is not installed, so the boxes cannot be tried here")
    base = yard_base("cowork-boxes-")
    made = Yard(request.param, base)
    root = make_shop(base)
    (root / ".env").write_text(f"API_KEY={SECRETS['workspace']}\n")
    (root / "nested/deep/.env").write_text(f"API_KEY={SECRETS['deeper']}\n")
    (root / "secret.pem").write_text(f"-----BEGIN PRIVATE KEY-----\n{SECRETS['key']}\n")
    for name in (".ssh/id_rsa", ".aws/credentials"):
        (base / name).parent.mkdir()
        (base / name).write_text(SECRETS["home"])
    (root / "trap.pipe").unlink()
    if made.user != os.geteuid():
        for path in [base, *base.rglob("*")]:
            os.lchown(path, made.user, made.user)
    try:
        if "ok" not in (said := made.run("echo ok", "read", seconds=50)):
            pytest.skip(f"bubblewrap does not work for uid {made.user} here: {said[-200:]}")
        yield made
    finally:
        shutil.rmtree(base, ignore_errors=True)


def attacks(user: int, port: int) -> list[str]:
    """The strings of the table this user may try, with addresses that lead to a server of ours."""
    rows = [command for verdict, command in ROWS if user or verdict != "never"]
    wanted = [
        command for command in rows if not re.search("[\0\ud800-\udfff]", command) and not UNTRIED.search(command)
    ]
    return [re.sub(r"https?://[\w.]+", f"http://127.0.0.1:{port}", command) for command in wanted]


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("box", ["read", "masked"])
def test_no_string_of_the_table_breaks_out_of_a_box(box: BoxName, piece: int, yard: Yard) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        before = yard.state(box)
        commands = [
            *(() if piece else PROBES),
            *attacks(yard.user, server.getsockname()[1])[::SAMPLE][piece :: len(PIECES)],
        ]
        said = {command: yard.run(command, box) for command in commands}
        assert yard.state(box) == before
        with pytest.raises(BlockingIOError):
            server.accept()
    shown = {c: [name for name, secret in SECRETS.items() if secret in text] for c, text in said.items()}
    assert {command: names for command, names in shown.items() if names} == {}


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("piece", PIECES)
def test_no_fuzzed_command_breaks_out_of_the_read_box(piece: int, yard: Yard) -> None:
    draw = random.Random(16 + piece)
    pool = attacks(yard.user, 9)
    before = yard.state("read")
    for _ in range(-(-FUZZED // IN_A_BOX // len(PIECES))):
        some = ["".join((draw.choice(pool), *draw.choices(MUTATIONS, k=draw.randint(1, 3)))) for _ in range(IN_A_BOX)]
        started = [f"(timeout -k 1 0.5 bash -c {_quoted(one)}) </dev/null 2>&1 &\n" for one in some]
        script = "wait\n".join("".join(started[at : at + AT_ONCE]) for at in range(0, IN_A_BOX, AT_ONCE)) + "wait\n"
        said = yard.run(script, "read", seconds=40)
        assert [name for name, secret in SECRETS.items() if secret in said] == [], some
    assert yard.state("read") == before


# What these print is of the machine or of the moment, not of the workspace.
OF_THE_MACHINE = re.compile(r"\b(?:df|uname|ps|pgrep|env|time|free|uptime)\b")
SAME = [one for one in READING if not UNTRIED.search(one) and not OF_THE_MACHINE.search(one)]


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("piece", PIECES)
def test_what_reads_prints_the_same_in_the_read_box_as_outside(piece: int, yard: Yard) -> None:
    for secret in (".env", "nested/deep/.env", "secret.pem"):
        (yard.root / secret).unlink()
    environ = {"HOME": str(yard.base / "home"), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    sandbox = Sandbox(workspace=Workspace(yard.root), environ=environ)
    become = ["setpriv", "--reuid", str(yard.user), "--regid", str(yard.user), "--clear-groups"]

    def printed(words: Sequence[str]) -> tuple[int, str, str]:
        whole = [*(become if yard.user != os.geteuid() else ()), "timeout", "-k", "1", "20", *words]
        done = subprocess.run(
            whole, env=environ, cwd=yard.root, stdin=subprocess.DEVNULL, capture_output=True, timeout=60
        )
        return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")

    differs = {}
    for command in SAME[::SAMPLE][piece :: len(PIECES)]:
        shell = ["/bin/bash", "-c", command]
        with acting_as(yard.user):
            words = sandbox.wrap(shell, yard.root, "read")
        plain, boxed = printed(shell), printed(words)
        differs |= {command: (plain, boxed)} if plain != boxed else {}
    assert differs == {}


def test_what_git_has_of_a_tracked_secret_is_hidden_unless_a_rule_lets_it(yard: Yard) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(yard.base), "GIT_CONFIG_NOSYSTEM": "1"}
    for words in ("add -f .env", "-c user.name=a -c user.email=a@b -c safe.directory=* commit -q -m secret"):
        subprocess.run(["git", "-c", "safe.directory=*", *words.split()], cwd=yard.root, env=environ, check=True)
    sandbox = Sandbox(workspace=Workspace(yard.root), environ=environ)
    assert sandbox.hides_git(yard.root) == ".env"
    asked = "git show HEAD:.env; git log -p; git cat-file -p HEAD:.env; find .git/objects -type f | xargs cat"
    assert SECRETS["workspace"] not in yard.run(asked, "read")
    let = Sandbox(workspace=Workspace(yard.root), environ=environ, rules=lambda: Rules.of(["Read(.env)"]))
    assert let.hides_git(yard.root) == ""
    assert str(yard.root / ".env") not in let.wrap(["true"], yard.root, "read")


def test_ruff_runs_where_it_cannot_keep_a_cache_beside_the_code(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("print(1)\n")
    ruff = Path(sysconfig.get_path("scripts"), "ruff")
    sandbox = Sandbox(workspace=Workspace(tmp_path), environ={**os.environ, "MYPY_CACHE_DIR": "mine"})
    if sandbox.boxes != "both":
        pytest.skip(f"there are no boxes here: {sandbox.status()}")
    words = list(sandbox.wrap(["/bin/bash", "-c", f"{ruff} check --isolated a.py && env"], tmp_path, "read"))
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False)
    assert "All checks passed!" in done.stdout, done.stderr
    assert "RUFF_CACHE_DIR=/tmp" in done.stdout
    assert "MYPY_CACHE_DIR=/tmp" not in done.stdout


@pytest.mark.parametrize("box", ["read", "masked", "write"])
def test_keys_are_hidden_where_variables_say_they_are(box: BoxName, yard: Yard) -> None:
    files = {
        "XDG_CONFIG_HOME": "settings/cowork/credentials.json",
        "XDG_STATE_HOME": "state/cowork/sessions/x.jsonl",
        "COWORK_HOME": "own/credentials.json",
        "GNUPGHOME": "gpg/secring",
        "KUBECONFIG": "clusters",
        "AWS_SHARED_CREDENTIALS_FILE": "amazon",
        "DOCKER_CONFIG": "whale/config.json",
        "": ".config/cowork/credentials.json",
    }
    environ = {"HOME": str(yard.base), "PATH": os.environ["PATH"]}
    for variable, name in files.items():
        (yard.base / name).parent.mkdir(parents=True, exist_ok=True)
        (yard.base / name).write_text(SECRETS["home"])
        place = yard.base / (name.partition("/")[0])
        environ |= {variable: str(place)} if variable else {}
    sandbox = Sandbox(workspace=Workspace(yard.root), environ=environ)
    with acting_as(yard.user):
        words = list(sandbox.wrap(["/bin/bash", "-c", "grep -rs PLANTED ~ /var/tmp; ls ~"], yard.root, box))
    if yard.user != os.geteuid():
        words = ["setpriv", "--reuid", str(yard.user), "--regid", str(yard.user), "--clear-groups", *words]
    done = subprocess.run(words, cwd=yard.root, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert SECRETS["home"] not in done.stdout
    assert "shop" in done.stdout


def test_what_a_rule_denies_is_kept_by_the_kernel(yard: Yard) -> None:
    rules = Rules.of(deny=["Read(docs/**)", "Edit(src/**)"])
    sandbox = Sandbox(workspace=Workspace(yard.root), environ={"HOME": str(yard.base)}, rules=lambda: rules)
    script = "cat d*/g*; cd src; python3 -c \"open('a.py','w')\"; touch ../ok; ls ../docs"
    with acting_as(yard.user):
        words = list(sandbox.wrap(["/bin/bash", "-c", script], yard.root, "write"))
    if yard.user != os.geteuid():
        words = ["setpriv", "--reuid", str(yard.user), "--regid", str(yard.user), "--clear-groups", *words]
    done = subprocess.run(words, cwd=yard.root, capture_output=True, text=True, timeout=30, check=False)
    assert "read me" not in done.stdout
    assert "Read-only file system" in done.stderr
    assert "def main" in (yard.root / "src/a.py").read_text()
    assert (yard.root / "ok").exists()


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
