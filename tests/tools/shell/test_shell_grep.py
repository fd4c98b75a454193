"""Grep on real folders and repositories."""

from __future__ import annotations

import asyncio
import os
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cowork.core.errors import ToolError
from cowork.core.ports import Effect
from cowork.core.secret_names import sensitive
from cowork.providers.offline.plans import CallResult
from cowork.tools.search import ripgrep as rg
from cowork.tools.search.files import glob, ls
from cowork.tools.search.grep import grep
from tests.tools.shell.conftest import Desk, soon


@pytest.fixture
def code(desk: Desk) -> Desk:
    desk.git("init", "-q")
    desk.write("src/app.py", "import os\n\ndef main():\n    return os.name\n")
    desk.write("src/deep/util.py", "def helper():\n    pass\n\n\n\ndef main_two():\n    pass\n")
    desk.write("web/app.ts", "export function main() {}\n")
    desk.write("README.md", "main\nMAIN\n")
    desk.write(".github/ci.yml", "run: main\n")
    desk.write("build/out.py", "def main(): ...\n")
    desk.write("notes.log", "main\n")
    desk.write(".gitignore", "build/\n*.log\n")
    desk.write("image.bin", b"main\n\0\1\2 main\n")
    return desk


async def test_files_are_listed_in_order_with_their_number(code: Desk) -> None:
    record = await code.call(grep, pattern="main")
    assert record.text.splitlines() == [
        ".github/ci.yml",
        "README.md",
        "src/app.py",
        "src/deep/util.py",
        "web/app.ts",
        "",
        "5 files.",
    ]
    assert (record.status, record.data["files"], record.data["truncated"]) == ("success", 5, False)
    assert record.display["summary"] == "5 files"


async def test_content_shows_path_line_and_text(code: Desk) -> None:
    record = await code.call(grep, pattern="def main", output_mode="content", path="src")
    assert record.text.splitlines()[:2] == ["src/app.py:3:def main():", "src/deep/util.py:6:def main_two():"]
    assert record.text.endswith("2 matches in 2 files.")
    assert record.display["kind"] == "matches"


async def test_line_numbers_can_be_left_out(code: Desk) -> None:
    record = await code.call(grep, pattern="def main", output_mode="content", path="src/app.py", **{"-n": False})
    assert record.text.splitlines()[0] == "src/app.py:def main():"


async def test_context_lines_are_marked_and_separated(code: Desk) -> None:
    record = await code.call(grep, pattern="def", output_mode="content", path="src/deep", **{"-A": 1})
    assert record.text.splitlines()[:6] == [
        "src/deep/util.py",
        "1:def helper():",
        "2-    pass",
        "--",
        "6:def main_two():",
        "7-    pass",
    ]
    around = await code.call(grep, pattern="main_two", output_mode="content", **{"-C": 1})
    assert around.text.splitlines()[1:4] == ["5-", "6:def main_two():", "7-    pass"]
    before = await code.call(grep, pattern="main_two", output_mode="content", **{"-B": 1})
    assert before.data["matches"] == 1
    assert before.data["shown"] == 2


async def test_counts_come_largest_first(code: Desk) -> None:
    record = await code.call(grep, pattern="main", output_mode="count", **{"-i": True})
    assert record.text.splitlines()[0] == "README.md:2"
    assert record.data["matches"] == 6


async def test_lines_of_one_file_stand_under_its_name_and_a_single_one_beside_it(desk: Desk) -> None:
    desk.write("2024-11-03.md", "hit\n")
    desk.write("a.py", "x\nhit:2:y\nz\n\nw\nhit\n")
    desk.write("b.py", "hit\n")
    desk.write("c.py", "hit\nhit\n")
    record = await desk.call(grep, pattern="hit", output_mode="content", **{"-A": 1})
    under = [
        "2024-11-03.md:1:hit",
        "",
        "a.py",
        "2:hit:2:y",
        "3-z",
        "--",
        "6:hit",
        "",
        "b.py:1:hit",
        "",
        "c.py",
        "1:hit",
    ]
    assert record.text.splitlines() == [*under, "2:hit", "", "6 matches in 4 files."]
    listed = ["a.py:2:hit:2:y", "a.py-3-z", "--", "a.py:6:hit", "--", "b.py:1:hit", "--", "c.py:1:hit", "c.py:2:hit"]
    assert record.display["lines"] == ["2024-11-03.md:1:hit", "--", *listed]  # people see the place on each line
    read_back = CallResult(record.text).hits
    assert [f"{line.at} {line.text}" for line in read_back] == [
        *("2024-11-03.md:1 hit", "a.py:2 hit:2:y", "a.py:6 hit", "b.py:1 hit", "c.py:1 hit", "c.py:2 hit")
    ]


