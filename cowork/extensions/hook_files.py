"""Hooks as files name them: `hooks.Event[] = {matcher, hooks: [{type: "command", command, timeout}]}`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from cowork.core.blocks import as_object
from cowork.core.front_matter import BadFile, Problem, json_of_file, line_of
from cowork.core.frozen import frozen
from cowork.core.hooks import HOOK_EVENTS, HookEvent
from cowork.core.ports import AgentOrigin

_LIST = re.compile(r"[\w ,|-]*")
_USUAL_SECONDS = {"UserPromptSubmit": 30.0, "SessionEnd": 1.5}
Contract = Literal["claude", "codex"]
SECONDS = 600.0  # for other events, as people who bring hooks along are used to


@frozen
class HookRule:
    """One command and the events it wants to hear of."""

    event: HookEvent
    matcher: str
    command: str
    args: tuple[str, ...] | None = None  # None: the command is a line for a shell
    timeout: float = SECONDS
    condition: str = ""  # `if`: a rule such as Bash(git *)
    waits: bool = True  # False: it runs beside the session, which does not hear what it says
    path: Path = Path()
    line: int = 1
    origin: AgentOrigin = "user"
    plugin_root: Path | None = None
    contract: Contract = "claude"

    @property
    def name(self) -> str:
        return f"{self.event}({self.matcher})" if self.matcher not in ("", "*") else self.event

    def matches(self, event: HookEvent, subject: str, data: Mapping[str, Any] | None = None) -> bool:
        """Whether it wants to hear of this; without `data` its condition is not asked."""
        if event != self.event or not matched(self.matcher, subject):
            return False
        return data is None or not self.condition or holds(self.condition, subject, data)


def matched(matcher: str, subject: str) -> bool:
    """Whether a matcher speaks of a name: all for `*`, a list of exact names, else a regular expression."""
    if matcher in ("", "*"):
        return True
    if _LIST.fullmatch(matcher):
        return subject in re.split(r"\s*[,|]\s*", matcher.strip())
    return re.search(matcher, subject) is not None


def read_hooks(
    path: Path, origin: AgentOrigin, plugin_root: Path | None = None
) -> tuple[list[HookRule], list[Problem]]:
    """The hooks of a JSON file, and what is wrong with it; a wrong hook leaves the others."""
    try:
        found, text = json_of_file(path)
    except BadFile as bad:
        return [], [bad.problem(path)]
    hooks = found.get("hooks", {})
    if not isinstance(hooks, dict):
        return [], [Problem(path, 1, "hooks: must be an object of events")]
    if found.get("disableAllHooks") is True:
        return [], []
    contract: Contract = "codex" if found.get("contract") == "codex" else "claude"
    reader = _Reader(path, text, origin, plugin_root, contract)
    for event, groups in hooks.items():
        reader.read_event(str(event), groups)
    return reader.rules, reader.problems


class _Reader:
    def __init__(
        self, path: Path, text: str, origin: AgentOrigin, plugin_root: Path | None, contract: Contract
    ) -> None:
        self.path, self.text, self.origin, self.plugin_root, self.contract = path, text, origin, plugin_root, contract
        self.rules: list[HookRule] = []
        self.problems: list[Problem] = []

    def read_event(self, event: str, groups: Any) -> None:
        line = line_of(self.text, event)
        if event not in HOOK_EVENTS:
            self._wrong(line, f"{event}: is no event here", f"There are {', '.join(HOOK_EVENTS)}", fatal=False)
            return
        for group in groups if isinstance(groups, list) else [None]:
            if not isinstance(group, dict) or not isinstance(group.get("hooks"), list):
                self._wrong(line, f"{event}: must be a list of {{matcher, hooks: [...]}}")
                continue
            matcher = group.get("matcher") or ""
            try:
                matched(str(matcher), "")
            except re.error as error:
                self._wrong(line, f"{event}: matcher {matcher!r} is no regular expression: {error}")
                continue
            for hook in group["hooks"]:
                self._read_hook(event, str(matcher), hook, line)

    def _read_hook(self, event: Any, matcher: str, hook: Any, line: int) -> None:
        if not isinstance(hook, dict) or hook.get("type", "command") != "command":
            kind = hook.get("type") if isinstance(hook, dict) else type(hook).__name__
            self._wrong(line, f"{event}: hooks of type {kind!r} are not run here", 'Write type "command"', fatal=False)
            return
        command, args = hook.get("command"), hook.get("args")
        if not isinstance(command, str) or not command.strip():
            self._wrong(line, f"{event}: a hook has no command")
            return
        if args is not None and not (isinstance(args, list) and all(isinstance(a, str) for a in args)):
            self._wrong(line, f"{event}: args must be a list of texts")
            return
        timeout = hook.get("timeout", _USUAL_SECONDS.get(event, SECONDS))
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= 3600:
            self._wrong(line, f"{event}: timeout must be seconds, at most 3600")
            return
        rule = HookRule(
            event, matcher, command, None if args is None else tuple(args), float(timeout), str(hook.get("if") or ""),
            not (hook.get("async") or hook.get("asyncRewake")), self.path, line_of(self.text, command, line),
            self.origin, self.plugin_root, self.contract,
        )  # fmt: skip
        self.rules.append(rule)

    def _wrong(self, line: int, message: str, hint: str = "", *, fatal: bool = True) -> None:
        self.problems.append(Problem(self.path, line, message, fatal=fatal, hint=hint))


def holds(condition: str, tool: str, data: Mapping[str, Any]) -> bool:
    """Whether `Tool(pattern)` fits a call: each part of a command line, or the path of a file. In doubt it does."""
    match = re.fullmatch(r"\s*([\w*-]+)\s*(?:\((.*)\))?\s*", condition, re.DOTALL)
    if match is None:
        return True
    if not fnmatchcase(tool, match[1]):
        return False
    pattern, given = (match[2] or "*").replace(":*", "*"), as_object(data.get("tool_input"))
    if isinstance(given.get("command"), str):
        parts = [
            re.sub(r"^(?:\w+=\S*\s+)*", "", p.strip()) for p in re.split(r"&&|\|\||[;|\n()`]|\$\(", given["command"])
        ]
        return any(fnmatchcase(part, pattern) or fnmatchcase(f"{part} ", pattern) for part in parts)
    target = str(given.get("file_path") or given.get("path") or "")
    return not target or fnmatchcase(target, pattern) or fnmatchcase(target, f"*/{pattern.removeprefix('./')}")
