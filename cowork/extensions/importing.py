"""Takes over what people wrote for another agent program: a plan first, and nothing that exists is changed."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from cowork.agents import read_agent
from cowork.core.blocks import Json, as_object
from cowork.core.errors import UserError
from cowork.core.front_matter import (
    BadFile,
    Marked,
    files_below,
    json_of_file,
    mention,
    mentions,
    split,
    text_of_file,
    with_imports,
)
from cowork.core.frozen import frozen
from cowork.extensions.conversion import (
    WHOLE_WORDS,
    agent_head,
    command_head,
    gemini_server,
    opencode_server,
    rules_of,
    server_of,
)
from cowork.extensions.skills import SKILL_FILE, read_skill

_MOST_BYTES = 4 << 20
_MODES = {"default": "ask", "acceptEdits": "accept-edits", "plan": "plan"}  # of Claude Code -> ours
_OTHERS = ("defaultMode", "additionalDirectories")  # keys of its permissions beside the lists
_WHY = {
    "": "`cowork config show` lists what can be set",
    "bypassPermissions": "it is never taken over; --permission-mode bypass is for one run",
    "dontAsk": "cowork asks, or refuses where nobody is there to ask",
    "model": "`cowork config init` chooses one",
    **dict.fromkeys(("permission", "tools"), "write rules for it under [permissions] of config.toml"),
    "env": "set the variables in your shell, or in the entry of the MCP server that needs them",
}
PROGRAMS = ("claude", "codex", "gemini", "opencode")
_NOTES = {"claude": "CLAUDE.md", "codex": "AGENTS.md", "gemini": "GEMINI.md", "opencode": "AGENTS.md"}
_HOMES = {"claude": ".claude", "codex": ".codex", "gemini": ".gemini", "opencode": ".config/opencode"}
Convert = Callable[[str, Marked], tuple[Json, list[str]]]  # name and file -> front matter for cowork, what is left out


@frozen
class ImportStep:
    """One thing of the other program: copied, written, used where it is, put in other words, or not taken over."""

    kind: str  # agent, command, skill, hooks, server, permissions, notes, setting
    name: str
    action: Literal["copy", "write", "server", "used as it is", "adapted", "no counterpart"]
    source: Path
    target: Path | None = None
    text: str = ""  # to write, or for the person to add; of a server, its entry as JSON
    why: str = ""
    less_guarded: bool = False  # a rule that denies or asks is gone, or covers less


def plan(
    program: str, home: Path, own: Path, why_no_rule: Callable[[str], str], agents: Collection[str]
) -> list[ImportStep]:
    """What `cowork import` would do.

    `own` is the folder of cowork's settings, `why_no_rule` judges a rule's text, `agents` are those there are already.
    """
    base = home / _HOMES[program]
    if not base.is_dir():
        raise UserError(f"There is nothing of {program} here: {base} is no folder.")
    readers: dict[str, Callable[[Path, Path], Iterator[ImportStep]]] = {
        "claude": partial(_claude, why_no_rule=why_no_rule),
        "codex": _codex,
        "gemini": _gemini,
        "opencode": partial(_opencode, agents=agents),
    }
    steps = list(readers[program](base, own))
    steps += _notes(base / _NOTES[program], own / "AGENTS.md")
    taken: set[Path] = set()
    for at, step in enumerate(steps):
        if step.target and (step.target in taken or step.target.exists()):
            here = f"{step.target} exists already and stays"
            steps[at] = _lines_to_add(step, here) if step.kind == "permissions" else refuse(step, here)
        elif step.target:
            taken.add(step.target)
    return steps


def refuse(step: ImportStep, why: str) -> ImportStep:
    """The step as one that is not done."""
    return replace(step, action="no counterpart", target=None, text="", why=why, less_guarded=False)


def apply(steps: list[ImportStep]) -> list[ImportStep]:
    """Write and copy; gives the steps that were done. Servers are for the caller to add."""
    done = []
    for step in steps:
        if step.target is None or step.action not in ("copy", "write"):
            continue
        if step.action == "copy" and step.source.is_dir():
            for path in (p for p in sorted(step.source.rglob("*")) if p.is_file() and not p.is_symlink()):
                _put(step.target / path.relative_to(step.source), path.read_bytes())
        else:
            text = step.text.encode("utf-8", "replace")
            _put(step.target, text if step.action == "write" else step.source.read_bytes())
        done.append(step)
    return done


def _put(target: Path, data: bytes) -> None:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with target.open("xb") as file:  # what exists stays as it is
        file.write(data)


def _claude(base: Path, own: Path, why_no_rule: Callable[[str], str]) -> Iterator[ImportStep]:
    for kind in ("agent", "command", "skill"):
        for step in _copies(kind, base / f"{kind}s", own):
            source = step.source / "SKILL.md" if kind == "skill" else step.source
            yield replace(step, action="used as it is", source=source, target=None) if step.target else step
    settings, outside = base / "settings.json", base.parent / ".claude.json"
    found, steps = _read(settings)
    yield from steps
    if hooks := as_object(found.get("hooks")):
        yield ImportStep("hooks", ", ".join(hooks), "used as it is", settings)
    yield from _permissions(as_object(found.get("permissions")), settings, own / "config.toml", why_no_rule)
    if command := as_object(found.get("statusLine")).get("command"):
        set_it = f"statusline_command = {_toml(str(command))} under [ui] of config.toml"
        yield ImportStep("setting", "statusLine", "no counterpart", settings, why=f"write {set_it}")
    yield from _leftovers(found, settings, ("hooks", "permissions", "statusLine", "$schema"))
    yield from _servers(_read(outside)[0].get("mcpServers"), outside)


def _permissions(given: Json, path: Path, target: Path, why_no_rule: Callable[[str], str]) -> Iterator[ImportStep]:
    """What works here, in one step; each rule that does not, or says something else here, in one of its own."""
    mode, wanted = str(given.get("defaultMode") or ""), dict[str, Any]()
    if mode in _MODES:
        wanted["mode"] = _MODES[mode]
    elif mode:
        why = _WHY.get(mode, _WHY[""])
        yield ImportStep("permissions", f"defaultMode {mode}", "no counterpart", path, why=why)
    lists = {key: given[key] for key in ("allow", "ask", "deny") if isinstance(given.get(key), list)}
    for key, rule in ((name, str(text)) for name, texts in lists.items() for text in texts):
        guard = key != "allow"
        rules, changed = rules_of(rule, guard=guard)
        step = ImportStep("permissions", f"{key} {rule}", "adapted", path, why=f"{', '.join(rules)} ({changed})")
        if why := next(filter(None, map(why_no_rule, rules)), ""):
            yield replace(refuse(step, why), less_guarded=guard)
            continue
        wanted[key] = list(dict.fromkeys((*wanted.get(key, ()), *rules)))
        if changed:
            yield replace(step, less_guarded=guard and changed == WHOLE_WORDS)
    if isinstance(folders := given.get("additionalDirectories"), list) and folders:
        wanted["add_dirs"] = list(map(str, folders))
    if wanted:
        text = "[permissions]\n" + _toml_lines(wanted)
        yield ImportStep("permissions", ", ".join(wanted), "write", path, target, text)
    rest = {f"permissions.{key}": value for key, value in given.items() if key not in (*lists, *_OTHERS)}
    yield from _leftovers(rest, path, ())


def _lines_to_add(step: ImportStep, why: str) -> ImportStep:
    """Permissions for a file that stays as it is: those it has not yet, for the person to add."""
    assert step.target
    have = as_object(_read(step.target)[0].get("permissions"))
    missing: Json = {}
    for key, value in tomllib.loads(step.text)["permissions"].items():
        known = have.get(key)
        if isinstance(value, list):
            value = [one for one in value if not isinstance(known, list) or one not in known]
        missing |= {key: value} if value and (not known or isinstance(value, list)) else {}
    if not missing:
        return replace(step, action="used as it is", target=None, text="", why=f"{step.target} has them")
    return replace(refuse(step, f"{why}; see below"), text=_toml_lines(missing))


def _toml_lines(table: Json) -> str:
    return "".join(f"{key} = {_toml(value)}\n" for key, value in table.items())


def _toml(value: str | list[str]) -> str:
    """Text, or a list of it, as TOML: JSON, but with characters beyond its 16 bits as they are."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _codex(base: Path, own: Path) -> Iterator[ImportStep]:
    yield from _copies("command", base / "prompts", own / "commands")
    yield from _copies("skill", base / "skills", own / "skills")
    if hooks := _read(base / "hooks.json")[0]:
        text = json.dumps({"contract": "codex", **hooks}, indent=2, ensure_ascii=False) + "\n"
        yield ImportStep("hooks", "hooks.json", "write", base / "hooks.json", own / "hooks.json", text)
    path = base / "config.toml"
    found, steps = _read(path)
    yield from (*steps, *_servers(found.get("mcp_servers"), path), *_leftovers(found, path, ("mcp_servers",)))


