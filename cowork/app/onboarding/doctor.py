"""`cowork doctor`: what is there, what is missing and how to mend it, a line each. It changes and sends nothing."""

from __future__ import annotations

import asyncio
import locale
import os
import platform
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from cowork import __version__
from cowork.app.project import load_config
from cowork.app.steering import is_trusted, steering
from cowork.config import paths
from cowork.config.load import Config
from cowork.config.run_options import RunOptions
from cowork.core import spawn
from cowork.core.errors import ProviderError, UserError
from cowork.core.frozen import frozen
from cowork.core.hygiene import clean_environ
from cowork.core.workspace import Workspace
from cowork.http.client import HttpClient
from cowork.http.errors import HttpError, connection_error
from cowork.permissions.sandbox.box import Sandbox
from cowork.sessions import index
from cowork.sessions.log.reader import read
from cowork.sessions.log.writer import LOG
from cowork.sessions.resume_state import diagnose
from cowork.tools.search import ripgrep as rg

State = Literal["ok", "note", "bad"]
MARKS: dict[State, str] = {"ok": "✓", "note": "!", "bad": "✗"}
CONNECT_SECONDS = 4.0
_LEAST_FREE = 200 << 20
_HOSTS = {
    "anthropic": "https://api.anthropic.com",
    "openai": "https://api.openai.com",
    "openai-chat": "https://api.openai.com",
}


@frozen
class Check:
    """One line: how it stands, and the fix where there is something to mend."""

    name: str
    state: State
    text: str
    fix: str = ""


async def examine(environ: Mapping[str, str], root: Path) -> list[Check]:
    """Every check, in the order a person would ask."""
    found = [
        Check("python", "ok", f"{platform.python_version()} at {sys.executable}"),
        Check("cowork", "ok", f"{__version__} in {Path(__file__).parents[2]}"),
    ]
    config, checks = _config(environ, root)
    found += checks
    if config is not None:
        found += await _models(config, environ)
    git = shutil.which("git", path=clean_environ(environ).get("PATH", os.defpath))
    missing_rg = Check("ripgrep", "bad", "not found: nothing can be searched", "Install ripgrep (rg).")
    missing_git = Check("git", "note", "not found: no branch, no diffs", "Install git.")
    mode, network = (config.sandbox.mode, config.sandbox.network) if config else ("auto", False)
    box = Sandbox(workspace=Workspace(root), mode=mode, network=network, environ=environ)

    def look() -> list[Check]:
        programs = [_program(rg.program(), missing_rg), _program(git, missing_git)]
        return [*programs, _trust(environ, root), _sandbox(box), _terminal(environ), _sessions(environ)]

    return [*found, *await asyncio.to_thread(look)]


async def report(environ: Mapping[str, str], root: Path) -> str:
    """The checks as Markdown, for the chat."""
    return "\n".join(f"- {MARKS[c.state]} **{c.name}** {_line(c)}" for c in await examine(environ, root))


def plain(checks: list[Check]) -> str:
    """The checks as aligned lines, for a terminal or a pipe."""
    width = max(len(check.name) for check in checks)
    return "\n".join(f"{MARKS[c.state]} {c.name:<{width}}  {_line(c)}" for c in checks)


def session(environ: Mapping[str, str], session_id: str) -> list[Check]:
    """What is wrong with one stored session; nothing here stops it from being resumed."""
    sessions = paths.sessions_dir(environ)
    entry = index.find(sessions, session_id)
    path = sessions / entry.id / LOG
    loaded = read(path)
    where = Check("log", "ok", f"{paths.short(path, environ)}: {len(loaded.events):,} events")
    found = [Check("story", "note", text) for text in diagnose(loaded)]
    return [where, *(found or [Check("story", "ok", "nothing is missing")])]


def _line(check: Check) -> str:
    said = f"{check.text}. {check.fix}" if check.fix else check.text
    return said.replace("\n", "\\n")  # a check is one row, whatever a folder is called


def _config(environ: Mapping[str, str], root: Path) -> tuple[Config | None, list[Check]]:
    file = paths.config_file(environ)
    here = [f for f in (file, *paths.project_files(root)) if f.exists()]
    names = ", ".join(paths.short(f, environ) for f in here)
    try:
        config = load_config(RunOptions(), environ, root, trusted=is_trusted(root, environ))
    except UserError as error:
        return None, [Check("config", "bad", error.message, error.hint or "`cowork config check` says more.")]
    text = names or f"defaults; {paths.short(file, environ)} is not there"
    checks = [Check("config", "ok", text, "" if names else "`cowork config init` writes it.")]
    return config, checks + [Check("config", "note", note) for note in config.notes]


