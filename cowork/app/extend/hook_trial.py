"""Runs hooks outside a session, so that whoever writes one can see what it says."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cowork.app.extend.launch import launcher
from cowork.core import signals
from cowork.core.blocks import Json
from cowork.core.hooks import HookCall, HookEvent
from cowork.core.hygiene import clean_environ
from cowork.core.workspace import Workspace
from cowork.extensions.hook_files import HookRule
from cowork.extensions.hook_process import FileHooks, HookFacts
from cowork.tools.base import TreeState
from cowork.tools.shell import jobs

_SUBJECTS = ("tool_name", "agent_type", "source", "reason", "notification_type", "trigger")


def run_trial(
    event: HookEvent, data: Json, rules: Sequence[HookRule], root: Path, environ: Mapping[str, str]
) -> tuple[Json, list[HookRule], list[str]]:
    """What the hooks that match decide, which those are, and what is wrong with them."""
    subject = next((str(data[name]) for name in _SUBJECTS if name in data), "")
    ran = [rule for rule in rules if rule.matches(event, subject, data)]
    said: list[str] = []

    async def fire() -> Json:
        with tempfile.TemporaryDirectory(prefix="cowork-") as scratch:
            tree = TreeState(Path(scratch), clean_environ(environ))
            facts = HookFacts("trial", "", root, lambda: "ask", Path(scratch) / "data")
            files = FileHooks(ran, facts, launcher(tree, Workspace(root)), said.append)
            try:
                verdict: Any = await files.fire(HookCall(event, subject, data))
                await files.aclose()
            finally:
                await jobs.close(tree)
        found = {
            name: getattr(verdict, name)
            for name in ("decision", "reason", "updated_input", "context", "output", "stop")
        }
        return {name: value for name, value in found.items() if value not in ("", None)}

    return signals.run(fire()), ran, said
