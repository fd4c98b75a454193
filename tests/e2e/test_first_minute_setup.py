"""Setting up: what is found, what is written, what the doctor says, and the tour."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from cowork.app.onboarding import setup
from tests.e2e.terminal import Terminal
from tests.fakes.command import COWORK, QUIET, Command
from tests.wire.server import Server, say, status

KEY = "sk-ant-planted-secret"


@pytest.fixture
def listing(tmp_path: Path) -> Iterator[int]:
    """A service on this machine that lists models and answers chats, as local servers do."""
    folder = tmp_path / "www"
    folder.mkdir()
    (folder / "serve.py").write_text(LOCAL)
    process = subprocess.Popen([sys.executable, str(folder / "serve.py")], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    port = int(process.stdout.readline())
    yield port
    process.kill()
    process.wait()


LOCAL = """
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        models = {"object": "list", "data": [{"id": "tiny-chat"}, {"id": "tiny-embed"}, {"id": "other-chat"}]}
        self.answer("application/json", json.dumps(models).encode())

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        piece = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "tiny-chat"}
        words = {"role": "assistant", "content": "ok"}
        said = piece | {"choices": [{"index": 0, "delta": words, "finish_reason": None}]}
        end = piece | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        rows = [f"data: {json.dumps(p)}\\n\\n" for p in (said, end)]
        self.answer("text/event-stream", "".join([*rows, "data: [DONE]\\n\\n"]).encode())

    def answer(self, kind, body):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass

server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


async def test_local_servers_are_found_by_their_list_of_models(listing: int) -> None:
    found = await setup.servers([("Ollama", 1), ("llama.cpp", listing)])
    assert [(f.name, f.provider, f.models, f.base_url) for f in found] == [
        ("llama.cpp", "openai-chat", ("tiny-chat", "other-chat"), f"http://127.0.0.1:{listing}/v1")
    ]
    assert await setup.trial(found[0].spec({})) == ""


async def test_a_server_of_another_kind_is_not_taken_for_one() -> None:
    for said in (b'HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{"hello":1}', b"220 mail.example.org ready\r\n", b""):
        server = await asyncio.start_server(answering(said), "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            assert await setup.server(f"http://127.0.0.1:{port}") is None


def answering(said: bytes) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        writer.close()

    return answer


async def test_a_trial_says_what_is_wrong_in_words() -> None:
    with Server([status(401)]) as server:
        found = setup.FoundService("x", "anthropic", ("claude-x",), base_url=server.url("anthropic"), key_env="K")
        problem = await setup.trial(found.spec({"K": KEY}))
    assert problem
    assert KEY not in problem
    gone = setup.FoundService("x", "openai-chat", ("m",), base_url="http://127.0.0.1:9/v1")
    assert await setup.trial(gone.spec({}))


def test_init_finds_tries_and_writes_a_local_server_which_the_next_run_uses(command: Command, listing: int) -> None:
    done = command.cowork("config", "init", "--url", f"127.0.0.1:{listing}", "--model", "other-chat")
    assert done.code == 0, done.err
    assert f"model: other-chat (127.0.0.1:{listing} at http://127.0.0.1:{listing}/v1); it answers" in done.out
    written = tomllib.loads((command.home / ".config/cowork/config.toml").read_text())["models"]["main"]
    assert written == {
        "provider": "openai-chat",
        "model": "other-chat",
        "base_url": f"http://127.0.0.1:{listing}/v1",
    }
    ran = command.run(prompt="hello")
    assert (ran.code, ran.out) == (0, "ok\n")
    assert "offline" not in ran.err
    checked = command.cowork("doctor")
    assert f"✓ endpoint    127.0.0.1:{listing} answers" in checked.out


def test_init_says_when_there_is_nothing_there(command: Command) -> None:
    done = command.cowork("config", "init", "--url", "http://127.0.0.1:9")
    assert done.code == 2
    assert "No OpenAI-compatible server answers at http://127.0.0.1:9" in done.err
    assert not (command.home / ".config/cowork/config.toml").exists()


def test_the_doctor_gives_a_line_for_everything_and_never_shows_a_key(command: Command) -> None:
    with Server([]) as server:
        env = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url("anthropic")}
        done = command.cowork("doctor", env=env)
    names = [line.split()[1] for line in done.out.splitlines()]
    assert names[:3] == ["python", "cowork", "config"]
    assert {"model", "endpoint", "ripgrep", "git", "trust", "sandbox", "terminal", "sessions"} <= set(names)
    assert done.code == 0, done.out
    assert "ANTHROPIC_API_KEY is set" in done.out
    assert KEY not in done.out + done.err