async def test_a_match_may_span_lines(code: Desk) -> None:
    record = await code.call(grep, pattern=r"main\(\):.*name", output_mode="content", multiline=True)
    assert record.text.splitlines()[:3] == ["src/app.py", "3:def main():", "4:    return os.name"]
    assert (await code.call(grep, pattern=r"main\(\):.*name")).data["files"] == 0


@pytest.mark.parametrize(
    ("glob", "files"),
    [
        ("*.py", ["src/app.py", "src/deep/util.py"]),
        ("**/*.py", ["src/app.py", "src/deep/util.py"]),
        ("src/*.py", ["src/app.py"]),
        ("src/**/*.py", ["src/app.py", "src/deep/util.py"]),
        ("*.{py,ts}", ["src/app.py", "src/deep/util.py", "web/app.ts"]),
        ("*.ts *.md", ["README.md", "web/app.ts"]),
        ("!*.py", [".github/ci.yml", "README.md", "web/app.ts"]),
        ("*.py,!**/deep/**", ["src/app.py"]),
        ("{src,web}/*", ["src/app.py", "web/app.ts"]),
        ("**/deep/*", ["src/deep/util.py"]),
        ("*.log", []),
        ("**/*", [".github/ci.yml", "README.md", "src/app.py", "src/deep/util.py", "web/app.ts"]),
    ],
)
async def test_a_glob_narrows_and_never_brings_back_what_is_ignored(code: Desk, glob: str, files: list[str]) -> None:
    record = await code.call(grep, pattern="main", glob=glob)
    assert [line for line in record.text.splitlines()[:-1] if line] == files


async def test_type_and_glob_hold_together(code: Desk) -> None:
    record = await code.call(grep, pattern="main", type="py", glob="src/*")
    assert record.text.splitlines()[0] == "src/app.py"
    assert record.data["files"] == 1


async def test_an_ignored_folder_can_be_named(code: Desk) -> None:
    assert (await code.call(grep, pattern="main", path="build")).text.splitlines()[0] == "build/out.py"


async def test_gitignore_counts_outside_a_repository_too(desk: Desk) -> None:
    desk.write(".gitignore", "out/\n")
    desk.write("out/a.txt", "needle")
    desk.write("b.txt", "needle")
    assert (await desk.call(grep, pattern="needle")).text.splitlines()[0] == "b.txt"


async def test_settings_of_the_user_change_nothing(code: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    config = code.write("rgrc", "--files-with-matches\n--invert-match\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(config))
    assert (await code.call(grep, pattern="def main", type="py")).data["files"] == 2


async def test_binary_files_are_skipped_unless_named(code: Desk) -> None:
    assert "image.bin" not in (await code.call(grep, pattern="main")).text
    record = await code.call(grep, pattern="main", path="image.bin", output_mode="content")
    assert record.data["binary"] is True


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"pattern": "nowhere", "path": "src", "glob": "*.py"}, "No matches in src (*.py)."),
        ({"pattern": "nowhere", "type": "py"}, "No matches (py)."),
        ({"pattern": "MAIN_TWO"}, "No matches. It would match with -i, first in src/deep/util.py."),
        ({"pattern": "MAIN_TWO", "-i": True, "path": "README.md"}, "No matches in README.md."),
        (
            {"pattern": "total(a[0])"},
            "No matches. It would match with its special characters escaped, first in calls.c.",
        ),
        (
            {"pattern": "total(a[0])", "output_mode": "content", "-C": 2},
            "special characters escaped, first in calls.c.",
        ),
    ],
)
async def test_no_matches_says_where_it_looked_and_what_would_match(
    code: Desk, args: dict[str, Any], said: str
) -> None:
    code.write("calls.c", "x = total(a[0]);\n")
    record = await code.call(grep, **args)
    assert record.status == "success"
    assert record.text.endswith(said)


async def test_no_matches_is_said(code: Desk) -> None:
    record = await code.call(grep, pattern="nowhere_to_be_found")
    assert (record.status, record.text) == ("success", "No matches.")


