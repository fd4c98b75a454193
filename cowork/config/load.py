"""Lay defaults, files, environment and flags over one another, and remember where each value came from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from cowork.config import key as merge
from cowork.config import models, paths, sections
from cowork.config.key import Key, Section
from cowork.config.sections import KEYS, SECTIONS
from cowork.core.errors import UserError
from cowork.core.later import later
from cowork.core.ports import ModelSpec

with later(__name__):
    from cowork.config import files


class ModelSettings(NamedTuple):
    """The two models of `[models.main]` and `[models.light]`, as settled."""

    main: sections.MainModel
    light: sections.LightModel


class AgentSettings(NamedTuple):
    """`[agent.subagent]`, the one table under `[agent]`."""

    subagent: sections.Subagent


class Config:
    """Every setting, settled. It knows no key: `model` reads one from the environment when a model is opened."""

    permissions: sections.PermissionSettings
    sandbox: sections.SandboxSettings
    limits: sections.LimitSettings
    retry: sections.RetrySettings
    compaction: sections.CompactionSettings
    tools: sections.Tools
    knowledge: sections.Knowledge
    skills: sections.Skills
    session: sections.Sessions
    ui: sections.Ui
    web: sections.Web
    mcp: sections.Mcp
    log: sections.Log
    telemetry: sections.OpenTelemetry

    def __init__(self, layers: Layers, environ: Mapping[str, str]) -> None:
        made: dict[str, Any] = {section.table: section(layers.section(section)) for section in SECTIONS}
        self.__dict__.update(made)
        self.models = ModelSettings(made["models.main"], made["models.light"])
        self.agent = AgentSettings(made["agent.subagent"])
        self.mcp_servers: Mapping[str, Any] = layers.servers
        self.notes: tuple[str, ...] = tuple(layers.notes)  # what was set and could not count, for people
        self.values: Mapping[str, Any] = layers.values  # by dotted name; prices too, as pricing."model".input
        self._origins: Mapping[str, str] = layers.origins
        self._environ = environ

    @property
    def has_light(self) -> bool:
        """Whether light work has a model of its own."""
        return bool(self.models.light.provider)

    def model(self, name: str = "main") -> ModelSpec:
        """The model behind `main`, `light` or a model's own name, key included; light falls back to main."""
        role = "light" if name == "light" and self.has_light else "main"
        values = dict(getattr(self.models, role).__dict__)
        if name not in ("main", "light"):
            values = models.for_name(values, name, self._environ)
        names = {field: f'pricing."{values["model"]}".{field}' for field in sections.PRICES}
        prices = {field: self.values[name] for field, name in names.items() if name in self.values}
        return models.spec_of(values, role, self._environ, prices or None)

    def origin(self, name: str) -> str:
        """Where a value came from: default, a file and line, a variable, a flag, or why it was chosen."""
        return self._origins.get(name, "default")


def load(
    *,
    cwd: Path,
    environ: Mapping[str, str],
    flags: Mapping[str, object] | None = None,
    config_file: Path | None = None,
    trusted: bool = False,
    bare: bool = False,
) -> Config:
    """The configuration of a run in `cwd`. `flags` maps dotted keys to values; `trusted` is about every folder from
    the top of the repository down to `cwd`, because a rule at the top holds below it too."""
    layers = Layers(environ)
    if config_file is not None:
        layers.add_file(config_file, required=True)
    elif not bare:
        layers.add_file(paths.config_file(environ))
    if trusted and not bare:
        for file in paths.project_files(cwd):
            layers.add_file(file, project=True)
    layers.add_environment()
    layers.add_flags(flags or {})
    layers.settle()
    return Config(layers, environ)


def check_file(path: Path, environ: Mapping[str, str], *, project: bool) -> Layers:
    """Judge one file by itself; gives what it makes of the defaults, and raises on what is wrong."""
    layers = Layers(environ)
    layers.add_file(path, required=not project, project=project)
    for name in ("models.main.base_url", "models.light.base_url"):
        if "${" not in layers.values[name]:
            models.check_address(layers.values[name], f"config: {layers.origins.get(name)} {name}")
    return layers


