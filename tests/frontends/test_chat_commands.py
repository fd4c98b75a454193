"""Parts of the slash commands that need no terminal: kept keys, grants."""

from __future__ import annotations

import json
import stat
from pathlib import Path

from cowork.config import keyring
from cowork.core.workspace import Workspace
from cowork.permissions import Permissions
from cowork.permissions.rules import RuleBook, Rules


def test_a_key_without_a_keyring_is_in_a_file_for_its_owner_alone_and_is_found(tmp_path: Path) -> None:
    environ = {"COWORK_HOME": str(tmp_path)}
    path = keyring.keep("OPENAI_API_KEY", "sk-secret", environ)
    assert path is not None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    keyring.keep("ANTHROPIC_API_KEY", "sk-ant-secret", environ)
    assert json.loads(path.read_text()).keys() == {"OPENAI_API_KEY", "ANTHROPIC_API_KEY"}
    assert keyring.read("OPENAI_API_KEY", environ) == "sk-secret"
    assert keyring.read("OPENAI_API_KEY", {"COWORK_HOME": str(tmp_path / "other")}) == ""


def test_a_grant_can_be_taken_back(tmp_path: Path) -> None:
    space, file = Workspace(tmp_path), tmp_path / "rules.json"
    permissions = Permissions(workspace=space, book=RuleBook(space, Rules(), file))
    permissions.grant("main", "Bash(make:*)", forever=True)
    permissions.grant("main", "Bash(ls:*)", forever=False)
    assert [str(rule) for rule in permissions.book.kept] == ["Bash(make:*)"]
    assert permissions.book.forget("Bash(make:*)")
    assert permissions.book.forget("Bash(ls:*)")
    assert not permissions.book.forget("Bash(ls:*)")
    assert (permissions.book.kept, permissions.book.granted) == ((), [])
    assert RuleBook(space, Rules(), file).kept == ()
