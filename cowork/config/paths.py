"""Where the user's files are. COWORK_HOME holds everything when set; otherwise settings and state live apart."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cowork.core.errors import UserError
from cowork.core.later import later

with later(__name__):
    from cowork.core.git import folders_down_to

CONFIG_NAME = "config.toml"
PROJECT_FOLDER = ".cowork"


def here() -> Path:
    """The folder the person is in, which somebody may have deleted under them."""
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise UserError("The folder you are in was deleted.", "Go to one that exists, or give --cwd one.") from error


def config_dir(environ: Mapping[str, str]) -> Path:
    """Settings: config.toml, agents/, commands/, AGENTS.md."""
    return _folder(environ, "XDG_CONFIG_HOME", ".config")


def state_dir(environ: Mapping[str, str]) -> Path:
    """What cowork keeps by itself: sessions/, history, trust.json."""
    return _folder(environ, "XDG_STATE_HOME", ".local/state")


def config_file(environ: Mapping[str, str]) -> Path:
    return config_dir(environ) / CONFIG_NAME


def sessions_dir(environ: Mapping[str, str]) -> Path:
    return state_dir(environ) / "sessions"


def history_file(environ: Mapping[str, str]) -> Path:
    return state_dir(environ) / "history"


def trust_file(environ: Mapping[str, str]) -> Path:
    return state_dir(environ) / "trust.json"


def project_file(root: Path) -> Path:
    return root / PROJECT_FOLDER / CONFIG_NAME


def project_files(cwd: Path) -> list[Path]:
    """The settings files from the top of the repository down to `cwd`; outside one, that of `cwd` alone."""
    return [project_file(folder) for folder in folders_down_to(cwd)]


def home(environ: Mapping[str, str]) -> Path:
    """The user's home, by the environment that was given."""
    return Path(environ.get("HOME") or Path.home())


def short(path: Path, environ: Mapping[str, str]) -> str:
    """The path with the home as ~."""
    base = home(environ)
    return f"~/{path.relative_to(base)}" if path.is_relative_to(base) and path != base else str(path)


def _folder(environ: Mapping[str, str], variable: str, usual: str) -> Path:
    own = environ.get("COWORK_HOME")
    if own:
        return Path(own).expanduser()
    base = environ.get(variable, "")
    # The base directory rules say that a relative path there is to be ignored.
    return (Path(base) if base.startswith("/") else home(environ) / usual) / "cowork"
