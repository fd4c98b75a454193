"""The slash commands of the installed program, each as a person uses it."""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.terminal import Terminal
from tests.fakes.command import COWORK, QUIET
from tests.wire.server import Server
from tests.wire.server import say as answer

READY = "/help"
KEY = "sk-ant-planted-secret"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@contextmanager
def chat(folder: Path, *words: str, script: object = None, **env: str) -> Iterator[Terminal]:
    work = folder / "work"
    work.mkdir(exist_ok=True)
    (folder / "script.json").write_text(json.dumps(script or [{"say": "The first answer."}, {"say": "The second."}]))
    command = [str(COWORK), "--script", str(folder / "script.json"), "--dump-requests", str(folder / "asked"), *words]
    env = {"COWORK_HOME": str(folder / "home"), **QUIET, **env}
    with Terminal(command, cwd=work, env=env, columns=110, rows=40) as terminal:
        terminal.wait_for(READY, 30)
        yield terminal


def say(terminal: Terminal, line: str, seen: str) -> None:
    terminal.type(line, "<Enter>")
    terminal.wait_for(seen, 30)


def editor(folder: Path) -> str:
    """An editor that shows itself, waits for a key on the terminal and adds a line."""
    path = folder / "editor.py"
    path.write_text(
        "import sys, pathlib\np = pathlib.Path(sys.argv[1])\nprint('EDITOR IS UP')\ninput()\n"
        "p.write_text((p.read_text() if p.exists() else '') + 'Be brief.\\n')\n"
    )
    return f"{sys.executable} {path}"


def test_permissions_lists_adds_tries_and_removes_rules(tmp_path: Path) -> None:
    with chat(tmp_path, "--deny", "Bash(rm:*)") as terminal:
        say(terminal, "/permissions", "Add a rule …")
        assert "deny" in terminal.text()
        assert "Bash(rm:*)" in terminal.text()
        terminal.type("<Enter>")
        terminal.wait_for("A rule to allow")
        terminal.type("Bash(make:*)", "<Enter>")
        terminal.wait_for("Always in this folder")
        terminal.type("<Down>", "<Enter>")
        terminal.wait_for("Allowed for this folder: Bash(make:*)")
        say(terminal, "/permissions try make all", "make all runs without a question")
        say(terminal, "/permissions try rm -r x", "rm -r x is denied")
    with chat(tmp_path) as terminal:
        say(terminal, "/permissions remove Bash(make:*)", "Removed: Bash(make:*)")
        say(terminal, "/permissions try make all", "make all asks")
        say(terminal, "/permissions remove Bash(make:*)", "was not granted here")


def test_tasks_shows_and_stops_a_background_command(tmp_path: Path) -> None:
    run = {"command": "echo I am up; sleep 600", "run_in_background": True}
    script = [{"call": {"Bash": run}}, {"say": "It runs."}]
    with chat(tmp_path, "--permission-mode", "bypass", script=script) as terminal:
        say(terminal, "/tasks", "Nothing runs in the background.")
        say(terminal, "start it", "It runs.")
        say(terminal, "/tasks", "bash_1 echo I am up; sleep 600")
        terminal.wait_for("I am up")
        terminal.type("<Enter>")
        terminal.wait_for("Stop it")
        terminal.type("<Down>", "<Enter>")
        terminal.wait_for("Stopped bash_1")
        say(terminal, "/tasks bash_9", "Nothing here is called 'bash_9'.")


def test_status_rename_and_review(tmp_path: Path) -> None:
    with chat(tmp_path) as terminal:
        say(terminal, "hello", "The first answer.")
        say(terminal, "/rename the great fix", "This session is called 'the great fix' now")
        say(terminal, "/status", "notes read")
        assert "not boxed" in terminal.text() or "in a box" in terminal.text()
        say(terminal, "/review the tests", "The second.")
        assert "look at above all: the tests" in (tmp_path / "asked").read_text()
        say(terminal, "/clear", "A new conversation.")
        say(terminal, "/resume", "the great fix")
        terminal.type("<Esc>")


