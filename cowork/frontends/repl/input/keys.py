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
    for add in (_writing_keys, _panel_keys, _dialog_keys, _picker_keys, _other_keys):
        add(keys, repl)
    return keys


def _bind(keys: KeyBindings, when: Filter, acts: Mapping[str, Act], *, eager: bool = False) -> None:
    """Let keys act while the filter holds; `escape enter` is one after the other."""
    for names, act in acts.items():

        def call(event: KeyPressEvent, act: Act = act) -> None:
            act()  # what it gives may be a task, which nobody is to wait for twice

        keys.add(*names.split(" "), filter=when, eager=eager)(call)


def _bind_text(keys: KeyBindings, when: Filter, take: Callable[[str], object], *names: str) -> None:
    """Give what is typed or pasted to a function while the filter holds."""
    for name in names:
        keys.add(name, filter=when)(lambda event: take(event.data))


def _writing_keys(keys: KeyBindings, repl: Repl) -> None:
    act, composer, completer = repl.actions, repl.composer, repl.completer
    writing = Condition(lambda: repl.mode == "write")
    typing = writing & (_emacs | vi_insert_mode)
    empty = Condition(lambda: not (composer.text or completer.searching or repl.selection.message_to))
    has_menu = writing & Condition(lambda: bool(completer.menu.items))
    up, down = partial(act.move, -1), partial(act.move, 1)
    new_line = partial(composer.buffer.insert_text, "\n")
    edit = partial(composer.buffer.open_in_editor, validate_and_handle=False)

    def leave_insert_mode() -> None:
        if composer.text:
            get_app().vi_state.input_mode = InputMode.NAVIGATION
        else:
            act.escape()

    _bind(keys, writing & (_emacs | vi_insert_mode | vi_navigation_mode), {"enter": act.enter})
    _bind(keys, typing & empty, {"?": act.show_keys})
    _bind(keys, typing, {"backspace": composer.backspace})
    _bind(keys, writing, {"c-j": new_line, "c-s": act.steer, "c-r": completer.search_history, "c-x c-e": edit,
                          "c-g": edit, "up": up, "down": down})  # fmt: skip
    _bind(keys, writing & _emacs, {"escape enter": new_line, "c-v": act.attach_clipboard, "c-p": up, "c-n": down})
    _bind(keys, writing & (_emacs | vi_navigation_mode), {"escape": act.escape})
    _bind(keys, writing & vi_insert_mode, {"escape": leave_insert_mode}, eager=True)
    _bind(keys, writing & vi_navigation_mode & Condition(lambda: composer.buffer.document.on_first_line), {"k": up})
    _bind(keys, writing & vi_navigation_mode & Condition(lambda: composer.buffer.document.on_last_line), {"j": down})
    _bind(keys, writing & Condition(lambda: not composer.text and bool(repl.scene.panels)),
          {"tab": lambda: repl.selection.move(1)})  # fmt: skip
    _bind(keys, has_menu, {"tab": completer.accept, "s-tab": lambda: completer.menu.move(-1)})
    _bind(keys, writing & Condition(lambda: completer.searching),
          {"c-r": lambda: completer.menu.move(1), "c-s": completer.accept})  # fmt: skip


def _panel_keys(keys: KeyBindings, repl: Repl) -> None:
    selection = repl.selection
    chosen = Condition(lambda: repl.mode == "panel")

    def look_closer() -> None:
        if not selection.unfold():
            repl.actions.view_conversation(selection.path)

    def write(data: str) -> None:
        selection.leave()
        if data.isprintable():
            repl.composer.buffer.insert_text(data)

    up, down = partial(selection.move, -1), partial(selection.move, 1)
    _bind(keys, chosen, {"tab": down, "down": down, "up": up, "right": selection.unfold, "left": selection.fold,
                         "enter": look_closer, "x": selection.stop, "m": selection.address})  # fmt: skip
    _bind(keys, chosen, {"escape": selection.leave}, eager=True)
    _bind_text(keys, chosen, write, Keys.Any)


