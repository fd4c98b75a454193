"""Every test runs with a home of its own, without keys, and with no network but loopback."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.command import Command

_KEPT = {"PATH", "LANG", "LC_ALL", "TERM", "TMPDIR", "VIRTUAL_ENV", "SYSTEMROOT", "COWORK_SOAK", "CI", "PYTHONUTF8"}

_KEPT_PREFIXES = ("PYTEST_", "COV_", "PIP_", "UV_", "SSL_")  # the runner's own, and how packages are found


@pytest.fixture(autouse=True)
def clean_environment(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh HOME and only harmless variables; gives the home."""
    home = tmp_path_factory.mktemp("home")
    for name in list(os.environ):
        if name not in _KEPT and not name.startswith(_KEPT_PREFIXES):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    return home


@pytest.fixture(autouse=True, scope="session")
def only_loopback() -> Iterator[None]:
    """Connections to anything but loopback fail at once."""
    real = socket.socket.connect

    def connect(self: socket.socket, address: object) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            host = str(address[0]) if isinstance(address, tuple) else ""
            if host != "localhost" and not ipaddress.ip_address(host).is_loopback:
                raise AssertionError(f"a test tried to connect to {host}")
        real(self, address)

    socket.socket.connect = connect  # type: ignore[method-assign,assignment]
    yield
    socket.socket.connect = real  # type: ignore[method-assign]


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """The installed command, in a folder and a home of its own."""
    for name in ("work", "home"):
        (tmp_path / name).mkdir()
    return Command(tmp_path / "work", tmp_path / "home")
