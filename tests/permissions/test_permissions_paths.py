"""No path leads a file tool out of the workspace, makes it wait, or writes what is protected without a question."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cowork.core.errors import ToolError
from cowork.core.ports import Effect
from cowork.core.secret_names import sensitive
from cowork.core.workspace import Workspace, find_protection
from cowork.permissions import Permissions
from cowork.tools.base import AgentState, Tool, ToolContext, TreeState
from cowork.tools.files.edit import edit, multi_edit, write
from cowork.tools.files.read import read
from cowork.tools.search.files import glob, ls
from cowork.tools.search.grep import grep
from tests.fakes.calls import TOOLS

CANARY = "CANARY-OF-OUTSIDE"
NAME = "canary-name"
ELSEWHERE = "only-seen-outside"

# {out} the folder outside, {in} the workspace, {base} the folder of both
CASES = """
../outside/{name}
../../../../../../../../etc/passwd
./../outside/{name}
sub/../../outside/{name}
sub/../../outside
sub/./../../outside/{name}
..
../
../..
../outside
../outside/
../outside/new.txt
../outside/new/deep.txt
{out}/{name}
{out}
{out}/new.txt
{in}/../outside/{name}
{in}-evil/{name}
{in}-evil
../work-evil/{name}
{in}/../work-evil/{name}
//{out}/{name}
/{in}/../outside/{name}
{base}
{base}/outside/{name}
{base}/./outside//{name}
file://{out}/{name}
FILE://{out}/{name}
file://localhost{out}/{name}
file://127.0.0.1{out}/{name}
file://evil.example{out}/{name}
file:{out}/{name}
file://{in}/%2e%2e/outside/{name}
file://{in}/..%2foutside/{name}
file:///etc/passwd
file:///proc/self/environ
file://
file:///
%2e%2e/outside/{name}
..%2foutside/{name}
~/{name}
~
~root
~root/.bashrc
~nobody
~/../outside/{name}
$HOME/{name}
${{HOME}}/{name}
link-file
link-dir/{name}
link-dir
link-dir/new.txt
link-dir/../outside/{name}
link-relative
link-chain
link-chain-dir/{name}
link-up/outside/{name}
link-up
link-root/etc/passwd
link-root{out}/{name}
link-proc/environ
link-self
link-loop
link-loop/x
link-a
dangling
dangling-dir/x
sub/link-file
sub/link-dir/{name}
sub/../link-file
./link-file
link-dir//{name}
link-dir/./{name}
link-file/
link-file/.
LINK-FILE
/proc/self/root{out}/{name}
/proc/self/cwd/../outside/{name}
/proc/self/environ
/proc/1/environ
/proc/self/mem
/proc/self/fd/0
/proc/self/fd/1
/proc/thread-self/root{out}/{name}
/proc/1/root{out}/{name}
/proc/self/task/self/root{out}/{name}
/proc/kcore
/proc/sys/kernel/hostname
/proc/self/maps
/dev/fd/0
/dev/fd/1
/dev/stdin
/dev/stdout
/dev/null
/dev/zero
/dev/random
/dev/urandom
/dev/tty
/dev/sda
/dev/mem
/dev/shm/{name}
/sys/kernel/notes
/sys/firmware
/etc/passwd
/etc/shadow
/etc/../etc/passwd
/root/.bashrc
/root/.ssh/id_rsa
/var/log/messages
/tmp/{name}
/
//
///
/.
/..
/../../..{out}/{name}
.. /outside/{name}
../outside/{name}\\x00.txt
{out}/{name}\\x00
\\x00
sub\\x00/../../outside/{name}
../outside\\n/{name}
\\n
\\n../outside/{name}
\\x1b[31m
../outside/\\x1b]0;x\\x07
name\\nwith-newline
name\\x1bwith-escape
name-\\udcff-bytes
../outside/\\udcff
\\ud800
..\\\\outside\\\\{name}
C:\\\\Windows\\\\x
\\\\\\\\server\\\\share
.../outside/{name}
....//outside/{name}
..;/outside/{name}
../outside/{name}/../../outside/{name}
sub/{dots}outside/{name}
{long}
{longparts}
{out}/{long}
\\u2024\\u2024/outside/{name}
\\uff0e\\uff0e/outside/{name}
\\u202e../outside/{name}
pipe
sub/pipe
socket
device
link-pipe
link-null
sub/deep/../../../outside/{name}
hard/../../outside/{name}
nonexistent/../../outside/{name}
README.md/../../outside/{name}
README.md/x
README.md/
sub/
sub
.
./
""".strip().split("\n")


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A workspace `work` full of traps, beside `outside` and `work-evil`."""
    base = Path(os.path.realpath(tmp_path_factory.mktemp("paths")))
    root, outside = base / "work", base / "outside"
    for folder in (root / "sub/deep", outside, base / "work-evil"):
        folder.mkdir(parents=True)
    for place in (outside, base / "work-evil"):
        (place / NAME).write_text(CANARY)
        (place / ELSEWHERE).write_text(CANARY)
    (root / "README.md").write_text("readme\n")
    links = {
        "link-file": outside / NAME,
        "link-dir": outside,
        "link-relative": f"../outside/{NAME}",
        "link-up": "..",
        "link-root": "/",
    }
    links |= {
        "link-chain": "link-file",
        "link-chain-dir": "link-dir",
        "link-proc": "/proc/self",
        "link-self": "link-self",
    }
    links |= {
        "link-loop": "link-a",
        "link-a": "link-loop",
        "dangling": outside / "new.txt",
        "dangling-dir": outside / "new",
    }
    links |= {"sub/link-file": outside / NAME, "sub/link-dir": outside, "link-pipe": "pipe", "link-null": "/dev/null"}
    for name, target in links.items():
        (root / name).symlink_to(target)
    os.mkfifo(root / "pipe")
    os.mkfifo(root / "sub/pipe")
    if os.geteuid() == 0:
        os.mknod(root / "device", 0o20666, os.makedev(1, 5))  # /dev/zero by another name
    server = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(root)  # the path of a socket is short
    server.bind("socket")
    os.chdir(here)
    yield base
    server.close()


