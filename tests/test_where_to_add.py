"""Follows each row of "Where to add things" in docs/architecture.md, in a copy of the program."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.e2e.terminal import Terminal
from tests.fakes.command import QUIET

TOP = Path(__file__).parents[1]


class Copy:
    """A copy of the program that a test may add to."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.work = top / "work"
        self.env = {"PATH": os.environ["PATH"], "HOME": str(top), "COWORK_HOME": str(top / "home"), **QUIET}
        self.env |= {"PYTHONPATH": str(top), "OPENAI_API_KEY": "sk-x"}
        self.work.mkdir()

    def write(self, name: str, text: str) -> None:
        """Add a file."""
        (self.top / name).write_text(text, encoding="utf-8")

    def edit(self, name: str, old: str, new: str) -> None:
        """Change the only place that holds a text."""
        text = (self.top / name).read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{name} holds {old!r} {text.count(old)} times"
        self.write(name, text.replace(old, new))

    def cowork(self, *words: str) -> str:
        """What a command prints, as cowork or as another module of the copy."""
        argv = [sys.executable, "-m", *(words if words[0].startswith("cowork") else ("cowork", *words))]
        done = subprocess.run(argv, cwd=self.work, env=self.env, capture_output=True, text=True, timeout=100)
        return done.stdout + done.stderr

    def run(self, *words: str, script: object) -> str:
        """What a run prints that plays a script."""
        self.write("script.json", json.dumps(script))
        return self.cowork("run", "--non-interactive", "--script", str(self.top / "script.json"), *words, "go")


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    for folder in ("cowork", "prompts", "agents", "skills"):
        if (TOP / folder).is_dir():
            shutil.copytree(
                TOP / folder, tmp_path / folder
            )  # with its bytecode, so that only what is changed is compiled
    return Copy(tmp_path)


