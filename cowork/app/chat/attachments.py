"""Attaches the files, folders and images that a message names as `@path`, and says in a line each what was attached."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cowork.core.blocks import Image
from cowork.core.errors import ToolError
from cowork.core.format import one_line
from cowork.core.ports import ToolRecord
from cowork.engine.runner import Runner
from cowork.permissions import Permissions
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

    def take(self, name: str, record: ToolRecord) -> None:
        said = str(record.display.get("summary") or "")
        text = "" if record.images else record.text
        if len(text) + sum(map(len, self.texts)) > _ROOM:
            self.lines.append(f"{name} · not attached: too much for one message")
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


async def attach(
    text: str, images: Sequence[Path], runner: Runner, permissions: Permissions, agents: Collection[str]
) -> Attachments:
    """Read what the message names. The person chose it, so nobody is asked; what a rule denies stays out."""
    out = Attachments()
    names = [(name, Path(name).expanduser()) for name in named_paths(text) if name not in agents]
    for path in images:  # put into the message by hand
        data = path.read_bytes()
        if found := picture(data):
            out.images.append(found.block(data))
            out.lines.append(f"{path.name} · {found.width}×{found.height}, {len(data) / 1000:.1f} KB")
        else:
            out.lines.append(f"{path.name} · not attached: no image")
    for name, path in names:
        full = runner.state.cwd / path
        if not full.exists():
            if _PATH.fullmatch(name) and ("/" in name or 1 < len(path.suffix) <= 5):  # no decorator, no handle
                out.lines.append(f"{name} · not found")
            continue
        tool, key = (ls, "path") if full.is_dir() else (read, "file_path")
        ctx, args = runner.context("attach"), {key: str(full)}
        decision = permissions.judge(runner.agent, tool, args, list(tool.effects(ctx, args)))
        if decision.verdict == "deny":
            out.lines.append(f"{name} · not attached: {one_line(decision.reason)}")
            continue
        try:
            record = await tool(ctx, args)
        except (ToolError, OSError) as error:
            out.lines.append(f"{name} · not attached: {one_line(str(error))}")
            continue
        if full.is_dir():
            record.display["summary"] = f"folder, {record.display.get('summary') or 'listed'}"
        out.take(name, record)
    return out
