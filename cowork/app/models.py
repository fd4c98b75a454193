"""The models of a run, opened when they are first needed and closed together."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from cowork.config import paths
from cowork.config.load import Config
from cowork.config.options import RunOptions
from cowork.core.errors import UserError
from cowork.core.ports import ModelSpec, Provider
from cowork.providers.retry import Retrying

if TYPE_CHECKING:
    from cowork.providers.recording.replay import Replay


class Models:
    """`main`, `light` and any model by its ID; each is opened once."""

    def __init__(self, config: Config, options: RunOptions, root: Path, environ: Mapping[str, str]) -> None:
        self._config = config
        self._options = options
        self._facts = {"cwd": str(root), "home": str(paths.home(environ))}
        self._replay: Replay | None = None
        self._open: dict[str, Provider] = {}
        self._specs: list[tuple[ModelSpec, Provider]] = []
        self._closers: list[Callable[[], None]] = []
        self._wrap: Callable[[Provider, str], Provider] | None = None
        self._on_request: Callable[[bytes], None] | None = None

    def __call__(self, name: str) -> tuple[Provider, str]:
        """The model and the tier it really is: light without a model of its own is main."""
        tier = "main" if name == "light" and not self._config.has_light else name
        if tier not in self._open:
            self._open[tier] = self._opened(tier)
        return self._open[tier], tier

    async def close(self) -> None:
        for provider in {id(p): p for p in self._open.values()}.values():
            await provider.aclose()
        for close in self._closers:
            close()

    def _opened(self, tier: str) -> Provider:
        if self._options.replay:
            return self._played_back(tier)
        from cowork.providers.open import open_provider

        self._start_files()
        retry = self._config.retry
        provider = open_provider(self._config.model(tier), idle_timeout=retry.idle_timeout, on_request=self._on_request)
        provider = Retrying(provider, max_attempts=retry.max_attempts, max_delay=retry.max_delay)
        return self._wrap(provider, tier) if self._wrap else provider

    def _start_files(self) -> None:
        """Open the files of --record and --dump-requests once, before the first model."""
        if self._closers or not (self._options.record or self._options.dump_requests):
            return
        from cowork.providers.recording.record import Recorder, RequestDump

        if self._options.dump_requests:
            dump = RequestDump(self._options.dump_requests, self._secrets())
            self._on_request = dump
            self._closers.append(dump.close)
        if self._options.record:
            recorder = Recorder(self._options.record, facts=self._facts, secrets=self._secrets())
            self._wrap = recorder.wrap
            self._closers.append(recorder.close)

    def _played_back(self, tier: str) -> Provider:
        """From a recording; its waits are played as they were, so nothing is retried around it."""
        from cowork.providers.recording.replay import Replay

        if self._replay is None:
            assert self._options.replay is not None
            if self._options.record:
                raise UserError("--record and --replay exclude each other.", "A replay is recorded already.")
            self._start_files()
            self._replay = Replay(
                self._options.replay, facts=self._facts, secrets=self._secrets(), on_request=self._on_request
            )
        return self._replay.open(tier)

    def _secrets(self) -> list[str]:
        """Keys and headers of both models, which no file may hold."""
        specs = []
        for name in ("main", "light"):
            with contextlib.suppress(UserError):  # a model without its key fails when it is opened, not here
                specs.append(self._config.model(name))
        return [s for spec in specs for s in (spec.api_key, *spec.headers.values()) if s]