def test_every_row_is_followed_here() -> None:
    page = (TOP / "docs/architecture.md").read_text(encoding="utf-8").split("## Where to add things")[1]
    rows = [line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ")][1:]
    followed = {
        *("a tool", "a wire format", "an agent", "a setting", "a front end", "a slash command", "a kind of rule"),
        *("a kind of extension", "a skill that comes along", "something to the status line", "a field of the result"),
        "a file name that means secrets",
        *("a kind of question for the offline model", "something the offline model can list or count"),
    }
    assert set(rows) == followed


def test_a_tool(copy: Copy) -> None:
    copy.write(
        "cowork/tools/shout.py",
        "from __future__ import annotations\n\nfrom typing import Annotated\n\n"
        "from cowork.core.ports import ToolRecord, ok\nfrom cowork.tools.base import ToolContext, tool\n\n\n"
        '@tool("Shout", reads=True, line=lambda args, cwd: args["text"])\n'
        'async def shout(ctx: ToolContext, text: Annotated[str, "What to shout"]) -> ToolRecord:\n'
        "    return ok(text.upper())\n",
    )
    copy.write("prompts/tools/Shout.md", "Say a text aloud.\n")
    builtin = "cowork/tools/builtin.py"
    copy.edit(
        builtin, "from cowork.tools.task import", "from cowork.tools.shout import shout\nfrom cowork.tools.task import"
    )
    copy.edit(builtin, "_FIXED = (\n    read,", "_FIXED = (\n    shout, read,")
    said = copy.run("--output", "stream-json", script=[{"call": {"Shout": {"text": "hello"}}}, {"say": "done"}])
    assert '"text":"HELLO"' in said


def test_a_wire_format(copy: Copy, service: str) -> None:
    copy.write(
        "cowork/providers/codecs/echo.py",
        "from cowork.providers.codecs.openai_chat import ChatCodec\n\n"
        f'BASE_URL = "{service}"\n\n\nclass EchoCodec(ChatCodec):\n    """The chat format under another name."""\n',
    )
    opener = "cowork/providers/open.py"
    copy.edit(opener, '    "openai-chat": (', '    "echo": ("echo", "EchoCodec", "/echo"),\n    "openai-chat": (')
    copy.edit("cowork/config/sections.py", '"openai-chat", "offline"', '"openai-chat", "echo", "offline"')
    copy.edit("cowork/config/models.py", '_VENDOR = {"anthropic"', '_VENDOR = {"echo": "OPENAI", "anthropic"')
    said = copy.cowork("run", "--non-interactive", "--provider", "echo", "--model", "m", "--quiet", "hi")
    assert "an echo" in said


@pytest.fixture
def service() -> Iterator[str]:
    """A model service that answers everything with the same words."""

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            delta = {
                "choices": [{"index": 0, "delta": {"role": "assistant", "content": "an echo"}, "finish_reason": None}]
            }
            end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
            rows = "".join(f"data: {json.dumps(row)}\n\n" for row in (delta, end)) + "data: [DONE]\n\n"
            self.send_response(200 if self.path == "/echo" else 404)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(len(rows)))
            self.end_headers()
            self.wfile.write(rows.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_an_agent(copy: Copy) -> None:
    copy.write("agents/poet.md", "---\nname: poet\ndescription: Writes verse.\ntools: Read\n---\nYou write verse.\n")
    assert "Writes verse." in copy.cowork("agents")


def test_a_skill_that_comes_along(copy: Copy) -> None:
    (copy.top / "skills/rhyme").mkdir()
    copy.write("skills/rhyme/SKILL.md", "---\nname: rhyme\ndescription: Finds rhymes.\n---\nFind rhymes.\n")
    assert "Finds rhymes." in copy.cowork("extensions")


def test_a_setting(copy: Copy) -> None:
    old = "    checkpoints: bool = key("
    copy.edit("cowork/config/sections.py", old, f'    shout: bool = key(False, "Say it loud.")\n{old}')
    assert "shout" in copy.cowork("config", "show")
    imports = "from cowork.config.render import example\nfrom settings_page import tables\n"
    shutil.copy(TOP / "tests/config/settings_page.py", copy.top)
    copy.write("example.py", f"{imports}print(example(), tables())\n")
    page = subprocess.run(
        [sys.executable, copy.top / "example.py"], env=copy.env, capture_output=True, text=True
    ).stdout
    assert page.count("Say it loud.") == 2


def test_a_front_end(copy: Copy) -> None:
    copy.write(
        "cowork/frontends/bell.py",
        "class Bell:\n"
        '    """Rings for every event."""\n\n'
        "    def __call__(self, event):\n"
        '        print("ding", event.type, flush=True)\n',
    )
    copy.edit(
        "cowork/app/once.py",
        "    def _output(self) -> Emit:\n",
        "    def _output(self) -> Emit:\n"
        '        if self.options.output == "bell":\n'
        "            from cowork.frontends.bell import Bell\n\n"
        "            return Bell()\n",
    )
    copy.edit("cowork/config/run_options.py", '"json", "stream-json")', '"json", "stream-json", "bell")')
    said = copy.run("--output", "bell", script=["hello"])
    assert "ding prompt.added" in said
    assert "ding run.ended" in said


def test_a_slash_command(copy: Copy) -> None:
    file = "cowork/app/chat/slash_commands.py"
    row = '        Command("clear", '
    copy.edit(file, row, f'        Command("shout", "say it loud", on.shout, "[text]"),\n{row}')
    method = "    async def clear(self, "
    copy.edit(file, method, f"    async def shout(self, rest: str) -> str:\n        return rest.upper()\n\n{method}")
    copy.write("script.json", '["hello"]')
    command = [sys.executable, "-m", "cowork", "--script", str(copy.top / "script.json")]
    with Terminal(command, cwd=copy.work, env=copy.env, columns=100, rows=30) as terminal:
        terminal.wait_for("/help", 30)
        terminal.type("/shout good morning", "<Enter>")
        terminal.wait_for("GOOD MORNING", 30)


def test_something_to_the_status_line(copy: Copy) -> None:
    field, value = "    jobs: int = 0  #", "            jobs=sum("
    copy.edit("cowork/frontends/host.py", field, f'    mood: str = ""\n{field}')
    copy.edit("cowork/app/chat/host.py", value, f'            mood="cheerful",\n{value}')
    row = '        ("jobs", "accent",'
    copy.edit("cowork/frontends/repl/view/status_line.py", row, f'        ("mood", "dim", status.mood),\n{row}')
    copy.write("script.json", '["hello"]')
    command = [sys.executable, "-m", "cowork", "--script", str(copy.top / "script.json")]
    with Terminal(command, cwd=copy.work, env=copy.env, columns=100, rows=30) as terminal:
        terminal.wait_for("cheerful", 30)


def test_a_field_of_the_result(copy: Copy) -> None:
    key, value = '        "model": "",\n', "            warnings=self.warnings,\n"
    copy.edit("cowork/app/result.py", key, f'{key}        "mood": "none",\n')
    copy.edit("cowork/app/run.py", value, f'{value}            mood="cheerful",\n')
    assert json.loads(copy.run("--output", "json", script=["hello"]))["mood"] == "cheerful"
    assert '"mood":"none"' in copy.run("--output", "json", "--max-turns", "no", script=["hello"])


def test_a_file_name_that_means_secrets(copy: Copy) -> None:
    (copy.work / "plans.hush").write_text("the treasure\n")

    def shown() -> list[bool]:
        """Whether a search and a read show what the file holds."""
        calls = {"Grep": {"pattern": "treasure", "output_mode": "content"}}, {"Read": {"file_path": "plans.hush"}}
        said = (copy.run("--output", "stream-json", script=[{"call": call}, "done"]) for call in calls)
        return ["the treasure" in text for text in said]

    assert shown() == [True, True]
    names = "cowork/core/secret_names.py"
    copy.edit(names, r'    r"\.env(?:', r'    r".*\.hush|\.env(?:')
    copy.edit(names, '    ".env",\n', '    ".env",\n    "*.hush",\n')
    assert shown() == [False, False]


def test_a_kind_of_rule(copy: Copy) -> None:
    word = '    "Edit": ("write",),\n'
    copy.edit("cowork/permissions/rules.py", word, f'{word}    "Search": ("search",),\n')
    script = [{"call": {"Grep": {"pattern": "x"}}}, {"say": "done"}]
    assert '"status":"success"' in copy.run("--output", "stream-json", script=script)
    assert "the rule Search denies" in copy.run("--output", "stream-json", "--deny", "Search", script=script)


def test_a_kind_of_extension(copy: Copy) -> None:
    copy.write(
        "cowork/extensions/macros.py",
        "from cowork.core.front_matter import files_below\n\n\n"
        "def macros(folder):\n"
        '    """The files of a place that are macros."""\n'
        '    return [("macro", path, path.stem) for path in files_below(folder / "macros")]\n',
    )
    finder = "cowork/extensions/finder.py"
    skills = '    folders = _children(place.folder / "skills")\n'
    copy.edit(finder, skills, f"    yield from macros(place.folder)\n{skills}")
    copy.edit(
        finder,
        "\n\n\n@frozen\nclass ExtensionFolder",
        "\nfrom cowork.extensions.macros import macros\n\n\n@frozen\nclass ExtensionFolder",
    )
    own = copy.top / "home" / "macros"
    own.mkdir(parents=True)
    (own / "greet.md").write_text("---\ndescription: Says hello.\n---\nSay hello.\n")
    assert "Says hello." in copy.cowork("extensions")


def test_a_kind_of_question_and_something_to_list_for_the_offline_model(copy: Copy) -> None:
    offline = "cowork/providers/offline"
    (copy.work / "a.py").write_text("@shout\ndef hello():\n    pass\n")
    copy.edit(
        f"{offline}/languages.py", "KINDS = {\n", 'KINDS = {\n    "shouts": Declared("shouts?", "@shout", "shout"),\n'
    )
    first = "_TABLE: tuple[tuple[str, Make], ...] = (\n"
    copy.edit(f"{offline}/questions.py", first, f'{first}    (r"^what time\\b", _whole("time", "now")),\n')
    copy.edit(
        f"{offline}/model.py", '    "where": locate.define,\n', '    "where": locate.define,\n    "time": _time,\n'
    )
    copy.edit(
        f"{offline}/model.py",
        "\nPLANS: ",
        "\n\ndef _time(intent: Intent) -> Plan:\n    yield from ()\n    return 'It is late.'\n\n\nPLANS: ",
    )
    asked = ("run", "--non-interactive", "--quiet", "--provider", "offline")
    assert "It is late." in copy.cowork(*asked, "what time is it?")
    assert "1 shout in 1 file" in copy.cowork(*asked, "list the shouts")
