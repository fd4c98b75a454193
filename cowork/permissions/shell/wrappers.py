"""What a command runs on behalf of another: `env`, `timeout`, `xargs`, `sh -c`, `find -exec` … taken apart.

A deny rule must hold behind all of them, so an option nobody listed makes every later word a possible command, and of
a program nobody listed every word may be one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from cowork.core.frozen import frozen
from cowork.permissions.shell import programs
from cowork.permissions.shell.programs import family, program
from cowork.permissions.shell.words import Word

_MOST_STARTS = 40
_MOST_WORDS = 400
UNKNOWN = Word("$@", literal=False)  # words that come from elsewhere
_SETS = ("-c", "--config", "--config-env")  # of git
_LOADER = re.compile(r"ld(?:-linux.*|-musl.*)?\.so(?:\.\d+)?")


@frozen
class Inner:
    """What a wrapper runs: words, or a text of shell code. Neither: it is only known at run time."""

    words: tuple[Word, ...] = ()
    code: str | None = None
    opaque: str = ""
    perhaps: str = ""  # words | text | mentions: a program nobody listed may run it


def inside(words: Sequence[Word], fed: Sequence[str] = (), *, guess: bool = True) -> list[Inner]:
    """What this command runs on behalf of another; nothing for an ordinary command. `guess`: also unknown ones."""
    if not words:
        return []
    name = family(program(words[0]))
    rest = list(words[1:])
    if len(rest) > _MOST_WORDS:
        return [Inner(opaque=f"{name} with very many words")]
    options = _options(rest) if name not in ("echo", "printf") else []
    if name in programs.SHELLS:
        return _shell(name, rest, fed)
    if name in programs.EVALUATES:
        return _evaluated(name, rest)
    if name in programs.INTERPRETERS or name in programs.LANGUAGES or name in programs.FED:
        return [*options, *_foreign(name, rest, fed), *_runner(name, rest)]
    if _LOADER.fullmatch(name):
        return _suffixes(rest)
    if name in ("find", "fd", "fdfind", "rg"):
        return _actions(rest, adds=name != "find")
    if name == "git":
        return _git(rest)
    if name.startswith("git-"):
        return [Inner((Word("git"), Word(name[4:]), *rest))]
    if name in programs.RUNNERS or name in programs.EVERY_SUFFIX:
        return [*options, *_runner(name, rest), *_fed_shell(name, rest, fed)]
    if name in programs.VALUES:
        return [*options, *_wrapped(name, rest, fed)]
    if name in programs.ARITHMETIC or name in programs.CALLS_BACK:
        return _builtin(name, rest)
    if name in ("make", "gmake"):
        return [*options, *_make(rest)]
    if name == "cargo" and rest and rest[0].text == "watch":
        return [*options, *_suffixes(rest), *_texts(rest)]
    if name in programs.PLAIN or not guess or _defines(rest):
        return options
    return [*options, *_guessed(rest)]


def counts(words: Sequence[Word]) -> bool:
    """Whether a command takes words for arithmetic, which runs the substitutions in them."""
    return bool(words) and program(words[0]) in programs.ARITHMETIC


def _guessed(rest: list[Word]) -> list[Inner]:
    """What a program nobody listed may run: any of its words, and any name in a word that looks like code."""
    codes = [word for word in rest if re.search(r"[\"'(`]", word.text)]
    mentions = [Inner(tuple(map(Word, re.findall(r"[\w./-]+", word.text))), perhaps="mentions") for word in codes]
    values = [word.text.partition(mark)[2].lstrip("!") for word in rest for mark in "=:" if mark in word.text]
    codes_in = [Inner(code=value, perhaps="text") for value in values if value]
    words = [*codes_in, *(replace(inner, perhaps="words") for inner in _suffixes(rest))]
    return [*words, *_texts(rest, "text"), *(inner for inner in mentions if inner.words)]


def _builtin(name: str, rest: list[Word]) -> list[Inner]:
    calls = [Inner(code=word.text.partition("=")[2] or word.text) for word in rest if name in programs.CALLS_BACK]
    if name == "alias" and any("=" in word.text for word in rest):
        calls.append(Inner(opaque="an alias changes what words mean"))
    return [*calls, *(Inner(code=word.text) for word in rest if word.quoted and re.search(r"\$\(|`", word.text))]


def _runner(name: str, rest: list[Word]) -> list[Inner]:
    """Programs that run some of their words, after a marker or anywhere."""
    found: list[Inner] = []
    if name in programs.RUNNERS:
        markers = {"exec", "x", "dlx", "shell", "--"}
        if name not in ("npm", "pnpm", "yarn", "bun"):  # whose `run` names a script, not a program
            markers.add("-E" if name == "cmake" else "run")
        found += _after(rest, markers)
    if name in programs.EVERY_SUFFIX:
        values = [
            re.sub(r"^(?:-[A-Za-z]|--?[\w-]+=(?:exec=)?)", "", word.text) for word in rest if word.text[:1] == "-"
        ]
        found += [*_suffixes(rest), *_texts(rest), *(Inner(code=value) for value in values if value)]
    if name in ("gh", "glab") and any(word.text == "alias" for word in rest):
        found += [Inner(code=word.text.lstrip("!")) for word in rest]
    if name == "parallel":
        given = [at for at, word in enumerate(rest) if word.text.startswith(":::")]
        found += _suffixes([*rest[: given[0] if given else None], UNKNOWN])
    return found


def _fed_shell(name: str, command: list[Word], fed: Sequence[str]) -> list[Inner]:
    """A shell that reads what it is fed, where no command is given."""
    coded = any(re.match(r"-[A-Za-z]*c|--command", word.text) for word in command)
    plain = [word for word in command if not word.text.startswith("-")]
    given = (
        coded if name in ("script", "su", "runuser", "newgrp") else bool(plain) and not plain[0].text.startswith(":::")
    )
    if name not in programs.STARTS_SHELL or given:
        return []
    return [*(Inner(code=body) for body in fed), Inner(opaque=f"{name} starts a shell that runs what it is fed")]


def _make(rest: list[Word]) -> list[Inner]:
    """A makefile is a script; one that is fed or written in a word is code of this command."""
    for at, word in enumerate(rest):
        file = re.fullmatch(r"-[A-Za-z]*f(.*)|--(?:f|file|makefile)(?:=(.*))?", word.text, re.DOTALL)
        names = [file.group(1) or file.group(2) or "", *(w.text for w in rest[at + 1 : at + 2])][:2] if file else []
        if any(map(programs.STDIN.fullmatch, names)) or re.match(r"-[A-Za-z]*E|--ev", word.text):
            return [Inner(opaque="make runs rules written here")]
    return []


def _defines(rest: list[Word]) -> bool:
    return bool(rest) and rest[0].text == "()"


def _texts(rest: list[Word], perhaps: str = "") -> list[Inner]:
    """Words that hold blanks, read as shell code."""
    return [Inner(code=word.text, perhaps=perhaps) for word in rest if re.search(r"\s", word.text)]


def _options(rest: list[Word]) -> list[Inner]:
    """Options that name a program, of whatever command: `tar --to-command=x`."""
    found = []
    for at, word in enumerate(rest):
        option = programs.CODE_OPTION.fullmatch(word.text)
        if ssh := programs.SSH_OPTION.fullmatch(word.text):
            found.append(Inner(code=ssh.group(1)))
        elif option and _takes_code(option.group(1), option.group(2)):
            value = option.group(3)
            found += [Inner(code=value)] if value else [Inner(code=w.text) for w in rest[at + 1 : at + 2]]
    return found


def _takes_code(dashes: str, name: str) -> bool:
    return name in programs.CODE_OPTIONS or (
        dashes == "--" and any(known.startswith(name) for known in programs.CODE_OPTIONS)
    )


def _foreign(name: str, rest: list[Word], fed: Sequence[str]) -> list[Inner]:
    """Interpreters: a script file is a program like others, code in a word or on standard input is not seen through."""
    opaque = [Inner(opaque=f"{name} runs code in another language")]
    if name in programs.LANGUAGES:
        return opaque if _runs_other(name, rest, fed) else []
    if name in programs.FED:
        return opaque
    value = False
    for at, word in enumerate(rest):
        if word.text in programs.TELLS:
            return []
        if programs.INLINE.fullmatch(word.text) or programs.STDIN.fullmatch(word.text) or "data:" in word.text:
            return opaque
        if word.text == "-m":
            return opaque if {w.text.casefold() for w in rest[at + 1 : at + 2]} & programs.CODE_MODULES else []
        if not word.text.startswith("-") and not value:
            return [] if word.literal or word.text == "{}" else opaque
        value = word.text in programs.BEFORE_SCRIPT
    return opaque


def _runs_other(name: str, rest: list[Word], fed: Sequence[str]) -> bool:
    """Whether a program in awk, sed, an editor or a database may start another."""
    starts, seen = programs.LANGUAGES[name], False
    for at, word in enumerate(rest):
        attached = programs.CODE_WORD.fullmatch(word.text)
        if word.text.startswith("-") and word.text != "-" and not attached:
            continue
        text = (attached.group(1) or attached.group(2) or "") if attached else word.text
        after_file = at > 0 and re.fullmatch(r"-[A-Za-z]*f|--file", rest[at - 1].text)
        from_elsewhere = word in (UNKNOWN, Word("{}", literal=False))
        file = after_file or (attached and re.match(r"-[A-Za-z]*f|--file=", word.text))
        if starts.search(text) or (file and programs.STDIN.fullmatch(text)):
            return True
        if not word.literal and not (from_elsewhere and seen):
            return True
        seen = True
    return name not in ("awk", "sed") and any(map(starts.search, fed))


def _wrapped(name: str, rest: list[Word], fed: Sequence[str]) -> list[Inner]:
    values, before = programs.VALUES[name]
    with_value = set(values.split())
    found: list[Inner] = []
    at = 0
    while at < len(rest):
        text = rest[at].text
        if name in ("env", "sudo", "doas") and re.match(r"[A-Za-z_]\w*=", text):
            at += 1
        elif text == "--":
            at += 1
            break
        elif text.startswith("-") and (text != "-" or name == "env"):
            found += _coded(name, text, rest[at + 1 : at + 2])
            if text in with_value:
                found.append(Inner(tuple(rest[at + 1 :])))  # `xargs -i rm`: some values are optional
                at += 2
            elif "=" in text or re.fullmatch(r"-[A-Za-z0-9]\w*|--[a-z-]+", text):
                if not _known(name, text, with_value):  # its value may be the next word: try both readings
                    found.append(Inner(tuple(rest[at + 2 :])))
                at += 1
            else:
                at += 1
        else:
            break
    for later in range(at, len(rest)):  # `flock FILE -c CODE`
        found += _coded(name, rest[later].text, rest[later + 1 : later + 2]) if name != "env" else []
    if name in ("flock", "su", "runuser", "ssh", "npx", "watch"):
        found += [Inner(code=" ".join(word.text for word in rest[at + before :]))]
    while name in ("env", "sudo", "doas") and at < len(rest) and re.match(r"[A-Za-z_]\w*=", rest[at].text):
        at += 1
    command = rest[at + before :]
    if command:
        found.append(Inner(tuple(command)))
    if name == "xargs":
        found = [replace(inner, words=_with_input(inner.words, rest)) for inner in found]
    silent = name == "ssh" and any(re.match(r"-[A-Za-z]*[NVGQO]", word.text) for word in rest)
    found += [] if silent else _fed_shell(name, rest if name in ("su", "runuser") else command, fed)
    if not all(word.literal for word in rest[: at + before]):  # an expansion may be several words, or none
        found += _suffixes(rest)
    return [inner for inner in found if inner.words or inner.code is not None or inner.opaque]


def _suffixes(rest: list[Word]) -> list[Inner]:
    """Every word as the start of a command; past a bound the rest is said to be unknown."""
    starts = [at for at in range(min(len(rest), _MOST_STARTS)) if rest[at] != UNKNOWN and rest[at].text != "."]
    found = [Inner(tuple(rest[at:])) for at in starts]
    return [*found, Inner(opaque="a wrapper with very many words")] if len(rest) > _MOST_STARTS else found


def _with_input(words: tuple[Word, ...], rest: list[Word]) -> tuple[Word, ...]:
    """The words of a command that xargs completes with what it reads."""
    marks = {"{}"}
    for at, word in enumerate(rest):
        if option := re.fullmatch(r"-[IiJ](.*)|--replace=(.*)", word.text):
            marks |= {option.group(1) or option.group(2) or ""}
        if word.text in ("-I", "-J"):
            marks |= {following.text for following in rest[at + 1 : at + 2]}
    return (*_filled(words, marks - {""}), UNKNOWN) if words else words


def _filled(words: Sequence[Word], marks: Collection[str]) -> tuple[Word, ...]:
    """The words with those that a mark is in, and no code, as not known."""
    blank = re.compile(r"\s")
    return tuple(
        replace(w, literal=False) if not blank.search(w.text) and any(m in w.text for m in marks) else w for w in words
    )


def _known(name: str, text: str, with_value: set[str]) -> bool:
    return text.partition("=")[0] in with_value or (len(text) > 2 and text[:2] in with_value) or name == "command"


def _coded(name: str, text: str, following: list[Word]) -> list[Inner]:
    """Options whose value is shell code: `env -S`, `su -c`, `flock -c`."""
    if name == "env" and (split := re.match(r"-[A-Za-z0]*S|--s\w*-?\w*=?", text)):
        code = text[split.end() :] or (following[0].text if following else "")
        return [Inner(code=code, opaque="env -S with its own escapes" if "\\" in code else "")]
    if name in ("su", "runuser", "flock", "npx") and re.match(r"-[A-Za-z]*c|--(?:command|call)", text):
        attached = text.partition("=")[2] or ("" if text.startswith("--") else text.partition("c")[2])
        return [Inner(code=attached or (following[0].text if following else ""))]
    return []


def _shell(name: str, rest: list[Word], fed: Sequence[str]) -> list[Inner]:
    for at, word in enumerate(rest):
        text = word.text
        if re.match(r"-[A-Za-z]*c[A-Za-z]*$", text) or text in ("--command", "--init-command", "/c"):
            found = []
            options = next((i for i, w in enumerate(rest[at + 1 :]) if not w.text.startswith(("-", "+"))), 0)
            for code in rest[at + 1 : at + 3 + options]:  # options may stand between -c and its text
                found.append(
                    Inner(code=code.text) if code.literal else Inner(code=code.text, opaque="code made at run time")
                )
            return found or [Inner(opaque=f"{name} without its code")]
        if not text.startswith(("-", "+")):
            if text == "sh" and name == "busybox":
                continue
            return [Inner(opaque=f"{name} runs the file {text}")]
    return [*(Inner(code=body) for body in fed), Inner(opaque=f"{name} runs what it is fed")]


def _evaluated(name: str, rest: list[Word]) -> list[Inner]:
    if name in ("source", "."):
        return [Inner(opaque=f"{name} runs a file")]
    while rest and rest[0].text.startswith("-"):
        rest = rest[1:]
    code = " ".join(word.text for word in (rest[:1] if name == "trap" else rest))
    if all(word.literal for word in rest):
        return [Inner(code=code)]
    return [Inner(code=code, opaque=f"{name} of a text made at run time")]


def _actions(rest: list[Word], *, adds: bool) -> list[Inner]:
    """What `find -exec` and its like run; fd and rg add the path by themselves."""
    found = []
    for at, word in enumerate(rest):
        option, _, value = word.text.partition("=")
        if option in programs.ACTIONS:
            words = (Word(value), *rest[at + 1 :]) if value else rest[at + 1 :]
            found.append(Inner((*_filled(words, ["{}"]), *([UNKNOWN] if adds else []))))
    return found


def _git(rest: list[Word]) -> list[Inner]:
    found = []
    for at, word in enumerate(rest):
        _, marked, code = word.text.partition("=!")
        attached = re.fullmatch(r"-[A-Za-z]*?[xO](.+)", word.text, re.DOTALL)
        if marked or attached or word.text.startswith("!"):
            found.append(Inner(code=code or (attached.group(1) if attached else word.text[1:])))
        elif at and "alias." in rest[at - 1].text.casefold() and "=" not in rest[at - 1].text:
            found += [Inner(code=word.text), Inner(code=f"git {word.text}")]
        elif "=" in word.text and (word.text.startswith("--config=") or (at and rest[at - 1].text in _SETS)):
            value = word.text.removeprefix("--config=").partition("=")[2]
            found += [Inner(code=value), Inner(code=f"git {value}")]  # an alias may be another subcommand
        if word.text in ("foreach", "run", "--exec", "-x", "filter-branch"):
            tail = [w for w in rest[at + 1 :] if not w.text.startswith("--")]
            found += [
                Inner(tuple(tail)),
                Inner(code=" ".join(w.text for w in tail)),
                *(Inner(code=w.text) for w in tail[:1]),
                *_texts(tail),
            ]
        if word.text.startswith("ext::"):
            found.append(Inner(code=word.text[5:]))
        if re.fullmatch(r"-[A-Za-z]*[xu]", word.text):  # difftool -yx, clone -u
            found += [Inner(code=following.text) for following in rest[at + 1 : at + 2]]
        if word.text == "for-each-repo":
            found += [Inner((Word("git"), *rest[start:])) for start in range(at + 1, len(rest))]
        if word.text.startswith("--config-env"):
            found.append(Inner(opaque="git with a setting from a variable"))
    return [*found, *_options(rest)]


def _after(rest: list[Word], markers: set[str]) -> list[Inner]:
    found = []
    for at, word in enumerate(rest):
        if word.text in markers:
            found += [*_suffixes(rest[at + 1 :]), *_texts(rest[at + 1 :])]
        if word.text in ("-c", "--call"):
            found += [Inner(tuple(rest[at + 1 :])), *(Inner(code=code.text) for code in rest[at + 1 : at + 2])]
    return found
