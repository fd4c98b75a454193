"""The table of settings as people read it: the example file, the reference page, `config show`."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

from cowork.config.key import Key, Section, show
from cowork.config.load import Config
from cowork.config.sections import KEYS, PRICES, SECTIONS
from cowork.core.hygiene import has_password

_PROJECT_WORDS = {
    "never": "no",
    "lower": "only lower",
    "off": "only false",
    "stricter": "only stricter",
    "add": "may add",
    "narrow": "may narrow",
    "free": "yes",
}


def example() -> str:
    """config.example.toml: every key with its default."""
    head = (
        "# cowork settings. Every key is here with its default: keep what you change, drop the rest.\n"
        "# Yours: ~/.config/cowork/config.toml (or $COWORK_HOME/config.toml). A project's: .cowork/config.toml, which\n"
        "# may only tighten. `cowork config show` tells where each value comes from. Keys of services never go into\n"
        "# a file: name the environment variable that holds one in api_key_env.\n"
    )
    return head + "".join(_example_section(section) for section in SECTIONS) + _example_pricing()


def starter(chosen: dict[str, str]) -> str:
    """What `config init` writes: `chosen` is set, everything else waits as a comment."""
    lines = []
    table = ""
    for line in example().splitlines():
        name, equals, _ = line.partition(" = ")
        if line.startswith("["):
            table = line.strip("[]")
            lines.append(line)
        elif equals and not line.startswith("#"):
            value = chosen.get(f"{table}.{name}")
            lines.append(f"# {line}" if value is None else f"{name} = {show(value)}")
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


def reference() -> str:
    """docs/reference/configuration.md."""
    parts = [_REFERENCE_HEAD]
    for section in SECTIONS:
        parts.append(f"\n## [{section.table}]\n\n{_doc(section)}\n\n{_TABLE_HEAD}")
        parts.extend(_reference_row(key) for key in section.fields)
    parts.append(
        '\n## [pricing."model"]\n\nYour own prices in USD per million tokens; they replace the built-in ones.\n'
    )
    parts.append(
        "A project cannot set them. Keys: " + ", ".join(f"`{p}` ({what})" for p, what in PRICES.items()) + ".\n"
    )
    parts.append(_REFERENCE_VARIABLES)
    return "".join(parts)


def shown(config: Config, *, only_set: bool = False) -> Iterator[tuple[str, str, str]]:
    """(key, value, origin) of everything; secrets hidden."""
    for name, key in KEYS.items():
        origin = config.origin(name)
        if only_set and origin == "default":
            continue
        value = config.value(name)
        hidden = value and (key.secret or has_password(str(value)))
        yield name, ("(hidden)" if hidden else show(value)), origin
    for model, prices in config.pricing.items():
        for field, value in prices.items():
            name = f'pricing."{model}".{field}'
            yield name, show(value), config.origin(name)


def _example_section(section: type[Section]) -> str:
    lines = [f"\n# {line}" if i == 0 else f"# {line}" for i, line in enumerate(textwrap.wrap(_doc(section), 116))]
    lines.append(f"[{section.table}]")
    for key in section.fields:
        lines.extend(f"# {line}" for line in textwrap.wrap(_comment(key), 116))
        lines.append(f"{key.name.rsplit('.', 1)[1]} = {show(key.default)}")
    return "\n".join(lines) + "\n"


def _example_pricing() -> str:
    keys = "\n".join(f"# {price} = 0.0  # {what}" for price, what in PRICES.items())
    head = "# Your own prices in USD per million tokens, for models whose price is not known or not yours."
    return f'\n{head}\n# [pricing."model-name"]\n{keys}\n'


def _comment(key: Key) -> str:
    if key.allowed:
        return f"{key.doc} One of: {', '.join(choice for choice in key.allowed if choice)}."
    if key.kind in ("int", "float"):
        return f"{key.doc} {_capital(key.takes)}."
    if key.kind == "Effort":
        return f"{key.doc} {_capital(key.takes)}."
    return key.doc


def _reference_row(key: Key) -> str:
    cells = (
        f"`{key.name.rsplit('.', 1)[1]}`",
        f"`{show(key.default)}`",
        key.takes,
        _PROJECT_WORDS[key.project],
        f"`{key.flag}`" if key.flag else "",
        key.doc,
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _doc(section: type[Section]) -> str:
    return " ".join((section.__doc__ or "").split())


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


_TABLE_HEAD = "| key | default | takes | project | flag | meaning |\n|---|---|---|---|---|---|\n"

_REFERENCE_HEAD = """# Configuration

