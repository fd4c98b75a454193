"""Hooks of files: the contract as a table, what each hears, and that none of them can break or outlive a session."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from cowork.app.extend.hooks import launcher
from cowork.core.events import ToolEnded
from cowork.core.hooks import HOOK_EVENTS, HookCall, HookEvent, HookVerdict
from cowork.core.workspace import Workspace
from cowork.extensions.hooks import (
    FileHooks,
    HookRule,
    Launch,
    Launched,
    matcher_fits,
    read_answer,
    read_hooks,
)
from cowork.tools.base import TreeState
from cowork.tools.shell import jobs
from tests.e2e.test_slash_commands import chat
from tests.e2e.test_slash_commands import say as type_line
from tests.fakes.command import Command
from tests.fakes.stage import Stage, call, say, turn

BLOCKING = ("PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop", "SubagentStop", "PreCompact")
PLAIN = ("SessionStart", "UserPromptSubmit", "SubagentStart")
SUBJECTS = {"PreToolUse": "Bash", "PostToolUse": "Bash", "PermissionRequest": "Bash", "SubagentStart": "explore"}
ENDS = {
    "nothing": ("true", 30.0),
    "json": ('cat >/dev/null; printf %s "$ANSWER"', 30.0),
    "two": ("echo why >&2; exit 2", 30.0),
    "one": ("echo oops >&2; exit 1", 30.0),
    "late": ("sleep 60", 0.5),
    "flood": ("yes | head -c 3000000", 30.0),
    "crash": ("kill -9 $$", 30.0),
}


@pytest_asyncio.fixture
async def launch(tmp_path: Path) -> AsyncIterator[Launch]:
    tree = TreeState(tmp_path / "scratch", {"PATH": "/usr/bin:/bin"})
    yield launcher(tree, Workspace(tmp_path))
    await jobs.close(tree)


def hooks(launch: Launch, root: Path, *rules: HookRule) -> tuple[FileHooks, list[str]]:
    said: list[str] = []
    return FileHooks(lambda: rules, facts, (root, root / "data"), launch, said.append), said


def facts(mode: str = "ask") -> dict[str, Any]:
    told = {"session_id": "s1", "transcript_path": "/log", "permission_mode": mode}
    return {**told, "model": "", "turn_id": "0"}


def answer(event: str) -> dict[str, Any]:
    """A JSON answer that says no where the event can, and something for the model."""
    more: dict[str, Any] = {"hookEventName": event, "additionalContext": "note"}
    if event == "PreToolUse":
        return {"hookSpecificOutput": {**more, "permissionDecision": "deny", "permissionDecisionReason": "why"}}
    if event == "PermissionRequest":
        return {"hookSpecificOutput": {**more, "decision": {"behavior": "deny", "message": "why"}}}
    return {"decision": "block", "reason": "why", "hookSpecificOutput": more}


def expected(event: str, end: str) -> HookVerdict:
    if event == "Notification":
        return HookVerdict()
    if end == "json":
        can = event in BLOCKING or event == "PermissionRequest"
        return HookVerdict("deny" if can else "", "why", context="note")
    if end == "two" and event in BLOCKING:
        return HookVerdict("deny", "why")
    if end == "flood" and event in PLAIN:
        return HookVerdict(context=("y\n" * 5_000))
    return HookVerdict()


# In the normal run the events take turns in who they happen to; all of both in `make soak`.
CONTRACT = [(event, agent) for event in HOOK_EVENTS for agent in ("main", "main/explore-1")]


@pytest.mark.soak
@pytest.mark.parametrize(("event", "agent"), CONTRACT if os.environ.get("COWORK_SOAK") else CONTRACT[::3])
async def test_the_contract(launch: Launch, tmp_path: Path, event: HookEvent, agent: str) -> None:
    subject = SUBJECTS.get(event, "")

    async def one(end: str) -> tuple[HookVerdict, list[str]]:
        command, seconds = ENDS[end]
        line = command.replace('"$ANSWER"', "'" + json.dumps(answer(event)) + "'")
        files, said = hooks(launch, tmp_path, HookRule(event, "", line, timeout=seconds))
        verdict = await files.fire(HookCall(event, subject, {}, agent))
        await asyncio.gather(*files._beside)
        return verdict, said

    found = await asyncio.gather(*map(one, ENDS))
    for end, (verdict, said) in zip(ENDS, found, strict=True):
        assert verdict == expected(event, end), end
        assert bool(said) == (end in ("one", "late", "crash")), (end, said)


# What Codex's published schemas allow in each event's input. They are closed: nothing else may be there.
CALL = {"tool_name": str, "tool_input": dict}
STOP = {"stop_hook_active": bool, "last_assistant_message": str}
WHO = {"agent_id": str, "agent_type": str}
TURN = {"turn_id": str, "model": str}
MODE = {"permission_mode": str}
FIELDS: dict[str, dict[str, type]] = {
    "SessionStart": {"source": str, "model": str} | MODE,
    "SessionEnd": {"reason": str},
    "UserPromptSubmit": {"prompt": str} | TURN | MODE,
    "PreToolUse": {"tool_use_id": str} | CALL | TURN | MODE,
    "PermissionRequest": CALL | TURN | MODE,
    "PostToolUse": {"tool_use_id": str, "tool_response": dict} | CALL | TURN | MODE,
    "Stop": STOP | TURN | MODE,
    "SubagentStart": WHO | TURN | MODE,
    "SubagentStop": {"agent_transcript_path": str} | WHO | STOP | TURN | MODE,
    "PreCompact": {"trigger": str} | TURN,
}
COMMON = {"session_id": str, "transcript_path": str, "cwd": str, "hook_event_name": str}
OF_CHILDREN = ("UserPromptSubmit", "PreToolUse", "PermissionRequest", "PostToolUse", "PreCompact")
WORDS = {
    "permission_mode": ("default", "acceptEdits", "plan", "dontAsk", "bypassPermissions"),
    "source": ("startup", "resume", "clear", "compact"), "trigger": ("manual", "auto"), "reason": ("other",),
}  # fmt: skip


def refused_by_codex(given: dict[str, Any]) -> list[str]:
    """Why a closed schema of Codex would not have this input."""
    event = given["hook_event_name"]
    required = COMMON | FIELDS[event]
    wrong = [name for name, kind in required.items() if not isinstance(given.get(name), kind)]
    wrong += set(given) - set(required) - set(WHO if event in OF_CHILDREN else ())
    return wrong + [name for name, words in WORDS.items() if name in given and given[name] not in words]


async def test_hooks_hear_what_they_need_from_a_real_turn(stage: Stage, launch: Launch) -> None:
    heard = stage.folder / "heard"
    rules = [HookRule(event, "", f"cat >>{heard}; echo >>{heard}") for event in FIELDS]  # type: ignore[arg-type]
    stage.hooks, said = hooks(launch, stage.workspace.root, *rules)
    order = call("Task", description="look", prompt="look", subagent_type="explore")
    write = call("Write", file_path="a.txt", content="x")
    children = {"explore": [turn(call("LS", path=".")), say("seen")]}
    turns = [turn(write), turn(call("Bash", command="echo hi")), turn(order), say("done")]
    await stage.play("go", turns, children, answer="once")
    inputs = [json.loads(line) for line in heard.read_text().splitlines()]
    assert {given["hook_event_name"] for given in inputs} == set(FIELDS) - {"SessionStart", "SessionEnd", "PreCompact"}
    assert [wrong for given in inputs if (wrong := refused_by_codex(given))] == []
    of_child = [given for given in inputs if given.get("agent_id")]
    assert {given["agent_type"] for given in of_child} == {"explore"}
    assert ("PreToolUse", "LS") in [(g["hook_event_name"], g.get("tool_name")) for g in of_child]
    after = [given for given in inputs if given["hook_event_name"] == "PostToolUse"]
    (told,) = [given["tool_response"] for given in after if given["tool_name"] == "Bash"]
    assert (told["stdout"], told["stderr"], told["interrupted"]) == ("hi", "", False)
    (told,) = [given["tool_response"] for given in after if given["tool_name"] == "Write"]
    assert told["filePath"].endswith("a.txt")
    assert said == []


def test_hooks_of_codex_hear_its_words_and_those_of_claude_more(tmp_path: Path, launch: Launch) -> None:
    files = FileHooks(list, lambda: facts("auto"), (tmp_path, tmp_path), launch, lambda text: None)
    calls = [
        HookCall("SessionEnd", "clear", {"reason": "clear"}),
        HookCall("SessionStart", "clear", {"source": "clear"}),
        HookCall("PreCompact", "manual", {"trigger": "manual", "custom_instructions": "the tests"}),
        HookCall("PreCompact", "auto", {"trigger": "auto", "custom_instructions": ""}, "main/explore-1"),
    ]
    assert [wrong for call in calls if (wrong := refused_by_codex(files.input_for(call, "codex")))] == []
    assert [files.input_for(call).get("reason") for call in calls] == ["clear", None, None, None]
    assert files.input_for(calls[2])["custom_instructions"] == "the tests"
    path = tmp_path / "hooks.json"
    path.write_text('{"contract": "codex", "hooks": {"Stop": [{"hooks": [{"command": "x"}]}]}}')
    assert [rule.contract for rule in read_hooks(path, "user")[0]] == ["codex"]


async def test_a_denied_call_of_a_child_is_refused(stage: Stage, launch: Launch) -> None:
    stage.hooks, _ = hooks(launch, stage.workspace.root, HookRule("PreToolUse", "LS|Glob", "echo no >&2; exit 2"))
    order = call("Task", description="look", prompt="look", subagent_type="explore")
    children = {"explore": [turn(call("LS", path=".")), say("refused")]}
    story = await stage.play("go", [turn(order), say("done")], children)
    (ended,) = [e for e in story.of(ToolEnded) if e.name == "LS"]
    assert ended.record["error"]["code"] == "PERMISSION_DENIED"


async def test_hooks_run_side_by_side_and_the_same_command_once(launch: Launch, tmp_path: Path) -> None:
    # Each waits for the other's file: one after another they would never end.
    met = "touch {0}; while [ ! -e {1} ]; do sleep 0.01; done"
    rules = [HookRule("Stop", "", met.format(a, b), timeout=60) for a, b in (("x", "y"), ("y", "x"))]
    once = HookRule("Stop", "", "echo >>count")
    files, said = hooks(launch, tmp_path, *rules, once, once)
    await files.fire(HookCall("Stop"))
    assert said == []
    assert (tmp_path / "count").read_text() == "\n"


async def test_a_hook_outlives_nobody(launch: Launch, tmp_path: Path) -> None:
    line = "sleep 300 & echo $! >pid; (setsid sleep 300 &); wait"
    files, _ = hooks(launch, tmp_path, HookRule("Stop", "", line, timeout=60))
    task = asyncio.create_task(files.fire(HookCall("Stop")))
    pid = tmp_path / "pid"
    await asyncio.to_thread(until, lambda: pid.exists() and bool(pid.read_text().strip()))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()


def until(seen: Callable[[], bool]) -> None:
    """Wait for something another process does."""
    deadline = time.monotonic() + 60
    while not seen():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("matcher", "subject", "fits"),
    [
        ("", "Bash", True), ("*", "Bash", True), ("Bash", "Bash", True), ("Bash", "BashOutput", False),
        ("Edit|Write", "Write", True), ("Edit, Write", "Write", True), ("^Web", "WebFetch", True),
        ("mcp__git__.*", "mcp__git__log", True), ("Edit.*", "MultiEdit", True),
        ("code-reviewer", "senior-code-reviewer", False), ("Agent", "Task", True), ("^(Agent|Task)$", "Task", True),
        ("KillShell|Write", "KillBash", True), ("Task", "Agent", False),
        ("^(?!Task$)", "Task", False), ("^(?!Task$)", "Bash", True),
    ],
)  # fmt: skip
def test_matchers(matcher: str, subject: str, fits: bool) -> None:
    assert matcher_fits(matcher, subject) is fits


@pytest.mark.parametrize(
    ("condition", "given", "fits"),
    [
        ("Bash(git *)", {"command": "FOO=1 git push"}, True), ("Bash(git:*)", {"command": "ls && git log"}, True),
        ("Bash(rm *)", {"command": "echo $(rm -rf x)"}, True), ("Bash(rm *)", {"command": "echo rm"}, False),
        ("Edit(*.ts)", {"file_path": "/a/b.ts"}, False), ("Bash", {"command": "x"}, True),
    ],
)  # fmt: skip
def test_conditions(condition: str, given: dict[str, str], fits: bool) -> None:
    rule = HookRule("PreToolUse", "", "x", condition=condition)
    assert rule.matches("PreToolUse", "Bash", {"tool_input": given}) is fits


def test_a_time_that_was_meant_as_milliseconds_leaves_the_hook(tmp_path: Path) -> None:
    path = tmp_path / "hooks.json"
    path.write_text('{"hooks": {"Stop": [{"hooks": [{"command": "x", "timeout": 60000}]}]}}')
    (rule,), (problem,) = read_hooks(path, "user")
    assert (rule.timeout, problem.fatal) == (3600, False)
    assert problem.message == "Stop: timeout: 60000 is over the maximum; using 3600"


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("{", 1, "is not JSON"),
        ('{"hooks": []}', 1, "must be an object"),
        ('{"hooks":\n{"PreToolUse": {}}}', 2, "must be a list"),
        ('{"hooks": {"Nope": []}}', 1, "is no event here"),
        ('{"hooks": {"Stop": [{"hooks": [{"type": "http", "url": "x"}]}]}}', 1, "are not run here"),
        ('{"hooks": {"Stop": [{"hooks": [{"type": "command"}]}]}}', 1, "has no command"),
        ('{"hooks": {"Stop": [{"matcher": "(", "hooks": []}]}}', 1, "no regular expression"),
        ('{"hooks": {"Stop": [{"hooks": [{"command": "x", "timeout": -1}]}]}}', 1, "timeout must be"),
        ("[" * 100_000, 1, ""),
    ],
)
def test_a_bad_file_of_hooks_says_where_and_leaves_the_others(tmp_path: Path, text: str, line: int, said: str) -> None:
    path = tmp_path / "hooks.json"
    path.write_text(text)
    rules, (problem,) = read_hooks(path, "user")
    assert (rules, problem.line) == ([], line)
    assert said in problem.message


@pytest.mark.parametrize(
    ("event", "said", "verdict"),
    [
        ("PreToolUse", {"decision": "approve"}, HookVerdict("allow")),
        ("PreToolUse", {"hookSpecificOutput": {"updatedInput": {"a": 1}}}, HookVerdict(updated_input={"a": 1})),
        ("PreToolUse", {"hookSpecificOutput": {"hookEventName": "Stop", "permissionDecision": "allow"}}, HookVerdict()),
        ("PreToolUse", {"hookSpecificOutput": {"permissionDecision": "maybe"}}, HookVerdict()),
        ("PostToolUse", {"hookSpecificOutput": {"updatedToolOutput": {"stdout": "x"}}}, HookVerdict(output="x")),
        ("Stop", {"continue": False, "stopReason": "enough"}, HookVerdict(stop="enough")),
        ("PermissionRequest", {"hookSpecificOutput": {"decision": {"behavior": "allow"}}}, HookVerdict("allow")),
        ("SessionEnd", {"decision": "block", "reason": "x"}, HookVerdict(reason="x")),
    ],
)
def test_answers(event: HookEvent, said: dict[str, Any], verdict: HookVerdict) -> None:
    assert read_answer(event, Launched(0, json.dumps(said)), 1)[0] == verdict


def test_exit_two_is_stronger_than_an_allow() -> None:
    allow = json.dumps({"hookSpecificOutput": {"permissionDecision": "allow"}})
    assert read_answer("PreToolUse", Launched(2, allow, "no"), 1)[0] == HookVerdict("deny", "no")


def test_nothing_of_an_untrusted_folder_runs_and_keys_stay_home(command: Command) -> None:
    made = command.folder / "made"
    (command.folder / ".claude").mkdir()
    hook = {"type": "command", "command": f"env >{made}; echo from-the-hook"}
    settings = {"hooks": {event: [{"hooks": [hook]}] for event in HOOK_EVENTS}}
    (command.folder / ".claude/settings.json").write_text(json.dumps(settings))
    keys = {"ANTHROPIC_API_KEY": "sk-never", "MY_TOKEN": "never-too"}
    script = [{"call": {"LS": {"path": "."}}}, {"say": "ok"}]
    command.play(script, env=keys)
    assert not made.exists()
    done = command.play(script, "--trust", env=keys)
    assert "sk-never" not in made.read_text()
    assert "never-too" not in made.read_text()
    assert "from-the-hook" in done.of("prompt.added")[0]["context"]
    assert [e for e in done.of("notice") if e["code"] == "hook"] == []


@pytest.mark.parametrize(
    "name", [".cowork/hooks.json", ".claude/settings.json", ".cowork/plugins/acme/hooks/hooks.json"]
)
def test_hooks_of_a_project_run_beside_their_folder_wherever_the_run_starts(command: Command, name: str) -> None:
    top, sub = command.folder, command.folder / "sub"
    for folder in (top / ".git", sub / ".cowork", (top / name).parent):
        folder.mkdir(parents=True, exist_ok=True)
    if "plugins" in name:
        (top / ".cowork/plugins/acme/.claude-plugin").mkdir()
        (top / ".cowork/plugins/acme/.claude-plugin/plugin.json").write_text('{"name": "acme"}')
    for folder, file in ((top, top / name), (sub, sub / ".cowork/hooks.json")):
        (folder / "note.sh").write_text('{ pwd; echo "$CLAUDE_PROJECT_DIR"; echo "$COWORK_PROJECT_DIR"; cat; } >heard')
        rule = {"matcher": "Bash", "hooks": [{"command": "sh ./note.sh"}]}
        file.write_text(json.dumps({"hooks": {"PreToolUse": [rule]}}))
    below = Command(sub, command.home)
    done = below.play([{"call": {"Bash": {"command": "ls"}}}, {"say": "ok"}], "--trust")
    assert done.record("Bash")["status"] == "success"
    for folder in (top, sub):
        *said, told = (folder / "heard").read_text().splitlines()
        assert said == [str(folder)] * 3
        assert json.loads(told)["cwd"] == str(sub)


def test_a_session_says_why_it_ended_and_how_the_next_began(tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    note = {"command": f"cat >>{heard}; echo >>{heard}", "timeout": 60}
    hooks = {
        "SessionStart": [{"hooks": [note]}],
        "SessionEnd": [{"matcher": "clear|prompt_input_exit", "hooks": [note]}],
    }
    (tmp_path / "home").mkdir()
    (tmp_path / "home/hooks.json").write_text(json.dumps({"hooks": hooks}))
    with chat(tmp_path) as terminal:
        type_line(terminal, "hello", "The first answer.")
        type_line(terminal, "/clear", "A new conversation.")
        terminal.type("/exit", "<Enter>")
        terminal.wait_exit()
    told = [json.loads(line) for line in heard.read_text().splitlines()]
    assert [(t["hook_event_name"], t.get("source") or t["reason"]) for t in told] == [
        ("SessionStart", "startup"), ("SessionEnd", "clear"), ("SessionStart", "clear"),
        ("SessionEnd", "prompt_input_exit"),
    ]  # fmt: skip
    assert len({t["session_id"] for t in told}) == 2
