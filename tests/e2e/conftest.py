"""What several of these tests need and which takes long to make."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The wheel of this checkout, built once for all workers: the first builds, the others wait for it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "wheel"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not list(folder.glob("cowork-*.whl")):
            # With the backend of this environment, so that nothing is fetched.
            words = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
            subprocess.run([*words, "-w", str(folder), str(ROOT)], check=True, timeout=400, stdin=subprocess.DEVNULL)
    (found,) = folder.glob("cowork-*.whl")
    return found
