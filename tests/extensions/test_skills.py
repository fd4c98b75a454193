"""Skills and commands as files: what is read, what is said of a wrong one, and how arguments get into the text."""

from __future__ import annotations

from pathlib import Path

import pytest

from cowork.core.front_matter import mentions
from cowork.extensions.skills import LINE_CHARS, Skill, pieces, read_skill

GOOD = "---\nname: x\ndescription: does x\n---\nDo x."


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def read(folder: Path, text: str, name: str = "x") -> tuple[Skill | None, list[tuple[int, str, bool]]]:
    skill, problems = read_skill(write(folder / name / "SKILL.md", text), "skill", name, "user")
    return skill, [(p.line, p.message, p.fatal) for p in problems]


def body(text: str, typed: str = "", arguments: tuple[str, ...] = ()) -> str:
    skill = Skill("command", "c", "d", text, Path("c.md"), arguments=arguments)
    return "".join(f"<{t}>" if kind == "command" else t for kind, t in pieces(skill, typed, {"SKILL_DIR": "/s"}))


def test_a_skill_with_all_that_peers_know(tmp_path: Path) -> None:
    head = (
        "name: x\ndescription: 'Use: when x'\nwhen_to_use: often\nargument-hint: [file] [how]\narguments: file how\n"
        "allowed-tools: Bash(git add *) Read, mcp__git__*\ndisallowed-tools: [Write]\nmodel: haiku\ncontext: fork\n"
        "agent: explore\ndisable-model-invocation: yes\nuser-invocable: false\nlicense: MIT\nmetadata:\n  a: b\n"
    )
    skill, problems = read(tmp_path, f"---\n{head}---\nDo x.")
    assert skill is not None
    assert skill.description == "Use: when x often"
    assert (skill.hint, skill.arguments) == ("[file] [how]", ("file", "how"))
    assert skill.allowed_tools == ("Bash(git add *)", "Read", "mcp__git__*")
    assert (skill.disallowed_tools, skill.model, skill.agent, skill.fork) == (("Write",), "light", "explore", True)
    assert (skill.for_model, skill.for_people) == (False, False)
    assert problems == []


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("Do x.", 1, "does not start with front matter"),
        ("---\nname: x\n---\nDo x.", 1, "description: is required"),
        ("---\nname: x\ndescription: 'a\n---\nDo x.", 3, "not valid YAML"),
        ("---\nname: x\ndescription: d\n---\n", 1, "no text below"),
        ("---\nname: x\nname: y\ndescription: d\n---\nDo", 3, "given twice"),
        ("x" * 300_000, 1, "larger than 256 KB"),
    ],
)
def test_a_skill_that_cannot_be_used_says_where_and_why(tmp_path: Path, text: str, line: int, said: str) -> None:
    skill, ((at, message, fatal),) = read(tmp_path, text)
    assert skill is None
    assert fatal
    assert at == line
    assert said in message


@pytest.mark.parametrize(
    ("folder", "name", "used"),
    [("x", "y", "y"), ("My Skill", "My Skill", "my-skill"), ("x", "a--b", "a--b"), ("发布", "发布", "发布")],
)
def test_a_wrong_name_is_said_and_forgiven(tmp_path: Path, folder: str, name: str, used: str) -> None:
    skill, problems = read(tmp_path, f"---\nname: {name}\ndescription: d\n---\nDo", folder)
    assert skill is not None
    assert skill.name == used
    assert problems
    assert not any(fatal for _, _, fatal in problems)


@pytest.mark.parametrize("said", ["Use when: x", "[a] [b]", 'Use: "it"'])
def test_values_that_want_quotes_are_read_as_they_were_meant(tmp_path: Path, said: str) -> None:
    skill, _ = read(tmp_path, f"---\nname: x\ndescription: {said}\n---\nDo")
    assert skill is not None
    assert skill.description == said


def test_unknown_keys_are_said_with_their_line(tmp_path: Path) -> None:
    _, problems = read(tmp_path, "---\nname: x\ndescription: d\neffort: high\ncolour: red\n---\nDo")
    assert problems == [
        (4, "effort: is a key of another program and is ignored", False),
        (5, "colour: is not a known key", False),
    ]


def test_a_line_of_the_catalogue_is_short(tmp_path: Path) -> None:
    skill, _ = read(tmp_path, f"---\nname: x\ndescription: {'word ' * 100}\n---\nDo")
    assert skill is not None
    assert len(skill.line) <= LINE_CHARS


def test_a_command_needs_no_head(tmp_path: Path) -> None:
    skill, problems = read_skill(write(tmp_path / "fix.md", "# Fix it\n\nNow."), "command", "fix", "user")
    assert skill is not None
    assert (skill.description, skill.for_model, problems) == ("Fix it", False, [])
    empty, _ = read_skill(write(tmp_path / "e.md", "---\n---\nJust do it."), "command", "e", "user")
    assert empty is not None
    assert empty.body == "Just do it."


@pytest.mark.parametrize(
    ("text", "typed", "arguments", "filled"),
    [
        ("Fix $ARGUMENTS now", "a b", (), "Fix a b now"),
        ("$0 to $1", "Vue React", (), "Vue to React"),
        ("PR $1 by $2", "12 me", (), "PR 12 by me"),
        ("$ARGUMENTS[1]-$ARGUMENTS[0]", "a b", (), "b-a"),
        ("$0 $2", "'one two' x", (), "one two $2"),
        ("$file in $how, costs \\$file, $5, $no", "a.py", ("file", "how"), "a.py in , costs $file, $5, $no"),
        ("Do it.", "soon", (), "Do it.\n\nsoon"),
        ("Do it.", "", (), "Do it."),
        ("It's $0", "don't", (), "It's don't"),
        ("see ${SKILL_DIR}/a.py and ${HOME}", "", (), "see /s/a.py and ${HOME}"),
        ("Diff: !`git diff $0`\nEnd", "main", (), "Diff: <git diff main>\nEnd"),
        ("$ARGUMENTS", "!`rm -rf /` $0", (), "!`rm -rf /` $0"),
        ("a!`b`", "", (), "a!`b`"),
        ("```!\ngit log\n```\nx", "", (), "<git log>\nx"),
    ],
)  # fmt: skip
def test_arguments_take_their_places(text: str, typed: str, arguments: tuple[str, ...], filled: str) -> None:
    assert body(text, typed, arguments) == filled


def test_files_are_named_by_an_at() -> None:
    text = 'See @src/a.py, @./b.md. **@~/c** |@e| and (@"f g.md") but not a@b.c or `@d`\n```sh\n@h\n```\nbut @.i/j.k'
    assert mentions(text, markdown=True) == ["src/a.py", "./b.md", "~/c", "e", "f g.md", ".i/j.k"]