def spelled(case: str, base: Path) -> str:
    text = case.encode("latin-1").decode("unicode_escape") if "\\" in case else case
    text = text.replace("{{", "{").replace("}}", "}") if "{{" in text else text
    values = {
        "{out}": base / "outside",
        "{in}": base / "work",
        "{base}": base,
        "{name}": NAME,
        "{dots}": "../" * 30 + "{base}"[0:0],
    }
    values |= {"{long}": "x" * 5000, "{longparts}": "y/" * 3000}
    for key, value in values.items():
        text = text.replace(key, str(value))
    return text


READING: list[tuple[Tool, Callable[[str], dict[str, Any]]]] = [
    (read, lambda p: {"file_path": p}),
    (grep, lambda p: {"pattern": "CANARY|canary", "path": p, "output_mode": "content"}),
    (glob, lambda p: {"pattern": "**/*", "path": p}),
    (ls, lambda p: {"path": p}),
]
WRITING: list[tuple[Tool, Callable[[str], dict[str, Any]]]] = [
    (write, lambda p: {"file_path": p, "content": "overwritten"}),
    (edit, lambda p: {"file_path": p, "old_string": CANARY, "new_string": "overwritten"}),
    (multi_edit, lambda p: {"file_path": p, "edits": [{"old_string": CANARY, "new_string": "overwritten"}]}),
]


def outside_state(base: Path) -> list[tuple[str, str]]:
    found = []
    for place in ("outside", "work-evil"):
        for path in sorted((base / place).rglob("*")):
            found.append((str(path), path.read_text() if path.is_file() else ""))
    return found


async def act(tool: Tool, args: dict[str, Any], base: Path, *, judged: bool) -> str:
    """One call as the runner makes it, in the loosest mode; `judged=False` leaves permissions out altogether."""
    workspace = Workspace(base / "work")
    ctx = ToolContext(
        "main", "t", workspace, AgentState(workspace.root), TreeState(base / "scratch"), lambda event: None
    )
    try:
        effects = tool.effects(ctx, args)
        if (
            judged
            and Permissions(workspace=workspace, mode="bypass").judge("main", tool, args, effects).verdict == "deny"
        ):
            return ""
        return (await tool(ctx, args)).text
    except ToolError as error:
        return error.text


