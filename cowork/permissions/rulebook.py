"""All rules of a run in one place: of the configuration, kept from earlier runs in this folder, granted in this one."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from cowork.core.errors import UserError
from cowork.core.later import later
from cowork.core.ports import EXACTLY
from cowork.core.workspace import Workspace, start_of
from cowork.permissions.rules import Rule, Rules, _command, parse_all
from cowork.private_files import write_private

with later(__name__):
    from cowork.permissions.shell.hints import in_workspace

_MOST_RULES = 1 << 20  # bytes of the file
_MOST_PROGRAM = 16 << 20


class RuleBook:
    """The rules in force; what the person grants is added, and kept for this folder if they say so."""

    def __init__(self, workspace: Workspace, rules: Rules, file: Path | None = None) -> None:
        self.workspace = workspace
        self.rules = rules
        self.file = file
        self.granted: list[tuple[str, Rule]] = []  # (who asked, what was granted), of the whole tree
        self.exact: set[str] = set()  # texts granted for the session as they were shown
        self._kept: list[Rule] = []
        self._programs: dict[str, str] = {}  # path of a granted program -> what it held then
        if file:
            try:
                stored = _read(file)
                self._kept = [
                    one for text in stored["allow"].get(str(workspace.root), ()) for one in parse_all(str(text))
                ]
                self._programs = dict(stored.get("programs", {}).get(str(workspace.root), {}))
            except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
                raise UserError(f"{file} cannot be read as rules: {error}.", "Correct or delete it.") from error

    def all(self) -> Rules:
        return self.rules + Rules(allow=(*self._kept, *(rule for _, rule in self.granted)))

    @property
    def of_dialogs(self) -> frozenset[Rule]:
        """Rules that were granted in a dialog, now or earlier."""
        return frozenset((*self._kept, *(rule for _, rule in self.granted)))

    def grant(self, agent: str, text: str, *, forever: bool) -> None:
        """Remember a grant for this run, or for every run in this folder."""
        if text.startswith(EXACTLY):
            self.exact.add(text.removeprefix(EXACTLY))
            return
        rules = parse_all(text) if text else []
        self.granted += [(agent, one) for one in rules if (agent, one) not in self.granted]
        for rule in rules:
            words = _command(rule.pattern)[0] if rule.tool in ("Bash", "Network", "Outside") else None
            file = in_workspace(words[0], self.workspace.root, self.workspace.writable) if words else None
            if file:
                self._programs[str(file)] = _content(file)
        if forever and rules and self.file:
            self._kept += [one for one in rules if one not in self._kept]
            self._save(self.file)

    @property
    def kept(self) -> tuple[Rule, ...]:
        """What was granted for every run in this folder."""
        return tuple(self._kept)

    def forget(self, text: str) -> bool:
        """Take a grant back, of this run and of this folder; False when it was none."""
        granted = [one for one in self.granted if str(one[1]) != text]
        kept = [one for one in self._kept if str(one) != text]
        found = len(granted) < len(self.granted) or len(kept) < len(self._kept)
        save = self.file is not None and len(kept) < len(self._kept)
        self.granted, self._kept = granted, kept
        if save and self.file:
            self._save(self.file)
        return found

    def changed(self, program: Path) -> bool:
        """Whether a granted program of the workspace is not what it was when it was granted."""
        return self._programs.get(str(program)) != _content(program)

    def _save(self, file: Path) -> None:
        """Write the rules whole or not at all, for the user alone; those of other folders are kept."""
        stored, root = _read(file), str(self.workspace.root)
        stored["allow"][root] = [str(rule) for rule in self._kept]
        stored.setdefault("programs", {})[root] = self._programs
        write_private(file, json.dumps({"version": 1, **stored}, indent=1))


def _read(path: Path) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            stored: dict[str, Any] = json.loads(file.read(_MOST_RULES))
    except FileNotFoundError:
        return {"allow": {}}
    if not isinstance(stored.get("allow"), dict):
        raise ValueError("it has no allow")
    return stored


def _content(path: Path) -> str:
    """What a program is: the hash of its content and where its name leads."""
    real = os.path.realpath(path)
    try:
        return hashlib.sha256(os.fsencode(real) + b"\0" + start_of(Path(real), _MOST_PROGRAM)).hexdigest()
    except OSError:
        return ""
