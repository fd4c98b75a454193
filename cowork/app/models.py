"""The models of a run, opened when they are first needed and closed together."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, closing, suppress
from functools import cached_property
from pathlib import Path

from cowork.config import paths
from cowork.config.load import Config
from cowork.config.run_options import RunOptions
from cowork.core.errors import UserError
from cowork.core.later import later
from cowork.core.ports import Provider
from cowork.providers.retry import Retrying

with later(__name__):
    from cowork.providers.recording.record import Recorder, RequestDump
    from cowork.providers.recording.replay import Replay


class Models:
    """`main`, `light` and any model by its ID; each is opened once."""

    def __init__(self, config: Config, options: RunOptions, root: Path, environ: Mapping[str, str]) -> None:
        if options.record and options.replay:
            raise UserError("--record and --replay exclude each other.", "A replay is recorded already.")
        self._config, self._options = config, options
        self._facts = {"cwd": str(root), "home": str(paths.home(environ))}
        self._open: dict[str, Provider] = {}
        self._files = ExitStack()  # what is written to, closed last

    def __call__(self, name: str) -> tuple[Provider, str]:
        """The model and the tier it really is: light without a model of its own is main."""
        tier = "main" if name == "light" and not self._config.has_light else name
        if tier not in self._open:
            self._open[tier] = self._open_tier(tier)
        return self._open[tier], tier

    async def close(self) -> None:
        for provider in {id(p): p for p in self._open.values()}.values():
            await provider.aclose()
        self._files.close()

    def _open_tier(self, tier: str) -> Provider:
        if self._options.replay:  # its waits are played as they were, so nothing is retried around it
            return self._replay.open(tier)
        from cowork.providers.open import open_provider

        retry = self._config.retry
        provider = open_provider(self._config.model(tier), idle_timeout=retry.idle_timeout, on_request=self._dump)
        provider = Retrying(provider, max_attempts=retry.max_attempts, max_delay=retry.max_delay)
        return self._recorder.wrap(provider, tier) if self._recorder else provider

    @cached_property
    def _dump(self) -> RequestDump | None:
        if not self._options.dump_requests:
            return None
        return self._files.enter_context(closing(RequestDump(self._options.dump_requests, self._secrets())))

    @cached_property
    def _recorder(self) -> Recorder | None:
        if not self._options.record:
            return None
        recorder = Recorder(self._options.record, facts=self._facts, secrets=self._secrets())
        return self._files.enter_context(closing(recorder))

    @cached_property
    def _replay(self) -> Replay:
        assert self._options.replay is not None
        return Replay(self._options.replay, facts=self._facts, secrets=self._secrets(), on_request=self._dump)

    def _secrets(self) -> list[str]:
        """Keys and headers of both models, which no file may hold."""
        specs = []
        for name in ("main", "light"):
            with suppress(UserError):  # a model without its key fails when it is opened, not here
                specs.append(self._config.model(name))
        return [s for spec in specs for s in (spec.api_key, *spec.headers.values()) if s]
