"""Which git subcommands only read. git obeys its repository's configuration, so that is looked at first."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from functools import partial

from cowork.permissions.shell.checks import listed, reflog, setting
from cowork.permissions.shell.literal import Argument, Simple
from cowork.permissions.shell.spec import Look, Spec, judged, parse, spec
from cowork.permissions.shell.words import names

_refs = partial(spec, operands="refs")

_REFS = "--all --branches --tags --remotes --first-parent --no-merges --merges --reverse --not"
_SHOW = "-p -u --patch --no-patch -s --stat --shortstat --numstat --name-only --name-status --summary --raw -w"
_SHOW += " -b -M -C"
_SHOW += " --ignore-all-space --ignore-space-change --ignore-blank-lines --word-diff --color --no-color"
_SHOW += " --color=never -z"
_SHOW += " --color=always --color=auto --no-ext-diff --no-textconv --minimal --patience --histogram --check"
_SHOW += " --full-index"
_SHOW += " --no-renames --cached --staged --quiet --exit-code --abbrev --dirstat --compact-summary"
_SHOW += " --find-renames --merge-base"
_SHOW += " --patch-with-stat --binary --no-prefix -R --cc -c --relative"
_LOG = (
    f"{_SHOW} {_REFS} --oneline --graph --decorate --no-decorate --follow --abbrev-commit --no-abbrev-commit -i -E -F"
)
_LOG += " --date-order --topo-order --author-date-order --left-right --cherry-pick --boundary --full-history"
_LOG += " --pickaxe-all"
_LOG += " --walk-reflogs -g --name-only --no-notes --parents --children --simplify-by-decoration --source"
_LOG += " --decorate=short"
_LOG += " --decorate=full --relative-date --pickaxe-regex"
_VALUES = "-U:number --unified=:number --diff-filter= --diff-algorithm= --stat= --abbrev=:number --word-diff="
_VALUES += " --color-moved= --inter-hunk-context=:number"
_LOG_VALUES = (
    f"{_VALUES} -n:number --max-count:number --skip:number --since --after --until --before --author --committer"
)
_LOG_VALUES += " --grep --format=:format --pretty=:format --date -S -G -L:lines --glob --exclude"

_GIT: dict[str, Spec] = {
    "status": _refs("-s -b -u -z -v --short --branch --porcelain --porcelain=v1 --porcelain=v2 --long --ignored"
                   " --show-stash"
                    " --untracked-files --untracked-files=no --untracked-files=all --untracked-files=normal"
                    " -uno -uall"
                    " --no-renames --ahead-behind -sb"),
    "diff": _refs(_SHOW, _VALUES),
    "log": _refs(_LOG, _LOG_VALUES, numeric=True),
    "show": _refs(_LOG, _LOG_VALUES, numeric=True),
    "shortlog": _refs(f"-s -n -e -sn -sne -c {_REFS}", "--since --until --author", least=1),
    "rev-list": _refs(f"--count --oneline --objects --left-right {_REFS}",
                     "-n:number --max-count:number --since --until --author",
                      least=1, numeric=True),
    "blame": _refs("-w -M -C -l -s -e -f -n -p --porcelain --line-porcelain --date=short --root",
                   "-L:lines --since --date"),
    "branch": spec("-a -r -v -vv -l --list --all --remotes --verbose --show-current --no-color --color",
                    "--contains --no-contains --merged --no-merged --sort:format --format:format --points-at",
                    "text", check=listed),
    "tag": spec("-l --list -n", "--contains --merged --sort:format --points-at --format:format", "text", check=listed),
    "remote": spec("-v --verbose", operands="none", most=0),
    "rev-parse": _refs("--show-toplevel --abbrev-ref --short --verify --git-dir --is-inside-work-tree --show-prefix"
                      " --quiet -q"
                       " --symbolic-full-name --show-cdup --git-common-dir --is-bare-repository"
                       " --absolute-git-dir --all",
                       "--short=:number"),
    "ls-files": _refs("-c -d -m -o -i -s -u -k -t -v -z --cached --deleted --modified --others --ignored --stage"
                     " --unmerged"
                      " --exclude-standard --full-name --error-unmatch --directory", "-x --exclude"),
    "ls-tree": _refs("-r -t -d -l -z --name-only --name-status --long --full-name --full-tree"),
    "cat-file": _refs("-t -s -p -e", least=1),
    "describe": _refs("--tags --all --always --long --exact-match --contains",
                     "--match --exclude --abbrev=:number"),
    "merge-base": _refs("-a --all --is-ancestor --fork-point --octopus --independent"),
    "name-rev": _refs("--tags --name-only --always"),
    "show-ref": _refs("--head --heads --tags -d --dereference -s --hash --verify -q --quiet"),
    "for-each-ref": _refs(
        "", "--format:format --sort:format --count:number --contains --merged --no-merged --points-at"
    ),
    "diff-tree": _refs(f"-r -t --root --no-commit-id {_SHOW}", _VALUES),
    "grep": spec(
        "-n -i -l -L -c -v -w -E -F -P -G -h -H -o -a -I -p -W -q --line-number --ignore-case"
        " --files-with-matches --count"
        " --word-regexp --extended-regexp --fixed-strings --cached --heading --break"
        " --show-function --all-match"
        " --name-only --and --or --not",
        "-e -A:number -B:number -C:number -m:number --max-depth:number --max-count:number",
        "pattern refs", pattern_flags="-e",
    ),
    "reflog": _refs(f"{_REFS} --oneline", "-n:number --date --format=:format", most=1, numeric=True,
                    check=reflog),
    "count-objects": spec("-v -H --verbose --human-readable", operands="none", most=0),
    "check-ignore": _refs("-v -n -q --verbose --non-matching --no-index"),
    "check-attr": _refs("-a --all"),
    "version": spec(operands="none", most=0),
}  # fmt: skip
_GIT_PAIRS: dict[tuple[str, str], Spec] = {
    ("stash", "list"): spec("--oneline -p --stat", "--format=:format --date", operands="none", most=0),
    ("stash", "show"): _refs("-p --stat --name-only --name-status --patch", most=1),
    ("worktree", "list"): spec("-v --porcelain --verbose -z", operands="none", most=0),
    ("remote", "get-url"): spec("--all --push", operands="text", most=1),
    ("config", "--get"): spec(operands="text", most=1, check=setting),
}  # fmt: skip


_PATCH = names("-p -u -c -U -L --patch --patch-with-stat --binary --cc --unified --word-diff --inter-hunk-context")
_PATCH |= names("--color-moved --check")
_NO_PATCH = names("-s --no-patch --shortstat --numstat --name-only --name-status --summary --raw --dirstat --quiet")
_NO_PATCH |= names("--compact-summary --stat")
_WALKS = names("log stash status")  # what is no commit they leave out
_BACK = re.compile(r"(?:HEAD|@)(?:[~^][0-9]*)*")
_NO_LINES = names("-l -L -c -q --files-with-matches --count --name-only")


def git_read_only(command: Simple, look: Look) -> str:
    """git obeys the repository's own configuration, so that is looked at before a subcommand is."""
    args = list(command.args)
    there = look
    while args and args[0].text in ("--no-pager", "-P", "-C", "--no-optional-locks"):
        if args.pop(0).text == "-C":
            if not args or args[0].glob or there is not look:
                return "git -C without one plain folder"
            if why := look.path(args[0]):
                return why
            there = look.at(args.pop(0).text)
    if [word.text for word in args] in (["--version"], ["-v"]):
        return ""
    if not args or args[0].glob:
        return "git without a subcommand"
    name = args[0].text
    rules, rest = _rules(args)
    if rules is None:
        return f"git {name} is not one of the subcommands known to only read"
    words = parse(rules, f"git {name}", rest)
    if why := words.why or there.git() or judged(rules, f"git {name}", words, there):
        return why
    if name in ("remote", "config"):
        return there.password()
    if (name == "reflog" or words.flags & {"-g", "--walk-reflogs"}) and (why := there.logged()):
        return why
    if name == "grep" and "--cached" not in words.flags and (why := there.searches()):
        return why
    skipped = int(name == "grep" and "-e" not in words.flags)  # its pattern
    named = [word.text for word in words.operands[skipped:]]
    after = None if words.after is None else max(words.after - skipped, 0)
    commits = name in _WALKS or there.commits(named, after)
    if not _shows(name, words.flags) and (name != "show" or (commits and not any(":" in word for word in named))):
        return ""
    lines = [f":./{word.text.rpartition(':')[2]}" for _, kind, word in words.values if kind == "lines"]
    return there.shows([*named, *lines], after, commits=commits)


def shows(argv: Sequence[str]) -> bool:
    """Whether the words after `git` print what is in tracked files, not just their names; in doubt they do."""
    rules, rest = _rules([Argument(word) for word in argv])
    words = parse(rules, "git", rest) if rules else None
    if words is None or words.why or _shows(argv[0], words.flags):
        return True
    return argv[0] == "show" and not all(_BACK.fullmatch(word.text) for word in words.operands)


def _rules(args: Sequence[Argument]) -> tuple[Spec | None, Sequence[Argument]]:
    """The spec of a subcommand of one word or two, and the words after it."""
    pair = _GIT_PAIRS.get((args[0].text, args[1].text)) if len(args) > 1 else None
    return pair or _GIT.get(args[0].text), args[2:] if pair else args[1:]


def _shows(name: str, flags: Set[str]) -> bool:
    patch = bool(flags & _PATCH)
    if name in ("diff", "show"):
        return patch or not flags & _NO_PATCH
    if name in ("log", "stash", "diff-tree"):
        return patch
    if name == "cat-file":
        return not flags & {"-t", "-s", "-e"}
    if name == "grep":
        return not flags & _NO_LINES
    return name == "status" and bool(flags & {"-v", "--verbose"})