def test_there_are_enough_paths() -> None:
    assert len(set(CASES)) >= 120


@pytest.mark.parametrize("case", CASES, ids=ascii)
async def test_no_path_leads_a_tool_outside(case: str, yard: Path) -> None:
    path = spelled(case, yard)
    before = outside_state(yard)
    for tool, arguments in [*READING, *WRITING]:
        start = time.monotonic()
        text = await act(tool, arguments(path), yard, judged=True)
        assert time.monotonic() - start < 60, tool.name
        assert CANARY not in text, tool.name
        assert "root:" not in text, tool.name
        assert ELSEWHERE not in text, tool.name
    assert outside_state(yard) == before


@pytest.mark.parametrize("case", CASES, ids=ascii)
async def test_tools_that_open_files_stay_inside_even_without_the_judge(case: str, yard: Path) -> None:
    path = spelled(case, yard)
    before = outside_state(yard)
    for tool, arguments in [READING[0], *WRITING]:
        text = await act(tool, arguments(path), yard, judged=False)
        assert CANARY not in text
    assert outside_state(yard) == before


def test_pipes_sockets_and_devices_are_refused_at_once(yard: Path) -> None:
    workspace = Workspace(yard / "work")
    for name in ["pipe", "socket", *(["device"] if os.geteuid() == 0 else [])]:
        start = time.monotonic()
        with pytest.raises(ToolError, match="not a file"):
            workspace.open(workspace.root / name, os.O_RDONLY)
        assert time.monotonic() - start < 20


def test_a_folder_that_can_only_be_entered_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "dark/inner").mkdir(parents=True)
    (tmp_path / "dark/inner/x").write_text("seen")
    workspace = Workspace(tmp_path / "dark/inner")
    os.chmod(tmp_path / "dark", 0o311)
    try:
        descriptor = workspace.open(workspace.root / "x", os.O_RDONLY)
        assert os.read(descriptor, 10) == b"seen"
        os.close(descriptor)
    finally:
        os.chmod(tmp_path / "dark", 0o755)


SOAK_SWAPS = 100_000


def swaps() -> int:
    return SOAK_SWAPS if os.environ.get("COWORK_SOAK") else 1_000


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("where", ["leaf", "middle"])
def test_a_link_swapped_again_and_again_never_opens_what_is_outside(where: str, tmp_path: Path) -> None:
    """A thread swaps a file (or its folder) for a link out; whatever is opened is the file that was judged."""
    base = Path(os.path.realpath(tmp_path))
    for folder in ("work/dir", "outside"):
        (base / folder).mkdir(parents=True)
    (base / "work/dir/file").write_text("inside")
    (base / "outside/file").write_text(CANARY)
    workspace = Workspace(base / "work")
    target = base / "work/dir" if where == "middle" else base / "work/dir/file"
    kept = base / "kept"
    away = base / ("outside" if where == "middle" else "outside/file")
    done = threading.Event()
    count = 0

    def swap() -> None:
        nonlocal count
        link = base / "link"
        for _ in range(swaps()):
            os.rename(target, kept)
            os.symlink(away, link)
            os.rename(link, target)
            os.unlink(target)
            os.rename(kept, target)
            count += 1
        done.set()

    thread = threading.Thread(target=swap)
    thread.start()
    opened = refused = 0
    try:
        while not (done.is_set() and opened):  # at rest it opens in any case
            try:
                path = workspace.resolve("dir/file", workspace.root)
                if not workspace.may_read(path):
                    refused += 1
                    continue
                descriptor = workspace.open(path, os.O_RDONLY)
            except (ToolError, OSError):
                refused += 1
                continue
            with open(descriptor) as file:
                assert file.read() == "inside"
            opened += 1
    finally:
        thread.join()
    assert count == swaps()
    assert opened
    assert (base / "outside/file").read_text() == CANARY


