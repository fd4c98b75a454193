"""`cowork import`: the plan is shown first, what exists stays, and what has no counterpart is said."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from tests.fakes.command import Command, Ended

AGENT = "---\nname: a\ndescription: d\n---\nrole"
SKILL = "---\nname: s\ndescription: d\n---\nDo."
TREES = {
    "claude": {
        ".claude/agents/a.md": AGENT,
        ".claude/skills/s/SKILL.md": SKILL,
        ".claude/CLAUDE.md": "Be kind.",
        ".claude/settings.json": '{"permissions": {"allow": ["Bash(git log *)"], "deny": ["Read(.env)"]}, "theme": 1}',
        ".claude.json": '{"mcpServers": {"db": {"command": "npx", "args": ["db"]}}}',
    },
    "codex": {
        ".codex/config.toml": 'model = "x"\n[mcp_servers.db]\ncommand = "npx"\n',
        ".codex/prompts/fix.md": "Fix $1",
        ".codex/skills/s/SKILL.md": SKILL,
        ".codex/AGENTS.md": "Be kind.",
    },
    "gemini": {
        ".gemini/commands/git/pr.toml": 'description = "A \\"PR\\""\nprompt = "Open {{args}} !{git log} @{a} @{b c}"',
        ".gemini/settings.json": '{"mcpServers": {"db": {"command": "npx"}}, "theme": "x"}',
        ".gemini/GEMINI.md": "Be kind.",
    },
    "opencode": {
        ".config/opencode/opencode.json": '{"mcp": {"db": {"type": "local", "command": ["npx", "db"]}}}',
        ".config/opencode/command/fix.md": "Fix $ARGUMENTS",
        ".config/opencode/agent/a.md": AGENT,
        ".config/opencode/AGENTS.md": "Be kind.",
    },
}


@pytest.mark.parametrize("program", TREES)
def test_what_another_program_has_is_taken_over(command: Command, program: str) -> None:
    for name, text in TREES[program].items():
        (command.home / name).parent.mkdir(parents=True, exist_ok=True)
        (command.home / name).write_text(text)
    own = command.home / ".config/cowork"
    shown = command.cowork("import", program)
    assert (shown.code, own.exists()) == (2, False)  # nobody said yes
    done = command.cowork("import", program, "--yes")
    assert (done.code, done.err) == (0, "")
    assert (own / "AGENTS.md").read_text() == "Be kind."
    assert json.loads((own / "mcp.json").read_text())["mcpServers"]["db"]["command"] == "npx"
    match program:
        case "claude":
            rules = tomllib.loads((own / "config.toml").read_text())["permissions"]
            assert rules == {"allow": ["Bash(git log:*)"], "deny": ["Read(.env)"]}
            assert "theme" in done.out
            assert "used as it is" in done.out
        case "gemini":
            text = (own / "commands/git/pr.md").read_text()
            assert text == '---\ndescription: "A \\"PR\\""\n---\nOpen $ARGUMENTS !`git log` @a @"b c"\n'
        case "codex":
            assert (own / "skills/s/SKILL.md").exists()
            assert (own / "commands/fix.md").read_text() == "Fix $1"
        case _:
            assert (own / "agents/a.md").read_text() == AGENT
    again = command.cowork("import", program, "--dry-run")
    assert "exists already and stays" in again.out
    assert command.cowork("extensions", "check").code == 0


SOUND = {  # as Claude writes it -> as cowork does
    "allow": {
        "Bash(npm run *)": ["Bash(npm run:*)"],
        "Bash(npm test*)": ["Bash(npm test:*)"],
        "Bash(echo 🎉:*)": ["Bash(echo 🎉:*)"],
        "KillShell": ["KillBash"],
        "AskUserQuestion": ["AskUser"],
        "Edit(/src/**)": ["Edit(./src/**)"],
        "Read(//opt/data/**)": ["Read(/opt/data/**)"],
        "mcp__git__*": ["mcp__git__*"],
    },
    "deny": {
        "Bash(rm -rf*)": ["Bash(rm -rf:*)"],
        "Bash(shred /*)": ["Bash(shred:*)"],
        "Bash(dd if=*)": ["Bash(dd:*)"],
        "Bash(git push * --force)": ["Bash(git push --force:*)"],
        "Bash(sudo*)": ["Bash(sudo:*)"],
        "Read(/keys/**)": ["Read(./keys/**)", "Read(/keys/**)"],
    },
}
UNSOUND = (
    *("Bash(git * main)", "Bash(* --version)", "Bash(find . -name '*.py')", "Bash(cd src && npm test:*)"),
    *("Bash(git commit -m ':*)", "Bash(curl http://*)", "NotebookEdit", "ExitPlanMode", "SlashCommand(/x:*)"),
    *("Skill(pdf)", "PowerShell(x:*)", "*", "mcp__a.b__c", 5),
)


def test_rules_that_work_here_are_written_and_each_other_one_is_named(command: Command) -> None:
    lists = {"allow": [*SOUND["allow"], *UNSOUND], "ask": ["Bash(git * main)"], "deny": [*SOUND["deny"], "*"]}
    done = _import(command, "claude", {".claude/settings.json": json.dumps({"permissions": lists})})
    rules = tomllib.loads((command.home / ".config/cowork/config.toml").read_text())["permissions"]
    assert rules == {key: [rule for ours in SOUND[key].values() for rule in ours] for key in SOUND}
    told = [line for line in done.out.splitlines() if "no counterpart" in line]
    assert [rule for rule in UNSOUND if not any(str(rule) in line for line in told)] == []
    assert len(told) == len(UNSOUND) + 2
    assert (
        "! 3 deny or ask rules above not imported" in done.out
    )  # of ask, of deny, and `sudo*`, which was sudoedit too
    assert command.cowork("config", "check").code == 0


@pytest.mark.parametrize("words", ["rm -fr x", "rm -rfv x", "git push origin main --force", "sudo ls", "dd if=a of=b"])
def test_what_was_denied_elsewhere_is_denied_here(command: Command, words: str) -> None:
    _import(command, "claude", {".claude/settings.json": json.dumps({"permissions": {"deny": [*SOUND["deny"]]}})})
    assert "denies it" in command.cowork("permissions", "explain", words).out


SERVERS = {
    "codex": (
        ".codex/config.toml",
        """
        [mcp_servers.off]
        command = "x"
        enabled = false
        enabled_tools = ["a"]
        startup_timeout_sec = 20
        tool_timeout_sec = 90
        env = {A = "1"}
        env_vars = ["B", {name = "C"}]
        [mcp_servers.web]
        url = "https://x"
        bearer_token_env_var = "T"
        http_headers = {H = "1"}
        env_http_headers = {K = "KEY"}
        """,
        {
            "off": {
                "command": "x",
                "env": {"A": "1", "B": "${B}", "C": "${C}"},
                "disabled": True,
                "timeout": 90_000,
            },
            "web": {"url": "https://x", "headers": {"H": "1", "K": "${KEY}", "Authorization": "Bearer ${T}"}},
        },
        "switched off, as it was, without enabled_tools, startup_timeout_sec",
    ),
    "gemini": (
        ".gemini/settings.json",
        """{"mcp": {"excluded": ["off"]}, "mcpServers": {
            "off": {"command": "x", "env": {"A": "$MY", "B": "${OTHER}"}, "trust": true},
            "web": {"httpUrl": "https://x", "headers": {"K": "$KEY"}, "timeout": 5000}}}""",
        {
            "off": {"command": "x", "env": {"A": "${MY}", "B": "${OTHER}"}, "disabled": True},
            "web": {"type": "http", "url": "https://x", "headers": {"K": "${KEY}"}, "timeout": 5000},
        },
        "switched off, as it was, without trust",
    ),
    "opencode": (
        ".config/opencode/opencode.json",
        """{"mcp": {
            "off": {"type": "local", "command": ["x", "y"], "enabled": false, "environment": {"A": "{env:TOK}"}},
            "web": {"type": "remote", "url": "https://x", "headers": {"K": "Bearer {env:TOK}"}, "timeout": 5000,
                    "oauth": {"clientId": "me", "other": 1}},
            "secret": {"type": "remote", "url": "https://x", "headers": {"K": "{file:~/.key}"}}}}""",
        {
            "off": {"type": "stdio", "command": "x", "args": ["y"], "env": {"A": "${TOK}"}, "disabled": True},
            "web": {
                "type": "http",
                "url": "https://x",
                "headers": {"K": "Bearer ${TOK}"},
                "oauth": {"client_id": "me"},
            },
        },
        "without startup_timeout, oauth.other",
    ),
}


@pytest.mark.parametrize("program", SERVERS)
def test_servers_mean_what_they_meant_and_keys_without_a_counterpart_are_named(command: Command, program: str) -> None:
    file, text, entries, said = SERVERS[program]
    done = _import(command, program, {file: text})
    assert json.loads((command.home / ".config/cowork/mcp.json").read_text())["mcpServers"] == entries
    assert said in done.out
    assert "off" in next(line for line in command.cowork("mcp", "list").out.splitlines() if line.endswith("(off)"))


REVIEW = """---
description: Reviews code: style
mode: subagent
model: anthropic/claude-x
temperature: 0.1
steps: 20
tools: {write: false, edit: false, git_*: false, webfetch: true}
permission:
  webfetch: deny
  bash: {"*": ask, "rm *": deny}
