"""The slash commands of the chat itself; all others come from the application."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cowork.core.errors import UserError
from cowork.frontends.host import Choose, Command, CommandResult, Row
from cowork.frontends.repl.view import notes
from cowork.frontends.repl.view.theme import Kind

if TYPE_CHECKING:
    from cowork.frontends.repl.repl import Repl

KEYS = """
| key | does |
|---|---|
| ? | in an empty input: this list; the next key closes it |
| Enter | send; while it works: queue for after the turn |
| Alt+Enter, Ctrl+J, `\\` Enter | new line |
| Ctrl+S | say it before the next step instead of after the turn |
| Up | in an empty input: take the last queued message back, else the history |
| Ctrl+R | search the history |
| Esc, Ctrl-C | interrupt (Ctrl-C twice leaves) |
| Esc Esc | clear the line (Up brings it back); in an empty input: go back to an earlier prompt |
| Ctrl-D | leave |
| Shift+Tab | next permission mode |
| Ctrl+O | while it works: more or less of each panel; otherwise the whole conversation |
| Tab | choose a panel: Enter opens it, x stops it, m sends it a message |
| Ctrl+G | write the message in $EDITOR |
| Ctrl+V | attach the image on the clipboard; `@shot.png` or a pasted path attach a file |
| `@` `/` `!` `#` | a file or agent · a command · a shell line · a note for AGENTS.md |
"""


def own_commands(repl: Repl) -> Sequence[Command]:
    """The commands that need nothing but the chat."""

    async def leave(_: str) -> None:
        repl.leave(0)

    async def help_text(_: str) -> CommandResult:
        rows = [
            f"| `{_cell(f'/{c.name} {c.arguments}'.strip())}` | {_cell(c.help)} |"
            for c in sorted(repl.turns.commands().values(), key=lambda c: c.name)
        ]
        return "\n".join(["| command | does |", "|---|---|", *rows]) + "\n" + KEYS

    async def theme(rest: str) -> CommandResult:
        kinds: tuple[Kind, ...] = ("dark", "light")
        if not rest:
            rows = [Row(kind, kind, "now" if kind == repl.theme.kind else "") for kind in kinds]
            return Choose("Theme", rows, lambda row: theme(row.value), kinds.index(repl.theme.kind))
        if rest not in kinds:
            raise UserError(f"There is no theme {rest!r}.", "Use /theme dark or /theme light.")
        repl.set_theme("dark" if rest == "dark" else "light")
        return f"The theme is {rest} now. `ui.theme` in the settings keeps it."

    async def vim(rest: str) -> CommandResult:
        on = repl.toggle_vi()
        return f"The input has {'vi' if on else 'emacs'} keys now. `ui.keys` in the settings keeps them."

    async def todo(_: str) -> None:
        todos = repl.scene.todos
        repl.scene.say(
            "output",
            lambda columns, theme: notes.todo_lines(todos, columns) or [[("dim", "  Nothing is on the list.")]],
        )

    async def copy(_: str) -> CommandResult:
        text = repl.scene.last_answer
        if not text:
            raise UserError("There is no answer to copy yet.")
        repl.terminal.copy(text)
        return f"Copied the last answer ({len(text):,} characters)."

    return (
        Command("help", "commands and keys", help_text, busy=True),
        Command("theme", "dark or light colours", theme, "[dark|light]", lambda: ("dark", "light"), busy=True),
        Command("vim", "vi keys in the input, on and off", vim, busy=True),
        Command("todo", "the todo list", todo, busy=True),
        Command("copy", "copy the last answer to the clipboard", copy, busy=True),
        Command("exit", "leave", leave, busy=True),
        Command("quit", "leave", leave, busy=True),
    )


def _cell(text: str) -> str:
    """Text that may stand in a table."""
    return text.replace("|", "\\|")
