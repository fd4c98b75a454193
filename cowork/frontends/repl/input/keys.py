"""Which key does what. The chat is in one mode at a time: viewer, dialog, list, a chosen panel, or writing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from prompt_toolkit.application import get_app
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition, vi_insert_mode, vi_navigation_mode
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.keys import Keys

if TYPE_CHECKING:
    from cowork.frontends.repl.repl import Repl


def bindings(repl: Repl) -> KeyBindings:
    """All keys of the chat, over prompt_toolkit's editing keys."""
    keys = KeyBindings()
    _writing_keys(keys, repl)
    _escape_keys(keys, repl)
    _moving_keys(keys, repl)
    _panel_keys(keys, repl)
    _menu_keys(keys, repl)
    _dialog_keys(keys, repl)
    _picker_keys(keys, repl)
    _viewer_keys(keys, repl)
    _everywhere(keys, repl)
    return keys


def _writing_keys(keys: KeyBindings, repl: Repl) -> None:
    writing = Condition(lambda: repl.mode == "write")
    emacs = Condition(lambda: get_app().editing_mode == EditingMode.EMACS)
    empty = Condition(lambda: not (repl.composer.text or repl.completer.searching or repl.selection.message_to))

    @keys.add("enter", filter=writing & (emacs | vi_insert_mode | vi_navigation_mode))
    def _(event: KeyPressEvent) -> None:
        repl.actions.enter()

    @keys.add("escape", "enter", filter=writing & emacs)
    @keys.add("c-j", filter=writing)
    def _(event: KeyPressEvent) -> None:
        repl.composer.buffer.insert_text("\n")

    @keys.add("?", filter=writing & empty & (emacs | vi_insert_mode))
    def _(event: KeyPressEvent) -> None:
        repl.actions.show_keys()

    @keys.add("c-s", filter=writing)
    def _(event: KeyPressEvent) -> None:
        repl.actions.steer()

    @keys.add("backspace", filter=writing & (emacs | vi_insert_mode))
    def _(event: KeyPressEvent) -> None:
        if not repl.composer.backspace_chip():
            repl.composer.buffer.delete_before_cursor(1)

    @keys.add(Keys.BracketedPaste, filter=writing)
    def _(event: KeyPressEvent) -> None:
        if event.data:
            repl.composer.paste(event.data)
        else:  # what terminals send for an image
            repl.actions.attach_clipboard()

    @keys.add("c-v", filter=writing & emacs)
    def _(event: KeyPressEvent) -> None:
        repl.actions.attach_clipboard()

    @keys.add("c-r", filter=writing)
    def _(event: KeyPressEvent) -> None:
        repl.completer.search_history()

    @keys.add("c-x", "c-e", filter=writing)
    @keys.add("c-g", filter=writing)
    def _(event: KeyPressEvent) -> None:
        repl.composer.buffer.open_in_editor(validate_and_handle=False)


def _escape_keys(keys: KeyBindings, repl: Repl) -> None:
    writing = Condition(lambda: repl.mode == "write")
    emacs = Condition(lambda: get_app().editing_mode == EditingMode.EMACS)

    @keys.add("escape", filter=writing & (emacs | vi_navigation_mode))
    def _(event: KeyPressEvent) -> None:
        repl.actions.escape()

    @keys.add("escape", filter=writing & vi_insert_mode, eager=True)
    def _(event: KeyPressEvent) -> None:
        if repl.composer.text:
            event.app.vi_state.input_mode = InputMode.NAVIGATION
        else:
            repl.actions.escape()


def _moving_keys(keys: KeyBindings, repl: Repl) -> None:
    writing = Condition(lambda: repl.mode == "write")
    emacs = Condition(lambda: get_app().editing_mode == EditingMode.EMACS)

    @keys.add("up", filter=writing)
    @keys.add("c-p", filter=writing & emacs)
    def _(event: KeyPressEvent) -> None:
        repl.actions.up()

    @keys.add("down", filter=writing)
    @keys.add("c-n", filter=writing & emacs)
    def _(event: KeyPressEvent) -> None:
        repl.actions.down()


