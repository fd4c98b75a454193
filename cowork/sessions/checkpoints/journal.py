"""Checkpoints on disk: what each turn changed, and the turn that runs, should a crash cut it off."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cowork.private_files import open_private, private_folder, replace_private
from cowork.sessions.checkpoints.entries import Node, from_list
from cowork.sessions.checkpoints.tables import Snapshot

JOURNAL = "journal.jsonl"
OPEN_TURN = "open-turn.json"
TREE = "open-tree.jsonl"
_DAMAGED = (OSError, ValueError, KeyError, TypeError, AttributeError)

Change = tuple[Node | None, Node | None]  # before and after
TurnChanges = tuple[int, dict[str, Change]]  # a prompt and what its answer changed


@dataclass(slots=True)
class OpenTurn:
    """The turn that runs: the files tools said they would write, and everything if a command ran."""

    prompt_id: int
    touched: dict[str, Node | None] = field(default_factory=dict)
    before: Snapshot | None = None
    looked_at: int = 0  # when, in ns


class Journal:
    """The files of one checkpoint folder. Each note says its workspace, for a session may go on in another."""

    def __init__(self, store: Path, root: Path) -> None:
        self._store = store
        status = os.stat(root)
        self._here: list[str | int] = [str(root), status.st_dev, status.st_ino]
        self._written = Snapshot()  # what TREE holds
        self._written_id = ""  # and the name it has there
        self.elsewhere: set[str] = set()  # contents of turns in other folders, should the session go on there

    def load(self) -> list[TurnChanges]:
        """The turns that can be taken back here, oldest first; damaged lines are left out."""
        turns: list[TurnChanges] = []
        try:
            lines = (self._store / JOURNAL).read_bytes().splitlines()
        except OSError:
            return turns
        for line in lines:
            with contextlib.suppress(*_DAMAGED):
                raw = json.loads(line)
                here = self._is_here(raw)
                if "rewound" in raw:
                    turns = without(turns, raw["rewound"], raw.get("left", ())) if here else turns
                    continue
                changes = {p: (from_list(old), from_list(new)) for p, (old, new) in raw["changes"].items()}
                if here:
                    turns.append((int(raw["prompt"]), changes))
                else:
                    self.elsewhere |= {old.content for old, _ in changes.values() if old and old.kind == "f"}
        return turns

    def append(self, record: dict[str, object]) -> None:
        """Note what a turn changed, or that turns were taken back."""
        fd = open_private(private_folder(self._store) / JOURNAL, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            size = os.fstat(fd).st_size
            torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
            line = json.dumps(record | {"root": self._here}, separators=(",", ":")).encode() + b"\n"
            os.write(fd, b"\n" + line if torn else line)
        finally:
            os.close(fd)

    def write_tree(self, tree: Snapshot) -> None:
        """Write the snapshot of a turn that starts, unless it is what the last one was."""
        if not self._written_id or tree.tables != self._written.tables:
            name = secrets.token_hex(8)
            head = json.dumps(name).encode() + b"\n"
            replace_private(private_folder(self._store) / TREE, b"".join([head, *tree.to_lines()]))
            self._written_id = name
        self._written = tree

    def note_open(self, turn: OpenTurn) -> None:
        """So that a turn that a crash cuts off can be taken back too."""
        noted = {
            "prompt": turn.prompt_id,
            "at": turn.looked_at,
            "tree": self._written_id if turn.before else "",
            "touched": turn.touched,
            "root": self._here,
        }
        data = json.dumps(noted, separators=(",", ":")).encode()
        replace_private(private_folder(self._store) / OPEN_TURN, data)

    def left_open(self) -> OpenTurn | None:
        """The turn that a crash cut off, as far as it was noted."""
        with contextlib.suppress(*_DAMAGED):
            raw = json.loads((self._store / OPEN_TURN).read_bytes())
            if not self._is_here(raw):
                return None
            turn = OpenTurn(int(raw["prompt"]), {path: from_list(node) for path, node in raw["touched"].items()})
            with contextlib.suppress(*_DAMAGED):
                head, *lines = (self._store / TREE).read_bytes().splitlines()
                if raw["tree"] and json.loads(head) == raw["tree"]:
                    turn.before, turn.looked_at = Snapshot.from_lines(lines), int(raw["at"])
                    self._written, self._written_id = turn.before, raw["tree"]
            return turn
        return None

    def close_turn(self) -> None:
        """The turn came to its end."""
        (self._store / OPEN_TURN).unlink(missing_ok=True)

    def tidy(self) -> None:
        """Leave nothing of a tree that no turn needs any more."""
        (self._store / TREE).unlink(missing_ok=True)
        self._written, self._written_id = Snapshot(), ""

    def _is_here(self, raw: dict[str, Any]) -> bool:
        """Whether a note is of this folder, which may have been moved; older notes do not say."""
        path, *identity = raw.get("root") or self._here
        return path == self._here[0] or identity == self._here[1:]


def without(turns: list[TurnChanges], prompt_id: int, left: Sequence[str]) -> list[TurnChanges]:
    """The turns after a rewind: of those that were taken back, only what became of the paths it could not put back."""
    kept = []
    for prompt, changes in turns:
        rest = changes if prompt < prompt_id else {path: changes[path] for path in left if path in changes}
        if rest:
            kept.append((prompt, rest))
    return kept
