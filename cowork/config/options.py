"""What a run is asked to do, by the command line or a program. The fields are the options: one table for parsing,
help, completion and the settings they stand for."""

# ruff: noqa: RUF009 - `option` is `field` with words for the command line
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from cowork.config.key import split_list
from cowork.config.sections import PROVIDERS
from cowork.core.errors import UserError
from cowork.core.modes import MODES


class Option(NamedTuple):
    """How a field looks on the command line."""

    flags: tuple[str, ...]
    help: str
    group: str
    choices: tuple[str, ...] = ()
    metavar: str = ""
    chat: bool = True  # `cowork` without a command takes it too
    key: str = ""  # the setting it stands for


def option(default: Any, flags: str, help: str, group: str, **rest: Any) -> Any:
    """Declare a field that the command line can set; the annotation is its type."""
    return field(default=default, metadata={"option": Option(tuple(flags.split()), help, group, **rest)})


_RUN, _MODEL, _ALLOWED, _LIMITS, _SESSION, _FILES = "Run", "Model", "What is allowed", "Limits", "Session", "Files"


@dataclass(frozen=True)
class RunOptions:
    """One run. `None` and empty mean that nothing was said."""

    prompt: str = ""
    context: str = ""  # what was piped in beside the prompt
    trusted_as: str = ""  # what steers, as it was when the person trusted it for this chat alone
    settings: Mapping[str, object] = field(default_factory=dict)  # of a program, by dotted name
    session_id: str = ""  # of a new session; empty: a fresh one
    mcp_servers: Mapping[str, Any] = field(default_factory=dict)  # that a program brings, by name

    output: str = option(
        "text",
        "--output -o",
        "What stdout holds: the answer, one JSON object at the end, or one event a line.",
        _RUN,
        choices=("text", "json", "stream-json"),
        chat=False,
    )
    non_interactive: bool = option(
        False, "--non-interactive", "Never ask, never wait for stdin, no control codes. For CI.", _RUN, chat=False
    )
    quiet: bool = option(False, "--quiet -q", "No progress lines on stderr.", _RUN, chat=False)
    agent: str = option("", "--agent", "Run as this agent (see `cowork agents`).", _RUN, metavar="NAME")
    cwd: Path | None = option(None, "--cwd -C", "Folder to work in.", _RUN, metavar="DIR")
    system_prompt_append: str = option(
        "", "--system-prompt-append", "Text added to the system prompt.", _RUN, metavar="TEXT"
    )
    output_schema: Path | None = option(
        None,
        "--output-schema",
        "JSON Schema file; the final answer must be JSON valid under it.",
        _RUN,
        metavar="FILE",
        chat=False,
    )

    model: str = option("", "--model -m", "main, light, or a model's own name.", _MODEL, metavar="main|light|ID")
    provider: str = option(
        "",
        "--provider",
        "Wire format of the service.",
        _MODEL,
        choices=PROVIDERS,
        key="models.main.provider",
    )
    script: Path | None = option(
        None, "--script", "Play this file of scripted turns instead of a model.", _MODEL, metavar="FILE"
    )
    record: Path | None = option(
        None, "--record", "Write every exchange with the model to this file.", _MODEL, metavar="FILE"
    )
    replay: Path | None = option(None, "--replay", "Answer from a recorded file, offline.", _MODEL, metavar="FILE")
    dump_requests: Path | None = option(
        None, "--dump-requests", "Append each request body to this file as a JSON line.", _MODEL, metavar="FILE"
    )

    permission_mode: str = option(
        "",
        "--permission-mode",
        "How much happens without a question.",
        _ALLOWED,
        choices=MODES,
        key="permissions.mode",
    )
    allow: tuple[str, ...] = option(
        (),
        "--allow",
        'Rule that needs no question, such as "Bash(git commit:*)". Repeatable.',
        _ALLOWED,
        metavar="RULE",
        key="permissions.allow",
    )
    deny: tuple[str, ...] = option(
        (),
        "--deny",
        'Rule that always refuses, such as "Read(.env)". Repeatable.',
        _ALLOWED,
        metavar="RULE",
        key="permissions.deny",
    )
    tools: tuple[str, ...] = option(
        (), "--tools", "Only these tools, such as Read,Grep. Repeatable.", _ALLOWED, metavar="LIST", key="tools.enabled"
    )
    add_dirs: tuple[str, ...] = option(
        (),
        "--add-dir",
        "Another folder that tools may use. Repeatable.",
        _ALLOWED,
        metavar="DIR",
        key="permissions.add_dirs",
    )
    trust: bool = option(False, "--trust", "Trust this folder's own settings, agents and notes for this run.", _ALLOWED)
    strict_denials: bool = option(
        False, "--strict-denials", "Exit 5 if anything at all was denied.", _ALLOWED, chat=False
    )

    max_turns: int | None = option(
        None, "--max-turns", "Model requests at most.", _LIMITS, metavar="N", key="limits.max_turns"
    )
    max_cost: float | None = option(
        None,
        "--max-cost",
        "USD at most, children and retries counted in.",
        _LIMITS,
        metavar="USD",
        key="limits.max_cost_usd",
    )
    max_tokens: int | None = option(
        None, "--max-tokens", "Tokens at most, input and output.", _LIMITS, metavar="N", key="limits.max_tokens"
    )
    timeout: float | None = option(
        None, "--timeout", "Seconds at most.", _LIMITS, metavar="SECONDS", key="limits.timeout"
    )

    continue_: bool = option(False, "--continue -c", "Go on with the latest session of this folder.", _SESSION)
    resume: str = option(
        "", "--resume -r", "Go on with this session (its id or the start of it).", _SESSION, metavar="ID"
    )
    no_session: bool = option(False, "--no-session", "Store nothing of this run.", _SESSION)

    config_file: Path | None = option(
        None, "--config", "Settings file to use instead of your own.", _FILES, metavar="FILE"
    )
    mcp_config: Path | None = option(
        None, "--mcp-config", "File of MCP servers to use too, in the form of .mcp.json.", _FILES, metavar="FILE"
    )
    bare: bool = option(False, "--bare", "Ignore the files of user and project: settings, agents, notes.", _FILES)
    log_file: Path | None = option(
        None, "--log-file", "File for diagnostic lines (see COWORK_LOG).", _FILES, metavar="FILE"
    )

    def flags(self) -> dict[str, object]:
        """The settings these options stand for, as `config.load` takes them."""
        given = dict(self.settings)
        for spec in fields(self):
            shown: Option | None = spec.metadata.get("option")
            value = getattr(self, spec.name)
            if shown is not None and shown.key and value not in ("", (), None):
                given[shown.key] = value
        if self.tools:
            given["tools.enabled"] = split_list(",".join(self.tools))
            if not given["tools.enabled"]:
                raise UserError("--tools names no tool", "Name some, such as --tools Read,Grep.")
        if self.script is not None:
            given |= {"models.main.script": str(self.script), "models.main.provider": "scripted"}
        if self.log_file is not None:
            given["log.file"] = str(self.log_file)
        if self.no_session:
            given["session.enabled"] = False
        return given


def options_of(*, chat: bool) -> list[tuple[str, str, Any, Option]]:
    """(field, type, default, option) of everything the command line takes."""
    found = [
        (f.name, str(f.type), f.default, f.metadata["option"]) for f in fields(RunOptions) if "option" in f.metadata
    ]
    return [entry for entry in found if entry[3].chat or not chat]
