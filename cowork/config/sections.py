"""Every setting there is. These classes are the one table that parsing, checking, the example file, the reference
page and `config show` are made from: the annotation is the type, `key(...)` the rest."""

from __future__ import annotations

from typing import Any

from cowork.config.key import TABLES, Key, Section, key
from cowork.core.ports import LOOSE_TO_STRICT, MODES

PROVIDERS = ("anthropic", "openai", "openai-chat", "offline", "scripted")
CLIENTS = ("bedrock", "vertex", "azure")
SANDBOX_MODES = ("off", "auto", "required")  # from loose to strict

URL = (r"(https?://|\$\{).+", "an http:// or https:// address")
VARIABLE = (r"[A-Za-z_][A-Za-z0-9_]*", "the name of an environment variable, not the key itself")

_POSITIVE, _TOO_DEEP = "must be greater than 0", "cannot exceed 10 (stack overflow risk)"

Effort = str | int  # off, low, medium, high or a budget of tokens


def bound(default: float, doc: str, low: float, high: float | None = None, **rest: Any) -> Any:
    """Declare a number that a project may lower."""
    return key(default, doc, low=low, high=high, project="lower", **rest)


def limit(doc: str, *, default: float = 0, low: float = 1, **rest: Any) -> Any:
    """Declare a key whose 0 means no limit; a project may lower it."""
    return bound(default, doc, low, zero="no limit", **rest)


class MainModel(Section, prefix="models.main"):
    """The model that answers you. What is empty is chosen: the provider by the keys in the environment, else offline;
    of the provider a good model, its own address and the usual variable of its key."""

    provider: str = key("", "Wire format of the service.", allowed=("", *PROVIDERS), flag="--provider")
    model: str = key("", "Model name as the service knows it.", flag="--model")
    base_url: str = key("", "Address of the service.", shape=URL)
    api_key_env: str = key("", "Name of the environment variable that holds the key.", shape=VARIABLE)
    context_window: int = key(
        0, "Tokens that fit the window.", low=1_000, high=10_000_000, zero="as known of the model"
    )
    max_output_tokens: int = key(0, "Most tokens of one answer.", low=16, high=1_000_000, zero="as known of the model")
    thinking: Effort = key("off", "How much the model reasons before it answers: a level, or a budget of tokens.")
    transport: str = key("direct", "direct is lean; sdk uses the vendor's client.", allowed=("direct", "sdk"))
    client: str = key(
        "",
        "The vendor's client for a cloud, with that cloud's way to log in. It implies transport = sdk.",
        allowed=("", *CLIENTS),
    )
    headers: dict[str, str] = key({}, "Extra HTTP headers. ${NAME} stands for an environment variable.", secret=True)
    script: str = key("", "File of turns for the scripted provider.", flag="--script")


class LightModel(MainModel, prefix="models.light"):
    """The cheaper model for simple work of subagents. What is empty here is as in [models.main]; with neither model
    nor provider, and a main model of your own choice, light work runs on main."""

    transport: str = key("", "How requests travel.", allowed=("", "direct", "sdk"))


class Subagent(Section, prefix="agent.subagent"):
    """Children that Task sends out."""

    max_depth: int = bound(3, "How deep children may nest.", 1, 10, too_low=_POSITIVE, too_high=_TOO_DEEP)
    default_max_turns: int = bound(
        10, "Model requests a child gets when the call does not say.", 1, 100, too_low=_POSITIVE
    )
    output_max_size: int = bound(
        0,
        "Bytes of a result that reach the parent; the rest goes to a file.",
        1024,
        too_low="must be at least 1024 bytes",
        zero="10,000 characters",
        zero_limit=10_000,
    )
    max_concurrent: int = bound(5, "Children at work at once; more wait in line.", 1, 50)
    timeout: float = limit("Seconds a child may take in all.", default=600)
    # Longer than [retry] idle_timeout, so that a silent stream is tried again before the child is given up.
    idle_timeout: float = limit("Seconds without any sign of life.", default=300)
    match: str = key(
        "exact",
        "What an unknown subagent_type does: exact refuses it with a suggestion, similar takes the best description.",
        allowed=("exact", "similar"),
        stricter=("similar", "exact"),
    )
    allow_nesting: bool = key(False, "Give Task to children too.", project="off")
    default_tools: str = key(
        "inherit",
        "Tools of an agent file that names none: those of the parent but Task, or the reading ones.",
        allowed=("inherit", "read-only"),
        stricter=("inherit", "read-only"),
    )
    expose_subagent_tool: bool = key(False, "Offer the second tool `subagent` (label, task_prompt).", project="off")
    telemetry_enabled: bool = key(True, "Write subagent lines to the log when COWORK_LOG asks for one.")
    persistence_enabled: bool = key(True, "Keep the children's conversations in the session log.")
    max_executions: int = limit("Children a run may send out.")
    max_total_tokens: int = limit("Tokens all children of a run may use.")
    max_total_time: float = limit("Seconds all children of a run may take together.")
    max_total_cost_usd: float = limit("USD all children of a run may cost.", low=0.000001)


