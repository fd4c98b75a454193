"""What other agent programs write, as cowork writes it. What would not mean the same is said, never guessed."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from cowork.agents import COLORS
from cowork.core.blocks import Json, as_object
from cowork.core.front_matter import BadFile, Marked
from cowork.tool_names import PEER_NAMES

WHOLE_WORDS = "whole words only"  # covers less than before
_RENAMED = {**PEER_NAMES, "TaskStop": "KillBash", "TaskOutput": "BashOutput"}
# `git push * --force`: a rule that refuses or asks finds options wherever they stand.
_OPTIONS_LAST = re.compile(r"([^*]*\w)(?: \*)+((?: --?[A-Za-z][\w-]*)+)(?::\*)?")


def rules_of(text: str, *, guard: bool) -> tuple[list[str], str]:
    """Claude's permission rule as rules of cowork, and what is different about them.

    A guard, which refuses or asks, may come to cover more than before, a rule that allows only less. Whether they are
    rules at all is not asked here.
    """
    tool, bracket, rest = text.strip().partition("(")
    tool, pattern = _RENAMED.get(tool.strip(), tool.strip()), rest.removesuffix(")")
    if not bracket:
        return [tool], ""
    if tool != "Bash":
        if not pattern.startswith("/"):
            return [f"{tool}({pattern})"], ""
        if pattern.startswith("//"):  # from the root of the file system
            return [f"{tool}({pattern[1:]})"], ""
        here = f"{tool}(.{pattern})"  # from that of the project; people also mean the other one
        return ([here, f"{tool}({pattern})"], "in the project and from /") if guard else ([here], "")
    wanted, why = re.sub(r" \*$", ":*", pattern), ""
    if re.search(r"\w\*$", wanted):
        letters = guard and re.search(r" -[A-Za-z]+\*$", wanted)  # which it finds among others
        wanted, why = f"{wanted[:-1]}:*", "" if letters else WHOLE_WORDS
    elif guard and (found := _OPTIONS_LAST.fullmatch(wanted)):
        wanted, why = f"{found[1]}{found[2]}:*", "with anything in between"
    elif guard and (found := re.fullmatch(r"([^*]*\S) \S*[^\s\w*:]\*", wanted)):  # `rm -rf /*`, `dd if=*`
        wanted, why = f"{found[1]}:*", "whatever follows"
    return [f"{tool}({wanted})"], why


_OAUTH = {"clientId": "client_id", "clientSecret": "client_secret", "scope": "scope"}


def server_of(entry: Json) -> tuple[Json, list[str]]:
    """An MCP server in the form of .mcp.json, and the keys that have no counterpart there."""
    same = ("type", "command", "args", "env", "cwd", "url", "headers", "timeout", "alwaysLoad", "disabled")
    left = {key: value for key, value in entry.items() if key not in same}
    kept = {key: entry[key] for key in same if key in entry}
    if left.pop("enabled", True) is False:
        kept["disabled"] = True
    if address := left.pop("httpUrl", None):
        kept |= {"type": "http", "url": address}
    if isinstance(left.get("tool_timeout_sec"), int | float):
        kept["timeout"] = 1000 * left.pop("tool_timeout_sec")
    headers = {**as_object(left.pop("http_headers", {})), **_by_name(as_object(left.pop("env_http_headers", {})))}
    if variable := left.pop("bearer_token_env_var", ""):
        headers["Authorization"] = f"Bearer ${{{variable}}}"
    names = left.pop("env_vars", None)
    names = [as_object(one).get("name", one) for one in names] if isinstance(names, list) else []
    for key, more in (("headers", headers), ("env", _by_name({name: name for name in map(str, names)}))):
        if more:
            kept[key] = {**as_object(kept.get(key)), **more}
    secrets = as_object(left.get("oauth"))
    if known := {ours: secrets[theirs] for theirs, ours in _OAUTH.items() if theirs in secrets}:
        kept["oauth"] = known
        left |= {f"oauth.{key}": value for key, value in left.pop("oauth").items() if key not in _OAUTH}
    return _replaced(r"\$?\{env:(\w+)\}", kept), list(left)


def _by_name(variables: Mapping[str, Any]) -> dict[str, str]:
    """Values to fill in from variables of the environment."""
    return {key: f"${{{variable}}}" for key, variable in variables.items()}


def gemini_server(entry: Json) -> Json:
    """Gemini's entry with its `$VAR` as `${VAR}`."""
    return _replaced(r"\$([A-Za-z_]\w*)", entry)


def opencode_server(entry: Json) -> Json:
    """opencode's entry in the words of others."""
    theirs = {"environment": "env", "timeout": "startup_timeout"}  # which is not that of a call
    ours = {theirs.get(key, key): value for key, value in entry.items() if key not in ("type", "command")}
    words = entry.get("command")
    if entry.get("type") == "local" and isinstance(words, list) and words:
        return {"type": "stdio", "command": words[0], "args": words[1:], **ours}
    return {"type": "http", **ours}


