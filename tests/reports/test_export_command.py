"""`cowork sessions export`, installed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cowork.sessions.log.writer import SessionLog
from tests.fakes.command import Ended, run_command
from tests.reports.sample import sample


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with the sample session in it."""
    log = SessionLog.create(tmp_path / "home" / "sessions", "k3vq7m2a9xyz")
    for event in sample():
        log(event)
    log.close()
    return tmp_path / "home"


def run(home: Path, *words: str) -> Ended:
    env = os.environ | {"COWORK_HOME": str(home)}
    done = run_command(words, cwd=home, env=env, given=None)
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


def test_the_ending_of_the_name_says_the_form(home):
    for name, start in (("a.html", "<!doctype html>"), ("a.json", "{")):
        done = run(home, "sessions", "export", "k3v", "-o", name)
        assert (done.code, done.out, done.err) == (0, "", "")
        assert (home / name).read_text(encoding="utf-8").startswith(start)


def test_without_a_file_it_goes_to_stdout(home):
    done = run(home, "sessions", "export", "k3v", "--html", "--redact")
    assert done.out.startswith("<!doctype html>")
    assert "refund" not in done.out
    assert run(home, "sessions", "export", "k3v", "--html", "--redact", "-o", "-").out == done.out
    assert not (home / "-").exists()


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
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert len(done.err.splitlines()) <= 2
