"""Finding a model to run on: keys in the environment, servers on this machine; a trial; the settings for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from urllib.parse import urlsplit

from cowork.config import keyring
from cowork.config.models import DEFAULT_MODELS
from cowork.core.blocks import Message, Text, as_object
from cowork.core.errors import ProviderError, UserError
from cowork.core.frozen import frozen
from cowork.core.ports import ModelSpec, Reply, Request
from cowork.http.client import HttpClient
from cowork.http.errors import HttpError
from cowork.providers.open import open_provider

SERVERS = (("Ollama", 11434), ("LM Studio", 1234), ("llama.cpp", 8080), ("vLLM", 8000))
VENDORS = {"anthropic": ("Anthropic", "ANTHROPIC_API_KEY"), "openai": ("OpenAI", "OPENAI_API_KEY")}
NOTHING_FOUND = (
    "No key (ANTHROPIC_API_KEY, OPENAI_API_KEY) is set and no local server answers: I looked for "
    f"{', '.join(f'{name} ({port})' for name, port in SERVERS)}. Set a key or start a server, then `/model` again."
)
LOOK_SECONDS = 1.5
TRIAL_SECONDS = 60.0
_MOST_BYTES = 1 << 20
_NOT_FOR_CHAT = ("embed", "rerank", "whisper", "tts", "clip")


@frozen
class FoundService:
    """A service that could be used: a vendor whose key is set, or a server that answered."""

    name: str
    provider: str
    models: tuple[str, ...]
    base_url: str = ""
    key_env: str = ""

    @property
    def line(self) -> str:
        """What it is and how it was found."""
        how = f"by the key in {self.key_env}" if self.key_env else f"answers at {self.base_url}"
        return f"{self.name} ({how}): {', '.join(self.models[:6]) or 'no models'}"

    def settings(self, model: str = "") -> dict[str, str]:
        """What goes into the settings file; the name of the key's variable, never the key."""
        wanted = {"main": model or next(iter(self.models), "")}
        if not model and not self.base_url and len(self.models) > 1:
            wanted["light"] = self.models[1]
        place = ("base_url", self.base_url) if self.base_url else ("api_key_env", self.key_env)
        rows = {role: (("provider", self.provider), ("model", name), place) for role, name in wanted.items()}
        return {f"models.{role}.{key}": value for role, row in rows.items() for key, value in row}

    def variables(self, model: str) -> dict[str, str]:
        """The environment that stands for this choice, for a run that stores nothing."""
        given = {"LLM_PROVIDER": self.provider, "LLM_MODEL_ID": model}
        return given | ({"LLM_BASE_URL": self.base_url} if self.base_url else {})

    def spec(self, environ: Mapping[str, str], model: str = "") -> ModelSpec:
        name, key = model or next(iter(self.models), ""), _key(self.key_env, environ)
        return ModelSpec(self.provider, name, base_url=self.base_url, api_key=key)


async def servers(places: Sequence[tuple[str, int]]) -> list[FoundService]:
    """Servers on this machine that list models, asked all at once."""
    looks = (server(f"http://127.0.0.1:{port}", name) for name, port in places)
    return [found for found in await asyncio.gather(*looks, return_exceptions=True) if isinstance(found, FoundService)]


async def server(url: str, name: str = "") -> FoundService | None:
    """The server at a URL, if it lists models as OpenAI-compatible ones do; one that wants a key is a UserError."""
    base = (url if "://" in url else f"http://{url}").rstrip("/")
    base = base if base.endswith("/v1") else f"{base}/v1"
    try:
        listed = json.loads(await asyncio.wait_for(_get(f"{base}/models"), LOOK_SECONDS))
    except (OSError, EOFError, ValueError, HttpError, ProviderError):
        return None
    rows = as_object(listed).get("data")
    if not isinstance(rows, list):
        return None
    ids = [str(row["id"]) for row in rows if isinstance(row, dict) and row.get("id")]
    models = tuple(id for id in ids if not any(word in id.lower() for word in _NOT_FOR_CHAT))
    return FoundService(name or urlsplit(base).netloc, "openai-chat", models, base_url=base)


async def find(environ: Mapping[str, str]) -> list[FoundService]:
    """Everything there is to choose from: vendors whose key is in the environment or the keyring, then servers."""
    vendors = [
        FoundService(name, provider, DEFAULT_MODELS[provider], key_env=variable)
        for provider, (name, variable) in VENDORS.items()
        if _key(variable, environ)
    ]
    return [*vendors, *await servers(ports(environ))]


def ports(environ: Mapping[str, str]) -> Sequence[tuple[str, int]]:
    """Where servers on this machine are looked for: the usual ports, or those that COWORK_LOCAL_PORTS lists."""
    given = environ.get("COWORK_LOCAL_PORTS")
    if given is None:
        return SERVERS
    names = {port: name for name, port in SERVERS}
    numbers = [int(word) for word in given.split(",") if word.strip().isdigit()]
    return [(names.get(port, f"port {port}"), port) for port in numbers if 0 < port < 65_536]


def choices(found: Sequence[FoundService]) -> list[tuple[FoundService, str]]:
    """Every model one can choose, in the order they are numbered."""
    return [(service, model) for service in found for model in service.models]


async def trial(spec: ModelSpec) -> str:
    """One small request; empty when the model answered, else what went wrong."""
    provider = open_provider(spec)
    ask = Request("Answer with one word.", (Message("user", (Text("Say ok."),)),), max_output_tokens=16)
    try:
        async with asyncio.timeout(TRIAL_SECONDS):
            async for item in provider.stream(ask):
                if isinstance(item, Reply):
                    return ""
    except (ProviderError, UserError) as error:
        return error.message
    except TimeoutError:
        return f"no answer within {TRIAL_SECONDS:.0f} s"
    finally:
        await provider.aclose()
    return "the answer ended early"


def _key(variable: str, environ: Mapping[str, str]) -> str:
    """From the environment, else from the keyring."""
    return environ.get(variable, "").strip() or keyring.read(variable, environ)


async def _get(url: str) -> bytes:
    """The body of a plain GET on this machine or a host the user named; bounded."""
    client = HttpClient(url, connect_timeout=LOOK_SECONDS)
    with closing(await client.send("GET", {"accept": "application/json", "connection": "close"})) as response:
        if response.status in (401, 403):
            raise UserError(
                f"The server at {url} wants a key ({response.status}).",
                "Put the key into a variable and name it in the settings, beside base_url and model: "
                "models.main.api_key_env.",
            )
        if response.status != 200:
            raise ValueError(f"status {response.status}")
        return await response.start_of(_MOST_BYTES)
