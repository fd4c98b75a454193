"""`cowork demo`: the real chat on a scripted model in a scratch repository, typed by a hand that is not there.

Whoever looks on may press keys too. Without a terminal the same lines are the chat's input.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from cowork.app.chat.start import chat
from cowork.config.run_options import RunOptions
from cowork.core import signals, spawn
from cowork.core.errors import UserError
from cowork.frontends.prompt import is_capable
from cowork.frontends.repl.repl import Repl
from cowork.prompts import data_root

_LIMIT = 110.0  # seconds; the tour ends itself long before
_KEY_PAUSE = 0.035
_LOOK = 2.5  # how long a dialog stands before it is answered
_TOUR = (  # what is typed, and how long the viewer looks at what comes of it
    ("why do refunds fail for guest orders?", 3.0),
    ("fix it and run the tests", 2.5),
    ("/cost", 3.0),
    ("/rewind 2 both", 3.0),
    ("/diff", 2.0),
    ("/exit", 0.0),
)
_RULES = ("Bash(python3 -m unittest:*)",)  # the child's own test run needs no second question


def play(pace: float = 1.0) -> int:
    """Show the tour and clean up; 0 when it came to its end. `pace` stretches its pauses."""
    watched = is_capable(os.environ)
    with tempfile.TemporaryDirectory(prefix="cowork-demo-") as name:
        folder = Path(name)
        environ = _environ(folder)
        _build(folder, pace if watched else 0.15, environ)
        options = RunOptions(cwd=folder / "shop", script=folder / "script.json", trust=True, allow=_RULES)
        player = _TourPlayer(pace)
        if not watched:
            first, second, *rest = (text for text, _ in _TOUR)
            sys.stdin = io.StringIO("\n".join([first, second, "1", *rest, ""]))  # 1: yes, edit it
        os.environ.clear()
        os.environ.update(environ)
        try:
            code = signals.run(chat(options, player.tour if watched else None))
        except signals.Stopped as stop:
            return stop.exit_code
    if player.stuck:
        raise UserError("The demo got stuck and was ended.", "`cowork doctor` may say why.")
    if watched and not player.finished:  # the viewer left before the end
        return 130
    if code == 0:
        print(
            "\nThat was the tour, on a scripted model. `cowork` starts a chat here; `cowork config init` finds a model."
        )
    return code


class _TourPlayer:
    """Types the tour into a chat, and answers what it asks."""

    def __init__(self, pace: float) -> None:
        self.finished = self.stuck = False
        self._pace = pace

    async def tour(self, repl: Repl) -> None:
        """Question, fix, cost, rewind; each step waits for the chat to be done with the one before."""
        try:
            async with asyncio.timeout(_LIMIT):
                await self._rest(1.2)
                for text, pause in _TOUR:
                    self.finished = text == _TOUR[-1][0]
                    await self._type(repl, text)
                    await self._answer_questions(repl)
                    await self._rest(pause)
        except TimeoutError:
            self.stuck = True
            repl.leave(1)

    async def _type(self, repl: Repl, text: str) -> None:
        repl.composer.clear()  # a rewind puts the old prompt back into the input
        for letter in text:
            repl.composer.buffer.insert_text(letter)
            repl.redraw()
            await self._rest(_KEY_PAUSE)
        await self._rest(0.4)
        repl.completer.close()
        repl.actions.enter()

    async def _answer_questions(self, repl: Repl) -> None:
        """Wait for the turn, and say yes to a question once it stood long enough; the viewer may be quicker."""
        while repl.turns.working:
            if (dialog := repl.dialogs.current) is None:
                await asyncio.sleep(0.05)
                continue
            await asyncio.sleep(max(1.0, _LOOK * self._pace))
            if repl.dialogs.current is dialog:
                repl.dialogs.enter()
                await asyncio.sleep(0.2)

    async def _rest(self, seconds: float) -> None:
        await asyncio.sleep(seconds * self._pace)


def _build(folder: Path, pace: float, environ: dict[str, str]) -> None:
    """Make the scratch folder: the repository, a home of its own and the script."""
    given = data_root() / "examples" / "demo"
    shutil.copytree(given / "shop", folder / "shop", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "home").mkdir()

    def stretch(turn: dict[str, Any]) -> dict[str, Any]:
        return turn | {"delay_ms": round(turn["delay_ms"] * pace)} if "delay_ms" in turn else turn

    script = json.loads((given / "script.json").read_text("utf-8"), object_hook=stretch)
    (folder / "script.json").write_text(json.dumps(script), encoding="utf-8")
    git = shutil.which("git")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "A small shop"]) if git else ():
        spawn.run(["git", *words], environ=environ, seconds=_LIMIT, cwd=folder / "shop")


def _environ(folder: Path) -> dict[str, str]:
    """Nothing of the user's own: no keys, no settings, no git identity."""
    kept = ("PATH", "TERM", "COLORTERM", "LANG", "LC_ALL", "LC_CTYPE", "NO_COLOR", "TERM_PROGRAM", "COLORFGBG", "TMUX")
    given = {name: os.environ[name] for name in kept if name in os.environ}
    who = {f"GIT_{who}_{what}": word for who in ("AUTHOR", "COMMITTER")
           for what, word in (("NAME", "demo"), ("EMAIL", "demo@example.org"))}  # fmt: skip
    home = {"HOME": str(folder / "home"), "COWORK_HOME": str(folder / "home"), "PYTHONDONTWRITEBYTECODE": "1"}
    return given | home | who | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
