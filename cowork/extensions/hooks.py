"""Hooks: read from files as `hooks.Event[] = {matcher, hooks: [{type: "command", command, timeout}]}`; each command is
told what happens as JSON, and its exit code and answer are read."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from cowork.core.blocks import Json, as_object
from cowork.core.front_matter import BadFile, Problem, json_of_file, line_of
from cowork.core.frozen import frozen
from cowork.core.hooks import HOOK_EVENTS, HookCall, HookEvent, Hooks, HookVerdict, join_verdicts
from cowork.core.ports import AgentOrigin
from cowork.tool_names import tool_names

Contract = Literal["claude", "codex"]
_LIST = re.compile(r"[\w ,|-]*")
_USUAL_SECONDS = {"UserPromptSubmit": 30.0, "SessionEnd": 1.5}
SECONDS = 600.0  # for other events, as people who bring hooks along are used to
_MOST_SECONDS = 3600.0
MOST_TEXT = 10_000  # characters of what a hook says
BLOCKED = 2  # the exit code that says no
# Where an exit code of 2 says no; elsewhere it is told to the person and changes nothing.
_BLOCKING = ("PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop", "SubagentStop", "PreCompact")
_PLAIN_CONTEXT = ("SessionStart", "UserPromptSubmit", "SubagentStart")  # text that is no JSON is for the model
_UNTOLD = {"model": ("SessionEnd",), "turn_id": ("SessionStart", "SessionEnd", "Notification")}  # with these events
_UNTOLD |= {"permission_mode": ("PreCompact", "SessionEnd")}
_MODES = {"ask": "default", "accept-edits": "acceptEdits", "bypass": "bypassPermissions"}
_DECISIONS: dict[Any, Literal["", "allow", "ask", "deny"]] = {None: "", "": "", "defer": "", "ask": "ask"}
_DECISIONS |= {"allow": "allow", "approve": "allow", "deny": "deny", "block": "deny"}


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

    def folder(self, root: Path) -> Path:
        """Where it runs: a project's beside the `.claude`, `.agents` or `.cowork` it is from, others in the root."""
        if self.origin != "project":
            return root
        return self.plugin_root.parents[2] if self.plugin_root else self.path.parents[1]

    def matches(self, event: HookEvent, subject: str, data: Mapping[str, Any] | None = None) -> bool:
        """Whether it wants to hear of this; without `data` its condition is not asked."""
        if event != self.event or not matcher_fits(self.matcher, subject):
            return False
        return data is None or not self.condition or holds(self.condition, subject, data)


def matcher_fits(matcher: str, subject: str) -> bool:
    """Whether a matcher speaks of a name: all for `*`, a list of exact names, else a regular expression."""
    if matcher in ("", "*"):
        return True
    names = tool_names(subject)
    if _LIST.fullmatch(matcher):
        return any(name in names for name in re.split(r"\s*[,|]\s*", matcher.strip()))
    # Another name counts only where it is written out: `^(?!Task$)` does not speak of Task because of an alias.
    return any(re.search(matcher, name) for name in names if name == subject or name in matcher)


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
    rules, problems = list[HookRule](), list[Problem]()
    if origin == "project" and not plugin_root and found.get("permissions"):
        hint = "Write deny and ask rules into .cowork/config.toml; allow rules work only in your own config.toml"
        problems.append(Problem(path, line_of(text, "permissions"), "permissions: not used here", False, hint=hint))
    contract: Contract = "codex" if found.get("contract") == "codex" else "claude"
    for event, groups in hooks.items() if found.get("disableAllHooks") is not True else ():
        line = line_of(text, event)
        for facts in _read_event(event, groups):
            if isinstance(facts, BadFile):  # a hint: what is none of ours, or is mended
                message = f"{event}: {facts.message}"
                problems.append(Problem(path, line, message, fatal=not facts.hint, hint=facts.hint))
                continue
            facts |= {"line": line_of(text, facts["command"], line), "plugin_root": plugin_root}
            rules.append(HookRule(event, path=path, origin=origin, contract=contract, **facts))
    return rules, problems


def _read_event(event: str, groups: Any) -> Iterator[dict[str, Any] | BadFile]:
    """What the hooks of an event say of themselves, and why some cannot be used."""
    if event not in HOOK_EVENTS:
        yield BadFile(1, "is no event here", f"There are {', '.join(HOOK_EVENTS)}")
        return
    for group in groups if isinstance(groups, list) else [None]:
        if not isinstance(group, dict) or not isinstance(group.get("hooks"), list):
            yield BadFile(1, "must be a list of {matcher, hooks: [...]}")
            continue
        matcher = str(group.get("matcher") or "")
        try:
            matcher_fits(matcher, "")
        except re.error as error:
            yield BadFile(1, f"matcher {matcher!r} is no regular expression: {error}")
            continue
        for hook in group["hooks"]:
            try:
                facts = {"matcher": matcher, **_read_hook(event, hook)}
            except BadFile as bad:
                yield bad
                continue
            if facts["timeout"] > _MOST_SECONDS:
                yield BadFile(
                    1, f"timeout: {facts['timeout']:g} is over the maximum; using {_MOST_SECONDS:g}", "Give seconds"
                )
            yield facts | {"timeout": min(facts["timeout"], _MOST_SECONDS)}