def test_memory_opens_the_notes_in_the_editor_and_they_stay_trusted(tmp_path: Path) -> None:
    with chat(tmp_path, EDITOR=editor(tmp_path)) as terminal:
        say(terminal, "/memory", "EDITOR IS UP")
        terminal.type("<Enter>")
        terminal.wait_for("AGENTS.md is changed")
        say(terminal, "hello", "The first answer.")
        assert "Be brief." in (tmp_path / "asked").read_text()
    assert (tmp_path / "work" / "AGENTS.md").read_text() == "Be brief.\n"
    with chat(tmp_path) as terminal:
        assert "✓trusted" in terminal.text()


FULL_SCREEN = """
import sys, termios, tty
tty.setcbreak(0)
print('\\x1b[?1049h\\x1b[HFULL SCREEN', *termios.tcgetwinsize(1), flush=True)
key = sys.stdin.read(1)
print('\\x1b[?1049l', end='')
open('key.txt', 'w').write(key)
sys.exit(3)
"""


def test_a_program_that_fills_the_screen_gets_the_terminal_and_its_keys(tmp_path: Path) -> None:
    program = tmp_path / "full.py"
    program.write_text(FULL_SCREEN)
    with chat(tmp_path) as terminal:
        say(terminal, f"!{sys.executable} {program}", "FULL SCREEN 40 110")
        assert terminal.screen_.alternate
        terminal.type("k")
        terminal.wait_for("exit 3 · had the terminal")
        assert not terminal.screen_.alternate
        say(terminal, "hello", "The first answer.")
    assert (tmp_path / "work" / "key.txt").read_text() == "k"
    assert "filled the user's screen" in (tmp_path / "asked").read_text()


def test_codes_in_what_a_command_prints_do_not_get_it_the_terminal(tmp_path: Path) -> None:
    with chat(tmp_path) as terminal:
        say(terminal, r"!printf '\033[?1049hEVIL\n'; while [ ! -e go ]; do sleep 0.02; done", "EVIL")
        terminal.settle()
        assert not terminal.screen_.alternate
        (tmp_path / "work" / "go").touch()
        terminal.wait_for("exit 0")
        assert "had the terminal" not in terminal.text()


def test_a_command_of_ones_own_that_asks_is_answered_and_the_model_sees_it(tmp_path: Path) -> None:
    with chat(tmp_path) as terminal:
        say(terminal, "!mkdir sub; cd sub; printf 'your name: '; read name; echo hello $name", "your name:")
        terminal.wait_for_pattern(r"(?m)^your name:")  # no longer in the chat's own rows
        terminal.type("Ada", "<Enter>")
        terminal.wait_for("exit 0 · had the terminal")
        say(terminal, "!pwd", "work/sub")
        say(terminal, "!sleep 600", "$ sleep 600")
        terminal.type("<Esc>")
        terminal.wait_for("interrupted")
        say(terminal, "go", "The first answer.")
    asked = (tmp_path / "asked").read_text()
    assert "hello Ada" in asked


