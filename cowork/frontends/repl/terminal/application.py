"""prompt_toolkit's part: it reads keys and edits text; what is drawn comes from the painter."""

from __future__ import annotations

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import HSplit, Layout, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl

from cowork.frontends.repl.terminal.painter import Painter

_ESCAPE_S = 0.03  # what follows an Escape as part of one key follows at once
_SECOND_KEY_S = 0.6  # a person may take this long for the second key of Ctrl+X …


class ChatApplication(Application[int]):
    """Editing keys reach the buffer only while it has the focus."""

    def __init__(self, buffer: Buffer, keys: KeyBindings, source: Input, painter: Painter, *, vi: bool) -> None:
        self._typing = Window(BufferControl(buffer))
        self._still = Window(FormattedTextControl("", focusable=True))
        super().__init__(
            layout=Layout(HSplit([self._typing, self._still])),
            key_bindings=keys,
            editing_mode=EditingMode.VI if vi else EditingMode.EMACS,
            input=source,
            output=painter.output,
            max_render_postpone_time=0,
        )
        self.ttimeoutlen = 0.05  # an Escape by itself is known this soon
        self.renderer = painter

    @property
    def timeoutlen(self) -> float:
        """How long to wait for a longer sequence of keys."""
        waiting = self.key_processor.key_buffer
        return _ESCAPE_S if waiting and waiting[0].key == Keys.Escape else _SECOND_KEY_S

    @timeoutlen.setter
    def timeoutlen(self, value: float | None) -> None:
        """Given by the keys themselves."""

    @property
    def navigating(self) -> bool:
        """With vi keys, in navigation mode."""
        return self.editing_mode == EditingMode.VI and self.vi_state.input_mode == InputMode.NAVIGATION

    def toggle_vi(self) -> bool:
        """Vi keys, or emacs keys; gives whether vi keys are on."""
        self.editing_mode = EditingMode.EMACS if self.editing_mode == EditingMode.VI else EditingMode.VI
        return bool(self.editing_mode == EditingMode.VI)

    def focus_input(self, wanted: bool) -> None:
        """Let editing keys through, or not."""
        self.layout.focus(self._typing if wanted else self._still)