def _panel_keys(keys: KeyBindings, repl: Repl) -> None:
    can_choose = Condition(lambda: repl.mode == "write" and not repl.composer.text and bool(repl.scene.panels))
    chosen = Condition(lambda: repl.mode == "panel")

    @keys.add("tab", filter=can_choose | chosen)
    @keys.add("down", filter=chosen)
    def _(event: KeyPressEvent) -> None:
        repl.selection.move(1)

    @keys.add("up", filter=chosen)
    def _(event: KeyPressEvent) -> None:
        repl.selection.move(-1)

    @keys.add("right", filter=chosen)
    def _(event: KeyPressEvent) -> None:
        repl.selection.unfold()

    @keys.add("left", filter=chosen)
    def _(event: KeyPressEvent) -> None:
        repl.selection.fold()

    @keys.add("enter", filter=chosen)
    def _(event: KeyPressEvent) -> None:
        if not repl.selection.unfold():
            repl.open_viewer.conversation(repl.selection.path)

    @keys.add("x", filter=chosen)
    def _(event: KeyPressEvent) -> None:
        repl.selection.stop()

    @keys.add("m", filter=chosen)
    def _(event: KeyPressEvent) -> None:
        repl.selection.address()

    @keys.add("escape", filter=chosen, eager=True)
    def _(event: KeyPressEvent) -> None:
        repl.selection.leave()

    @keys.add(Keys.Any, filter=chosen)
    def _(event: KeyPressEvent) -> None:
        repl.selection.leave()
        if event.data.isprintable():
            repl.composer.buffer.insert_text(event.data)


def _menu_keys(keys: KeyBindings, repl: Repl) -> None:
    open_menu = Condition(lambda: repl.mode == "write" and bool(repl.completer.menu.items))
    search = Condition(lambda: repl.mode == "write" and repl.completer.searching)

    @keys.add("tab", filter=open_menu)
    def _(event: KeyPressEvent) -> None:
        repl.completer.accept()

    @keys.add("s-tab", filter=open_menu)
    def _(event: KeyPressEvent) -> None:
        repl.completer.menu.move(-1)

    @keys.add("c-r", filter=search)
    def _(event: KeyPressEvent) -> None:
        repl.completer.menu.move(1)


def _dialog_keys(keys: KeyBindings, repl: Repl) -> None:
    asked = Condition(lambda: repl.mode == "dialog")
    beside = Condition(  # a message is being written while a question is open
        lambda: repl.mode == "write" and repl.dialogs.current is not None and not repl.completer.menu.items
    )
    acts: dict[str, Callable[[], None]] = {
        "up": lambda: repl.dialogs.move(-1), "down": lambda: repl.dialogs.move(1), "tab": lambda: repl.dialogs.move(1),
        "enter": lambda: _enter(repl), "c-j": lambda: _enter(repl), "backspace": lambda: _backspace(repl),
        "c-o": repl.actions.view_question, "s-tab": repl.dialogs.take_mode,
    }  # fmt: skip
    for name, act in acts.items():

        @keys.add(name, filter=asked)
        def _(event: KeyPressEvent, act: Callable[[], None] = act) -> None:
            act()

    @keys.add("escape", filter=asked, eager=True)
    def _(event: KeyPressEvent) -> None:
        repl.dialogs.escape()

    @keys.add("escape", filter=beside, eager=True)
    @keys.add("up", filter=beside)
    @keys.add("down", filter=beside)
    def _(event: KeyPressEvent) -> None:
        repl.dialogs.take_focus()

    @keys.add(Keys.Any, filter=asked)
    def _(event: KeyPressEvent) -> None:
        if event.data.isprintable():
            _type(repl, event.data)

    @keys.add(Keys.BracketedPaste, filter=asked)
    def _(event: KeyPressEvent) -> None:
        _type(repl, event.data, pasted=True)