<!-- Made from cowork/config/sections.py by `python -m cowork.config.render`; do not edit. -->

Settings are laid over one another, the later one winning: defaults, your `~/.config/cowork/config.toml`, the
`.cowork/config.toml` of a trusted project, the environment, the command line. `COWORK_HOME` moves every file of yours.
`cowork config show` prints each value with where it came from, `cowork config check` judges the files,
`cowork config path` says where they are, `cowork config init` writes yours.

A wrong key or value ends the run with exit code 2, naming file, line, key and what is allowed. A file is at most
256 KB of UTF-8. `${NAME}` in `base_url` and `headers` stands for an environment variable; project files may not use it.

A project file can tighten and never loosen. Those of every folder from the top of the repository down to the working
folder count, so a rule at the top holds everywhere below. The column *project* says how far it may go: *no* stops the
run; for *only lower*, *only false* and *only stricter* the tighter of the two values counts; *may add* adds to your
list; *may narrow* picks from it. Lists of rules add up from layer to layer, so nothing drops a deny rule.

Any key can be set by a variable: `COWORK_` and its name in capitals, dots as underscores, such as
`COWORK_AGENT_SUBAGENT_MAX_DEPTH=2`. Lists are separated by commas.
"""

_REFERENCE_VARIABLES = """
## Environment

| variable | meaning |
|---|---|
| `LLM_PROVIDER` `LLM_MODEL_ID` `LLM_BASE_URL` `LLM_API_KEY` | the main model |
| `LIGHT_LLM_PROVIDER` `LIGHT_LLM_MODEL_ID` `LIGHT_LLM_BASE_URL` `LIGHT_LLM_API_KEY` | the light model |
| `ANTHROPIC_API_KEY` `ANTHROPIC_BASE_URL` `OPENAI_API_KEY` `OPENAI_BASE_URL` | used where nothing above is set |
| `COWORK_LOCAL_PORTS` | where to look for model servers on this machine, such as `11434,8080`; empty: nowhere |
| `HTTPS_PROXY` `HTTP_PROXY` `ALL_PROXY` `NO_PROXY` | proxies (`http://user:password@host:port`), hosts without |
| `SSL_CERT_FILE` | file of the certificate authorities to trust |
| `COWORK_HOME` | one folder for all files of yours |
| `OTEL_…` | where spans and metrics go, with `telemetry.otel` |
| `COWORK_LOG` | diagnostic lines: `info`, `debug`, `cowork.subagents=debug` |

Without any provider, the first sign decides: a script, a base URL, the model's name, `LLM_API_KEY`,
`ANTHROPIC_API_KEY`, `OPENAI_BASE_URL`, `OPENAI_API_KEY`; with none of them cowork runs on the built-in `offline` model.

`client` sends requests through the vendor's client for a cloud, logged in as that cloud's tools are: `bedrock` takes
the AWS profile or `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_REGION` (and needs `pip install
'anthropic[bedrock]'`), `vertex` the Google credentials, `CLOUD_ML_REGION` and `ANTHROPIC_VERTEX_PROJECT_ID` (and
`'anthropic[vertex]'`), `azure` the endpoint in `base_url`, the key that `api_key_env` names and, for OpenAI's formats,
`OPENAI_API_VERSION`. `model` is the name the cloud has for it.

When a stronger layer names another provider, the weaker layer's address, key and model are forgotten with it.
A light model that leaves provider, address or key open shares those of main; main's key is not sent to an address of
its own. `.env` files are never read, and no key is ever written, logged or shown.
"""

_WRITERS: dict[str, Callable[[], str]] = {"config.example.toml": example, "docs/reference/configuration.md": reference}


def write_all() -> None:
    """Bring the two generated files of a checkout up to date."""
    root = Path(__file__).parents[2]
    for name, text in _WRITERS.items():
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    write_all()
