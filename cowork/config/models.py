"""From settings and environment to the model that is meant: which service, which name, which key, and why."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from typing import Any

from cowork.core.errors import UserError
from cowork.core.later import later
from cowork.core.ports import ModelSpec

with later(__name__):
    from urllib.parse import urlsplit

    from cowork.config import keyring

Values = dict[str, Any]

_FIELDS = {  # of LLM_API_KEY the name is kept, never its value
    "LLM_PROVIDER": "provider", "LLM_MODEL_ID": "model", "LLM_BASE_URL": "base_url", "LLM_API_KEY": "api_key_env",
}  # fmt: skip
ENVIRONMENT = {name: f"models.main.{field}" for name, field in _FIELDS.items()}
ENVIRONMENT |= {f"LIGHT_{name}": f"models.light.{field}" for name, field in _FIELDS.items()}

DEFAULT_MODELS: dict[str, tuple[str, str]] = {  # provider -> main, light
    "anthropic": ("claude-sonnet-5-5", "claude-haiku-5-5"),
    "openai": ("gpt-6-sol", "gpt-6-luna"),
    "offline": ("offline", "offline"),
    "scripted": ("scripted", "scripted"),
}

_VENDOR = {"anthropic": "ANTHROPIC", "openai": "OPENAI", "openai-chat": "OPENAI"}
_FAMILY = re.compile(r"(?P<anthropic>claude-)|(?P<openai>gpt-|chatgpt-|o\d)")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_KEYLESS = ("offline", "scripted")
_HOST = ("base_url", "api_key_env", "headers")


def settle(main: Values, light: Values, environ: Mapping[str, str]) -> dict[str, str]:
    """Fill in what nobody set, in place; gives the origin of every value it chose."""
    chosen: dict[str, str] = {}
    _settle_one(main, environ, chosen, "models.main", 0)
    if light["provider"] or light["model"] or light["base_url"]:
        _inherit(light, main, chosen)
    elif main["model"] == DEFAULT_MODELS.get(main["provider"], ("",))[0] and "models.main.model" in chosen:
        _inherit(light, main, chosen)
        light["model"] = DEFAULT_MODELS[main["provider"]][1]
        chosen["models.light.model"] = f"default of {main['provider']}"
    else:
        return chosen  # light is not configured
    _settle_one(light, environ, chosen, "models.light", 1)
    return chosen


def for_name(main: Values, name: str, environ: Mapping[str, str]) -> Values:
    """The main model's settings with another name; a name that only another vendor has goes to that vendor."""
    values = main | {"model": name}
    family = vendor_of(name)
    own_host = not main["base_url"] and not main["client"] and main["provider"] in ("anthropic", "openai", "offline")
    if not family or family == main["provider"] or not own_host:
        return values
    values |= {"provider": family, "api_key_env": "", "headers": {}}
    _settle_one(values, environ, {}, "", 0)
    return values


def _without_secrets(url: str) -> str:
    """An address without its password and query, for people."""
    host, _, path = url.partition("?")[0].partition("://")[2].partition("/")
    shown = f"{host.rpartition('@')[2]}/{path}".rstrip("/")
    return f"{url.partition('://')[0]}://{shown}" if host else ""


def spec_of(values: Values, role: str, environ: Mapping[str, str], prices: Mapping[str, float] | None) -> ModelSpec:
    """The settings as the providers take them, key included; complains when something needed is missing."""
    provider = values["provider"]
    if not values["model"]:
        hint = f"Set models.{role}.model in the config file, LLM_MODEL_ID, or --model."
        raise UserError(f"no model is named for {_without_secrets(values['base_url']) or provider}", hint)
    base_url = _expand(values["base_url"], environ)
    check_address(base_url, f"models.{role}.base_url")
    same = ("provider", "model", "context_window", "max_output_tokens", "thinking", "transport")
    return ModelSpec(
        **{name: values[name] for name in same},
        base_url=base_url,
        api_key=_key(values, environ),
        headers={name: _expand(value, environ) for name, value in values["headers"].items()},
        options={name: values[name] for name in ("script", "client") if values[name]},
        prices=prices,
    )


def check_address(url: str, name: str) -> None:
    """Raise UserError for an address of a model that cannot be read; `name` is its setting."""
    with contextlib.suppress(ValueError):
        parts = urlsplit(url)
        if not url or (parts.hostname and parts.port != 0):
            return
    raise UserError(f"{name} is not an address", "Look at its host, its port and its brackets.")


