"""A home and a project to lay settings in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cowork.config import Config, load


class Place:
    """A user and a project, each with or without a settings file."""

    def __init__(self, base: Path) -> None:
        self.home = base / "home"
        self.project = base / "project"
        self.user_file = self.home / ".config/cowork/config.toml"
        self.project_file = self.project / ".cowork/config.toml"
        for file in (self.user_file, self.project_file):
            file.parent.mkdir(parents=True)

    def user(self, text: str) -> Place:
        self.user_file.write_text(text, encoding="utf-8")
        return self

    def own(self, text: str) -> Place:
        self.project_file.write_text(text, encoding="utf-8")
        return self

    def load(
        self, environ: Mapping[str, str] | None = None, flags: Mapping[str, Any] | None = None, **rest: Any
    ) -> Config:
        given = {"HOME": str(self.home), **(environ or {})}
        return load(cwd=self.project, environ=given, flags=flags, **{"trusted": True, **rest})


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)
