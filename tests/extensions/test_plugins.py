"""Plugins from folders and git: shown before they are taken, pinned, changed only when asked, and never run."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from pathlib import Path

import agent_plugins
import skills_ref

from cowork.extensions.plugins import SCHEMAS, _split_ref
from tests.fakes.command import COWORK, Command

ROOT = Path(__file__).parents[2]
HOOK = '{"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "echo ${CLAUDE_PLUGIN_ROOT}"}]}]}}'


def make(root: Path, says: str = "Greets") -> Path:
    for name, text in {
        "plugin.json": json.dumps({"$schema": f"{SCHEMAS}plugin.schema.json", "name": "acme", "version": "1.0"}),
        "skills/greet/SKILL.md": f"---\nname: greet\ndescription: {says}\n---\nSay hello.",
        "hooks/hooks.json": HOOK,
        "install.sh": "touch /tmp/cowork-plugin-ran",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def git(folder: Path, *words: str) -> str:
    own = ["-c", "user.name=x", "-c", "user.email=x@x", "-c", "init.defaultBranch=main"]
    return subprocess.run(["git", *own, *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def test_a_plugin_of_a_folder_is_shown_added_used_and_removed(command: Command) -> None:
    root = make(command.folder.parent / "acme")
    shown = command.cowork("plugin", "add", str(root))
    assert (shown.code, "skill    acme:greet  Greets" in shown.out) == (2, True)
    assert "content " in shown.out
    assert "No plugin is installed" in command.cowork("plugin", "list").out
    assert command.cowork("plugin", "add", str(root), "--yes").code == 0
    done = command.play([{"call": {"Skill": {"skill": "acme:greet"}}}, {"say": "ok"}])
    assert done.record("Skill")["status"] == "success"
    installed = command.home / ".config/cowork/plugins/acme"
    assert str(installed) in done.of("prompt.added")[0]["context"]  # what its hook said
    (installed / "skills/greet/SKILL.md").write_text("---\nname: greet\ndescription: x\n---\nOther.")
    assert "changed since" in command.cowork("plugin", "list").out
    assert command.cowork("plugin", "check", "acme").code == 2
    assert command.cowork("plugin", "remove", "acme").code == 0
    assert not installed.exists()
    assert not Path("/tmp/cowork-plugin-ran").exists()


def test_a_plugin_of_git_is_pinned_to_a_commit(command: Command) -> None:
    repo = make(command.folder.parent / "repo")
    git(repo, "init", "-q")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "one")
    git(repo, "tag", "v1")
    first = git(repo, "rev-parse", "HEAD")
    make(repo, "Greets twice")
    git(repo, "commit", "-qam", "two")
    added = command.cowork("plugin", "add", f"file://{repo}@v1", "--yes")
    assert f"at {first}" in added.out
    assert first[:12] in command.cowork("plugin", "list").out
    assert "newest already" in command.cowork("plugin", "update", "acme", "--yes").out
    assert command.cowork("plugin", "add", f"file://{repo}", "--yes").code == 0
    make(repo, "Greets thrice")
    git(repo, "commit", "-qam", "three")
    assert "Greets thrice" in command.cowork("plugin", "update", "acme", "--yes").out
    wrong = command.cowork("plugin", "add", f"file://{repo}@nope", "--yes")
    assert (wrong.code, "Traceback" in wrong.err) == (2, False)


def test_what_is_no_plugin_says_so_in_a_line(command: Command) -> None:
    said = command.cowork("plugin", "add", ".", "--yes")
    assert (said.code, "there is no plugin.json" in said.err) == (2, True)
    for none in ("no/such/folder", "", " ", "~nobody"):
        refused = command.cowork("plugin", "add", none)
        told = f"cowork: {none!r} is neither a folder nor the address of a git repository."
        assert (refused.code, refused.err.strip()) == (2, told)


def test_a_marketplace_names_the_folders_of_its_plugins(command: Command) -> None:
    (command.folder / ".claude-plugin").mkdir()
    listed = [{"name": "a", "source": "./plugins/a"}, {"name": "b", "source": {"source": "github"}}, 1]
    (command.folder / ".claude-plugin/marketplace.json").write_text(json.dumps({"name": "m", "plugins": listed}))
    said = command.cowork("plugin", "add", ".", "--yes")
    assert (said.code, "it is a marketplace, a list of plugins" in said.err) == (2, True)
    assert "Add one of its folders: ./plugins/a" in said.err


def test_only_a_plugin_can_be_removed(command: Command) -> None:
    own, state = command.home / ".config/cowork", command.home / ".local/state/cowork"
    for path in (own / "plugins/stray/x", own / "config.toml", state / "plugins/stray/x", state / "sessions/x"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    for name in ("..", ".", "../..", "stray/../..", ""):
        said = command.cowork("plugin", "remove", name)
        assert (said.code, "There is no plugin" in said.err) == (2, True)
    assert command.cowork("plugin", "remove", "stray").code == 0
    assert [path.exists() for path in (own / "config.toml", state / "sessions/x", own / "plugins/stray")] == [
        True, True, False,
    ]  # fmt: skip


def test_a_folder_that_cannot_be_written_is_named(command: Command) -> None:
    own = command.home / ".config/cowork"
    own.mkdir(parents=True)
    (own / "plugins").write_text("a file")
    said = command.cowork("plugin", "add", str(make(command.folder.parent / "acme")), "--yes")
    assert (said.code, said.err) == (1, f"cowork: {own}/plugins: File exists\n")


def test_the_end_of_the_input_is_no_yes(command: Command) -> None:
    main, side = pty.openpty()
    try:
        env = {"PATH": os.environ["PATH"], "HOME": str(command.home)}
        words = [COWORK, "plugin", "add", str(make(command.folder.parent / "acme"))]
        with subprocess.Popen(words, stdin=side, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            os.write(main, b"\x04")
            _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (130, b"")
    finally:
        os.close(main)
        os.close(side)


def test_the_linters_of_the_registries_accept_our_skills_and_the_plugin_of_the_docs(tmp_path: Path) -> None:
    page = (ROOT / "docs/extending.md").read_text()
    (steps,) = [block for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if "acme/plugin.json" in block]
    subprocess.run(["sh", "-ec", steps.partition("cowork ")[0]], cwd=tmp_path, check=True)
    example = agent_plugins.Plugin(tmp_path / "acme")
    assert (example.manifest.name, example.manifest.issues, example.mcp) == ("acme", (), None)
    skills = [*(ROOT / "skills").iterdir(), *(skill.path for skill in example.skills)]
    assert len(skills) == 4
    assert {skill.name: skills_ref.validate(skill) for skill in skills if skills_ref.validate(skill)} == {}


def test_addresses_and_names() -> None:
    assert _split_ref("https://a.b/c.git@v1") == ("https://a.b/c.git", "v1")
    assert _split_ref("https://a.b/c.git") == ("https://a.b/c.git", "")
    assert _split_ref("git@a.b:c/d.git") == ("git@a.b:c/d.git", "")
    assert _split_ref("git@a.b:c/d.git@feature/x") == ("git@a.b:c/d.git", "feature/x")
    assert _split_ref("ssh://git@a.b/c") == ("ssh://git@a.b/c", "")


def test_a_hook_can_be_tried_without_a_session(command: Command) -> None:
    (command.folder / ".cowork").mkdir()
    line = "grep -q rm && { echo never rm >&2; exit 2; }; exit 0"
    rule = {"matcher": "Bash", "hooks": [{"type": "command", "command": line}]}
    (command.folder / ".cowork/hooks.json").write_text(json.dumps({"hooks": {"PreToolUse": [rule]}}))
    given = command.folder / "call.json"
    given.write_text('{"tool_name": "Bash", "tool_input": {"command": "rm x"}}')
    tried = command.cowork("hooks", "test", "PreToolUse", "--input", str(given), "--trust")
    assert (tried.code, '"reason": "never rm"' in tried.out) == (1, True)
    assert "No hook here" in command.cowork("hooks", "test", "pretooluse", "--input", str(given)).out
    assert "PreToolUse(Bash)" in command.cowork("hooks", "list", "--trust").out
