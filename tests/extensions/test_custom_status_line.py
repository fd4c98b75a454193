"""The status line of the settings: filled, cleaned, debounced, and drawn in the chat."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cowork.app.chat.custom_status_line import CustomStatusLine, fill, first_line, rows_of
from cowork.config.sections import Ui
from cowork.core.events import Event
from cowork.extensions.hooks import Launched
from cowork.frontends.host import Status, StatusLines
from cowork.frontends.repl.view.status_line import status_line
from tests.e2e.test_slash_commands import chat

STATE: dict[str, Any] = {
    "model": {"id": "m1"}, "permission_mode": "ask", "cwd": "/w", "workspace": {"branch": "main"}, "session_id": "s",
    "version": "1", "context_window": {"used_percentage": 12.6, "total_input_tokens": 99},
    "cost": {"total_cost_usd": 0.5}, "tasks": [{"id": "explore-1"}],
}  # fmt: skip


def test_a_template_is_filled() -> None:
    text = "{model} {context}% ${cost} {branch} {children} {nope}"
    assert fill(text, STATE) == "m1 13% $0.50 main 1 {nope}"


def test_what_a_program_prints_cannot_steer_the_terminal() -> None:
    assert (
        first_line("\n\x1b[31mred\x1b[0m \x1b]8;;http://x\x07link\x1b]8;;\x07 \x1b[2J\u202e\nsecond")
        == "red link \\u202e"
    )
    rows = rows_of('{"id": "a", "content": "\x1b[1mbold"}\nnoise\n{"id": "b", "content": ""}\n[' + "[" * 9999)
    assert rows == {"b": ""}  # a control character makes no JSON


async def test_a_burst_is_one_run_and_a_newer_state_ends_an_older_run() -> None:
    heard, shown, ended = list[bytes](), list[str](), list[str]()
    release = asyncio.Event()

    async def launch(line: str, given: bytes, cwd: Path, environ: Mapping[str, str], seconds: float) -> Launched:
        heard.append(given)
        try:
            await release.wait()
        except asyncio.CancelledError:
            ended.append(line)
            raise
        return Launched(0, "done\n" if line == "main" else '{"id": "explore-1", "content": "row"}')

    told = asyncio.Event()

    def show(event: Event) -> None:
        assert isinstance(event, StatusLines)
        shown.append(f"{line.text} {dict(event.rows)}")
        told.set()

    ui = Ui({"statusline": "", "statusline_command": "main", "subagent_statusline_command": "rows"})
    line = CustomStatusLine(ui, launch, lambda: STATE, show, Path("/"))
    for _ in range(5):
        line.poke()
    line._start()  # the debounce is over
    await asyncio.sleep(0)
    line._start()
    await asyncio.sleep(0)
    release.set()
    await told.wait()
    line.stop()
    assert ended == ["main"]
    assert [json.loads(given)["session_id"] for given in heard] == ["s", "s", "s"]
    assert shown == ["done {'explore-1': 'row'}"]


def test_the_line_takes_the_place_of_the_facts_but_the_mode_stays() -> None:
    drawn = "".join(text for _, text in status_line(Status(model="m", branch="b", line="mine"), 80, queued=2))
    assert "ask" in drawn
    assert "mine" in drawn
    assert "2 queued" in drawn
    assert " m " not in drawn


def test_a_chat_shows_what_the_programs_print(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    program = "read -r state; printf 'LINE \\033[31m%s' \"${#state}\""
    (tmp_path / "rows.py").write_text(
        "import json, sys\n"
        "for t in json.load(sys.stdin)['tasks']:\n"
        "    shown = f\"ROW {t['name']} does {t['description']}\" if t['name'] == 'explore' else ''\n"
        "    print(json.dumps({'id': t['id'], 'content': shown}))\n"
    )
    rows = f"{sys.executable} {tmp_path / 'rows.py'}"
    (home / "config.toml").write_text(
        f"[ui]\nstatusline_command = '''{program}'''\nsubagent_statusline_command = '''{rows}'''\n"
    )
    orders = [
        {"name": "Task", "input": {"description": f"task {n}", "prompt": "p", "subagent_type": kind}}
        for n, kind in enumerate(("explore", "plan"))
    ]
    script = {"main": [{"calls": orders}], "agents": {"*": [{"say": "never", "delay_ms": 60_000}]}}
    with chat(tmp_path, script=script) as terminal:
        terminal.wait_for("LINE ")
        terminal.type("go", "<Enter>")
        terminal.wait_for("ROW explore does task 0")
        assert "task 1" not in terminal.text()  # an empty row is hidden