def _replaced(variable: str, entry: Json) -> Json:
    """The entry with all texts that match as `${VAR}`."""
    return dict(json.loads(re.sub(variable, r"${\1}", json.dumps(entry, default=str))))


_TOOLS = {  # of opencode, then of Gemini
    "bash": "Bash",
    "edit": "Edit MultiEdit",
    "write": "Write",
    "patch": "Edit MultiEdit Write",
    "read": "Read",
    "grep": "Grep",
    "glob": "Glob",
    "list": "LS",
    "todowrite": "TodoWrite",
    "task": "Task",
    "skill": "Skill",
    "webfetch": "WebFetch",
    "websearch": "WebSearch",
    "question": "AskUser",
    "read_file": "Read",
    "read_many_files": "Read",
    "write_file": "Write",
    "replace": "Edit MultiEdit",
    "run_shell_command": "Bash",
    "grep_search": "Grep",
    "search_file_content": "Grep",
    "list_directory": "LS",
    "web_fetch": "WebFetch",
    "google_web_search": "WebSearch",
    "write_todos": "TodoWrite",
    "ask_user": "AskUser",
    "activate_skill": "Skill",
    "mcp_*": "mcp__*",
}
_PLAIN = (("mode", "subagent"), ("mode", "all"), ("kind", "local"), ("model", "inherit"))  # as agents are here


def agent_head(name: str, file: Marked) -> tuple[Json, list[str]]:
    """The front matter of an agent of opencode or Gemini as cowork reads it, and what has no counterpart there."""
    given = {key: value for key, value in file.matter.items() if (key, value) not in _PLAIN}
    if given.pop("disable", False) is True:
        raise BadFile(file.line("disable"), "it is switched off")
    if given.get("kind") == "remote":
        raise BadFile(file.line("kind"), "it is not on this machine")
    judged = given.pop("permission", None)
    judged = {"*": judged} if isinstance(judged, str) else as_object(judged)
    lists, left = _tool_lists(given.pop("tools", None), judged)
    for key, ours, times in (("steps", "max_turns", 1), ("maxSteps", "max_turns", 1), ("timeout_mins", "timeout", 60)):
        if isinstance(given.get(key), int):
            given[ours] = times * given.pop(key)
    head: Json = {key: given.pop(key) for key in ("name", "description", "max_turns", "timeout") if key in given}
    if given.get("color") in COLORS:
        head["color"] = given.pop("color")
    return {"name": name, **head, **lists}, left + _told(given)


def _tool_lists(listed: Any, judged: Json) -> tuple[Json, list[str]]:
    """`tools` or `disallowed_tools` for what is switched on or off, and what of it has no counterpart."""
    words = re.findall(r"[^\s,]+", listed) if isinstance(listed, str) else listed if isinstance(listed, list) else None
    switches = {str(key): on is not False for key, on in as_object(listed).items()}
    switches |= {str(word): True for word in words or ()}
    for key, word in judged.items():
        denied = word == "deny" or as_object(word).get("*") == "deny"
        if denied or word == "allow":
            switches |= dict.fromkeys(("edit", "write") if key == "edit" else (str(key),), not denied)
    only = not switches.pop("*", words is None)  # those that are switched on; else all but those that are off
    wanted = {key: _tools(key) for key, on in switches.items() if on is only}
    tools = list(dict.fromkeys(tool for found in wanted.values() for tool in found))
    left = [f"permission {key}" for key, word in judged.items() if word not in ("allow", "deny")]
    left += [f"tool {key}" for key, found in wanted.items() if not found]
    return {"tools" if only else "disallowed_tools": tools} if tools or only else {}, left


def _tools(name: str) -> list[str]:
    """Our tools of that name; `git_*` is all of a server."""
    server = re.fullmatch(r"(?:mcp_)?([\w-]+?)_?\*", name)
    return _TOOLS.get(name, f"mcp__{server[1]}__*" if server else "").split()


def command_head(file: Marked, agents: Collection[str]) -> tuple[Json, list[str]]:
    """The front matter of a command of opencode as cowork reads it, and what has no counterpart there."""
    given = dict(file.matter)
    head: Json = {key: given.pop(key) for key in ("description", "argument-hint") if key in given}
    named = str(given.get("agent") or "")
    agent = "general-purpose" if named == "general" else named  # our general only reads
    if agent in agents:
        head["agent"] = agent
        del given["agent"]
    if given.pop("subtask", None) is True:
        head["context"] = "fork"
    return head, _told(given)


def _told(left: Json) -> list[str]:
    return [f"{key} {value}" if isinstance(value, str | int | float) else str(key) for key, value in left.items()]
