"""Which commands only read: a short list with the exact flags each may have. What is not listed asks.

A flag is left out when it writes (`sort -o`), runs a program (`rg --pre`), follows links out of the folder
(`grep -R`), never ends (`tail -f`) or shows what others keep in their environment (`ps e`). A program that reads its
words in a way of its own is left out whole: `xxd a -p` writes a file named -p.
"""

from __future__ import annotations

from cowork.permissions.shell import checks
from cowork.permissions.shell.findread import find_read_only
from cowork.permissions.shell.gitread import git_read_only
from cowork.permissions.shell.jqread import jq
from cowork.permissions.shell.literal import Simple
from cowork.permissions.shell.spec import Look, Spec, every, fits, spec
from cowork.permissions.shell.words import names


def read_only(command: Simple, look: Look) -> str:
    """Empty when the command is known to change nothing, else why it is not."""
    if why := look.program(command.name) or every(look.path, command.reads):
        return why
    if command.name not in _ONLY_SAYS and (why := every(lambda word: checks.immodest(word.text), command.args)):
        return why
    if command.name == "git":
        return git_read_only(command, look)
    if command.name == "find":
        return find_read_only(command, look)
    if (command.argv[1:] == ("--version",) and command.name in _VERSIONED) or command.argv in _OWN_VERSION_FLAGS:
        return look.trusted()
    rules = _COMMANDS.get(command.name)
    if rules is None:
        return f"{command.name} is not one of the commands known to only read"
    return fits(rules, command.name, command.args, look)


_LINES = "-q -v -z --quiet --silent --verbose"
_SUM = spec("-b -t --binary --text --tag -z")
_GREP = "-r -n -i -l -L -c -v -w -x -E -F -G -P -o -h -H -s -q -a -I -T --recursive --line-number --ignore-case"
_GREP += " --files-with-matches --files-without-match --count --invert-match --word-regexp --line-regexp"
_GREP += " --fixed-strings"
_GREP += " --extended-regexp --perl-regexp --basic-regexp --only-matching --no-filename --with-filename"
_GREP += " --no-messages --quiet"
_GREP += " --color --colour --color=never --color=auto --color=always --text --null --no-ignore-case -b --byte-offset"
_RG = "-n -i -l -c -v -w -x -F -P -o -s -S -U -u -uu -uuu -N -H -I -a -0 -p -q --files --hidden --no-ignore"
_RG += " --no-ignore-vcs"
_RG += " --line-number --ignore-case --smart-case --case-sensitive --files-with-matches --files-without-match --count"
_RG += " --count-matches --invert-match --word-regexp --line-regexp --fixed-strings --pcre2 --only-matching"
_RG += " --multiline"
_RG += " --multiline-dotall --no-line-number --with-filename --no-filename --text --heading --no-heading"
_RG += " --column --vimgrep"
_RG += " --json --stats --type-list --no-config --null --trim --passthru --no-messages --pretty --quiet"
_RG += " --unrestricted"
_LS = "-l -a -A -h -t -r -R -S -1 -d -F -G -i -n -o -g -p -s -x -m -c -u -U -X -v -C -k -q -Q -b -B -Z -N --all"
_LS += " --almost-all"
_LS += " --human-readable --reverse --recursive --directory --classify --inode --size --color --color=never"
_LS += " --color=auto"
_LS += " --color=always --group-directories-first --full-time --si --no-group --numeric-uid-gid --file-type"

