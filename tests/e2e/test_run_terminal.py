"""`cowork run` in a terminal: what a person sees there, colours and all."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.e2e.terminal import Terminal
from tests.fakes.command import COWORK, QUIET
from tests.fakes.stage import call, say, turn


def test_an_answer_and_a_diff_are_drawn_and_not_spelled_out(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    edit = call("Write", file_path="a.py", content="x = 1\n")
    script.write_text(json.dumps([turn(edit, say="Writing."), say("## Done\n\n`a.py` is **there**.\n\n- one\n")]))
    words = [str(COWORK), "run", "--permission-mode", "accept-edits", "--script", str(script), "go"]
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8", "TERM": "xterm-256color", **QUIET}
    with Terminal(words, cwd=tmp_path, env=env, columns=100, rows=40, forked=False) as terminal:
        assert terminal.wait_exit(60) == 0
        shown, raw = terminal.text(), bytes(terminal.raw)
    assert "\\x1b" not in shown
    assert "a.py is there." in shown, "the marks of Markdown are gone"
    assert "x = 1" in shown, "the diff is drawn"
    assert b"\x1b[1mthere" in raw, "bold is bold"
