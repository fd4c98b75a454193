"""A browser for the pages, where there is one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from cowork.core.events import Event
from cowork.reports.page import session_page
from tests.reports.browser import CHROMIUM, Browser
from tests.reports.sample import sample

Written = Callable[..., str]


@pytest.fixture
def story() -> list[Event]:
    return sample()


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no chromium here: apt-get install chromium")
    found = Browser(tmp_path_factory.mktemp("profile"))
    yield found
    found.close()


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Writes the page of some events and gives its address."""

    def write(events: Sequence[Event], **how: bool) -> str:
        path = tmp_path / "page.html"
        path.write_text("".join(session_page(events, **how)), encoding="utf-8")
        return path.as_uri()

    return write
