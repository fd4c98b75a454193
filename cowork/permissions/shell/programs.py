"""Programs by what they do with their words: run them, read them as code, or neither."""

from __future__ import annotations

import os
import re

from cowork.permissions.shell.commands import KNOWN
from cowork.permissions.shell.words import Word, names

SHELLS = names(
    "sh bash dash ash zsh ksh mksh pdksh fish csh tcsh rbash busybox-sh yash posh pwsh nu xonsh elvish osh rc"
)
EVALUATES = frozenset({"eval", "source", ".", "trap"})
# Code of another language in a word or on standard input: what it starts is only known at run time.
INTERPRETERS = names(
    "python pypy ipython bpython micropython perl raku ruby jruby irb node nodejs tsx ts-node deno bun php lua luajit"
    " tclsh wish expect osascript rscript r julia octave groovy scala kotlin jshell clojure elixir iex erl ghc ghci"
    " ocaml sbcl guile racket swift crystal dart m4 gnuplot dc"
)
INLINE = re.compile(r"-[A-Za-z]*[ceErp].*|--(?:eval|print|expression|run)(?:=.*)?|eval|repl")
TELLS = names("--version -V -v --help -h")
BEFORE_SCRIPT = names("-W -X -I -d -l -C --require --import --loader --env-file --conditions")  # with a value each
CODE_MODULES = names("timeit code pdb ipython idlelib trace")  # of `python -m`: they take code as a word
CODE_WORD = re.compile(r"-[A-Za-z]*?[cefs](.+)|--[\w-]+=(.*)", re.DOTALL)  # `sed -e1p`, `gawk --source=…`
STDIN = re.compile(r"-|/dev/(?:stdin|fd/.*)|/proc/.*")
LANGUAGES = {  # what makes a program in these run another
    **dict.fromkeys(names("awk gawk mawk nawk original-awk"), re.compile(r"system|getline|\||@load|>")),
    **dict.fromkeys(names("sed gsed"), re.compile(r"(?:^|[;{}\n0-9$/,! ])e(?:$|[ \t;}])|[^\w\s]\w*e\w*(?:$|[;}\s])")),
    **dict.fromkeys(
        names("vim vi nvim ex view ed emacs gdb lldb sqlite3 psql mysql ftp sftp lftp telnet mail mailx"),
        re.compile(r"!|shell|system|\.sh"),
    ),
    **dict.fromkeys(names("less more"), re.compile(r"\+.*!")),
}
FOREIGN = INTERPRETERS | frozenset(LANGUAGES)
# Builtins that run code from inside quotes: a subscript or a number is an expression to them.
ARITHMETIC = names(
    "let declare typeset local readonly export unset test [ [[ printf read mapfile readarray wait getopts"
)
CALLS_BACK = names("mapfile readarray compgen complete bind alias hash")
FED = names("at batch crontab fc")
CODE_OPTIONS = names(  # long ones also shortened
    "to-command use-compress-program checkpoint-action filter rsh compress-program pager exec command run editor"
    " sendmail-cmd upload-pack receive-pack rsync-path toolexec vettool eval photo-viewer TT extcmd open-files-in-pager"
    " unzip-command rsh-command editor-cmd script-shell httpd"
)
CODE_OPTION = re.compile(r"(--?)([A-Za-z-]+)(?:=(?:exec=)?(.*))?", re.DOTALL)
SSH_OPTION = re.compile(r".*(?:(?:proxy|local|knownhosts)command|-invoke:*)[= \t]+(.*)", re.DOTALL | re.IGNORECASE)

