"""The models of a run, opened when they are first needed and closed together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cowork.config.load import Config
from cowork.config.options import RunOptions
from cowork.core.ports import ModelSpec, Provider
from cowork.providers.retry import with_retry


class Models:
    """`main`, `light` and any model by its ID; each is opened once."""

    def __init__(self, config: Config, options: RunOptions, root: Path) -> None:
        self._config = config
        self._options = options
        self._root = root
        self._open: dict[str, Provider] = {}
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
        for provider in self._open.values():
            await provider.aclose()
        for close in self._closers:
            close()

    def _opened(self, tier: str) -> Provider:
        if self._options.replay:
            return self._replayed(tier)
        from cowork.providers.open import open_provider

        spec = self._config.model(tier)
        self._start_files(spec)
        retry = self._config.retry
        provider = open_provider(spec, idle_timeout=retry.idle_timeout, on_request=self._on_request)
        provider = self._wrap(provider, tier) if self._wrap else provider
        return with_retry(provider, max_attempts=retry.max_attempts, max_delay=retry.max_delay)

    def _start_files(self, spec: ModelSpec) -> None:
        """Open the files of --record and --dump-requests once, before the first model."""
        if self._closers or not (self._options.record or self._options.dump_requests):
            return
        from cowork.providers.record import Recorder, RequestDump

        secrets = [s for s in (spec.api_key, *(spec.headers.values())) if s]
        if self._options.dump_requests:
            dump = RequestDump(self._options.dump_requests, secrets)
            self._on_request = dump
            self._closers.append(dump.close)
        if self._options.record:
            recorder = Recorder(self._options.record, facts={"cwd": str(self._root)}, secrets=secrets)
            self._wrap = recorder.wrap
            self._closers.append(recorder.close)

    def _replayed(self, tier: str) -> Provider:
        from cowork.providers.replay import Replay

        assert self._options.replay is not None
        if self._wrap is None:
            replay = Replay(self._options.replay, facts={"cwd": str(self._root)})
            self._wrap = lambda provider, role: replay.open(role)
        retry = self._config.retry
        provider = self._wrap(None, tier)  # type: ignore[arg-type]
        return with_retry(provider, max_attempts=retry.max_attempts, max_delay=retry.max_delay)
