"""What the model is told: prompts/*.md, the environment, and the project's AGENTS.md files."""

from __future__ import annotations

import functools
import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from cowork.core.front_matter import with_imports
from cowork.core.git import folders_down_to
from cowork.core.ports import TASK_MARK, AgentDef

KNOWLEDGE_NAMES = ("AGENTS.md", "CLAUDE.md", ".claude/CLAUDE.md")
KNOWLEDGE_BYTES = 32_000


@functools.cache
def data_root() -> Path:
    """Where prompts/ and agents/ are: inside the installed package, or the checkout's top."""
    package = Path(__file__).parent
    return package / "_data" if (package / "_data").is_dir() else package.parent


@functools.cache
def text_of(name: str) -> str:
    """The text of prompts/<name>.md."""
    return (data_root() / "prompts" / f"{name}.md").read_text(encoding="utf-8").strip()


def system_prompt(agents: Sequence[AgentDef] = ()) -> str:
    """The main agent's system prompt; it speaks of subagents only where some can be sent out.

    Task's own description says what each is for, so here they only stand by the model they run on.
    """
    if not agents:
        return text_of("system")
    models: dict[str, list[str]] = {}
    for agent in agents:
        models.setdefault("light" if agent.model == "light" else "main", []).append(agent.name)
    rows = "\n".join(f"| {model} | {', '.join(names)} |" for model, names in sorted(models.items()))
    names = {agent.name for agent in agents}  # no line may send to a type that is not there
    sends = ((line, re.search(r" → ([\w-]+)$", line)) for line in text_of("task_guidance").splitlines())
    guidance = "\n".join(line for line, to in sends if to is None or to[1] in names)
    return f"{text_of('system')}\n\n{guidance.replace('{table}', rows)}"


def child_prompt(agent: AgentDef, description: str) -> str:
    """A child's whole system prompt, to the byte."""
    return f"{agent.role}{TASK_MARK}{description}"


def environment(cwd: Path, branch: str = "") -> str:
    """Facts that hold for the whole session; said once, with the first prompt, so the cached prefix stays."""
    machine = os.uname()
    lines = [f"cwd: {cwd}", f"platform: {machine.sysname} {machine.machine}", f"date: {time.strftime('%Y-%m-%d')}"]
    lines.append(f"git branch: {branch}" if branch else "git: not a repository")
    return "<environment>\n" + "\n".join(lines) + "\n</environment>"


def knowledge_files(
    cwd: Path, user_folder: Path | None, *, trusted: bool, names: Sequence[str] = KNOWLEDGE_NAMES
) -> list[Path]:
    """AGENTS.md (else CLAUDE.md) of the user, then of each folder from the project root down to cwd.

    Behind each stands AGENTS.local.md (else CLAUDE.local.md) of the same folder, which is for one person.
    """
    folders = [user_folder] if user_folder else []
    folders += folders_down_to(cwd) if trusted else []
    local = [f"{name.removesuffix('.md')}.local.md" for name in names if "/" not in name]
    sets = [(folder, some) for folder in dict.fromkeys(folders) for some in (names, local)]
    found = (next((folder / n for n in some if (folder / n).is_file()), None) for folder, some in sets)
    return [path for path in found if path]


def knowledge(
    files: Sequence[Path], max_bytes: int = KNOWLEDGE_BYTES, may_tell: Callable[[Path], bool] = lambda path: True
) -> str:
    """The text of those files with the files they name by `@`, within bounds and without what may not be told."""
    room = max_bytes
    parts: list[str] = []
    for path in files:
        body, _ = with_imports(path, may_tell)
        data = body.encode("utf-8", "replace")
        if len(data) > room:
            body = data[:room].decode("utf-8", "ignore") + "\n[cut: larger than the room for project knowledge]"
        room -= min(room, len(data))
        if body.strip():
            parts.append(f'<instructions from="{path}">\n{body.strip()}\n</instructions>')
    return "\n\n".join(parts)