def _read_hook(event: str, hook: Any) -> dict[str, Any]:
    if not isinstance(hook, dict) or hook.get("type", "command") != "command":
        kind = hook.get("type") if isinstance(hook, dict) else type(hook).__name__
        raise BadFile(1, f"hooks of type {kind!r} are not run here", 'Write type "command"')
    command, args = hook.get("command"), hook.get("args")
    if not isinstance(command, str) or not command.strip():
        raise BadFile(1, "a hook has no command")
    if args is not None and not (isinstance(args, list) and all(isinstance(a, str) for a in args)):
        raise BadFile(1, "args must be a list of texts")
    timeout = hook.get("timeout", _USUAL_SECONDS.get(event, SECONDS))
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
        raise BadFile(1, f"timeout must be seconds, at most {_MOST_SECONDS:g}")
    waits, condition = not (hook.get("async") or hook.get("asyncRewake")), str(hook.get("if") or "")
    words = None if args is None else tuple(args)
    return {"command": command, "args": words, "timeout": float(timeout), "condition": condition, "waits": waits}


def holds(condition: str, tool: str, data: Mapping[str, Any]) -> bool:
    """Whether `Tool(pattern)` fits a call: each part of a command line, or the path of a file. In doubt it does."""
    match = re.fullmatch(r"\s*([\w*-]+)\s*(?:\((.*)\))?\s*", condition, re.DOTALL)
    if match is None:
        return True
    if not any(fnmatchcase(name, match[1]) for name in tool_names(tool)):
        return False
    pattern, given = (match[2] or "*").replace(":*", "*"), as_object(data.get("tool_input"))
    if isinstance(given.get("command"), str):
        parts = re.split(r"&&|\|\||[;|\n()`]|\$\(", given["command"])
        parts = [re.sub(r"^(?:\w+=\S*\s+)*", "", part.strip()) for part in parts]
        return any(fnmatchcase(part, pattern) or fnmatchcase(f"{part} ", pattern) for part in parts)
    target = str(given.get("file_path") or given.get("path") or "")
    return not target or fnmatchcase(target, pattern) or fnmatchcase(target, f"*/{pattern.removeprefix('./')}")


@frozen
class Launched:
    """How a program ended."""

    code: int | None  # None: it did not end by itself
    out: str = ""
    err: str = ""
    timed_out: bool = False


Launch = Callable[[str, bytes, Path, Mapping[str, str], float], Awaitable[Launched]]
"""(shell line, input, folder, more environment, seconds) -> how it ended."""


class FileHooks(Hooks):
    """The hooks of a session's files. Those that match run side by side; one that fails is told and changes nothing."""

    def __init__(
        self,
        rules: Callable[[], Sequence[HookRule]],
        facts: Callable[[], Json],  # what every hook is told, whatever happens
        folders: tuple[Path, Path],  # the project's, and where plugins keep what they make
        launch: Launch,
        warn: Callable[[str], None],
    ) -> None:
        self._rules, self._facts, self._launch, self._warn = rules, facts, launch, warn
        self._root, self._plugin_data = folders
        self._beside: set[asyncio.Task[HookVerdict]] = set()

    def listens(self, event: HookEvent, subject: str = "") -> bool:
        return any(rule.matches(event, subject) for rule in self._rules())

    async def fire(self, call: HookCall) -> HookVerdict:
        """Run what matches, each command once, and join what they say."""
        wanted = [rule for rule in self._rules() if rule.matches(call.event, call.subject, call.data)]
        rules = {(rule.command, rule.args, rule.plugin_root, rule.folder(self._root)): rule for rule in wanted}.values()
        waits = [rule for rule in rules if rule.waits and call.event != "Notification"]
        for rule in rules:
            if rule not in waits:
                task = asyncio.create_task(self._run(rule, call))
                self._beside.add(task)
                task.add_done_callback(self._beside.discard)
        return join_verdicts(await asyncio.gather(*(self._run(rule, call) for rule in waits)))

    async def aclose(self) -> None:
        """Let what runs beside the session end, or end it."""
        if self._beside:
            _, late = await asyncio.wait(self._beside, timeout=1)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def input_for(self, call: HookCall, contract: Contract = "claude") -> Json:
        """The input of a hook."""
        facts = self._facts()
        mode = facts["permission_mode"]
        facts |= {"cwd": str(self._root), "hook_event_name": call.event, "permission_mode": _MODES.get(mode, mode)}
        said = {name: value for name, value in facts.items() if call.event not in _UNTOLD.get(name, ())}
        if call.agent_id:
            said |= {"agent_id": call.agent_id, "agent_type": call.agent_id.rpartition("-")[0]}
        if call.event == "SubagentStop":
            said["agent_transcript_path"] = said["transcript_path"]  # one log holds all
        said |= call.data
        if contract == "codex":  # its schemas are closed, and have fewer words than Claude's contract
            said.pop("custom_instructions", None)
            said |= {"reason": "other"} if call.event == "SessionEnd" else {}
            said |= {"permission_mode": "acceptEdits"} if said.get("permission_mode") == "auto" else {}
        return said

    async def _run(self, rule: HookRule, call: HookCall) -> HookVerdict:
        given = json.dumps(self.input_for(call, rule.contract)).encode()
        folder = rule.folder(self._root)
        environ = {"CLAUDE_PROJECT_DIR": str(folder), "COWORK_PROJECT_DIR": str(folder)}
        if rule.plugin_root:
            data = self._plugin_data / rule.plugin_root.name
            own = {"PLUGIN_ROOT": str(rule.plugin_root), "PLUGIN_DATA": str(data)}
            environ |= own | {f"CLAUDE_{name}": value for name, value in own.items()}
        try:
            ended = await self._launch(shell_line(rule, environ), given, folder, environ, rule.timeout)
        except Exception as error:  # whatever a hook does, the session goes on
            self._warn(f"The hook {rule.name} could not be run: {error} ({rule.path}:{rule.line})")
            return HookVerdict()
        verdict, wrong = read_answer(call.event, ended, rule.timeout)
        for text in wrong:
            self._warn(f"The hook {rule.name} {text} ({rule.path}:{rule.line})")
        return verdict