def _dialog_keys(keys: KeyBindings, repl: Repl) -> None:
    dialogs, composer = repl.dialogs, repl.composer
    asked = Condition(lambda: repl.mode == "dialog")
    beside = Condition(  # a message is being written while a question is open
        lambda: repl.mode == "write" and dialogs.current is not None and not repl.completer.menu.items
    )

    def enter() -> None:
        if not dialogs.enter():
            repl.actions.enter()
            dialogs.note_typing(something=bool(composer.text))

    def backspace() -> None:
        if not dialogs.backspace() and composer.text:
            composer.backspace()
            dialogs.note_typing(something=bool(composer.text))

    def write(data: str) -> None:
        """An answer only if it stands alone, else part of a message."""
        if data.isprintable() and (message := dialogs.type(data)):
            composer.buffer.insert_text(message)

    def paste(data: str) -> None:
        if message := dialogs.type(data, pasted=True):
            composer.paste(message)

    up, down, come_back = partial(dialogs.move, -1), partial(dialogs.move, 1), dialogs.take_focus
    _bind(keys, asked, {"up": up, "down": down, "tab": down, "enter": enter, "c-j": enter, "backspace": backspace,
                        "c-o": repl.actions.view_question, "s-tab": dialogs.take_mode})  # fmt: skip
    _bind(keys, asked, {"escape": dialogs.escape}, eager=True)
    _bind(keys, beside, {"escape": come_back}, eager=True)
    _bind(keys, beside, {"up": come_back, "down": come_back})
    _bind_text(keys, asked, write, Keys.Any)
    _bind_text(keys, asked, paste, Keys.BracketedPaste)


def _picker_keys(keys: KeyBindings, repl: Repl) -> None:
    picker = repl.picker
    picking = Condition(lambda: repl.mode == "pick")

    def write(data: str) -> None:
        if data.isprintable() or "\n" in data:
            picker.act(lambda shown: shown.narrow(shown.query + data))

    acts: dict[str, Callable[[Picking], None]] = {
        **dict.fromkeys(("up", "c-p", "s-tab"), lambda shown: shown.move(-1)),
        **dict.fromkeys(("down", "c-n", "tab"), lambda shown: shown.move(1)),
        "pageup": lambda shown: shown.move(-1, page=True),
        "pagedown": lambda shown: shown.move(1, page=True),
        **dict.fromkeys(("enter", "c-j"), Picking.enter),
        "backspace": lambda shown: shown.narrow(shown.query[:-1]),
        **dict.fromkeys(("c-u", "c-w"), lambda shown: shown.narrow("")),
        "escape": Picking.escape,
    }
    _bind(keys, picking, {name: partial(picker.act, act) for name, act in acts.items()}, eager=True)
    _bind_text(keys, picking, write, Keys.Any, Keys.BracketedPaste)


def _other_keys(keys: KeyBindings, repl: Repl) -> None:
    """Keys of the viewer, and those that act in every other mode."""
    act = repl.actions
    viewing = Condition(lambda: repl.mode == "view")
    at_rest = Condition(lambda: repl.mode in ("write", "panel"))
    names = ("up", "down", "left", "right", "pageup", "pagedown", "home", "end", "enter", "escape", "backspace", "tab",
             "c-o", "c-d", "c-u", "c-c")  # fmt: skip
    _bind(keys, viewing, {name: partial(act.viewer_key, name) for name in names}, eager=True)
    _bind_text(keys, viewing, act.viewer_key, Keys.Any)
    _bind(keys, ~viewing, {"c-c": act.cancel, "c-l": lambda: get_app().renderer.clear(),
                           "c-z": lambda: get_app().suspend_to_background()})  # fmt: skip
    keys.add("<sigint>")(lambda event: act.cancel())
    _bind(keys, at_rest & Condition(lambda: not repl.composer.text), {"c-d": lambda: repl.leave(0)})
    _bind(keys, at_rest, {"c-o": act.toggle})
    _bind_text(keys, at_rest, act.paste, Keys.BracketedPaste)
    _bind(keys, at_rest & Condition(lambda: not repl.completer.menu.items), {"s-tab": act.cycle_mode})