# Options that take a value in the next word, and how many words stand before the command.
VALUES: dict[str, tuple[str, int]] = {
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
    "watch": ("-n --interval -q --equexit", 0),
    "chroot": ("", 1),
    "unshare": ("-R --root -w --wd -S --setuid -G --setgid", 0),
    "nsenter": ("-t --target -S --setuid -G --setgid", 0),
    "setpriv": ("--reuid --regid --groups --inh-caps --ambient-caps --bounding-set --securebits", 0),
    "flock": ("-w --timeout -E --conflict-exit-code", 1),
    "strace": ("-e -o -p -s -u -E -P -I -O -S -a -b -X -U", 0),
    "ltrace": ("-e -o -p -s -u -a -n -x -l -A -D -F -w", 0),
    "busybox": ("", 0),
    "toybox": ("", 0),
    "unbuffer": ("", 0),
    "dbus-run-session": ("--config-file --dbus-daemon", 0),
    "proxychains": ("-f", 0),
    "proxychains4": ("-f", 0),
    "torsocks": ("", 0),
    "eatmydata": ("", 0),
    "fakeroot": ("-l -s -i -b", 0),
    "catchsegv": ("", 0),
    "ssh": ("-p -i -l -o -F -J -L -R -D -b -c -E -e -I -m -O -Q -S -W -w", 1),
    "su": ("-c --command -s --shell -g -G -w", 0),
    "runuser": ("-c --command -s --shell -u -g -G -w", 0),
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
RUNNERS = names(
    "uv poetry pipenv hatch pdm rye conda mamba micromamba npm pnpm yarn bun bundle mise asdf nix cmake gh glab"
)
EVERY_SUFFIX = names(
    "docker podman kubectl perf valgrind gdb capsh bwrap firejail systemd-run start-stop-daemon parallel watchexec"
    " entr script setarch linux64 linux32 i386 x86_64 numactl prlimit cpulimit choom chpst softlimit envdir"
    " setuidgid chronic ifne rlwrap dumb-init tini catatonit gosu su-exec sg newgrp xvfb-run systemd-inhibit"
    " systemd-nspawn proot fakechroot schroot caffeinate sandbox-exec xcrun arch hyperfine nodemon concurrently"
    " tox cross-env dotenv op aws-vault chamber doppler infisical envchain direnv flatpak-spawn flatpak distrobox"
    " toolbox lxc nerdctl buildah oc adb vagrant tmux screen dtach ip rustup rbenv pyenv nvm fnm volta nodenv runcon"
    " dbus-launch daemonize split pee tar rsync lldb"
)
# Programs of everyday use that run none of their words.
PLAIN = KNOWN | names(
    "cd rm mv cp mkdir rmdir touch ln chmod chown tee kill pkill killall git gh pip pip3 cargo go make npm pnpm"
    " yarn curl wget scp sftp zip unzip gzip gunzip bzip2 xz zstd open code vim vi nano less more man apt apt-get"
    " dnf yum brew pacman pytest ruff mypy eslint prettier tsc jest vitest black flake8 pyright gcc g++ cc clang"
    " java javac psql sqlite3 mysql redis-cli export unset set shopt umask ulimit wait jobs bg fg history exit"
    " return break continue shift read declare typeset local readonly let test [ [[ ]] for select case in pushd popd"
    " dirs getopts printf echo patch install truncate shred dd mount umount systemctl service journalctl ping dig"
    " nslookup host ssh-keygen gpg openssl base64 dotnet mvn gradle terraform helm nox pre-commit hostnamectl"
    " useradd passwd unlink mktemp mkfifo function time"
)
# Without a command they start a shell, which runs what it is fed.
STARTS_SHELL = names("ssh su runuser sudo doas unshare nsenter chroot script fakeroot parallel newgrp sg proot schroot")
ACTIONS = names("-exec -execdir -ok -okdir -x -X --exec --exec-batch --pre --hostname-bin")


def program(word: Word) -> str:
    """The name a word in command position stands for, without its folder, as a case-blind file system reads it."""
    return os.path.basename(word.text.rstrip("/")).casefold()


def family(name: str) -> str:
    """python3.11 is python, bash-5.2 is bash, genv is env."""
    bare = re.sub(r"(?<=[a-z])-?\d[\d.]*$", "", name)
    known = {*VALUES, "find", "sed", "awk"}
    if bare in INTERPRETERS or bare in SHELLS:
        return bare
    return name[1:] if name.startswith("g") and name[1:] in known and name not in known else name
