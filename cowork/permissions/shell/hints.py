"""Guesses from its first words where a command belongs: the read box, the write box, the network or outside.

A wrong guess costs a question, never a harm: the kernel holds what runs in a box, and nothing leaves one unasked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal

from cowork.core.frozen import frozen
from cowork.permissions.shell.follow import program
from cowork.permissions.shell.parse import SimpleCommand, names

Place = Literal["read", "write", "network", "outside"]

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
read cargo: tree metadata locate-project version help --version
outside cargo: install add fetch update publish login search
read go: list version env doc help
check go: vet test build
outside go: get install
read npm pnpm yarn bun: ls list ll root prefix bin why explain version --version
check npm pnpm yarn bun: test t run+test run+lint run+check run+typecheck run+type-check run+tests
network npm pnpm yarn bun: ci install i add update up upgrade outdated audit view info exec dlx create init
outside npm: publish login logout adduser link
read pip pip3: list show freeze check debug config --version
network pip pip3: install download wheel index
read uv: tree version --version
network uv: sync add lock pip tool
read poetry: show env check --version version
network poetry pdm pipenv: install add update lock sync
read docker-compose: config version
read make: -n --dry-run --just-print -p --version
check make: test tests check lint
read systemctl: --version
check pytest py.test mypy pyright pylint flake8 eslint jest vitest rubocop shellcheck hadolint yamllint bandit: *
check python python2 python3 node ruby perl php lua: *
check ruff: check rule config version
check black: --check --diff
check isort: --check --check-only --diff
check prettier: --check -c --list-different
check tsc: --noEmit
check biome: check lint
check deno: test lint check
network npx bunx uvx curl wget http https ping dig nslookup host whois: *
network composer: install update require
network bundle: install update add
outside gem: install update push
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
class Hint:
    """Where a command belongs and why."""

    place: Place
    why: str = ""
    checks: bool = False  # it checks code and can do so read-only, where it cannot keep a cache


def hint(commands: Sequence[SimpleCommand], otherwise: str = "") -> Hint:
    """Where all commands of a text belong together: the widest place any of them needs."""
    found = [_one(command) for command in commands] or [Hint("write", otherwise or "it is empty")]
    return max(found, key=lambda one: ("read", "write", "network", "outside").index(one.place))


def _one(command: SimpleCommand) -> Hint:
    for target in command.writes:
        if not _HARMLESS_TARGET.fullmatch(target.text):
            return Hint("write", f"it writes {target.text}")
    if not command.words:
        return Hint("read")
    if not command.words[0].literal:
        return Hint("write", "the name of a command is only known at run time")
    return words_hint([word.text for word in command.words])


def words_hint(words: Sequence[str]) -> Hint:
    """Where a command of these literal words belongs."""
    name, rest = program(words[0]), words[1:]
    if list(rest) in (["-v"], ["-version"]) or (1 <= len(rest) <= 2 and {rest[0], rest[-1]} & _TELLS):
        return Hint("read")
    if name in ("npx", "bunx") and rest and "check" in _known().get(rest[0], {}).values():
        return words_hint(rest)  # a project has these installed; where not, the box keeps npx offline
    sub = _subcommand(name, rest)
    said, kind = " ".join(filter(None, (name, sub))), _kind(name, sub, rest)
    if kind == "check" or (name in _RUNS and sub == "run" and _reads_inside(rest)):
        return Hint("read", checks=True)
    if kind == "outside":
        return Hint("outside", _why_outside(name, sub))
    if kind == "network":
        own = name.startswith("pip") and "/" not in words[0] and not os.environ.get("VIRTUAL_ENV")
        if own or {"-g", "--global", "--user"} & set(rest):
            return Hint("outside", f"{name} {sub} writes outside the workspace and needs the network")
        return Hint("network", f"{said} needs the network")
    if name in READERS and "/" not in words[0].removeprefix("/usr/bin/").removeprefix("/bin/"):
        lists = any(map(_LISTS.fullmatch, rest)) or (name == "hostname" and not rest)
        kind = "read" if lists or name not in _WRITES_AS_A_RULE else ""
    return (
        Hint("read")
        if kind == "read"
        else Hint("write", f"{said if '/' not in words[0] else words[0]} may change something")
    )


@lru_cache(maxsize=1)
def _known() -> dict[str, dict[str, str]]:
    """By program: where it belongs by a word of it."""
    found: dict[str, dict[str, str]] = {}
    for line in _TABLE.strip().splitlines():
        programs, _, words = line.partition(":")
        kind, *listed = programs.split()
        for name in listed:
            found.setdefault(name, {}).update(dict.fromkeys(words.split(), kind))
    return found


def _kind(name: str, sub: str, rest: Sequence[str]) -> str:
    """What the table says of a command: read, check, network, outside, or nothing."""
    known = _known().get(name, {})
    next_word = rest[rest.index(sub) + 1 :][:1] if sub in rest else ()
    after = (word if "fix" in word else word.partition(":")[0] for word in next_word)  # lint:css is a lint
    words = (sub, *(f"{sub.removesuffix('-script')}+{word}" for word in after), *(w for w in rest if w[:1] == "-"), "*")
    kind = next((known[word] for word in words if word in known), "")
    return "" if kind == "check" and _FIXES & set(rest) else kind


def _reads_inside(rest: Sequence[str]) -> bool:
    """Whether what a runner of tools runs only reads or checks."""
    inner = rest[rest.index("run") + 1 :]
    return bool(inner) and not _FIXES & set(rest) and words_hint(inner).place == "read"


def _subcommand(name: str, rest: Sequence[str]) -> str:
    """The first word that is no option; `git -C dir status` is status."""
    at = 0
    while at < len(rest) and rest[at].startswith("-"):
        if name == "git" and rest[at] in ("-C", "-c", "--git-dir", "--work-tree"):
            at += 1
        elif name == "make" or rest[at] == "--version":
            return rest[at]
        at += 1
    return rest[at] if at < len(rest) else ""


def _why_outside(name: str, sub: str) -> str:
    if name == "git":
        return f"git {sub} needs the network and your credentials, which the sandbox hides"
    return f"{' '.join(filter(None, (name, sub)))} needs more than the sandbox gives"


def in_workspace(name: str, cwd: Path, roots: Sequence[Path]) -> Path | None:
    """The file a program with a path stands for, if it lies where commands may write."""
    if "/" not in name:
        return None
    path = Path(os.path.normpath(cwd / name))
    return path if any(path.is_relative_to(root) for root in roots) else None
