"""llama.cpp's own server, with a model of random weights: the answers mean nothing, the wire is the real one."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cowork.core.blocks import Message, Text, ToolResult, ToolUse
from cowork.core.errors import ProviderError
from cowork.core.ports import Delta, ModelSpec, Reply, Request, ToolSpec
from cowork.providers.open import open_provider
from tests.fakes.command import Command

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / "build" / "llama" / "bin" / "python"
READ = ToolSpec("Read", "Read a file.", {"type": "object", "properties": {"file_path": {"type": "string"}}})
CALL = ToolUse("call_1", "Read", {"file_path": "a.txt"})

pytestmark = pytest.mark.soak_only


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server; it is installed once, where wheels of it are."""
    if not PYTHON.exists():
        subprocess.run([sys.executable, "-m", "venv", str(PYTHON.parents[1])], check=True)
    wanted = ["xllamacpp==0.2.12", "gguf"]
    done = subprocess.run(
        [str(PYTHON), "-m", "pip", "install", "-q", "--only-binary", ":all:", *wanted], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"llama.cpp's server cannot be installed: {done.stderr.strip().splitlines()[-1]}")
    model = tmp_path_factory.mktemp("llama") / "tiny.gguf"
    words = [str(PYTHON), str(ROOT / "tests/wire/llama_server.py"), str(model)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        assert server.stdout
        yield server.stdout.readline().decode().strip()
        server.kill()


def spec(llama: str, provider: str, transport: Any = "direct") -> ModelSpec:
    base = llama if provider == "anthropic" else f"{llama}/v1"
    return ModelSpec(provider, "tiny", base, "none", max_output_tokens=24, transport=transport)


async def heard(spec: ModelSpec, *messages: Message, **rest: Any) -> tuple[str, Reply]:
    """The text as it was streamed, and the reply it ended with."""
    model = open_provider(spec, idle_timeout=60)
    items = [item async for item in model.stream(Request("You are brief.", messages, **rest))]
    await model.aclose()
    reply = items[-1]
    assert isinstance(reply, Reply)
    return "".join(item.text for item in items if isinstance(item, Delta) and item.kind == "text"), reply


def user(text: str) -> Message:
    return Message("user", (Text(text),))


EACH = pytest.mark.parametrize("provider", ["openai-chat", "anthropic"])


@EACH
@pytest.mark.parametrize("transport", ["direct", "sdk"])
async def test_an_answer_streams_and_is_counted(llama: str, provider: str, transport: str) -> None:
    streamed, reply = await heard(spec(llama, provider, transport), user("hi"))
    assert streamed == reply.text
    assert reply.text
    assert reply.stop_reason in ("max_tokens", "end_turn")
    assert 0 < reply.usage.output_tokens <= 24
    assert reply.usage.prompt_tokens > 10
    assert not reply.usage.estimated


@EACH
async def test_a_conversation_with_calls_and_results_goes_on_with_a_call(llama: str, provider: str) -> None:
    """The server holds the model to the form of a call or of a text, and the dice decide which."""
    story = (
        user("read a.txt"),
        Message("assistant", (CALL,)),
        Message("user", (ToolResult("call_1", "content of a"), Text("go on"))),
    )
    wide = replace(spec(llama, provider), max_output_tokens=400)
    for _ in range(12):
        with contextlib.suppress(ProviderError):  # the server breaks off where a text ends at the limit
            _, reply = await heard(wide, *story, tools=(READ,))
            if reply.calls:
                break
    assert {call.name for call in reply.calls} == {"Read"}
    assert [call.malformed for call in reply.calls] == [""]
    assert reply.stop_reason == "tool_use"


@EACH
async def test_too_long_a_conversation_is_known_for_what_it_is(llama: str, provider: str) -> None:
    with pytest.raises(ProviderError) as caught:
        await heard(spec(llama, provider), user("word " * 5_000))
    assert caught.value.kind == "context_overflow"


@EACH
async def test_a_stream_that_is_left_in_the_middle_does_no_harm_to_the_next(llama: str, provider: str) -> None:
    model = open_provider(spec(llama, provider), idle_timeout=60)
    stream = model.stream(Request("", (user("hi"),)))
    await anext(aiter(stream))
    await stream.aclose()  # type: ignore[attr-defined]
    items = [item async for item in model.stream(Request("", (user("hi"),)))]
    assert isinstance(items[-1], Reply)
    await model.aclose()


@EACH
def test_a_run_of_the_command_ends_with_its_answer(llama: str, provider: str, command: Command) -> None:
    base = llama if provider == "anthropic" else f"{llama}/v1"
    env = {"LLM_PROVIDER": provider, "LLM_MODEL_ID": "tiny", "LLM_BASE_URL": base, "LLM_API_KEY": "none"}
    done = command.run("--output", "json", "--tools", "Read", "--max-turns", "1", prompt="hi", env=env)
    result = json.loads(done.out)
    assert result["usage"]["output_tokens"] > 0, done.err