def _gemini(base: Path, own: Path) -> Iterator[ImportStep]:
    yield from _copies("agent", base / "agents", own / "agents", agent_head)
    yield from _copies("skill", base / "skills", own / "skills")
    for path in files_below(base / "commands", "*.toml"):
        name = path.relative_to(base / "commands").with_suffix("")
        try:
            found = tomllib.loads(text_of_file(path))
            prompt = str(found["prompt"]).replace("{{args}}", "$ARGUMENTS")
        except (BadFile, ValueError, KeyError) as error:
            yield ImportStep("command", str(name), "no counterpart", path, why=f"cannot be read: {error}")
            continue
        prompt = re.sub(r"!\{([^}\n]*)\}", r"!`\1`", prompt)
        prompt = re.sub(r"@\{([^}\n]*)\}", lambda match: mention(match[1]), prompt)
        described = json.dumps(str(found.get("description", "")), ensure_ascii=False)
        text = f"---\ndescription: {described}\n---\n{prompt}\n"
        target = (own / "commands" / name).with_suffix(".md")
        yield _checked(ImportStep("command", str(name), "write", path, target, text))
    path = base / "settings.json"
    found, steps = _read(path)
    listed, servers = as_object(found.get("mcp")), as_object(found.get("mcpServers"))
    only, never = (names if isinstance(names := listed.get(key), list) else [] for key in ("allowed", "excluded"))
    off = {name: {"enabled": False} for name in servers if name in never or (only and name not in only)}
    servers = {name: {**as_object(entry), **off.get(name, {})} for name, entry in servers.items()}
    yield from (*steps, *_servers(servers, path, gemini_server), *_leftovers(found, path, ("mcpServers",)))


