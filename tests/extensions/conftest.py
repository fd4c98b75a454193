"""A stage a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.stage import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    (tmp_path / "scratch").mkdir(exist_ok=True)
    return Stage(tmp_path)
