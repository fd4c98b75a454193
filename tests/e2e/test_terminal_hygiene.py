"""Hostile text through every drawing path of the installed command: only our own sequences reach the terminal."""

from __future__ import annotations

import codecs
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from typer.main import get_command

import cowork
from cowork.cli.typer_app import app
from tests.e2e.terminal import Terminal
from tests.fakes.command import COWORK, QUIET
from tests.fakes.stage import call, say, turn
from tests.permissions.test_permissions_hygiene import PAYLOADS
from tests.wire.server import Server, status

SOAK = bool(os.environ.get("COWORK_SOAK"))
READY = "/help"
EACH = 15  # payloads a chat
BATCHES = [PAYLOADS[at : at + EACH] for at in range(0, len(PAYLOADS), EACH)]
# In the normal run one chat with some of every kind; every payload in `make soak`.
SAMPLE = BATCHES if SOAK else [[p for batch in BATCHES[::2] for p in batch[3::11]] + ["ok\rEVIL", "\x1b]52;c;QQ==\x07"]]

# What the painter, the title and the theme write; anything else in the stream came from somebody else.
OURS = re.compile(
    r"\x1b\[[0-9;]*m"  # colours
    r"|\x1b\[[0-9]*[ABCJK]|\x1b\[[0-9;]*H|\x1b[78]"  # moves and erasing, a place kept and taken up
    r"|\x1b\[6n"  # where the cursor is
    r"|\x1b\[\?(?:7|12|25|1049|2004|2026)[hl]"  # modes
    r"|\x1b\[2[23];2t|\x1b\]2;[^\x00-\x1f\x7f-\x9f]*\x07"  # the title, kept and put back
    r"|\x1b\]11;\?\x1b\\"  # is it dark or light
    r"|\x1b\]9;[^\x00-\x1f\x7f-\x9f]*\x07"  # a notification, after an answer that took long
    r"|\x1b\]52;c;[A-Za-z0-9+/=]*\x07"  # what /copy was asked to copy
)
HALF = re.compile(r"\x1b(?:\[[0-9;?]*|\][^\x07\x1b]*\x1b?)?$")
STEERS = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]"
)


def marked(payload: str) -> str:
    return f"QZ{payload}ZQ"


def foreign(raw: bytes, payloads: Sequence[str]) -> list[str]:
    """What reached the terminal and is not ours."""
    text = codecs.getincrementaldecoder("utf-8")().decode(raw)  # a lone 8-bit C1 would not decode
    text = HALF.sub("", text)  # what is still being written is looked at next time
    left = OURS.sub("", text)
    found = [f"{m.group()!r} in {left[max(0, m.start() - 30) : m.end() + 30]!r}" for m in STEERS.finditer(left)]
    return found + [f"{p!r} as it was" for p in payloads if marked(p) in text]


def check(terminal: Terminal, payloads: Sequence[str], since: int = 0) -> None:
    raw = bytes(terminal.raw[since:])
    assert foreign(raw, payloads) == []
    assert b"QZ" in raw, "nothing hostile was drawn at all"


@pytest.fixture(params=SAMPLE, ids=lambda batch: ascii(batch[0])[1:-1])
def payloads(request: pytest.FixtureRequest) -> list[str]:
    return list(request.param)


