"""Going back: what a rewind would do to the files, and doing it without losing what others changed meanwhile."""

from __future__ import annotations

import contextlib
import difflib
import errno
import os
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Literal

from cowork.core.errors import ToolError, UserError
from cowork.core.frozen import frozen
from cowork.core.workspace import Workspace
from cowork.private_files import open_private, private_folder
from cowork.sessions.checkpoints.entries import (
    MAX_FILE,
    OWNER,
    Node,
    erase,
    look,
    make_parents,
    open_up,
    put_back,
    read_bytes,
    same,
)
from cowork.sessions.checkpoints.scan import Scanner
from cowork.sessions.checkpoints.store import TurnChanges

Contents = Callable[[str], bytes | None]
Action = Literal["create", "modify", "delete"]
_MAX_DIFF_LINES = 4_000
_NOT_KEPT = (
    "Its old content was not kept: it is too large, there was no room, or a command changed it before it had been read."
)


@frozen
class Touched:
    """What became of a path: as it was, as it was left, and whether others changed it in between."""

    before: Node | None
    after: Node | None
    outside: bool = False


@frozen
class RewindStep:
    """What a rewind does to one path. `added` and `removed` are lines, None where there are none to count."""

    path: str
    action: Action
    added: int | None = None
    removed: int | None = None
    conflict: bool = False  # changed outside since: left alone unless forced
    problem: str = ""  # why it cannot be put back
    target: Node | None = field(default=None, repr=False)
    current: Node | None = field(default=None, repr=False)


@frozen
class RewindPlan:
    """What a rewind would do. `steps` is everything, `files` what people care to see."""

    prompt_id: int
    steps: tuple[RewindStep, ...]

    @property
    def files(self) -> tuple[RewindStep, ...]:
        """Without the folders that only come and go with their files."""
        paths = [s.path for s in self.steps]
        return tuple(s for s in self.steps if not _is_folder(s) or not any(p.startswith(s.path + "/") for p in paths))

    @property
    def conflicts(self) -> tuple[RewindStep, ...]:
        return tuple(s for s in self.steps if s.conflict)


@frozen
class RewindResult:
    """What a rewind did: paths put back, paths left alone because others changed them, and what went wrong."""

    restored: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    backup: Path | None = None  # where everything that was overwritten or deleted is


def make_plan(prompt_id: int, turns: Sequence[TurnChanges], workspace: Workspace, kept: Scanner) -> RewindPlan:
    """The steps from what is there now to what was there before. A new folder stays if what git ignores is in it."""
    steps: dict[str, RewindStep] = {}
    staying: set[str] = set()
    touched = sorted(_touched_since(turns, prompt_id).items(), reverse=True)  # what is in a folder before the folder
    for path, seen in touched:
        now = look(workspace, workspace.root / path)
        if seen.before is None and now and now.kind == "d":
            inside = set[str]()
            with contextlib.suppress(OSError):
                inside = {name for name in os.listdir(workspace.root / path) if f"{path}/{name}" not in steps}
            if any(f"{path}/{name}" in staying for name in inside) or (
                inside and inside & {".git", *kept.ignored_paths(workspace.root / path)}
            ):
                staying.add(path)
                continue
        if not same(now, seen.before):
            steps[path] = _step(path, seen, now, workspace, kept.content)
    return RewindPlan(prompt_id, tuple(reversed(steps.values())))


def apply(plan: RewindPlan, workspace: Workspace, contents: Contents, backup: Path, *, force: bool) -> RewindResult:
    """Take the steps: first everything that goes is copied, then it goes, then the old state comes back."""
    kept: list[str] = []
    failed: dict[str, str] = {}
    todo: list[tuple[RewindStep, Node | None]] = []
    closed = _open_folders(plan, workspace)
    try:
        for step in plan.steps:
            now = step.current if step.path in closed else look(workspace, workspace.root / step.path)
            if step.problem:
                failed[step.path] = step.problem
            elif not force and (step.conflict or not same(now, step.current)) and not same(now, step.target):
                kept.append(step.path)  # others changed it before or after the preview
            else:
                todo.append((step, now))
        saved = [_back_up(workspace, step, now, backup) for step, now in todo]
        _take_away(todo, workspace, kept, failed)
        _bring_back(todo, workspace, contents, failed)
    finally:
        closed |= {step.path: step.target.mode for step, _ in todo if step.target and step.target.kind == "d"}
        _close_folders(closed, workspace, failed)
    left = {*kept, *failed}
    restored = tuple(step.path for step, _ in todo if step.path not in left)
    return RewindResult(restored, tuple(kept), tuple(failed.items()), backup if any(saved) else None)


def _touched_since(turns: Sequence[TurnChanges], prompt_id: int) -> dict[str, Touched]:
    """What the prompts from this one on did to each path: how it was, how they left it, who else was there."""
    found: dict[str, Touched] = {}
    for prompt, changes in turns:
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