def _type(repl: Repl, data: str, *, pasted: bool = False) -> None:
    """Text typed while a question is open: an answer only if it stands alone, else part of a message."""
    message = repl.dialogs.type(data, pasted=pasted)
    if pasted and message:
        repl.composer.paste(message)
    elif message:
        repl.composer.buffer.insert_text(message)


def _enter(repl: Repl) -> None:
    if not repl.dialogs.enter():
        repl.actions.enter()
        repl.dialogs.wrote(something=bool(repl.composer.text))


def _backspace(repl: Repl) -> None:
    if not repl.dialogs.backspace() and repl.composer.text:
        repl.composer.buffer.delete_before_cursor(1)
        repl.dialogs.wrote(something=bool(repl.composer.text))


def _picker_keys(keys: KeyBindings, repl: Repl) -> None:
    picking = Condition(lambda: repl.mode == "pick")
    picker = repl.picker
    acts: dict[str, Callable[[], None]] = {
        "up": lambda: picker.move(-1), "c-p": lambda: picker.move(-1), "s-tab": lambda: picker.move(-1),
        "down": lambda: picker.move(1), "c-n": lambda: picker.move(1), "tab": lambda: picker.move(1),
        "pageup": lambda: picker.move(-1, page=True), "pagedown": lambda: picker.move(1, page=True),
        "enter": picker.enter, "c-j": picker.enter, "escape": picker.escape, "backspace": picker.backspace,
        "c-u": picker.clear, "c-w": picker.clear,
    }  # fmt: skip
    for name, act in acts.items():

        @keys.add(name, filter=picking, eager=True)
        def _(event: KeyPressEvent, act: Callable[[], None] = act) -> None:
            act()

    @keys.add(Keys.Any, filter=picking)
    @keys.add(Keys.BracketedPaste, filter=picking)
    def _(event: KeyPressEvent) -> None:
        if event.data.isprintable() or "\n" in event.data:
            picker.type(event.data)


def _viewer_keys(keys: KeyBindings, repl: Repl) -> None:
    viewing = Condition(lambda: repl.mode == "view")
    names = ("up", "down", "left", "right", "pageup", "pagedown", "home", "end", "enter", "escape", "backspace", "tab",
             "c-o", "c-d", "c-u", "c-c")  # fmt: skip

    for name in names:

        @keys.add(name, filter=viewing, eager=True)
        def _(event: KeyPressEvent, name: str = name) -> None:
            repl.open_viewer.key(name)

    @keys.add(Keys.Any, filter=viewing)
    def _(event: KeyPressEvent) -> None:
        repl.open_viewer.key(event.data)


def _everywhere(keys: KeyBindings, repl: Repl) -> None:
    not_viewing = Condition(lambda: repl.mode != "view")
    leaving = Condition(lambda: repl.mode in ("write", "panel") and not repl.composer.text)

    @keys.add("c-c", filter=not_viewing)
    @keys.add("<sigint>")
    def _(event: KeyPressEvent) -> None:
        repl.actions.cancel()

    @keys.add("c-d", filter=leaving)
    def _(event: KeyPressEvent) -> None:
        repl.leave(0)

    @keys.add("c-o", filter=Condition(lambda: repl.mode in ("write", "panel")))
    def _(event: KeyPressEvent) -> None:
        repl.actions.toggle()

    @keys.add("s-tab", filter=Condition(lambda: repl.mode in ("write", "panel") and not repl.completer.menu.items))
    def _(event: KeyPressEvent) -> None:
        repl.actions.cycle_mode()

    @keys.add("c-l", filter=not_viewing)
    def _(event: KeyPressEvent) -> None:
        event.app.renderer.clear()

    @keys.add("c-z", filter=not_viewing)
    def _(event: KeyPressEvent) -> None:
        event.app.suspend_to_background()
