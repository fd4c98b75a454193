"""/login: takes a key, keeps it where only the person can read it, and goes on with it at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from cowork.app.chat.host import ChatHost
from cowork.app.onboarding import setup
from cowork.app.onboarding.setup import VENDORS
from cowork.config import keyring
from cowork.config.models import DEFAULT_MODELS
from cowork.core.errors import UserError
from cowork.frontends.host import Choose, CommandResult, Row


def login(host: ChatHost) -> Callable[[str], Awaitable[CommandResult]]:
    """The command over one chat."""

    async def run(rest: str) -> CommandResult:
        if not rest:
            rows = [Row(service, name, variable) for service, (name, variable) in VENDORS.items()]
            return Choose("A key for which service?", rows, lambda row: run(row.value))
        if rest not in VENDORS:
            hint = f"Use {' or '.join(VENDORS)}; /model finds servers on this machine."
            raise UserError(f"There is no service {rest!r} to log in to.", hint)
        title = f"The key of {VENDORS[rest][0]}"
        return Choose(title, (), lambda row: _keep(host, rest, row.value.strip()), write="paste it; it is not shown",
                      secret=True)  # fmt: skip

    return run


async def _keep(host: ChatHost, service: str, key: str) -> CommandResult:
    name, variable = VENDORS[service]
    if not key.isascii() or not key.isprintable() or " " in key:
        raise UserError("That is no key: keys are one word.", "Nothing was kept. /login asks again.")
    environ = {**host.environ, variable: key}
    url = environ.get(variable.replace("_API_KEY", "_BASE_URL"), "")
    found = setup.FoundService(name, service, DEFAULT_MODELS[service], base_url=url, key_env=variable)
    if problem := await setup.trial(found.spec(environ)):
        raise UserError(f"{name} did not take the key: {problem}.", "Nothing was kept. /login asks again.")
    where = keyring.keep(variable, key, host.environ)
    host.environ = environ
    await host.reopen_here(replace(host.options, provider="", model="main", script=None))
    said = f"This chat goes on with **{host.run.agent.provider.model}**."
    if where is None:
        return f"{said} The key is in the keyring."
    better = "`pip install 'cowork[keyring]'` and `/login` again keep it better."
    return f"{said}\n\nNo keyring answers: the key is in `{where}`, for you alone but not encrypted. {better}"
