"""Attaches the files, folders and images that a message names as `@path`, and says in a line each what was attached."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cowork.app.run import Run
from cowork.core.blocks import Image
from cowork.core.errors import ToolError
from cowork.core.format import one_line
from cowork.core.ports import ToolRecord
from cowork.engine.exchange import Prompt
from cowork.tools.files.media import picture
from cowork.tools.files.read import read
from cowork.tools.search.ls import ls

_NAMED = re.compile(r"(?:^|(?<=[\s(\[\"'`]))@([^\s@]+)")
_PATH = re.compile(r"[\w./~+-]+")
_AFTER = ".,;:!?)]\"'`"  # belongs to the sentence, not to the name
_MOST = 20  # names of one message
_ROOM = 150_000  # characters of all texts of one message


@dataclass(slots=True)
class Attachments:
    """What goes along with a message; `lines` tell a person about it."""

    texts: list[str] = field(default_factory=list)
    images: list[Image] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)  # those of the lines that say why something is not attached

    def refuse(self, name: str, why: str) -> None:
        self.refused.append(f"{name} · {why}")
        self.lines.append(self.refused[-1])

    def take(self, name: str, record: ToolRecord) -> None:
        said = str(record.display.get("summary") or "")
        text = "" if record.images else record.text
        if len(text) + sum(map(len, self.texts)) > _ROOM:
            self.refuse(name, "not attached: too much for one message")
            return
        lines, total = record.data.get("lines"), record.data.get("total_lines")
        if isinstance(total, int) and isinstance(lines, int) and lines < total:
            said = f"first {lines:,} of {total:,} lines"
        elif record.data.get("truncated"):
            said += ", clipped"
        self.images.extend(record.images)
        self.lines.append(f"{name} · {said}")
        if text:
            self.texts.append(f"The user attached {name}:\n{text}")


def named_paths(text: str) -> list[str]:
    """The names behind `@` in a message, each once."""
    names = (match[1].rstrip(_AFTER) for match in _NAMED.finditer(text))
    return list(dict.fromkeys(name for name in names if name))[:_MOST]


async def attach(run: Run, prompt: Prompt, images: Sequence[Path] = (), *, alone: bool = False) -> list[str]:
    """Add to a prompt what it names, and the images put into it by hand; gives the lines about what was left out.

    The person chose it, so nobody is asked, and what a rule denies stays out. Where a run is `alone` its prompt may be
    the words of others: what would ask before it is read stays out as well.
    """
    out = Attachments()
    for path in images:
        data = path.read_bytes()
        if found := picture(data):
            out.images.append(found.block(data))
            out.lines.append(f"{path.name} · {found.width}×{found.height}, {len(data) / 1000:.1f} KB")
        else:
            out.refuse(path.name, "not attached: no image")
    for name in named_paths(prompt.label or prompt.text):
        if name not in run.agents:
            await _attach_named(out, name, run, alone=alone)
    prompt.context = "\n\n".join(filter(None, (prompt.context, *out.texts)))
    prompt.images, prompt.attached = (*prompt.images, *out.images), tuple(out.lines)
    return out.refused


async def _attach_named(out: Attachments, name: str, run: Run, *, alone: bool) -> None:
    runner, path = run.agent.runner, Path(os.path.expanduser(name))  # which leaves ~nobody/x as it is
    full = runner.state.cwd / path
    if not os.path.exists(full):  # which takes a name that no file can have for one that is not there
        if _PATH.fullmatch(name) and ("/" in name or 1 < len(path.suffix) <= 5):  # no decorator, no handle
            out.refuse(name, "not found")
        return
    tool, key = (ls, "path") if full.is_dir() else (read, "file_path")
    ctx, args = runner.context("attach"), {key: str(full)}
    decision = run.permissions.judge(runner.agent, tool, args, list(tool.effects(ctx, args)))
    if decision.verdict == "deny" or (alone and decision.verdict == "ask"):
        out.refuse(name, f"not attached: {one_line(decision.reason)}")
        return
    try:
        record = await tool(ctx, args)
    except (ToolError, OSError) as error:
        out.refuse(name, f"not attached: {one_line(str(error))}")
        return
    if full.is_dir():
        record.display["summary"] = f"folder, {record.display.get('summary') or 'listed'}"
    out.take(name, record)