class PermissionSettings(Section, prefix="permissions"):
    """What may happen without a question. deny beats ask, ask beats allow."""

    mode: str = key(
        "ask",
        "ask: reading in the workspace is free; accept-edits: edits too; auto: and what the sandbox holds; "
        "plan: read only; bypass: no questions.",
        allowed=MODES,
        stricter=LOOSE_TO_STRICT,
        flag="--permission-mode",
    )
    allow: tuple[str, ...] = key(
        (), 'Rules that need no question, such as "Bash(git commit:*)".', extend=True, flag="--allow"
    )
    ask: tuple[str, ...] = key((), 'Rules that always ask, such as "Edit(migrations/**)".', extend=True, project="add")
    deny: tuple[str, ...] = key(
        (), 'Rules that always refuse, such as "Read(.env)".', extend=True, project="add", flag="--deny"
    )
    add_dirs: tuple[str, ...] = key(
        (), "Folders outside the workspace that tools may use.", extend=True, flag="--add-dir"
    )


class SandboxSettings(Section, prefix="sandbox"):
    """The box that Bash runs in."""

    mode: str = key(
        "auto",
        "auto: where it works; required: refuse to run without; off: none.",
        allowed=("auto", "required", "off"),
        stricter=SANDBOX_MODES,
    )
    network: bool = key(False, "Let commands in the sandbox use the network.", project="off")
    auto_allow: bool = key(
        False, 'The same as permissions.mode = "auto", which is the better way to say it.', project="off"
    )


class LimitSettings(Section, prefix="limits"):
    """Where a run ends, children and retries counted in."""

    max_turns: int = limit("Model requests of one prompt.", flag="--max-turns")
    max_cost_usd: float = limit("USD of a run.", low=0.000001, flag="--max-cost")
    max_tokens: int = limit("Tokens of a run, cached input counted.", flag="--max-tokens")
    timeout: float = limit("Seconds of a run.", low=0.001, flag="--timeout")


class RetrySettings(Section, prefix="retry"):
    """What happens when the model service fails."""

    max_attempts: int = bound(5, "Tries of one request in all.", 1, 20)
    max_delay: float = bound(60, "Longest wait between two tries in seconds.", 0, 3600)
    idle_timeout: float = bound(180, "Seconds a stream may be silent before it is given up and tried again.", 1, 3600)


class CompactionSettings(Section, prefix="compaction"):
    """Making room when a conversation nears the model's window."""

    auto: bool = key(True, "Summarise the older part by itself when it is time.")
    threshold: float = key(0.85, "Part of the window in use at which it is time.", low=0.3, high=0.95)


class Tools(Section, prefix="tools"):
    """Which tools the model has."""

    enabled: tuple[str, ...] = key((), "Only these. Empty: all.", project="narrow", flag="--tools")
    disabled: tuple[str, ...] = key((), "Never these.", extend=True, project="add")