PROTECTED = """
.git/config .git/hooks/pre-commit .git .gitmodules sub/.gitmodules .gitattributes .cowork/config.toml
.cowork/agents/x.md .mcp.json .vscode/tasks.json .vscode/settings.json .idea/workspace.xml .envrc .bashrc
.zshrc .profile .bash_profile .zshenv .ssh/authorized_keys .config/git/config .config/fish/config.fish
.claude/settings.json .claude/agents/x.md AGENTS.md sub/AGENTS.md CLAUDE.md .husky/pre-commit
.devcontainer/devcontainer.json .netrc .gitconfig .GIT/config .Git/HOOKS/x .COWORK/x .VSCode/tasks.json
agents.md .BASHRC .git./config git~1/config .git::$INDEX_ALLOCATION/config sub/.git/hooks/x sub/deep/.vscode/x
.g\u200cit/config .git\u200b/hooks/x \uff0egit/config
""".strip().replace("\n", " ")
FREE = [
    "src/a.py",
    "README.md",
    "git/config",
    "cowork/x.py",
    "docs/AGENTS-guide.md",
    "vscode/x",
    ".gitignore",
    ".github/x.yml",
    "a.git",
    "env",
]


@pytest.mark.parametrize("name", PROTECTED.split(), ids=ascii)
@pytest.mark.parametrize("mode", ["ask", "accept-edits", "bypass"])
def test_a_protected_write_always_asks_whether_it_exists_or_not(name: str, mode: str, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    permit = Permissions(workspace=workspace, mode=mode, allow=["Edit", "Write"], trusted=True)
    path = workspace.resolve(name, workspace.root)
    decision = permit.judge("main", TOOLS["Write"], {"file_path": name}, [Effect("write", str(path))])
    assert decision.verdict == "ask"
    assert not decision.rule  # no "always": it would not be true


@pytest.mark.parametrize("name", FREE)
def test_an_ordinary_file_is_not_protected(name: str) -> None:
    assert not find_protection(Path("/work") / name)


def test_what_looks_like_a_secret_is_known() -> None:
    secret = [
        ".env",
        ".env.local",
        ".env.production",
        "x.pem",
        "id_rsa",
        ".npmrc",
        "sub/.ENV",
        ".aws/config",
        "credentials",
        "secrets.yaml",
    ]
    plain = [
        ".env.example",
        "env.py",
        "keys.py",
        "monkey",
        "a.keyboard",
        "secret_test.py",
        ".envrc.md",
        "credentials.py.bak/x",
    ]
    assert all(sensitive(Path("/w") / name) for name in secret)
    assert not any(sensitive(Path("/w") / name) for name in plain)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with little in it: a miss looks at what is there, and a machine's /tmp may hold a lot."""
    return tmp_path_factory.mktemp("small")


@given(text=st.text(max_size=60))
@settings(max_examples=300)
def test_any_text_resolves_or_is_a_tool_error(small: Path, text: str) -> None:
    workspace = Workspace(small)
    try:
        path = workspace.resolve(text, small)
    except ToolError:
        return
    assert path.is_absolute()
    assert ".." not in path.parts


@pytest.mark.parametrize("mode", ["ask", "accept-edits", "bypass"])
def test_what_cowork_keeps_in_the_workspace_is_protected(mode: str, tmp_path: Path) -> None:
    state = tmp_path / "home/.local/state/cowork"
    workspace = Workspace(tmp_path / "home", readable=[state / "outputs"], own=[state])
    permit = Permissions(workspace=workspace, mode=mode, allow=["Edit", "Bash"], trusted=True)
    path = str(state / "trust.json")
    assert permit.judge("main", TOOLS["Write"], {"file_path": path}, [Effect("write", path)]).verdict == "ask"
    for command, verdict in [(f"cp x {path}", "ask"), (f"cp {state}/outputs/bash.txt x", "allow")]:
        assert permit.judge("main", TOOLS["Bash"], {}, [Effect("exec", command)]).verdict == verdict, command