@pytest.fixture
def place(tmp_path: Path, payloads: list[str]) -> Path:
    """A folder whose files, names and agents are hostile."""
    work = folder(tmp_path, payloads)
    (work / ".cowork" / "agents").mkdir(parents=True)
    texts = [marked(p) for p in payloads]
    (work / "evil.txt").write_bytes("\n".join(texts).encode("utf-8", "surrogatepass"))
    (work / "code.py").write_bytes("".join(f"a = '{t}'\n" for t in texts if "\0" not in t).encode("utf-8", "replace"))
    for number, payload in enumerate(payloads):
        if nameable(payload):
            (work / f"n{number} {marked(payload)}.txt").write_text("QZ name")
    agent = f"---\nname: evil\ndescription: {json.dumps(' '.join(texts))}\ntools: Read\n---\nGo.\n"
    (work / ".cowork" / "agents" / "evil.md").write_text(agent)
    wrong = f"---\nname: wrong\ndescription: x\ntools: {json.dumps(texts)}\n---\nGo.\n"
    (work / ".cowork" / "agents" / "wrong.md").write_text(wrong)
    (work / ".git").mkdir()  # the branch in the status line
    branch = next(marked(p) for p in payloads if nameable(p))
    (work / ".git" / "HEAD").write_text(f"ref: refs/heads/{branch}\n")
    rules = ", ".join(f'"Read(no {spelled(p)})"' for p in payloads)
    (work / ".cowork" / "config.toml").write_text(f"[permissions]\ndeny = [{rules}]\n")
    return tmp_path


def folder(place: Path, payloads: Sequence[str]) -> Path:
    """A folder with a hostile name, as far as names can be."""
    return place / f"work {marked(next(p for p in payloads if nameable(p)))}"


def spelled(payload: str) -> str:
    """As TOML spells it; half a surrogate pair has no spelling there."""
    return "".join(f"\\U{ord(c):08x}" for c in marked(payload) if not "\ud800" <= c <= "\udfff")


def whole(payloads: Sequence[str]) -> list[str]:
    """Without NUL and half characters, with which a command is refused unasked."""
    return [p for p in payloads if not set("\0\ud83d\udc00") & set(p)]


def nameable(payload: str) -> bool:
    return not set("/\0\ud83d\udc00") & set(payload)


@contextmanager
def chat(place: Path, script: object, *words: str, **env: str) -> Iterator[Terminal]:
    (place / "script.json").write_text(json.dumps(script))
    command = [str(COWORK), "--script", str(place / "script.json"), *words]
    env = {"COWORK_HOME": str(place / "home"), **QUIET, **env}
    with Terminal(command, cwd=next(place.glob("work*")), env=env, columns=200, rows=60) as terminal:
        if "--trust" not in words:
            terminal.wait_for("number, or why not:" if "TERM" in env else "y · n · digits", 30)
            terminal.type("n", "<Enter>")
        ready = (lambda: b"\n> " in terminal.raw) if "TERM" in env else lambda: READY in terminal.text()
        terminal.wait_until(ready, 30, "the chat")
        yield terminal


def one_shot(place: Path, *words: str, answers: Sequence[str] = (), **env: str) -> Terminal:
    """The command with a terminal on all its streams, to its end."""
    env = {"COWORK_HOME": str(place / "home"), **env}
    cwd = next(place.glob("work*"))
    with Terminal([str(COWORK), *words], cwd=cwd, env=env, columns=300, rows=60) as terminal:
        for number, answer in enumerate(answers, 1):
            terminal.wait_until(partial(asked, terminal, number), 30, "a question")
            terminal.settle(0.1)
            terminal.type(answer, "<Enter>")
        terminal.wait_exit(30)
    return terminal


def asked(terminal: Terminal, times: int) -> bool:
    return terminal.raw.count(b"[n] no") >= times


def prose(payloads: Sequence[str]) -> str:
    """Every payload in a paragraph, code, a heading, a table, a list and a link."""
    lines = []
    for text in map(marked, payloads):
        lines += [f"## {text}", f"plain {text}, **bold {text}**, `code {text}`, [link {text}](http://x/{text})"]
        lines += [f"<http://x/{quote(text, errors='replace')}> QZ{''.join(f'&#{ord(c)};' for c in text[2:])}", ""]
        lines += [
            f"- item {text}",
            "",
            "```python",
            f"x = '{text}'",
            "```",
            "",
            f"| {text} | b |",
            "|---|---|",
            f"| 1 | {text} |",
            "",
        ]
    return "\n".join(lines)


