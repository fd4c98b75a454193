"""The installed command in a pty, over a scripted model: the chat a person gets, with real tools and children."""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.terminal import Terminal

READY = "/help"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

SCRIPT = """
model: tour-1
price: {input: 3, output: 15}
main:
  - say: |
      I'll look at two places at once.
    calls:
      - Task: {description: find auth, prompt: "Where is auth done?", subagent_type: explore}
      - Task: {description: find storage, prompt: "Where is storage done?", subagent_type: explore}
  - say: "Auth is in `auth.py`, storage in `store.py`."
  - call: {Read: {file_path: auth.py}}
  - call: {Edit: {file_path: auth.py, old_string: "return False", new_string: "return True"}}
  - say: The edit is through.
  - call: {Bash: {command: "echo one && touch made.txt"}}
  - say: The command was answered.
  - call: {Bash: {command: "touch again.txt"}}
  - say: "The second command was answered."
  - delay_ms: 400
    say: "slow words that come one after the other for a long time and never seem to come to any end at all"
  - say: "After the interrupt."
agents:
  explore:
    - match: auth
      turns:
        - call: {Grep: {pattern: "def login"}}
        - call: {Read: {file_path: auth.py}}
        - {delay_ms: 700, say: "auth.py has it"}
    - match: storage
      turns:
        - call: {Grep: {pattern: "class Store"}}
        - {delay_ms: 900, say: "store.py has it"}
"""


@contextmanager
def chat(folder: Path, *arguments: str, env: Mapping[str, str] | None = None, **options: bool) -> Iterator[Terminal]:
    repo = folder / "shop"
    if not repo.exists():
        repo.mkdir()
        (repo / "auth.py").write_text("def login():\n    return False\n")
        (repo / "store.py").write_text("class Store:\n    pass\n")
        (folder / "script.yaml").write_text(SCRIPT)
    command = str(Path(sys.executable).with_name("cowork"))
    whole = {"COWORK_HOME": str(folder / "home"), "PYTHONDONTWRITEBYTECODE": "1", **(env or {})}
    with Terminal([command, *arguments], cwd=repo, env=whole, rows=40, **options) as terminal:  # type: ignore[arg-type]
        terminal.wait_for(READY, 30)
        yield terminal


def finish(terminal: Terminal, text: str) -> None:
    terminal.wait_for(text, 20)
    terminal.wait_for(READY)


@pytest.fixture
def script(tmp_path: Path) -> tuple[str, str]:
    return "--script", str(tmp_path / "script.yaml")


def test_a_chat_with_children_approvals_an_interrupt_and_a_resume(tmp_path: Path, script: tuple[str, str]) -> None:
    repo = tmp_path / "shop"
    with chat(tmp_path, *script, forked=False) as terminal:
        terminal.type("where is what?", "<Enter>")
        terminal.wait_for_pattern(r"explore-\d  find auth ─")
        terminal.wait_for_pattern(r"explore-\d  find storage ─")
        terminal.wait_for('✓ Grep "class Store"')
        finish(terminal, "Auth is in auth.py, storage in store.py.")
        rows = terminal.scrollback()
        assert (
            sum(bool(re.match(r"✓ explore-\d  find (auth|storage) .*turns · .* tok · \$0\.\d+", r)) for r in rows) == 2
        )
        assert not [row for row in rows if row.startswith("╭")]

        terminal.type("fix the login", "<Enter>")
        terminal.wait_for("Allow Edit?")
        terminal.wait_for_pattern(r"2 │-\s+return False")
        terminal.wait_for_pattern(r"2 │\+\s+return True")
        terminal.wait_for("↑↓ Enter")
        terminal.type("y")
        finish(terminal, "The edit is through.")
        assert (repo / "auth.py").read_text() == "def login():\n    return True\n"

        terminal.type("run it", "<Enter>")
        terminal.wait_for("Allow Bash?")
        terminal.wait_for("↑↓ Enter")
        terminal.type("n")
        finish(terminal, "The command was answered.")
        assert not (repo / "made.txt").exists()

        terminal.type("again", "<Enter>")
        terminal.wait_for("Always: adds rule Bash(")
        terminal.wait_for("↑↓ Enter")
        terminal.type("1")
        finish(terminal, "The second command was answered.")
        assert (repo / "again.txt").exists()

        terminal.type("talk", "<Enter>")
        terminal.wait_for("slow words")
        terminal.type("<Esc>")
        terminal.wait_for("interrupted", 3)
        terminal.type("<Ctrl+D>")
        assert terminal.wait_exit() == 0
    with chat(tmp_path, "--continue", forked=False) as terminal:
        terminal.wait_for("❯ talk")
        assert "The second command was answered." in "\n".join(terminal.scrollback())
        terminal.type("<Ctrl+O>")
        terminal.wait_until(lambda: terminal.screen_.alternate, what="the viewer")
        terminal.type("/", "store.py has it", "<Enter>")
        terminal.wait_for_pattern(r"❯ .*store\.py has it")


# Notes every module that is loaded, and whether the thread of the event loop did it.
LOADS = """
import os, sys, threading
class Finder:
    def find_spec(self, name, path=None, target=None):
        mine = threading.current_thread() is threading.main_thread()
        with open(os.environ["LOADS"], "a") as file:
            file.write(f"{'loop' if mine else 'thread'} {name}\\n")
sys.meta_path.insert(0, Finder())
"""
TURN = """
- {say: Let me look., calls: [{Read: {file_path: auth.py}}, {Grep: {pattern: Store}}]}
- call: {Edit: {file_path: auth.py, old_string: "return False", new_string: "return True"}}
- call: {Bash: {command: "python3 --version | head"}}
- "Done.\n\n```python\nreturn True\n```\n\n| a |\n|---|\n| b |\n"
"""