class Web(Section, prefix="web"):
    """Pages and searches. A host is asked about unless a rule such as "WebFetch(domain:python.org)" allows it."""

    fetch: bool = key(True, "Let the model read web pages (WebFetch).", project="off")
    private_hosts: tuple[str, ...] = key(
        (), 'Hosts in private networks that may be fetched, such as "localhost".', extend=True
    )
    search: str = key(
        "",
        'Who searches for WebSearch. Empty: the model service where it is known to; "model": it does, wherever it is.',
        allowed=("", "model", "searxng", "brave", "off"),
    )
    search_url: str = key("", "Address of the search service; of a SearXNG, its front page.", shape=URL)
    search_key_env: str = key("BRAVE_API_KEY", "Name of the environment variable that holds its key.", shape=VARIABLE)


class Mcp(Section, prefix="mcp"):
    """MCP servers. They are in .mcp.json, in your mcp.json (`cowork mcp add`) or here, as [mcp.servers.NAME]."""

    wait: float = key(2, "Seconds the first request waits for servers whose tools are not known yet.", low=0, high=60)
    defer: float = key(
        0.05, "Part of the window their definitions may take; above it tools are found by search.", low=0, high=1
    )
    disabled: tuple[str, ...] = key((), "Servers that are not used.", extend=True, project="add")
    only_for_agents: tuple[str, ...] = key((), "Servers only for agents whose file names them.", extend=True)


class Knowledge(Section, prefix="knowledge"):
    """What the model is told about the project at the start."""

    files: tuple[str, ...] = key(
        ("AGENTS.md", "CLAUDE.md", ".claude/CLAUDE.md"),
        "File names looked for in each folder; the first one found is used, and its .local.md variant.",
    )
    max_bytes: int = bound(32_000, "Most bytes in all.", 0, 1_000_000)


class Skills(Section, prefix="skills"):
    """Skills: instructions in SKILL.md files, which the model loads when it needs them."""

    shipped: bool = key(False, "Tell the model of those cowork brings, too. People call them by /name in any case.")


class Sessions(Section, prefix="session"):
    """What is kept of a conversation."""

    enabled: bool = key(True, "Keep the event log, so that it can be resumed.", flag="--no-session")
    checkpoints: bool = key(True, "Keep file contents before changes, so that /rewind can bring them back.")
    retention_days: int = key(0, "Forget sessions not used for so many days.", low=1, zero="never")
    output_days: int = key(30, "Delete long outputs of commands after so many days.", low=1, zero="never")


class Ui(Section, prefix="ui"):
    """The chat in the terminal."""

    theme: str = key("auto", "Colours for a dark or a light background.", allowed=("auto", "dark", "light"))
    keys: str = key("emacs", "Editing keys.", allowed=("emacs", "vi"))
    notify: bool = key(True, "Notify through the terminal when a long turn ends or a question waits.")
    notify_after: float = key(10, "Seconds that make a turn long.", low=0, high=86_400)
    bell: bool = key(False, "Ring the bell with a notification.")
    title: bool = key(True, "Show the state in the terminal's title.")
    statusline: str = key("", 'The status line as a template, such as "{model} {context}% ${cost}". Empty: as it is.')
    statusline_command: str = key("", "A program that prints the status line; it is told the state as JSON.")
    subagent_statusline_command: str = key("", 'A program that prints a row for each child, as {"id", "content"}.')


class Log(Section, prefix="log"):
    """Diagnostic lines."""

    level: str = key("", "Filter such as info or cowork.subagents=debug. Empty: silent. COWORK_LOG sets it too.")
    file: str = key("", "File the lines go to. Empty: stderr.", flag="--log-file")


class OpenTelemetry(Section, prefix="telemetry"):
    """Spans and metrics by OpenTelemetry, which `pip install 'cowork[otel]'` brings. OTEL_* variables say where to."""

    otel: bool = key(False, "Send a span an agent, request and tool call, and metrics of tokens, cost and durations.")
    content: bool = key(False, "Put prompts, answers, arguments and results on the spans too.")


SECTIONS = tuple(TABLES)
KEYS: dict[str, Key] = {k.name: k for section in SECTIONS for k in section.fields}

PRICES: dict[str, str] = {
    "input": "input",
    "output": "output",
    "cache_read": "input read from the cache",
    "cache_write": "input written to the cache",
}
"""Keys of `[pricing."model"]`: USD per million tokens of what."""

SHORTHANDS: dict[str, str] = {"sandbox": "sandbox.mode"}  # `sandbox = "off"` at the top of a file
