"""What is known of models by their names: window, output limit, and how they are told to think."""

from __future__ import annotations

import re
from typing import Literal

from cowork.core.frozen import frozen

ThinkingStyle = Literal[
    "none",  # cannot think, or nothing is known of it
    "budget",  # a number of tokens
    "adaptive",  # how much is the model's choice, guided by an effort
    "always",  # adaptive, and cannot be told not to
    "effort",  # reasoning effort in words
]


@frozen
class Known:
    """What a model takes. `output` is its limit, not what a request asks for by default."""

    window: int = 128_000
    output: int = 8_192
    thinking: ThinkingStyle = "none"
    echo_reasoning: bool = False  # wants its reasoning back while a tool loop runs


_K, _M = 1_000, 1_000_000
_MODELS: dict[str, Known] = {
    prefix: known
    for prefixes, known in {
        "claude-": Known(200 * _K, 8_192),
        "claude-3-7 claude-opus-4-5 claude-sonnet-4 claude-haiku-4": Known(200 * _K, 64 * _K, "budget"),
        "claude-opus-4": Known(200 * _K, 32 * _K, "budget"),
        "claude-opus-4-6 claude-opus-4-7 claude-opus-4-8": Known(200 * _K, 128 * _K, "adaptive"),
        "claude-sonnet-4-6": Known(200 * _K, 64 * _K, "adaptive"),
        "claude-opus-5 claude-sonnet-5 claude-haiku-5": Known(_M, 128 * _K, "adaptive"),
        "claude-opus-5-5 claude-fable claude-mythos": Known(_M, 128 * _K, "always"),
        "gpt-3.5": Known(16_385, 4_096),
        "gpt-4": Known(8_192, 4_096),
        "gpt-4-turbo": Known(128 * _K, 4_096),
        "gpt-4o gpt-5-chat": Known(128 * _K, 16_384),
        "gpt-4.1": Known(1_047_576, 32_768),
        "gpt-5 gpt-5.4-mini gpt-5.4-nano codex-": Known(400 * _K, 128 * _K, "effort"),
        "gpt-5.4 gpt-5.5 gpt-5.6 gpt-6": Known(1_050_000, 128 * _K, "effort"),
        "gpt-oss": Known(128 * _K, 32 * _K, "effort"),
        "o1 o3 o4": Known(200 * _K, 100 * _K, "effort"),
        "deepseek": Known(128 * _K, 8_192, echo_reasoning=True),
        "kimi": Known(256 * _K, 32 * _K, echo_reasoning=True),
        "gemini": Known(1_048_576, 65_536, "effort"),
        "glm minimax": Known(200 * _K, 32 * _K),
        "grok qwen3": Known(256 * _K, 32 * _K),
        "qwen2.5": Known(32_768, 8_192),
        "devstral": Known(128 * _K, 32 * _K),
        "mistral": Known(128 * _K, 16 * _K),
        "codestral": Known(256 * _K, 16 * _K),
        "llama3": Known(8_192, 4_096),
        "llama-3 llama3.": Known(128 * _K, 8_192),
    }.items()
    for prefix in prefixes.split()
}
_DEFAULT_OUTPUT = 32_000  # enough for a large file; more only makes a run-away answer dearer
# us.anthropic.claude-…-v1:0 on Bedrock, vendor/model on routers
_VENDOR = re.compile(r"^(?:.*/)?(?:[a-z]{2,6}\.)?(?:anthropic\.|openai\.)?")


def known(model: str) -> Known:
    """What is known of a model, by the longest prefix of its name; sensible figures otherwise."""
    name = _VENDOR.sub("", model.lower(), count=1)
    best = max((prefix for prefix in _MODELS if name.startswith(prefix)), key=len, default="")
    return _MODELS.get(best) or Known()


def default_output(model: str) -> int:
    """The output limit a request asks for when nobody says."""
    return min(known(model).output, _DEFAULT_OUTPUT)
