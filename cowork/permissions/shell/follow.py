"""Follows what commands run on behalf of others, for deny rules and what never runs: `sh -c`, `env`, `timeout` …

What cannot be followed is said: then a person is asked, and where nobody is asked it is refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from cowork.permissions.rules import Rule, words_of
from cowork.permissions.shell.parse import ShellText, SimpleCommand, Word, names, parse

MAX_FOUND, MAX_NESTING, _MOST_WORDS = 1_000, 8, 400

SHELLS = names("sh bash dash ash zsh ksh mksh fish csh tcsh rbash busybox-sh yash pwsh nu xonsh elvish")
# Code of another language in a word or on standard input: what it starts is only known at run time.
INTERPRETERS = names(
    "python pypy ipython perl raku ruby irb node nodejs tsx ts-node deno bun php lua luajit tclsh expect osascript"
    " rscript julia octave groovy jshell elixir iex erl ghc ocaml sbcl guile racket swift crystal dart m4 dc"
)
_INLINE = re.compile(
    r"-[A-Za-z]*[ceErp].*|--(?:eval|print|expression|run)(?:=.*)?|-|/dev/.*|/proc/.*|eval|repl|.*data:.*"
)
_BEFORE_SCRIPT = names("-W -X -I -d -l -C --require --import --loader --env-file")
_CODE_MODULES = names("timeit code pdb ipython idlelib trace")
# Programs that run the rest of their words, and their options that take a value.
_WRAPPERS = {
    **dict.fromkeys(names("nohup setsid taskset command builtin busybox"), ""),
    "env": "-u --unset -C --chdir",
    "timeout": "-k --kill-after -s --signal",
    "nice": "-n --adjustment",
    "stdbuf": "-i -o -e --input --output --error",
    "ionice": "-c -n -p",
    "time": "-f -o --format --output",
    "exec": "-a",
    "sudo": "-u -g -U -h -p -C -D -T -r -t",
    "doas": "-u -C",
    "xargs": "-I -n -P -L -s -a -d -E --max-args --max-procs --replace --delimiter",
    "chroot": "--userspec --groups",
    "strace": "-e -o -p -s -u -E",
    "watch": "-n --interval",
}
_AFTER_ONE = ("timeout", "taskset", "chroot")  # the command comes after a word of theirs
# Programs with a language of their own in which other programs can be started, and what that looks like.
_SCRIPTED = names("awk gawk mawk sed gsed vim vi nvim ed ex less at batch alias")
_STARTS = re.compile(r"system|getline|\||!|@load|(?:^|[;{}0-9$/,! ])e(?:$|[ \t;}])|[^\w\s]\w*e\w*(?:$|[;}\s])|=")
_ACTIONS = names("-exec -execdir -ok -okdir -x -X --exec --exec-batch")
# Programs of everyday use whose words are data: a name among them is no command.
_DATA = names(
    "echo printf grep egrep fgrep rg cat ls head tail wc cut tr uniq cd test [ [[ true false pwd mkdir touch cp mv rm"
    " rmdir ln chmod chown kill pytest make git npm pnpm yarn cargo go pip ruff mypy eslint prettier tsc jest which"
    " type tee diff for select case function"
)
# Programs of these that run a word all the same, and which words say so.
_RUNS_WORDS = {
    **dict.fromkeys(names("npm pnpm yarn bun cargo"), re.compile("exec|x|dlx|watch|-c")),
    "make": re.compile(r"-[A-Za-z]*[Ef].*|--(?:e|f|mak).*"),
    "git": re.compile(
        r"-[cu]|--config.*|--exec.*|-x.*|-[A-Za-z]*O.*|config|submodule|bisect|rebase|filter-branch|difftool|!.*|ext::.*",
        re.DOTALL,
    ),
}


def program(text: str) -> str:
    """The name a word in command position stands for, without its folder, as a case-blind file system reads it."""
    name = os.path.basename(text.rstrip("/")).casefold()
    bare = re.sub(r"(?<=[a-z])-?\d[\d.]*$", "", name)
    name = bare if bare in INTERPRETERS or bare in SHELLS else name
    return name[1:] if name[:1] == "g" and name[1:] in (*_WRAPPERS, "find", "sed", "awk") else name


def follow(text: str) -> ShellText:
    """Every command of a shell text and every command those run in turn, as far as words tell."""
    first = parse(text)
    waiting = [(command, 0) for command in first.commands]
    opaque, limited, found, strangers = first.opaque, first.limited, list[SimpleCommand](), list[SimpleCommand]()
    for command, depth in waiting:  # it grows
        found.append(command)
        if len(waiting) > MAX_FOUND or depth > MAX_NESTING or len(command.words) > _MOST_WORDS:
            return ShellText(tuple(found), "it holds more commands or words than are followed", limited=True)
        if not command.words:
            continue
        inner, code, why = _inside(command)
        opaque = opaque or why
        waiting += [(replace(command, words=list(words), top=False), depth + 1) for words in inner if words]
        for nested in map(parse, code):
            opaque, limited = opaque or nested.opaque, limited or nested.limited
            waiting += [(replace(one, top=False), depth + 1) for one in nested.commands]
        strangers += [] if _is_data(command) else [command]
    return ShellText(tuple(found), opaque, limited, first.literal, tuple(strangers))


Inside = tuple[list[Sequence[Word]], list[str], str]  # commands by their words, shell code, what is opaque


def _inside(command: SimpleCommand) -> Inside:
    if not command.words[0].literal:
        return [], [], "the name of a command is only known at run time"
    name, rest = program(command.words[0].text), command.words[1:]
    if name in SHELLS:
        return _shell(name, rest, command.fed)
    if name in _WRAPPERS:
        return _unwrap(name, rest)
    if name in ("find", "fd", "fdfind"):
        adds = [Word("{}", literal=False)] if name != "find" else []
        return [[*rest[at + 1 :], *adds] for at, word in enumerate(rest) if word.text in _ACTIONS], [], ""
    if name.startswith("git-"):
        return [[Word("git"), Word(name[4:]), *rest]], [], ""
    if name in ("eval", "trap"):
        words = [word for word in rest if word.text != "--"][: 1 if name == "trap" else None]
        why = "" if all(word.literal for word in words) else f"{name} at run time"
        return [], [" ".join(word.text for word in words)], why
    if name in ("source", "."):
        return [], [], f"{name} runs a file"
    if name in INTERPRETERS and _is_inline(rest):
        return [], [], f"{name} runs code in another language"
    if name in _SCRIPTED:
        unknown = any(word.text.startswith("-f") or not (word.literal or word.text == "{}") for word in rest)
        scripts = [word.text for word in rest if not re.fullmatch(r"-[A-Za-z]{1,3}|--[\w-]+", word.text)]
        if name in ("at", "batch") or command.fed or unknown or any(map(_STARTS.search, scripts)):
            return [], [], f"{name} may run commands of its own"
    return [], [], ""


def _shell(name: str, rest: Sequence[Word], fed: Sequence[str]) -> Inside:
    for at, word in enumerate(rest):
        if re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*|--command", word.text):
            code = [later for later in rest[at + 1 :] if not later.text.startswith(("-", "+"))][:1]
            known = code and code[0].literal
            return [], [one.text for one in code], "" if known else f"{name} runs code made at run time"
        if not word.text.startswith(("-", "+")):
            return [], [], f"{name} runs the file {word.text}"
    return [], list(fed), "" if fed else f"{name} runs what it is fed"


def _is_inline(rest: Sequence[Word]) -> bool:
    """Whether an interpreter runs code in a word or on standard input; a script file is a program like others."""
    value = False
    for at, word in enumerate(rest):
        if word.text in ("--version", "-V", "-v", "--help", "-h"):
            return False
        if word.text == "-m":
            return bool({w.text.casefold() for w in rest[at + 1 : at + 2]} & _CODE_MODULES)
        if _INLINE.fullmatch(word.text):
            return True
        if not word.text.startswith("-") and not value:
            return not word.literal and word.text != "{}"
        value = word.text in _BEFORE_SCRIPT
    return True


def _unwrap(name: str, rest: Sequence[Word]) -> Inside:
    if name == "command" and rest and rest[0].text in ("-v", "-V"):
        return [], [], ""
    at, opaque, code = 0, "", list[str]()
    while at < len(rest) and (rest[at].text.startswith("-") or re.match(r"[A-Za-z_]\w*=", rest[at].text)):
        text = rest[at].text
        if text == "--":
            at += 1
            break
        if name == "env" and re.match(r"-[a-z]*S|--split", text):
            opaque = "env -S splits words in its own way"
            code = [re.sub(r"^-[a-z]*S|^--split-string=?", "", text), *(w.text for w in rest[at + 1 : at + 2])]
        at += 2 if text in _WRAPPERS[name].split() else 1
    command = list(rest[at + (name in _AFTER_ONE) :])
    if name == "xargs":
        command.append(Word("{}", literal=False))
        first = command[0].text if command[0].literal and re.fullmatch(r"[\w./-]+", command[0].text) else "sh"
        if program(first) in (*_WRAPPERS, *SHELLS, *INTERPRETERS, "git"):
            opaque = "xargs completes the command at run time"
    if name == "watch":
        code = [" ".join(word.text for word in command)]
    starts = [command[number:] for number in range(1, len(command)) if name in ("sudo", "doas", "strace", "chroot")]
    return [command, *starts[:3]], code, opaque


def _is_data(command: SimpleCommand) -> bool:
    """Whether the words of a command are data to it, so that no name among them is run."""
    name, words = program(command.words[0].text), [word.text for word in command.words[1:]]
    if not command.words[0].literal:
        return False
    if any(word.startswith("-") and re.search(r"[=\s!]|^-[A-Za-z]..", word) for word in words):
        return name in ("echo", "printf", "grep", "egrep", "fgrep", "cat", "ls", "test", "[")
    if command.fed and name not in ("cat", "grep", "tee", "wc", "sort", "head", "tail", *SHELLS, *INTERPRETERS):
        return False
    if name in _RUNS_WORDS and any(map(_RUNS_WORDS[name].fullmatch, words)):
        return False
    return name in _DATA or name in _WRAPPERS or name in SHELLS or name in INTERPRETERS


# ---------------------------------------------------------------- deny and ask rules


def denies(rule: Rule, followed: ShellText) -> bool | None:
    """Whether a deny or ask rule covers one of these commands; None when only run time will tell."""
    found = [_covers(rule, command.words) for command in followed.commands]
    if any(found):
        return True
    words = words_of(rule.pattern)[0]
    if None in found or not words or not followed.strangers:
        return None if None in found else False
    wanted = [program(words[0]), *(word for word in words[1:] if not word.startswith("-"))]
    # Some program may run any word: whether all words of the rule occur.
    text = " ".join(part for command in followed.commands for part in (command.text, *command.fed))
    text += " " + re.sub(r"-[A-Za-z](?=\w)", " ", text)  # a value in one word with its option
    occurs = (re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text, re.IGNORECASE) for word in wanted)
    return None if all(occurs) else False


def _covers(rule: Rule, words: Sequence[Word]) -> bool | None:
    wanted, prefix = words_of(rule.pattern)
    if not rule.pattern or not wanted or not words:
        return bool(words)
    if not words[0].literal:
        return None
    if program(words[0].text) != program(wanted[0]):
        return False
    unknown = False if all(word.literal for word in words) else None
    if not prefix:
        return [word.text for word in words[1:]] == list(wanted[1:]) or unknown
    options = list(takewhile(re.compile("--?[A-Za-z]").match, reversed(wanted[1:])))
    found = _in_order(wanted[1 : len(wanted) - len(options)], words[1:])
    return found if found is False or all(_has(option, words) for option in options) else unknown


def _has(option: str, words: Sequence[Word]) -> bool:
    """Whether an option is among the words, wherever it stands: `-rf` also as `-r -f`, `--force` also shortened."""
    texts = [text for word in words for text in (word.text, word.text.partition("=")[0])]
    shortened = any(option.startswith(text) for text in texts if text.startswith("--") and len(text) > 3)
    letters = {letter for text in texts if re.fullmatch(r"-[A-Za-z]+", text) for letter in text[1:]}
    return option in texts or (shortened if option.startswith("--") else set(option[1:]) <= letters)


def _in_order(wanted: Sequence[str], words: Sequence[Word]) -> bool | None:
    """Whether the wanted words come first, with options (and a value each) skipped."""
    left, unsure, may_skip = list(wanted), False, False
    for word in words:
        if word.literal and word.text in left[:1]:
            left, may_skip = left[1:], False
        elif not left or (word.literal and not word.text.startswith("-") and not may_skip):
            break
        else:
            unsure = unsure or not word.literal
            may_skip = not word.literal or (word.text.startswith("-") and "=" not in word.text)
    return not left or (None if unsure else False)
