"""What changed on disk since a prompt, as diffs."""

from __future__ import annotations

import difflib

from cowork.core.workspace import Workspace
from cowork.frontends.host import FileChange
from cowork.sessions.checkpoints.entries import read_bytes
from cowork.sessions.checkpoints.recorder import Checkpoints
from cowork.sessions.checkpoints.rewind import RewindPlan, RewindStep

_MOST_LINES = 4_000  # comparing longer files takes too long for what it shows


def changes(plan: RewindPlan, checkpoints: Checkpoints, workspace: Workspace) -> list[FileChange]:
    """The way forward from what a rewind would bring back to what is there now."""
    return [_change(step, checkpoints.content(step), workspace) for step in plan.files]


def _change(step: RewindStep, old: bytes | None, workspace: Workspace) -> FileChange:
    what = {"create": "deleted", "delete": "new"}.get(step.action, "")
    counts = "" if step.added is None else f"+{step.removed} −{step.added}"
    remark = " ".join(part for part in (what, counts, "also changed outside" if step.conflict else "") if part)
    new = read_bytes(workspace, workspace.root / step.path) if step.current and step.current.kind == "f" else b""
    if old is None or new is None or step.added is None:
        return FileChange(step.path, remark=remark or "changed")
    return FileChange(step.path, _diff(step.path, old, new), remark, edited=step.action == "modify")


def _diff(path: str, old: bytes, new: bytes) -> str:
    before, after = (data.decode("utf-8", "replace").splitlines() for data in (old, new))
    if len(before) > _MOST_LINES or len(after) > _MOST_LINES:
        return ""
    return "\n".join(difflib.unified_diff(before, after, f"a/{path}", f"b/{path}", lineterm=""))
