"""What a command runs on behalf of another: `env`, `timeout`, `xargs`, `sh -c`, `find -exec` … taken apart.

A deny rule must hold behind all of them, so an option nobody listed makes every later word a possible command, and of
a program nobody listed every word may be one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace

from cowork.core.frozen import frozen
from cowork.permissions.commands import KNOWN
from cowork.permissions.words import Word, names

SHELLS = names(
    "sh bash dash ash zsh ksh mksh pdksh fish csh tcsh rbash busybox-sh yash posh pwsh nu xonsh elvish osh rc"
)
EVALUATES = frozenset({"eval", "source", ".", "trap"})
# Code of another language in a word or on standard input: what it starts is only known at run time.
INTERPRETERS = names(
    "python perl ruby node deno bun php lua luajit tclsh expect osascript rscript julia groovy elixir ghc"
)
_INLINE = re.compile(r"-[A-Za-z]*[ceErp].*|--(?:eval|print|expression|run)(?:=.*)?|eval|repl")
_TELLS = names("--version -V -v --help -h")
_LANGUAGES = {  # what makes a program in these run another
    **dict.fromkeys(names("awk gawk mawk nawk original-awk"), re.compile(r"system|getline|\||@load|>")),
    **dict.fromkeys(names("sed gsed"), re.compile(r"(?:^|[;{}\n0-9$/,! ])e(?:$|[ \t;}])|[^\w\s]\w*e\w*(?:$|[;}\s])")),
    **dict.fromkeys(
        names("vim vi nvim ex view ed emacs gdb lldb sqlite3 psql mysql"), re.compile(r"!|shell|system|\.sh")
    ),
}
# Builtins that run code from inside quotes: a subscript or a number is an expression to them.
_ARITHMETIC = names(
    "let declare typeset local readonly export unset test [ [[ printf read mapfile readarray wait getopts"
)
_CALLS_BACK = names("mapfile readarray compgen complete bind alias hash")
_FED = names("at batch crontab")
_CODE_OPTION = re.compile(
    r"--?(?:to-command|use-compress-program|checkpoint-action|filter|rsh|compress-program|pager|exec|command|run|editor"
    r"|sendmail-cmd|upload-pack|receive-pack|rsync-path|toolexec|vettool|eval|photo-viewer|TT)(?:=(?:exec=)?(.*))?"
    r"|.*ProxyCommand[= ](.*)",
    re.DOTALL,
)

# Options that take a value in the next word, and how many words stand before the command.
_VALUES: dict[str, tuple[str, int]] = {
    "env": ("-u --unset -C --chdir -S --split-string --argv0 -a", 0),
    "timeout": ("-k --kill-after -s --signal", 1),
    "gtimeout": ("-k --kill-after -s --signal", 1),
    "nice": ("-n --adjustment", 0),
    "ionice": ("-c --class -n --classdata -p --pid", 0),
    "chrt": ("-p --pid -T --sched-runtime -P --sched-period -D --sched-deadline", 1),
    "taskset": ("", 1),
    "nohup": ("", 0),
    "setsid": ("", 0),
    "stdbuf": ("-i --input -o --output -e --error", 0),
    "time": ("-f --format -o --output", 0),
    "command": ("", 0),
    "builtin": ("", 0),
    "exec": ("-a", 0),
    "coproc": ("", 0),
    "sudo": ("-u --user -g --group -h --host -p --prompt -C --close-from -D --chdir -r --role -t --type -T -U -R", 0),
    "doas": ("-u -C", 0),
    "run0": ("-u --user -g --group -D --chdir", 0),
    "pkexec": ("--user", 0),
    "xargs": (
        "-I -i -n --max-args -L -l --max-lines -P --max-procs -s --max-chars -d --delimiter -a --arg-file -E -J -R",
        0,
    ),
    "parallel": ("-j --jobs -a --arg-file -I --colsep -C -n -N -L -S --sshlogin --joblog --tmpdir -d --delimiter", 0),
    "watch": ("-n --interval -q --equexit", 0),
    "chroot": ("", 1),
    "unshare": ("-R --root -w --wd -S --setuid -G --setgid", 0),
    "nsenter": ("-t --target -S --setuid -G --setgid", 0),
    "setpriv": ("--reuid --regid --groups --inh-caps --ambient-caps --bounding-set --securebits", 0),
    "capsh": ("", 0),
    "flock": ("-w --timeout -E --conflict-exit-code", 1),
    "strace": ("-e -o -p -s -u -E -P -I -O -S -a -b -X -U", 0),
    "ltrace": ("-e -o -p -s -u -a -n -x -l -A -D -F -w", 0),
    "perf": ("", 0),
    "valgrind": ("", 0),
    "gdb": ("", 0),
    "busybox": ("", 0),
    "toybox": ("", 0),
    "script": ("-c --command -I -O -B -T -m -E -o", 0),
    "unbuffer": ("", 0),
    "systemd-run": ("-p --property -u --unit -M --machine -E --setenv", 0),
    "dbus-run-session": ("--config-file --dbus-daemon", 0),
    "start-stop-daemon": ("-x --exec -a --startas -p --pidfile -n --name -u --user -c --chuid -g -d --chdir", 0),
    "bwrap": ("", 0),
    "firejail": ("", 0),
    "proxychains": ("-f", 0),
    "proxychains4": ("-f", 0),
    "torsocks": ("", 0),
    "eatmydata": ("", 0),
    "fakeroot": ("-l -s -i -b", 0),
    "catchsegv": ("", 0),
    "entr": ("", 0),
    "watchexec": ("-e -w -i -f -d", 0),
    "direnv": ("", 2),
    "ssh": ("-p -i -l -o -F -J -L -R -D -b -c -E -e -I -m -O -Q -S -W -w", 1),
    "su": ("-c --command -s --shell -g -G -w", 0),
    "runuser": ("-c --command -s --shell -u -g -G -w", 0),
    "docker": ("", 0),
    "podman": ("", 0),
    "kubectl": ("", 0),
    "npx": ("-p --package -c --call -w --workspace", 0),
    "bunx": ("", 0),
    "uvx": ("--from --with --python", 0),
    "pipx": ("", 0),
    "ld.so": ("", 0),
    "git": ("", 0),
    "find": ("", 0),
    "fd": ("", 0),
    "fdfind": ("", 0),
    "rg": ("", 0),
}
# Programs with a `run` or `exec` of their own somewhere in their words.
_RUNNERS = names("uv poetry pipenv hatch pdm rye conda mamba micromamba npm pnpm yarn bun bundle mise asdf nix")
_EVERY_SUFFIX = names(
    "docker podman kubectl perf valgrind gdb capsh bwrap firejail systemd-run start-stop-daemon parallel watchexec"
    " entr script setarch linux64 linux32 i386 x86_64 numactl prlimit cpulimit choom chpst softlimit envdir"
    " setuidgid chronic ifne rlwrap dumb-init tini catatonit gosu su-exec sg newgrp xvfb-run systemd-inhibit"
    " systemd-nspawn proot fakechroot schroot caffeinate sandbox-exec xcrun arch hyperfine nodemon concurrently"
    " cross-env dotenv op aws-vault chamber doppler infisical envchain direnv flatpak-spawn flatpak distrobox"
    " toolbox lxc nerdctl buildah oc adb vagrant tmux screen dtach ip rustup rbenv pyenv nvm fnm volta nodenv runcon"
    " dbus-launch daemonize split pee tar rsync lldb"
)
# Programs of everyday use that run none of their words.
_PLAIN = KNOWN | names(
    "cd rm mv cp mkdir rmdir touch ln chmod chown tee kill pkill killall git gh pip pip3 cargo go make npm pnpm"
    " yarn curl wget scp sftp zip unzip gzip gunzip bzip2 xz zstd open code vim vi nano less more man apt apt-get"
    " dnf yum brew pacman pytest ruff mypy eslint prettier tsc jest vitest black flake8 pyright gcc g++ cc clang"
    " cmake java javac psql sqlite3 mysql redis-cli export unset set shopt umask ulimit wait jobs bg fg history exit"
    " return break continue shift read declare typeset local readonly let test [ [[ ]] for select case in pushd popd"
    " dirs getopts printf echo patch install truncate shred dd mount umount systemctl service journalctl ping dig"
    " nslookup host ssh-keygen gpg openssl base64 dotnet mvn gradle terraform helm tox nox pre-commit hostnamectl"
    " useradd passwd unlink mktemp mkfifo function time"
)
_ACTIONS = names("-exec -execdir -ok -okdir -x -X --exec --exec-batch --pre --hostname-bin")
_MOST_STARTS = 40
_MOST_WORDS = 400
_LOADER = re.compile(r"ld(?:-linux.*|-musl.*)?\.so(?:\.\d+)?")


@frozen
class Inner:
    """What a wrapper runs: words, or a text of shell code. Neither: it is only known at run time."""

    words: tuple[Word, ...] = ()
    code: str | None = None
    opaque: str = ""
    perhaps: str = ""  # words | text: a program nobody listed may run it


def program(word: Word) -> str:
    """The name a word in command position stands for, without its folder, as a case-blind file system reads it."""
    return os.path.basename(word.text.rstrip("/")).casefold()


def inside(words: Sequence[Word], fed: Sequence[str] = (), *, guess: bool = True) -> list[Inner]:
    """What this command runs on behalf of another; nothing for an ordinary command. `guess`: also unknown ones."""
    if not words:
        return []
    name = family(program(words[0]))
    rest = list(words[1:])
    if len(rest) > _MOST_WORDS:
        known = name in SHELLS or name in EVALUATES or name in _VALUES or name in _RUNNERS or name in _EVERY_SUFFIX
        return [Inner(opaque=f"{name} with very many words")] if known else []
    options = _options(rest) if name not in ("echo", "printf") else []
    if name in SHELLS:
        return _shell(name, rest, fed)
    if name in EVALUATES:
        return _evaluated(name, rest)
    if name in INTERPRETERS or name in _LANGUAGES or name in _FED:
        return [*options, *_foreign(name, rest), *(_suffixes(rest) if name in _EVERY_SUFFIX else [])]
    if _LOADER.fullmatch(name):
        return _suffixes(rest)
    if name in ("find", "fd", "fdfind", "rg"):
        return _actions(rest)
    if name == "git":
        return _git(rest)
    if name in _RUNNERS:
        scripts = name in ("npm", "pnpm", "yarn", "bun")  # whose `run` names a script, not a program
        return _after(rest, {"exec", "x", "dlx", "shell", "--"} | (set() if scripts else {"run"}))
    if name in _EVERY_SUFFIX:
        return [*options, *_suffixes(rest), *_texts(rest)]
    if name in _VALUES:
        return [*options, *_wrapped(name, rest)]
    if name in _ARITHMETIC or name in _CALLS_BACK:
        calls = [Inner(code=word.text.partition("=")[2] or word.text) for word in rest if name in _CALLS_BACK]
        return [*calls, *(Inner(code=word.text) for word in rest if word.quoted and re.search(r"\$\(|`", word.text))]
    if name in _PLAIN or not guess or _defines(rest):
        return options
    return [*options, *(replace(inner, perhaps="words") for inner in _suffixes(rest)), *_texts(rest, "text")]


def family(name: str) -> str:
    """python3.11 is python, bash-5.2 is bash, genv is env."""
    bare = re.sub(r"(?<=[a-z])-?\d[\d.]*$", "", name)
    known = {*_VALUES, "find", "sed", "awk"}
    if bare in INTERPRETERS or bare in SHELLS:
        return bare
    return name[1:] if name.startswith("g") and name[1:] in known and name not in known else name


def _defines(rest: list[Word]) -> bool:
    return bool(rest) and rest[0].text == "()"


def _texts(rest: list[Word], perhaps: str = "") -> list[Inner]:
    """Words that hold blanks, read as shell code."""
    return [Inner(code=word.text, perhaps=perhaps) for word in rest if re.search(r"\s", word.text)]


def _options(rest: list[Word]) -> list[Inner]:
    """Options that name a program, of whatever command: `tar --to-command=x`."""
    found = []
    for at, word in enumerate(rest):
        if option := _CODE_OPTION.fullmatch(word.text):
            value = option.group(1) or option.group(2)
            found += [Inner(code=value)] if value else [Inner(code=w.text) for w in rest[at + 1 : at + 2]]
    return found


def _foreign(name: str, rest: list[Word]) -> list[Inner]:
    """Interpreters: a script file is a program like others, code in a word or on standard input is not seen through."""
    opaque = [Inner(opaque=f"{name} runs code in another language")]
    if name in _LANGUAGES:
        code = [word for word in rest if not word.text.startswith("-")]
        return opaque if any(not word.literal or _LANGUAGES[name].search(word.text) for word in code) else []
    if name in _FED:
        return opaque
    for word in rest:
        if word.text in _TELLS:
            return []
        if _INLINE.fullmatch(word.text) or word.text == "-":
            return opaque
        if word.text == "-m" or not word.text.startswith("-"):
            return []
    return opaque


def _wrapped(name: str, rest: list[Word]) -> list[Inner]:
    values, before = _VALUES[name]
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
        elif text.startswith("-") and text != "-":
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
    if rest[at + before :]:
        found.append(Inner(tuple(rest[at + before :])))
    if not all(word.literal for word in rest[: at + before]):  # an expansion may be several words, or none
        found += _suffixes(rest)
    return [inner for inner in found if inner.words or inner.code is not None or inner.opaque]


def _suffixes(rest: list[Word]) -> list[Inner]:
    """Every word as the start of a command; past a bound the rest is said to be unknown."""
    found = [Inner(tuple(rest[at:])) for at in range(min(len(rest), _MOST_STARTS))]
    return [*found, Inner(opaque="a wrapper with very many words")] if len(rest) > _MOST_STARTS else found


def _known(name: str, text: str, with_value: set[str]) -> bool:
    return text.partition("=")[0] in with_value or (len(text) > 2 and text[:2] in with_value) or name == "command"


def _coded(name: str, text: str, following: list[Word]) -> list[Inner]:
    """Options whose value is shell code: `env -S`, `script -c`, `su -c`, `flock -c`."""
    if name == "env" and (split := re.match(r"-[A-Za-z0]*S|--s\w*-?\w*=?", text)):
        return [Inner(code=text[split.end() :] or (following[0].text if following else ""))]
    if name in ("script", "su", "runuser", "flock", "npx") and re.match(r"-[A-Za-z]*c|--(?:command|call)", text):
        attached = text.partition("=")[2]
        return [Inner(code=attached or (following[0].text if following else ""))]
    return []


def _shell(name: str, rest: list[Word], fed: Sequence[str]) -> list[Inner]:
    for at, word in enumerate(rest):
        text = word.text
        if re.match(r"-[A-Za-z]*c[A-Za-z]*$", text) or text in ("--command", "--init-command", "/c"):
            found = []
            for code in rest[at + 1 : at + 3]:  # options may stand between -c and its text
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


def _actions(rest: list[Word]) -> list[Inner]:
    found = []
    for at, word in enumerate(rest):
        option, _, value = word.text.partition("=")
        if option in _ACTIONS:
            found.append(Inner((Word(value), *rest[at + 1 :])) if value else Inner(tuple(rest[at + 1 :])))
    return found


def _git(rest: list[Word]) -> list[Inner]:
    found = []
    for at, word in enumerate(rest):
        _, marked, code = word.text.partition("=!")
        if marked:
            found.append(Inner(code=code))
        elif "=" in word.text and at and rest[at - 1].text in ("-c", "--config-env"):
            value = word.text.partition("=")[2]
            found += [Inner(code=value), Inner(code=f"git {value}")]  # an alias may be another subcommand
        if word.text in ("foreach", "run", "--exec", "-x", "filter-branch") and at:
            tail = [w for w in rest[at + 1 :] if not w.text.startswith("--")]
            found += [
                Inner(tuple(tail)),
                Inner(code=" ".join(w.text for w in tail)),
                *(Inner(code=w.text) for w in tail[:1]),
            ]
    return [*found, *_options(rest)]


def _after(rest: list[Word], markers: set[str]) -> list[Inner]:
    found = []
    for at, word in enumerate(rest):
        if word.text in markers:
            found += [Inner(tuple(rest[start:])) for start in range(at + 1, min(len(rest), at + 8))]
        if word.text in ("-c", "--call"):
            found += [Inner(code=code.text) for code in rest[at + 1 : at + 2]]
    return found
