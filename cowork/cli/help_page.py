"""docs/reference/commands.md: the help of every command, as one page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from cowork.cli.typer_app import app

WIDTH = 100

_HEAD = """# Commands

<!-- Made from the commands' own help by `python -m cowork.cli.help_page`; do not edit. -->

## What a run reads and writes

The answer goes to stdout and nothing else does; progress, questions and errors go to stderr or the terminal. Where
stdout is a terminal the answer streams; into a pipe or file it is written once, when it is final, so a try that had to
be repeated never shows there.

The prompt is the argument, or stdin with `-` or without an argument. Beside an argument, stdin is added as context:

| stdin | what happens |
|---|---|
| a file, or a pipe with data | read to its end, 10 MB at most |
| an open pipe without data | left alone after 1 s, and said on stderr |
| a terminal, `/dev/null`, closed | adds nothing |

With `--non-interactive` nothing waits for ever: a pipe that began and then is silent for 10 s counts as ended, and a
prompt that does not come on stdin within 10 s is an error. Bytes that are not UTF-8 are replaced.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | the task failed |
| 2 | bad usage or configuration |
| 3 | no or refused credentials |
| 4 | a budget or turn limit was hit |
| 5 | the run ended without finishing because an action was denied |
| 75 | the model service was unavailable after retries; try again |
| 124 | timed out |
| 130 | interrupted |
| 141 | the reader of the output went away |
| 143 | terminated |
"""


def page() -> str:
    """The whole page."""
    group: Any = get_command(app)
    return _HEAD + "".join(_sections(group, "cowork", None))


def _sections(command: Any, name: str, parent: Any) -> Iterator[str]:
    context = command.context_class(command, info_name=name, parent=parent, terminal_width=WIDTH)
    yield f"\n## {context.command_path}\n\n```text\n{command.get_help(context).rstrip()}\n```\n"
    for child in getattr(command, "commands", {}).values():
        yield from _sections(child, child.name, context)


def main() -> None:
    """Write the page of a checkout anew."""
    target = Path(__file__).parents[2] / "docs/reference/commands.md"
    target.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
