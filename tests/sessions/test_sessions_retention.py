from __future__ import annotations

import os
from pathlib import Path

from cowork.sessions.log.writer import DAY, SessionLog, drop_old_outputs

NOW = 2_000_000_000.0


def output(folder: Path, name: str, days: float) -> Path:
    path = folder / "outputs" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * 1000)
    os.utime(path, (NOW - days * DAY, NOW - days * DAY))
    return path


def test_old_outputs_go_once_a_day_and_that_is_said(store, turns, stamp, sessions):
    folder = store(stamp(turns(1)), "s1").parent
    old, young = output(folder, "old", 31), output(folder, "young", 29)
    said = drop_old_outputs(sessions, 30, NOW)
    assert (old.exists(), young.exists(), (folder / "events.jsonl").exists()) == (False, True, True)
    assert "1 output of commands older than 30 days" in said
    assert "output_days" in said
    late = output(folder, "late", 40)
    assert drop_old_outputs(sessions, 30, NOW + DAY / 2) == ""
    assert late.exists()
    assert drop_old_outputs(sessions, 30, NOW - 5 * DAY) != ""  # a clock that was set back is no reason to wait


def test_outputs_of_a_session_in_use_stay(sessions):
    with SessionLog.create(sessions, "s1") as log:
        kept = output(log.folder, "old", 90)
        assert drop_old_outputs(sessions, 30, NOW) == ""
        assert kept.exists()


def test_what_a_killed_run_told_a_hook_goes_too(store, turns, stamp, sessions):
    told = output(store(stamp(turns(1)), "s1").parent, "program-x/in", 31)
    assert "1 output" in drop_old_outputs(sessions, 30, NOW)
    assert not told.exists()
