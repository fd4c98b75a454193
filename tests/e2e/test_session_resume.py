"""Going on with stored sessions through the installed command: what is taken up, what damage says, full disks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import zlib
from pathlib import Path
from typing import Any

import pytest

from cowork.sessions.log.lock import Lock
from cowork.sessions.log.writer import LOCK
from tests.e2e.terminal import Terminal
from tests.fakes.command import COWORK, Command, Ended
from tests.fakes.stage import call, say, turn

TODOS = [{"content": "one thing", "activeForm": "doing one thing", "status": "in_progress"}]


@pytest.fixture
def command(tmp_path: Path) -> Command:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("hello world\n")
    return Command(tmp_path / "work", tmp_path, {"COWORK_HOME": str(tmp_path / "home")})


@pytest.fixture
def log(command: Command) -> Path:
    """The log of a session that read, planned and went into a folder."""
    story = [
        turn(call("Read", file_path="a.txt")),
        turn(call("TodoWrite", todos=TODOS), call("Bash", command="mkdir sub && cd sub")),
        say("first answer"),
    ]
    words = ("--permission-mode", "accept-edits", "--allow", "Bash")
    assert command.play(story, *words, prompt="begin").code == 0
    (found,) = (command.home / "home" / "sessions").glob("*/events.jsonl")
    return found


def go_on(command: Command, log: Path, *story: dict[str, Any], words: tuple[str, ...] = ()) -> Ended:
    return command.play(list(story) or [say("ok")], "--resume", log.parent.name[:5], *words, prompt="go on")


def notices(ended: Ended, code: str) -> list[str]:
    return [e["text"] for e in ended.of("notice") if e["code"] == code]


def test_todo_mode_folder_and_read_files_are_taken_up(command: Command, log: Path) -> None:
    edit = call("Edit", file_path="../a.txt", old_string="hello", new_string="bye")
    ended = go_on(command, log, turn(edit), turn(call("Bash", command="pwd")), say("second answer"))
    assert ended.code == 0
    assert ended.of("session.started")[0]["resumed"] is True
    assert ended.record("Edit")["status"] == "success"  # not asked, for the mode is accept-edits; not read again
    assert ended.record("Bash")["text"].endswith(str(Path(command.folder.name, "sub")))
    assert (command.folder / "a.txt").read_text() == "bye world\n"


@pytest.mark.parametrize("why", ["bypass", "another folder", "settings", "project"])
def test_no_looser_mode_is_taken_up_than_the_settings_of_now_give(command: Command, log: Path, why: str) -> None:
    if why == "bypass":
        go_on(command, log, words=("--permission-mode", "bypass"))
    elif why == "another folder":
        command.folder = command.home / "other"
        command.folder.mkdir()
    else:
        place = command.home / "home" if why == "settings" else command.folder / ".cowork"
        place.mkdir(exist_ok=True)
        (place / "config.toml").write_text('[permissions]\nmode = "plan"\n')
    write = turn(call("Write", file_path=str(command.folder / "new.txt"), content="x"))
    ended = go_on(command, log, write, say("ok"), words=("--trust",))
    assert ended.record("Write")["error"]["code"] == "PERMISSION_DENIED"
    assert not (command.folder / "new.txt").exists()
    mode = "plan" if why in ("settings", "project") else "ask"
    assert ended.of("session.started")[0]["mode"] == mode
    assert any(f"it goes on in {mode}." in notice["text"] for notice in ended.of("notice"))


def test_a_file_changed_in_between_must_be_read_again(command: Command, log: Path) -> None:
    (command.folder / "a.txt").write_text("hello other world\n")
    edit = call("Edit", file_path="../a.txt", old_string="hello", new_string="bye")
    ended = go_on(command, log, turn(edit), say("ok"))
    assert ended.record("Edit")["error"]["code"] == "CONFLICT"


def test_continue_is_of_this_folder(command: Command, log: Path) -> None:
    other = command.home / "other"
    other.mkdir()
    ended = Command(other, command.home, command.env).play([say("ok")], "--continue")
    assert (ended.code, "no session of this folder" in ended.err) == (2, True)
    assert command.play([say("ok")], "--continue").code == 0


def newer(log: Path) -> None:
    """Records of a kind this version does not know, at the end."""
    last = json.loads(log.read_bytes().splitlines()[-1])
    del last["_crc"]
    with log.open("ab") as file:
        for more in range(1, 9):
            raw = {**last, "type": "thought.read", "id": last["id"] + more, "_n": last["_n"] + more}
            body = json.dumps(raw, separators=(",", ":")).encode()[:-1]
            file.write(body + b',"_crc":"%08x"}\n' % zlib.crc32(body))


def torn(log: Path) -> None:
    log.write_bytes(log.read_bytes()[:-40])


def flipped(log: Path) -> None:
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)


def doubled(log: Path) -> None:
    log.write_bytes(log.read_bytes() + log.read_bytes().splitlines(keepends=True)[2])


def empty(log: Path) -> None:
    log.write_bytes(b"")


def rubbish(log: Path) -> None:
    log.write_bytes(bytes(range(256)) * 40)


@pytest.mark.parametrize("damage", [newer, torn, flipped, doubled, empty, rubbish])
def test_damage_is_said_once_in_a_line_and_the_session_goes_on(command: Command, log: Path, damage: Any) -> None:
    damage(log)
    ended = go_on(command, log, say("second answer"))
    assert ended.code == 0
    (line,) = notices(ended, "log.damage")
    assert "\n" not in line
    assert len(line) < 300
    examined = command.cowork("doctor", "--session", log.parent.name)
    assert "story" in examined.out
    again = go_on(command, log, say("third answer"))
    assert again.code == 0
    shown = command.cowork("sessions", "show", log.parent.name).out
    assert "second answer" in shown
    assert "third answer" in shown


def test_the_same_damage_in_text_is_one_line_on_stderr(command: Command, log: Path) -> None:
    rubbish(log)
    (command.home / "ok.json").write_text(json.dumps([say("ok")]))
    ended = command.run("--script", str(command.home / "ok.json"), "--resume", log.parent.name)
    assert ended.code == 0
    assert sum("damaged" in line for line in ended.err.splitlines()) == 1


def test_a_second_process_is_told_who_writes(command: Command, log: Path) -> None:
    script = command.home / "slow.json"
    script.write_text(json.dumps([{**say("slow"), "delay_ms": 30_000}]))
    words = [str(COWORK), "run", "--script", str(script), "--resume", log.parent.name, "--output", "stream-json", "x"]
    env = {"PATH": os.environ["PATH"], "HOME": str(command.home), **command.env}
    with subprocess.Popen(
        words, cwd=command.folder, env=env, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
    ) as first:
        assert first.stdout is not None
        first.stdout.readline()
        second = go_on(command, log)
        first.kill()
    assert second.code == 2
    assert str(first.pid) in second.err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_full_disk_ends_no_run_and_is_said_once(tmp_path: Path) -> None:
    home = tmp_path / "small"
    home.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(home)], capture_output=True)
    if mounted.returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        (tmp_path / "work").mkdir()
        command = Command(tmp_path / "work", tmp_path, {"COWORK_HOME": str(home)})
        story = [turn(call("Bash", command="seq 4000"), say="more " * 2000) for _ in range(8)] + [say("to the end")]
        ended = command.play(story, "--permission-mode", "bypass")
        assert ended.code == 0, ended.err
        assert ended.result["result"] == "to the end"
        said = [e["text"] for e in ended.of("notice") if e["level"] in ("warning", "error")]
        assert sum("space" in text for text in said) + ended.err.count("space") == 1, (said, ended.err)
        (log,) = home.glob("sessions/*/events.jsonl")
        assert all(line.endswith(b"}\n") for line in log.read_bytes().splitlines(keepends=True)[:-1])
        subprocess.run(["mount", "-o", "remount,size=4m", str(home)], check=True)
        assert command.play([say("ok")], "--continue").code == 0
    finally:
        subprocess.run(["umount", str(home)], check=True)


@pytest.mark.parametrize("trouble", ["read-only", "full"])
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_home_that_cannot_be_written_stops_no_run(tmp_path: Path, trouble: str) -> None:
    home = tmp_path / "small"
    home.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(home)], capture_output=True)
    if mounted.returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        (tmp_path / "work").mkdir()
        command = Command(tmp_path / "work", tmp_path, {"COWORK_HOME": str(home)})
        assert command.play([say("kept")]).code == 0
        (log,) = home.glob("sessions/*/events.jsonl")
        before = log.read_bytes()
        if trouble == "read-only":
            subprocess.run(["mount", "-o", "remount,ro", str(home)], check=True)
        else:
            subprocess.run(["dd", "if=/dev/zero", f"of={home}/fill", "bs=1k"], capture_output=True)
        ended = command.play([say("to the end")])
        assert (ended.code, ended.result["result"]) == (0, "to the end"), ended.err
        said = [e["text"] for e in ended.of("notice") if "is not kept" in e["text"] or "cannot be saved" in e["text"]]
        assert len(said) == 1
        assert ended.result["warnings"] == said
        again = command.play([say("to the end")], "--continue")
        assert again.code == (2 if trouble == "read-only" else 0), again.err
        assert "Traceback" not in again.err
        assert "inside cowork" not in again.err
        assert log.read_bytes().startswith(before)
        assert command.cowork("sessions", "list").code == 0
    finally:
        subprocess.run(["umount", str(home)], check=True)


@pytest.mark.parametrize("way", ["/fork", "/fork ID", "--fork"])
def test_a_fork_goes_on_in_a_copy_and_leaves_the_first_alone(command: Command, log: Path, way: str) -> None:
    before, name = log.read_bytes(), log.parent.name
    (command.home / "ok.json").write_text(json.dumps([say("in the copy")]))
    words = [str(COWORK), "--script", str(command.home / "ok.json")]
    words += [] if way == "/fork ID" else ["--resume", name, *(["--fork"] if way == "--fork" else [])]
    lock = None if way == "/fork" else Lock(log.with_name(LOCK))  # somebody else is in it

    def copies() -> list[Path]:
        return [path for path in log.parents[1].glob("*/events.jsonl") if path != log]

    with Terminal(words, cwd=command.folder, env=command.env) as terminal:
        terminal.wait_for("/help", 30)
        if way != "--fork":
            terminal.type(way.replace("ID", name), "<Enter>")
        terminal.wait_until(lambda: any(b"first answer" in copy.read_bytes() for copy in copies()), what="the copy")
        terminal.wait_for("/help")
        terminal.type("go on", "<Enter>")
        terminal.wait_for("in the copy", 20)
    first = log.read_bytes()
    assert first.startswith(before)
    assert b"in the copy" not in first
    if lock:
        lock.release()
    (copy,) = copies()
    assert b"first answer" in copy.read_bytes()
    assert b"in the copy" in copy.read_bytes()


def test_what_was_typed_ahead_outlives_a_kill_and_is_in_the_input_again(command: Command, log: Path) -> None:
    slow, quick = command.home / "slow.json", command.home / "quick.json"
    slow.write_text(json.dumps([{**say("slow"), "delay_ms": 300_000}]))
    quick.write_text(json.dumps([say("both were heard")]))
    words = [str(COWORK), "--resume", log.parent.name, "--script"]
    kept = log.with_name("typed-ahead.json")
    with Terminal([*words, str(slow)], cwd=command.folder, env=command.env) as terminal:
        terminal.wait_for("/help", 30)
        terminal.type("begin", "<Enter>")
        terminal.wait_for("Esc interrupt")
        terminal.type("and this", "<Enter>", "and that", "<Enter>")
        terminal.wait_until(lambda: kept.is_file() and b"that" in kept.read_bytes(), what="the note")
        os.kill(terminal.pid, signal.SIGKILL)
        terminal.wait_exit()
    with Terminal([*words, str(quick)], cwd=command.folder, env=command.env) as terminal:
        terminal.wait_for("Typed ahead and not sent: and this · and that", 30)
        terminal.wait_for("❯ and this")
        terminal.type("<Enter>")
        terminal.wait_for("both were heard", 20)
    assert not kept.exists()
    assert b'"text":"and this\\nand that"' in log.read_bytes()
