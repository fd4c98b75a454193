"""Bash, BashOutput and KillBash as a model meets them."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from cowork.core.errors import ToolError
from cowork.core.hygiene import clean_environ
from cowork.core.ports import BoxName, Effect
from cowork.tools.base import ToolContext
from cowork.tools.shell.bash import bash, bash_output, kill_bash
from tests.tools.shell.conftest import GONE, Desk, soon, within


async def test_output_and_exit_code(desk: Desk) -> None:
    record = await desk.call(bash, command="echo out; echo err >&2; echo out again")
    assert (record.status, record.text) == ("success", "out\nerr\nout again")
    assert record.data["exit_code"] == 0
    assert record.data["lines"] == 3
    assert record.display == {
        "kind": "terminal",
        "command": "echo out; echo err >&2; echo out again",
        "output": "out\nerr\nout again\n",
        "exit_code": 0,
        "lines": 3,
        "summary": "exit 0",
    }


async def test_a_failing_command_is_partial_with_its_code(desk: Desk) -> None:
    record = await desk.call(bash, command="echo before; exit 3")
    assert (record.status, record.data["exit_code"], record.data["signal"]) == ("partial", 3, "")
    assert record.text == "before\n\nExit code 3."
    assert (await desk.call(bash, command="false")).data["exit_code"] == 1
    assert (await desk.call(bash, command="no_such_program_at_all")).data["exit_code"] == 127
    assert (await desk.call(bash, command="if then")).data["exit_code"] == 2


async def test_a_signal_is_named(desk: Desk) -> None:
    record = await desk.call(bash, command="kill -SEGV $$")
    assert (record.data["exit_code"], record.data["signal"]) == (None, "SIGSEGV")
    assert "SIGSEGV" in record.text


async def test_a_signal_that_came_as_an_exit_code_is_named_too(desk: Desk) -> None:
    record = await desk.call(bash, command="bash -c 'kill -KILL $$'; exit $?")
    assert (record.data["exit_code"], record.data["signal"]) == (137, "SIGKILL")
    assert "Exit code 137 (SIGKILL)." in record.text
    assert (await desk.call(bash, command="exit 250")).data["signal"] == ""


async def test_silence_is_said(desk: Desk) -> None:
    assert (await desk.call(bash, command="true")).text == "(no output)"


@pytest.mark.parametrize("command", ["", "  \n", "echo a\0b"])
async def test_what_is_no_command_is_refused(desk: Desk, command: str) -> None:
    with pytest.raises(ToolError) as caught:
        await desk.call(bash, command=command)
    assert caught.value.code == "INVALID_PARAM"


async def test_the_effect_is_the_command_where_it_would_run(desk: Desk) -> None:
    assert bash.effects(desk.ctx, {"command": "ls -l"}) == [Effect("exec", "ls -l", str(desk.root))]


@pytest.mark.parametrize(
    "command",
    [
        "cd sub",
        "cd sub; exit 4",
        "cd sub && false",
        "set -e; cd sub; false; cd ..",
        "trap 'echo bye' EXIT; cd sub",
        "set -x; cd sub",
        "cd sub; IFS=b; set -f",
        "pwd() { echo /etc; }; cd sub",
        "exec 3>&- 4>&-; cd sub",
        "cd sub; sleep 600 & disown",
        'cd sub; for i in 3 4 5 6 7 8 9 10 11 12; do eval "echo / >&$i"; done 2>/dev/null; true',
        "pushd sub >/dev/null",
        "cd sub; cat <<'END'\nlast line\nEND",
        "cd sub # and a comment",
        "cd sub; trap 'exit 5' USR1; kill -USR1 $$",
        "set -eu; cd sub; PATH=; sleep_is_gone || true",
        "set -euo pipefail; cd sub; sleep 600 &",
    ],
)
async def test_the_working_directory_is_kept(desk: Desk, command: str) -> None:
    (desk.root / "sub").mkdir()
    await desk.call(bash, command=command)
    assert desk.ctx.state.cwd == desk.root / "sub"
    assert (await desk.call(bash, command="pwd")).text == str(desk.root / "sub")


@pytest.mark.parametrize(
    "command",
    ["(cd sub)", "cd nowhere", "kill -9 $$", "exec true", "cd sub & wait", "cd sub | cat"],
)
async def test_the_working_directory_stays_where_the_shell_did_not_go(desk: Desk, command: str) -> None:
    (desk.root / "sub").mkdir()
    await desk.call(bash, command=command)
    assert desk.ctx.state.cwd == desk.root


async def test_a_folder_outside_the_workspace_is_left_again(desk: Desk) -> None:
    (desk.root / "sub").mkdir()
    (desk.root / "way-out").symlink_to("/usr")
    await desk.call(bash, command="cd sub")
    record = await desk.call(bash, command="cd /; pwd")
    assert desk.ctx.state.cwd == desk.root
    assert "outside the workspace" in record.text
    await desk.call(bash, command="cd way-out")
    assert desk.ctx.state.cwd == desk.root


async def test_a_vanished_working_directory_is_survived(desk: Desk) -> None:
    (desk.root / "sub").mkdir()
    await desk.call(bash, command="cd sub && rmdir ../sub")
    record = await desk.call(bash, command="pwd")
    assert record.text.startswith(str(desk.root))
    assert desk.ctx.state.cwd == desk.root


async def test_folders_with_strange_names_are_kept(desk: Desk) -> None:
    for name in ("with space", "quote'\"", "$(echo x)", "umlaut ü", "-dash"):
        (desk.root / name).mkdir()
        await desk.call(bash, command=f"cd -- {_quoted(str(desk.root / name))}")
        assert desk.ctx.state.cwd == desk.root / name


async def test_stdin_is_empty_and_there_is_no_terminal(desk: Desk) -> None:
    record = await desk.call(bash, command="cat; read x; echo got:$x; test -t 0 || echo no tty; echo hi >/dev/tty")
    assert "got:\nno tty" in record.text
    assert record.data["exit_code"] == 1


async def test_the_environment_is_quiet_and_clean(desk: Desk) -> None:
    trap = desk.write("trap.sh", "echo injected")
    hostile = {
        **desk.ctx.tree.environ,
        "BASH_ENV": str(trap),
        "ENV": str(trap),
        "PROMPT_COMMAND": "echo injected",
        "BASH_FUNC_ls%%": "() { echo injected; }",
        "MINE": "kept",
    }
    desk.ctx.tree.environ = clean_environ(hostile)
    record = await desk.call(bash, command="ls; env; echo $MINE")
    assert "injected" not in record.text
    assert "PAGER=cat" in record.text
    assert "GIT_TERMINAL_PROMPT=0" in record.text
    assert record.text.endswith("kept")


async def test_the_environment_of_cowork_is_not_to_be_seen(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET_KEY", "sk-very-secret")
    record = await desk.call(bash, command="env; tr '\\0' '\\n' < /proc/$PPID/environ")
    assert "sk-very-secret" not in record.text


async def test_no_descriptor_of_ours_reaches_a_command(desk: Desk) -> None:
    listing = await desk.call(bash, command="ls -l /proc/self/fd")
    assert len([line for line in listing.text.splitlines() if "->" in line]) == 4  # and the folder itself


async def test_a_command_may_be_very_long(desk: Desk) -> None:
    text = "".join(f"line {i} é\n" for i in range(40_000))
    record = await desk.call(bash, command=f"cat > big.txt <<'END'\n{text}END\nwc -l < big.txt")
    assert record.text == "40000"
    assert (desk.root / "big.txt").read_text() == text


async def test_a_command_does_not_find_itself_by_its_words(desk: Desk) -> None:
    record = await desk.call(bash, command="pgrep -f 'a very special phrase' || echo nobody")
    assert record.text == "nobody"


async def test_time_out_keeps_what_was_printed(desk: Desk) -> None:
    record = await desk.call(bash, command="echo before; sleep 600", timeout=1_000)
    assert record.status == "error"
    assert record.error == {"code": "TIMEOUT", "message": "Command timed out after 1000 ms"}
    assert record.text.startswith("before\n")
    assert "run_in_background" in record.text
    assert 1_000 <= record.data["duration_ms"] < 6_000
    assert record.display["summary"] == "timed out after 1 s"


async def test_a_command_may_clean_up_when_told_to_end(desk: Desk) -> None:
    record = await desk.call(bash, command="trap 'echo cleaned; exit' TERM; sleep 600 & wait", timeout=1_000)
    assert "cleaned" in record.text


async def test_what_is_left_running_is_ended_and_named(desk: Desk) -> None:
    record = await desk.call(bash, command="sleep 600 & echo started")
    assert record.status == "partial"
    assert "sleep" in record.text
    assert "run_in_background" in record.text
    assert record.data["ended_processes"] == ["sleep"]
    assert desk.survivors() == []


async def test_what_ends_by_itself_in_a_moment_is_not_ended(desk: Desk) -> None:
    for command in (
        "echo a > >(sleep 0.05; cat)",
        "echo a > >(sleep 0.05; cat); exit",
        "set -eux; (sleep 0.05; echo a) &",
    ):
        record = await desk.call(bash, command=command)
        assert record.status == "success"
        assert record.text.endswith("a")


async def test_output_is_made_plain(desk: Desk) -> None:
    command = r"printf '\033[1;31mred\033[0m\n10%%\r50%%\r100%%\n\007bell\nb\bbold\n\033]0;title\007after\ncr\r\n'"
    record = await desk.call(bash, command=command)
    assert record.text == "red\n100%\n\\x07bell\nbold\nafter\ncr"


async def test_binary_output_is_cut_short(desk: Desk) -> None:
    record = await desk.call(bash, command="head -c 100000 /dev/urandom")
    assert len(record.text) < 1_000
    assert "Binary output, 100,000 bytes" in record.text


async def test_long_output_keeps_both_ends_and_a_file_the_rest(desk: Desk) -> None:
    record = await desk.call(bash, command="seq 1 100000")
    lines = record.text.splitlines()
    assert (lines[0], lines[-1]) == ("1", "100000")
    assert len(lines) < 2_000
    assert len(record.text) < 50_000
    assert record.data["output_file"] in record.text
    file = Path(record.data["output_file"])
    assert file.read_text() == "".join(f"{i}\n" for i in range(1, 100_001))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert (record.status, record.data["lines"], record.data["truncated"]) == ("partial", 100_000, True)


async def test_output_just_under_the_limit_is_whole(desk: Desk) -> None:
    record = await desk.call(bash, command="seq 1 1900")
    assert record.text == "\n".join(str(i) for i in range(1, 1901))
    assert record.data["output_file"] == ""
    assert not desk.ctx.tree.scratch.exists()


async def test_recording_stops_at_its_limit(desk: Desk) -> None:
    record = await desk.call(bash, command="head -c 106000000 /dev/zero | tr '\\0' '\\n'; echo the end")
    file = Path(record.data["output_file"])
    assert file.stat().st_size == 100 << 20
    assert "not recorded" in record.text
    assert record.text.endswith("the end")
    assert record.data["bytes"] == 106_000_008
    file.unlink()


async def test_a_scratch_folder_that_cannot_be_written_loses_no_command(desk: Desk) -> None:
    desk.ctx.tree.scratch = desk.write("a-file") / "below"
    record = await desk.call(bash, command="seq 1 100000")
    assert record.data["exit_code"] == 0
    assert "not recorded (Not a directory)" in record.text
    with pytest.raises(ToolError, match="cannot be written"):
        await desk.call(bash, command="true", run_in_background=True)


async def test_output_is_shown_while_it_comes(desk: Desk) -> None:
    task = asyncio.create_task(
        desk.call(bash, command="echo first; while [ ! -e go ]; do sleep 0.01; done; echo second")
    )
    assert await soon(lambda: "first\n" in "".join(desk.heard))
    desk.write("go")
    await task
    assert "".join(desk.heard) == "first\nsecond\n"


async def test_an_unfinished_line_is_shown_too(desk: Desk) -> None:
    task = asyncio.create_task(
        desk.call(bash, command="printf wait...; while [ ! -e go ]; do sleep 0.01; done; echo ok")
    )
    assert await soon(lambda: "wait..." in "".join(desk.heard))
    desk.write("go")
    record = await task
    assert "".join(desk.heard) == "wait...ok\n"
    assert record.text == "wait...ok"


async def test_commands_run_beside_each_other(desk: Desk) -> None:
    loop = asyncio.get_running_loop()
    started = loop.time()
    records = await asyncio.gather(*(desk.call(bash, command=f"sleep 0.5; echo {i}") for i in range(5)))
    assert [record.text for record in records] == ["0", "1", "2", "3", "4"]
    assert loop.time() - started < 1.5


async def test_a_checkpoint_is_taken_before_a_command(desk: Desk) -> None:
    seen: list[object] = []

    async def before_command(tell: object) -> None:
        seen.append((desk.root / "made").exists())

    desk.ctx.tree.before_command = before_command
    await desk.call(bash, command="touch made")
    assert seen == [False]


async def test_the_sandbox_goes_around_the_shell(desk: Desk) -> None:
    seen: list[object] = []

    def wrap(argv, cwd, box):
        seen.append((cwd, box))
        return ["env", "WRAPPED=yes", *argv]

    desk.ctx.tree.wrap = wrap
    assert (await desk.call(bash, command="echo $WRAPPED")).text == "yes"
    assert seen == [(desk.root, "write")]


async def test_a_sandbox_that_does_not_start_is_an_error(desk: Desk) -> None:
    desk.ctx.tree.wrap = lambda argv, cwd, box: ["/no/such/sandbox", *argv]
    with pytest.raises(ToolError) as caught:
        await desk.call(bash, command="true")
    assert caught.value.code == "EXECUTION_ERROR"
    assert "/no/such/sandbox" in caught.value.text


def bubblewrapped(ctx: ToolContext) -> None:
    root = str(ctx.workspace.root)
    ctx.tree.wrap = lambda argv, cwd, box: [
        *("bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--bind", root, root),
        *("--unshare-all", "--die-with-parent", "--cap-drop", "ALL", "--chdir", str(cwd), "--"),
        *argv,
    ]


async def test_everything_works_inside_bubblewrap(desk: Desk) -> None:
    bubblewrapped(desk.ctx)
    if not shutil.which("bwrap") or (await desk.call(bash, command="true")).data["exit_code"] != 0:
        pytest.skip("bubblewrap does not work here")
    (desk.root / "sub").mkdir()
    record = await desk.call(bash, command="cd sub; setsid sleep 600 & echo hi; exit 3")
    assert record.data["exit_code"] == 3
    assert desk.ctx.state.cwd == desk.root / "sub"
    assert record.data["ended_processes"] == ["sleep"]
    assert "run_in_background" in (await desk.call(bash, command="sleep 600 & disown")).text
    await desk.call(bash, command="trap '' TERM; setsid sleep 600 & sleep 600", timeout=300)
    assert await within(GONE, lambda: not desk.survivors())
    polite = await desk.call(bash, command="trap 'echo cleaned; exit' TERM; sleep 600 & wait", timeout=1_000)
    assert "cleaned" in polite.text
    assert (await desk.call(bash, command="echo late > >(sleep 0.05; cat)")).text == "late"
    assert (await desk.call(bash, command="seq 1 3 | tail -1; exit 2")).text == "3\n\nExit code 2."


async def test_a_box_that_could_not_be_made_is_made_again_and_the_command_runs_once(desk: Desk) -> None:
    bubblewrapped(desk.ctx)
    if not shutil.which("bwrap") or (await desk.call(bash, command="true")).data["exit_code"] != 0:
        pytest.skip("bubblewrap does not work here")
    good, tried = desk.ctx.tree.wrap, list[int]()

    def hides_what_is_gone(times: int) -> None:
        def wrap(argv: Sequence[str], cwd: Path, box: BoxName) -> Sequence[str]:
            tried.append(1)
            program, *rest = good(argv, cwd, box)
            gone = ["--ro-bind", os.devnull, "/usr/gone.sock"] if len(tried) <= times else []
            return [program, *rest[:3], *gone, *rest[3:]]

        tried.clear()
        desk.ctx.tree.wrap = wrap

    hides_what_is_gone(2)
    record = await desk.call(bash, command="echo once | tee -a log")
    assert (record.text, record.status, len(tried)) == ("once", "success", 3)
    assert (desk.root / "log").read_text() == "once\n"
    assert "bwrap" not in "".join(desk.heard)
    hides_what_is_gone(100)
    record = await desk.call(bash, command="echo never >> log")
    assert "bwrap: Can't create file at /usr/gone.sock" in record.text
    assert record.data["exit_code"] == 1
    assert (desk.root / "log").read_text() == "once\n"
    hides_what_is_gone(1)
    started = await desk.call(bash, command="echo once | tee -a other; sleep 600", run_in_background=True)
    assert await within(GONE, (desk.root / "other").exists)
    await desk.call(kill_bash, shell_id=started.data["bash_id"])
    assert (await desk.call(bash_output, bash_id=started.data["bash_id"])).text.startswith("once\n")
    desk.ctx.tree.wrap = good
    assert (await desk.call(bash, command="echo bwrap: as its own words; exit 1")).text.startswith("bwrap: as its own")


async def test_a_sandbox_that_is_slow_to_go_was_not_left_behind_by_the_command(desk: Desk) -> None:
    box = desk.root / "slow-box"
    box.write_text('#!/bin/sh\n( ( read line < "$0.never" ) & )\nexec "$@"\n')
    box.chmod(0o755)
    os.mkfifo(f"{box}.never")
    desk.ctx.tree.wrap = lambda argv, cwd, kind: [str(box), *argv]
    record = await desk.call(bash, command="echo done")
    assert (record.status, record.text, record.data["ended_processes"]) == ("success", "done", [])
    assert not desk.survivors()


async def test_a_background_command_is_read_bit_by_bit(desk: Desk) -> None:
    record = await desk.call(
        bash, command="echo one; while [ ! -e go ]; do sleep 0.01; done; echo two; exit 7", run_in_background=True
    )
    assert (record.status, record.data["bash_id"], record.data["running"]) == ("success", "bash_1", True)
    assert 'BashOutput(bash_id="bash_1")' in record.text
    first = await desk.call(bash_output, bash_id="bash_1")
    assert first.text.startswith("one\n\nbash_1 is running")
    assert (await desk.call(bash_output, bash_id="bash_1")).text.startswith("(no new output)")
    desk.write("go")
    assert await soon(lambda: not desk.ctx.tree.jobs["bash_1"].running)
    last = await desk.call(bash_output, bash_id="bash_1")
    assert last.text == "two\n\nbash_1 exited with code 7."
    assert (last.data["running"], last.data["exit_code"]) == (False, 7)


async def test_an_unfinished_line_is_new_output_once(desk: Desk) -> None:
    await desk.call(bash, command="printf half; sleep 600", run_in_background=True)
    assert (await desk.call(bash_output, bash_id="bash_1")).text.startswith("half\n")
    assert (await desk.call(bash_output, bash_id="bash_1")).text.startswith("(no new output)")


async def test_a_filter_keeps_matching_lines_and_counts_the_rest_as_read(desk: Desk) -> None:
    await desk.call(bash, command="printf 'a error\\nb\\nc error\\n'", run_in_background=True)
    record = await desk.call(bash_output, bash_id="bash_1", filter="err.r")
    assert record.text.startswith("a error\nc error\n\n")
    assert (await desk.call(bash_output, bash_id="bash_1")).text.startswith("(no new output)")


async def test_a_bad_filter_is_refused_and_reads_nothing(desk: Desk) -> None:
    await desk.call(bash, command="echo here", run_in_background=True)
    with pytest.raises(ToolError, match="regular expression"):
        await desk.call(bash_output, bash_id="bash_1", filter="(")
    assert (await desk.call(bash_output, bash_id="bash_1")).text.startswith("here")


async def test_much_new_output_is_cut_at_the_front(desk: Desk) -> None:
    await desk.call(bash, command="seq 1 50000", run_in_background=True)
    assert await soon(lambda: not desk.ctx.tree.jobs["bash_1"].running)
    record = await desk.call(bash_output, bash_id="bash_1")
    assert "50000\n\nbash_1 exited" in record.text
    assert len(record.text) < 50_000
    assert record.status == "partial"
    assert Path(record.data["output_file"]).read_text().startswith("1\n2\n")


async def test_background_commands_do_not_move_the_working_directory(desk: Desk) -> None:
    (desk.root / "sub").mkdir()
    await desk.call(bash, command="cd sub", run_in_background=True)
    assert desk.ctx.state.cwd == desk.root


async def test_a_background_command_that_fails_at_once_says_so(desk: Desk) -> None:
    record = await desk.call(bash, command="no_such_server", run_in_background=True)
    assert (record.status, record.data["exit_code"]) == ("partial", 127)
    assert "exited with code 127" in record.text


async def test_killing_is_told_and_so_is_killing_twice(desk: Desk) -> None:
    await desk.call(bash, command="sleep 600", run_in_background=True)
    assert (await desk.call(kill_bash, shell_id="bash_1")).data == {"shell_id": "bash_1", "killed": True}
    assert desk.survivors() == []
    again = await desk.call(kill_bash, shell_id="bash_1")
    assert again.data["killed"] is False
    assert "already ended" in again.text
    assert "was ended by SIGTERM" in (await desk.call(bash_output, bash_id="bash_1")).text


@pytest.mark.parametrize(
    ("owner", "ender", "may"),
    [("main", "main/bash-1", False), ("main/a-1", "main/a-2", False), ("main/a-1", "main/a-10", False),
     ("main/a-1", "main", True), ("main/a-1", "main/a-1", True), ("main/a-1/b-2", "main/a-1", True)],
)  # fmt: skip
async def test_a_background_command_is_ended_only_by_who_started_it_or_sent_that_one_out(
    desk: Desk, owner: str, ender: str, may: bool
) -> None:
    desk.ctx.agent = owner
    await desk.call(bash, command="sleep 600", run_in_background=True)
    desk.ctx.agent = ender
    if may:
        assert (await desk.call(kill_bash, shell_id="bash_1")).data["killed"]
    else:
        with pytest.raises(ToolError, match=f"started by {owner}"):
            await desk.call(kill_bash, shell_id="bash_1")
        assert desk.ctx.tree.jobs["bash_1"].running


async def test_an_unknown_id_names_the_known(desk: Desk) -> None:
    with pytest.raises(ToolError, match="Known: none"):
        await desk.call(bash_output, bash_id="bash_1")
    await desk.call(bash, command="sleep 600", run_in_background=True)
    with pytest.raises(ToolError, match="Known: bash_1"):
        await desk.call(kill_bash, shell_id="bash_2")


async def test_overhead_of_a_command_is_small(desk: Desk) -> None:
    await desk.call(bash, command="true")
    loop = asyncio.get_running_loop()
    times = []
    for _ in range(20):
        started = loop.time()
        await desk.call(bash, command="true")
        times.append(loop.time() - started)
    assert sorted(times)[5] < 0.05  # ten times what it takes on a quiet machine


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def test_the_shell_without_bash_works_too(tmp_path: Path) -> None:
    """The script for plain sh, run by the system's sh with descriptors as the reaper sets them."""
    from cowork.tools.shell import jobs

    told_out, told_in = os.pipe()
    command_file = tmp_path / "command"
    command_file.write_text("cd /usr; echo hi; exit 3")
    pid = os.fork()
    if pid == 0:
        script = os.open(command_file, os.O_RDONLY)
        os.dup2(told_in, 30)
        os.dup2(script, 31)
        os.dup2(30, 3)
        os.dup2(31, 4)
        os.execv("/bin/sh", ["sh", "-c", jobs._SH, "sh"])
    os.close(told_in)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
    assert os.read(told_out, 100).decode().strip() == "B" + os.path.realpath("/usr")
    os.close(told_out)


async def test_a_line_end_in_the_name_of_a_folder_is_no_process(desk: Desk) -> None:
    (desk.root / "a\nb").mkdir()
    await desk.call(bash, command="cd a*")
    record = await desk.call(bash, command="true")
    assert (record.text, desk.ctx.state.cwd) == ("(no output)", desk.root / "a\nb")
