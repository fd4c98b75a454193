"""Agent files: what is read, what is refused with file and line, and that hostile YAML is harmless."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cowork.agents import Agents, read_agent
from cowork.core import front_matter as module
from tests.fakes.agents import load_agents
from tests.fakes.calls import TOOLS
from tests.fakes.stage import agent_def

KNOWN = tuple(TOOLS)


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / "agents" / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_file_of_our_own_and_one_of_claude_code_both_load(tmp_path: Path) -> None:
    write(
        tmp_path,
        "a",
        "---\nname: a\ndescription: does a\ntools: [Read, Grep]\nmax_turns: 5\ntimeout: 60\n---\nYou are a.\n",
    )
    write(
        tmp_path,
        "b",
        "---\nname: b\ndescription: |\n  does b\n  well\ntools: Read, Bash(git:*)\nmodel: haiku\nmaxTurns: 7\n"
        "permissionMode: plan\ndisallowedTools: Bash\nskills: x\n---\nYou are b.",
    )
    found = load_agents(("user", tmp_path), known_tools=KNOWN)
    a, b = found["a"], found["b"]
    assert (a.tools, a.max_turns, a.timeout, a.model, a.role) == (("Read", "Grep"), 5, 60, "inherit", "You are a.")
    assert (b.tools, b.model, b.max_turns, b.permission_mode) == (("Read", "Bash"), "light", 7, "plan")
    assert b.disallowed_tools == ("Bash",)
    assert b.description == "does b well"
    assert [str(p).rsplit("/", 1)[1] for p in found.problems] == [
        "b.md:11 skills: is a key of another agent program and is ignored"
    ]


@pytest.mark.parametrize(
    ("head", "key", "value"),
    [
        (
            "description: Use this agent to manage docs. Examples: <example>Context: User needs docs.</example>",
            "description",
            "Use this agent to manage docs. Examples: <example>Context: User needs docs.</example>",
        ),
        ("description: d\ntools: *", "tools", None),
        ("description: Use when: asked\ntools: Read, Grep # so no Bash, and no Edit", "tools", ("Read", "Grep")),
        ("description: Use when: asked\ntools: Read # reads: no Bash", "tools", ("Read",)),
        ("description: d\ntools: Read mcp__git:status", "tools", ("Read", "mcp__git:status")),
        ("description: d\ndisallowedTools: * ", "disallowed_tools", ("*",)),
        ("description: d\ntools: Bash(git add, git log), Read", "tools", ("Bash", "Read")),
        ("description: d\ntools: Agent(worker, researcher), Read, KillShell", "tools", ("Task", "Read", "KillBash")),
        ("description: d\ndisallowedTools: Agent, AskUserQuestion", "disallowed_tools", ("Task", "AskUser")),
        ("description: d\npermissionMode: dontAsk", "permission_mode", "ask"),
        ("description: d\npermissionMode: acceptEdits", "permission_mode", "accept-edits"),
    ],
)
def test_files_as_claude_code_writes_them_load(tmp_path: Path, head: str, key: str, value: object) -> None:
    agent, problems = read_agent(write(tmp_path, "x", f"---\nname: x\n{head}\n---\nrole"), "project", KNOWN)
    assert problems == []
    assert getattr(agent, key) == value


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("no front matter", 1, "does not start with front matter"),
        ("---\nname: x\n", 1, "no closing line"),
        ("---\nname: x\ndescription: d\n---\n \n", 1, "is empty"),
        ("---\ndescription: d\n---\nrole", 1, "name: is required"),
        ("---\nname: x\n---\nrole", 1, "description: is required"),
        ("---\nname: x\ndescription: d\nname: y\n---\nrole", 4, "name: is given twice"),
        ("---\nname: x\ndescription: d\nmax_turns: many\n---\nrole", 4, "max_turns: must be a whole number"),
        ("---\nname: x\ndescription: d\nmax_turns: 0\n---\nrole", 4, "from 1 to 100"),
        ("---\nname: x\ndescription: d\npermission_mode: wild\n---\nrole", 4, "'wild' is not one of"),
        ("---\nname: x\ndescription: d\ntools: {a: 1}\n---\nrole", 4, "tools: must be a list"),
        ("---\nname: '../x'\ndescription: d\n---\nrole", 2, "name: use letters"),
        ("---\nname: x\ndescription: 'open\n---\nrole", 3, "not valid YAML"),
        ("---\na: &a [x]\nb: *a\n---\nrole", 3, "aliases are not allowed"),
        ("---\nname: !!python/object/apply:os.system ['true']\n---\nrole", 2, "not valid YAML"),
        ("---\n- a\n- b\n---\nrole", 1, "must be `key: value` lines"),
        ("---\nname: x\ndescription: " + "[" * 200 + "\n---\nrole", 3, "nested too deeply"),
    ],
)
def test_a_bad_file_is_named_with_its_line_and_the_others_load(tmp_path: Path, text: str, line: int, said: str) -> None:
    write(tmp_path, "bad", text)
    write(tmp_path, "good", "---\nname: good\ndescription: d\n---\nrole")
    found = load_agents(("project", tmp_path), known_tools=KNOWN)
    assert list(found) == ["good"]
    (problem,) = found.problems
    assert problem.fatal
    assert problem.line == line
    assert said in problem.message


def test_unknown_tools_and_keys_are_said_and_the_agent_loads(tmp_path: Path) -> None:
    path = write(tmp_path, "x", "---\nname: x\ndescription: d\ntools: Read, Fly\ncolour: red\n---\nrole")
    agent, problems = read_agent(path, "user", KNOWN)
    assert agent is not None
    assert [(p.line, p.message, p.fatal) for p in problems] == [
        (5, "colour: is not a known key", False),
        (4, "tools: there is no tool 'Fly'", False),
    ]


def test_tools_that_only_other_programs_have_are_left_out_and_warn_of_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, "x", "---\nname: x\ndescription: d\ntools: Read, NotebookEdit\n---\nrole")
    agent, problems = read_agent(path, "user", KNOWN)
    assert agent is not None
    assert agent.tools == ("Read",)
    assert [(p.message, p.unknown_tool) for p in problems] == [
        ("tools: 'NotebookEdit' is a tool of another agent program and is ignored", False)
    ]


@pytest.mark.parametrize("text", ["'*'", "['*']", "[Read, '*']", "bash", "[BASH]", "Bash(rm:*)"])
def test_no_spelling_of_disallowed_tools_leaves_one_in(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, "a", f"---\nname: a\ndescription: d\ndisallowed_tools: {text}\n---\nYou are a.")
    agent, _ = read_agent(path, "project", ("Read", "Bash"))
    assert agent is not None
    assert "Bash" not in TOOLS.only(refused=agent.disallowed_tools)


def test_the_project_wins_over_the_user_and_the_user_over_the_shipped(tmp_path: Path) -> None:
    for layer in ("shipped", "user", "project"):
        write(tmp_path / layer, "x", f"---\nname: Code_Reviewer\ndescription: {layer}\n---\nrole")
    found = load_agents(*((layer, tmp_path / layer) for layer in ("shipped", "user", "project")))  # type: ignore[misc]
    assert found.find("code-reviewer") is found["Code_Reviewer"]
    assert found["Code_Reviewer"].description == "project"


def test_two_of_a_name_in_one_folder_are_a_problem(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write(tmp_path, name, "---\nname: One-Same\ndescription: d\n---\nrole")
    (problem,) = load_agents(("user", tmp_path)).problems
    assert problem.message == f"the name 'One-Same' is already that of {tmp_path}/agents/one.md"


def test_bombs_and_giants_are_harmless(tmp_path: Path) -> None:
    bomb = "\n".join(f"k{i}: &k{i} [{', '.join(f'*k{i - 1}' for _ in range(9))}]" for i in range(1, 12))
    write(tmp_path, "bomb", f"---\nk0: &k0 lol\n{bomb}\n---\nrole")
    write(tmp_path, "giant", "---\nname: g\ndescription: d\n---\n" + "x" * 10_000_000)
    (tmp_path / "agents/binary.md").write_bytes(b"\xff\xfe\x00")
    started = time.process_time()
    found = load_agents(("project", tmp_path))
    assert not found
    assert len(found.problems) == 3
    assert time.process_time() - started < 5


words = st.text("abz AB,.-_/()01:#'\"{}[]&*!|>%@`\t", max_size=12)


@given(st.lists(st.tuples(st.sampled_from(["name", "tools", "x", "yes", "n"]), words), max_size=4))
def test_plain_front_matter_means_what_yaml_says_it_means(pairs: list[tuple[str, str]]) -> None:
    head = "".join(f"{key}: {value}\n" for key, value in pairs)
    plain = module._plain(head)
    if plain is not None and pairs:
        assert yaml.safe_load(head) == plain


NEAR = [
    ("reviewing", "", ["code-reviewer"]),  # stems
    ("exlpore", "", ["explore"]),  # a slip of the pen
    ("bug-hunter", "", ["code-reviewer"]),  # the description, where no name fits
    ("security-writer", "audit the login", ["writer"]),  # a name before a description
    ("test-fixer", "", ["test-runner", "test-writer"]),  # nothing tells them apart
    ("test-fixer", "run them in a terminal", ["test-runner"]),  # the task does
    ("part of code", "", ["code-reviewer"]),  # a rare word before a common one
    ("cooking", "bake a cake", []),
]


@pytest.mark.parametrize(("name", "purpose", "expected"), NEAR)
def test_the_nearest_agents(name: str, purpose: str, expected: list[str]) -> None:
    found = Agents(
        [
            agent_def("code-reviewer", description="Reviews code for bugs and security"),
            agent_def("writer", description="Writes a part of the docs"),
            agent_def("test-runner", description="Runs a part of the tests in a terminal"),
            agent_def("test-writer", description="Makes a part of the tests"),
            agent_def("explore", description="Finds things"),
        ]
    )
    assert [agent.name for agent in found.nearest(name, purpose)] == expected


def test_the_six_shipped_agents_have_the_tools_and_models_of_the_table() -> None:
    found = load_agents(("shipped", Path()), known_tools=KNOWN)
    look = ("LS", "Glob", "Grep", "Read", "TodoWrite")
    assert {a.name: (a.tools, a.model) for a in found.values()} == {
        "general": (look, "main"),
        "explore": (look, "light"),
        "plan": (look, "main"),
        "summary": (look, "light"),
        "bash": (("Bash",), "light"),
        "general-purpose": (None, "main"),
    }
    assert found.problems == ()
    assert found.find("GeneralPurpose") is found["general-purpose"]