def _opencode(base: Path, own: Path, agents: Collection[str]) -> Iterator[ImportStep]:
    known = {*agents}
    converts: dict[str, Convert | None] = {
        "agent": agent_head,
        "command": lambda name, file: command_head(file, known),
        "skill": None,
    }
    for kind, convert in converts.items():
        for step in chain(*(_copies(kind, base / name, own / f"{kind}s", convert) for name in (kind, f"{kind}s"))):
            known |= {step.name} if kind == "agent" and step.target else set()
            yield step
    path = next((base / name for name in ("opencode.json", "opencode.jsonc") if (base / name).is_file()), base)
    found, steps = _read(path)
    yield from steps
    for step in _servers(found.get("mcp"), path, opencode_server):
        why = "it reads {file:…}; put that into a variable, and ${VARIABLE} into the entry"
        yield refuse(step, why) if "{file:" in step.text else step
    yield from _leftovers(found, path, ("mcp", "$schema"))


def _copies(kind: str, folder: Path, target: Path, convert: Convert | None = None) -> Iterator[ImportStep]:
    for path in files_below(folder, "SKILL.md" if kind == "skill" else "*.md"):
        source, name = (path.parent, path.parent.name) if kind == "skill" else (path, path.relative_to(folder))
        step = ImportStep(kind, Path(name).stem if kind != "skill" else str(name), "copy", source, target / name)
        try:
            yield _checked(_converted(step, text_of_file(path), convert) if convert else step)
        except BadFile as bad:
            yield refuse(step, bad.message)


def _converted(step: ImportStep, text: str, convert: Convert) -> ImportStep:
    if step.kind == "command" and not text.startswith("---\n"):
        return step
    file = split(text)
    head, left = convert(step.name, file)
    if head == file.matter:
        return step
    lines = "".join(f"{key}: {json.dumps(value, ensure_ascii=False, default=str)}\n" for key, value in head.items())
    lost = any(name.startswith(("permission ", "tool ")) for name in left)
    text = f"---\n{lines}---{file.body}"
    return replace(step, action="write", text=text, why=_without(left), less_guarded=lost)


