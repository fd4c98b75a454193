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
class ModelFacts:
    """What a model takes. `output` is its limit, not what a request asks for by default."""

    window: int = 128_000
    output: int = 8_192
    thinking: ThinkingStyle = "none"
    echo_reasoning: bool = False  # wants its reasoning back while a tool loop runs


_K, _M = 1_000, 1_000_000
_MODELS: dict[str, ModelFacts] = {
    prefix: facts
    for prefixes, facts in {
        "claude-": ModelFacts(200 * _K, 8_192),
        "claude-3-7 claude-opus-4-5 claude-sonnet-4 claude-haiku-4": ModelFacts(200 * _K, 64 * _K, "budget"),
        "claude-opus-4": ModelFacts(200 * _K, 32 * _K, "budget"),
        "claude-opus-4-6 claude-opus-4-7 claude-opus-4-8": ModelFacts(200 * _K, 128 * _K, "adaptive"),
        "claude-sonnet-4-6": ModelFacts(200 * _K, 64 * _K, "adaptive"),
        "claude-opus-5 claude-sonnet-5 claude-haiku-5": ModelFacts(_M, 128 * _K, "adaptive"),
        "claude-opus-5-5 claude-fable claude-mythos": ModelFacts(_M, 128 * _K, "always"),
        "gpt-3.5": ModelFacts(16_385, 4_096),
        "gpt-4": ModelFacts(8_192, 4_096),
        "gpt-4-turbo": ModelFacts(128 * _K, 4_096),
        "gpt-4o gpt-5-chat": ModelFacts(128 * _K, 16_384),
        "gpt-4.1": ModelFacts(1_047_576, 32_768),
        "gpt-5 gpt-5.4-mini gpt-5.4-nano codex-": ModelFacts(400 * _K, 128 * _K, "effort"),
        "gpt-5.4 gpt-5.5 gpt-5.6 gpt-6": ModelFacts(1_050_000, 128 * _K, "effort"),
        "gpt-oss": ModelFacts(128 * _K, 32 * _K, "effort"),
        "o1 o3 o4": ModelFacts(200 * _K, 100 * _K, "effort"),
        "deepseek": ModelFacts(128 * _K, 8_192, echo_reasoning=True),
        "kimi": ModelFacts(256 * _K, 32 * _K, echo_reasoning=True),
        "gemini": ModelFacts(1_048_576, 65_536, "effort"),
        "glm minimax": ModelFacts(200 * _K, 32 * _K),
        "grok qwen3": ModelFacts(256 * _K, 32 * _K),
        "qwen2.5": ModelFacts(32_768, 8_192),
        "devstral": ModelFacts(128 * _K, 32 * _K),
        "mistral": ModelFacts(128 * _K, 16 * _K),
        "codestral": ModelFacts(256 * _K, 16 * _K),
        "llama3": ModelFacts(8_192, 4_096),
        "llama-3 llama3.": ModelFacts(128 * _K, 8_192),
    }.items()
    for prefix in prefixes.split()
}
_DEFAULT_OUTPUT = 32_000  # enough for a large file; more only makes a run-away answer dearer
# us.anthropic.claude-…-v1:0 on Bedrock, vendor/model on routers
_VENDOR = re.compile(r"^(?:.*/)?(?:[a-z]{2,6}\.)?(?:anthropic\.|openai\.)?")


def facts_of(model: str) -> ModelFacts:
    """What is known of a model, by the longest prefix of its name; sensible figures otherwise."""
    name = _VENDOR.sub("", model.lower(), count=1)
    best = max((prefix for prefix in _MODELS if name.startswith(prefix)), key=len, default="")
    return _MODELS.get(best) or ModelFacts()


def default_output(model: str) -> int:
    """The output limit a request asks for when nobody says."""
    return min(facts_of(model).output, _DEFAULT_OUTPUT)
