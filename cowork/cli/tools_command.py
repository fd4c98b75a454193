"""`cowork tools`: what the model can use."""

from __future__ import annotations

import os
import re
from typing import Annotated, Any

import typer

TOOLS_EXAMPLES = """
Examples:
  cowork tools                 names, parameters and what each is for
  cowork tools Bash            what the model reads about one tool
  cowork tools --json          names, descriptions and schemas"""


def tools(
    name: Annotated[str | None, typer.Argument(help="One tool, in full.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Names, descriptions and schemas.")] = False,
) -> int:
    """List the tools the model can use."""
    from cowork.app.project import load_project, offered_specs
    from cowork.config.options import RunOptions
    from cowork.core.errors import UserError
    from cowork.core.hygiene import ascii_json

    project = load_project(RunOptions(), os.environ)
    known = {spec.name: (spec.description, spec.schema) for spec in offered_specs(project)}
    if name is not None:
        found = next((tool for tool in known if tool.lower() == name.lower()), None)
        if found is None:
            raise UserError(f"there is no tool {name}", f"There are: {', '.join(known)}.")
        known = {found: known[found]}
    if as_json:
        print(ascii_json([{"name": tool, "description": text, "input_schema": s} for tool, (text, s) in known.items()]))
    elif name is not None:
        for tool, (text, schema) in known.items():
            print(f"{tool}({_parameters(schema)})\n\n{text}")
    else:
        for tool, (text, schema) in known.items():
            print(f"{tool}({_parameters(schema)})\n    {_first_sentence(text)}")
    return 0


def _parameters(schema: dict[str, Any]) -> str:
    required = schema.get("required", ())
    return ", ".join(name if name in required else f"{name}?" for name in schema.get("properties", {}))


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.;:]) ", text.splitlines()[0], maxsplit=1)[0].rstrip(";:")