def calls(payloads: Sequence[str]) -> list[dict[str, Any]]:
    """Calls whose inputs, results and errors are hostile."""
    found = []
    for number, payload in enumerate(payloads):
        text = marked(payload)
        found += [
            call("Bash", command=f"printf '%s\\n' '{text}' # {text}", description=text),
            call("Read", file_path=f"missing {text}"),
            call("Grep", pattern=f"QZ{text}" if number % 2 else "QZ.*"),
            call("Write", file_path=f"made{number}.txt", content=f"{text}\nsecond {text}\n"),
            call(f"Tool{text}", input=text),
            call("Task", description=text, prompt=text, subagent_type=text),
        ]
    todos = [{"content": marked(p), "activeForm": f"doing {marked(p)}", "status": "pending"} for p in payloads]
    todos[0]["status"] = "in_progress"
    edit = {"file_path": "code.py", "old_string": "a = ", "new_string": marked(payloads[0]), "replace_all": True}
    return [
        *found,
        call("Bash", command="cat evil.txt; cat evil.txt >&2; ls"),
        call("Read", file_path="evil.txt"),
        call("Glob", pattern="n*"),
        call("LS", path="."),
        call("Read", file_path="code.py"),
        call("Edit", **edit),
        call("TodoWrite", todos=todos),
    ]


