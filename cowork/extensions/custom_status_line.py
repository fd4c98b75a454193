"""The status line as people want it: a template, or a program that is told the state as JSON and prints a line."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from cowork.core.blocks import Json
from cowork.core.hygiene import visible_line
from cowork.extensions.hooks import Launch

DEBOUNCE_S = 0.3
SECONDS = 5.0  # a program may take
MOST_CHARS = 500
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


class CustomStatusLine:
    """Keeps the line up to date: soon after a change, one program at a time, the newest state wins."""

    def __init__(
        self,
        launch: Launch,
        state: Callable[[], Json],
        show: Callable[[Mapping[str, str]], None],  # told when `text` or the rows of children may have changed
        root: Path,
        *,
        template: str = "",
        command: str = "",
        subagent_command: str = "",  # for the rows of children
    ) -> None:
        self._template, self._command, self._subagent_command, self._root = template, command, subagent_command, root
        self._launch, self._state, self._show = launch, state, show
        self.text, self._rows = "", dict[str, str]()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def poke(self) -> None:
        """Something changed; a burst of changes is one update."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(DEBOUNCE_S, self._start)

    def stop(self) -> None:
        """Show nothing more; what runs is ended."""
        if self._timer:
            self._timer.cancel()
        if self._task:
            self._task.cancel()

    def _start(self) -> None:
        self._timer = None
        if self._task and not self._task.done():
            self._task.cancel()
        self._task = asyncio.ensure_future(self._update())

    async def _update(self) -> None:
        state = self._state()
        text = fill(self._template, state) if self._template else self.text
        if (out := await self._run(self._command, state)) is not None:
            text = first_line(out)
        if (out := await self._run(self._subagent_command if state["tasks"] else "", state)) is not None:
            self._rows = rows_of(out)
        self.text = text
        self._show(self._rows)

    async def _run(self, command: str, state: Json) -> str | None:
        """What a program printed; None when there is none or it failed, which leaves what was shown before."""
        with suppress(OSError):
            if command:
                ended = await self._launch(command, json.dumps(state).encode(), self._root, {}, SECONDS)
                return ended.out if ended.code == 0 else None
        return None


def fill(template: str, state: Json) -> str:
    """A template such as `{model} · {context}% · ${cost}`; names that are not known stay as they are."""
    context, cost = state["context_window"]["used_percentage"], state["cost"]["total_cost_usd"]
    known = {"mode": state["permission_mode"], "cwd": state["cwd"], "branch": state["workspace"]["branch"]}
    known |= {"model": state["model"]["id"], "session": state["session_id"], "version": state["version"]}
    known |= {"tokens": str(state["context_window"]["total_input_tokens"]), "children": str(len(state["tasks"]))}
    known["context"] = "-" if context is None else f"{context:.0f}"
    known["cost"] = "?" if cost is None else f"{cost:.2f}"
    return clean(re.sub(r"\{(\w+)\}", lambda match: known.get(match[1], match[0]), template))


def first_line(out: str) -> str:
    """The first line that says something, without colours and without anything that could steer a terminal."""
    return next((line for line in map(clean, out.splitlines()) if line), "")


def rows_of(out: str) -> dict[str, str]:
    """Rows of children by id, from one JSON object a line; lines that are none are left out."""
    rows = {}
    for line in out.splitlines():
        with suppress(ValueError, KeyError, TypeError, RecursionError):
            found = json.loads(line)
            rows[str(found["id"])] = clean(str(found["content"]))
    return rows


def clean(text: str) -> str:
    return visible_line(_ESCAPES.sub("", text))[:MOST_CHARS].strip()
