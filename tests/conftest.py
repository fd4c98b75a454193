"""Every test runs with a home of its own, without keys, and with no network but loopback."""

from __future__ import annotations

import gc
import ipaddress
import itertools
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.fakes.command import QUIET, Command


def _names(text: str) -> list[str]:
    return text.split()


# What a test run as root could spoil for everybody else: seen before and after.
_HOME = Path(os.path.expanduser("~"))
_SYSTEM = _names("/ /tmp /var/tmp /dev /dev/null /dev/shm /etc /home /root /run /usr /usr/bin /bin /var")
_SYSTEM += _names("/etc/passwd /etc/shadow /etc/hosts /etc/gitconfig")
_OWN = _names(". .ssh .config .gitconfig .bashrc .profile .local .cache .npmrc")
_MACHINE = [*map(Path, _SYSTEM), *(_HOME / name for name in _OWN), Path.cwd(), Path.cwd() / ".git"]

_KEPT = {"PATH", "LANG", "LC_ALL", "TERM", "TMPDIR", "VIRTUAL_ENV", "SYSTEMROOT", "COWORK_SOAK", "CI", "PYTHONUTF8"}

_KEPT_PREFIXES = ("PYTEST_", "COV_", "PIP_", "UV_", "SSL_")  # the runner's own, and how packages are found

# Ordinary runs draw the same cases every time and judge none of them by the clock; the soak draws many new ones.
settings.register_profile(
    "ordinary",
    max_examples=30,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "soak", max_examples=1000, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("soak" if os.environ.get("COWORK_SOAK") else "ordinary")


@pytest.fixture(autouse=True, scope="session")
def no_variables_of_the_machine() -> Iterator[None]:
    """What the machine has set is taken away once, and not anew for every test."""
    with pytest.MonkeyPatch.context() as machine:
        _leave_harmless(machine, besides=("HOME", "PYTHONDONTWRITEBYTECODE"))
        yield


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Paths for homes, counted here: `mktemp` would look through all earlier folders for the next number."""
    base = tmp_path_factory.mktemp("homes")
    return (base / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def clean_environment(homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh HOME and only harmless variables; gives the home."""
    home = next(homes)
    home.mkdir()
    _leave_harmless(monkeypatch, besides=("HOME",))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    for name, value in QUIET.items():
        monkeypatch.setenv(name, value)
    return home


def _leave_harmless(patch: pytest.MonkeyPatch, besides: tuple[str, ...]) -> None:
    for name in list(os.environ):
        if name not in _KEPT and name not in besides and not name.startswith(_KEPT_PREFIXES):
            patch.delenv(name)


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


@pytest.fixture(autouse=True, scope="session")
def machine_unchanged() -> Iterator[None]:
    """No test changes what lies outside its own folders: modes, owners and links of what matters are as before."""
    watched = {path: _looks(path) for path in _MACHINE}
    yield
    changed = [f"{path}: {before} is now {_looks(path)}" for path, before in watched.items() if _looks(path) != before]
    assert not changed, "tests changed the machine: " + "; ".join(changed)


def _looks(path: Path) -> str:
    try:
        status = os.lstat(path)
    except OSError as error:
        return error.strerror or "not there"
    goal = f" -> {os.readlink(path)}" if path.is_symlink() else ""
    return f"{status.st_mode:o} of {status.st_uid}:{status.st_gid}{goal}"


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """The installed command, in a folder and a home of its own."""
    for name in ("work", "home"):
        (tmp_path / name).mkdir()
    return Command(tmp_path / "work", tmp_path / "home")


def pytest_configure() -> None:
    """Collecting frees nothing, and looking for what could be freed is a third of its time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """From here on, look through what the tests make, not through the tests."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out, outside the soak, what only it runs."""
    if os.environ.get("COWORK_SOAK"):
        return
    left_out = [item for item in items if item.get_closest_marker("soak_only")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("soak_only")]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """After the soak, a table of its loops: how many cases, how many failed, and how long they took."""
    if not os.environ.get("COWORK_SOAK"):
        return
    loops: dict[str, list[float]] = {}
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.getreports(outcome):
            row = loops.setdefault(report.nodeid.partition("[")[0], [0, 0, 0, 0.0])
            row[{"passed": 0, "skipped": 2}.get(outcome, 1)] += 1
            row[3] += report.duration
    terminalreporter.write_line(f"{'passed':>7} {'failed':>6} {'skipped':>7} {'seconds':>8}  loop")
    for name, (passed, failed, skipped, seconds) in sorted(loops.items()):
        terminalreporter.write_line(f"{passed:7.0f} {failed:6.0f} {skipped:7.0f} {seconds:8.0f}  {name}")