def test_what_is_broken_is_marked_with_its_fix_and_the_exit_code(command: Command) -> None:
    command.configure('[models.main]\nprovider = "openai-chat"\nmodel = "m"\nbase_url = "http://127.0.0.1:9/v1"\n')
    done = command.cowork("doctor", "--json")
    report = json.loads(done.out)
    assert (done.code, report["ok"]) == (1, False)
    (bad,) = [c for c in report["checks"] if c["state"] == "bad"]
    assert (bad["name"], bad["fix"]) == ("endpoint", "Start the server, or change base_url.")
    command.configure("nonsense = 1\n")
    done = command.cowork("doctor")
    assert done.code == 1
    assert any(line.startswith("✗ config") for line in done.out.splitlines())


def test_a_stored_session_can_be_examined(command: Command) -> None:
    session = command.run("--output", "json", "--provider", "offline", prompt="hello").result["session_id"]
    done = command.cowork("doctor", "--session", session[:6])
    assert (done.code, "nothing is missing" in done.out) == (0, True)
    (log,) = (command.home / ".local/state/cowork/sessions").glob("*/events.jsonl")
    log.write_bytes(log.read_bytes()[:-40])
    assert "!" in command.cowork("doctor", "--session", session).out
    assert command.cowork("doctor", "--session", "zzzz").code == 2


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    """Where the demo makes its scratch folder; empty before, and to be empty afterwards."""
    (tmp_path / "tmp").mkdir()
    return tmp_path / "tmp"


def test_the_demo_plays_without_a_terminal_and_leaves_nothing(command: Command, temporary: Path) -> None:
    done = command.cowork("demo", timeout=110, env={"TMPDIR": str(temporary)})
    assert done.code == 0, done.out + done.err
    for piece in (
        "✓ explore-1  guest checkout",
        "Allow Edit?",
        "Ran 2 tests",
        "Both tests pass",
        "went back",
        "That was the tour",
    ):
        assert piece in done.out, piece
    assert "\x1b" not in done.out
    assert list(temporary.iterdir()) == []
    assert list(command.home.iterdir()) == []


@pytest.mark.parametrize("pace", ["nan", "inf", "-1", "0"])
def test_the_demo_takes_no_pace_that_is_none(command: Command, pace: str) -> None:
    done = command.cowork("demo", "--pace", pace)
    assert (done.code, done.out) == (2, "")
    assert "0.1" in done.err


def test_the_demo_shows_live_panels_in_a_terminal_and_ends_by_itself(tmp_path: Path, temporary: Path) -> None:
    env = {"HOME": str(tmp_path), "TMPDIR": str(temporary)}
    with Terminal([str(COWORK), "demo", "--pace", "0.3"], columns=100, rows=34, env=env, cwd=tmp_path) as terminal:
        terminal.wait_for_pattern(r"explore-2 +refund service .* light", 30)
        terminal.wait_for("┃ Allow Edit?", 60)
        terminal.wait_for("Both tests pass", 40)
        terminal.wait_for("1 file restored", 40)
        terminal.wait_for("The agent changed nothing", 40)
        terminal.wait_for("That was the tour", 60)
        assert terminal.wait_exit(20) == 0
    assert list(temporary.iterdir()) == []


