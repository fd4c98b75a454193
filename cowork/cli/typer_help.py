"""How commands look in typer: options made from the table of `RunOptions`, help in groups with examples."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand, TyperGroup

from cowork.config.options import Option, RunOptions, options_of
from cowork.core.errors import UserError

_TYPES: Mapping[str, Any] = {
    "str": str | None,
    "bool": bool,
    "Path | None": Path | None,
    "int | None": int | None,
    "float | None": float | None,
    "tuple[str, ...]": list[str] | None,
}
_GROUP_OF: dict[str, str] = {flag: entry[3].group for entry in options_of(chat=False) for flag in entry[3].flags}

_FEW = 12  # options that need no groups


def with_options(*, chat: bool, left_out: Collection[str] = ()) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the options of the table; it receives them, and those before the command, as one mapping."""

    def make(function: Callable[..., Any]) -> Callable[..., Any]:
        own = [p for p in inspect.signature(function, eval_str=True).parameters.values() if p.name != "given"]
        table = {entry[0]: entry for entry in options_of(chat=chat) if entry[0] not in left_out}

        takes_context = any(p.name == "ctx" for p in own)

        def command(**values: Any) -> Any:
            context = values["ctx"] if takes_context else values.pop("ctx")
            before = {name: value for name, value in (context.obj or {}).items() if name in table}
            given = {name: values.pop(name) for name in table}
            return function(**values, given=before | said(given))

        context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        parameters = [*([] if takes_context else [context]), *own, *(_parameter(*entry) for entry in table.values())]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in parameters}
        command.__name__, command.__doc__ = function.__name__, function.__doc__
        return command

    return make


def said(values: Mapping[str, Any]) -> dict[str, Any]:
    """What the command line really said: a 0 counts, an option that was left out does not."""
    for name, _, _, option in options_of(chat=False):
        value = values.get(name)
        blank = value == "" or (isinstance(value, list) and "" in value)
        if blank and option.metavar != "TEXT":  # most likely a variable that is not set; do not guess what it held
            raise UserError(f"{option.flags[0]} needs a value", "It was given an empty one.")
    return {name: value for name, value in values.items() if value not in (None, "", []) and value is not False}


def made(given: Mapping[str, Any]) -> RunOptions:
    """The options a command line stands for."""
    values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in given.items()}
    return RunOptions(**values)


def ask_line(question: str) -> str:
    """What the person at the terminal types; the end of the input ends the command."""
    try:
        return input(question).strip()
    except EOFError:
        raise typer.Abort from None


class HelpCommand(TyperCommand):
    """A command whose options are shown in their groups, examples last."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _grouped(self, ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        _examples(self.epilog, formatter)


class HelpGroup(TyperGroup):
    """The same for a command that has commands. Alone, or with options only, it lists; without a list, it helps."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        alone = not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)
        if alone and not self.invoke_without_command and not ctx.resilient_parsing:
            if "list" in self.commands:
                args = ["list", *args]
            elif not args:
                print(ctx.get_help())
                ctx.exit()
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        self.format_commands(ctx, formatter)
        _grouped(self, ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        _examples(self.epilog, formatter)


class CommandGroup(typer.Typer):
    """The commands under one word, shown like all others; without one, its help unless it is told otherwise."""

    def __init__(self, help: str, epilog: str, **options: Any) -> None:
        usual = {"no_args_is_help": not options.get("invoke_without_command"), "rich_markup_mode": None}
        super().__init__(cls=HelpGroup, help=help, epilog=epilog, **(usual | options))

    def command(self, name: str | None = None, **options: Any) -> Callable[[Any], Any]:
        return super().command(name, **({"cls": HelpCommand} | options))


Cwd = Annotated[Path | None, typer.Option("--cwd", "-C", metavar="DIR", help="Folder of the project.")]
AsJson = Annotated[bool, typer.Option("--json", help="For programs.")]


def _parameter(name: str, kind: str, default: Any, option: Option) -> inspect.Parameter:
    hint: Any = Literal[option.choices] | None if option.choices else _TYPES[kind]
    spec = typer.Option(
        *option.flags, help=option.help, metavar=option.metavar or None, show_default=bool(default) and kind == "str"
    )
    empty = default if default or kind == "bool" else None
    annotation = Annotated[hint, spec]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=empty, annotation=annotation)


def _grouped(command: Any, ctx: Any, formatter: Any) -> None:
    groups: dict[str, list[tuple[str, str]]] = {}
    parameters = command.get_params(ctx)
    group_of = _GROUP_OF if len(parameters) > _FEW else {}
    for parameter in parameters:
        record = parameter.get_help_record(ctx)
        if record is None:
            continue
        plain = "Arguments" if parameter.param_type_name == "argument" else "Options"
        group = next((group_of[flag] for flag in parameter.opts if flag in group_of), plain)
        groups.setdefault(group, []).append(record)
    last = {"Options": groups.pop("Options")} if "Options" in groups else {}
    for name, records in (groups | last).items():
        with formatter.section(name):
            formatter.write_dl(records)


def _examples(epilog: str | None, formatter: Any) -> None:
    if not epilog:
        return
    formatter.write_paragraph()
    for line in epilog.strip("\n").splitlines():
        formatter.write(f"{line}\n")