def test_the_first_turn_loads_nothing_heavy_on_the_event_loop(tmp_path: Path) -> None:
    loads, hook, script = tmp_path / "loads", tmp_path / "hook", tmp_path / "turn.yaml"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(LOADS)
    script.write_text(TURN)
    env = {"PYTHONPATH": str(hook), "LOADS": str(loads)}
    with chat(tmp_path, "--script", str(script), env=env) as terminal:
        terminal.type("fix the login")
        loaded = {"thread pygments.lexers.python", "thread cowork.tools.files.atomic_write"}
        terminal.wait_until(lambda: loaded <= set(loads.read_text().split("\n")), 20, "what the first turn needs")
        before = len(loads.read_text())
        terminal.type("<Enter>")
        terminal.wait_for("↑↓ Enter")
        terminal.type("y")
        finish(terminal, "return True")
    late = loads.read_text()[before:].split()[1::2]
    heavy = ("markdown_it", "pygments", "rich.", "cowork.permissions", "cowork.tools.files", "cowork.frontends")
    assert [name for name in late if name.startswith(heavy)] == []


def test_without_a_key_the_offline_model_answers(tmp_path: Path) -> None:
    with chat(tmp_path) as terminal:
        terminal.type("where is login defined?", "<Enter>")
        finish(terminal, "auth.py:1")
        terminal.type("!echo from the shell", "<Enter>")
        terminal.wait_for("● Bash $ echo from the shell")
        terminal.wait_for("│ from the shell")
        terminal.type("/cos")
        terminal.wait_for("❯ /cost")
        terminal.type("<Enter>")
        terminal.wait_for("from cache")
        terminal.type("/exit", "<Enter>")
        assert terminal.wait_exit() == 0


def test_diff_says_of_a_file_that_the_person_made_that_the_agent_changed_nothing(tmp_path: Path) -> None:
    with chat(tmp_path) as terminal:
        terminal.type("where is login defined?", "<Enter>")
        finish(terminal, "auth.py:1")
        terminal.type("!echo made > mine.txt && cat mine.txt", "<Enter>")
        terminal.wait_for("│ made")
        terminal.type("/diff", "<Enter>")
        terminal.wait_for("The agent changed nothing.")


def test_a_prompt_on_the_command_line_is_the_first_of_the_chat(tmp_path: Path, script: tuple[str, str]) -> None:
    with chat(tmp_path, *script, "where is what?") as terminal:
        finish(terminal, "storage in store.py")
        assert "❯ where is what?" in terminal.text()


ATTACHING = """
model: tour-1
main:
  - call: {Edit: {file_path: auth.py, old_string: "return False", new_string: "return True"}}
  - say: The edit is through.
"""


def test_what_the_menu_puts_behind_an_at_is_attached(tmp_path: Path) -> None:
    script = tmp_path / "read.json"
    script.write_text(json.dumps([{"say": "I see.", "expect": {"contains": "hello there"}}]))
    with chat(tmp_path, "--script", str(script)) as terminal:
        (tmp_path / "shop/docs").mkdir()
        (tmp_path / "shop/docs dir").mkdir()
        (tmp_path / "shop/docs dir/my notes.md").write_text("hello there\n")
        terminal.type("see @mynot")
        terminal.wait_for('❯ @"docs dir/my notes.md"')
        terminal.type("<Enter>")
        terminal.wait_for('❯ see @"docs dir/my notes.md"')
        terminal.type("<Enter>")
        finish(terminal, "I see.")
        assert [row.strip() for row in terminal.scrollback() if "↳" in row] == ["↳ docs dir/my notes.md · 1 line"]


def test_a_message_shows_what_its_at_names_attached(tmp_path: Path) -> None:
    repo = tmp_path / "shop"
    script = tmp_path / "attaching.yaml"
    script.write_text(ATTACHING)
    with chat(tmp_path, "--script", str(script), "--deny", "Read(secret.txt)") as terminal:
        (repo / "docs").mkdir()
        (repo / "docs/a.md").write_text("hello\n")
        (repo / "long.log").write_text("x\n" * 5_000)
        (repo / "secret.txt").write_text("hidden words\n")
        (repo / "dot.png").write_bytes(base64.b64decode(PNG))
        names = "@auth.py @docs @long.log @dot.png @gone.py, @secret.txt @explore @pytest.fixture"
        terminal.type(f"mend {names}", "<Enter>")
        terminal.wait_for("Allow Edit?")  # the file counts as read
        rows = [row.strip() for row in terminal.scrollback()]
        for line in (
            "auth.py · 2 lines", "docs · folder, 1 file", "long.log · first 1,996 of 5,000 lines",
            "dot.png · PNG, 1×1, 0.1 KB", "gone.py · not found",
        ):  # fmt: skip
            assert f"↳ {line}" in rows
        assert [row for row in rows if row.startswith("↳ secret.txt · not attached: ")]
        assert sum(row.startswith("↳") for row in rows) == 6
        terminal.wait_for("↑↓ Enter")
        terminal.type("y")
        finish(terminal, "The edit is through.")
    (log,) = tmp_path.glob("home/**/events.jsonl")
    (prompt,) = [e for e in map(json.loads, log.read_text().splitlines()) if e["type"] == "prompt.added"]
    assert "attached auth.py:\n1\tdef login():\n2\t    return False" in prompt["context"]
    assert "a.md" in prompt["context"]
    assert "hidden words" not in prompt["context"]
    assert len(prompt["images"]) == 1