@pytest.mark.soak
def test_what_a_model_and_its_tools_say_is_drawn_escaped(place: Path, payloads: list[str]) -> None:
    text = prose(payloads)
    child = [turn(*calls(payloads[:3]), say=text[:400]), say(text)]
    fault = {"status": 529, "message": " ".join(map(marked, payloads)), "retry_after": 0.01}
    send = [
        call("Task", description=marked(p), prompt=marked(p), subagent_type="general-purpose") for p in payloads[:3]
    ]
    script = {
        "main": [
            say(text + "\n\nFIRST", chunks=len(text)), say(text + "\n\nSECOND", think=text, chunks=len(text) // 3),
            turn(*calls(payloads)), turn(*send), say("THIRD"), {"fault": fault, **say("FOURTH")},
            {"fault": {"status": 400, "message": " ".join(map(marked, payloads))}},
        ],
        "agents": {"general-purpose": child},
    }  # fmt: skip
    with chat(place, script, "--permission-mode", "bypass", "--trust") as terminal:
        for word in ("FIRST", "SECOND", "THIRD", "FOURTH"):
            since = len(terminal.raw)
            terminal.type(f"go {word.lower()}", "<Enter>")
            terminal.wait_until(lambda word=word: word in terminal.text() and READY in terminal.text(), 60, word)  # type: ignore[misc]
            check(terminal, payloads, since)
        since = len(terminal.raw)
        terminal.type("fail", "<Enter>")
        terminal.wait_until(lambda: b"QZ" in terminal.raw[since:], 20, "the error")
        terminal.wait_for(READY)
        terminal.type("/agents", "<Enter>")
        terminal.settle(0.5)
        terminal.type("<Esc>")
        terminal.type("/diff", "<Enter>")
        terminal.settle(0.5)
        check(terminal, payloads, since)
        since = len(terminal.raw)
        terminal.type("<Ctrl+O>")
        terminal.wait_until(lambda: terminal.screen_.alternate, what="the viewer")
        for _ in range(12):
            terminal.type("<PageUp>")
            terminal.pump(0.05)
        terminal.type("q")
        check(terminal, payloads, since)


@pytest.mark.soak
def test_questions_and_lists_in_the_chat_are_drawn_escaped(place: Path, payloads: list[str]) -> None:
    first = whole(payloads)
    asked = [
        call("Bash", command=f"touch '{marked(first[0])}' {marked(first[1])} $({marked(first[2])})"),
        call("Edit", file_path="code.py", old_string="a = ", new_string=marked(first[3]), replace_all=True),
        call("Write", file_path=f"new {marked(first[4])}.txt", content="\n".join(map(marked, first))),
    ]
    look = call("Read", file_path="code.py")
    script = {
        "main": [say("TITLED"), turn(*asked[:1]), turn(look), turn(*asked[1:2]), turn(*asked[2:]), say("ANSWERED")],
        "resume": True,
    }
    (place / "other.json").write_text(json.dumps([say(prose(payloads))]))
    one_shot(place, "run", "--script", str(place / "other.json"), f"title {argument(payloads)}")
    with chat(place, script) as terminal:
        terminal.paste("title QZ " + " ".join(marked(p) for p in payloads if not set("\x1b\ud83d\udc00") & set(p)))
        terminal.type("<Enter>")
        terminal.wait_until(lambda: "TITLED" in terminal.text() and READY in terminal.text(), 20, "the answer")
        terminal.type("ask", "<Enter>")
        for tool in ("Bash", "Edit", "Write"):
            terminal.wait_for(f"Allow {tool}?", 20)
            terminal.wait_for("↑↓ Enter")
            terminal.settle(1.2)  # a question takes keys only after a moment
            terminal.type("n")
        terminal.wait_for("ANSWERED", 20)
        check(terminal, payloads)
        for command in ("/resume", "/rewind"):
            since = len(terminal.raw)
            terminal.type(command, "<Enter>")
            terminal.wait_until(lambda since=since: b"title QZ" in terminal.raw[since:], 20, command)  # type: ignore[misc]
            terminal.settle(0.3)
            terminal.type("<Esc>")
            terminal.wait_for(READY)
            check(terminal, payloads, since)


@pytest.mark.soak
def test_a_one_shot_draws_escaped(place: Path, payloads: list[str]) -> None:
    texts = " ".join(map(marked, payloads))
    fault = {"fault": {"status": 529, "message": texts, "retry_after": 0.01}}
    safe = " ".join(map(marked, whole(payloads)))
    asked = [call("Bash", command=f"touch {safe}"), call("Write", file_path="x", content=safe)]
    stories = {
        "play": [turn(*calls(payloads), say=texts, think=texts), {**fault, **say(prose(payloads))}],
        "ask": [turn(*asked), say(texts)],
        "fail": [{"fault": {"status": 400, "message": texts}}],
    }
    for name, story in stories.items():
        (place / f"{name}.json").write_text(json.dumps({"main": story}))
    run = ["run", "--trust", "--script"]
    bypass = ["--permission-mode", "bypass", "go"]
    check(one_shot(place, *run, str(place / "play.json"), *bypass, COWORK_LOG="debug"), payloads)
    check(one_shot(place, *run, str(place / "ask.json"), "go", answers=["n no", "n no"]), payloads)
    check(one_shot(place, *run, str(place / "fail.json"), "go"), payloads)


@pytest.mark.soak
def test_what_a_service_answers_is_drawn_escaped(place: Path, payloads: list[str]) -> None:
    text = " ".join(map(marked, whole(payloads)))
    page = f"<html><title>{text}</title>{text}</html>"
    headers = {"request-id": "QZ\x9b2JZQ", "retry-after": "QZ\x1b[31m"}
    body = {"type": "error", "error": {"type": text, "message": text}}
    for answer in (status(403, body=body, headers=headers), status(400, body=page, headers=headers)):
        with Server([answer]) as server:
            drawn = one_shot(place, "run", "go", **server.env("anthropic"), USER=argument(payloads))
            assert foreign(bytes(drawn.raw), payloads) == []


# Every command of the command line, shown something hostile or given it; {} stands for it, SESSION for a session.
SHOWN = [
    "sessions list", "sessions list --all", "sessions show SESSION", "sessions show SESSION --json", "trust",
    "trust --list", "agents list --trust", "agents show evil --trust", "agents check", "config show --trust",
    "extensions list --trust", "extensions check",
    "sessions export SESSION", "report",
    "config path --all", "permissions explain {}", "config check", "sessions rm SESSION",
]  # fmt: skip
WRONG = [
    "run --resume {} x", "run --agent {} x", "run --provider {} x", "run -C {} x", "run --script {} x",
    "run --config {} x", "run --allow {} x", "sessions show {}",
    "sessions rm {}", "agents show {}", "doctor --session {}", "trust {}", "trust --revoke {}", "tools {}",
    "config init --url {}", "config key K {}", "config show --config {}", "config check -C {}", "demo --pace {}",
    "doctor -C {}", "cost --by {}", "extensions show {}", "plugin add {}", "plugin remove {}",
    "plugin update {}", "plugin check {}", "hooks test {}", "hooks list -C {}", "plugin list {}",
    "import {}", "tasks show {}", "tasks list --since {}", "acp {}", "report --since {}", "watch {}",
    "batch {} --out x", "flow run {}", "flow resume {}", "flow list {}", "flow show {}", "mcp list {}", "mcp get {}",
    "mcp add evil --scope {}", "mcp remove {}", "mcp approve {}", "mcp test git {}", "mcp login git {}",
    "mcp logout {}", "mcp import {}", "mcp serve {}",
]  # fmt: skip
ROWS = [*SHOWN, *WRONG] if SOAK else [*SHOWN[::4], *WRONG[2::9]]


def test_every_command_of_the_command_line_is_shown_something_hostile() -> None:
    def leaves(command: Any, path: str = "") -> Iterator[str]:
        for name, child in getattr(command, "commands", {}).items():
            yield from leaves(child, f"{path} {name}") if hasattr(child, "commands") else [f"{path} {name}".strip()]

    rows = [*SHOWN, *WRONG]
    assert [name for name in leaves(get_command(app)) if not any(row.startswith(name) for row in rows)] == []


@pytest.mark.soak
def test_lists_and_complaints_draw_escaped(place: Path, payloads: list[str]) -> None:
    words = argument(payloads)
    (place / "script.json").write_text(json.dumps([say(prose(payloads))]))
    one_shot(place, "run", "--script", str(place / "script.json"), words)
    session = newest(place)
    for row in ROWS:
        asked = [{"{}": words, "SESSION": session}.get(word, word) for word in row.split()]
        check(one_shot(place, *asked), payloads)
    assert foreign(bytes(one_shot(place, "doctor").raw), payloads) == []


@pytest.mark.soak
def test_a_key_is_asked_for_under_a_name_that_is_drawn_escaped(place: Path, payloads: list[str]) -> None:
    env = {"COWORK_HOME": str(place / "home")}
    command = [str(COWORK), "config", "key", argument(payloads)]
    with Terminal(command, cwd=place, env=env, columns=300) as terminal:
        terminal.wait_until(lambda: b"ZQ: " in terminal.raw, 30, "the question")
        terminal.type("<Ctrl+D>")
        terminal.wait_exit(30)
    check(terminal, payloads)


# What is typed for every command of the chat; the rest of what is typed there opens menus and lists.
TYPED = {
    "add-dir": "/add-dir {}", "agents": "/agents evil", "clear": "", "compact": "/compact {}", "config": "/config",
    "context": "/context", "copy": "/copy", "cost": "/cost", "diff": "/diff", "doctor": "/doctor", "exit": "/exit",
    "extensions": "/extensions", "mcp": "/mcp",
    "export": "/export {}", "fork": "/fork", "help": "/help", "init": "", "login": "/login", "memory": "",
    "mode": "/mode {}", "model": "/model {}", "permissions": "/permissions", "quit": "", "rename": "/rename {}",
    "resume": "/resume {}", "rewind": "/rewind {}", "status": "/status", "tasks": "/tasks",
    "theme": "/theme {}", "todo": "/todo", "tools": "/tools", "vim": "",
}  # fmt: skip


def test_every_command_of_the_chat_is_shown_something_hostile() -> None:
    root = Path(cowork.__file__).parent
    files = ("app/chat/slash_commands.py", "frontends/repl/input/actions.py")
    names = {name for file in files for name in re.findall(r"\bCommand\(\"([\w-]+)\"", (root / file).read_text())}
    assert names == set(TYPED)


@pytest.mark.soak
@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_whatever_is_typed_in_the_chat_is_drawn_escaped(place: Path, payloads: list[str], term: str) -> None:
    # A dumb terminal echoes what is typed by itself, so nothing hostile is typed there.
    texts = [marked(p) for p in payloads if term != "dumb" and not set("\x1b\ud83d\udc00") & set(p)]
    hostile(place, payloads)
    todos = [{"content": marked(p), "activeForm": marked(p), "status": "pending"} for p in payloads]
    script = [turn(call("TodoWrite", todos=todos)), say("FIRST")]
    env = {"TERM": "dumb"} if term == "dumb" else {}
    with chat(place, script, "--trust", **env) as terminal:
        terminal.type("go", "<Enter>")
        terminal.wait_for("FIRST", 30)
        for name, typed in list(TYPED.items())[:: 1 if SOAK else 5]:
            if not typed or name == "exit":
                continue
            since = len(terminal.raw)
            text = typed.replace("{}", " ".join(texts[:4]) or "QZ")
            terminal.type(text) if term == "dumb" else terminal.paste(text)
            terminal.type("<Enter>")
            terminal.settle(0.3)
            if term != "dumb":
                terminal.type("<Esc>")
                terminal.pump(0.2)
            assert foreign(bytes(terminal.raw[since:]), payloads) == [], name
        if term != "dumb":
            menus(terminal, payloads)
        check(terminal, payloads)
        terminal.type("/exit", "<Enter>")
        terminal.wait_exit(30)


def hostile(place: Path, payloads: Sequence[str]) -> None:
    """A history, commands and settings of the user's own with hostile text in them."""
    home = place / "home"
    (home / "commands").mkdir(parents=True)
    rows = [json.dumps({"at": 1, "text": f"old {marked(p)} prompt"}) for p in payloads]
    (home / "history").write_text("\n".join(rows) + "\n")
    for number, payload in enumerate(payloads):
        if nameable(payload):
            (home / "commands" / f"z{number}{marked(payload)}.md").write_text(f"# {marked(whole([payload])[0])}\nGo.\n")
    model = spelled(payloads[0])
    light = f'[models.light]\nprovider = "openai-chat"\nmodel = "{model}"\nbase_url = "http://127.0.0.1:9/v1"\n'
    (home / "config.toml").write_text(light)


def menus(terminal: Terminal, payloads: Sequence[str]) -> None:
    """Menus, lists and the history, each opened and left again."""
    for keys in (["/z"], ["@n"], ["?"], ["<Ctrl+R>", "old"], ["<Up>"], ["/agents", "<Enter>"], ["/resume", "<Enter>"],
                 ["/model", "<Enter>"], ["<Esc>", "<Esc>"], ["/rewnd", "<Enter>"], ["!cat evil.txt", "<Enter>"],
                 ["# QZ note", "<Enter>"], ["<Ctrl+O>", "/", "QZ", "<Enter>", "q"]):  # fmt: skip
        since = len(terminal.raw)
        for key in keys:
            terminal.type(key)
            terminal.pump(0.1)
        terminal.settle(0.2)
        terminal.type("<Esc>")
        terminal.pump(0.2)
        terminal.type("<Ctrl+E>", "<Ctrl+U>")
        terminal.pump(0.2)
        assert foreign(bytes(terminal.raw[since:]), payloads) == [], keys


def argument(payloads: Sequence[str]) -> str:
    """All of them as one word of a command line, as far as one can hold them."""
    return " ".join(marked(p) for p in payloads if not set("\0\ud83d\udc00") & set(p))


def newest(place: Path) -> str:
    logs = sorted((place / "home" / "sessions").glob("*/events.jsonl"), key=lambda p: p.stat().st_mtime)
    return logs[-1].parent.name
