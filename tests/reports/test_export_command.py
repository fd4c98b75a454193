"""`cowork sessions export`, installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cowork.sessions.log.writer import SessionLog
from tests.reports.sample import sample

COWORK = Path(sys.executable).with_name("cowork")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with the sample session in it."""
    log = SessionLog.create(tmp_path / "home" / "sessions", "k3vq7m2a9xyz")
    for event in sample():
        log(event)
    log.close()
    return tmp_path / "home"


def run(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"COWORK_HOME": str(home)}
    return subprocess.run([COWORK, *words], capture_output=True, text=True, env=env, cwd=home, timeout=60, check=False)


def test_the_ending_of_the_name_says_the_form(home):
    for name, start in (("a.html", "<!doctype html>"), ("a.json", "{")):
        done = run(home, "sessions", "export", "k3v", "-o", name)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert (home / name).read_text(encoding="utf-8").startswith(start)


def test_without_a_file_it_goes_to_stdout(home):
    done = run(home, "sessions", "export", "k3v", "--html", "--redact")
    assert done.stdout.startswith("<!doctype html>")
    assert "refund" not in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("zzz",), "There is no session zzz."),
        (("k3v", "--html", "--md"), "--html and --md ask for two forms."),
        (("k3v", "--md", "--redact"), "--redact cannot be used with --md."),
        (("k3v", "--html", "-o", "no/such/folder.html"), "cannot be written: No such file or directory."),
    ],
)
def test_mistakes_are_told_in_two_lines(home, words, said):
    done = run(home, "sessions", "export", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) <= 2
