"""Runs the hooks of files: tells each command what happens as JSON, and reads its exit code and answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cowork.core.blocks import Json, as_object
from cowork.core.frozen import frozen
from cowork.core.hooks import HookCall, HookEvent, HookVerdict, joined

if TYPE_CHECKING:
    from cowork.extensions.hook_files import Contract, HookRule

MOST_TEXT = 10_000  # characters of what a hook says
BLOCKED = 2  # the exit code that says no
# Where an exit code of 2 says no; elsewhere it is told to the person and changes nothing.
_BLOCKING = ("PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop", "SubagentStop", "PreCompact")
_PLAIN_CONTEXT = ("SessionStart", "UserPromptSubmit", "SubagentStart")  # text that is no JSON is for the model
_MODES = {"ask": "default", "accept-edits": "acceptEdits", "bypass": "bypassPermissions"}


@frozen
class Launched:
    """How a program ended."""

    code: int | None  # None: it did not end by itself
    out: str = ""
    err: str = ""
    timed_out: bool = False


Launch = Callable[[str, bytes, Path, Mapping[str, str], float], Awaitable[Launched]]
"""(shell line, input, folder, more environment, seconds) -> how it ended."""


@frozen
class HookFacts:
    """What every hook is told, whatever happens."""

    session_id: str
    transcript_path: str
    root: Path
    mode: Callable[[], str]
    plugin_data: Path
    model: Callable[[], str] = lambda: ""
    turn: Callable[[], int] = lambda: 0  # the number of the prompt that is being answered


class FileHooks:
    """The hooks of a session's files. Those that match run side by side; one that fails is told and changes nothing."""

    def __init__(
        self, rules: Sequence[HookRule], facts: HookFacts, launch: Launch, warn: Callable[[str], None]
    ) -> None:
        self.rules, self.facts = tuple(rules), facts
        self._launch, self._warn = launch, warn
        self._beside: set[asyncio.Task[HookVerdict]] = set()

    def listens(self, event: HookEvent, subject: str = "") -> bool:
        return any(rule.matches(event, subject) for rule in self.rules)

    async def fire(self, call: HookCall) -> HookVerdict:
        """Run what matches, each command once, and join what they say."""
        wanted = [rule for rule in self.rules if rule.matches(call.event, call.subject, call.data)]
        rules = {(rule.command, rule.args, rule.plugin_root): rule for rule in wanted}.values()
        waits = [rule for rule in rules if rule.waits and call.event != "Notification"]
        for rule in rules:
            if rule not in waits:
                task = asyncio.create_task(self._run(rule, call))
                self._beside.add(task)
                task.add_done_callback(self._beside.discard)
        return joined(await asyncio.gather(*(self._run(rule, call) for rule in waits)))

    async def aclose(self) -> None:
        """Let what runs beside the session end, or end it."""
        if self._beside:
            _, late = await asyncio.wait(self._beside, timeout=1)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    def told(self, call: HookCall, contract: Contract = "claude") -> Json:
        """The input of a hook."""
        mode = self.facts.mode()
        said: Json = {
            "session_id": self.facts.session_id,
            "transcript_path": self.facts.transcript_path or None,
            "cwd": str(self.facts.root),
            "hook_event_name": call.event,
        }
        if call.event != "SessionEnd":
            said["model"] = self.facts.model()
        if call.event not in ("SessionStart", "SessionEnd", "Notification"):
            said["turn_id"] = str(self.facts.turn())
        if call.event not in ("PreCompact", "SessionEnd"):
            said["permission_mode"] = _MODES.get(mode, mode)
        if call.agent_id:
            said |= {"agent_id": call.agent_id, "agent_type": call.agent_id.rpartition("-")[0]}
        if call.event == "SubagentStop":
            said["agent_transcript_path"] = self.facts.transcript_path or None  # one log holds all
        said |= call.data
        return _for_codex(said) if contract == "codex" else said

    async def _run(self, rule: HookRule, call: HookCall) -> HookVerdict:
        given = json.dumps(self.told(call, rule.contract)).encode()
        environ = {"CLAUDE_PROJECT_DIR": str(self.facts.root), "COWORK_PROJECT_DIR": str(self.facts.root)}
        if rule.plugin_root:
            own = {
                "PLUGIN_ROOT": str(rule.plugin_root),
                "PLUGIN_DATA": str(self.facts.plugin_data / rule.plugin_root.name),
            }
            environ |= own | {f"CLAUDE_{name}": value for name, value in own.items()}
        try:
            ended = await self._launch(line_of(rule, environ), given, self.facts.root, environ, rule.timeout)
        except Exception as error:  # whatever a hook does, the session goes on
            self._warn(f"The hook {rule.name} could not be run: {error} ({rule.path}:{rule.line})")
            return HookVerdict()
        verdict, wrong = read_answer(call.event, ended, rule.timeout)
        for text in wrong:
            self._warn(f"The hook {rule.name} {text} ({rule.path}:{rule.line})")
        return verdict