def test_the_demo_plays_line_by_line_in_a_terminal_that_cannot_move_its_cursor(tmp_path: Path, temporary: Path) -> None:
    env = {"HOME": str(tmp_path), "TMPDIR": str(temporary), "TERM": "unknown"}
    with Terminal([str(COWORK), "demo"], columns=100, rows=34, env=env, cwd=tmp_path) as terminal:
        terminal.wait_for("That was the tour", 60)
        assert terminal.wait_exit(20) == 0


def test_the_chat_opens_on_the_offline_model_and_says_so(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), **QUIET}
    with Terminal([str(COWORK)], columns=110, rows=30, env=env, cwd=tmp_path, forked=False) as terminal:
        terminal.wait_for("/help", 20)
        terminal.wait_for("no model key found: running on the built-in offline model", 10)
        terminal.type("/doctor", "<Enter>")
        terminal.wait_for("ripgrep", 20)
        terminal.type("/model", "<Enter>")
        terminal.wait_for("offline", 20)
        terminal.type("/exit", "<Enter>")
        assert terminal.wait_exit(20) == 0


RING = """
import json, os, pathlib

FILE = pathlib.Path(os.environ["HOME"]) / "ring.json"

def _all():
    return json.loads(FILE.read_text()) if FILE.exists() else {}

def get_password(service, name):
    return _all().get(f"{service}/{name}")

def set_password(service, name, key):
    FILE.write_text(json.dumps(_all() | {f"{service}/{name}": key}))

def delete_password(service, name):
    kept = _all()
    del kept[f"{service}/{name}"]
    FILE.write_text(json.dumps(kept))
"""


def test_a_key_can_live_in_the_keyring_and_is_nowhere_else(command: Command) -> None:
    package = command.home / "packages"
    package.mkdir()
    (package / "keyring.py").write_text(RING)
    ring = {"PYTHONPATH": str(package)}
    assert command.cowork("config", "key", "ANTHROPIC_API_KEY", stdin=f"{KEY}\n", env=ring).code == 0
    assert command.cowork("config", "init", env=ring).code == 0
    file = command.home / ".config/cowork/config.toml"
    assert 'api_key_env = "ANTHROPIC_API_KEY"' in file.read_text()
    assert KEY not in file.read_text()
    with Server([say("hi")]) as server:
        ran = command.run(env=ring | {"ANTHROPIC_BASE_URL": server.url("anthropic")})
        assert (ran.code, ran.out) == (0, "hi\n")
        assert server.requests[0].headers["x-api-key"] == KEY
        checked = command.cowork("doctor", env=ring | {"ANTHROPIC_BASE_URL": server.url("anthropic")})
    assert "the key is in the keyring" in checked.out
    assert KEY not in checked.out + ran.err
    assert command.cowork("config", "key", "ANTHROPIC_API_KEY", "--forget", env=ring).code == 0
    assert command.run(env=ring).code == 3


def test_without_a_keyring_the_command_says_what_to_install(command: Command) -> None:
    done = command.cowork("config", "key", "X_KEY", stdin="k\n", env={"PYTHONPATH": ""})
    if "in the keyring" in done.out:
        pytest.skip("a keyring is installed here")
    assert done.code == 2
    assert "cowork[keyring]" in done.err or "keyring refused" in done.err


def test_a_demo_that_is_ended_early_leaves_nothing_either(tmp_path: Path, temporary: Path) -> None:
    env = {"HOME": str(tmp_path), "TMPDIR": str(temporary)}
    with Terminal([str(COWORK), "demo"], columns=100, rows=34, env=env, cwd=tmp_path) as terminal:
        terminal.wait_for_pattern(r"explore-2 +refund service .* light", 30)
        terminal.type("<Ctrl+C>")
        terminal.wait_for("nterrupted", 20)
        terminal.type("<Ctrl+C>", "<Ctrl+C>")
        assert terminal.wait_exit(40) in (0, 130)
    process = subprocess.Popen(
        [str(COWORK), "demo"],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env=os.environ | env,
    )
    assert process.stdout
    process.stdout.readline()
    process.terminate()
    assert process.wait(30) == 143
    process.stdout.close()
    assert list(temporary.iterdir()) == []
