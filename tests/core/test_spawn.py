"""Programs that are started on a terminal."""

from __future__ import annotations

import os
from pathlib import Path

from cowork.core.spawn import shell_on


def test_the_folder_a_shell_ends_in_is_written_to_a_path_with_spaces(tmp_path: Path) -> None:
    place = tmp_path / "a home" / "cwd"
    place.parent.mkdir()
    master, slave = os.openpty()
    try:
        shell = shell_on("cd /", os.ttyname(slave), place, environ=dict(os.environ), cwd=tmp_path)
        assert shell.wait(60) == 0
    finally:
        os.close(master)
        os.close(slave)
    assert place.read_text() == "/\n"
