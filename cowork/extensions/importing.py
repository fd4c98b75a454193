"""Takes over what people wrote for another agent program: a plan first, and nothing that exists is changed."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from cowork.core.blocks import Json, as_object
from cowork.core.errors import UserError
from cowork.core.front_matter import BadFile, files_below, json_of_file, text_of_file
from cowork.core.frozen import frozen

_MOST_BYTES = 4 << 20
PROGRAMS = ("claude", "codex", "gemini", "opencode")
_NOTES = {"claude": "CLAUDE.md", "codex": "AGENTS.md", "gemini": "GEMINI.md", "opencode": "AGENTS.md"}
_HOMES = {"claude": ".claude", "codex": ".codex", "gemini": ".gemini", "opencode": ".config/opencode"}


@frozen
class ImportStep:
    """One thing of the other program: copied, written, used where it is, or without a counterpart here."""

    kind: str  # agent, command, skill, hooks, server, permissions, notes, setting
    name: str
    action: Literal["copy", "write", "server", "used as it is", "no counterpart"]
    source: Path
    target: Path | None = None
    text: str = ""  # to write; of a server, its entry as JSON
    why: str = ""


def plan(program: str, home: Path, own: Path) -> list[ImportStep]:
    """What `cowork import` would do; `own` is the folder of cowork's settings."""
    base = home / _HOMES[program]
    if not base.is_dir():
        raise UserError(f"There is nothing of {program} here: {base} is no folder.")
    steps = list({"claude": _claude, "codex": _codex, "gemini": _gemini, "opencode": _opencode}[program](base, own))
    notes = base / _NOTES[program]
    if notes.is_file():
        steps.append(ImportStep("notes", notes.name, "copy", notes, own / "AGENTS.md"))
    taken: set[Path] = set()
    for at, step in enumerate(steps):
        if step.target and (step.target in taken or step.target.exists()):
            steps[at] = refused(step, f"{step.target} exists already and stays")
        elif step.target:
            taken.add(step.target)
    return steps


def refused(step: ImportStep, why: str) -> ImportStep:
    """The step as one that is not done."""
    return replace(step, action="no counterpart", target=None, text="", why=why)


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
            _put(step.target, step.text.encode() if step.action == "write" else step.source.read_bytes())
        done.append(step)
    return done


def _put(target: Path, data: bytes) -> None:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with target.open("xb") as file:  # what exists stays as it is
        file.write(data)


def _claude(base: Path, own: Path) -> Iterator[ImportStep]:
    for kind in ("agents", "commands", "skills"):
        pattern = "SKILL.md" if kind == "skills" else "*.md"
        for path in files_below(base / kind, pattern):
            name = path.parent.name if kind == "skills" else path.stem
            yield ImportStep(kind[:-1], name, "used as it is", path)
    settings = base / "settings.json"
    found = yield from _settings(settings)
    if hooks := as_object(found.get("hooks")):
        yield ImportStep("hooks", ", ".join(hooks), "used as it is", settings)
    yield from _permissions(as_object(found.get("permissions")), settings, own)
    if command := as_object(found.get("statusLine")).get("command"):
        set_it = f'statusline_command = "{command}" under [ui] of config.toml'
        yield ImportStep("setting", "statusLine", "no counterpart", settings, why=f"write {set_it}")
    yield from _left(found, settings, ("hooks", "permissions", "statusLine", "$schema"))
    outside = base.parent / ".claude.json"
    yield from _servers(_read(outside).get("mcpServers"), outside)


def _codex(base: Path, own: Path) -> Iterator[ImportStep]:
    yield from _copies("command", base / "prompts", own / "commands")
    yield from _copies("skill", base / "skills", own / "skills")
    if hooks := _read(base / "hooks.json"):
        text = json.dumps({"contract": "codex", **hooks}, indent=2, ensure_ascii=False) + "\n"
        yield ImportStep("hooks", "hooks.json", "write", base / "hooks.json", own / "hooks.json", text)
    path = base / "config.toml"
    found = yield from _settings(path)
    yield from _servers(found.get("mcp_servers"), path)
    yield from _left(found, path, ("mcp_servers",))


def _gemini(base: Path, own: Path) -> Iterator[ImportStep]:
    yield from _copies("agent", base / "agents", own / "agents")
    yield from _copies("skill", base / "skills", own / "skills")
    for path in files_below(base / "commands", "*.toml"):
        name = path.relative_to(base / "commands").with_suffix("")
        try:
            found = tomllib.loads(text_of_file(path))
            text = _gemini_command(found)
        except (BadFile, ValueError, KeyError) as error:
            yield ImportStep("command", str(name), "no counterpart", path, why=f"cannot be read: {error}")
            continue
        yield ImportStep("command", str(name), "write", path, (own / "commands" / name).with_suffix(".md"), text)
    settings = base / "settings.json"
    found = yield from _settings(settings)
    yield from _servers(found.get("mcpServers"), settings)
    yield from _left(found, settings, ("mcpServers",))


