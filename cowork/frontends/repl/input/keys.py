"""Which key does what. The chat is in one mode at a time: viewer, dialog, list, a chosen panel, or writing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from prompt_toolkit.application import get_app
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition, Filter, vi_insert_mode, vi_navigation_mode
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.keys import Keys

from cowork.frontends.repl.input.picker import Picking

if TYPE_CHECKING:
    from cowork.frontends.repl.repl import Repl

Act = Callable[[], object]
_emacs = Condition(lambda: get_app().editing_mode == EditingMode.EMACS)


def bindings(repl: Repl) -> KeyBindings:
    """All keys of the chat, over prompt_toolkit's editing keys. Of two that apply the later one is taken."""
    keys = KeyBindings()
    _writing_keys(keys, repl)
    _panel_keys(keys, repl)
    _menu_keys(keys, repl)
    _dialog_keys(keys, repl)
    _picker_keys(keys, repl)
    _viewer_keys(keys, repl)
    _everywhere(keys, repl)
    return keys


def _bind(keys: KeyBindings, when: Filter, acts: Mapping[str, Act], *, eager: bool = False) -> None:
    """Let keys act while the filter holds; `escape enter` is one after the other."""
    for names, act in acts.items():

        def call(event: KeyPressEvent, act: Act = act) -> None:
            act()

        keys.add(*names.split(" "), filter=when, eager=eager)(call)


def _bind_text(keys: KeyBindings, when: Filter, take: Callable[[str], object], *names: str) -> None:
    """Give what is typed or pasted to a function while the filter holds."""
    for name in names:
        keys.add(name, filter=when)(lambda event: take(event.data))


def _writing_keys(keys: KeyBindings, repl: Repl) -> None:
    act, composer = repl.actions, repl.composer
    writing = Condition(lambda: repl.mode == "write")
    empty = Condition(lambda: not (composer.text or repl.completer.searching or repl.selection.message_to))

    def new_line() -> None:
        composer.buffer.insert_text("\n")

    def edit() -> None:
        composer.buffer.open_in_editor(validate_and_handle=False)

    def leave_insert_mode() -> None:
        if composer.text:
            get_app().vi_state.input_mode = InputMode.NAVIGATION
        else:
            act.escape()

    def paste(data: str) -> None:
        if data:
            composer.paste(data)
        else:  # what terminals send for an image
            act.attach_clipboard()

    _bind(keys, writing & (_emacs | vi_insert_mode | vi_navigation_mode), {"enter": act.enter})
    _bind(keys, writing & empty & (_emacs | vi_insert_mode), {"?": act.show_keys})
    _bind(keys, writing & (_emacs | vi_insert_mode), {"backspace": composer.backspace})
    up, down = partial(act.move, -1), partial(act.move, 1)
    _bind(keys, writing, {"c-j": new_line, "c-s": act.steer, "c-r": repl.completer.search_history,
                          "c-x c-e": edit, "c-g": edit, "up": up, "down": down})  # fmt: skip
    _bind(keys, writing & _emacs, {"escape enter": new_line, "c-v": act.attach_clipboard, "c-p": up, "c-n": down})
    _bind(keys, writing & (_emacs | vi_navigation_mode), {"escape": act.escape})
    _bind(keys, writing & vi_insert_mode, {"escape": leave_insert_mode}, eager=True)
    _bind_text(keys, writing, paste, Keys.BracketedPaste)


def _panel_keys(keys: KeyBindings, repl: Repl) -> None:
    selection = repl.selection
    can_choose = Condition(lambda: repl.mode == "write" and not repl.composer.text and bool(repl.scene.panels))
    chosen = Condition(lambda: repl.mode == "panel")

    def look_closer() -> None:
        if not selection.unfold():
            repl.actions.view_conversation(selection.path)

    def write(data: str) -> None:
        selection.leave()
        if data.isprintable():
            repl.composer.buffer.insert_text(data)

    _bind(keys, can_choose | chosen, {"tab": lambda: selection.move(1)})
    _bind(keys, chosen, {"down": lambda: selection.move(1), "up": lambda: selection.move(-1),
                         "right": selection.unfold, "left": selection.fold, "enter": look_closer,
                         "x": selection.stop, "m": selection.address})  # fmt: skip
    _bind(keys, chosen, {"escape": selection.leave}, eager=True)
    _bind_text(keys, chosen, write, Keys.Any)


