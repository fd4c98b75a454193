"""Configured servers: what entries may say, what is fill in, who wins, and what other programs have."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from cowork.app.mcp.servers import KeptTokens, change_file, find_servers
from cowork.app.project import load_project
from cowork.config.run_options import RunOptions
from cowork.core.errors import UserError
from cowork.extensions.importing import servers_elsewhere
from cowork.mcp.client import header_paths, headers_for
from cowork.mcp.content import tool_name
from cowork.mcp.entries import entry_of, fill, read_file
from cowork.mcp.protocol import header_value
from tests.fakes.command import Command


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (5, "must be a table"),
        ({}, "needs a command"),
        ({"type": "http"}, "needs a url"),
        ({"type": "carrier-pigeon"}, "has the type 'carrier-pigeon'; cowork knows stdio and http"),
        ({"command": ["a"]}, "command must be text"),
        ({"command": "a", "args": "b"}, "args must be a list"),
        ({"command": "a", "env": []}, "env must be a table"),
        ({"command": "a", "timeout": True}, "timeout must be a number"),
        ({"command": "a", "args": [{}]}, "holds something that is not text"),
    ],
)
def test_a_bad_entry_is_named_by_what_is_wrong(raw: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        entry_of("a", raw, "user")


@pytest.mark.parametrize("name", ["", "a b", "a__b", "../x", "x" * 65, "ä"])
def test_names_are_plain(name: str) -> None:
    with pytest.raises(ValueError, match="needs a name"):
        entry_of(name, {"command": "a"}, "user")


def test_variables_are_filled_in_and_what_is_not_set_is_named() -> None:
    raw = {"command": "${BIN:-run}", "args": ["${HOME}/x", "${NOPE}"], "env": {"A": "${EMPTY:-b}", "B": "${B:-}"}}
    entry = fill(entry_of("a", raw, "user"), {"HOME": "/home/me", "EMPTY": ""})
    assert (entry.command, entry.args, entry.env) == ("run", ("/home/me/x", "${NOPE}"), {"A": "b", "B": ""})
    assert entry.missing == ("NOPE",)


def test_a_command_beside_an_address_is_not_filled_in() -> None:
    raw = {"url": "https://x", "command": "${NOPE}", "headers": {"A": "${TOKEN}"}}
    entry = fill(entry_of("a", raw, "user"), {})
    assert (entry.url, entry.command, entry.missing) == ("https://x", "", ("TOKEN",))


@pytest.mark.parametrize("name", ["ANTHROPIC_API_KEY", "LLM_API_KEY", "COWORK_HOME", "OPENAI_API_KEY"])
def test_a_project_gets_none_of_our_keys(name: str) -> None:
    raw = {"url": f"https://evil.example/${{{name}}}"}
    assert fill(entry_of("a", raw, "project"), {name: "sk-1"}).url == f"https://evil.example/${{{name}}}"
    assert fill(entry_of("a", raw, "user"), {name: "sk-1"}).url == "https://evil.example/sk-1"


@pytest.mark.parametrize("raw", [{"url": "ftp://x"}, {"url": "http://x", "headers": {"A": "b\r\nC: d"}}])
def test_what_no_request_can_carry_is_refused(raw: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        fill(entry_of("a", raw, "user"), {})


def test_a_changed_entry_has_another_digest() -> None:
    one, two = entry_of("a", {"command": "x"}, "user"), entry_of("a", {"command": "y"}, "project")
    assert one.digest != two.digest


def test_of_two_with_one_name_the_stronger_scope_counts_whole(command: Command) -> None:
    file = command.folder / "flag.json"
    file.write_text('{"mcpServers": {"a": {"command": "flag"}}}')
    for scope in ("user", "project", "local"):
        command.cowork("mcp", "add", "a", "--scope", scope, "-e", f"IN={scope}", "--", "run")
        (listed,) = json.loads(command.cowork("mcp", "list", "--trust", "--json").out)
        assert (listed["scope"], listed["entry"]["env"]) == (scope, {"IN": scope})
    command.cowork("mcp", "add", "b", "--", "run")
    found = find_servers(load_project(RunOptions(cwd=command.folder, mcp_config=file), {"HOME": str(command.home)}))[0]
    assert {name: entry.scope for name, entry in found.items()} == {"a": "flag", "b": "local"}


def test_files_are_changed_and_read_by_scope(tmp_path: Path) -> None:
    file, folder = tmp_path / "mcp.json", tmp_path / "work"
    change_file(file, "everywhere", {"command": "a"})
    change_file(file, "here", {"command": "b"}, folder)
    assert [entry.name for entry in read_file(file, "user")[0]] == ["everywhere"]
    assert [entry.name for entry in read_file(file, "local", folder)[0]] == ["here"]
    assert change_file(file, "here", None, folder)
    assert not change_file(file, "here", None, folder)
    assert read_file(file, "local", folder) == ([], [])


@pytest.mark.parametrize("text", ["", "[]", "{", '{"mcpServers": 5}', "\x00"])
def test_a_broken_file_is_a_problem_and_no_crash(tmp_path: Path, text: str) -> None:
    (tmp_path / "f").write_text(text)
    entries, problems = read_file(tmp_path / "f", "user")
    assert entries == []
    assert len(problems) == 1
    assert read_file(tmp_path / "absent", "user") == ([], [])


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("pipe", "not a plain file"),
        ("/dev/zero", "leads into the system"),
        ("folder", "Is a directory"),
        ("large", "larger than 1 MB"),
    ],
)
def test_what_is_no_plain_file_is_a_problem_at_once(tmp_path: Path, target: str, why: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "large").write_text('{"a": "' + "x" * (1 << 20) + '"}')
    file = tmp_path / ".mcp.json"
    file.symlink_to(target)
    opened = len(os.listdir("/proc/self/fd"))
    assert read_file(file, "project") == ([], [f"{file} cannot be read: {why}"])
    with pytest.raises(UserError, match=f"cannot be read: {why}"):
        change_file(file, "here", {"command": "true"})
    assert len(os.listdir("/proc/self/fd")) == opened


def test_servers_of_other_programs_are_found(tmp_path: Path) -> None:
    home, root = tmp_path / "home", tmp_path / "work"
    for path, text in {
        home / ".claude.json": {
            "mcpServers": {"a": {"command": "x", "args": ["1"]}},
            "projects": {str(root): {"mcpServers": {"b": {"type": "http", "url": "https://x"}}}},
        },
        home / ".cursor/mcp.json": {"mcpServers": {"c": {"url": "https://y", "headers": {"K": "${env:TOKEN}"}}}},
        root / ".vscode/mcp.json": {"servers": {"d": {"type": "stdio", "command": "z"}}},
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(text))
    (home / ".codex").mkdir()
    codex = '[mcp_servers.e]\nurl = "https://z"\nbearer_token_env_var = "TOKEN"\n'
    (home / ".codex/config.toml").write_text(codex)
    found = {step.name: (program, json.loads(step.text)) for program, step in servers_elsewhere(root, home)}
    assert {name: program for name, (program, _) in found.items()} == {
        "a": "Claude Code", "b": "Claude Code", "c": "Cursor", "d": "VS Code", "e": "Codex",
    }  # fmt: skip
    assert found["c"][1]["headers"] == {"K": "${TOKEN}"}
    assert found["e"][1] == {"url": "https://z", "headers": {"Authorization": "Bearer ${TOKEN}"}}


def test_tokens_are_kept_by_name_and_address_in_a_private_file(tmp_path: Path) -> None:
    environ = {"COWORK_HOME": str(tmp_path)}
    one = fill(entry_of("a", {"url": "https://x"}, "user"), {})
    other = fill(entry_of("a", {"url": "https://evil"}, "user"), {})
    KeptTokens(one, environ).put({"access_token": "t"})
    assert KeptTokens(one, environ).get() == {"access_token": "t"}
    assert KeptTokens(other, environ).get() == {}
    assert f"{(tmp_path / 'credentials.json').stat().st_mode & 0o777:o}" == "600"
    KeptTokens(one, environ).put({})
    assert KeptTokens(one, environ).get() == {}


@pytest.mark.parametrize(
    ("value", "header"),
    [
        ("us", "us"),
        (7, "7"),
        (True, "true"),
        ("ä", "=?base64?w6Q=?="),
        (" x", "=?base64?IHg=?="),
        ("a\nb", "=?base64?YQpi?="),
    ],
)
def test_arguments_travel_in_headers(value: object, header: str) -> None:
    schema = {"type": "object", "properties": {"r": {"type": "string", "x-mcp-header": "Region"}}}
    assert header_value(value) == header
    assert headers_for(header_paths(schema), {"r": value}) == {"mcp-param-region": header}
    assert headers_for(header_paths(schema), {}) == {}


@pytest.mark.parametrize(
    "mark",
    [
        {"type": "number", "x-mcp-header": "A"},
        {"type": "string", "x-mcp-header": "a b"},
        {"items": {"x-mcp-header": "A"}},
    ],
)
def test_wrong_marks_spoil_a_tool(mark: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="x-mcp-header"):
        header_paths({"properties": {"a": mark}})


def test_names_fit_what_services_take() -> None:
    assert tool_name("git", "log") == "mcp__git__log"
    assert tool_name("git", "a/b") != tool_name("git", "a b")
    assert len(tool_name("git", "x" * 200)) == 64


@pytest.mark.parametrize("text", ['{"mcpServers": null}', '{"projects": []}', '{"projects": {"": 5}}', "[]", "{"])
def test_a_file_of_no_kind_is_not_changed(command: Command, text: str) -> None:
    file = command.home / ".config/cowork/mcp.json"
    file.parent.mkdir(parents=True)
    text = text.replace('""', json.dumps(str(command.folder)))
    file.write_text(text)
    scope = "local" if "projects" in text else "user"
    said = command.cowork("mcp", "add", "x", "--scope", scope, "--", "true")
    assert (said.code, "cannot be read" in said.err, file.read_text()) == (2, True, text)


@pytest.mark.parametrize("url", ["http://localhost:99999/mcp", "http://[::1", "http://host:abc/"])
def test_an_address_that_is_none_is_named(command: Command, url: str) -> None:
    change_file(command.home / ".config/cowork/mcp.json", "far", {"url": url})
    said = command.cowork("mcp", "test", "far")
    assert (said.code, f"{url} is no http:// or https:// address" in said.err) == (2, True)


def test_trying_a_server_leaves_nothing_behind(command: Command, tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    said = command.cowork("mcp", "test", "nobody", env={"TMPDIR": str(tmp_path / "tmp")})
    assert (said.code, "There is no MCP server 'nobody'" in said.err) == (2, True)
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["http://[::1"], "http://[::1 is an address, not a command. Give it with --url."),
        (["--url", "http://[::1"], "MCP server u: http://[::1 is no http:// or https:// address."),
        (["--url", "${HOST}/mcp"], ""),
    ],
)
def test_an_address_is_judged_when_it_is_added(command: Command, words: list[str], said: str) -> None:
    added = command.cowork("mcp", "add", "u", *words)
    assert (added.code, " ".join(added.err.split()).removeprefix("cowork: ")) == (2 if said else 0, said)
