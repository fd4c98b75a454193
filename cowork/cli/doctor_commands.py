"""`cowork doctor` and `cowork demo`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from cowork.config import paths
from cowork.core import signals
from cowork.core.hygiene import ascii_json

DOCTOR_EXAMPLES = """
Examples:
  cowork doctor                   what works, what does not, and how to mend it
  cowork doctor --json            the same for a script
  cowork doctor --session k3f7    what is wrong with a stored session

Exit code 1 when something is marked ✗. It sends nothing but a connection to the services you configured."""

DEMO_EXAMPLES = """
Examples:
  cowork demo           two minutes in a scratch repository, with a scripted model
  cowork demo | cat     the same as plain lines"""


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    session: Annotated[str, typer.Option("--session", metavar="ID", help="Examine this stored session.")] = "",
    cwd: Annotated[Path | None, typer.Option("--cwd", "-C", metavar="DIR", help="Folder of the project.")] = None,
) -> int:
    """Check the installation, the settings, the model and this folder."""
    from cowork.app.onboarding import doctor as app

    root = Path(os.path.realpath(cwd or paths.here()))
    checks = app.session(os.environ, session) if session else signals.run(app.examine(os.environ, root))
    bad = any(check.state == "bad" for check in checks)
    if as_json:
        print(ascii_json({"ok": not bad, "checks": [check.to_dict() for check in checks]}))
    else:
        print(app.plain(checks))
    return 1 if bad else 0


def demo(
    pace: Annotated[
        float, typer.Option("--pace", help="1 is a person's pace, 0.5 twice as fast.", min=0.1, max=3)
    ] = 1.0,
) -> int:
    """Show what cowork is like: a short tour that plays by itself and leaves nothing behind."""
    from cowork.app.onboarding.demo import play

    return play(pace)
