"""The wheel, in a clean environment, answers a prompt: prompts and agents travel inside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


def run(*words: str | Path, cwd: Path, **env: str) -> str:
    done = subprocess.run(
        [str(w) for w in words],
        cwd=cwd,
        env={**os.environ, "HOME": str(cwd), **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.timeout(600)
def test_the_wheel_holds_everything_it_needs(tmp_path: Path, wheel: Path) -> None:
    # Its dependencies are those of this environment: what is tested is what the wheel itself holds.
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv", cwd=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    packages = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).strip()
    run(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", packages, wheel, cwd=tmp_path)
    here = run(sys.executable, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).strip()
    (Path(packages) / "borrowed.pth").write_text(_without_checkout(Path(here), tmp_path))
    (tmp_path / "a.txt").write_text("hello\n")
    script = [{"call": {"Read": {"file_path": "a.txt"}}}, {"say": "It says hello."}]
    (tmp_path / "script.json").write_text(json.dumps(script))
    out = run(python, "-m", "cowork", "run", "--script", "script.json", "--output", "json", "what?", cwd=tmp_path)
    assert json.loads(out)["result"] == "It says hello."
    where = run(python, "-c", "import cowork, cowork.prompts as p; print(p.data_root())", cwd=tmp_path).strip()
    assert where == f"{packages}/cowork/_data"
    assert "explore" in run(python, "-m", "cowork", "agents", "list", cwd=tmp_path)


def _without_checkout(packages: Path, folder: Path) -> str:
    """A folder of links to every installed package but this project, which must come from the wheel."""
    borrowed = folder / "borrowed"
    borrowed.mkdir()
    for entry in packages.iterdir():
        if not entry.name.startswith(("cowork", "_editable_impl_cowork", "__editable__")) and entry.suffix != ".pth":
            (borrowed / entry.name).symlink_to(entry)
    return f"{borrowed}\n"
