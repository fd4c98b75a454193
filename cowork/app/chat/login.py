"""/login: takes a key, keeps it where only the person can read it, and goes on with it at once."""

from __future__ import annotations

from dataclasses import replace

from cowork.app.chat.host import ChatHost
from cowork.app.onboarding import setup
from cowork.config import keyring
from cowork.config.models import DEFAULT_MODELS
from cowork.core.errors import UserError
from cowork.frontends.host import Choose, CommandResult, Row

SERVICES = {"anthropic": ("Anthropic", "ANTHROPIC_API_KEY"), "openai": ("OpenAI", "OPENAI_API_KEY")}


class Login:
    """The command over one chat."""

    def __init__(self, host: ChatHost) -> None:
        self.host = host

    async def __call__(self, rest: str) -> CommandResult:
        if not rest:
            rows = [Row(service, name, variable) for service, (name, variable) in SERVICES.items()]
            return Choose("A key for which service?", rows, lambda row: self(row.value))
        if rest not in SERVICES:
            hint = f"Use {' or '.join(SERVICES)}; /model finds servers on this machine."
            raise UserError(f"There is no service {rest!r} to log in to.", hint)

        async def keep(row: Row) -> CommandResult:
            return await self._keep(rest, row.value.strip())

        return Choose(f"The key of {SERVICES[rest][0]}", (), keep, write="paste it; it is not shown", secret=True)

    async def _keep(self, service: str, key: str) -> CommandResult:
        name, variable = SERVICES[service]
        if not key.isascii() or not key.isprintable() or " " in key:
            raise UserError("That is no key: keys are one word.", "Nothing was kept. /login asks again.")
        environ = {**self.host.environ, variable: key}
        url = environ.get(variable.replace("_API_KEY", "_BASE_URL"), "")
        found = setup.FoundService(name, service, DEFAULT_MODELS[service], base_url=url, key_env=variable)
        if problem := await setup.trial(found.spec(environ)):
            raise UserError(f"{name} did not take the key: {problem}.", "Nothing was kept. /login asks again.")
        where = keyring.keep(variable, key, self.host.environ)
        self.host.environ = environ
        options = replace(self.host.options, provider="", model="main", script=None)
        await self.host.reopen_here(options)
        said = f"This chat goes on with **{self.host.run.agent.provider.model}**."
        if where is None:
            return f"{said} The key is in the keyring."
        better = "`pip install 'cowork[keyring]'` and `/login` again keep it better."
        return f"{said}\n\nNo keyring answers: the key is in `{where}`, for you alone but not encrypted. {better}"
