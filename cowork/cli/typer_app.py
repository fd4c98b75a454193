"""The commands, as typer knows them. Bodies are thin: they call, print and give an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.main import get_command

from cowork import __version__
from cowork.cli import (
    agent_commands,
    config_commands,
    doctor_commands,
    extension_commands,
    flow_commands,
    mcp_commands,
    permission_commands,
    plugin_commands,
    report_commands,
    session_commands,
    tools_command,
)
from cowork.cli import main as entry
from cowork.cli.quick_parser import spell_out
from cowork.cli.typer_help import HelpCommand, HelpGroup, made, with_options
from cowork.core.errors import UserError

_CHAT_HELP = """A coding agent in your terminal. Without a command it opens the chat.

It reads, searches, edits and runs things in the current folder, asks before it changes anything, and sends out
subagents for work of its own kind. Without a key it runs on the built-in offline model."""

_CHAT_EXAMPLES = """
Examples:
  cowork                                   open the chat here
  cowork "fix the failing test"            open it with a first prompt
  cowork --continue                        go on with the latest conversation of this folder
  cowork run "why does test_login fail?"   ask once, answer on stdout (cowork -p is the same)
  git diff | cowork run "review this"      with context from a pipe
  cowork config init                       set up a model

Files: ~/.config/cowork/config.toml, .cowork/config.toml (COWORK_HOME moves yours). `cowork config show` explains."""

_RUN_HELP = """Answer one prompt and end. The answer goes to stdout, what happens to stderr.

The prompt is the argument; with `-` or without one it is read from stdin. Beside an argument, piped stdin is added as
context; a pipe that stays silent for a second is left alone. Where a terminal is there you are asked before changes;
with --non-interactive nothing is ever asked, and what no rule allows is denied."""

_RUN_EXAMPLES = """
Examples:
  cowork run "add a test for the empty cart"
  cowork run --permission-mode plan "how would you split app.py?"
  git diff main | cowork run "write the release note"
  cowork run --non-interactive --output json --max-cost 0.50 "fix the lint errors" --allow "Bash(ruff:*)" --allow "Edit"
  cowork run --output-schema answer.json "which functions are unused?"

Exit codes: 0 done, 1 failed, 2 bad usage or configuration, 3 no or refused credentials, 4 a budget or turn limit,
5 ended on a denied action, 75 service unavailable (try again), 124 timed out, 130 interrupted, 141 output closed,
143 terminated."""

_ACP_HELP = """Answer an editor through the Agent Client Protocol, on stdin and stdout, until it closes them.

Zed, JetBrains IDEs, Neovim and others start it for you; docs/editors.md has the lines for each. Keys, models, rules and
agents are those of your settings; the options here count for every session the editor opens."""

_ACP_EXAMPLES = """
Examples:
  cowork acp                              what an editor runs
  cowork acp --permission-mode auto       edits and boxed commands without a question
  cowork acp --model light                start sessions with the light model"""

app = typer.Typer(
    cls=HelpGroup,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=True,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


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
        raise _usage_error(error) from None
    return result if isinstance(result, int) else 0


def _usage_error(error: Any) -> UserError:
    message = " ".join(error.format_message().split())
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "cowork"
    if message.startswith("No such command"):
        prompt = '; a prompt goes in quotes: cowork "fix the bug"' if path == "cowork" else ""
        return UserError(message, f"{path} --help lists the commands{prompt}")
    return UserError(message[:1].lower() + message[1:].rstrip("."), f"{path} --help")


def _version(*, wanted: bool) -> None:
    if wanted:
        print(f"cowork {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True, help=_CHAT_HELP, epilog=_CHAT_EXAMPLES)
@with_options(chat=True)
def chat(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", "-V", help="Show the version and exit.", is_eager=True)] = False,
    *,
    given: dict[str, Any],
) -> int:
    """Open the chat."""
    _version(wanted=version)
    ctx.obj = given  # options before a command count for it
    return entry.start("chat", None, made(given)) if ctx.invoked_subcommand is None else 0


@app.command("run", cls=HelpCommand, help=_RUN_HELP, epilog=_RUN_EXAMPLES)
@with_options(chat=False)
def run_command(
    prompt: Annotated[str | None, typer.Argument(help="What to do; - reads it from stdin.", show_default=False)] = None,
    *,
    given: dict[str, Any],
) -> int:
    """Answer one prompt."""
    return entry.start("run", prompt, made(given))


@app.command("acp", cls=HelpCommand, help=_ACP_HELP, epilog=_ACP_EXAMPLES)
@with_options(chat=True)
def acp_command(*, given: dict[str, Any]) -> int:
    """Answer an editor."""
    from cowork.app.acp.server import serve

    return serve(made(given))


app.add_typer(agent_commands.app, name="agents")
app.add_typer(extension_commands.app, name="extensions")
app.add_typer(plugin_commands.plugin, name="plugin")
app.add_typer(plugin_commands.hooks, name="hooks")
app.command("import", cls=HelpCommand, epilog=extension_commands.IMPORT_EXAMPLES)(extension_commands.import_)
app.command("tools", cls=HelpCommand, epilog=tools_command.TOOLS_EXAMPLES)(tools_command.tools)
app.add_typer(session_commands.app, name="sessions")
session_commands.app.command("export", cls=HelpCommand, epilog=report_commands.EXPORT_EXAMPLES)(report_commands.export)
app.command("cost", cls=HelpCommand, epilog=session_commands.COST_EXAMPLES)(session_commands.cost)
app.command("report", cls=HelpCommand, epilog=report_commands.REPORT_EXAMPLES)(report_commands.report)
app.command("watch", cls=HelpCommand, epilog=report_commands.WATCH_EXAMPLES)(report_commands.watch)
app.add_typer(session_commands.tasks_app, name="tasks")
app.add_typer(flow_commands.app, name="flow")
app.command("batch", cls=HelpCommand, epilog=flow_commands.BATCH_EXAMPLES)(flow_commands.batch)
app.add_typer(config_commands.app, name="config")
app.add_typer(mcp_commands.app, name="mcp")
app.command("trust", cls=HelpCommand, epilog=permission_commands.TRUST_EXAMPLES)(permission_commands.trust)
app.add_typer(permission_commands.permissions, name="permissions")
app.command("doctor", cls=HelpCommand, epilog=doctor_commands.DOCTOR_EXAMPLES)(doctor_commands.doctor)
app.command("demo", cls=HelpCommand, epilog=doctor_commands.DEMO_EXAMPLES)(doctor_commands.demo)
