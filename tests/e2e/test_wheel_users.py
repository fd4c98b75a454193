"""The wheel, installed where every user can run it, keeps commands in as root and as an ordinary user."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

NOBODY = 65534
NEEDED = ("yaml", "_yaml")  # all that a scripted run with commands loads
USERS = [0, NOBODY] if os.geteuid() == 0 else [os.geteuid()]
PROTECTED = [
    ".git/config", ".git/hooks/pre-commit", ".git/info/exclude", ".gitmodules", ".gitattributes", ".cowork/config.toml",
    ".claude/x", ".mcp.json", ".vscode/tasks.json", ".idea/x", ".devcontainer/x", ".husky/pre-push", ".envrc",
    ".bashrc", ".profile", ".zshrc", "AGENTS.md", "CLAUDE.md",
]  # fmt: skip
NEW = [".git/hooks/post-merge", ".cowork/agents/x", ".vscode/new.json", ".bash_login", ".ripgreprc", "AGENTS.local.md"]


@dataclass(frozen=True)
class Place:
    """An installed cowork and the Python that every user may run it with."""

    base: Path
    python: str

    def run(self, user: int, turns: list[Any], **environ: str) -> tuple[int, list[dict[str, Any]]]:
        """(exit code, tool results) of a scripted run as this user, in a workspace that is theirs."""
        (self.base / "script.json").write_text(json.dumps([*turns, {"say": "done"}]))
        become = ["/usr/bin/setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups"]
        words = [self.python, "-B", "-m", "cowork", "run", "--non-interactive", "--permission-mode", "bypass"]
        words += ["--script", str(self.base / "script.json"), "--output", "stream-json", "go"]
        given = {"HOME": str(self.home), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(self.base / "site"), **environ}
        done = subprocess.run(
            [*(become if user != os.geteuid() else []), *words],
            cwd=self.home / "work", env=given, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=110,
        )  # fmt: skip
        events = [json.loads(line) for line in done.stdout.splitlines()]
        assert events, done.stderr
        return done.returncode, [event["record"] for event in events if event["type"] == "tool.ended"]

    @property
    def home(self) -> Path:
        return self.base / "home"

    def furnish(self, user: int) -> None:
        shutil.rmtree(self.home, ignore_errors=True)
        for name in PROTECTED:
            path = self.home / "work" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("kept\n")
        for path in [self.home, *self.home.rglob("*")]:
            os.chown(path, user, user)

    def state(self) -> dict[str, str]:
        work = self.home / "work"
        return {str(p.relative_to(work)): p.read_text() for p in work.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def place(wheel: Path) -> Iterator[Place]:
    if shutil.which("bwrap", path="/usr/bin:/bin") is None:
        pytest.skip("bubblewrap (bwrap) is not installed, so the sandbox cannot be tried here")
    python = shutil.which(f"python3.{sys.version_info.minor}", path="/usr/bin:/usr/local/bin")
    if python is None:
        pytest.skip(f"no Python 3.{sys.version_info.minor} that every user may run in /usr/bin or /usr/local/bin")
    base = Path(tempfile.mkdtemp(prefix="cowork-users-", dir="/var/tmp"))
    base.chmod(0o755)
    zipfile.ZipFile(wheel).extractall(base / "site")
    packages = Path(sysconfig.get_path("purelib"))
    for name in NEEDED:
        if (packages / name).is_dir():
            shutil.copytree(packages / name, base / "site" / name)
    for path in [base / "site", *(base / "site").rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    yield Place(base, python)
    shutil.rmtree(base)


def probe(port: int, made: str) -> str:
    """A script that says what it can do, and tries what it must not; in a file, for the judge would ask about it."""
    return "\n".join(
        [
            "grep -E '^(CapEff|CapPrm|CapBnd|CapAmb|NoNewPrivs)' /proc/self/status",
            "echo net $(tail -n +3 /proc/net/dev | cut -d: -f1)",
            f"(echo hi > /dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo CONNECTED",
            *(f"(echo evil > {name}) 2>/dev/null && echo CHANGED {name}" for name in PROTECTED),
            *(f"(echo evil >> {name}; rm -f {name}; mkdir -p $(dirname {name}); echo evil > {name})" for name in NEW),
            "unshare -Ur true 2>/dev/null && echo NAMESPACE",
            "(echo x > /proc/sys/kernel/core_pattern) 2>/dev/null && echo SYSCTL",
            "mv .git away && echo CHANGED .git",
            f"kill -0 {os.getpid()} && echo SEEN",
            f"touch {made}",
        ]
    )


@pytest.mark.timeout(600)
@pytest.mark.parametrize("user", USERS)
def test_the_installed_command_keeps_commands_in(user: int, place: Place) -> None:
    place.furnish(user)
    before = place.state()
    with socket.create_server(("127.0.0.1", 0)) as server:
        for name in ("front", "back"):
            before[name + ".sh"] = probe(server.getsockname()[1], name)
            (place.home / "work" / (name + ".sh")).write_text(before[name + ".sh"])
        code, results = place.run(
            user,
            [
                {"call": {"Bash": {"command": "bash front.sh"}}},
                {"call": {"Bash": {"command": "bash back.sh", "run_in_background": True}}},
                {"call": {"Bash": {"command": "until [ -e back ]; do sleep 0.05; done"}}},
                {"call": {"BashOutput": {"bash_id": "bash_1"}}},
            ],
        )
    assert code == 0
    for text in (results[0]["text"], results[3]["text"]):
        none = [f"{name}:\t{'0' * 16}" for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")]
        assert {*none, "NoNewPrivs:\t1", "net lo"} <= set(text.splitlines()), text
        assert not [word for word in ("CONNECTED", "CHANGED", "NAMESPACE", "SYSCTL", "SEEN") if word in text], text
    after = place.state()
    assert {name: after.get(name) for name in before} == before
    assert not [name for name in NEW if name in after]
    assert {n for n in after if ".set-aside" not in n} == {*before, "front", "back"}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("user", USERS)
def test_without_bubblewrap_a_required_sandbox_refuses(user: int, place: Place) -> None:
    place.furnish(user)
    (place.base / "bin").mkdir(exist_ok=True)
    config = place.base / "required.toml"
    config.write_text('[sandbox]\nmode = "required"\n')
    environ = {"PATH": str(place.base / "bin"), "COWORK_HOME": str(place.home / "state")}
    (place.home / "state").mkdir()
    shutil.copy(config, place.home / "state/config.toml")
    for path in (place.home / "state", place.home / "state/config.toml"):
        os.chown(path, user, user)
    code, results = place.run(user, [{"call": {"Bash": {"command": "/bin/touch ran"}}}], **environ)
    assert code == 5
    assert "a sandbox is required" in results[0]["text"]
    assert not (place.home / "work/ran").exists()
