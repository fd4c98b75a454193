"""Choosing a model for `cowork config init`: what is there, which one, and does it answer."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence

from cowork.app.onboarding import setup
from cowork.app.onboarding.setup import Found
from cowork.cli.standard_streams import row
from cowork.core.errors import UserError

NOTHING = (
    "none found, so the built-in offline model; set ANTHROPIC_API_KEY or OPENAI_API_KEY, start a local server, "
    "or edit the file"
)


def choose(environ: Mapping[str, str], *, url: str, model: str, test: bool | None) -> tuple[dict[str, str], str]:
    """(settings, words) of the model to write down; asks where a terminal is there and there is a choice."""
    found = asyncio.run(_look(environ, url))
    offered = [(service, name) for service, name in setup.choices(found) if not model or name == model]
    if not offered:
        if model and found:
            known = ", ".join(name for _, name in setup.choices(found)[:12])
            raise UserError(f"Nothing that was found has a model {model!r}.", f"Found: {known}.")
        return {}, NOTHING
    service, name = offered[_asked(offered)]
    # A request to a vendor costs money: unasked only where a person looks on.
    wanted = test if test is not None else bool(service.base_url) or _at_terminal()
    said = ""
    if wanted:
        problem = asyncio.run(setup.trial(service.spec(environ, name)))
        said = f"; it did not answer: {problem}" if problem else "; it answers"
    default = not service.base_url and name == service.models[0]
    settings = service.settings("" if default else name)
    light = f" and {service.models[1]} for light work" if default and len(service.models) > 1 else ""
    how = f"{service.key_env} is set" if service.key_env else f"{service.name} at {service.base_url}"
    return settings, f"{name}{light} ({how}){said}"


async def _look(environ: Mapping[str, str], url: str) -> list[Found]:
    if not url:
        return await setup.find(environ)
    if found := await setup.server(url):
        return [found]
    raise UserError(f"No OpenAI-compatible server answers at {url}.", "It should list its models at /v1/models.")


def _asked(offered: Sequence[tuple[Found, str]]) -> int:
    """The place of the choice in the list; the first one where nobody can be asked."""
    if len(offered) == 1 or not _at_terminal():
        return 0
    for number, (service, name) in enumerate(offered, 1):
        row(f"{number:>3}  {name}  ({service.name})")
    while True:
        answer = input(f"Which one? [1-{len(offered)}, Enter for 1] ").strip() or "1"
        if answer.isdigit() and 1 <= int(answer) <= len(offered):
            return int(answer) - 1


def _at_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()
