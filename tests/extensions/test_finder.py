"""Where extensions are found, which of two wins, what a link may not do, and what plugins bring."""

from __future__ import annotations

import json
from pathlib import Path

from cowork.extensions.finder import ExtensionFolder, Extensions, find, plugins_in, stamp
from cowork.extensions.plugins import SCHEMAS

SKILL = "---\nname: {name}\ndescription: {says}\n---\nDo."


def skill(base: Path, name: str, says: str = "d") -> Path:
    path = base / "skills" / name / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(SKILL.format(name=name, says=says))
    return path


def look(*places: ExtensionFolder) -> Extensions:
    return find(places, Path("/data"))


def plugin(root: Path, servers: object = None, **more: object) -> Path:
    root.mkdir(parents=True)
    manifest = {"$schema": f"{SCHEMAS}plugin.schema.json", "name": root.name, **more}
    (root / "plugin.json").write_text(json.dumps(manifest, indent=1))
    if servers is not None:
        (root / "mcp.json").write_text(json.dumps({"$schema": f"{SCHEMAS}mcp.schema.json", "mcpServers": servers}))
    return root


def test_the_later_place_wins_and_a_double_in_one_place_is_said(tmp_path: Path) -> None:
    skill(tmp_path / "a", "x", "weak")
    skill(tmp_path / "b", "x", "strong")
    (tmp_path / "b/commands").mkdir()
    (tmp_path / "b/commands/x.md").write_text("Do x")
    found = look(ExtensionFolder("user", tmp_path / "a"), ExtensionFolder("project", tmp_path / "b"))
    assert found.skills["x"].description == "strong"
    assert "is already that of" in found.problems[0].message


def test_a_problem_is_said_once_however_many_agents_come_after_it(tmp_path: Path) -> None:
    skill(tmp_path / "a", "x", "")
    for name in ("one", "two"):
        (tmp_path / "b/agents").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"b/agents/{name}.md").write_text(f"---\nname: {name}\ndescription: d\n---\nDo.")
    alone = look(ExtensionFolder("user", tmp_path / "b"))
    assert (set(alone.agents), alone.problems) == ({"one", "two"}, ())
    found = look(ExtensionFolder("user", tmp_path / "a"), ExtensionFolder("project", tmp_path / "b"))
    assert [problem.path.parent.name for problem in found.problems] == ["x"]


def test_commands_in_folders_carry_the_folder_in_their_name(tmp_path: Path) -> None:
    (tmp_path / "commands/git").mkdir(parents=True)
    (tmp_path / "commands/git/pr.md").write_text("Open a PR")
    assert list(look(ExtensionFolder("user", tmp_path)).skills) == ["git:pr"]


def test_links_lead_out_of_no_project_but_a_user_may_link(tmp_path: Path) -> None:
    outside = skill(tmp_path / "elsewhere", "x")
    (tmp_path / "p/skills").mkdir(parents=True)
    (tmp_path / "p/skills/x").symlink_to(outside.parent)
    assert "link out of its folder" in look(ExtensionFolder("project", tmp_path / "p")).problems[0].message
    assert list(look(ExtensionFolder("user", tmp_path / "p")).skills) == ["x"]
    (tmp_path / "q").mkdir()
    (tmp_path / "q/skills").symlink_to(tmp_path / "elsewhere/skills")  # a folder as a whole, as trust sees it
    assert list(look(ExtensionFolder("project", tmp_path / "q")).skills) == ["x"]


