"""Where the suite itself does not run: no git and no bubblewrap, a read-only home, odd paths, /tmp noexec."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.e2e.terminal import Terminal
from tests.fakes.command import COWORK, QUIET, Ended, run_command
from tests.fakes.stage import call, say, turn

READ = call("Read", file_path="a.txt")
EDIT = call("Edit", file_path="a.txt", old_string="one", new_string="two")
BASH = call("Bash", command="cat a.txt > b.txt")
NOEXEC = 'mount -t tmpfs -o noexec tmpfs /tmp && exec "$@"'


@dataclass
class OddPlace:
    """A folder, a home, and the words and variables under which the command starts there."""

    folder: Path
    home: Path
    before: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)
    stores: bool = True  # whether a session can be stored

    def __post_init__(self) -> None:
        self.env = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8", **QUIET, **self.env}
        for folder in (self.folder, self.home):
            folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "a.txt").write_text("one\n")
        (self.folder / "app.py").write_text("def main() -> None:\n    print('hello')\n")

    def run(self, *words: str) -> Ended:
        if self.before:
            line = [*self.before, str(COWORK), *words]
            done = subprocess.run(
                line, cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=100
            )
        else:
            done = run_command(words, cwd=self.folder, env=self.env, given=None)
        ended = Ended(done.returncode, done.stdout.decode(), done.stderr.decode())
        assert "Traceback" not in ended.err + ended.out
        return ended

    def script(self, *turns: object) -> str:
        path = self.folder.parent / "script.json"
        path.write_text(json.dumps(turns))
        return str(path)


def without_git_and_bubblewrap(base: Path) -> OddPlace:
    (base / "bin").mkdir()
    for folder in ("/usr/bin", "/bin"):
        for entry in os.scandir(folder):
            if not entry.name.startswith(("git", "bwrap")) and not os.path.lexists(base / "bin" / entry.name):
                (base / "bin" / entry.name).symlink_to(entry.path)
    return OddPlace(base / "work", base / "home", env={"PATH": str(base / "bin")})


def home_that_cannot_be_written(base: Path) -> OddPlace:
    box = ["bwrap", "--dev-bind", "/", "/", "--ro-bind", str(base / "home"), str(base / "home"), "--"]
    return OddPlace(base / "work", base / "home", usable(["bwrap", "--dev-bind", "/", "/", "--"]) and box, stores=False)


def path_with_spaces_and_letters(base: Path) -> OddPlace:
    return OddPlace(base / "mein Projekt – größe" / "日本 語", base / "hôme of user")


def tmp_noexec(base: Path) -> OddPlace:
    return OddPlace(base / "work", base / "home", usable(["unshare", "-rm", "sh", "-c", NOEXEC, "sh"]))


def usable(words: list[str]) -> list[str]:
    """The words, if a program can be run with them."""
    if shutil.which(words[0]) is None or subprocess.run([*words, "true"], capture_output=True).returncode:
        pytest.skip(f"{words[0]} makes no namespaces here")
    return words


PLACES = (without_git_and_bubblewrap, home_that_cannot_be_written, path_with_spaces_and_letters, tmp_noexec)


@pytest.fixture(params=PLACES, ids=lambda place: place.__name__)
def place(request: pytest.FixtureRequest) -> Iterator[OddPlace]:
    base = Path(tempfile.mkdtemp(prefix="cowork-odd-", dir="/var/tmp"))  # not in /tmp, which one of them covers
    yield request.param(base)
    shutil.rmtree(base)


def test_it_works_there_from_the_first_word_to_going_on(place: OddPlace) -> None:
    assert place.run("--version").out.startswith("cowork ")
    doctor = place.run("doctor")
    assert "✓ ripgrep" in doctor.out, doctor.err
    assert doctor.code == (0 if place.stores else 1), doctor.out
    asked = place.run("run", "--non-interactive", "--provider", "offline", "where is main defined?")
    assert (asked.code, "app.py:1" in asked.out) == (0, True), asked.out + asked.err
    words = [
        "--script",
        place.script(turn(READ), turn(EDIT), turn(BASH), say("Done it.")),
        "--permission-mode",
        "bypass",
    ]
    with Terminal([*place.before, str(COWORK), *words], cwd=place.folder, env=place.env) as terminal:
        terminal.wait_for("/help", 30)
        terminal.type("go", "<Enter>")
        terminal.wait_for("Done it.", 30)
        terminal.type("/exit", "<Enter>")
        assert terminal.wait_exit(30) == 0
    assert (place.folder / "a.txt").read_text() == "two\n"
    assert (place.folder / "b.txt").read_text() == "two\n"
    going_on = ["run", "--non-interactive", "--continue", "--script", place.script(say("Gone on.")), "--output", "json"]
    again = json.loads(place.run(*going_on, "more").out)
    assert (again["result"], again["terminal_reason"]) == (
        ("Gone on.", "completed") if place.stores else ("", "usage")
    ), again