def _checked(step: ImportStep) -> ImportStep:
    """The step, or one that says why the file could not be used: in the words of who reads it."""
    with TemporaryDirectory() as folder:
        path = step.source / SKILL_FILE if step.source.is_dir() else step.source
        if step.action == "write":
            path = Path(folder) / path.name
            path.write_text(step.text, "utf-8", "replace")
        kind: Literal["skill", "command"] = "skill" if step.kind == "skill" else "command"
        is_agent = step.kind == "agent"
        problems = read_agent(path, "user", ())[1] if is_agent else read_skill(path, kind, step.name, "user")[1]
    return next((refuse(step, problem.message) for problem in problems if problem.fatal), step)


def _without(left: list[str]) -> str:
    return f"without {', '.join(left)}" if left else ""


def _servers(found: Any, path: Path, words: Callable[[Json], Json] = dict) -> Iterator[ImportStep]:
    """A step for each server; `words` turns what only this program writes into what several do."""
    for name, entry in as_object(found).items():
        if isinstance(entry, dict):
            kept, left = server_of(words(entry))
            said = filter(None, ("switched off, as it was" if kept.get("disabled") else "", _without(left)))
            yield ImportStep("server", str(name), "server", path, text=json.dumps(kept), why=", ".join(said))


def _leftovers(found: Json, path: Path, known: tuple[str, ...]) -> Iterator[ImportStep]:
    for key in (str(key) for key in found if key not in known):
        yield ImportStep("setting", key, "no counterpart", path, why=_WHY.get(key, _WHY[""]))


def _notes(path: Path, target: Path) -> Iterator[ImportStep]:
    """The notes with what they import in its place, for the copy has other files beside it."""
    if not path.is_file():
        return
    text, read = with_imports(path)
    step = ImportStep("notes", path.name, "copy", path, target)
    if others := [file.name for file in read][1:]:
        step = replace(step, action="write", text=text, why=f"with {', '.join(others)} in its place")
    yield step
    for name in mentions(text, markdown=True):
        file = path.parent / Path(name).expanduser()
        if file.is_file() and file.resolve() not in read:
            why = "only files below the same folder are imported; write what it says into AGENTS.md"
            yield ImportStep("notes", f"@{name}", "no counterpart", path, why=why)


def _read(path: Path) -> tuple[Json, list[ImportStep]]:
    """What a JSON or TOML file holds; that it cannot be read is a step of its own."""
    if not path.is_file():
        return {}, []
    try:
        if path.suffix == ".toml":
            return tomllib.loads(text_of_file(path, _MOST_BYTES)), []
        return json_of_file(path, _MOST_BYTES, comments=True)[0], []
    except (BadFile, ValueError, RecursionError) as error:
        why = error.message if isinstance(error, BadFile) else f"is not TOML: {error}"
        return {}, [ImportStep("setting", path.name, "no counterpart", path, why=f"cannot be read: {why}")]


def servers_elsewhere(root: Path, home: Path) -> list[tuple[str, ImportStep]]:
    """(program, step) of the MCP servers that other programs have, for everywhere and for this folder."""
    files = [
        ("Claude Code", home / ".claude.json", ("mcpServers",)),
        ("Claude Code", home / ".claude.json", ("projects", str(root), "mcpServers")),
        ("Claude Desktop", home / ".config/Claude/claude_desktop_config.json", ("mcpServers",)),
        ("Codex", home / ".codex/config.toml", ("mcp_servers",)),
        ("Cursor", home / ".cursor/mcp.json", ("mcpServers",)),
        ("Cursor", root / ".cursor/mcp.json", ("mcpServers",)),
        ("VS Code", home / ".config/Code/User/mcp.json", ("servers",)),
        ("VS Code", root / ".vscode/mcp.json", ("servers",)),
    ]
    found = []
    for program, path, keys in files:
        table: Any = _read(path)[0]
        for key in keys:
            table = as_object(table).get(key)
        found += [(program, step) for step in _servers(table, path)]
    return found
