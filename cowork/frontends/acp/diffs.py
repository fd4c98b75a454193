"""What a tool shows as the protocol's content: diffs as old and new text, everything else as text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cowork.core.blocks import Json
from cowork.core.hygiene import visible

_HUNK = re.compile(r"^@@ .*@@", re.MULTILINE)


def text_content(text: str) -> Json:
    """A piece of text inside a tool call."""
    return {"type": "content", "content": {"type": "text", "text": visible(text)}}


def content_of(display: Mapping[str, Any], root: Path) -> list[Json]:
    """What is drawn in a terminal, as an editor takes it; empty for what has no text."""
    if display.get("kind") == "diff":
        return list(_diffs(str(display.get("diff") or ""), str(root / str(display.get("path") or ""))))
    text = display.get("text")
    return [text_content(text)] if isinstance(text, str) and text.strip() else []


def _diffs(diff: str, path: str) -> Iterator[Json]:
    """One for each hunk, for the whole texts are not in a unified diff."""
    head, *_ = diff.split("\n@@", 1)
    is_new = "--- /dev/null" in head
    for hunk in _HUNK.split(diff)[1:]:
        old: list[str] = []
        new: list[str] = []
        for line in hunk.split("\n")[1:]:
            if line[:1] in (" ", "-"):
                old.append(line[1:])
            if line[:1] in (" ", "+"):
                new.append(line[1:])
        yield {
            "type": "diff",
            "path": path,
            "oldText": None if is_new else "\n".join(old),
            "newText": "\n".join(new),
        }