def shell_line(rule: HookRule, environ: Mapping[str, str]) -> str:
    """The shell line that runs a hook; with `args` nothing of it is a shell's to interpret."""

    def fill(text: str) -> str:
        for name, value in environ.items():
            text = text.replace(f"${{{name}}}", value)
        return text

    if rule.args is None:
        return fill(rule.command) if rule.plugin_root else rule.command
    return shlex.join(fill(word) for word in (rule.command, *rule.args))


def read_answer(event: HookEvent, ended: Launched, seconds: float) -> tuple[HookVerdict, list[str]]:
    """What a hook's end means, and what is wrong with it, for the person."""
    if ended.timed_out:
        return HookVerdict(), [f"took longer than {seconds:g} s and was ended; what it said does not count"]
    out, err = ended.out.strip(), ended.err.strip()[:MOST_TEXT]
    said: Any = None
    wrong: list[str] = []
    if out.startswith("{"):
        with suppress(ValueError, RecursionError):
            said = json.loads(out)
    verdict = _of_json(event, said, wrong) if isinstance(said, dict) else HookVerdict()
    if ended.code == BLOCKED and event in _BLOCKING:
        reason = verdict.reason if verdict.decision == "deny" else err or "it gave no reason"
        return HookVerdict("deny", reason, context=verdict.context, stop=verdict.stop), wrong
    if said is None and ended.code == 0 and out and event in _PLAIN_CONTEXT:
        return HookVerdict(context=out[:MOST_TEXT]), wrong
    if ended.code not in (0, BLOCKED) and not isinstance(said, dict):
        how = f"ended with exit code {ended.code}" if ended.code is not None else "was killed"
        wrong.append(f"{how}{': ' + err.splitlines()[0][:200] if err else ''}")
    return verdict, wrong


def _of_json(event: HookEvent, said: Json, wrong: list[str]) -> HookVerdict:
    more = as_object(said.get("hookSpecificOutput"))
    if more.get("hookEventName", event) != event:
        wrong.append(f"answered for {more['hookEventName']}, not {event}; that part does not count")
        more = {}
    word, reason, updated = said.get("decision"), said.get("reason"), None  # as each event spells them
    if event == "PreToolUse":
        word = more.get("permissionDecision") or word
        reason, updated = more.get("permissionDecisionReason") or reason, more.get("updatedInput")
    elif event == "PermissionRequest":
        inner = as_object(more.get("decision"))
        word, reason, updated = inner.get("behavior"), inner.get("message"), inner.get("updatedInput")
    elif event not in _BLOCKING:
        word = None
    decision = _DECISIONS.get(word if isinstance(word, str | None) else "?")
    if decision is None:
        wrong.append("gave a decision that is not known; it does not count")
    if updated is not None and not isinstance(updated, dict):
        wrong.append("gave an updatedInput that is no object; it does not count")
        updated = None
    if message := said.get("systemMessage"):
        wrong.append(f"says: {str(message)[:MOST_TEXT]}")
    stop = str(said.get("stopReason") or "A hook stopped it.") if said.get("continue") is False else ""
    output = more.get("updatedToolOutput")
    if output is not None and not isinstance(output, str):
        output = str(output.get("stdout")) if isinstance(output, dict) and "stdout" in output else json.dumps(output)
    context = str(more.get("additionalContext") or "")[:MOST_TEXT]
    return HookVerdict(decision or "", str(reason or "")[:MOST_TEXT], updated, context, output, stop[:MOST_TEXT])