---
You review.
"""


def test_agents_and_commands_of_opencode_are_written_as_cowork_reads_them(command: Command) -> None:
    base = ".config/opencode"
    done = _import(
        command,
        "opencode",
        {
            f"{base}/agent/review.md": REVIEW,
            f"{base}/agent/nameless.md": "---\nmode: primary\n---\nrole",
            f"{base}/agent/off.md": "---\ndescription: d\ndisable: true\n---\nrole",
            f"{base}/agents/only.md": '---\ndescription: d\ntools: {"*": false, read: true}\n---\nrole',
            f"{base}/command/test.md": "---\nagent: build\nmodel: a/b\n---\nTest $ARGUMENTS",
            f"{base}/command/look.md": "---\nagent: review\nsubtask: true\n---\nLook",
            f"{base}/command/work.md": "---\nagent: general\n---\nWork",
        },
    )
    own = command.home / ".config/cowork"
    written = {str(path.relative_to(own)): path.read_text() for path in own.rglob("*.md")}
    assert written == {
        "agents/review.md": (
            '---\nname: "review"\ndescription: "Reviews code: style"\nmax_turns: 20\n'
            'disallowed_tools: ["Write", "Edit", "MultiEdit", "mcp__git__*", "WebFetch"]\n---\nYou review.\n'
        ),
        "agents/only.md": '---\nname: "only"\ndescription: "d"\ntools: ["Read"]\n---\nrole',
        "commands/test.md": "---\n---\nTest $ARGUMENTS",
        "commands/look.md": '---\nagent: "review"\ncontext: "fork"\n---\nLook',
        "commands/work.md": '---\nagent: "general-purpose"\n---\nWork',
    }
    for said in (
        "without permission bash, model anthropic/claude-x, temperature 0.1",
        "description: is required and must be text",  # as the reader of agents says it
        "it is switched off",
        "without agent build, model a/b",
        "! 1 deny or ask rule above not imported",
    ):
        assert said in done.out
    assert command.cowork("extensions", "check").code == command.cowork("agents", "check").code == 0
    ran = command.play([{"say": "done"}], prompt="/test src")
    assert (ran.code, ran.result["result"], ran.of("notice")) == (0, "done", [])


def test_agents_of_gemini_have_the_tools_they_had(command: Command) -> None:
    head = "name: look\ndescription: d\nkind: local\nmodel: gemini-x\ntimeout_mins: 5\n"
    tools = "tools: [read_file, grep_search, replace, mcp_git_*, save_memory]\n"
    done = _import(command, "gemini", {".gemini/agents/look.md": f"---\n{head}{tools}---\nrole"})
    assert (command.home / ".config/cowork/agents/look.md").read_text() == (
        '---\nname: "look"\ndescription: "d"\ntimeout: 300\n'
        'tools: ["Read", "Grep", "Edit", "MultiEdit", "mcp__git__*"]\n---\nrole'
    )
    assert "without tool save_memory, model gemini-x" in done.out
    assert command.cowork("agents", "check").code == 0


SETTINGS = {
    "permissions": {
        "allow": ["Bash(npm run *)"],
        "deny": ["Read(.env)", "Bash(curl:*)"],
        "defaultMode": "acceptEdits",
        "additionalDirectories": ["../docs", "~/nowhere"],
        "disableBypassPermissionsMode": "disable",
    },
    "env": {"A": "1"},
    "model": "opus",
    "statusLine": {"type": "command", "command": "jq -r '.a + \" \"'"},
}


def test_no_part_of_settings_is_lost_unsaid(command: Command) -> None:
    done = _import(command, "claude", {".claude/settings.json": json.dumps(SETTINGS)})
    assert tomllib.loads((command.home / ".config/cowork/config.toml").read_text())["permissions"] == {
        "mode": "accept-edits",
        "allow": ["Bash(npm run:*)"],
        "deny": ["Read(.env)", "Bash(curl:*)"],
        "add_dirs": ["../docs", "~/nowhere"],
    }
    named = [line.split()[1] for line in done.out.splitlines() if line.startswith("setting")]
    assert named == ["permissions.disableBypassPermissionsMode", "statusLine", "env", "model"]
    line = next(line for line in done.out.splitlines() if "statusline_command" in line)
    value = line.partition(": write ")[2].removesuffix(" under [ui] of config.toml")
    assert tomllib.loads(value) == {"statusline_command": SETTINGS["statusLine"]["command"]}
    assert command.cowork("config", "check").code == command.play([{"say": "hi"}]).code == 0


@pytest.mark.parametrize("mode", ["bypassPermissions", "dontAsk", "odd", {}])
def test_a_mode_that_is_not_taken_over_is_named(command: Command, mode: object) -> None:
    done = _import(command, "claude", {".claude/settings.json": json.dumps({"permissions": {"defaultMode": mode}})})
    assert (f"defaultMode {mode}" in done.out) is bool(mode)
    assert not (command.home / ".config/cowork/config.toml").exists()


def test_where_settings_are_there_already_the_lines_to_add_are_shown(command: Command) -> None:
    command.configure('[permissions]\nmode = "plan"\ndeny = ["Read(.env)"]\n')
    done = _import(command, "claude", {".claude/settings.json": json.dumps(SETTINGS)})
    shown = done.out.partition("Not in force until you add this to [permissions] of config.toml:\n")[2]
    lines = "".join(line for line in shown.splitlines(keepends=True) if line.startswith("  "))
    assert tomllib.loads(lines) == {
        "allow": ["Bash(npm run:*)"],
        "deny": ["Bash(curl:*)"],
        "add_dirs": ["../docs", "~/nowhere"],
    }
    command.configure('[permissions]\nmode = "plan"\n' + lines.replace('["Bash(curl', '["Read(.env)", "Bash(curl'))
    assert "Not in force" not in command.cowork("import", "claude", "--dry-run").out


def test_a_file_that_an_import_wrote_gets_its_model_from_init(command: Command) -> None:
    _import(command, "claude", {".claude/settings.json": json.dumps(SETTINGS)})
    file = command.home / ".config/cowork/config.toml"
    before = tomllib.loads(file.read_text())
    assert command.cowork("config", "init").code == 2  # nothing was found to add
    assert command.cowork("config", "init", env={"ANTHROPIC_API_KEY": "k"}).code == 0
    after = tomllib.loads(file.read_text())
    assert after.pop("models")["main"]["provider"] == "anthropic"
    assert after == before
    assert command.cowork("config", "check").code == 0
    assert command.cowork("config", "init", env={"ANTHROPIC_API_KEY": "k"}).code == 2  # it has a model now


def test_notes_bring_what_they_import(command: Command) -> None:
    files = {
        "CLAUDE.md": "Be kind.\n@style.md\nSee @more.md, @../out.md and @gone.md, or a@more.md",
        "style.md": "Tabs.",
        "more.md": "M",
        "../out.md": "O",
    }
    done = _import(command, "claude", {f".claude/{name}": text for name, text in files.items()})
    notes = (command.home / ".config/cowork/AGENTS.md").read_text()
    own = "Be kind.\nTabs.\nSee @more.md, @../out.md and @gone.md, or a@more.md"
    assert notes == f'{own}\n\n<file path="more.md">\nM\n</file>'
    told = [line.split()[1] for line in done.out.splitlines() if line.startswith("notes")]
    assert told == ["CLAUDE.md", "@../out.md"]


def test_a_file_that_cannot_be_read_is_not_said_to_be_used(command: Command) -> None:
    done = _import(command, "gemini", {".gemini/commands/empty.toml": 'prompt = ""'})
    assert "no counterpart: there is no text below the front matter" in done.out
    done = _import(command, "claude", {".claude/agents/a.md": "---\ndescription: d\n---\nrole"})
    assert "no counterpart: name: is required and must be text" in done.out


def _import(command: Command, program: str, files: dict[str, str]) -> Ended:
    """Write files of another program, and take them over."""
    for name, text in files.items():
        (command.home / name).parent.mkdir(parents=True, exist_ok=True)
        (command.home / name).write_text(text)
    return command.cowork("import", program, "--yes")


def test_a_program_that_is_not_there(command: Command) -> None:
    assert "nothing of codex here" in command.cowork("import", "codex").err
    assert "There are claude, codex" in command.cowork("import", "emacs").err


def test_broken_files_of_others_are_no_traceback(command: Command) -> None:
    for name in (".codex/config.toml", ".gemini/settings.json", ".gemini/commands/x.toml"):
        path = command.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\xff{[")
    for program in ("codex", "gemini"):
        done = command.cowork("import", program, "--dry-run")
        assert (done.code, "Traceback" in done.err) == (0, False)


def test_nothing_is_written_through_what_is_there(command: Command) -> None:
    own = command.home / ".config/cowork"
    own.mkdir(parents=True)
    (own / "AGENTS.md").write_text("Mine.")
    notes = command.home / ".codex/AGENTS.md"
    notes.parent.mkdir()
    notes.write_text("Theirs.")
    command.cowork("import", "codex", "--yes")
    assert Path(own / "AGENTS.md").read_text() == "Mine."


def test_a_server_of_the_same_name_stays_as_it_is(command: Command) -> None:
    own = command.home / ".config/cowork/mcp.json"
    own.parent.mkdir(parents=True)
    own.write_text('{"mcpServers": {"db": {"command": "mine"}}}')
    theirs = {"db": {"command": "theirs"}, "bad name": {"command": "x"}, "new": {"command": "y"}}
    (command.home / ".claude").mkdir()
    (command.home / ".claude.json").write_text(json.dumps({"mcpServers": theirs}))
    done = command.cowork("import", "claude", "--yes")
    assert json.loads(own.read_text())["mcpServers"] == {"db": {"command": "mine"}, "new": {"command": "y"}}
    assert [word in done.out for word in ("exists already and stays", "needs a name of letters", "1 step done")] == [
        True, True, True,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("program", "name", "text"),
    [
        ("opencode", ".config/opencode/opencode.json", '{"mcp": [1]}'),
        ("opencode", ".config/opencode/opencode.json", '{"mcp": {"a": 5, "b": {"command": "npx x"}}}'),
        ("claude", ".claude/settings.json", '{"hooks": [{}], "permissions": 5, "statusLine": 7}'),
        ("opencode", ".config/opencode/agent/a.md", "---\ndescription: d\ntools: 5\npermission: 5\ncolor: []\n---\nx"),
        ("opencode", ".config/opencode/command/a.md", "---\nagent: [x]\n---\nx"),
        ("gemini", ".gemini/agents/a.md", "---\ndescription: d\ntools: ['*', 5]\nkind: []\n---\nx"),
        ("gemini", ".gemini/settings.json", '{"mcp": {"allowed": 5}, "mcpServers": {"a": 5}}'),
        (
            "claude",
            ".claude/settings.json",
            '{"permissions": {"defaultMode": [1], "allow": "x", "deny": ["\\ud800", {}]}}',
        ),
        ("codex", ".codex/config.toml", 'mcp_servers.a = {url = "u", headers = 5, bearer_token_env_var = "T"}'),
    ],
)
def test_settings_of_no_kind_are_no_traceback(command: Command, program: str, name: str, text: str) -> None:
    (command.home / name).parent.mkdir(parents=True)
    (command.home / name).write_text(text)
    done = command.cowork("import", program, "--yes")
    assert (done.code, done.err) == (0, "")


def test_two_files_for_one_place_are_one_step(command: Command) -> None:
    for folder in ("agent", "agents"):
        path = command.home / ".config/opencode" / folder / "a.md"
        path.parent.mkdir(parents=True)
        path.write_text(AGENT + folder)
    done = command.cowork("import", "opencode", "--yes")
    assert (done.code, done.err, "1 step done" in done.out) == (0, "", True)
    assert (command.home / ".config/cowork/agents/a.md").read_text() == AGENT + "agent"
