"""What a run is asked to do, by the command line or a program. The fields are the options: one table for parsing,
help, completion and the settings they stand for."""

# ruff: noqa: RUF009 - `option` is `field` with words for the command line
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from cowork.config.key import split_list
from cowork.config.sections import KEYS, PROVIDERS
from cowork.core.errors import UserError
from cowork.core.ports import MODES


class Option(NamedTuple):
    """How a field looks on the command line."""

    flags: tuple[str, ...]
    metavar: str
    help: str
    group: str
    choices: tuple[str, ...] = ()


def option(default: Any, words: str, help: str, group: str, *choices: str) -> Any:
    """Declare a field that the command line can set by `--flag -f METAVAR`; the annotation is its type."""
    return field(default=default, metadata={"option": Option(*split_words(words), help, group, choices)})


def split_words(words: str) -> tuple[tuple[str, ...], str]:
    """(flags, metavar) of `--flag -f METAVAR`."""
    flags = tuple(word for word in words.split() if word.startswith("-"))
    return flags, " ".join(word for word in words.split() if word not in flags)


_RUN, _MODEL, _ALLOWED, _LIMITS, _SESSION, _FILES = "Run", "Model", "What is allowed", "Limits", "Session", "Files"
_OUTPUTS = ("text", "json", "stream-json")
_NOT_IN_CHAT = ("output", "non_interactive", "quiet", "output_schema", "strict_denials")
_KEY_OF = {key.flag: name for name, key in KEYS.items() if key.flag and key.flag != "--model"}  # flag -> setting


@dataclass(frozen=True)
class RunOptions:
    """One run. `None` and empty mean that nothing was said."""

    prompt: str = ""
    context: str = ""  # what was piped in beside the prompt
    notes: tuple[str, ...] = ()  # what the person should know of that
    trusted_as: str = ""  # what steers, as it was when the person trusted it for this chat alone
    settings: Mapping[str, object] = field(default_factory=dict)  # of a program, by dotted name
    session_id: str = ""  # of a new session; empty: a fresh one
    mcp_servers: Mapping[str, Any] = field(default_factory=dict)  # that a program brings, by name

    output: str = option(
        "text",
        "--output -o",
        "What stdout holds: the answer, one JSON object at the end, or one event a line.",
        _RUN,
        *_OUTPUTS,
    )
    non_interactive: bool = option(
        False, "--non-interactive", "Never ask, never wait for stdin, no control codes. For CI.", _RUN
    )
    quiet: bool = option(False, "--quiet -q", "No progress lines on stderr.", _RUN)
    agent: str = option("", "--agent NAME", "Run as this agent (see `cowork agents`).", _RUN)
    cwd: Path | None = option(None, "--cwd -C DIR", "Folder to work in.", _RUN)
    system_prompt_append: str = option("", "--system-prompt-append TEXT", "Text added to the system prompt.", _RUN)
    output_schema: Path | None = option(
        None, "--output-schema FILE", "JSON Schema file; the final answer must be JSON valid under it.", _RUN
    )

    model: str = option("", "--model -m main|light|ID", "main, light, or a model's own name.", _MODEL)
    provider: str = option("", "--provider", "Wire format of the service.", _MODEL, *PROVIDERS)
    script: Path | None = option(None, "--script FILE", "Play this file of scripted turns instead of a model.", _MODEL)
    record: Path | None = option(None, "--record FILE", "Write every exchange with the model to this file.", _MODEL)
    replay: Path | None = option(None, "--replay FILE", "Answer from a recorded file, offline.", _MODEL)
    dump_requests: Path | None = option(
        None, "--dump-requests FILE", "Append each request body to this file as a JSON line.", _MODEL
    )

    permission_mode: str = option("", "--permission-mode", "How much happens without a question.", _ALLOWED, *MODES)
    allow: tuple[str, ...] = option(
        (), "--allow RULE", 'Rule that needs no question, such as "Bash(git commit:*)". Repeatable.', _ALLOWED
    )
    deny: tuple[str, ...] = option(
        (), "--deny RULE", 'Rule that always refuses, such as "Read(.env)". Repeatable.', _ALLOWED
    )
    tools: tuple[str, ...] = option((), "--tools LIST", "Only these tools, such as Read,Grep. Repeatable.", _ALLOWED)
    add_dirs: tuple[str, ...] = option((), "--add-dir DIR", "Another folder that tools may use. Repeatable.", _ALLOWED)
    trust: bool = option(False, "--trust", "Trust this folder's own settings, agents and notes for this run.", _ALLOWED)
    strict_denials: bool = option(False, "--strict-denials", "Exit 5 if anything at all was denied.", _ALLOWED)

    max_turns: int | None = option(None, "--max-turns N", "Model requests at most.", _LIMITS)
    max_cost: float | None = option(None, "--max-cost USD", "USD at most, children and retries counted in.", _LIMITS)
    max_tokens: int | None = option(None, "--max-tokens N", "Tokens at most, input and output.", _LIMITS)
    timeout: float | None = option(None, "--timeout SECONDS", "Seconds at most.", _LIMITS)

    continue_: bool = option(False, "--continue -c", "Go on with the latest session of this folder.", _SESSION)
    resume: str = option("", "--resume -r ID", "Go on with this session (its id or the start of it).", _SESSION)
    fork: bool = option(False, "--fork", "With --continue or --resume: go on in a copy of that session.", _SESSION)
    no_session: bool = option(False, "--no-session", "Store nothing of this run.", _SESSION)

    config_file: Path | None = option(None, "--config FILE", "Settings file to use instead of your own.", _FILES)
    mcp_config: Path | None = option(
        None, "--mcp-config FILE", "File of MCP servers to use too, in the form of .mcp.json.", _FILES
    )
    bare: bool = option(False, "--bare", "Ignore the files of user and project: settings, agents, notes.", _FILES)
    log_file: Path | None = option(None, "--log-file FILE", "File for diagnostic lines (see COWORK_LOG).", _FILES)

    def flags(self) -> dict[str, object]:
        """The settings these options stand for, as `config.load` takes them."""
        given = dict(self.settings)
        for name, _, _, shown in options_of(chat=False):
            value = getattr(self, name)
            if shown.flags[0] in _KEY_OF and value is not False and value not in ("", (), None):
                given[_KEY_OF[shown.flags[0]]] = str(value) if isinstance(value, Path) else value
        if self.tools:
            given["tools.enabled"] = split_list(",".join(self.tools))
            if not given["tools.enabled"]:
                raise UserError("--tools names no tool", "Name some, such as --tools Read,Grep.")
        if self.script is not None:
            given["models.main.provider"] = "scripted"
        if self.no_session:
            given["session.enabled"] = False
        return given


def options_of(*, chat: bool) -> list[tuple[str, str, Any, Option]]:
    """(field, type, default, option) of everything that `cowork`, or else `cowork run`, takes."""
    return [
        (f.name, str(f.type), f.default, f.metadata["option"])
        for f in fields(RunOptions)
        if "option" in f.metadata and not (chat and f.name in _NOT_IN_CHAT)
    ]
