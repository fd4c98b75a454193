"""Attaches the files, folders and images that a message names as `@path`, and says in a line each what was attached."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from cowork.app.run import Run
from cowork.core.errors import ToolError
from cowork.core.format import one_line
from cowork.core.front_matter import mentions
from cowork.core.ports import ToolRecord
from cowork.engine.loop import Prompt
from cowork.tools.files.media import picture
from cowork.tools.files.read import read
from cowork.tools.search.files import ls

_PATH = re.compile(r"[\w ./~+-]+")
_MOST = 20  # names of one message
_ROOM = 150_000  # characters of all texts of one message


async def attach(run: Run, prompt: Prompt, images: Sequence[Path] = (), *, alone: bool = False) -> list[str]:
    """Add to a prompt what it names, and the images put into it by hand; gives the lines about what was left out.

    The person chose it, so nobody is asked, and what a rule denies stays out. Where a run is `alone` its prompt may be
    the words of others: what would ask before it is read stays out as well.
    """
    texts, lines, refused = list[str](), list[str](), list[str]()

    def refuse(name: str, why: str) -> None:
        refused.append(f"{name} · {why}")
        lines.append(refused[-1])

    for path in images:
        data = path.read_bytes()
        if found := picture(data):
            prompt.images = (*prompt.images, found.block(data))
            lines.append(f"{path.name} · {found.width}×{found.height}, {len(data) / 1000:.1f} KB")
        else:
            refuse(path.name, "not attached: no image")
    for name in mentions(prompt.label or prompt.text)[:_MOST]:
        if name in run.agents or not (record := await _read(run, name, alone=alone)):
            continue
        text = "" if isinstance(record, str) or record.images else record.text
        if isinstance(record, str):
            refuse(name, record)
        elif len(text) + sum(map(len, texts)) > _ROOM:
            refuse(name, "not attached: too much for one message")
        else:
            prompt.images = (*prompt.images, *record.images)
            lines.append(f"{name} · {_summary(record)}")
            texts += [f"The user attached {name}:\n{text}"] if text else []
    prompt.context = "\n\n".join(filter(None, (prompt.context, *texts)))
    prompt.attached += tuple(lines)
    return refused


async def _read(run: Run, name: str, *, alone: bool) -> ToolRecord | str:
    """What a name stands for, or why it is left out; empty: it names nothing."""
    runner, path = run.agent.runner, Path(os.path.expanduser(name))  # which leaves ~nobody/x as it is
    full = runner.state.cwd / path
    if not os.path.exists(full):  # which takes a name that no file can have for one that is not there
        is_path = _PATH.fullmatch(name) and ("/" in name or 1 < len(path.suffix) <= 5)  # no decorator, no handle
        return "not found" if is_path else ""
    tool, key = (ls, "path") if full.is_dir() else (read, "file_path")
    ctx, args = runner.context("attach"), {key: str(full)}
    decision = run.permissions.judge(runner.agent, tool, args, list(tool.effects(ctx, args)))
    if decision.verdict == "deny" or (alone and decision.verdict == "ask"):
        return f"not attached: {one_line(decision.reason)}"
    try:
        record = await tool(ctx, args)
    except (ToolError, OSError) as error:
        return f"not attached: {one_line(str(error))}"
    if full.is_dir():
        record.display["summary"] = f"folder, {record.display.get('summary') or 'listed'}"
    return record


def _summary(record: ToolRecord) -> str:
    lines, total = record.data.get("lines"), record.data.get("total_lines")
    if isinstance(total, int) and isinstance(lines, int) and lines < total:
        return f"first {lines:,} of {total:,} lines"
    return str(record.display.get("summary") or "") + (", clipped" if record.data.get("truncated") else "")