async def _models(config: Config, environ: Mapping[str, str]) -> list[Check]:
    found: list[Check] = []
    places: dict[str, None] = {}
    for role in ("main", "light") if config.has_light else ("main",):
        values = config.models.main if role == "main" else config.models.light
        why = config.origin(f"models.{role}.provider")
        names = dict.fromkeys((values.provider, values.model))  # the offline model has one name
        said = f"{' '.join(names)} ({why})"
        if values.provider == "offline":
            fix = "`cowork config init` finds keys and local servers." if role == "main" else ""
            found.append(Check(f"model {role}", "note" if role == "main" else "ok", said, fix))
            continue
        try:
            spec = config.model(role)
        except UserError as error:
            found.append(Check(f"model {role}", "bad", error.message, error.hint))
            continue
        name = values.api_key_env
        there = f"{name} is set" if environ.get(name, "").strip() else "the key is in the keyring"
        key = there if spec.api_key else "no key, none asked for"
        found.append(Check(f"model {role}", "ok", f"{said}; {key}"))
        if spec.provider != "scripted":
            places[spec.base_url or _HOSTS.get(spec.provider, "")] = None
    return [*found, *await asyncio.gather(*(_reach(url) for url in places if url))]


async def _reach(url: str) -> Check:
    """Connect as a request would, through a proxy and with TLS where need be, and hang up: no request is made."""
    host = urlsplit(url).netloc.rpartition("@")[2]
    started = time.monotonic()
    try:
        client = HttpClient(url, connect_timeout=CONNECT_SECONDS)
        _, writer = await client.connect()
        writer.transport.abort()
    except (UserError, ProviderError) as error:
        return Check("endpoint", "bad", error.message, error.hint)
    except (OSError, HttpError) as error:
        failure = connection_error(error, host=host)
        local = urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1")
        away = "Start the server, or change base_url." if local else "Check the network and base_url."
        return Check("endpoint", "bad", failure.message, away if failure.kind == "connection" else failure.hint)
    where = f"{host} through the proxy {client.proxy.name}" if client.proxy else host
    return Check("endpoint", "ok", f"{where} answers ({(time.monotonic() - started) * 1000:.0f} ms)")


def _program(path: str | None, missing: Check) -> Check:
    """The version of a program, or what to say where there is none."""
    if not path:
        return missing
    try:
        done = spawn.run([path, "--version"], environ={"PATH": os.defpath}, seconds=5)
        version = done.stdout.decode("utf-8", "replace").split("\n")[0].strip() or "does not say its version"
    except OSError:
        version = "does not start"
    return Check(missing.name, "ok", f"{version} at {path}")


def _trust(environ: Mapping[str, str], root: Path) -> Check:
    here = steering(root)
    if not here:
        return Check("trust", "ok", "nothing in this folder would steer a run")
    names = ", ".join(path.name for path in here[:4])
    if is_trusted(root, environ):
        return Check("trust", "ok", f"this folder is trusted: {names}")
    return Check("trust", "note", f"this folder is not trusted, so {names} is not used", "`cowork trust` changes that.")


def _sandbox(box: Sandbox) -> Check:
    if box.refusal:
        return Check("sandbox", "bad", box.status(), 'Install bubblewrap, or set sandbox.mode = "auto".')
    if box.mode != "off" and not box.active:
        fix = "Install bubblewrap (bwrap): commands are held in it, and ask less often."
        return Check("sandbox", "note", box.status(), fix)
    return Check("sandbox", "ok", box.status())


def _terminal(environ: Mapping[str, str]) -> Check:
    encoding = (sys.stdout.encoding or locale.getpreferredencoding(False)).lower()
    size = shutil.get_terminal_size()
    term = environ.get("TERM", "")
    if not sys.stdout.isatty():
        return Check("terminal", "ok", f"none: output goes to a pipe or file ({encoding})")
    colour = "no colour" if environ.get("NO_COLOR") or term == "dumb" else environ.get("COLORTERM") or "colour"
    text = f"{term or 'no TERM'}, {size.columns}×{size.lines}, {colour}, {encoding}"
    advice = {
        "Set a UTF-8 locale (LANG=C.UTF-8) to see every sign.": "utf" not in encoding,
        "The chat works line by line here.": term in ("", "dumb"),
        "Panels need about 60 columns.": size.columns < 60,
    }
    fix = next((fix for fix, needed in advice.items() if needed), "")
    return Check("terminal", "note" if fix else "ok", text, fix)


def _sessions(environ: Mapping[str, str]) -> Check:
    folder = paths.sessions_dir(environ)
    shown = paths.short(folder, environ)
    if not folder.exists():
        above = next((p for p in folder.parents if p.exists()), Path("/"))
        if not os.access(above, os.W_OK):
            return Check("sessions", "bad", f"{shown} cannot be made", f"Make {above} writable, or set COWORK_HOME.")
        return Check("sessions", "ok", f"none yet; they will be in {shown}")
    if not os.access(folder, os.W_OK | os.X_OK):
        return Check("sessions", "bad", f"{shown} cannot be written", "Give it back to your user, or set COWORK_HOME.")
    entries = index.list_sessions(folder, empty=True)
    damaged = [e.id for e in entries[:50] if read(folder / e.id / LOG).damage]
    free = shutil.disk_usage(folder).free
    text = f"{len(entries):,} in {shown}"
    if folder.stat().st_mode & 0o077:
        return Check("sessions", "note", f"{text}, readable by others", f"chmod 700 {folder}")
    if damaged:
        return Check("sessions", "note", f"{text}; damaged: {', '.join(damaged[:3])}", "`cowork doctor --session ID`.")
    if free < _LEAST_FREE:
        return Check("sessions", "note", f"{text}; only {free >> 20} MB free", "Make room on that disk.")
    return Check("sessions", "ok", text)