def _menu_keys(keys: KeyBindings, repl: Repl) -> None:
    completer = repl.completer
    open_menu = Condition(lambda: repl.mode == "write" and bool(completer.menu.items))
    search = Condition(lambda: repl.mode == "write" and completer.searching)
    _bind(keys, open_menu, {"tab": completer.accept, "s-tab": lambda: completer.menu.move(-1)})
    _bind(keys, search, {"c-r": lambda: completer.menu.move(1)})


def _dialog_keys(keys: KeyBindings, repl: Repl) -> None:
    dialogs, composer = repl.dialogs, repl.composer
    asked = Condition(lambda: repl.mode == "dialog")
    beside = Condition(  # a message is being written while a question is open
        lambda: repl.mode == "write" and dialogs.current is not None and not repl.completer.menu.items
    )

    def enter() -> None:
        if not dialogs.enter():
            repl.actions.enter()
            dialogs.wrote(something=bool(composer.text))

    def backspace() -> None:
        if not dialogs.backspace() and composer.text:
            composer.buffer.delete_before_cursor(1)
            dialogs.wrote(something=bool(composer.text))

    def write(data: str) -> None:
        """An answer only if it stands alone, else part of a message."""
        if data.isprintable() and (message := dialogs.type(data)):
            composer.buffer.insert_text(message)

    def paste(data: str) -> None:
        if message := dialogs.type(data, pasted=True):
            composer.paste(message)

    _bind(keys, asked, {"up": lambda: dialogs.move(-1), "down": lambda: dialogs.move(1),
                        "tab": lambda: dialogs.move(1), "enter": enter, "c-j": enter, "backspace": backspace,
                        "c-o": repl.actions.view_question, "s-tab": dialogs.take_mode})  # fmt: skip
    _bind(keys, asked, {"escape": dialogs.escape}, eager=True)
    _bind(keys, beside, {"escape": dialogs.take_focus}, eager=True)
    _bind(keys, beside, {"up": dialogs.take_focus, "down": dialogs.take_focus})
    _bind_text(keys, asked, write, Keys.Any)
    _bind_text(keys, asked, paste, Keys.BracketedPaste)


def _picker_keys(keys: KeyBindings, repl: Repl) -> None:
    picker = repl.picker
    picking = Condition(lambda: repl.mode == "pick")

    def write(data: str) -> None:
        if data.isprintable() or "\n" in data:
            picker.type(data)

    acts: dict[str, Callable[[Picking], None]] = {
        **dict.fromkeys(("up", "c-p", "s-tab"), lambda shown: shown.move(-1)),
        **dict.fromkeys(("down", "c-n", "tab"), lambda shown: shown.move(1)),
        "pageup": lambda shown: shown.move(-1, page=True),
        "pagedown": lambda shown: shown.move(1, page=True),
        **dict.fromkeys(("enter", "c-j"), Picking.enter),
        "backspace": lambda shown: shown.narrow(shown.query[:-1]),
        **dict.fromkeys(("c-u", "c-w"), lambda shown: shown.narrow("")),
    }
    _bind(keys, picking, {name: partial(picker.act, act) for name, act in acts.items()}, eager=True)
    _bind(keys, picking, {"escape": picker.escape}, eager=True)
    _bind_text(keys, picking, write, Keys.Any, Keys.BracketedPaste)


def _viewer_keys(keys: KeyBindings, repl: Repl) -> None:
    viewing = Condition(lambda: repl.mode == "view")
    names = ("up", "down", "left", "right", "pageup", "pagedown", "home", "end", "enter", "escape", "backspace", "tab",
             "c-o", "c-d", "c-u", "c-c")  # fmt: skip
    _bind(keys, viewing, {name: partial(repl.actions.viewer_key, name) for name in names}, eager=True)
    _bind_text(keys, viewing, repl.actions.viewer_key, Keys.Any)


def _everywhere(keys: KeyBindings, repl: Repl) -> None:
    act = repl.actions
    not_viewing = Condition(lambda: repl.mode != "view")
    at_rest = Condition(lambda: repl.mode in ("write", "panel"))
    leaving = at_rest & Condition(lambda: not repl.composer.text)
    no_menu = at_rest & Condition(lambda: not repl.completer.menu.items)
    _bind(keys, not_viewing, {"c-c": act.cancel, "c-l": lambda: get_app().renderer.clear(),
                              "c-z": lambda: get_app().suspend_to_background()})  # fmt: skip
    _bind(keys, Condition(lambda: True), {"<sigint>": act.cancel})
    _bind(keys, leaving, {"c-d": lambda: repl.leave(0)})
    _bind(keys, at_rest, {"c-o": act.toggle})
    _bind(keys, no_menu, {"s-tab": act.cycle_mode})
