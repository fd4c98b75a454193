"""Nothing but cowork's own words reaches the terminal when children are stopped."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cowork.app import logs


@pytest.fixture
def loggers() -> Iterator[None]:
    """As they were, afterwards."""
    named = [logging.getLogger(name) for name in ("cowork", "asyncio", "cowork.subagents")]
    before = [(logger, logger.handlers, logger.propagate, logger.level) for logger in named]
    yield
    for logger, handlers, propagate, level in before:
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


@pytest.mark.usefixtures("loggers")
def test_warnings_of_the_event_loop_stay_off_the_screen(capfd: pytest.CaptureFixture[str]) -> None:
    logs.set_up("")
    logging.getLogger("asyncio").warning("Unknown child process pid 1")
    logging.getLogger("cowork.engine").error("a traceback")
    assert capfd.readouterr().err == ""


@pytest.mark.usefixtures("loggers")
def test_they_are_in_the_log_when_one_is_asked_for(tmp_path: Path) -> None:
    logs.set_up("info", str(tmp_path / "log"))
    logging.getLogger("asyncio").warning("Unknown child process pid 1")
    line = (tmp_path / "log").read_text()
    assert re.fullmatch(r"time=\d{4}-\d\d-\d\dT[\d:.]+Z Unknown child process pid 1\n", line)
