"""The files as they were before each prompt, so that a rewind can put back what tools, commands and children changed.

Nothing is looked at until something is about to change: a file tool names its path, a command may touch anything, so
before the first one of a prompt the whole workspace is looked at. After the turn a second look tells what changed.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cowork.core.events import Event, PromptAdded, TurnEnded
from cowork.core.workspace import Workspace
from cowork.sessions.checkpoints.contents import Blobs
from cowork.sessions.checkpoints.entries import Node, from_list, look, read_bytes, same
from cowork.sessions.checkpoints.rewind import RewindPlan, RewindResult, RewindStep, Touched, apply, make_plan
from cowork.sessions.checkpoints.snapshot import TICK_NS, Snapshots, Tree
from cowork.sessions.checkpoints.walk import TooManyFiles
from cowork.sessions.private_files import open_private, private_folder, replace_private

JOURNAL = "journal.jsonl"
TOUCHED = "open-touched.json"
TREE = "open-tree.json"
BASE = "base-tree.json"
BACKUPS = "backups"
STORE_BYTES = 512 * 1024 * 1024

Change = tuple[Node | None, Node | None]  # before and after
Turn = tuple[int, dict[str, Change]]  # a prompt and what its answer changed


@dataclass(slots=True)
class _Turn:
    """The prompt that runs now: what it was told would change, and the whole tree if a command ran."""

    prompt_id: int
    touched: dict[str, Node | None] = field(default_factory=dict)
    before: Tree | None = None
    looked_at: int = 0  # when, in ns
    blind: bool = False  # the tree is too large, or the disk too full, to look at


class Checkpoints:
    """The checkpoints of one session, in `store`. Calls may come from any thread, one at a time."""

    def __init__(
        self,
        store: Path,
        workspace_root: Path,
        extra: Sequence[Path] = (),
        *,
        report: Callable[[str], None] = lambda text: None,
        limit: int = STORE_BYTES,
    ) -> None:
        self._store = store
        self._workspace = Workspace(workspace_root, extra)
        self.report = report
        self._lock = threading.RLock()
        self._blobs = Blobs(store, limit=limit)
        own = Path(os.path.realpath(store))
        skip = (
            own,
            *own.parents[:2],
        )  # <sessions>/<id>/<store>: the logs of this and other sessions are not files to undo
        self._snapshots = Snapshots(self._workspace, self._blobs, skip=skip)
        self._said_full = False
        self._base: Tree = {}  # what BASE holds, and the name it has there
        self._base_id = ""
        self._here = _place(self._workspace.root)
        self._elsewhere: set[str] = set()  # contents of turns in other folders, should the session go on there
        self._turns = self._load()
        self._turn: _Turn | None = self._left_open()
        self._prompt = self._turn.prompt_id if self._turn else max((prompt for prompt, _ in self._turns), default=0)

    def __call__(self, event: Event) -> None:
        """As a sink of events: each prompt of the person begins a checkpoint, the end of the turn ends it."""
        match event:
            case PromptAdded(agent="main", source="user" | "queue" | "steer"):
                self.begin(event.id)
            case TurnEnded(agent="main"):
                self.end()

    def begin(self, prompt_id: int) -> None:
        """A prompt starts; `prompt_id` is the id of its event."""
        with self._lock:
            self.end()
            self._turn = _Turn(prompt_id)
            self._prompt = prompt_id

    def before_change(self, path: Path | None) -> None:
        """A tool is about to write `path`, or, with None, a command is about to run. Never fails."""
        with self._lock:
            if self._turn is None:  # a child or command in the background, after its prompt was answered
                self._turn = _Turn(self._prompt)
            turn = self._turn
            if path is None and (turn.before is not None or turn.blind):
                return
            with self._reported("This change cannot be undone with /rewind"):
                if path is None:
                    self._look_around(turn)
                else:
                    for real in _meant(path):
                        self._note(turn, real)

    def watch(self) -> Callable[[], tuple[str, ...]]:
        """Look at the workspace now; what this gives looks again and names the files that differ. Never fails."""
        before = self._seen()

        def changed() -> tuple[str, ...]:
            after = self._seen()
            if before is None or after is None:
                return ()
            nodes = ((path, before.get(path), after.get(path)) for path in sorted(before.keys() | after.keys()))
            return tuple(path for path, a, b in nodes if not same(a, b) and "d" not in (a and a.kind, b and b.kind))

        return changed

    def _seen(self) -> Tree | None:
        with self._lock, contextlib.suppress(OSError, TooManyFiles):
            return self._snapshots.take(keep=False)
        return None

    def end(self) -> tuple[str, ...]:
        """The prompt is answered; gives the paths that changed."""
        with self._lock:
            turn, self._turn = self._turn, None
            if turn is None or (turn.before is None and not turn.touched):
                return ()
            changes: dict[str, Change] = {}
            with self._reported("What this turn changed cannot be undone with /rewind"):
                changes = self._changes(turn)
                self._adopt(changes)
                if changes:
                    self._turns.append((turn.prompt_id, changes))
                    self._write({"prompt": turn.prompt_id, "at": round(time.time(), 3), "changes": changes})
                for name in (TREE, TOUCHED):
                    (self._store / name).unlink(missing_ok=True)
            return tuple(changes)

    def warm(self) -> None:
        """Look at the workspace ahead of time, from a thread, so that the first command need not wait."""
        with self._lock, contextlib.suppress(OSError, TooManyFiles):
            self._snapshots.take(keep=True)

    def preview(self, prompt_id: int) -> RewindPlan:
        """What going back to just before a prompt would do to the files; changes nothing."""
        with self._lock:
            self.end()
            return make_plan(prompt_id, self._touched(prompt_id), self._workspace, self._snapshots.content)

    def content(self, step: RewindStep) -> bytes | None:
        """What a step of a plan would put back; None if it was not kept."""
        if step.target is None or step.target.kind != "f":
            return b""
        with self._lock:
            return self._snapshots.content(step.target.content) if step.target.content else None

    def restore(self, plan: RewindPlan, *, force: bool = False) -> RewindResult:
        """Do what a plan says. What others changed since stays, unless forced; all that goes is backed up first."""
        with self._lock:
            self.end()
            backup = self._store / BACKUPS / f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
            done = apply(plan, self._workspace, self._snapshots.content, backup, force=force)
            left = [path for path, _ in done.failed]  # they can be tried again
            self._turns = _rewound(self._turns, plan.prompt_id, left)
            with self._reported("The rewind could not be noted"):
                self._write({"rewound": plan.prompt_id, "left": left})
            return done

    def close(self) -> None:
        """End what runs, let the files go, and keep on disk only what a later rewind can need."""
        with self._lock:
            self.end()
            with self._reported("The checkpoints could not be tidied up"):
                (self._store / BASE).unlink(missing_ok=True)
                self._base, self._base_id = {}, ""
                self._blobs.keep_only(self._needed())
            with self._reported("The checkpoints could not be closed"):
                self._blobs.close()

    def _look_around(self, turn: _Turn) -> None:
        turn.looked_at = time.time_ns()
        try:
            turn.before = self._snapshots.take(keep=True)
        except TooManyFiles:
            turn.blind = True
            self.report("This folder holds too many files for /rewind to cover what commands change.")
            return
        except OSError:
            turn.blind = True
            raise
        if self._blobs.full and not self._said_full:
            self._said_full = True
            self.report("The checkpoints of this session are full: /rewind covers no further changes of commands.")
        self._remember_tree(turn.prompt_id, turn.looked_at, turn.before)

    def _note(self, turn: _Turn, path: Path) -> None:
        name = self._name(path)
        if name in turn.touched or (turn.before is not None and name in turn.before):
            return
        missing = [parent for parent in path.parents if not os.path.lexists(parent)]
        node = look(self._workspace, path)
        if node and self._is_new(turn, path, node):
            return  # a command of this turn made it, and the look at the end will find it
        if node and node.kind == "f" and node.content:
            data = read_bytes(self._workspace, path)
            if data is None or not self._blobs.put(data, node.content):
                node = node._replace(content="")
            self._blobs.flush()
        turn.touched[name] = node
        for parent in missing:
            if turn.before is None or self._name(parent) not in turn.before:
                turn.touched.setdefault(self._name(parent), None)
        self._remember(TOUCHED, {"prompt": turn.prompt_id, "touched": turn.touched})

    def _is_new(self, turn: _Turn, path: Path, node: Node) -> bool:
        """Whether the look at the start would have found it, had it been there. What is ignored may have been there."""
        if turn.before is None or not self._snapshots.covers(path):
            return False
        return _came(node, turn.looked_at, {known.stamp[3] for known in turn.before.values()})

    def _changes(self, turn: _Turn) -> dict[str, Change]:
        """Path -> before and after, for all that differs."""
        pairs: dict[str, Change] = {}
        if turn.before is not None:
            after = self._snapshots.take(keep=False)
            pairs = {path: (old, after.get(path)) for path, old in turn.before.items()}
            for path, (old, new) in pairs.items():
                if new is None:  # gone, or only ignored from now on
                    pairs[path] = (old, look(self._workspace, self._path(path)))
            inodes = {node.stamp[3] for node in turn.before.values()}
            for path in after.keys() - pairs.keys():
                if _came(after[path], turn.looked_at, inodes):
                    pairs[path] = (None, after[path])
        for path, first in turn.touched.items():
            pairs[path] = (first, look(self._workspace, self._path(path)))
        return {path: pair for path, pair in sorted(pairs.items()) if not same(*pair)}

    def _needed(self) -> set[str]:
        """The contents that a rewind would put back."""
        nodes = (before for _, changes in self._turns for before, _ in changes.values())
        return {node.content for node in nodes if node and node.kind == "f"} | self._elsewhere

    def _adopt(self, changes: dict[str, Change]) -> None:
        """Copy from git the contents that are now needed, as git may forget them."""
        files = [before.content for before, _ in changes.values() if before and before.kind == "f" and before.content]
        self._snapshots.adopt([name for name in files if name not in self._blobs])

    def _touched(self, prompt_id: int) -> dict[str, Touched]:
        """What the prompts from this one on did to each path: how it was, how they left it, who else was there."""
        found: dict[str, Touched] = {}
        for prompt, changes in self._turns:
            if prompt < prompt_id:
                continue
            for path, (before, after) in changes.items():
                earlier = found.get(path)
                if earlier is None:
                    found[path] = Touched(before, after)
                else:
                    meddled = earlier.outside or not same(earlier.after, before)
                    found[path] = Touched(earlier.before, after, outside=meddled)
        return found

    def _name(self, path: Path) -> str:
        root = self._workspace.root
        return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)

    def _path(self, name: str) -> Path:
        return self._workspace.root / name

    def _remember(self, name: str, state: dict[str, object]) -> None:
        """So that a turn that a crash cuts off can be rewound too."""
        data = json.dumps(state | {"root": self._here}, separators=(",", ":")).encode()
        replace_private(private_folder(self._store) / name, data)

    def _remember_tree(self, prompt_id: int, looked_at: int, tree: Tree) -> None:
        """Written as what differs from a tree written earlier, for most of it never changes."""
        base = self._base
        differs: dict[str, Node | None] = {path: node for path, node in tree.items() if base.get(path) is not node}
        differs |= dict.fromkeys(base.keys() - tree.keys())
        if len(differs) > 100 + len(tree) // 8:
            self._base, self._base_id, differs = tree, secrets.token_hex(8), {}
            self._remember(BASE, {"id": self._base_id, "tree": tree})
        self._remember(TREE, {"prompt": prompt_id, "at": looked_at, "base": self._base_id, "differs": differs})

    def _left_open(self) -> _Turn | None:
        """The turn that a crash cut off, as far as it was noted."""
        turn = None
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            raw = json.loads((self._store / TOUCHED).read_bytes())
            if not self._is_here(raw):
                return None
            turn = _Turn(int(raw["prompt"]), {path: from_list(node) for path, node in raw["touched"].items()})
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            raw = json.loads((self._store / TREE).read_bytes())
            if not self._is_here(raw):
                return None
            base = json.loads((self._store / BASE).read_bytes()) if raw["base"] else {"id": "", "tree": {}}
            if base["id"] != raw["base"]:
                return turn
            turn = turn or _Turn(int(raw["prompt"]))
            whole = base["tree"] | raw["differs"]
            turn.before = {path: node for path, n in whole.items() if (node := from_list(n))}
            turn.looked_at = int(raw["at"])
        return turn

    def _load(self) -> list[Turn]:
        turns: list[Turn] = []
        try:
            lines = (self._store / JOURNAL).read_bytes().splitlines()
        except OSError:
            return turns
        for line in lines:
            with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
                raw = json.loads(line)
                here = self._is_here(raw)
                if "rewound" in raw:
                    turns = _rewound(turns, raw["rewound"], raw.get("left", ())) if here else turns
                    continue
                changes = {p: (from_list(old), from_list(new)) for p, (old, new) in raw["changes"].items()}
                if here:
                    turns.append((int(raw["prompt"]), changes))
                else:
                    self._elsewhere |= {old.content for old, _ in changes.values() if old and old.kind == "f"}
        return turns

    def _is_here(self, raw: dict[str, Any]) -> bool:
        """Whether a note is of this folder, which may have been moved; older notes do not say."""
        path, *identity = raw.get("root") or self._here
        return path == self._here[0] or identity == self._here[1:]

    def _write(self, record: dict[str, object]) -> None:
        fd = open_private(private_folder(self._store) / JOURNAL, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            size = os.fstat(fd).st_size
            torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
            line = json.dumps(record | {"root": self._here}, separators=(",", ":")).encode() + b"\n"
            os.write(fd, b"\n" + line if torn else line)
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def _reported(self, what: str) -> Iterator[None]:
        """Trouble with the store is said; the work goes on."""
        try:
            yield
        except TooManyFiles:
            self.report(f"{what}: this folder holds too many files.")
        except OSError as error:
            self.report(f"{what}: {error.strerror}.")


def _rewound(turns: list[Turn], prompt_id: int, left: Sequence[str]) -> list[Turn]:
    """The turns after a rewind: of those that were taken back, only what became of the paths it could not put back."""
    kept = []
    for prompt, changes in turns:
        rest = changes if prompt < prompt_id else {path: changes[path] for path in left if path in changes}
        if rest:
            kept.append((prompt, rest))
    return kept


def _place(root: Path) -> list[str | int]:
    """A folder by its name, and by what stays the same when it is moved."""
    status = os.stat(root)
    return [str(root), status.st_dev, status.st_ino]


def _meant(path: Path) -> set[Path]:
    """What a write to this path may change: the entry itself, and what it leads to if it is a link."""
    entry = Path(os.path.realpath(path.parent), path.name)
    return {entry, Path(os.path.realpath(path))}


def _came(node: Node, since: int, inodes: set[int]) -> bool:
    """Whether a new entry was made or moved by the turn. One that is older and unknown was only ignored until now."""
    return node.stamp[2] >= since - TICK_NS or node.stamp[3] in inodes