def vendor_of(model: str) -> str:
    """The provider a model's name tells of, else nothing."""
    found = _FAMILY.match(model)
    return found.lastgroup or "" if found else ""


def _settle_one(values: Values, environ: Mapping[str, str], chosen: dict[str, str], table: str, role: int) -> None:
    if not values["provider"]:
        values["provider"], why = _detect(values, environ)
        chosen[f"{table}.provider"] = why
    values["transport"] = "sdk" if values["client"] else values["transport"] or "direct"
    provider = values["provider"]
    vendor = _VENDOR.get(provider)
    if vendor and not values["client"]:  # a cloud has keys of its own, and other names for the models
        for field, name in (("base_url", f"{vendor}_BASE_URL"), ("api_key_env", f"{vendor}_API_KEY")):
            if not values[field] and environ.get(name):
                values[field] = environ[name] if field == "base_url" else name
                chosen[f"{table}.{field}"] = f"environment {name}"
    if not values["model"] and not values["client"] and provider in DEFAULT_MODELS:
        values["model"] = DEFAULT_MODELS[provider][role]
        chosen[f"{table}.model"] = f"default of {provider}"


def _detect(values: Values, environ: Mapping[str, str]) -> tuple[str, str]:
    """(provider, why) from what is set, strongest sign first."""
    if values["script"]:
        return "scripted", "a script is set"
    family = vendor_of(values["model"])
    if values["client"]:
        return ("openai" if values["client"] == "azure" and family != "anthropic" else "anthropic"), "the client is set"
    if values["base_url"]:
        if family == "anthropic" or "anthropic" in values["base_url"]:
            return "anthropic", "the base URL or model is Anthropic's"
        return "openai-chat", "what most services at a base URL speak"
    if family:
        return family, f"the model is {values['model']}"
    if name := values["api_key_env"]:
        anthropic = environ.get(name, "").startswith("sk-ant-") or name == "ANTHROPIC_API_KEY"
        return ("anthropic" if anthropic else "openai"), f"{name} is set"
    if environ.get("ANTHROPIC_API_KEY"):
        return "anthropic", "ANTHROPIC_API_KEY is set"
    if url := environ.get("OPENAI_BASE_URL"):
        official = re.match(r"https://api\.openai\.com(/|$)", url)
        return ("openai" if official else "openai-chat"), "OPENAI_BASE_URL is set"
    if environ.get("OPENAI_API_KEY"):
        return "openai", "OPENAI_API_KEY is set"
    kept = [name for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY") if name in keyring.read_file(environ)]
    return (kept[0].split("_")[0].lower(), f"/login kept {kept[0]}") if kept else ("offline", "no key was found")


def _inherit(light: Values, main: Values, chosen: dict[str, str]) -> None:
    """What light leaves open is as in main, but a key is not handed to a host that main does not use."""
    if not light["provider"]:
        light["provider"] = main["provider"]
        chosen["models.light.provider"] = "as models.main"
    if light["provider"] != main["provider"]:
        return
    own_host = bool(light["base_url"]) and light["base_url"] != main["base_url"]
    for field in ("script", "model", "transport", "client", *(() if own_host else _HOST)):
        if not light[field] and main[field]:
            light[field] = main[field]
            chosen[f"models.light.{field}"] = "as models.main"


def _key(values: Values, environ: Mapping[str, str]) -> str:
    provider, name = values["provider"], values["api_key_env"]
    if provider in _KEYLESS:
        return ""
    key = environ.get(name, "").strip() if name else ""
    # A server of the user's own, or a vendor's client with its own ways, may need no key.
    if key or (values["base_url"] and not name) or values["transport"] == "sdk":
        return key
    wanted = name or f"{_VENDOR[provider]}_API_KEY"
    if kept := keyring.read(wanted, environ):
        return kept
    hint = f"export {wanted}=…  or name another variable in models.main.api_key_env"
    raise UserError(f"no key for {provider}: {wanted} is not set", hint, exit_code=3)


def _expand(text: str, environ: Mapping[str, str]) -> str:
    for name in _VARIABLE.findall(text):
        if name not in environ:
            raise UserError(f"config: ${{{name}}} is used but the environment has no {name}")
    return _VARIABLE.sub(lambda found: environ[found[1]], text)
