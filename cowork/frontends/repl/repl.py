"""The chat itself: joins the host's events, the keys and the painter. `on_event` and `ask` are the two ports."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal

from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import vi_navigation_mode
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.output import Output, create_output

from cowork.core.errors import UserError
from cowork.core.events import Event, Notice, PromptAdded
from cowork.core.format import one_line
from cowork.core.ports import Answer, Question
from cowork.frontends.host import ConversationOpened, Host, Options
from cowork.frontends.prompt import LineChat, is_capable
from cowork.frontends.repl.input.actions import Actions, PanelSelection, own_commands
from cowork.frontends.repl.input.completion import Completer
from cowork.frontends.repl.input.composer import Composer, History
from cowork.frontends.repl.input.dialogs import Dialogs
from cowork.frontends.repl.input.keys import bindings
from cowork.frontends.repl.input.picker import Picker
from cowork.frontends.repl.painter import Frame, Painter, terminal_reflows
from cowork.frontends.repl.terminal import ChatApplication, KeyReader, Terminal
from cowork.frontends.repl.turns import Turns
from cowork.frontends.repl.view.frame import compose
from cowork.frontends.repl.view.notes import banner_lines
from cowork.frontends.repl.view.scene import Scene
from cowork.frontends.repl.view.stream import warm_up
from cowork.frontends.repl.view.viewer import Viewer
from cowork.frontends.styled import OSC11_QUERY, SPIN_S, Kind, Line, Theme, color_depth, guess_kind

Mode = Literal["write", "panel", "dialog", "pick", "view"]
FRAME_S = 0.05  # events redraw at most 20 times a second; keys redraw at once
_CALM_S = 0.3  # after the window changed, before the live part is drawn whole again
WARM_AFTER_S = 0.5  # what the first calls need is loaded in the background after so long
_HINT_S = 2.0  # a word at the end of the status line stays this long


class Repl:
    """A chat in the terminal. Make it, give `on_event` and `ask` to the engine, then `await run()`."""

    def __init__(self, host: Host, options: Options | None = None, environ: Mapping[str, str] | None = None) -> None:
        self.host = host
        self.options = options or Options()
        self.environ = os.environ if environ is None else environ
        kind: Kind = guess_kind(self.environ) if self.options.theme == "auto" else self.options.theme
        self.theme = Theme(kind, color_depth(self.environ))
        self.scene = Scene()
        self._folder = os.path.basename(os.path.expanduser(host.status().cwd))
        self.composer = Composer(History(self.options.history))
        self.completer = Completer(host, self.composer, lambda: self.turns.commands().values(), self.redraw)
        self.actions = Actions(self)
        self.dialogs = Dialogs(
            self._update_dialogs, drafting=lambda: bool(self.composer.text), edit=self.actions.edit_plan
        )
        self.picker = Picker(self.redraw)
        self.turns = Turns(
            host, self.scene, lambda: own_commands(self), self._end_turn, self._give_back,
            lambda choose: (self._plain or self.picker).choose(choose),
        )  # fmt: skip
        self.terminal = Terminal(self.options, self.write_raw, self.scene.clock, self.environ, lambda: self._is_live)
        self.viewer: Viewer | None = None  # takes the whole screen while it is open
        self.expanded = False
        self.selection = PanelSelection(self.scene, host)
        self.hint = ("", 0.0)  # (a word at the end of the status line, until when)
        self.used = False  # something was sent
        self._welcomed = False  # the banner was said
        self._redraw_at: asyncio.TimerHandle | None = None
        self._drawn_at = self._resized_at = -10.0
        self._size = (0, 0)  # columns and rows of the terminal at the last frame
        self._app: ChatApplication | None = None
        self._output: Output | None = None
        self._plain: LineChat | None = None
        self._failure: UserError | None = None  # why it cannot go on

    def on_event(self, event: Event) -> None:
        """Take note of an event; drawing follows within a frame."""
        if isinstance(event, ConversationOpened):
            self._open(event.history)
            return
        self.scene.apply(event)
        self.turns.on_event(event)
        if isinstance(event, PromptAdded) and event.agent == "main":
            self.terminal.title(self._folder, (event.label or event.text)[:200])
        elif isinstance(event, Notice) and event.code == "mode.changed" and self._app is not None:
            self.show_hint(one_line(event.text))
        self.redraw()

    async def ask(self, question: Question) -> Answer:
        """Put a question to the person and wait for the answer; it is drawn while `run` is running."""
        if question.kind == "plan":
            self.actions.show_plan(str(question.display.get("text", "")))
        with self.scene.asking(question):
            return await (self._plain or self.dialogs).ask(question)

    async def run(
        self, input: Input | None = None, output: Output | None = None,
        first: Callable[[], Awaitable[None]] | None = None,
    ) -> int:  # fmt: skip
        """Chat until the person leaves; gives the exit code. What is sent waits until `first` is done."""
        loop = asyncio.get_running_loop()
        before = loop.get_exception_handler()
        loop.set_exception_handler(self._report_bug)
        if first is not None:
            self.turns.do_first(self._try(first))
        self.turns.send(self.options.prompt)
        try:
            if input is None and output is None and not is_capable(self.environ):
                self._plain = LineChat(self)
                return await self._plain.run()
            return await self._run_live(input, output)
        finally:
            await self.turns.close()
            loop.set_exception_handler(before)
            if self._failure is not None:
                raise self._failure

    def _open(self, history: Sequence[Event]) -> None:
        """Show a conversation: under the banner if it is the first, its end, and what was typed ahead in it."""
        if not self._welcomed:
            self.scene.say("banner", lambda columns, theme: banner_lines(self.host.status(), columns))
        self._welcomed = True
        self.scene.replay(history)
        waiting = [sent.text for sent in self.turns.queue]  # typed before the chat began, and said now
        if left := [text for text in self.host.read_waiting() if text not in waiting]:
            self.scene.apply(Notice(f"Typed ahead and not sent: {one_line(' · '.join(left))}"))
            self._give_back("\n".join(left))
        self.redraw()

    async def _try(self, first: Callable[[], Awaitable[None]]) -> None:
        try:
            await first()
        except UserError as error:  # it cannot go on: whoever runs the chat says so
            self._failure = error
            self.leave(2)

    async def _run_live(self, input: Input | None, output: Output | None) -> int:
        self._output = output or create_output(stdout=sys.stdout)
        source = input or create_input()
        if isinstance(source, Vt100Input):
            source.stdin_reader = KeyReader(source.stdin_reader, self.set_theme)
            if self.options.theme == "auto" and self.theme.depth is not None:
                self._output.write_raw(OSC11_QUERY)
        self.terminal.keep_title()
        reflows = terminal_reflows(self.environ)
        painter = Painter(self._output, self.compose, self._take_finished, lambda: self.theme, reflows=reflows)
        keys = bindings(self)
        self._app = ChatApplication(self.composer.buffer, keys, source, painter, vi=self.options.keys == "vi")
        self._app.key_processor.before_key_press += self._before_key
        self._app.key_processor.after_key_press += self._after_key
        ticker = asyncio.ensure_future(self._tick())

        def prepare_answer(sender: object) -> None:
            """Load what draws the first answer in a thread, as soon as something is written: it must not wait then."""
            self.composer.buffer.on_text_changed -= prepare_answer
            asyncio.get_running_loop().run_in_executor(None, warm_up)

        self.composer.buffer.on_text_changed += prepare_answer
        if self.options.prompt:
            prepare_answer(None)
        try:
            return await self._app.run_async(set_exception_handler=False)
        except EOFError:  # the terminal went away
            return 0
        finally:
            ticker.cancel()
            self.terminal.keep_title(back=True)

    def redraw(self) -> None:
        """Draw soon, but not more often than the frame rate."""
        if self._plain is not None:
            self._plain.flush()
            return
        if self._redraw_at is None and self._is_live:
            loop = asyncio.get_running_loop()
            self._redraw_at = loop.call_later(max(0.0, self._drawn_at + FRAME_S - loop.time()), self._draw_now)

    def leave(self, code: int) -> None:
        """End the chat."""
        if self._plain is not None:
            self._plain.leave(code)
        if self._app is not None and self._app.is_running and not self._app.is_done:
            self._app.exit(result=code)

    @property
    def mode(self) -> Mode:
        if self.viewer is not None:
            return "view"
        if self.dialogs.armed:
            return "dialog"
        if self.picker.current is not None:
            return "pick"
        return "panel" if self.selection.panel is not None else "write"

    @property
    def navigating(self) -> bool:
        """With vi keys, in navigation mode."""
        return self._app is not None and bool(vi_navigation_mode())

    @property
    def _is_live(self) -> bool:
        return self._app is not None and self._app.is_running

    def show_hint(self, text: str, seconds: float = _HINT_S) -> None:
        """A word at the end of the status line, for a moment or until the next key."""
        self.hint = text, self.scene.clock() + seconds
        asyncio.get_running_loop().call_later(seconds + 0.05, self.redraw)

    def write_raw(self, data: str) -> None:
        """A control sequence of our own: title, bell, clipboard."""
        if data and self._output is not None:
            self._output.write_raw(data)
            self._output.flush()

    def toggle_vi(self) -> bool:
        """Vi keys in the input, or not; gives whether they are on."""
        if self._app is not None:
            self._app.editing_mode = EditingMode.EMACS if self._app.editing_mode == EditingMode.VI else EditingMode.VI
        return self._app is not None and bool(self._app.editing_mode == EditingMode.VI)

    def set_theme(self, kind: Kind) -> None:
        if kind != self.theme.kind:
            self.theme = Theme(kind, self.theme.depth)
            self.redraw()

    def compose(self, columns: int, rows: int, above: int) -> Frame:
        """The live region for a screen of this size, under so many finished rows."""
        loop = asyncio.get_running_loop()
        self._drawn_at = loop.time()
        if self._size not in ((0, 0), (columns, rows)):
            self._resized_at = self.scene.clock()
            loop.call_later(_CALM_S, self.redraw)
        self._size = columns, rows
        return compose(self, columns, rows, above)

    @property
    def resizing(self) -> bool:
        """Whether the window changed a moment ago."""
        return self.scene.clock() - self._resized_at < _CALM_S

    def _take_finished(self, columns: int) -> list[Line]:
        return [] if self.viewer else self.scene.take(columns - 1, self.theme)  # held back until the viewer closes

    def _before_key(self, sender: object) -> None:
        """Editing keys reach the input only while it is written in."""
        self.terminal.last_key = self.scene.clock()
        self.actions.keys += 1
        self.hint = ("", 0.0)
        if self._app is not None:
            self._app.focus_input(self.mode == "write")

    def _after_key(self, sender: object) -> None:
        if self.mode == "write":  # in the middle of a message, or done with it
            self.dialogs.note_typing(something=bool(self.composer.text))
        elif self.mode == "pick":
            self.dialogs.last_key = self.scene.clock()

    def _draw_now(self) -> None:
        self._redraw_at = None
        if self._app is not None and self._is_live:
            self._app._redraw()

    async def _tick(self) -> None:
        """Spinners and clocks move while something runs; a question starts to take keys."""
        while True:
            await asyncio.sleep(SPIN_S)
            if self.turns.working or self.scene.panels or self.dialogs.current:
                self.redraw()

    def _end_turn(self, seconds: float) -> None:
        self.expanded = self.expanded and bool(self.scene.panels)
        self.terminal.call_back(seconds)
        self.terminal.title(self._folder)
        self.redraw()

    def _give_back(self, text: str) -> None:
        draft = f"\n{self.composer.text}" if self.composer.text else ""
        self.completer.quiet(lambda: self.composer.set(text, draft=draft))

    def _update_dialogs(self) -> None:
        if (dialog := self.dialogs.current) is not None:
            self.terminal.call_to(dialog, dialog.question.title)
        self.redraw()

    def _report_bug(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A bug somewhere in a task: one calm line instead of a torn screen."""
        error = context.get("exception")
        text = f"{type(error).__name__}: {error}" if error else str(context.get("message"))
        self.scene.apply(Notice(f"internal error: {one_line(text)}", "error"))
        self.redraw()