def _open_folders(plan: RewindPlan, workspace: Workspace) -> dict[str, int]:
    """Let us into the folders that hold a step but may not be written; gives their modes."""
    above = {str(parent) for step in plan.steps for parent in Path(step.path).parents if parent.name}
    modes = {path: open_up(workspace, workspace.root / path) for path in sorted(above)}  # outside first
    return {path: mode for path, mode in modes.items() if mode is not None}


def _close_folders(modes: Mapping[str, int], workspace: Workspace, failed: dict[str, str]) -> None:
    for path in sorted(modes, reverse=True):  # inside first
        try:
            if (now := look(workspace, workspace.root / path)) and now.kind == "d" and now.mode != modes[path]:
                put_back(workspace, workspace.root / path, Node("d", modes[path]), b"")
        except (OSError, ToolError) as error:
            failed.setdefault(path, _why(error))


def _take_away(
    todo: Sequence[tuple[RewindStep, Node | None]], workspace: Workspace, kept: list[str], failed: dict[str, str]
) -> None:
    for step, now in sorted(todo, key=lambda item: item[0].path.count("/"), reverse=True):  # inside first
        if now and (step.target is None or step.target.kind != now.kind):
            try:
                erase(workspace, workspace.root / step.path)
            except (OSError, ToolError) as error:
                if _is_folder(step) and isinstance(error, OSError) and error.errno == errno.ENOTEMPTY:
                    kept.append(step.path)  # somebody else's files are in it
                else:
                    failed[step.path] = _why(error)


def _bring_back(
    todo: Sequence[tuple[RewindStep, Node | None]], workspace: Workspace, contents: Contents, failed: dict[str, str]
) -> None:
    for step, _ in sorted(todo, key=lambda item: item[0].path.count("/")):  # outside first
        target, full = step.target, workspace.root / step.path
        if target is None or step.path in failed:
            continue
        try:
            if target.kind == "d":  # what is in it comes next
                target = target._replace(mode=target.mode | OWNER)
            data = contents(target.content) if target.kind == "f" else b""
            if data is None:
                raise FileNotFoundError(errno.ENOENT, "Its old content is gone from the store")
            make_parents(workspace, full)
            put_back(workspace, full, target, data)
        except (OSError, ToolError) as error:
            failed[step.path] = _why(error)


def _step(path: str, seen: Touched, now: Node | None, workspace: Workspace, contents: Contents) -> RewindStep:
    action: Action = "create" if now is None else "delete" if seen.before is None else "modify"
    folders = all(node is None or node.kind == "d" for node in (now, seen.before))
    conflict = not folders and (seen.outside or not same(now, seen.after))
    problem = ""
    old: bytes | None = b""
    if seen.before and seen.before.kind in "fl":
        if seen.before.kind == "f":
            old = contents(seen.before.content) if seen.before.content else None
        if old is None or not seen.before.content:
            problem = _NOT_KEPT
    new = read_bytes(workspace, workspace.root / path) if now and now.kind == "f" else b""
    if now and now.kind == "x":
        problem = "It is not a file any more."
    added, removed = (None, None) if folders or old is None or new is None else count_lines(new, old)
    return RewindStep(path, action, added, removed, conflict, problem, seen.before, now)


def count_lines(now: bytes, then: bytes) -> tuple[int | None, int | None]:
    """Lines added and removed on the way from `now` to `then`; None for what is not text."""
    if b"\0" in now[:8192] or b"\0" in then[:8192]:
        return None, None
    a, b = now.splitlines(), then.splitlines()
    if len(a) + len(b) > _MAX_DIFF_LINES:  # too long to align: count what one has and the other has not
        left, right = Counter(a), Counter(b)
        return (right - left).total(), (left - right).total()
    added = removed = 0
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag != "equal":
            added, removed = added + j2 - j1, removed + i2 - i1
    return added, removed


def _back_up(workspace: Workspace, step: RewindStep, now: Node | None, backup: Path) -> bool:
    """Copy what is about to go; large files only when they are not our own work."""
    if now is None or now.kind == "d" or (not step.conflict and now.stamp[0] > MAX_FILE):
        return False
    copy = backup / step.path.lstrip("/")
    try:
        private_folder(copy.parent)
        if now.kind == "l":
            os.symlink(now.content, copy)
            return True
        source = workspace.open(workspace.root / step.path, os.O_RDONLY)
        with (
            os.fdopen(source, "rb") as old,
            os.fdopen(open_private(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as new,
        ):
            shutil.copyfileobj(old, new)
    except (OSError, ToolError) as error:
        raise UserError(
            f"Nothing was rewound: {step.path} could not be backed up first ({_why(error)}).",
            "Make room and try again.",
        ) from error
    return True


def _is_folder(step: RewindStep) -> bool:
    return all(node is None or node.kind == "d" for node in (step.target, step.current))


def _why(error: OSError | ToolError) -> str:
    return error.text if isinstance(error, ToolError) else error.strerror or str(error)
