"""Guesses from its first words where a command belongs: the read box, the write box, the network or outside.

A wrong guess costs a question, never a harm: the kernel holds what runs in a box, and nothing leaves one unasked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
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
# By program: subcommands that look. A word after them decides nothing.
_LOOKS: dict[str, frozenset[str]] = {
    "git": names(
        "status log diff show branch tag remote rev-parse rev-list ls-files ls-tree blame annotate grep describe"
        " shortlog reflog cat-file name-rev merge-base for-each-ref show-ref show-branch whatchanged count-objects"
        " diff-tree diff-index diff-files cherry range-diff check-ignore check-attr var version help archive fsck"
        " verify-commit verify-tag"
    ),
    "cargo": names("tree metadata locate-project version help --version"),
    "go": names("list version env doc help"),
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), names("ls list ll root prefix bin why explain version --version")),
    **dict.fromkeys(("pip", "pip3"), names("list show freeze check debug config --version")),
    "uv": names("tree version --version"),
    "poetry": names("show env check --version version"),
    "docker-compose": names("config version"),
    "make": names("-n --dry-run --just-print -p --version"),
    "systemctl": names("--version"),
}
_GIT_PAIRS = {"stash": names("list show"), "worktree": names("list"), "submodule": names("status summary"),
              "notes": names("list show"), "bisect": names("log view"), "remote": names("show get-url -v"),
              "config": names("--get --get-all --get-regexp --list -l get list")}  # fmt: skip
_TELLS = names("--version -V --help -h")
# What checks the code and as a rule changes nothing; where it would, the read box says so and a person is asked.
_CHECKS = names(
    "pytest py.test mypy pyright pylint flake8 eslint jest vitest rubocop shellcheck hadolint yamllint bandit"
)
_CHECKS |= names("python python2 python3 node ruby perl php lua")
_CHECKS_BY_WORD: dict[str, frozenset[str]] = {
    "ruff": names("check rule config version"),
    "black": names("--check --diff"),
    "isort": names("--check --check-only --diff"),
    "prettier": names("--check -c --list-different"),
    "tsc": names("--noEmit"),
    "biome": names("check lint"),
    "go": names("vet test build"),
    "make": names("test tests check lint"),
    "deno": names("test lint check"),
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), names("test t")),
}
_SCRIPTS = names("test lint check typecheck type-check tests")  # of `npm run`
_RUNS = names("uv poetry pdm pipenv hatch rye npm pnpm yarn bun")  # with `run`

_NETWORK: dict[str, frozenset[str]] = {
    **dict.fromkeys(
        ("npm", "pnpm", "yarn", "bun"),
        names("ci install i add update up upgrade outdated audit view info exec dlx create init"),
    ),
    "npx": frozenset(),
    "bunx": frozenset(),
    "uvx": frozenset(),
    "uv": names("sync add lock pip tool"),
    **dict.fromkeys(("poetry", "pdm", "pipenv"), names("install add update lock sync")),
    **dict.fromkeys(("pip", "pip3"), names("install download wheel index")),
    **dict.fromkeys(("curl", "wget", "http", "https", "ping", "dig", "nslookup", "host", "whois"), frozenset()),
    "composer": names("install update require"),
    "bundle": names("install update add"),
}
_OUTSIDE: dict[str, frozenset[str]] = {
    "git": names("push pull fetch clone ls-remote"),
    "cargo": names("install add fetch update publish login search"),
    "go": names("get install"),
    "npm": names("publish login logout adduser link"),
    "gem": names("install update push"),
    **dict.fromkeys(
        names(
            "docker podman nerdctl docker-compose kubectl helm minikube kind terraform aws gcloud az gh glab ssh scp"
            " sftp rsync systemctl journalctl service apt apt-get dnf yum brew pacman snap flatpak sudo doas su mount"
            " umount pipx conda mamba crontab kill pkill killall systemd-run xdg-open open code ssh-add ssh-keygen gpg"
            " pass op keyring"
        ),
        frozenset(),
    ),
}
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
    sub = _subcommand(name, rest)
    if name in ("npx", "bunx") and rest and (rest[0] in _CHECKS or rest[0] in _CHECKS_BY_WORD):
        return words_hint(rest)  # a project has these installed; where not, the box keeps npx offline
    if name in _OUTSIDE and (not _OUTSIDE[name] or sub in _OUTSIDE[name]):
        return Hint("outside", _why_outside(name, sub))
    if _checks(name, sub, rest):
        return Hint("read", checks=True)
    if name in _NETWORK and (not _NETWORK[name] or sub in _NETWORK[name]):
        if name.startswith("pip") and "/" not in words[0] and not os.environ.get("VIRTUAL_ENV"):
            return Hint("outside", f"{name} {sub} writes outside the workspace and needs the network")
        if {"-g", "--global", "--user"} & set(rest):
            return Hint("outside", f"{name} {sub} writes outside the workspace and needs the network")
        return Hint("network", f"{' '.join(filter(None, (name, sub)))} needs the network")
    if name in _LOOKS:
        known = sub in _LOOKS[name] or (name == "git" and _git_looks(rest, sub))
        return Hint("read") if known else Hint("write", f"{' '.join(filter(None, (name, sub)))} may change something")
    if name in READERS and "/" not in words[0].removeprefix("/usr/bin/").removeprefix("/bin/"):
        if name in _WRITES_AS_A_RULE and not any(map(_LISTS.fullmatch, rest)) and not (name == "hostname" and not rest):
            return Hint("write", f"{name} may change something")
        return Hint("read")
    return Hint("write", f"{words[0]} may change something")


def _checks(name: str, sub: str, rest: Sequence[str]) -> bool:
    """Whether a command checks the project's code, without fixing it."""
    if {"--fix", "--fix-only", "--write", "-w", "--watch", "--watchAll"} & set(rest):
        return False
    if name in _RUNS and sub in ("run", "run-script"):
        inner = list(rest[rest.index(sub) + 1 :])
        scripts = name in ("npm", "pnpm", "yarn", "bun")
        return bool(inner) and (inner[0] in _SCRIPTS if scripts else words_hint(inner).place == "read")
    words = _CHECKS_BY_WORD.get(name, frozenset())
    return name in _CHECKS or bool(words & {sub, *(word for word in rest if word.startswith("-"))})


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


def _git_looks(rest: Sequence[str], sub: str) -> bool:
    after = rest[rest.index(sub) + 1 :] if sub in rest else ()
    return sub == "" or bool(_GIT_PAIRS.get(sub, frozenset()) & set(after[:1])) or (sub == "remote" and not after)


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