def _for_codex(said: Json) -> Json:
    """An input as Codex's schemas know it: they are closed, and have fewer words than Claude's contract."""
    known = {name: value for name, value in said.items() if name != "custom_instructions"}
    if known["hook_event_name"] == "SessionEnd":
        known["reason"] = "other"
    if known.get("permission_mode") == "auto":
        known["permission_mode"] = "acceptEdits"
    return known


def line_of(rule: HookRule, environ: Mapping[str, str]) -> str:
    """The shell line that runs a hook; with `args` nothing of it is a shell's to interpret."""

    def fill(text: str) -> str:
        for name, value in environ.items():
            text = text.replace(f"${{{name}}}", value)
        return text

    if rule.args is None:
        return fill(rule.command) if rule.plugin_root else rule.command
    return " ".join(quoted(fill(word)) for word in (rule.command, *rule.args))


def quoted(word: str) -> str:
    """A word that a shell takes as it is."""
    return "'" + word.replace("'", "'\\''") + "'"


def read_answer(event: HookEvent, ended: Launched, seconds: float) -> tuple[HookVerdict, list[str]]:
    """What a hook's end means, and what is wrong with it, for the person."""
    if ended.timed_out:
        return HookVerdict(), [f"took longer than {seconds:g} s and was ended; what it said does not count"]
    out, err = ended.out.strip(), ended.err.strip()[:MOST_TEXT]
    said: Any = None
    wrong: list[str] = []
    if out.startswith("{"):
        try:
            said = json.loads(out)
        except (ValueError, RecursionError):
            said = None
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
    decision, reason, updated = _decision(event, said, more)
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
    return HookVerdict(decision or "", reason[:MOST_TEXT], updated, context, output, stop[:MOST_TEXT])


def _decision(event: HookEvent, said: Json, more: Json) -> tuple[Literal["", "allow", "ask", "deny"] | None, str, Any]:
    """(decision, None for one that is not known; reason; other arguments) as each event spells them."""
    word, reason, updated = said.get("decision"), said.get("reason"), None
    if event == "PreToolUse":
        word = more.get("permissionDecision") or word
        reason, updated = more.get("permissionDecisionReason") or reason, more.get("updatedInput")
    elif event == "PermissionRequest":
        inner = as_object(more.get("decision"))
        word, reason, updated = inner.get("behavior"), inner.get("message"), inner.get("updatedInput")
    elif event not in _BLOCKING:
        word = None
    known: dict[Any, Literal["", "allow", "ask", "deny"]] = {
        None: "", "": "", "defer": "", "allow": "allow", "approve": "allow", "ask": "ask", "deny": "deny",
        "block": "deny",
    }  # fmt: skip
    return known.get(word if isinstance(word, str | None) else "?"), str(reason or ""), updated
