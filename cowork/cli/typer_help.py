"""How commands look in typer: options made from the table of `RunOptions`, help in groups with examples."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand, TyperGroup

from cowork.cli.quick_parser import CONVERT
from cowork.config import paths
from cowork.config.run_options import Option, RunOptions, options_of, split_words
from cowork.core.errors import UserError

Cwd = Annotated[Path | None, typer.Option("--cwd", "-C", metavar="DIR", help="Folder of the project.")]
AsJson = Annotated[bool, typer.Option("--json", help="For programs.")]
JsonObject = Annotated[bool, typer.Option("--json", help="One JSON object.")]
JsonArray = Annotated[bool, typer.Option("--json", help="One JSON array.")]
Given = dict[str, Any]  # what the command line said, by the fields of `RunOptions`


def option(default: Any, words: str, help: str, **rest: Any) -> Any:
    """Declare an option of one command by `--flag -f METAVAR`, as the table of `RunOptions` does."""
    flags, metavar = split_words(words)
    return typer.Option(default, *flags, help=help, metavar=metavar or None, **rest)


def argument(default: Any, metavar: str, help: str = "", **rest: Any) -> Any:
    """Declare an argument of one command; `...` for a default that is none."""
    return typer.Argument(default, help=help or None, metavar=metavar or None, **rest)


_GROUP_OF: dict[str, str] = {flag: entry[3].group for entry in options_of(chat=False) for flag in entry[3].flags}

_FEW = 12  # options that need no groups


def with_options(*, chat: bool, left_out: Collection[str] = ()) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the options of the table; it receives them, and those before the command, as one mapping."""

    def make(function: Callable[..., Any]) -> Callable[..., Any]:
        wanted = inspect.signature(function, eval_str=True).parameters
        table = {entry[0]: entry for entry in options_of(chat=chat) if entry[0] not in left_out}

        def command(ctx: typer.Context, **values: Any) -> Any:
            before = {name: value for name, value in (ctx.obj or {}).items() if name in table}
            given = before | given_values({name: values.pop(name) for name in table})
            return function(**values, **({"ctx": ctx} if "ctx" in wanted else {}), given=given)

        context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        own = [parameter for name, parameter in wanted.items() if name not in ("ctx", "given")]
        parameters = [context, *own, *(_parameter(*entry) for entry in table.values())]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in parameters}
        command.__name__, command.__doc__ = function.__name__, function.__doc__
        return command

    return make


def _parameter(name: str, kind: str, default: Any, option: Option) -> inspect.Parameter:
    usual: Any = {"bool": bool, "tuple[str, ...]": list[str] | None}.get(kind) or CONVERT[kind] | None
    hint: Any = Literal[option.choices] | None if option.choices else usual
    spec = typer.Option(
        *option.flags, help=option.help, metavar=option.metavar or None, show_default=bool(default) and kind == "str"
    )
    empty = default if default or kind == "bool" else None
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=empty, annotation=Annotated[hint, spec])


def given_values(values: Mapping[str, Any]) -> Given:
    """What the command line really said: a 0 counts, an option that was left out does not."""
    return {name: value for name, value in values.items() if value not in (None, "", []) and value is not False}


def run_options(given: Mapping[str, Any]) -> RunOptions:
    """The options a command line stands for."""
    values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in given.items()}
    return RunOptions(**values)


def options_before(ctx: typer.Context, **own: Any) -> RunOptions:
    """The options before a command, and over them its own."""
    return run_options({**(ctx.obj or {}), **{name: value for name, value in own.items() if value}})


def folder(given: Path | None) -> Path:
    """A folder that was named, else the one the person is in."""
    return Path(os.path.realpath(os.path.expanduser(given or paths.here())))  # which leaves ~nobody as it is


def ask_line(question: str) -> str:
    """What the person at the terminal types; the end of the input ends the command."""
    try:
        return input(question).strip()
    except EOFError:
        raise typer.Abort from None


class _Help:
    """Options in their groups; `Examples:` of the help text and what follows it come last, as they are written.

    An empty value is refused: most likely it is a variable that is not set, and nobody can guess what it held.
    """

    def __init__(self, *args: Any, help: str | None = None, **options: Any) -> None:
        text, _, examples = (help or "").partition("\n\nExamples:\n")
        super().__init__(*args, **(options | {"help": text, "epilog": examples}))

    def parse_args(self: Any, ctx: Any, args: list[str]) -> list[str]:
        given = self.make_parser(ctx).parse_args([*args])[0]
        for option in self.params if "help" not in given else ():
            value = given.get(option.name)
            blank = value == "" or (isinstance(value, list) and "" in value)
            if blank and option.param_type_name == "option" and option.metavar != "TEXT":
                raise UserError(f"{option.opts[0]} needs a value", "It was given an empty one.")
        parsed: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        return parsed

    def format_options(self: Any, ctx: Any, formatter: Any) -> None:
        if isinstance(self, TyperGroup):
            self.format_commands(ctx, formatter)
        groups: dict[str, list[tuple[str, str]]] = {}
        parameters = self.get_params(ctx)
        group_of = _GROUP_OF if len(parameters) > _FEW else {}
        for parameter in parameters:
            if record := parameter.get_help_record(ctx):
                plain = "Arguments" if parameter.param_type_name == "argument" else "Options"
                group = next((group_of[flag] for flag in parameter.opts if flag in group_of), plain)
                groups.setdefault(group, []).append(record)
        for name in sorted(groups, key="Options".__eq__):
            with formatter.section(name):
                formatter.write_dl(groups[name])

    def format_epilog(self: Any, ctx: Any, formatter: Any) -> None:
        if self.epilog:
            formatter.write(f"\nExamples:\n{self.epilog}\n")


class HelpCommand(_Help, TyperCommand):
    """A command."""


class HelpGroup(_Help, TyperGroup):
    """A command that has commands. Alone, or with options only, it lists; without a list, it helps."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        alone = not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)
        if alone and not self.invoke_without_command and not ctx.resilient_parsing:
            if "list" in self.commands:
                args = ["list", *args]
            elif not args:
                print(ctx.get_help())
                ctx.exit()
        return super().parse_args(ctx, args)


class CommandGroup(typer.Typer):
    """The commands under one word, shown like all others."""

    def __init__(self, help: str, **options: Any) -> None:
        super().__init__(cls=HelpGroup, help=help, rich_markup_mode=None, **options)

    def command(self, name: str | None = None, **options: Any) -> Callable[[Any], Any]:
        return super().command(name, cls=HelpCommand, **options)
