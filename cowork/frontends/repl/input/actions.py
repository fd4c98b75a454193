"""What keys and the chat's own slash commands do, and which child they are about."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cowork.core import format
from cowork.core.errors import UserError
from cowork.core.format import one_line
from cowork.frontends.host import Choose, Command, CommandResult, Host, Row
from cowork.frontends.repl.input.dialogs import Dialog, what_lines
from cowork.frontends.repl.view import notes
from cowork.frontends.repl.view.panels import ChildState, in_tree_order
from cowork.frontends.repl.view.scene import Scene
from cowork.frontends.repl.view.stream import markdown_lines
from cowork.frontends.repl.view.viewer import AgentNode, Viewer, tree
from cowork.frontends.styled import Kind, Line

if TYPE_CHECKING:
    from cowork.frontends.repl.repl import Repl

_TWICE_S = 2.0  # Ctrl-C again within this leaves
_ESCAPES_S = 8.0  # Esc again within this clears or goes back; neither is lost
_TROUBLE_S = 5.0  # what went wrong can be read for so long


@dataclass(slots=True)
class PanelSelection:
    """The chosen panel and the child the input is written to, both by the child's path."""

    scene: Scene
    host: Host
    path: str = ""
    message_to: str = ""

    @property
    def panel(self) -> ChildState | None:
        """The chosen panel, while its child is at work."""
        return self.scene.panels.get(self.path)

    @property
    def listener(self) -> ChildState | None:
        """The child the input goes to, if any."""
        return self.scene.panels.get(self.message_to)

    def move(self, step: int) -> None:
        """The next panel, or the first."""
        if paths := [child.path for child in in_tree_order(self.scene.panels.values())]:
            at = paths.index(self.path) + step if self.path in paths else (0 if step > 0 else -1)
            self.path = paths[at % len(paths)]

    def leave(self) -> None:
        self.path = ""

    def unfold(self) -> bool:
        """Open the chosen panel; False when it was open already."""
        if self.panel is None or self.panel.shown_open:
            return False
        self.panel.open = True
        return True

    def fold(self) -> None:
        """Make the chosen panel a row again."""
        if self.panel is not None:
            self.panel.open = False

    def stop(self) -> None:
        """Ask the child to finish; the second time end it."""
        if self.panel is not None:
            self.host.stop_child(self.panel.start.subagent_id, "kill" if self.panel.stopping else "finish")
            self.panel.stopping = True

    def address(self) -> None:
        """What is written next goes to the chosen child."""
        self.message_to, self.path = self.path, ""

    def drop_ended(self) -> str:
        """Forget the child the input was for if it has ended, and give its name; main gets what is written."""
        lost = "" if self.listener else one_line(self.message_to.rpartition("/")[2])
        self.message_to = "" if lost else self.message_to
        return lost

    def take_listener(self) -> ChildState | None:
        """The child the input was for; what is written next goes to main again."""
        child, self.message_to = self.listener, ""
        return child


