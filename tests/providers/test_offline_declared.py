"""Questions that git, manifests and declarations answer, on a small repository with real tools and real git."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from cowork.core.blocks import Block, Message, Text, ToolResult, ToolUse
from cowork.core.errors import ToolError
from cowork.core.ports import Request, ToolSpec
from cowork.core.workspace import Workspace
from cowork.providers.offline.model import respond
from cowork.providers.offline.plans import CallResult
from cowork.providers.offline.project import Files, failure_places
from cowork.tools.arguments import check
from cowork.tools.base import AgentState, ToolContext, TreeState
from cowork.tools.files import read as read_tool
from cowork.tools.search import files, grep

TOOLS = {"Grep": grep.grep, "Glob": files.glob, "Read": read_tool.read, "LS": files.ls}
SPECS = tuple(ToolSpec(name, "", {}) for name in (*TOOLS, "Bash"))

FILES = {
    "pyproject.toml": '[project]\nname = "shop"\nversion = "2.1"\nrequires-python = ">=3.10"\nlicense = "MIT"\n'
    'dependencies = [\n  "httpx[http2]>=0.27; python_version > \'3.8\'",\n  "click",\n]\n'
    '[project.optional-dependencies]\nfast = ["orjson"]\n[project.scripts]\nshop_cli = "shop.cli:main"\n',
    "Cargo.toml": '[package]\nname = "core"\n[dependencies]\nrpds = "1"\n\n[dependencies.pyo3]\nversion = "0.22"\n',
    "shop/__init__.py": "",
    "shop/cli.py": "import optparse\n\n\ndef main():\n    parser = optparse.OptionParser()\n    parser.add_option(\n"
    '        "-f",\n        "--file",\n    )\n    # FIXME: never closes\n    # TODO: say more\n',
    "shop/net.py": "DEFAULT_TIMEOUT = 12.5\n\n\nclass Unreachable(Exception):\n    pass\n\n\ndef fetch(url):\n"
    "    raise Unreachable(url)\n\n\ndef twice(url):\n    return fetch(url), fetch(url)\n",
    "shop/markdown/tables.py": "",
    ".gitignore": "TODO\n",
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three commits by two people, then a change, a staged file and one that git does not know."""
    top = tmp_path_factory.mktemp("shop")
    for name, text in FILES.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    _git(top, "init", "-qb", "main")
    _commit(top, "Ada", "2024-01-05", "Import the shop")
    with (top / "shop/net.py").open("a") as file:
        file.write("\n\ndef thrice(url):\n    return twice(url), fetch(url)\n")
    _commit(top, "Grace Hopper", "2024-02-01", "Fetch three times")
    (top / "NOTES.txt").write_text("notes\n")
    _commit(top, "Ada", "2024-03-01", "Add notes")
    with (top / "shop/cli.py").open("a") as file:
        file.write("# changed\n")
    (top / "scratch.py").write_text("")
    (top / "staged.py").write_text("")
    _git(top, "add", "staged.py")
    return top


def _commit(top: Path, who: str, day: str, subject: str) -> None:
    _git(top, "add", "-A")
    _git(top, "commit", "-qm", subject, GIT_AUTHOR_NAME=who, GIT_AUTHOR_DATE=f"{day}T10:00:00+0000")


def _git(top: Path, *words: str, **more: str) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(top), "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_EMAIL": "a@b"}
    env |= {"GIT_AUTHOR_NAME": "Ada", "GIT_COMMITTER_NAME": "Ada", "GIT_COMMITTER_EMAIL": "a@b"} | more
    subprocess.run(["git", *words], cwd=top, check=True, env=env)


def _shell(root: Path, command: str) -> str:
    done = subprocess.run(command, shell=True, cwd=root, capture_output=True, text=True)
    return done.stdout + done.stderr


async def answer(root: Path, question: str, scratch: Path) -> str:
    """Ask, run what is called for, and ask again until there is an answer."""
    messages = [Message("user", (Text(question),))]
    context = (Workspace(root), AgentState(root), TreeState(scratch))
    for _ in range(12):
        said = respond(Request("You are cowork.", tuple(messages), SPECS))
        calls = [block for block in said if isinstance(block, ToolUse)]
        if not calls:
            return "".join(block.text for block in said if isinstance(block, Text))
        results: list[Block] = []
        for call in calls:
            if call.name == "Bash":
                results.append(ToolResult(call.id, _shell(root, call.input["command"])))
                continue
            tool = TOOLS[call.name]
            try:
                given = check(tool.schema, dict(call.input))
                record = await tool(ToolContext("main", call.id, *context, lambda event: None), given)
                results.append(ToolResult(call.id, record.text))
            except ToolError as error:
                results.append(ToolResult(call.id, error.text, is_error=True))
        messages += [Message("assistant", tuple(said)), Message("user", tuple(results))]
    raise AssertionError(f"no answer to {question!r}")


