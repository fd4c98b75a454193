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

import pytest

from tests.e2e.terminal import Terminal
from tests.fakes.command import COWORK
from tests.fakes.stage import call, say, turn
from tests.permissions.test_permissions_hygiene import PAYLOADS

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
    """Without half characters, with which a command is refused unasked."""
    return [p for p in payloads if not set("\ud83d\udc00") & set(p)]


def nameable(payload: str) -> bool:
    return not set("/\0\ud83d\udc00") & set(payload)


@contextmanager
def chat(place: Path, script: object, *words: str) -> Iterator[Terminal]:
    (place / "script.json").write_text(json.dumps(script))
    command = [str(COWORK), "--script", str(place / "script.json"), *words]
    env = {"COWORK_HOME": str(place / "home")}
    with Terminal(command, cwd=next(place.glob("work*")), env=env, columns=200, rows=60) as terminal:
        if "--trust" not in words:
            terminal.wait_for("yes, trust it", 30)
            terminal.type("n", "<Enter>")
        terminal.wait_for(READY, 30)
        yield terminal


def one_shot(place: Path, *words: str, answers: Sequence[str] = ()) -> Terminal:
    """The command with a terminal on all its streams, to its end."""
    env = {"COWORK_HOME": str(place / "home")}
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
    check(one_shot(place, *run, str(place / "play.json"), "--permission-mode", "bypass", "go"), payloads)
    check(one_shot(place, *run, str(place / "ask.json"), "go", answers=["n no", "n no"]), payloads)
    check(one_shot(place, *run, str(place / "fail.json"), "go"), payloads)


@pytest.mark.soak
def test_lists_and_complaints_draw_escaped(place: Path, payloads: list[str]) -> None:
    words = argument(payloads)
    (place / "script.json").write_text(json.dumps([say(prose(payloads))]))
    one_shot(place, "run", "--script", str(place / "script.json"), words)
    shown = [
        ["sessions", "list"], ["sessions", "list", "--all"], ["sessions", "show", newest(place)], ["trust"],
        ["trust", "--list"], ["agents", "list", "--trust"], ["agents", "show", "evil", "--trust"],
        ["config", "show", "--trust"], ["permissions", "explain", words], ["permissions", "explain", f"rm {words}"],
    ]  # fmt: skip
    wrong = [
        ["run", "--resume", words, "x"], ["run", "--agent", words, "x"], ["run", "--provider", words, "x"],
        ["run", "-C", words, "x"], ["run", "--script", words, "x"], ["run", "--config", words, "x"],
        ["run", "--allow", words, "x"], ["sessions", "show", words], ["sessions", "rm", words],
        ["agents", "show", words], ["doctor", "--session", words], ["trust", words], [words],
    ]  # fmt: skip
    for command in (*shown, *wrong):
        check(one_shot(place, *command), payloads)
    assert foreign(bytes(one_shot(place, "doctor").raw), payloads) == []


def argument(payloads: Sequence[str]) -> str:
    """All of them as one word of a command line, as far as one can hold them."""
    return " ".join(marked(p) for p in payloads if not set("\0\ud83d\udc00") & set(p))


def newest(place: Path) -> str:
    logs = sorted((place / "home" / "sessions").glob("*/events.jsonl"), key=lambda p: p.stat().st_mtime)
    return logs[-1].parent.name
