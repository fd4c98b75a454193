"""What the model reads before the first word of the user: short, stable, and only what is there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cowork import prompts
from cowork.core.ports import ToolSpec
from cowork.engine.assembly import Rights, with_agents
from cowork.permissions.trust import STEERING
from cowork.tools.builtin import builtin_tools
from tests.fakes.agents import load_agents
from tests.fakes.calls import TOOLS
from tests.fakes.stage import Policy, Settings

GOLDEN = Path(__file__).parent / "golden"
AGENTS = load_agents(("shipped", prompts.data_root()), known_tools=TOOLS)
OFFERED = builtin_tools(prompts.text_of).only(refused=["subagent"])
EVERY = list(AGENTS.values())


def specs() -> dict[str, ToolSpec]:
    offers = Rights("main", OFFERED, Policy()).offers(AGENTS, Settings())
    return {spec.name: spec for spec in with_agents(OFFERED, offers)}


def test_the_system_prompt_is_the_golden_one() -> None:
    assert prompts.system_prompt(EVERY) == (GOLDEN / "system_prompt.md").read_text().rstrip()


def test_guidance_on_subagents_is_there_only_where_task_is() -> None:
    assert "Task Tool Usage (Subagents)" in prompts.system_prompt(EVERY)
    assert "Subagents" not in prompts.system_prompt([])


@pytest.mark.parametrize(("absent", "most"), [(["AskUser"], 3_500), ([], 3_600)])  # nobody is there to ask, or somebody
def test_the_fixed_cost_with_every_tool_is_bounded(absent: list[str], most: int) -> None:
    system = prompts.system_prompt(EVERY)
    kept = [spec for spec in specs().values() if spec.name not in absent]
    wire = [{"name": s.name, "description": s.description, "input_schema": s.schema} for s in kept]
    tools = json.dumps(wire, separators=(",", ":"))
    # Prose runs at four characters a token and more; JSON with its punctuation nearer to three and a half.
    assert len(system) / 4 + len(tools) / 3.5 < most


def test_the_task_tool_lists_the_agents_with_their_tools() -> None:
    task = specs()["Task"]
    assert "- explore: " in task.description
    assert "(Read, Grep, Glob, LS, TodoWrite)" in task.description
    assert "(all but Task)" in task.description
    assert "enum" not in json.dumps(task.schema["properties"]["subagent_type"])


def test_each_agent_is_described_once_in_a_request() -> None:
    request = prompts.system_prompt(EVERY) + specs()["Task"].description
    assert [request.count(agent.description[:80]) for agent in EVERY] == [1] * len(EVERY)


def test_guidance_sends_to_no_agent_that_is_not_there() -> None:
    text = prompts.system_prompt([agent for agent in EVERY if agent.name != "explore"])
    assert "explore" not in text
    assert "→ plan" in text


def test_a_childs_prompt_is_its_role_and_the_task_to_the_byte() -> None:
    agent = AGENTS["explore"]
    assert prompts.child_prompt(agent, "find it") == agent.role + "\n\n# Task\nfind it"


@pytest.mark.parametrize("way", ["@.env", "@docs/notes.md", "link", "@docs/denied.md"])
def test_notes_bring_in_no_secret_and_nothing_denied(tmp_path: Path, way: str) -> None:
    (tmp_path / "docs").mkdir()
    for name in (".env", "docs/denied.md"):
        (tmp_path / name).write_text("TOKEN=12345")
    (tmp_path / "docs" / "notes.md").symlink_to("../.env")
    notes = tmp_path / "AGENTS.md"
    notes.symlink_to(".env") if way == "link" else notes.write_text(f"Be kind.\n{way}\n")
    text = prompts.knowledge([notes], may_tell=lambda path: path.name != "denied.md")
    assert "TOKEN" not in text
    assert "left out" in text


def test_project_knowledge_is_read_from_the_top_down_with_imports_and_bounds(tmp_path: Path) -> None:
    root, inner = tmp_path / "repo", tmp_path / "repo" / "pkg"
    inner.mkdir(parents=True)
    (root / ".git").mkdir()
    (root / "AGENTS.md").write_text("Top.\n@docs.md\n@../outside.md\n")
    (root / "docs.md").write_text("Imported.\n@AGENTS.md\n")
    (tmp_path / "outside.md").write_text("secret")
    (inner / "CLAUDE.md").write_text("Inner.")
    files = prompts.knowledge_files(inner, None, trusted=True)
    assert [f.name for f in files] == ["AGENTS.md", "CLAUDE.md"]
    text = prompts.knowledge(files)
    assert text.index("Top.") < text.index("Imported.") < text.index("Inner.")
    assert "secret" not in text
    assert "[cut: " in prompts.knowledge(files, max_bytes=10)
    assert prompts.knowledge_files(inner, None, trusted=False) == []


def test_a_sentence_of_notes_brings_in_the_files_it_names_and_stays(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    for name in ("style", "tests", "code", "fenced", "my notes"):
        (tmp_path / "docs" / f"{name}.md").write_text(f"Text of {name}.")
    (tmp_path / "CLAUDE.md").write_text(
        '`x`: see @docs/style.md, for style.\n- **@docs/tests.md** and @"docs/my notes.md"\n'
        "Not `@docs/code.md` or me@docs/code.md.\n```\n@docs/fenced.md\n```\nBy @nobody.\n"
    )
    assert prompts.knowledge([tmp_path / "CLAUDE.md"]).splitlines()[1:-1] == [
        "`x`: see @docs/style.md, for style.",
        '- **@docs/tests.md** and @"docs/my notes.md"',
        "Not `@docs/code.md` or me@docs/code.md.",
        "```",
        "@docs/fenced.md",
        "```",
        "By @nobody.",
        "",
        *("", '<file path="docs/style.md">', "Text of style.", "</file>"),
        *("", '<file path="docs/tests.md">', "Text of tests.", "</file>"),
        *("", '<file path="docs/my notes.md">', "Text of my notes.", "</file>"),
    ]


def test_notes_that_trust_is_about_are_read(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".claude").mkdir()
    names = [".claude/CLAUDE.md", "CLAUDE.local.md", "CLAUDE.md", "AGENTS.local.md", "AGENTS.md"]
    seen = []
    for name in names:
        (tmp_path / name).write_text("x")
        assert name in STEERING
        seen.append([str(p.relative_to(tmp_path)) for p in prompts.knowledge_files(tmp_path, None, trusted=True)])
    assert seen == [names[:1], names[:2], [names[2], names[1]], [names[2], names[3]], [names[4], names[3]]]