@pytest.mark.parametrize(
    ("question", "holds", "lacks"),
    [
        ("what did the last commit change?", "Add notes|A\tNOTES.txt", "scratch.py|Import"),
        ("what have I changed but not committed yet?", " M shop/cli.py|?? scratch.py|staged.py", "Ada"),
        ("is anything staged?", "A  staged.py| M shop/cli.py\n", "M  shop/cli.py"),
        ("are there untracked files?", "?? scratch.py", "?? shop/cli.py"),
        ("who changed shop/net.py last?", "Grace Hopper|2024-02-01", "Add notes"),
        ("who last changed thrice()?", "M\tshop/net.py|Grace Hopper", "Add notes"),
        ("when was NOTES.txt added?", "2024-03-01", "2024-01-05"),
        ("what changed in the last 2 commits?", "Add notes|Fetch three times|shop/net.py", "Import the shop"),
        ("who are the contributors?", "2\tAda|1\tGrace Hopper", "NOTES"),
        ("which branch am I on?", "* main", "NOTES"),
        ("what changed?", "shop/cli.py|Add notes", "I cannot"),
        ("which rust crates does this depend on?", '`rpds = "1"`|Cargo.toml:6` `[dependencies.pyo3]', "I looked"),
        ("what are the dependencies?", "httpx[http2]>=0.27; python_version > '3.8'|click|orjson", "I looked"),
        (
            "which optional dependencies are there?",
            'pyproject.toml:11` `fast = ["orjson"]`',
            "click",
        ),
        ("which python versions are supported?", "pyproject.toml:4` `requires-python", "2.1"),
        ("what version is this?", 'pyproject.toml:3` `version = "2.1"`', "0.22"),
        ("which console scripts does it install?", '`shop_cli = "shop.cli:main"`|shop/cli.py:4', "I looked"),
        ("what command line options does shop_cli accept?", "shop/cli.py:8|--file", "def main"),
        ("what is the default timeout?", "shop/net.py:1`, variable `DEFAULT_TIMEOUT`", "I cannot"),
        ("which exceptions are defined?", "shop/net.py:4", "I cannot"),
        ("list the FIXMEs", "shop/cli.py:10|never closes", "say more"),
        ("list the TODOs", "shop/cli.py:11", "never closes|.gitignore"),
        ("list the modules in shop/markdown", "shop/markdown/tables.py", "net.py|No files"),
        ("show me every place that calls fetch", "shop/net.py:13|`twice`", "I cannot"),
        ("list the constants in shop/net.py", "shop/net.py:1", "class"),
    ],
)
async def test_it_is_answered_by_what_declares_it(
    shop: Path, tmp_path: Path, question: str, holds: str, lacks: str
) -> None:
    said = await answer(shop, question, tmp_path)
    assert [text for text in holds.split("|") if text not in said] == [], said
    assert [text for text in lacks.split("|") if text in said] == [], said


def test_every_form_of_manifest_comes_to_the_same_blocks() -> None:
    def block(name: str, text: str) -> list[str]:
        files = Files(CallResult(""), {name: dict(enumerate(text.splitlines(), 1))})
        return [line.at for block in files.blocks("dependencies|require") for line in block]

    assert block("setup.cfg", "[options]\ninstall_requires =\n    requests >=2.22\n    rich\nzip_safe = 1\n") == [
        *("setup.cfg:2", "setup.cfg:3", "setup.cfg:4")
    ]
    assert block("setup.py", "setup(\n    install_requires=[\n        'rich>=9',\n    ],\n)\n") == [
        *("setup.py:2", "setup.py:3")
    ]
    assert block("package.json", '{\n  "devDependencies": {\n    "mocha": "^1"\n  }\n}') == [
        *("package.json:2", "package.json:3")
    ]
    assert block("go.mod", "module m\n\nrequire (\n\texample.org/x v1.2.3\n)\n") == ["go.mod:3", "go.mod:4"]
    assert block("Cargo.toml", '[dependencies]\nrpds = "1"\n\n[package]\nname = "x"\n') == [
        *("Cargo.toml:1", "Cargo.toml:2")
    ]


def test_a_failure_is_placed_in_the_project_not_in_the_interpreter() -> None:
    output = (
        "=" * 70 + "\nERROR: test_apis (unittest.loader._FailedTest.test_apis)\n" + "-" * 70 + "\n"
        'Traceback (most recent call last):\n  File "/usr/lib/python3.11/unittest/loader.py", line 419, in _find\n'
        '  File "/w/shop/tests/test_apis.py", line 5, in <module>\n    import nowhere\n'
        '  File "<frozen importlib._bootstrap>", line 1140, in _find_and_load\nModuleNotFoundError: No module\n'
    )
    assert failure_places(output) == ["/w/shop/tests/test_apis.py:5"]