def test_no_file_of_a_plugin_is_a_link_out_of_it_but_within_it_may_link(tmp_path: Path) -> None:
    root, out = plugin(tmp_path / "plugins/pack"), tmp_path / "elsewhere"
    for base in (out, root / "shared"):
        skill(base, "x")
        (base / "a.md").write_text("---\nname: a\ndescription: d\n---\nDo.")
        (base / "hooks.json").write_text('{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}')
    for folder in ("agents", "commands", "hooks"):
        (root / folder).mkdir()
    links = ("skills", "skills"), ("agents/a.md", "a.md"), ("commands/c.md", "a.md"), ("hooks/hooks.json", "hooks.json")
    for base, problems in ((out, 4), (root / "shared", 0)):
        for link, target in links:
            (root / link).unlink(missing_ok=True)
            (root / link).symlink_to(base / target)
        found = look(*plugins_in(root.parent, "user")[0])
        wrong = [problem.message for problem in (*found.problems, *found.agents.problems)]
        assert wrong == ["is a link out of its folder"] * problems
        assert len(found.skills) + len(found.agents) + len(found.hooks) == 4 - problems


def test_hooks_are_read_where_people_keep_them(tmp_path: Path) -> None:
    hooks = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}
    for folder, name in ((".claude", "settings.json"), (".claude", "settings.local.json"), (".cowork", "hooks.json")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_text(json.dumps(hooks))
    found = look(*(ExtensionFolder("user", tmp_path / folder) for folder in (".claude", ".cowork")))
    assert [hook.path.name for hook in found.hooks] == ["settings.json", "settings.local.json", "hooks.json"]


def test_a_plugin_brings_all_its_parts_under_its_name(tmp_path: Path) -> None:
    servers = {
        "db": {"type": "stdio", "command": "npx", "args": ["${PLUGIN_ROOT}/a", "${PLUGIN_DATA}/b", "${HOME}"]},
        "web": {"type": "streamable-http", "url": "https://x.example/mcp"},
        "bad": {"type": "stdio", "command": "../run"},
        "open": {"type": "sse", "url": "http://x.example/"},
    }
    root = plugin(tmp_path / "plugins/acme", servers, version="1.0")
    skill(root, "deploy")
    (root / "agents").mkdir()
    (root / "agents/r.md").write_text("---\nname: reviewer\ndescription: d\n---\nrole")
    (root / "hooks").mkdir()
    (root / "hooks/hooks.json").write_text('{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x"}]}]}}')
    places, _ = plugins_in(tmp_path / "plugins", "user")
    found = look(*places)
    assert list(found.skills) == ["acme:deploy"]
    assert list(found.agents) == ["acme:reviewer"]
    assert found.hooks[0].plugin_root == root
    assert found.servers["acme_db"]["args"] == [f"{root}/a", "/data/acme/b", "${HOME}"]
    assert found.servers["acme_db"]["cwd"] == str(root)
    assert found.servers["acme_web"]["type"] == "http"
    assert [p.message.split(":")[0] for p in found.problems] == ["bad", "open"]


def test_claudes_layout_is_read_too(tmp_path: Path) -> None:
    root = tmp_path / "plugins/old"
    (root / ".claude-plugin").mkdir(parents=True)
    (root / ".claude-plugin/plugin.json").write_text('{"name": "old", "commands": "./commands"}')
    (root / "commands").mkdir()
    (root / "commands/hi.md").write_text("Say hi")
    (root / ".mcp.json").write_text('{"mcpServers": {"s": {"command": "${CLAUDE_PLUGIN_ROOT}/run"}}}')
    places, problems = plugins_in(tmp_path / "plugins", "user")
    found = look(*places)
    assert (list(found.skills), problems) == (["old:hi"], [])
    assert found.servers["old_s"]["command"] == f"{root}/run"


def claudes(root: Path, manifest: object, **files: str) -> Path:
    """A plugin in Claude's layout; `__` in a name stands for a slash."""
    for name, text in {".claude-plugin/plugin~json": json.dumps(manifest), **files}.items():
        path = root / name.replace("__", "/").replace("~", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


STOP = {"Stop": [{"hooks": [{"type": "command", "command": "x"}]}]}


def test_what_claudes_manifest_names_or_holds_is_read(tmp_path: Path) -> None:
    paths = {"skills": ["./kit/skills", "./kit/one"], "commands": ["./kit/commands/", "./kit/hi.md"]}
    manifest = {"name": "acme", **paths, "agents": "./kit/reviewer.md", "hooks": "./kit/hooks.json"}
    root = claudes(
        tmp_path / "plugins/acme",
        {**manifest, "mcpServers": {"s": {"command": "${CLAUDE_PLUGIN_ROOT}/run"}}},
        **{"commands__usual~md": "Do", "kit__commands__git__pr~md": "Do", "kit__hi~md": "Do"},
        **{"kit__skills__a__SKILL~md": "---\nname: a\ndescription: d\n---\nx"},
        **{"kit__one__SKILL~md": "---\nname: one\ndescription: d\n---\nx"},
        **{
            "kit__reviewer~md": "---\nname: reviewer\ndescription: d\n---\nx",
            "kit__hooks~json": json.dumps({"hooks": STOP}),
        },
        **{"~mcp~json": '{"bare": {"command": "run"}}'},
    )
    places, problems = plugins_in(tmp_path / "plugins", "user")
    found = look(*places)
    assert (problems, found.problems, found.agents.problems) == ([], (), ())
    assert sorted(found.skills) == ["acme:a", "acme:git:pr", "acme:hi", "acme:one", "acme:usual"]
    assert list(found.agents) == ["acme:reviewer"]
    assert [hook.path for hook in found.hooks] == [root / "kit/hooks.json"]
    assert {name: server["command"] for name, server in found.servers.items()} == {
        "acme_bare": "run", "acme_s": f"{root}/run",
    }  # fmt: skip


def test_hooks_that_claudes_manifest_holds_are_read(tmp_path: Path) -> None:
    root = claudes(tmp_path / "plugins/acme", {"name": "acme", "hooks": STOP})
    places, _ = plugins_in(tmp_path / "plugins", "user")
    assert [(hook.event, hook.plugin_root) for hook in look(*places).hooks] == [("Stop", root)]


def test_claudes_manifest_leads_out_of_no_plugin_and_what_is_not_used_is_said(tmp_path: Path) -> None:
    (tmp_path / "out.md").write_text("secret")
    wrong = {
        "commands": ["../../out.md", "/etc", "./none", 1, "\0"],
        "agents": {"a": 1},
        "lspServers": {},
        "keywords": 1,
    }
    claudes(tmp_path / "plugins/acme", {"name": "acme", **wrong})
    places, problems = plugins_in(tmp_path / "plugins", "user")
    assert [(p.message, p.fatal) for p in problems] == [
        ("lspServers: is not used here", False),
        ("keywords: must be list", False),
        ("commands: ../../out.md leads out of the plugin", True),
        ("commands: /etc leads out of the plugin", True),
        ("commands: ./none is not there", True),
        ("commands: must be paths in the plugin", True),
        ("commands: \0 leads out of the plugin", True),
        ("agents: must be paths in the plugin", True),
    ]
    assert look(*places).skills == {}


def test_the_narrowest_part_of_a_plugin_fails(tmp_path: Path) -> None:
    root = plugin(tmp_path / "plugins/part", wrong=1)
    skill(root, "good")
    (root / "skills/bad").mkdir()
    (root / "skills/bad/SKILL.md").write_text("no head")
    (root / "mcp.json").write_text("{")
    plugin(tmp_path / "plugins/none", description=3)
    places, problems = plugins_in(tmp_path / "plugins", "user")
    found = look(*places)
    assert [p.message for p in problems] == ["description: must be str", "wrong: is not a field of plugin.json"]
    assert list(found.skills) == ["part:good"]
    assert {p.path.name for p in found.problems} == {"SKILL.md", "mcp.json"}


def test_a_change_of_any_file_changes_the_stamp(tmp_path: Path) -> None:
    path = skill(tmp_path, "x")
    place = ExtensionFolder("user", tmp_path)
    before = stamp([place])
    assert stamp([place]) == before
    path.write_text(path.read_text() + "more")
    after = stamp([place])
    assert after != before
    skill(tmp_path, "y")
    assert stamp([place]) != after
