"""Sessions of a program on a scripted model, in a folder of their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Options = Callable[..., dict[str, Any]]


@pytest.fixture
def scripted(tmp_path: Path) -> Options:
    """The options of a session that plays these turns."""
    (tmp_path / "work").mkdir(exist_ok=True)

    def options(*main: Any, children: Any = None, **given: Any) -> dict[str, Any]:
        script = tmp_path / f"script-{len(list(tmp_path.iterdir()))}.json"
        price = {"input": 1.0, "output": 1.0}
        script.write_text(json.dumps({"main": main, "agents": children or {}, "price": price}))
        return {"cwd": tmp_path / "work", "script": script, **given}

    return options
