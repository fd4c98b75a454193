"""A LiteLLM proxy between the command and the loopback service: the three formats as a real router passes them on."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.command import Command
from tests.wire.server import Seen, Server, Turn, call, say, turn

BUILD = Path(__file__).parents[2] / "build" / "litellm"
MODELS = {"openai-chat": "chat", "openai": "chat", "anthropic": "claude"}

pytestmark = pytest.mark.soak_only


def answer(seen: Seen) -> Turn:
    """A call of Read first, then what it found."""
    return say("It says hello.") if "hello from a" in json.dumps(seen.body) else turn(call("Read", file_path="a.txt"))


@pytest.fixture(scope="module")
def upstream() -> Iterator[Server]:
    with Server(answer) as server:
        yield server


@pytest.fixture(scope="module")
def proxy(upstream: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a proxy; it is installed once, where wheels of it are."""
    program = BUILD / "bin" / "litellm"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", str(BUILD)], check=True)
        subprocess.run(
            [str(BUILD / "bin" / "pip"), "install", "-q", "uv"], check=True
        )  # pip tries versions for minutes
        words = ["pip", "install", "-q", "--python", str(BUILD), "--only-binary", ":all:", "litellm[proxy]"]
        done = subprocess.run([str(BUILD / "bin" / "uv"), *words], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"LiteLLM cannot be installed: {done.stderr.strip().splitlines()[-1]}")
    routes = {"chat": ("openai/test-model", "openai"), "claude": ("anthropic/claude-sonnet-4-5", "anthropic")}
    models = [
        {"model_name": name, "litellm_params": {"model": model, "api_base": upstream.url(format), "api_key": "k"}}
        for name, (model, format) in routes.items()
    ]
    folder = tmp_path_factory.mktemp("litellm")
    config = folder / "config.yaml"
    config.write_text(json.dumps({"model_list": models, "general_settings": {"master_key": "sk-proxy"}}))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    env = {"PATH": f"{BUILD}/bin:/usr/bin:/bin", "HOME": str(folder), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    words = [str(program), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    with (folder / "log").open("wb") as log, subprocess.Popen(words, stdout=log, stderr=log, env=env) as server:
        wait_for(f"http://127.0.0.1:{port}/health/liveliness", server, folder / "log")
        yield f"http://127.0.0.1:{port}"
        server.terminate()


def wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    """Until it answers; its own words where it does not."""
    for _ in range(1_200):
        assert server.poll() is None, log.read_text()[-2_000:]
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.1)  # nothing tells when it listens
    raise AssertionError(log.read_text()[-2_000:])


@pytest.mark.parametrize("format", list(MODELS))
def test_calls_results_and_usage_come_through(format: str, proxy: str, upstream: Server, command: Command) -> None:
    (command.folder / "a.txt").write_text("hello from a\n")
    before = len(upstream.requests)
    env = {
        "LLM_PROVIDER": format,
        "LLM_MODEL_ID": MODELS[format],
        "LLM_API_KEY": "sk-proxy",
        "LLM_BASE_URL": proxy if format == "anthropic" else f"{proxy}/v1",
    }
    done = command.run("--output", "json", "--tools", "Read,Grep", prompt="what does a.txt say?", env=env)
    assert (done.code, done.result["result"]) == (0, "It says hello."), done.err
    assert done.result["num_turns"] == 2
    assert done.result["usage"]["output_tokens"] > 0
    assert [seen.violations for seen in upstream.requests[before:]] == [[], []]
