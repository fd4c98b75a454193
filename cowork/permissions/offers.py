"""The exact rule an "always" would add for a command."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from cowork.core.errors import UserError
from cowork.permissions.rules import allows, parse_all
from cowork.permissions.shell.follow import INTERPRETERS, SHELLS, program
from cowork.permissions.shell.hints import in_workspace
from cowork.permissions.shell.parse import names

_TOOLS = names("pytest ruff mypy eslint prettier tsc jest vitest black flake8 pyright tox nox curl wget")
# First words that say what a command does and let no later word run something else: a prefix is a fair grant. Of the
# others only the exact command is. A build or a test runs the project's own code, which is what the person grants.
_PREFIXES = {
    "git": names(
        "add commit status switch checkout restore branch stash tag merge revert cherry-pick reset rm mv push pull"
        " fetch rebase diff log show grep blame clone"
    ),
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), names("test ci run run-script install add")),
    **dict.fromkeys(("uv", "poetry", "pdm", "hatch", "pipenv"), names("run sync lock install")),
    "cargo": names("build check test clippy fmt doc bench run fetch"),
    "go": names("build test vet fmt list get"),
    **dict.fromkeys(
        ("mvn", "mvnw", "gradle", "gradlew", "dotnet", "mix"), names("test build check compile verify package")
    ),
    "bundle": names("exec install"),
    **dict.fromkeys(("pip", "pip3"), names("list show freeze install")),
    "pre-commit": names("run"),
    "terraform": names("plan validate fmt"),
    **dict.fromkeys(("docker", "podman"), names("ps images logs inspect build compose stats version info")),
    **dict.fromkeys(("kubectl", "gh"), names("get describe logs pr issue run repo")),
    **dict.fromkeys(("npx", "bunx"), _TOOLS),
}
_NAMED_NEXT = names("run run-script exec pr issue repo compose")  # and the word after it is part of what is granted
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_.][\w.:/@-]*")


def offer(tool: str, argv: Sequence[str], cwd: Path, root: Path) -> str:
    """A prefix where the first words say what a command does, else the exact command; nothing where neither can be."""
    words = list(argv)
    if not words or any(re.search(r"[\n*?]", word) for word in words):
        return ""
    if program(words[0]) in INTERPRETERS | SHELLS and all(word.startswith("-") for word in words[1:]):
        return ""  # it runs what it is fed
    if file := in_workspace(words[0], cwd, [root]):
        shown = str(file.relative_to(root))
        words[0] = shown if "/" in shown else f"./{shown}"
    name = os.path.basename(words[0])
    patterns = [shlex.join(words)]
    if name in _TOOLS:
        patterns = [f"{shlex.quote(words[0])}:*"]
    elif len(words) > 1 and words[1] in _PREFIXES.get(name, ()):
        length = 3 if words[1] in _NAMED_NEXT and name != "cargo" else 2
        first = words[:length]
        runs_anything = len(first) > 2 and program(first[2]) in INTERPRETERS | SHELLS
        if len(first) == length and all(map(_PLAIN_WORD.fullmatch, first)) and not runs_anything:
            patterns.insert(0, f"{' '.join(first)}:*")
    offers = (f"{tool}({pattern})" for pattern in patterns)
    return next((rule for rule in offers if _is_one(rule, argv, cwd, root)), "")


def _is_one(rule: str, argv: Sequence[str], cwd: Path, root: Path) -> bool:
    """Whether a text, read back, is one rule and covers this command."""
    try:
        read = parse_all(rule) if len(rule) <= 200 else []
    except UserError:
        return False
    return [str(one) for one in read] == [rule] and allows(read[0], argv, cwd, root)