@pytest.mark.parametrize(
    ("args", "code_", "words"),
    [
        ({"pattern": "a("}, "INVALID_PARAM", "unclosed group"),
        ({"pattern": "*"}, "INVALID_PARAM", "regular expression"),
        ({"pattern": ""}, "INVALID_PARAM", "pattern is empty"),
        ({"pattern": "a", "type": "nosuch"}, "INVALID_PARAM", "nosuch"),
        ({"pattern": "a", "glob": "{a"}, "INVALID_PARAM", "glob"),
        ({"pattern": "a", "path": "scr"}, "NOT_FOUND", "Nearest: src"),
        ({"pattern": "a", "path": "src/app.pi"}, "NOT_FOUND", "src/app.py"),
        ({"pattern": "a", "path": "nothing/like/it"}, "NOT_FOUND", "does not exist"),
        ({"pattern": "a", "path": ""}, "", ""),
    ],
)
async def test_errors_are_one_line_and_say_what_is_wrong(code: Desk, args: dict, code_: str, words: str) -> None:
    if not code_:
        assert (await code.call(grep, **args)).status == "success"
        return
    with pytest.raises(ToolError) as caught:
        await code.call(grep, **args)
    assert caught.value.code == code_
    assert words in caught.value.text
    assert "\n" not in caught.value.text


async def test_look_around_works(code: Desk) -> None:
    assert (await code.call(grep, pattern="main(?=_two)")).text.splitlines()[0] == "src/deep/util.py"


async def test_a_limit_is_told_with_the_totals(desk: Desk) -> None:
    for i in range(30):
        desk.write(f"f{i:02}.txt", "needle\n" * 10)
    record = await desk.call(grep, pattern="needle", output_mode="content", head_limit=7)
    lines = record.text.splitlines()
    assert lines[:9] == ["f00.txt", *(f"{n}:needle" for n in range(1, 8)), ""]
    assert "300 matches in 30 files." in record.text
    assert "head_limit" in record.text
    assert (record.status, record.data["matches"], record.data["shown"]) == ("partial", 300, 7)
    assert (await desk.call(grep, pattern="needle", output_mode="content", head_limit=0)).data["shown"] == 300


async def test_a_complaint_as_long_as_the_pattern_is_no_reason_to_wait(desk: Desk) -> None:
    desk.write("a.txt", "x\n")
    with pytest.raises(ToolError, match="unclosed group") as failure:
        await desk.call(grep, pattern="x" * 100_000 + "(")  # rg repeats it, more than once
    assert failure.value.code == "INVALID_PARAM"


async def test_millions_of_hits_end_early(desk: Desk) -> None:
    desk.write("many.txt", b"hit\n" * 3_000_000)
    started = time.process_time()
    record = await desk.call(grep, pattern="hit", output_mode="content", head_limit=5)
    assert time.process_time() - started < 5
    assert "at least 2" in record.text
    assert 20_000 <= record.data["matches"] < 100_000
    assert record.data["truncated"] is True


async def test_long_lines_are_cut(desk: Desk) -> None:
    desk.write("min.js", "x" * 100_000 + "needle" + "y" * 100_000)
    record = await desk.call(grep, pattern="needle", output_mode="content")
    assert len(record.text) < 700


async def test_strange_names_and_contents_are_made_safe(desk: Desk) -> None:
    desk.write("a:1:b.txt", "needle \x1b[31mred\x1b[0m \x07\r\n")
    desk.write("two\nlines.txt", "needle\n")
    (desk.root / os.fsdecode(b"bad\xff.txt")).write_text("needle\n")
    record = await desk.call(grep, pattern="needle", output_mode="content")
    assert record.text.splitlines()[:3] == [
        "a:1:b.txt:1:needle red \\x07",
        "bad\\udcff.txt:1:needle",
        "two\\nlines.txt:1:needle",
    ]


