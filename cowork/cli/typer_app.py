"""The commands, as typer knows them. Bodies are thin: they call, print and give an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.main import get_command

from cowork import __version__
from cowork.cli import (
    config_commands,
    extension_commands,
    flow_commands,
    mcp_commands,
    plugin_commands,
    session_commands,
)
from cowork.cli import main as entry
from cowork.cli.quick_parser import spell_out
from cowork.cli.typer_help import CommandGroup, Given, run_options, with_options
from cowork.core import signals
from cowork.core.errors import UserError

app = CommandGroup(
    """A coding agent in your terminal. Without a command it opens the chat.

It reads, searches, edits and runs things in the current folder, asks before it changes anything, and sends out
subagents for work of its own kind. Without a key it runs on the built-in offline model.

Examples:
  cowork                                   open the chat here
  cowork "fix the failing test"            open it with a first prompt
  cowork --continue                        go on with the latest conversation of this folder
  cowork run "why does test_login fail?"   ask once, answer on stdout (cowork -p is the same)
  git diff | cowork run "review this"      with context from a pipe
  cowork config init                       set up a model

Files: ~/.config/cowork/config.toml, .cowork/config.toml (COWORK_HOME moves yours). `cowork config show` explains.""",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


Version = Annotated[bool, typer.Option("--version", "-V", help="Show the version and exit.", is_eager=True)]
Prompt = Annotated[str | None, typer.Argument(help="What to do; - reads it from stdin.", show_default=False)]


def run(argv: Sequence[str]) -> int:
    """Parse and go; what is wrong with the words is said in one or two lines."""
    command: Any = get_command(app)
    stdout = sys.stdout
    try:
        result = command.main(args=spell_out(argv), prog_name="cowork", standalone_mode=False)
    except typer.Abort:
        return 130
    except SystemExit:
        if sys.stdout is not stdout:  # typer's way of saying that the reader of its output went away
            sys.stdout = stdout
            raise BrokenPipeError from None
        raise
    except typer.TyperException as error:
        message, context = " ".join(error.format_message().split()), getattr(error, "ctx", None)
        path = context.command_path if context is not None else "cowork"
        if message.startswith("No such command"):
            prompt = '; a prompt goes in quotes: cowork "fix the bug"' if path == "cowork" else ""
            raise UserError(message, f"{path} --help lists the commands{prompt}") from None
        raise UserError(message[:1].lower() + message[1:].rstrip("."), f"{path} --help") from None
    return result if isinstance(result, int) else 0


@app.callback(invoke_without_command=True)
@with_options(chat=True)
def chat(ctx: typer.Context, version: Version = False, *, given: Given) -> int:
    if version:
        print(f"cowork {__version__}")
        raise typer.Exit
    ctx.obj = given  # options before a command count for it
    return entry.start("chat", None, run_options(given)) if ctx.invoked_subcommand is None else 0


@app.command("run")
@with_options(chat=False)
def run_command(prompt: Prompt = None, *, given: Given) -> int:
    """Answer one prompt and end. The answer goes to stdout, what happens to stderr.

    The prompt is the argument; with `-` or without one it is read from stdin. Beside an argument, piped stdin is added
    as context; a pipe that stays silent for a second is left alone. Where a terminal is there you are asked before
    changes; with --non-interactive nothing is ever asked, and what no rule allows is denied.

    Examples:
      cowork run "add a test for the empty cart"
      cowork run --permission-mode plan "how would you split app.py?"
      git diff main | cowork run "write the release note"
      cowork run --non-interactive --output json --max-cost 1 "fix the lint errors" --allow "Bash(ruff:*)" --allow Edit
      cowork run --output-schema answer.json "which functions are unused?"

    Exit codes: 0 done, 1 failed, 2 bad usage or configuration, 3 no or refused credentials, 4 a budget or turn limit,
    5 ended on a denied action, 75 service unavailable (try again), 124 timed out, 130 interrupted, 141 output closed,
    143 terminated."""
    return entry.start("run", prompt, run_options(given))


@app.command("acp")
@with_options(chat=True, left_out=("fork",))
def acp_command(*, given: Given) -> None:
    """Answer an editor through the Agent Client Protocol, on stdin and stdout, until it closes them.

    Zed, JetBrains IDEs, Neovim and others start it for you; docs/editors.md has the lines for each. Keys, models,
    rules and agents are those of your settings; the options here count for every session the editor opens.

    Examples:
      cowork acp                              what an editor runs
      cowork acp --permission-mode auto       edits and boxed commands without a question
      cowork acp --model light                start sessions with the light model"""
    from cowork.app.acp.server import serve

    signals.run(serve(run_options(given)))


app.command("import")(plugin_commands.import_)
app.command("tools")(extension_commands.tools)
app.command("cost")(session_commands.cost)
app.command("report")(session_commands.report)
app.command("watch")(session_commands.watch)
app.command("batch")(flow_commands.batch)
app.command("trust")(config_commands.trust)
app.command("doctor")(config_commands.doctor)
app.command("demo")(config_commands.demo)
app.add_typer(extension_commands.agents, name="agents")
app.add_typer(extension_commands.extensions, name="extensions")
app.add_typer(plugin_commands.plugin, name="plugin")
app.add_typer(plugin_commands.hooks, name="hooks")
app.add_typer(session_commands.sessions, name="sessions")
app.add_typer(session_commands.tasks, name="tasks")
app.add_typer(flow_commands.flow, name="flow")
app.add_typer(config_commands.config, name="config")
app.add_typer(mcp_commands.mcp, name="mcp")
app.add_typer(config_commands.permissions, name="permissions")