def test_add_dir_lets_tools_write_in_another_folder(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    write = {"call": {"Write": {"file_path": str(other / "a.txt"), "content": "x"}}}
    with chat(tmp_path, "--permission-mode", "accept-edits", script=[write, {"say": "Written."}]) as terminal:
        say(terminal, "/add-dir nowhere", "nowhere is not a folder.")
        say(terminal, "/add-dir ../other", "write in ../other for this chat.")
        say(terminal, "write it", "Written.")
    assert (other / "a.txt").read_text() == "x"


def test_vim_and_theme_are_switched(tmp_path: Path) -> None:
    with chat(tmp_path) as terminal:
        say(terminal, "/vim", "The input has vi keys now.")
        terminal.type("x", "<Esc>")
        terminal.wait_for("❮ x")
        terminal.type("cc", "/vim", "<Enter>")
        terminal.wait_for("The input has emacs keys now.")
        say(terminal, "/theme", "type to search")
        terminal.type("light", "<Enter>")
        terminal.wait_for("The theme is light now.")


def test_a_command_file_says_what_it_does_and_its_head_is_not_sent(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "commands"
    folder.mkdir(parents=True)
    (folder / "fix.md").write_text("---\ndescription: mends an issue\n---\nFix issue $ARGUMENTS.")
    with chat(tmp_path) as terminal:
        terminal.type("/fi")
        terminal.wait_for("mends an issue")
        terminal.type("x 7", "<Enter>")
        terminal.wait_for("The first answer.")
    sent = (tmp_path / "asked").read_text()
    assert "Fix issue 7." in sent
    assert "description: mends" not in sent


def test_a_key_is_not_shown_while_it_is_entered(tmp_path: Path) -> None:
    with chat(tmp_path) as terminal:
        say(terminal, "/login", "A key for which service?")
        terminal.type("<Enter>")
        terminal.wait_for("The key of Anthropic")
        terminal.paste("sk-not a key")
        terminal.wait_for("••••")
        terminal.type("<Enter>")
        terminal.wait_for("That is no key")
        assert "sk-not" not in "\n".join(terminal.scrollback())
        assert b"sk-not" not in bytes(terminal.raw)


def test_an_image_is_attached_from_the_clipboard_and_by_its_path(tmp_path: Path) -> None:
    pixel = base64.b64decode(PNG)
    (tmp_path / "clip.png").write_bytes(pixel)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "xclip").write_text(f"#!/bin/sh\nexec cat {tmp_path / 'clip.png'}\n")
    (programs / "xclip").chmod(0o755)
    env = {"PATH": f"{programs}:{os.environ['PATH']}", "DISPLAY": ":7"}
    with chat(tmp_path, **env) as terminal:
        (tmp_path / "work" / "shot.png").write_bytes(pixel)
        terminal.type("what is ", "<Ctrl+V>")
        terminal.wait_for("[image clipboard-1.png]")
        terminal.type(" and @shot.png", "<Enter>")
        terminal.wait_for("The first answer.")
        (tmp_path / "clip.png").write_bytes(b"no image")
        terminal.type("<Ctrl+V>")
        terminal.wait_for("There is no image on the clipboard")
    assert (tmp_path / "asked").read_text().count(PNG) == 2


def test_two_images_of_one_name_are_sent_and_again_from_the_history_and_after_a_rewind(tmp_path: Path) -> None:
    pixel = base64.b64decode(PNG)
    with chat(tmp_path) as terminal:
        for folder in ("before", "after"):
            (tmp_path / folder).mkdir()
            (tmp_path / folder / "shot.png").write_bytes(pixel)
            terminal.paste(str(tmp_path / folder / "shot.png"))
        terminal.wait_for("❯ [image shot.png][image shot.png #2]")
        terminal.type("<Enter>")
        terminal.wait_for("The first answer.")
    assert (tmp_path / "asked").read_text().count(PNG) == 2
    with chat(tmp_path, "--continue", script=[{"say": "Seen again."}, {"say": "And again."}]) as terminal:
        say(terminal, "/rewind 1 chat", "❯ [image shot.png][image shot.png #2]")
        say(terminal, "", "Seen again.")
        terminal.wait_for(READY)
        terminal.type("<Up>")
        say(terminal, "", "And again.")
    assert (tmp_path / "asked").read_text().count(PNG) == 2 + 4  # the second request holds the first


def test_without_a_program_for_the_clipboard_the_hint_names_them(tmp_path: Path) -> None:
    with chat(tmp_path, PATH="/nowhere") as terminal:
        terminal.type("<Ctrl+V>")
        terminal.wait_for("Pasting an image needs wl-paste, xclip or pngpaste")


def test_a_key_is_tried_kept_and_used_at_once_and_the_next_time(tmp_path: Path) -> None:
    """On the strict server of the wire tests, on loopback."""
    with Server([answer("ok")]) as server:
        env = {"ANTHROPIC_BASE_URL": server.url("anthropic"), "COWORK_HOME": str(tmp_path / "home"), **QUIET}
        (tmp_path / "work").mkdir()
        for first in (True, False):
            with Terminal([str(COWORK)], cwd=tmp_path / "work", env=env, columns=110, rows=40) as terminal:
                terminal.wait_for(READY, 30)
                if first:
                    say(terminal, "/login anthropic", "The key of Anthropic")
                    terminal.paste(KEY)
                    terminal.type("<Enter>")
                    terminal.wait_for("This chat goes on with", 60)
                terminal.wait_for("claude-sonnet")
                assert KEY.encode() not in bytes(terminal.raw)