class Layers:
    """The values so far, weakest layer first."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = environ
        self.values: dict[str, Any] = {name: merge.normalize(key, key.default) for name, key in KEYS.items()}
        self.origins: dict[str, str] = {}
        self.servers: dict[str, Any] = {}
        self.notes: list[str] = []

    def section(self, section: type[Section]) -> dict[str, Any]:
        return {key.name.rsplit(".", 1)[1]: self.values[key.name] for key in section.fields}

    def add_file(self, path: Path, *, required: bool = False, project: bool = False) -> None:
        """A file of the user may set everything, one of a project only tighten; one that is wrong stops the run."""
        found = files.read(path, paths.short(path, self.environ)) if os.path.lexists(path) else None
        if found is None:
            if required:
                raise UserError(f"config: {path} does not exist", "`cowork config init` writes one.")
            return
        for name, value, origin in found.entries:
            if project:
                self._tighten(name, value, origin)
            elif name in KEYS:
                self._set(name, value, origin)
            else:  # a price
                self.values[name], self.origins[name] = value, origin
        if project and found.servers:
            raise UserError(f"config: {path} mcp.servers cannot be set by a project", "A project has .mcp.json for it.")
        self.servers.update(found.servers)

    def add_environment(self) -> None:
        """LLM_…, LIGHT_LLM_…, COWORK_LOG and COWORK_<KEY>."""
        given: dict[str, tuple[Any, str]] = {}
        for variable, name in (models.ENVIRONMENT | {"COWORK_LOG": "log.level"}).items():
            if text := self.environ.get(variable):
                value = variable if name.endswith("api_key_env") else text
                given[name] = value, f"environment {variable}"
        for name, key in KEYS.items():
            if text := self.environ.get(key.variable):
                given[name] = merge.from_text(key, text), f"environment {key.variable}"
        self._set_all(given)

    def add_flags(self, flags: Mapping[str, object]) -> None:
        """The command line."""
        if unknown := [name for name in flags if name not in KEYS]:
            raise UserError(f"There is no setting {unknown[0]!r}.", "`cowork config show` lists them.")
        self._set_all({name: (value, f"flag {KEYS[name].flag or name}") for name, value in flags.items()})

    def settle(self) -> None:
        """Choose what nobody set of the two models."""
        main, light = self.section(sections.MainModel), self.section(sections.LightModel)
        self.origins.update(models.settle(main, light, self.environ))
        for role, chosen in (("main", main), ("light", light)):
            self.values.update({f"models.{role}.{field}": value for field, value in chosen.items()})

    def _set_all(self, given: Mapping[str, tuple[Any, str]]) -> None:
        for table in ("models.main", "models.light"):
            if f"{table}.provider" in given:
                self._forget_service(table, given[f"{table}.provider"][0])
        for name, (value, origin) in given.items():
            self._set(name, value, origin)

    def _forget_service(self, table: str, provider: Any) -> None:
        """A stronger layer names another provider: address, key and model of the weaker one are not for it."""
        before = self.values[f"{table}.provider"]
        if not before or before == provider:
            return
        for field in ("model", "base_url", "api_key_env", "client", "headers"):
            self.values[f"{table}.{field}"] = KEYS[f"{table}.{field}"].default
            self.origins.pop(f"{table}.{field}", None)

    def _set(self, name: str, value: Any, origin: str) -> None:
        self._check(KEYS[name], value, origin)
        self._keep(KEYS[name], merge.overlay(KEYS[name], self.values[name], value), origin)

    def _tighten(self, name: str, value: Any, origin: str) -> None:
        key = KEYS.get(name)
        if key is None or key.project == "never":
            shown = name if key else name.rpartition(".")[0]
            hint = "Set it in your own config file; a project may only tighten."
            raise UserError(f"config: {origin} {shown} cannot be set by a project", hint)
        if any("${" in str(text) for text in (value if isinstance(value, list) else [value])):
            said = f"config: {origin} {name} holds ${{…}}, which is refused in project files"
            raise UserError(said, "Write the value out, or set it in your own config file.")
        self._check(key, value, origin)
        old = self.values[name]
        tight = merge.tighten(key, old, value)
        if key.project != "add" and tight != merge.normalize(key, value):
            self.notes.append(f"{origin} {key.name} = {merge.show(value)} has no effect: a project may only tighten")
        if tight != old:
            self._keep(key, tight, origin)

    def _keep(self, key: Key, value: Any, origin: str) -> None:
        before = f"{self.origins[key.name]}, " if key.extend and self.values[key.name] else ""
        self.values[key.name], self.origins[key.name] = value, before + origin

    def _check(self, key: Key, value: Any, origin: str) -> None:
        if not (problem := key.wrong(value)):
            return
        text = merge.show(value)
        text = text if len(text) <= 60 else text[:59] + "…"
        shown = "" if key.secret or key.shape else f", it is {text}"
        raise UserError(f"config: {origin} {key.name} {problem}{shown}", f"Allowed: {key.takes}.")
