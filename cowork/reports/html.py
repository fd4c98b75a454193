"""Pages in one file: style and scripts inside, nothing fetched, and a policy that lets only those scripts run."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from cowork.core.blocks import Json
from cowork.core.events import Event
from cowork.core.hygiene import visible_line
from cowork.reports.page_data import parts, session_facts, to_script

_ASSETS = Path(__file__).parent / "assets"
_REPORT = ("base.js", "timeline.js", "report.js")
_SESSION = ("base.js", "markdown.js", "timeline.js", "session.js")


def session_page(events: Sequence[Event], *, redact: bool = False) -> Iterator[str]:
    """A session as a page, in pieces to be written one after another."""
    facts = session_facts(events, redact=redact)
    return page(facts["title"] or f"Session {facts['id']}", _SESSION, [facts, *parts(events, redact=redact)])


def report_page(data: Json, links: Mapping[str, str]) -> Iterator[str]:
    """An overview as a page; `links` are the pages of sessions, by id."""
    return page("cowork report", _REPORT, [data | {"links": dict(links)}])


def live_page(facts: Json) -> str:
    """A page that asks its server for the events and goes on asking."""
    title = f"Session {facts['id']}"
    return "".join(page(title, _SESSION, [facts], connect="'self'"))


def page(title: str, scripts: Sequence[str], data: Iterable[Json], connect: str = "'none'") -> Iterator[str]:
    """A page around blocks of data; its scripts draw them."""
    style, script = _asset("page.css"), "\n".join(_asset(name) for name in scripts)
    policy = (
        f"default-src 'none'; script-src {_hash_of(script)}; style-src {_hash_of(style)}; img-src data:; "
        f"connect-src {connect}; base-uri 'none'; form-action 'none'"
    )
    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n<link rel="icon" href="data:,">\n'
        f"<title>{html.escape(visible_line(title))}</title>\n<style>{style}</style>\n</head>\n"
        "<body>\n<noscript>This page draws its contents with a script of its own, which is switched off.</noscript>\n"
    )
    for block in data:
        yield f'<script type="application/json">{to_script(block)}</script>\n'
    yield f"<script>{script}</script>\n</body>\n</html>\n"


@cache
def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _hash_of(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
