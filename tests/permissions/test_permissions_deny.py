"""Deny rules hold behind every wrapper, in every mode, in children, whatever is allowed: a generated matrix."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from cowork.core.ports import Effect
from cowork.core.workspace import Workspace
from cowork.permissions import Permissions
from cowork.permissions.shell.parse import names
from tests.fakes.calls import TOOLS

# {} is the denied command as words, {q} the same inside quotes.
WRAPPERS = [
    "{}",
    "env {}",
    "env -i A=1 {}",
    "env -u X {}",
    "env -S '{q}'",
    "timeout 5 {}",
    "timeout -k 1 -s KILL 5 {}",
    "timeout --kill-after=1 5 {}",
    "nice {}",
    "nice -n 5 {}",
    "nice -5 {}",
    "nohup {}",
    "setsid -w {}",
    "stdbuf -o0 {}",
    "stdbuf -o 0 {}",
    "ionice -c 3 {}",
    "taskset 1 {}",
    "time {}",
    "time -p {}",
    "command {}",
    "command -p {}",
    "builtin command {}",
    "exec {}",
    "exec -a x {}",
    "sudo {}",
    "sudo -u root {}",
    "sudo -n -- {}",
    "sudo A=1 {}",
    "doas {}",
    "xargs {}",
    "xargs -0 -n 1 {}",
    "ls | xargs -I % {}",
    "xargs -P4 {}",
    "sh -c '{q}'",
    "bash -c '{q}'",
    "bash -lc '{q}'",
    "bash --norc -c '{q}'",
    "/bin/bash -c '{q}'",
    "zsh -c '{q}'",
    "dash -ec '{q}'",
    "eval '{q}'",
    "eval {}",
    "trap '{q}' EXIT",
    "bash <<EOF\n{}\nEOF",
    "bash <<< '{q}'",
    "$({})",
    "echo $({})",
    'echo "$({})"',
    "echo `{}`",
    "cat <({})",
    "ls; {}",
    "ls && {}",
    "ls || {}",
    "ls | {}",
    "ls & {}",
    "ls\n{}",
    "({})",
    "{{ {}; }}",
    "! {}",
    "if true; then {}; fi",
    "while true; do {}; done",
    "for i in 1; do {}; done",
    "case x in x) {};; esac",
    "f() {{ {}; }}; f",
    "coproc {}",
    "A=1 {}",
    "A=$(ls) {}",
    ">x {}",
    "find . -exec {} ;",
    "find . -exec {} {{}} +",
    "find . -execdir {} \\;",
    "fd -x {}",
    "watch {}",
    "watch -n 1 '{q}'",
    "script -c '{q}'",
    "su -c '{q}'",
    "flock x {}",
    "flock x -c '{q}'",
    "parallel {}",
    "parallel -j 4 {} ::: a",
    "busybox {}",
    "strace -f {}",
    "chroot . {}",
    "unshare -r {}",
    "setpriv --reuid 1 {}",
    "systemd-run --user {}",
    "docker run --rm img {}",
    "uv run {}",
    "poetry run {}",
    "npx -c '{q}'",
    "npm exec -- {}",
    "git -c alias.x='!{q}' x",
    "git submodule foreach '{q}'",
    "git bisect run {}",
    "git rebase -x '{q}' main",
    "/lib64/ld-linux-x86-64.so.2 {}",
    "timeout 5 env nice sudo sh -c '{q}'",
    "sh -c \"bash -c '{q}'\"",
    "env env env env {}",
    "trap -- '{q}' EXIT",
    "eval -- '{q}'",
    "env -iS '{q}'",
    "env -vS'{q}'",
    "xargs -i {}",
    "xargs -l {}",
    "script -q /dev/null {}",
    "chronic {}",
    "setarch x86_64 {}",
    "prlimit --nofile=9 {}",
    "ip netns exec n {}",
    "tmux new -d '{q}'",
    "hyperfine '{q}'",
    "genv {}",
    "bash-5.2 -c '{q}'",
    "nu -c '{q}'",
    "mapfile -C '{q}' -c 1 y",
    "compgen -C '{q}'",
    "alias a='{q}'",
    "tar xf a --to-command='{q}'",
    "split --filter='{q}' y",
    "ssh -o ProxyCommand='{q}' host",
    "go test -exec '{q}' ./...",
    "x='a[$({q})]'; [[ x -eq 1 ]]",
    "let 'a[$({q})]=1'",
    "coproc X {{ {}; }}",
    "function f {{ {}; }}; f",
]
DENIED = [  # (rule, command it must stop)
    ("Bash(rm:*)", "rm x"),
    ("Bash(rm:*)", "/bin/rm -f x"),
    ("Bash(git push:*)", "git push origin main"),
    ("Bash(git push:*)", "git -C src push"),
    ("Bash(curl:*)", "curl http://x"),
    ("Bash(npm publish:*)", "npm publish"),
]
MODES = ["plan", "ask", "accept-edits", "auto", "bypass"]
ALLOWED: list[list[str]] = [
    [],
    ["Bash"],
    ["Bash(rm:*)", "Bash(git:*)", "Bash(curl:*)", "Bash(npm:*)", "Bash(env:*)", "Bash(sudo:*)"],
]
CHILDREN = ["main", "child", "grandchild"]


def cases() -> list[tuple[str, str]]:
    found = []
    for (rule, command), wrapper in itertools.product(DENIED, WRAPPERS):
        found.append(
            (rule, wrapper.replace("{{", "\0").replace("}}", "\1").replace("{q}", command).replace("{}", command))
        )
    return [(rule, text.replace("\0", "{").replace("\1", "}")) for rule, text in found]


CASES = cases()
# Behind these, and in any list, pipe, loop or substitution, the command is found and denied whoever could be asked.
_KNOWN = names(
    "env timeout nice nohup setsid stdbuf ionice taskset time command builtin exec sudo doas xargs sh bash zsh"
)
_KNOWN |= names("dash eval trap ls if while for f() { ( ! find busybox strace chroot watch coproc function A=1 >x")
FOLLOWED = {
    command
    for _, command in CASES
    if (command.split()[0] in _KNOWN or command.startswith(("$(", "echo", "cat <(", "/bin/bash", "({", "(")))
    and not any(mark in command for mark in ("-S", "-iS", "-vS", "<<", "{}", "a[", "-l ", "-i ", "alias"))
}
SOAK = bool(os.environ.get("COWORK_SOAK"))
MATRIX = len(CASES) * len(MODES) * len(ALLOWED) * len(CHILDREN)


def test_the_matrix_is_large_enough() -> None:
    assert MATRIX >= 2_000


@pytest.mark.soak
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("child", CHILDREN)
def test_a_denied_command_is_denied_behind_every_wrapper(mode: str, child: str, workspace: Workspace) -> None:
    escaped = []
    cell = MODES.index(mode) * len(CHILDREN) + CHILDREN.index(child)  # every case in one of them, in all by `make soak`
    for allow in ALLOWED:
        permits = {
            rule: Permissions(workspace=workspace, mode=mode, allow=allow, deny=[rule], trusted=True)
            for rule, _ in DENIED
        }
        for rule, command in CASES if SOAK else CASES[cell :: len(MODES) * len(CHILDREN)]:
            permit = permits[rule]
            if child != "main":
                permit = permit.child()
            if child == "grandchild":
                permit = permit.child("bypass")
            verdict = permit.judge(child, TOOLS["Bash"], {}, [Effect("exec", command)]).verdict
            followed = command in FOLLOWED or mode in (
                "plan",
                "bypass",
            )  # what cannot be followed asks, if anybody can be
            if verdict != "deny" and (followed or verdict == "allow"):
                escaped.append(command)
    assert escaped == []


@pytest.mark.parametrize(
    "command",
    [
        "$X y",
        "$(echo rm) y",
        '"$@"',
        "r? y",
        "{rm,y}",
        "eval $X",
        "bash x.sh",
        "ls | sh",
        "source x",
        'bash -c "$X"',
        "((a=1))",
        "echo ${ ls; }",
        "echo ${x@P}",
        "python -c 'import os'",
        "python3.11 - <<E\nx\nE",
        "echo x | python",
        "perl -ne 1",
        "ruby -e 1",
        "node --eval 1",
        "php -r 1",
        "awk 'BEGIN{system(\"ls\")}'",
        "sed '1e ls' y",
        "sed s/a/b/e y",
        "vim -c ':!ls' y",
        "echo ls | at now",
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_what_only_run_time_knows_never_slips_past_a_deny_rule(command: str, mode: str, workspace: Workspace) -> None:
    permit = Permissions(workspace=workspace, mode=mode, allow=["Bash"], deny=["Bash(rm:*)"], trusted=True)
    verdict = permit.judge("main", TOOLS["Bash"], {}, [Effect("exec", command)]).verdict
    assert verdict == ("deny" if mode in ("plan", "bypass") else "ask")


@pytest.mark.parametrize("command", ["somewrapper rm x", "somewrapper -c 'rm x'", "./tool --run-it rm x"])
@pytest.mark.parametrize("mode", ["ask", "accept-edits", "bypass"])
def test_of_an_unknown_program_any_word_may_be_what_it_runs(command: str, mode: str, workspace: Workspace) -> None:
    permit = Permissions(workspace=workspace, mode=mode, allow=["Bash"], deny=["Bash(rm:*)"], trusted=True)
    verdict = permit.judge("main", TOOLS["Bash"], {}, [Effect("exec", command)]).verdict
    assert verdict == ("deny" if mode == "bypass" else "ask")


# Ways to run what is denied that bash, or a program, once read otherwise than the judge.
SLIPS = [
    "$'rm\\0zzz' x",
    "$'\\x{72}m' x",
    "$'\\562m' x",
    "shopt -s extglob\necho @(#a) ; rm x\n)",
    "declare 'BASH_CMDS[ls]=/bin/rm'; ls x",
    "printf -v 'BASH_CMDS[ls]' /bin/rm; ls x",
    ": ${BASH_CMDS[ls]:=/bin/rm}; ls x",
    "declare -n 'r=BASH_CMDS[ls]'; r=/bin/rm; ls x",
    "read 'BASH_CMDS[ls]' <<< /bin/rm; ls x",
    "awk 'BEGIN{system(\"rm x\")}' " + "a " * 401 + "",
    "python " + "-W x " * 201 + "-c 'import os'",
    "somewrapper " + "a " * 401 + "rm x",
    "nix develop -c git push",
    "bun exec 'rm x'",
    "bun x rm x",
    "tox exec -- rm x",
    "make -f - <<< 'x:;rm x'",
    "make -f /dev/stdin <<< 'x:;rm x'",
    "make -E '$(shell rm x)'",
    "ed x <<< '!rm x'",
    "sqlite3 <<< '.shell rm x'",
    "awk -f - <<< 'BEGIN{system(\"rm x\")}'",
    'awk -f /dev/stdin <<E\nBEGIN{system("rm x")}\nE',
    "sed -e'1e rm x' f",
    "sed --expression='1e rm x' f",
    "gawk -e'BEGIN{system(\"rm x\")}'",
    "gawk --source='BEGIN{system(\"rm x\")}'",
    "vim -c':!rm x'",
    "psql -c'\\! rm x'",
    "cat {x}<<E\n'\nE\nrm x\ncat {x}<<E\n'\nE",
    "cat <<$(echo 'x')\nbody\n$(echo x)\nrm x\n$(echo 'x')",
    "cat <<EOF\nE\\\nOF\nrm x\nEOF",
    'echo "${x:-\'}"; rm x; echo "\'}"',
    "echo ${x:-$'\\''} ; rm x ; echo ${x:-$'\\''} # '}",
    'echo "$(case esac in *) rm x;; esac)"',
    'echo "$(time case x in *) rm x;; esac)"',
    'echo "$(ca\\\nse x in *) rm x;; esac)"',
    "echo ${x:-<(rm x)}",
    "x=abc; echo ${x:'a[$(rm x >&2)]'}",
    "for x in 'a[$(rm x)]'; do [[ x -eq 1 ]]; done",
    "set -- 'a[$(rm x)]'; [[ $1 -eq 1 ]]",
    "read x <<< 'a[$(rm x)]'; echo ${!x}",
    "echo 'a[$(rm x)]' | while read x; do [[ x -eq 1 ]]; done",
    'echo "$\\\n(rm x)"',
    "$\\\n'\\162m' x",
    "env -S 'rm\\_y'",
    "echo rm | xargs -I% % x",
    "echo rm x | xargs env",
    "echo push | xargs git",
    "echo rm x | xargs -n2 nice",
    "xargs timeout 5 <<< 'rm x'",
    "parallel git ::: push",
    "echo push | parallel git",
    "echo 'rm x' | parallel",
    "find . -name push -exec git {} \\;",
    "git config alias.x '!rm x'; git x",
    "git config alias.p push; git p",
    "E='!rm x' git --config-env=alias.x=E x",
    "git difftool --extcmd='rm x'",
    "git rebase --exe='rm x' HEAD",
    "git rebase '-xrm x' HEAD",
    "git rebase -ix'rm x' HEAD",
    "/usr/lib/git-core/git-push origin",
    "git grep -O'rm x' foo",
    "cmake -E env rm x",
    "tar xf a --to-com='rm x'",
    "tar '-Irm x' -xf a",
    "tar --checkpoint-act=exec='rm x' -cf a b",
    "rsync -e'rm x' a b",
    "sort --compress-prog=rm x",
    "ssh -o proxycommand='rm x' h",
    "ssh -oPermitLocalCommand=yes -oLocalCommand='rm x' h",
    "scp -oproxycommand='rm x' a h:b",
    "ssh localhost <<< 'rm x'",
    "echo rm x | ssh localhost",
    "sudo -s <<< 'rm x'",
    "su <<< 'rm x'",
    "unshare <<< 'rm x'",
    "chroot . <<< 'rm x'",
    "script x <<< 'rm x'",
    "fakeroot <<< 'rm x'",
    "sftp h <<< '!rm x'",
    "dc -e '!rm x'",
    "m4 <<< 'esyscmd(rm x)'",
    "mail x <<< '~!rm x'",
    'nodejs -e \'require("child_process").execSync("rm x")\'',
    "pypy3 -c 'import os; os.system(\"rm x\")'",
    "ipython -c 'import os; os.system(\"rm x\")'",
    "octave --eval 'system(\"rm x\")'",
    "guile -c '(system \"rm x\")'",
    "set -o history; history -s rm x; fc -s",
    "python3 -m timeit 'import os; os.system(\"rm x\")'",
    "python3 /dev/stdin <<< 'import os'",
    "python3 <(echo 'x')",
    "python3 -X dev -c x",
    "python3 -W ignore -c 'x'",
    "node --require x -e 1",
    "node --import 'data:text/javascript,1' x.js",
    "ruby -I . -e 1",
    "php -d a=b -r 1",
    "lua -l x -e 1",
    "python3 -W ignore - <<< x",
    "less '+!rm x' x",
    "bash -c -x -- 'rm x'",
    "git filter-branch --tree-filter 'rm x' HEAD",
    "cat <<E $(\nrm x\nE\n)\nE",
    'shopt -s expand_aliases\nalias c=case\n"$(c x in *) rm x;; esac)"',
    "su -c'rm x'",
    "git clone 'ext::rm x' y",
    "git clone --config core.sshCommand='rm x' h:y",
    "git clone --config=core.sshCommand='rm x' h:y",
    "git clone -u 'rm x' h:y",
    "git difftool -yx 'rm x'",
    "git instaweb --httpd='rm x'",
    "npm run y --script-shell='rm x'",
    "cargo watch -x run -s 'rm x'",
    "gh alias set y '!rm x'; gh y",
    "gh alias set --shell y 'rm x'; gh y",
    "gh codespace ssh -- rm x",
    "hg --config alias.y='!rm x' y",
    "svn --editor-cmd='rm x' ci",
    "coreutils --coreutils-prog=rm x",
    "socat - EXEC:'rm x'",
    "zip y z -T --unzip-command='rm x'",
    "cpio -o --rsh-command='rm x'",
    "apt-get -o APT::Update::Pre-Invoke::='rm x' update",
    "sed --file=- <<< '1e rm x'",
    "sed -f/dev/stdin <<< '1e rm x'",
]


def test_no_spelling_slips_past_a_deny_rule(workspace: Workspace) -> None:
    deny = ["Bash(rm:*)", "Bash(git push:*)"]
    slipped = []
    for mode in ("ask", "accept-edits", "bypass"):
        permit = Permissions(workspace=workspace, mode=mode, allow=["Bash"], deny=deny, trusted=True)
        slipped += [c for c in SLIPS if permit.judge("main", TOOLS["Bash"], {}, [Effect("exec", c)]).verdict == "allow"]
    assert slipped == []


@pytest.mark.parametrize("size", [20_000, 1_000_000])
@pytest.mark.parametrize("mode", MODES)
def test_a_limit_that_is_hit_means_deny(size: int, mode: str, workspace: Workspace) -> None:
    permit = Permissions(workspace=workspace, mode=mode, allow=["Bash"], deny=["Bash(rm:*)"], trusted=True)
    for command in ("ls;" * (size // 3) + "rm x", "echo " + "a" * size + "; rm x", "( " * 40 + "rm x" + " )" * 40):
        assert permit.judge("main", TOOLS["Bash"], {}, [Effect("exec", command)]).verdict == "deny"


def test_without_rules_a_command_past_a_limit_asks_and_bypass_refuses_it(workspace: Workspace) -> None:
    long = "ls;" * 20_000
    verdicts = {
        mode: Permissions(workspace=workspace, mode=mode, trusted=True)
        .judge("main", TOOLS["Bash"], {}, [Effect("exec", long)])
        .verdict
        for mode in MODES
    }
    assert verdicts == {"plan": "deny", "ask": "ask", "accept-edits": "ask", "auto": "ask", "bypass": "deny"}


def test_other_commands_are_not_denied(workspace: Workspace) -> None:
    permit = Permissions(workspace=workspace, mode="bypass", deny=["Bash(rm:*)", "Bash(git push:*)"], trusted=True)
    for command in [
        "ls",
        "echo rm x",
        "git rm x",
        "grep rm README.md",
        "git log push",
        "npm run rm",
        "cat <<'E'\nrm x\nE",
        "rmdir x",
        "timeout 5 grep rm y",
        "make rm",
        "pytest -k rm",
        "python x.py rm",
        "python -m pytest",
        "sed -e 's/re/me/' y",
        "awk '{print $1}' y",
        "./run.sh a b",
        "git ls-files | xargs wc -l",
        "find . -exec sed -i s/a/b/ {} +",
        "find . -exec python {} ;",
        "ls | xargs mytool --write",
        "git commit -m 'Use `rm x`, not $(rm y)'",
        "cat > x.sh <<'E'\n[[ $(rm x) ]]\nE",
        "python -W ignore x.py",
        "make -f other.mk all",
        "cmake -S . -B build",
        "npm exec -- eslint .",
        "tar czf a.tgz src",
        "mytool 'some (text)'",
    ]:
        assert permit.judge("main", TOOLS["Bash"], {}, [Effect("exec", command)]).verdict == "allow", command


@pytest.mark.parametrize(
    "command",
    [
        "cat .env",
        "cat ./.env",
        "head -5 src/../.env",
        "cp .env x",
        "git add .env",
        "cat < .env",
        "cat .ENV",
        "sh -c 'cat .env'",
        "python -c \"print(open('.env').read())\"",
        "python3 - <<'E'\nopen('.env')\nE",
        "sed 'r .env' x",
        "awk 'BEGIN{while((getline l<\".env\")>0)print l}'",
        "xargs cat <<< .env",
        "x=.env; cat $x",
        "docker run -v $PWD/.env:/x y",
        "cat /elsewhere/.env",
        "cd src; cd ..; cat .env",
    ],
)
def test_a_read_rule_holds_for_commands_that_name_the_file(command: str, workspace: Workspace) -> None:
    permit = Permissions(workspace=workspace, mode="bypass", deny=["Read(.env)"], trusted=True)
    assert permit.judge("main", TOOLS["Bash"], {}, [Effect("exec", command)]).verdict == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "sed 'w src/a.py' x",
        "echo x > $PWD/src/a.py",
        "echo x > src/a.py",
        "rm src/a.py",
        "tee src/a.py",
        "cp README.md src/a.py",
        "dd of=src/a.py",
    ],
)
def test_an_edit_rule_holds_for_commands_that_name_the_file(command: str, workspace: Workspace) -> None:
    permit = Permissions(workspace=workspace, mode="bypass", deny=["Edit(src/**)"], trusted=True)
    assert permit.judge("main", TOOLS["Bash"], {}, [Effect("exec", command)]).verdict == "deny"


def test_a_search_of_everything_asks_where_a_file_is_denied(workspace: Workspace) -> None:
    permit = Permissions(workspace=workspace, deny=["Read(.env)"], trusted=True)
    for command in ["grep -rn KEY src", "rg KEY", "git grep KEY", "grep -R KEY .", "find . -exec cat {} +"]:
        assert permit.judge("main", TOOLS["Bash"], {}, [Effect("exec", command)]).verdict in ("ask", "deny")
        permit.mode = "bypass"


@pytest.mark.parametrize(
    "command",
    [
        "cat $PWD/docs/key",
        "cat ~+/docs/key",
        "env --chdir=docs cat key",
        "tar -C docs -c key",
        "cd src; cd ../docs; cat key",
        "python -c 'open(\"docs/key\")'",
    ],
)
def test_an_anchored_rule_holds_for_commands_that_go_there(command: str, workspace: Workspace) -> None:
    permit = Permissions(workspace=workspace, mode="bypass", deny=["Read(./docs/key)"], trusted=True)
    assert permit.judge("main", TOOLS["Bash"], {}, [Effect("exec", command)]).verdict == "deny"


def test_a_name_alone_is_denied_in_an_added_folder_too(workspace: Workspace, tmp_path: Path) -> None:
    both = Workspace(workspace.root, extra=[tmp_path / "other"])
    permit = Permissions(workspace=both, mode="bypass", deny=["Read(notes.txt)"], trusted=True)
    path = str(tmp_path / "other/deep/notes.txt")
    assert permit.judge("main", TOOLS["Read"], {"file_path": path}, [Effect("read", path)]).verdict == "deny"


def test_more_folders_than_are_followed_mean_deny(workspace: Workspace) -> None:
    permit = Permissions(workspace=workspace, mode="bypass", allow=["Bash"], trusted=True)
    command = "".join(f"cd a{number}; " for number in range(70)) + "cd /; rm -rf *"
    assert permit.judge("main", TOOLS["Bash"], {}, [Effect("exec", command)]).verdict == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf {/,x}",
        "rm -rf {x,../..}",
        "find / | xargs rm -rf",
        "find .. -print0 | xargs -0 rm",
        "xargs rm -rf <<< /",
        "printf '~' | xargs -I% rm -rf %",
        "fd . / -x rm",
        "git clean -fdx ..",
        "git -C .. clean -fdx",
        "git --work-tree=/ clean -ffdx",
        "cd .. && git clean -fdx",
        "rm -rf /proc/self/cwd/..",
        "trash ~",
        "tar --remove-files -cf x.tar ~",
        "find / -fprint /dev/sda",
        "mdadm --zero-superblock /dev/sda",
        "declare -n 'r=BASH_CMDS[ls]'",
        ": ${BASH_ALIASES[ls]:=x}",
    ],
)
def test_what_never_runs_does_not_run_in_bypass_either(command: str, workspace: Workspace) -> None:
    permit = Permissions(workspace=workspace, mode="bypass", allow=["Bash"], trusted=True)
    assert permit.judge("main", TOOLS["Bash"], {}, [Effect("exec", command)]).verdict == "deny"


def test_relatives_of_what_never_runs_may_run(workspace: Workspace) -> None:
    permit = Permissions(workspace=workspace, mode="bypass", trusted=True)
    for command in [
        "rm -rf src/{build,dist}",
        "find . -name '*.o' | xargs rm -f",
        "git clean -fdx",
        "git -C src clean -fd",
        "git -C .. clean -n",
        "tar --remove-files -cf x.tar build",
        "find . -fprint out.txt",
        "grep -rl x / | xargs cat",
    ]:
        assert permit.judge("main", TOOLS["Bash"], {}, [Effect("exec", command)]).verdict == "allow", command


@pytest.mark.parametrize(
    ("rule", "command", "verdict"),
    [
        ("Bash(git push --force:*)", "git push origin main --force", "deny"),
        ("Bash(git push --force:*)", "git push --forc origin", "deny"),
        ("Bash(git push --force:*)", "git push origin $X", "deny"),
        ("Bash(git push --force:*)", "git push origin main", "allow"),
        ("Bash(rm -rf:*)", "rm -fr x", "deny"),
        ("Bash(rm -rf:*)", "rm -r x -f", "deny"),
        ("Bash(rm -rf:*)", "rm -f x", "allow"),
        ("Bash(python -m pip:*)", "python -I -m pip install x", "deny"),
        ("Bash(python -m pip:*)", "python -m pytest pip", "allow"),
    ],
)
def test_an_option_in_a_deny_rule_may_stand_anywhere(
    rule: str, command: str, verdict: str, workspace: Workspace
) -> None:
    permit = Permissions(workspace=workspace, mode="bypass", deny=[rule], trusted=True)
    assert permit.judge("main", TOOLS["Bash"], {}, [Effect("exec", command)]).verdict == verdict