async def test_links_are_not_followed(desk: Desk, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.txt").write_text("needle")
    (desk.root / "link").symlink_to(outside)
    (desk.root / "file.txt").symlink_to(outside / "secret.txt")
    assert (await desk.call(grep, pattern="needle")).data["files"] == 0
    with pytest.raises(ToolError):
        await desk.call(grep, pattern="needle", glob="link/*")


async def test_what_a_rule_forbids_is_left_out(code: Desk) -> None:
    code.ctx.tree.may_read = lambda path: path.name != "app.py"
    text = (await code.call(grep, pattern="main", output_mode="content")).text
    assert "util.py" in text
    assert "app.py" not in text


async def test_paths_come_relative_to_the_working_directory(code: Desk) -> None:
    code.ctx.state.cwd = code.root / "src"
    assert (await code.call(grep, pattern="def main")).text.splitlines()[0] == "app.py"
    assert (await code.call(grep, pattern="main", path="../web")).text.splitlines()[0] == str(code.root / "web/app.ts")


async def test_the_effect_is_the_resolved_place(code: Desk) -> None:
    (code.root / "link").symlink_to("/usr")
    assert grep.effects(code.ctx, {"pattern": "x", "path": "link"}) == [Effect("read", os.path.realpath("/usr"))]
    assert grep.effects(code.ctx, {"pattern": "x"}) == [Effect("read", str(code.root))]


async def test_unreadable_files_are_mentioned_and_root_reads_everything(desk: Desk) -> None:
    desk.write("open.txt", "needle")
    desk.write("shut.txt", "needle").chmod(0)
    record = await desk.call(grep, pattern="needle")
    shut = os.geteuid() != 0
    assert record.status == ("partial" if shut else "success")
    assert ("could not be read" in record.text) is shut
    assert ("shut.txt" in record.text) is not shut


async def test_a_folder_is_searched_without_its_secrets_and_a_secret_only_by_name(desk: Desk) -> None:
    desk.write("a.txt", "needle")
    desk.write(".env", "KEY=needle")
    desk.write("sub/.Env.local", "KEY=needle")
    assert (await desk.call(grep, pattern="needle")).text.splitlines()[0] == "a.txt"
    assert "1 file" in (await desk.call(grep, pattern="needle")).text
    assert ".env" in (await desk.call(grep, pattern="needle", path=".env")).text


async def test_pipes_and_devices_are_refused_at_once(desk: Desk) -> None:
    os.mkfifo(desk.root / "pipe")
    for path in ("pipe", "/dev/zero"):
        with pytest.raises(ToolError, match="neither a file nor a folder"):
            await desk.call(grep, pattern="x", path=path)
    assert (await desk.call(grep, pattern="x")).text == "No matches."


async def test_a_line_longer_than_the_memory_of_a_search_is_still_searched(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rg, "_MEMORY", 96 << 20)
    desk.write("long.txt", b"abcdefghij" * 6_000_000 + b"needle\n")
    desk.write("short.txt", "a needle\n")
    record = await desk.call(grep, pattern="needle", output_mode="content")
    assert record.data["matches"] == 2
    assert record.data["files"] == 2
    assert len(record.text) < 2_000


@pytest.fixture
def bin(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The only folder where ripgrep may be; it is empty."""
    empty = tmp_path_factory.mktemp("empty")
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(empty))
    monkeypatch.setenv("PATH", str(empty))
    rg.program.cache_clear()
    yield empty
    rg.program.cache_clear()


async def test_a_cancelled_search_leaves_no_process(desk: Desk, bin: Path) -> None:
    (bin / "rg").write_text("#!/bin/sh\nwhile :; do /bin/sleep 0.1; done\n")
    (bin / "rg").chmod(0o755)
    task = asyncio.create_task(desk.call(grep, pattern=desk.mark))
    assert await soon(lambda: len(desk.survivors()) == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert desk.survivors() == []


async def test_without_ripgrep_every_search_says_what_to_do(code: Desk, bin: Path) -> None:
    for tool, args in ((grep, {"pattern": "main"}), (glob, {"pattern": "*.py"}), (ls, {})):
        with pytest.raises(ToolError, match=r"ripgrep is missing.*reinstall cowork, or to install ripgrep"):
            await code.call(tool, **args)


async def test_an_ignore_file_that_is_a_pipe_is_taken_for_empty_and_named(desk: Desk) -> None:
    desk.write("top.txt", "needle")
    desk.write("sub/deep/a.txt", "needle")
    for folder in ("sub", "sub/deep"):
        os.mkfifo(desk.root / folder / ".gitignore")
    found, listed = await asyncio.gather(desk.call(grep, pattern="needle"), desk.call(glob, pattern="**/*.txt"))
    for record in (found, listed):
        assert {"top.txt", "sub/deep/a.txt"} <= set(record.text.splitlines())
        assert "sub/.gitignore is a named pipe and was taken for an empty file." in record.text


SECRETS = """
.env .env.local tls.pem a.key b.p12 c.jks d.keystore e.kdbx f.ppk id_rsa id_ecdsa .netrc _netrc .npmrc .pypirc
.git-credentials .htpasswd .pgpass .my.cnf .s3cfg .boto .dockercfg .vault-token terraform.tfstate credentials
credentials.json secrets.yaml service-account-1.json .ssh/x .aws/x .kube/x .docker/x .azure/x
"""


@pytest.mark.parametrize("name", SECRETS.split())
async def test_what_looks_like_a_secret_is_no_part_of_a_search(desk: Desk, name: str) -> None:
    assert sensitive(desk.root / name)
    desk.write(f"deep/{name}", "needle")
    desk.write("plain.txt", "needle")
    assert (await desk.call(grep, pattern="needle")).text.splitlines()[0] == "plain.txt"