def _gemini_command(found: Mapping[str, Any]) -> str:
    prompt = str(found["prompt"]).replace("{{args}}", "$ARGUMENTS")
    prompt = re.sub(r"!\{([^}\n]*)\}", r"!`\1`", prompt)
    prompt = re.sub(r"@\{([^}\n]*)\}", r"@\1", prompt)
    return f"---\ndescription: {json.dumps(str(found.get('description', '')), ensure_ascii=False)}\n---\n{prompt}\n"


def _opencode(base: Path, own: Path) -> Iterator[ImportStep]:
    for kind in ("agent", "command", "skill"):
        for folder in (kind, f"{kind}s"):
            yield from _copies(kind, base / folder, own / f"{kind}s")
    path = next((base / name for name in ("opencode.json", "opencode.jsonc") if (base / name).is_file()), base)
    found = yield from _settings(path)
    servers = {}
    for name, raw in as_object(found.get("mcp")).items():
        entry = as_object(raw)
        words = entry["command"] if isinstance(entry.get("command"), list) else []
        local = {"type": "stdio", "command": "".join(words[:1]), "args": words[1:]}
        local |= {"env": entry.get("environment") or {}}
        remote = {"type": "http", "url": entry.get("url"), "headers": entry.get("headers") or {}}
        servers[name] = local if entry.get("type") == "local" else remote
    yield from _servers(servers, path)
    yield from _left(found, path, ("mcp", "$schema"))


def _copies(kind: str, folder: Path, target: Path) -> Iterator[ImportStep]:
    if kind == "skill":
        for path in files_below(folder, "SKILL.md"):
            yield ImportStep(kind, path.parent.name, "copy", path.parent, target / path.parent.name)
        return
    for path in files_below(folder):
        yield ImportStep(kind, path.stem, "copy", path, target / path.relative_to(folder))


def _servers(found: Any, path: Path) -> Iterator[ImportStep]:
    for name, entry in as_object(found).items():
        if isinstance(entry, dict):
            yield ImportStep("server", str(name), "server", path, text=json.dumps(_adapted(entry)))


def _permissions(found: Json, path: Path, own: Path) -> Iterator[ImportStep]:
    lists = {key: found[key] for key in ("allow", "ask", "deny") if isinstance(found.get(key), list)}
    if lists:
        lines = [f"{key} = {json.dumps(list(map(_rule, rules)))}\n" for key, rules in lists.items()]
        text = "[permissions]\n" + "".join(lines)
        yield ImportStep("permissions", ", ".join(lists), "write", path, own / "config.toml", text)


def _rule(rule: object) -> str:
    return re.sub(r" \*\)$", ":*)", str(rule))


def _left(found: Json, path: Path, known: tuple[str, ...]) -> Iterator[ImportStep]:
    for key in found:
        if key not in known:
            yield ImportStep(
                "setting", str(key), "no counterpart", path, why="`cowork config show` lists what can be set"
            )


def _settings(path: Path) -> Generator[ImportStep, None, Json]:
    """What a file of settings holds; that it cannot be read is a step of its own."""
    try:
        return _loaded(path) if path.is_file() else {}
    except BadFile as bad:
        yield ImportStep("setting", path.name, "no counterpart", path, why=f"cannot be read: {bad.message}")
        return {}


def _read(path: Path) -> Json:
    """What a JSON or TOML file holds; nothing when it cannot be read."""
    try:
        return _loaded(path)
    except BadFile:
        return {}


def _loaded(path: Path) -> Json:
    if path.suffix != ".toml":
        return json_of_file(path, _MOST_BYTES, comments=True)[0]
    try:
        return tomllib.loads(text_of_file(path, _MOST_BYTES))
    except (ValueError, RecursionError) as error:
        raise BadFile(1, f"is not TOML: {error}") from error


# ------------------------------------------------------------ servers


def servers_elsewhere(root: Path, home: Path) -> list[tuple[str, str, Json]]:
    """(program, name, entry) of the MCP servers that other programs have, for everywhere and for this folder."""
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
        table: Any = _read(path)
        for key in keys:
            table = as_object(table).get(key)
        found += [(program, step.name, json.loads(step.text)) for step in _servers(table, path)]
    return found


def _adapted(entry: Json) -> Json:
    """An entry in the form of .mcp.json."""
    kept = {key: entry[key] for key in ("type", "command", "args", "env", "cwd", "url", "headers") if key in entry}
    if isinstance(entry.get("http_headers"), dict):
        kept["headers"] = entry["http_headers"]
    if variable := entry.get("bearer_token_env_var"):
        kept["headers"] = {**as_object(kept.get("headers")), "Authorization": f"Bearer ${{{variable}}}"}
    return dict(json.loads(json.dumps(kept).replace("${env:", "${")))
