"""docs/reference/commands.md: the help of every command, below what is written there by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from cowork.cli.typer_app import app

WIDTH = 100
TARGET = Path(__file__).parents[2] / "docs/reference/commands.md"


def page(before: str) -> str:
    """The page, with the help as it is now."""
    group: Any = get_command(app)
    return before[: before.index("\n## cowork\n")] + "".join(_sections(group, "cowork", None))


def _sections(command: Any, name: str, parent: Any) -> Iterator[str]:
    context = command.context_class(command, info_name=name, parent=parent, terminal_width=WIDTH)
    yield f"\n## {context.command_path}\n\n```text\n{command.get_help(context).rstrip()}\n```\n"
    for child in getattr(command, "commands", {}).values():
        yield from _sections(child, child.name, context)


if __name__ == "__main__":
    TARGET.write_text(page(TARGET.read_text(encoding="utf-8")), encoding="utf-8")
