"""What is known of programs by their words: where a command belongs, which rule an "always" adds, what only reads.

A wrong guess costs a question, never a harm: the kernel holds what runs in a box, and nothing leaves one unasked.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import field
from functools import lru_cache
from pathlib import Path
from typing import Literal

from cowork.core.errors import ToolError, UserError
from cowork.core.frozen import frozen
from cowork.core.secret_names import sensitive
from cowork.core.workspace import Workspace
from cowork.permissions.rules import allows, in_workspace, parse_all
from cowork.permissions.shell.follow import INTERPRETERS, SHELLS, program
from cowork.permissions.shell.parse import SimpleCommand, names

Place = Literal["read", "write", "network", "outside"]
LEVELS: tuple[Place, ...] = ("read", "write", "network", "outside")

READERS = names(
    "ls cat head tail wc nl tac rev grep egrep fgrep rg ag ack find fd fdfind tree stat file du df pwd echo printf"
    " date whoami id groups uname arch nproc hostname uptime free which whereis type command hash env printenv sort"
    " uniq cut tr awk gawk mawk sed jq yq xq xxd od hexdump strings diff cmp comm join paste fold fmt column expand"
    " basename dirname realpath readlink test [ [[ true false : seq sleep md5sum sha1sum sha256sum sha512sum cksum"
    " b2sum sum less more bat cd pushd popd dirs set shopt export unset local declare read let return exit break"
    " continue shift wait ps pgrep pstree top lsof ss netstat tty locale getconf lscpu lsblk findmnt man help info cal"
    " bc expr factor base64 zcat bzcat xzcat zgrep zipinfo unzip tar ldd nm objdump readelf size ctags cloc tokei scc"
    " xargs time timeout nice nohup stdbuf ionice history jobs umask ulimit getopts alias numfmt tsort shuf split"
    " csplit iconv dos2unix for select case function"
)
_WRITES_AS_A_RULE = names("unzip tar split csplit dos2unix hostname")  # readers only with a flag that lists
_LISTS = re.compile(r"-[A-Za-z]*[tlpv][A-Za-z]*|--list|-[A-Za-z]*Z[A-Za-z]*1?")
# Where programs belong by their first word that is no option, or by an option; `*` is any, `a+b` is b after a. What
# checks the code changes nothing as a rule; where it would, the read box says so and a person is asked.
_TABLE = """
read git: status log diff show branch tag remote rev-parse rev-list ls-files ls-tree blame annotate grep describe
read git: shortlog reflog cat-file name-rev merge-base for-each-ref show-ref show-branch whatchanged count-objects
read git: diff-tree diff-index diff-files cherry range-diff check-ignore check-attr var version help archive fsck
read git: verify-commit verify-tag stash+list stash+show worktree+list submodule+status submodule+summary notes+list
read git: notes+show bisect+log bisect+view config+--get config+--get-all config+--get-regexp config+--list config+-l
read git: config+get config+list
outside git: push pull fetch clone ls-remote
read cargo go docker-compose: tree metadata locate-project list version env doc help config
check go: vet test build
outside cargo go gem: install add fetch update publish login search get push
read npm pnpm yarn bun: ls list ll root prefix bin why explain version --version
check npm pnpm yarn bun: test t run+test run+lint run+check run+typecheck run+type-check run+tests
network npm pnpm yarn bun: ci install i add update up upgrade outdated audit view info exec dlx create init
outside npm: publish login logout adduser link
read pip pip3 uv poetry: list show freeze check debug config tree version env
network pip pip3: install download wheel index
network uv poetry pdm pipenv: install add update lock sync pip tool
read make: -n --dry-run --just-print -p --version
check make: test tests check lint
check pytest py.test mypy pyright pylint flake8 eslint jest vitest rubocop shellcheck hadolint yamllint bandit: *
check python python2 python3 node ruby perl php lua: *
check ruff biome deno: check lint test rule config version
check black isort prettier: --check --check-only --diff -c --list-different
check tsc: --noEmit
network npx bunx uvx curl wget http https ping dig nslookup host whois: *
network composer bundle: install update require add
outside docker podman nerdctl docker-compose kubectl helm minikube kind terraform aws gcloud az gh glab ssh scp sftp: *
outside rsync journalctl service apt apt-get dnf yum brew pacman snap flatpak sudo doas su mount umount pipx conda: *
outside systemctl mamba crontab kill pkill killall systemd-run xdg-open open code ssh-add ssh-keygen gpg pass op: *
outside keyring: *
"""
_RUNS = names("uv poetry pdm pipenv hatch rye")  # with `run`
_TELLS = names("--version -V --help -h")
_FIXES = names("--fix --fix-only --write -w --watch --watchAll")
_HARMLESS_TARGET = re.compile(r"/dev/(?:null|stdout|stderr|tty)|/tmp/[\w./-]+|&?[0-9-]+")


@frozen
class Part:
    """One simple command as people see it, where it belongs and why."""

    place: Place
    why: str = ""
    checks: bool = False  # it checks code and can do so read-only, where it cannot keep a cache
    command: SimpleCommand = field(default_factory=SimpleCommand)
    argv: tuple[str, ...] = ()  # set when it is literal, so that an allow rule may match it
    cwd: Path = Path()
    allowed: str = ""  # the rule that covers it


def hint(commands: Sequence[SimpleCommand], otherwise: str = "") -> Part:
    """Where all commands of a text belong together: the widest place any of them needs."""
    found = [] if commands else [Part("write", otherwise or "it is empty")]
    for command in commands:
        targets = [word.text for word in command.writes if not _HARMLESS_TARGET.fullmatch(word.text)]
        if targets or (command.words and not command.words[0].literal):
            why = f"it writes {targets[0]}" if targets else "the name of a command is only known at run time"
            found.append(Part("write", why))
        elif command.words:
            found.append(words_hint([word.text for word in command.words]))
    return max(found, key=lambda one: LEVELS.index(one.place), default=Part("read"))


def words_hint(words: Sequence[str]) -> Part:
    """Where a command of these literal words belongs."""
    name, rest = program(words[0]), words[1:]
    if list(rest) in (["-v"], ["-version"]) or (1 <= len(rest) <= 2 and {rest[0], rest[-1]} & _TELLS):
        return Part("read")
    if name in ("npx", "bunx") and rest and "check" in _parse_table().get(rest[0], {}).values():
        return words_hint(rest)  # a project has these installed; where not, the box keeps npx offline
    sub = _subcommand(name, rest)
    said, known = " ".join(filter(None, (name, sub))), _parse_table().get(name, {})
    next_word = rest[rest.index(sub) + 1 :][:1] if sub in rest else ()
    after = (word if "fix" in word else word.partition(":")[0] for word in next_word)  # lint:css is a lint
    options = (word for word in rest if word.startswith("-"))
    telling = [sub, *(f"{sub.removesuffix('-script')}+{word}" for word in after), *options, "*"]
    kind = next((known[word] for word in telling if word in known), "")
    kind = "" if kind == "check" and _FIXES & set(rest) else kind
    inner = rest[rest.index("run") + 1 :] if name in _RUNS and sub == "run" and not _FIXES & set(rest) else ()
    if kind == "check" or (inner and words_hint(inner).place == "read"):
        return Part("read", checks=True)
    if kind == "outside":
        wants = "the network and your credentials, which the sandbox hides" if name == "git" else ""
        return Part("outside", f"{said} needs {wants or 'more than the sandbox gives'}")
    if kind == "network":
        own = name.startswith("pip") and "/" not in words[0] and not os.environ.get("VIRTUAL_ENV")
        if own or {"-g", "--global", "--user"} & set(rest):
            return Part("outside", f"{name} {sub} writes outside the workspace and needs the network")
        return Part("network", f"{said} needs the network")
    if name in READERS and "/" not in words[0].removeprefix("/usr/bin/").removeprefix("/bin/"):
        lists = any(map(_LISTS.fullmatch, rest)) or (name == "hostname" and not rest)
        kind = "read" if lists or name not in _WRITES_AS_A_RULE else ""
    changes = f"{words[0] if '/' in words[0] else said} may change something"
    return Part("read") if kind == "read" else Part("write", changes)


@lru_cache(maxsize=4)
def _parse_table(table: str = _TABLE) -> dict[str, dict[str, str]]:
    """By program and a word of it: the first word of the row."""
    found: dict[str, dict[str, str]] = {}
    for row in table.strip().splitlines():
        programs, _, words = row.partition(": ")
        kind, *listed = programs.split()
        for name in listed:
            found.setdefault(name, {}).update(dict.fromkeys(words.split(), kind))
    return found


def _subcommand(name: str, rest: Sequence[str]) -> str:
    """The first word that is no option; `git -C dir status` is status."""
    words = iter(rest)
    for word in words:
        if not word.startswith("-") or name == "make" or word == "--version":
            return word
        if name == "git" and word in ("-C", "-c", "--git-dir", "--work-tree"):
            next(words, "")
    return ""


_TOOLS = names("pytest ruff mypy eslint prettier tsc jest vitest black flake8 pyright tox nox curl wget")
# First words that say what a command does and let no later word run something else: a prefix is a fair grant. Of the
# others only the exact command is. A build or a test runs the project's own code, which is what the person grants.
_PREFIXES = """
prefix git: add commit status switch checkout restore branch stash tag merge revert cherry-pick reset rm mv push pull
prefix git: fetch rebase diff log show grep blame clone
prefix npm pnpm yarn bun: test ci run run-script install add
prefix uv poetry pdm hatch pipenv pre-commit: run sync lock install
prefix cargo: build check test clippy fmt doc bench run fetch
prefix go mvn mvnw gradle gradlew dotnet mix: test build check vet fmt list get compile verify package
prefix bundle: exec install
prefix pip pip3: list show freeze install
prefix terraform: plan validate fmt
prefix docker podman: ps images logs inspect build compose stats version info
prefix kubectl gh: get describe logs pr issue run repo
"""
_NAMED_NEXT = names("run run-script exec pr issue repo compose")  # and the word after it is part of what is granted
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_.][\w.:/@-]*")


def offer(tool: str, argv: Sequence[str], cwd: Path, root: Path) -> str:
    """A prefix where the first words say what a command does, else the exact command; nothing where neither can be."""
    words = list(argv)
    if not words or any(re.search(r"[\n*?]", word) for word in words):
        return ""
    if program(words[0]) in INTERPRETERS | SHELLS and all(word.startswith("-") for word in words[1:]):
        return ""  # it runs what it is fed
    if file := in_workspace(words[0], cwd, [root]):
        shown = str(file.relative_to(root))
        words[0] = shown if "/" in shown else f"./{shown}"
    name = os.path.basename(words[0])
    patterns = [shlex.join(words)]
    if name in _TOOLS:
        patterns = [f"{shlex.quote(words[0])}:*"]
    elif len(words) > 1 and words[1] in (_TOOLS if name in ("npx", "bunx") else _parse_table(_PREFIXES).get(name, ())):
        length = 3 if words[1] in _NAMED_NEXT and name != "cargo" else 2
        first = words[:length]
        runs_anything = len(first) > 2 and program(first[2]) in INTERPRETERS | SHELLS
        if len(first) == length and all(map(_PLAIN_WORD.fullmatch, first)) and not runs_anything:
            patterns.insert(0, f"{' '.join(first)}:*")
    for rule in (f"{tool}({pattern})" for pattern in patterns if len(pattern) <= 200):
        with suppress(UserError):  # a text that, read back, is not this one rule is none
            read = parse_all(rule)
            if [str(one) for one in read] == [rule] and allows(read[0], argv, cwd, root):
                return rule
    return ""


# Where no box works: what the operands of programs are, how many there are at least, and the options they may have. Not
# those that write, run a program, follow links or never end; not git, which runs what its configuration says.
_STRICT = """
paths0 ls: -[laAhtrS1dFinosp]+|--color=never|--all
paths1 cat: -[nbAEsTv]+
paths1 head tail: -[qv]+|-[nc]?[0-9]{1,9}
paths1 wc: -[lwcmL]+
pattern2 grep: -[nilLcvwxEFohHsq]+|-[mABC]?[0-9]{1,9}
paths1 file: -b
paths1 du: -[shac]+
paths1 sort: -[nrufb]+
paths1 nl stat md5sum sha256sum realpath: -
text1 basename dirname: -
none0 pwd whoami true false date cut: -
none0 uniq: -[cdui]+
none0 uname: -[asrmn]+
text0 echo: -n+
"""
_FILTERS = names("head tail wc nl sort cat grep")  # which may also read a pipe


def only_reads(command: SimpleCommand, cwd: Path, workspace: Workspace) -> str:
    """Empty when a command of literal words is known to change nothing where no box holds it, else why not."""
    name, words, operands = command.words[0].text, [word.text for word in command.words[1:]], list[str]()
    if name not in _parse_table(_STRICT):
        return f"{name} is not one of the commands that run unasked without a sandbox"
    found = shutil.which(name) or ""
    inside = any(Path(os.path.realpath(found)).is_relative_to(root) for root in workspace.writable)
    if found and (inside or not os.path.isabs(found)):  # the workspace brings its own
        return f"{name} would be run from the workspace"
    ((options, kind),) = _parse_table(_STRICT)[name].items()
    if pattern := next((word.text for word in command.words if not word.literal), ""):
        return f"{pattern} is a pattern"
    while words:
        word = words.pop(0)
        if not word.startswith("-") or word == "-":
            operands.append(word)
            continue
        if re.fullmatch(r"-[A-Za-z]", word) and words and re.fullmatch(r"[0-9]+", words[0]):
            word += words.pop(0) if not re.fullmatch(options, word) else ""
        if not re.fullmatch(options, word):
            return f"{name} {word} is not one of the flags that run unasked without a sandbox"
    piped = command.after == "|" and name in _FILTERS
    if len(operands) < int(kind[-1]) - piped or (operands and kind == "none0"):
        return f"{name} with these operands"
    odd = next((word for word in operands if word[:1] in "+@" or re.search(r"[{}]", word)), "")
    if odd and not kind.startswith("text"):
        return f"{name} may take {odd} for more than a name"
    paths = {"paths": operands, "pattern": operands[1:]}.get(kind[:-1], [])
    return next((why for word in paths if (why := _unreadable(word, cwd, workspace))), "")


def _unreadable(text: str, cwd: Path, workspace: Workspace) -> str:
    try:  # by ./ a name such as ~ or file:///x stays the name it is to the program
        where = workspace.resolve(text if text.startswith("/") else f"./{text}", cwd)
    except ToolError as error:
        return error.text
    if not workspace.may_read(where):
        return f"{text} is outside the workspace"
    if sensitive(where) or sensitive(Path(text)):
        return f"{text} may hold secrets"
    special = where.exists() and not (where.is_file() or where.is_dir())
    return f"{text} is a pipe, a socket or a device" if special else ""