_COMMANDS: dict[str, Spec] = {
    "ls": spec(_LS, "--sort --time --time-style --format --indicator-style --hide --ignore -w:width"),
    "cat": spec("-n -b -A -e -E -s -t -T -v -u --number --number-nonblank --show-all --show-ends --show-tabs"),
    "head": spec(_LINES, "-n:number -c:number --lines:number --bytes:number", numeric=True),
    "tail": spec(_LINES, "-n:number -c:number --lines:number --bytes:number", numeric=True),
    "wc": spec("-l -w -c -m -L --lines --words --bytes --chars --max-line-length"),
    "nl": spec("-p", "-b -w:width -s -v:number -i:number -n"),
    "tac": spec(least=1),
    "rev": spec(),
    "grep": spec(
        _GREP,
        "-e -m:number -A:number -B:number -C:number --regexp --max-count:number --include --exclude"
        " --exclude-dir --after-context:number --before-context:number --context:number --label",
        "pattern",
        numeric=True,
        pattern_flags="-e --regexp",
        deep="-r --recursive",
    ),
    "rg": spec(
        _RG,
        "-e -m:number -A:number -B:number -C:number -g:glob -t -T -d:number -M:number -r -E --regexp"
        " --max-count:number --glob:glob --iglob:glob --type --type-not --max-depth:number"
        " --after-context:number --before-context:number --context:number --color --sort --sortr --replace"
        " --max-columns:number --max-filesize --encoding --engine",
        "pattern",
        pattern_flags="-e --regexp --files --type-list",
        deep="--hidden --no-ignore --no-ignore-vcs -u -uu -uuu --unrestricted",
        searches=True,
    ),
    "sort": spec(
        "-n -r -u -h -V -f -b -g -M -s -c -C -d -i -z -R --numeric-sort --reverse --unique --human-numeric-sort"
        " --version-sort --ignore-case --check --stable",
        "-k -t --key --field-separator",
    ),
    "uniq": spec("-c -d -u -i -D -z --count --repeated --unique --ignore-case",
                 "-f:number -s:number -w:number", most=1, ordered=True),
    "cut": spec(
        "-s -n -z --complement --only-delimited",
        "-d -f:list -c:list -b:list --delimiter --fields:list --characters:list --bytes:list --output-delimiter",
    ),
    "tr": spec("-d -s -c -C -t --delete --squeeze-repeats --complement", operands="text", most=2, least=1),
    "paste": spec("-s -z", "-d"),
    "join": spec("-i", "-1:number -2:number -j:number -t -o -a:number -v:number -e"),
    "comm": spec("-1 -2 -3 -12 -13 -23 -123 -i --nocheck-order"),
    "fold": spec("-s -b", "-w:width"),
    "fmt": spec("-s -u", "-w:width"),
    "expand": spec("-i", "-t:width"),
    "unexpand": spec("-a", "-t:width"),
    "column": spec("-t -x", "-s -o -c:width"),
    "diff": spec(
        "-u -q -s -w -b -B -i -y -c -E -Z -a -p -t -d --brief --unified --side-by-side --ignore-all-space"
        " --no-dereference"
        " --ignore-space-change --ignore-blank-lines --ignore-case --suppress-common-lines --color --color=never"
        " --color=always --color=auto --minimal --report-identical-files",
        "-U:number -C:number --unified=:number --context=:number -W:width --width:width -L --label -I",
        "files",
        numeric=True,
        most=2,
    ),
    "cmp": spec("-s -l -b --silent --quiet --verbose", "-n:number"),
    "od": spec("-c -x -b -d -o -a -v", "-A -t -N:number -j:number"),
    "hexdump": spec("-C -c -b -d -o -x -v", "-n:number -s:number"),
    "strings": spec("-a -f", "-n:number -t:letter -e:letter", numeric=True),
    "base64": spec("-d --decode -i", "-w:number --wrap:number", most=1),
    "md5sum": _SUM,
    "sha1sum": _SUM,
    "sha256sum": _SUM,
    "sha512sum": _SUM,
    "b2sum": _SUM,
    "cksum": spec("", "-a"),
    "basename": spec("-a -z", "-s", "text", least=1),
    "dirname": spec("-z", operands="text", least=1),
    "realpath": spec("-e -m -s -q -z -P -L", "--relative-to:path --relative-base:path", least=1),
    "readlink": spec("-f -e -m -n -q -s -v -z", least=1),
    "pwd": spec("-P -L", operands="none", most=0),
    "echo": spec(operands="words"),
    "printf": spec(operands="text", least=1, check=checks.printf, ordered=True),
    "whoami": spec(operands="none", most=0),
    "id": spec("-u -g -G -n -r -un -gn", operands="text", most=1),
    "groups": spec(operands="none", most=0),
    "uname": spec("-a -s -n -r -v -m -p -i -o --all", operands="none", most=0),
    "arch": spec(operands="none", most=0),
    "nproc": spec("--all", operands="none", most=0),
    "uptime": spec("-p -s", operands="none", most=0),
    "free": spec("-b -k -m -g -h -t -w", operands="none", most=0),
    "hostname": spec(operands="none", most=0),
    "tty": spec(operands="none", most=0),
    "logname": spec(operands="none", most=0),
    "date": spec("-u -R --utc --rfc-email -Iseconds -Idate -I", "--date:when", "text", check=checks.date,
                 ordered=True),
    "cal": spec("-3 -1 -y -m -s", operands="text"),
    "df": spec("-h -H -k -m -T -i -a -l -P --total", "-t -x"),
    "du": spec("-s -h -a -c -k -m -b -d1 -x -S -0 --summarize --human-readable --all --total --apparent-size",
                "-d:number --max-depth:number --exclude -t --threshold"),
    "stat": spec("-t -f --terse", "-c --format --printf"),
    "file": spec("-b -i -k -n -N -r -v -0 -h --brief --mime --mime-type --mime-encoding", "-F"),
    "which": spec("-a -s", operands="text", check=checks.names_only),
    "type": spec("-a -t -p -P -f", operands="text", check=checks.names_only, ordered=True),
    "command": spec("-v -V", operands="text", least=1, check=checks.lookup, ordered=True),
    "tree": spec("-a -d -f -i -s -h -D -F -r -t -C -n -p -u -g -N -q -v --dirsfirst --noreport"
                 " --gitignore --prune --du",
                  "-L:number -I:apart -P:apart --filelimit:number --charset"),
    "seq": spec("-w", "-s", "text", most=3, least=1, check=checks.seq),
    "sleep": spec(operands="text", check=checks.sleep),
    "test": spec("", "-f:path -d:path -e:path -s:path -r:path -w:path -x:path -L:path", most=0, check=checks.one),
    "true": spec(operands="words"),
    "false": spec(operands="words"),
    ":": spec(operands="words"),
    "ps": spec("-ef -e -A -f", operands="text", check=checks.ps),
    "pgrep": spec("-l -a -f -x -n -o -c -i", "-u -P:number", "text"),
    "jq": spec("-r -c -e -s -n -S -M -C -j -a -R --raw-output --compact-output --slurp --null-input --sort-keys --tab"
                " --exit-status --raw-input --join-output --color-output --monochrome-output",
                "--indent:number", "pattern", check=jq),
    "sed": spec("-n -E -r --quiet --silent", operands="pattern", least=1, check=checks.sed),
    "awk": spec("", "-F", "pattern", least=1, check=checks.awk, ordered=True),
    "locale": spec(operands="none", most=0),
    "lscpu": spec(operands="none", most=0),
}  # fmt: skip

KNOWN = frozenset(_COMMANDS)
_ONLY_SAYS = names("echo true false :")

# Programs that ask nothing of the folder to tell their version. (rustup, yarn, pnpm and go run what it names;
# pip and npm open sockets, java keeps a file of each run, docker tells its desktop.)
_VERSIONED = names(
    "python python3 node ruby perl gcc g++ cc clang make cmake uv ruff rg bash sqlite3 psql curl wget jq tar awk sed"
    " grep find ssh openssl"
)
_OWN_VERSION_FLAGS = {("python", "-V"), ("python3", "-V"), ("node", "-v"), ("ruby", "-v"), ("ssh", "-V")}