class Actions:
    """The acts of one chat, each named after what it does."""

    def __init__(self, repl: Repl) -> None:
        self._repl = repl
        self.keys = 0  # pressed so far
        self._pressed = ("", 0, -10.0)  # a key that does more the second time, which one it was, and when
        self.keys_shown_at = -1  # the key that showed the list of keys

    def enter(self) -> None:
        """Send what is written, or accept what the menu offers."""
        repl, buffer = self._repl, self._repl.composer.buffer
        before = buffer.document
        if not repl.completer.accept():
            return
        if before.text_before_cursor.endswith("\\") and not before.text_after_cursor:
            buffer.delete_before_cursor(1)
            buffer.insert_text("\n")
            return
        self._deliver(repl.turns.send)

    def steer(self) -> None:
        """Send what is written before the next step instead of after the turn."""
        turns = self._repl.turns  # images come with a message of their own
        self._deliver(lambda text, images: turns.send(text, images) if images or not text else turns.steer(text))

    def _deliver(self, send: Callable[[str, tuple[Path, ...]], None]) -> None:
        """Give what is written to the child it is for, or else send it."""
        repl = self._repl
        if repl.composer.text and (ended := repl.selection.drop_ended()):
            repl.show_hint(f"{ended} has ended · Enter sends it to main", _TROUBLE_S)
            return
        text, images = repl.composer.take()
        if (child := repl.selection.take_listener()) and text:
            repl.turns.spawn(repl.host.tell_child(child.start.subagent_id, text, images))
            repl.show_hint(f"told {child.name}")
            return
        send(text, images)
        repl.redraw()
        repl.used = True

    def paste(self, data: str) -> None:
        """Put a paste into the input, also while a panel is chosen."""
        self._repl.selection.leave()
        if data:
            self._repl.composer.paste(data)
        else:  # what terminals send for an image
            self.attach_clipboard()

    def move(self, step: int) -> None:
        """Up and down: in the menu, in the text, in the queue, then in the history."""
        repl, buffer = self._repl, self._repl.composer.buffer
        if repl.completer.menu.items:
            repl.completer.menu.move(step)
        elif 0 <= buffer.document.cursor_position_row + step < buffer.document.line_count:
            buffer.cursor_up() if step < 0 else buffer.cursor_down()
        elif step < 0 and not buffer.text and repl.turns.queue:
            repl.composer.set(repl.turns.recall())
        else:
            repl.completer.quiet(lambda: repl.composer.browse(step))

    def escape(self) -> None:
        """Close what is open, else stop the turn; when nothing runs, the second time clear the line or go back."""
        repl = self._repl
        if repl.completer.close() or self.keys_shown_at == self.keys - 1:
            return
        if repl.selection.message_to:
            repl.selection.message_to = ""
        elif self._interrupt():
            return
        elif not self._is_repeat("escape", _ESCAPES_S):
            told = "clears the line" if repl.composer.text else "goes back to an earlier prompt"
            repl.show_hint(f"Esc again {told}", _ESCAPES_S)
        elif repl.composer.text:
            repl.completer.quiet(repl.composer.take)  # Up brings it back
        else:
            repl.turns.send("/rewind")

    def cancel(self) -> None:
        """Ctrl-C: stop the turn, else clear the line, and the second time leave."""
        again = self._is_repeat("c-c", _TWICE_S)
        stopped = self._interrupt()
        if again:
            self._repl.leave(130)
        elif not stopped:
            self._repl.composer.clear()
            self._repl.show_hint("Ctrl-C again leaves")

    def toggle(self) -> None:
        """Ctrl+O: more of what runs, all panels open; when nothing runs, the whole conversation."""
        repl = self._repl
        if not repl.turns.working and not repl.scene.panels:
            self.view_conversation()
            return
        repl.expanded = not repl.expanded
        for child in repl.scene.panels.values():
            child.open = None

    def show_keys(self) -> None:
        """`?` in an empty input: the keys, over it until the next one is pressed."""
        self.keys_shown_at = self.keys

    def attach_clipboard(self) -> None:
        """Ctrl+V: put the image on the clipboard into the message."""

        async def attach() -> None:
            self._repl.composer.paste(str(await self._repl.terminal.clipboard_image()))

        self._spawn(attach())

    def cycle_mode(self) -> None:
        self._repl.show_hint(f"mode {self._repl.host.cycle_mode()}")

    def view_conversation(self, path: str = "") -> None:
        """Open the viewer on the whole conversation, or on the transcript of one child."""
        panel, history = self._repl.scene.panels.get(path), self._repl.host.history
        title = f"{panel.name} · {panel.description}" if panel else "conversation"
        copy = self._repl.terminal.copy
        self._repl.viewer = Viewer(title, lambda: tree(history(), path or "main"), lambda: len(history()), copy)

    def view_question(self) -> None:
        """Ctrl+O in a dialog: everything it is about."""
        if self._repl.dialogs.current is None:
            return
        question = self._repl.dialogs.current.question
        title = one_line(question.title)
        node = AgentNode("question", [("bold", title)], body=partial(what_lines, question), open=True)
        self._repl.viewer = Viewer(title, lambda: [node], copy=self._repl.terminal.copy, at_end=False)

    def viewer_key(self, name: str) -> None:
        if self._repl.viewer is not None and not self._repl.viewer.key(name):
            self._repl.viewer = None

    def show_plan(self, plan: str) -> None:
        self._repl.scene.say("plan", lambda columns, theme: markdown_lines(plan, columns, theme))
        self._repl.redraw()

    def edit_plan(self, dialog: Dialog) -> None:
        """Let the person change a plan; the dialog stays, for the decision."""

        async def edit() -> None:
            plan = str(dialog.data.get("plan") or dialog.question.display.get("text", ""))
            edited = await self._repl.terminal.edit(plan)
            if edited.strip() and edited != plan:
                dialog.data["plan"] = edited
                self.show_plan(edited)

        self._spawn(edit())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside the turn; what the person can put right is a hint."""

        async def run() -> None:
            try:
                await work
            except UserError as error:
                self._repl.show_hint(error.message, _TROUBLE_S)
            self._repl.redraw()

        self._repl.turns.spawn(run())

    def _is_repeat(self, key: str, within: float) -> bool:
        """Whether the key is pressed for the second time within so many seconds, with no other in between."""
        (last, number, at), now = self._pressed, self._repl.scene.clock()
        again = last == key and self.keys - number <= 1 and now - at < within
        self._pressed = ("", 0, -10.0) if again else (key, self.keys, now)
        self._repl.hint = ("", 0.0)
        return again

    def _interrupt(self) -> bool:
        self._repl.dialogs.refuse_all()
        return self._repl.picker.leave() or self._repl.turns.interrupt()


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
        known = sorted(repl.turns.commands().values(), key=lambda command: command.name)
        rows = [(f"`/{c.name} {c.arguments}`".replace(" `", "`"), c.help) for c in known]
        return format.table(("command", "does"), rows) + "\n" + KEYS

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
        empty: list[Line] = [[("dim", "  Nothing is on the list.")]]
        repl.scene.say("output", lambda columns, theme: notes.todo_lines(todos, columns) or empty)

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
