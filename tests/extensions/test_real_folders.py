"""Forty folders as people have them: each loads or says why in one line; nothing runs before trust, nothing crashes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cowork.app.steering import places
from cowork.extensions.finder import Extensions
from cowork.extensions.plugins import SCHEMAS

SKILL = "---\nname: {0}\ndescription: Does {0} when asked\n---\nDo {0} with $ARGUMENTS."
HOOK = {"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "touch RAN"}]}]}}
PLUGIN = {"$schema": f"{SCHEMAS}plugin.schema.json", "name": "acme"}
Build = Callable[[Path], None]


def files(**given: str | bytes) -> Build:
    """Files by path; `__` stands for a slash and a leading `_` for a dot."""

    def build(root: Path) -> None:
        for name, content in given.items():
            put(root, name, content)

    return build


def put(root: Path, name: str, content: str | bytes) -> Path:
    path = root / ("." + name[1:] if name.startswith("_") else name).replace("__", "/").replace("~", ".")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def skill(name: str = "x", text: str = "", folder: str = ".claude") -> Build:
    return lambda root: put(root, f"{folder}/skills/{name}/SKILL.md", text or SKILL.format(name)) and None


def command(name: str, text: str | bytes) -> Build:
    return lambda root: put(root, f".claude/commands/{name}.md", text) and None


def linked(where: str, to: str) -> Build:
    def build(root: Path) -> None:
        (root / where).parent.mkdir(parents=True, exist_ok=True)
        os.symlink(to, root / where)

    return build


def all_of(*builds: Build) -> Build:
    def build(root: Path) -> None:
        for one in builds:
            one(root)

    return build


def plugin(servers: object = None, manifest: object = PLUGIN, *more: Build) -> Build:
    def build(root: Path) -> None:
        put(root, ".cowork/plugins/acme/plugin.json", json.dumps(manifest))
        if servers is not None:
            mcp = {"$schema": f"{SCHEMAS}mcp.schema.json", "mcpServers": servers}
            put(root, ".cowork/plugins/acme/mcp.json", json.dumps(mcp))
        for one in more:
            one(root)

    return build


# (what it is, how it is made, names that load, words of the one line that says what is wrong)
FOLDERS: list[tuple[str, Build, list[str], str]] = [
    ("a skill", skill(), ["x"], ""),
    ("a skill in .agents", skill("x", folder=".agents"), ["x"], ""),
    ("a skill in .cowork", skill("x", folder=".cowork"), ["x"], ""),
    ("the same skill twice, the nearer wins", all_of(skill("x"), skill("x", folder=".cowork")), ["x"], ""),
    ("a name that is not the folder's", skill("x", SKILL.format("y")), ["y"], "is not the folder's name"),
    ("a name with capitals", skill("My-Skill", SKILL.format("My-Skill")), ["my-skill"], "use a-z"),
    ("a name in another language", skill("发布", SKILL.format("发布")), ["发布"], "use a-z"),
    ("a Russian description", skill("x", "---\nname: x\ndescription: Делает всё\n---\nДелай."), ["x"], ""),
    ("right-to-left text", skill("x", "---\nname: x\ndescription: مرحبا\n---\nقل"), ["x"], ""),
    ("a colon in the description", skill("x", "---\nname: x\ndescription: Use when: y\n---\nDo."), ["x"], ""),
    ("a folded description", skill("x", "---\nname: x\ndescription: >\n  one\n  two\n---\nDo."), ["x"], ""),
    ("Windows line ends", skill("x", SKILL.format("x").replace("\n", "\r\n")), ["x"], ""),
    ("a byte order mark", skill("x", "\ufeff" + SKILL.format("x")), ["x"], ""),
    ("no description", skill("x", "---\nname: x\n---\nDo."), [], "description: is required"),
    ("no head", skill("x", "# Do x"), [], "does not start with front matter"),
    ("an open head", skill("x", "---\nname: x\n"), [], "no closing line"),
    ("bad YAML", skill("x", "---\nname: [x\n---\nDo."), [], "not valid YAML"),
    ("a YAML bomb", skill("x", "---\na: &a [x]\nb: *a\n---\nDo."), [], "aliases are not allowed"),
    ("YAML that would run", skill("x", "---\nname: !!python/object/apply:os.system ['touch RAN']\n---\nx"), [], "YAML"),
    ("an empty body", skill("x", "---\nname: x\ndescription: d\n---\n"), [], "no text below"),
    ("5 MB", skill("x", SKILL.format("x") + "x" * 5_000_000), [], "larger than 256 KB"),
    ("not text", command("x", b"\xff\xfe\x00\x01"), [], "is not UTF-8"),
    ("an empty file", command("x", ""), [], "no text below"),
    ("a folder without SKILL.md", files(_claude__skills__x__README="hi"), [], ""),
    ("a deeper SKILL.md", files(_claude__skills__a__b__SKILL="x"), [], ""),
    ("a link to a skill elsewhere", all_of(lambda r: put(r.parent, "out/SKILL.md", SKILL.format("x")) and None,
        linked(".claude/skills/x", "../../../out")), [], "link out of its folder"),
    ("a link to nowhere", linked(".claude/skills/x/SKILL.md", "nowhere"), [], "cannot be read"),
    ("a link to itself", linked(".claude/commands/x.md", "x.md"), [], ""),
    ("a circle of folders", linked(".claude/commands/loop", "../commands"), [], ""),
    ("skills linked to .agents",
     all_of(skill("x", folder=".agents"), linked(".claude/skills", "../.agents/skills")), ["x"], ""),
    ("a skill linked to .agents",
     all_of(skill("x", folder=".agents"), linked(".claude/skills/x", "../../.agents/skills/x")), ["x"], ""),
    ("a device", linked(".claude/commands/x.md", "/dev/zero"), [], ""),
    ("commands in folders", files(_claude__commands__git__pr="Open a PR"), [], ""),
    ("a command with a head",
     command("fix", "---\nargument-hint: [n] [m]\nallowed-tools: Bash(git *)\n---\nFix $1"), ["fix"], ""),
    ("a command that wants every tool", command("fix", "---\nallowed-tools: *\n---\nFix it"), ["fix"], ""),
    ("a command that wants to run", command("evil", "!`touch RAN`"), ["evil"], ""),
    ("two of a name", all_of(command("x", "Do"), skill("x")), ["x"], "is already that of"),
    ("hooks", lambda r: put(r, ".claude/settings.json", json.dumps(HOOK)) and None, [], ""),
    ("permissions beside hooks",
     lambda r: put(r, ".claude/settings.json", '{"permissions": {"deny": ["Read(.env)"]}}') and None, [], "not used"),
    ("hooks that are no JSON", lambda r: put(r, ".claude/settings.json", "{hooks:") and None, [], "is not JSON"),
    ("hooks of an event nobody has",
     lambda r: put(r, ".cowork/hooks.json", '{"hooks": {"Later": []}}') and None, [], "no event here"),
    ("a plugin", plugin({"s": {"type": "stdio", "command": "./run"}}), [], ""),
    ("a plugin whose server leads out", plugin({"s": {"type": "stdio", "command": "../run"}}), [], "command: must be"),
    ("a plugin of a later version",
     plugin(None, {"$schema": "https://x/2.0", "name": "acme"}), [], "is not a version known"),
    ("a plugin with a wrong name", plugin(None, {**PLUGIN, "name": "Acme!"}), [], "name: use a-z"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "build", "loads", "said"), FOLDERS, ids=[row[0] for row in FOLDERS])
def test_a_folder_as_people_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, build: Build, loads: list[str], said: str
) -> None:
    root = tmp_path / "project"
    root.mkdir()
    build(root)
    monkeypatch.chdir(root)

    def found(*, trusted: bool) -> Extensions:
        return places(root, {"HOME": str(tmp_path / "home")}, trusted=trusted, bare=False).find(())

    before = found(trusted=False)
    assert {row.origin for row in before.rows()} == {"shipped"}
    assert before.problems == ()
    after = found(trusted=True)
    assert sorted(s.name for s in after.skills.values() if s.origin == "project" and ":" not in s.name) == loads
    problems = [str(problem) for problem in (*after.problems, *after.agents.problems)]
    assert any(said in problem for problem in problems) if said else problems == []
    assert all("\n" not in problem for problem in problems)
    assert not list(tmp_path.rglob("RAN"))


def test_there_are_forty() -> None:
    assert len(FOLDERS) >= 40
