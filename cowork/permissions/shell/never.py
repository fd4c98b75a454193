"""What never runs, whatever rules and mode say: deleting the system or a home, raw devices, fork bombs, injection."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import islice, pairwise, takewhile
from pathlib import Path

from cowork.permissions.shell.follow import program
from cowork.permissions.shell.parse import ShellText, SimpleCommand, Word, names

_INJECTS = re.compile(
    r"BASH_ENV|PROMPT_COMMAND|SHELLOPTS|BASHOPTS|PS4|BASH_FUNC_.*|LD_PRELOAD|LD_AUDIT|DYLD_INSERT_LIBRARIES|GCONV_PATH"
    r"|PERL5OPT|PERL5DB|RUBYOPT|PYTHONSTARTUP|GIT_EXTERNAL_DIFF|GIT_SSH_COMMAND|GIT_SSH|GIT_ASKPASS|LESSOPEN|LESSCLOSE"
    r"|GIT_PROXY_COMMAND|GIT_EXEC_PATH|GIT_TEMPLATE_DIR|GIT_CONFIG_(?:PARAMETERS|COUNT|KEY_\d+|VALUE_\d+)|SSH_ASKPASS"
    r"|SUDO_ASKPASS|ZDOTDIR|BASH_CMDS|BASH_ALIASES"
)
_SETTERS = names(
    "export declare typeset env local readonly sudo doas setenv read printf mapfile readarray for select getopts strace"
    " systemd-run unshare set"
)
_DEVICE = re.compile(
    r"/dev/(?:sd[a-z]|hd[a-z]|vd[a-z]|xvd[a-z]|nvme\d|mmcblk\d|loop\d|dm-\d|md\d|sr\d|fd\d|nbd\d|zd\d|drbd\d|bcache\d|pmem\d"
    r"|mtd|ubi\d|st\d|zram\d|ram\d|root\b|disk|rdisk|mapper/|block/|mem\b|kmem\b|port\b)|/proc/sysrq-trigger"
)
_SYSTEM = names(
    "/ /bin /boot /dev /etc /home /lib /lib32 /lib64 /mnt /media /opt /proc /root /run /sbin /srv /sys /usr /usr/bin"
    " /usr/lib /usr/local /usr/share /usr/sbin /var /var/lib /var/log /Users /System /Library /Applications /private"
)
_WRITES = names(
    "dd tee cp mv shred install truncate ln rsync scp sponge wipefs blkdiscard sgdisk sfdisk parted fdisk cfdisk"
    " cryptsetup hdparm nvme badblocks mdadm fsck e2fsck tune2fs resize2fs debugfs pvcreate vgcreate"
)
_ERASES = re.compile(r"mkfs\b.*|mke2fs|mkswap|newfs(?:_\w+)?|mkdosfs|mkntfs|mkudffs|mkexfatfs|mkreiserfs")
_DEEP = r"-[a-zA-Z]*[rR]|--r"
# What deletes or changes all that is in a folder, and the option it takes for that.
_DESTROYS = {
    **dict.fromkeys(names("rm chmod chown chgrp srm setfacl chattr"), _DEEP),
    **dict.fromkeys(names("rmdir shred trash trash-put rip mv"), ""),
    "tar": "--remove",
    "rsync": "--del",
    "git": "-[a-z]*f|--f",
    "find": "-delete|-exec|-ok",
}
_FIND_RUNS = names("rm shred unlink mv chmod chown truncate dd sh bash zsh perl python")
_OUTPUTS = names("-o -O --output --output-document -fprint -fprint0 -fprintf -fls")
_MOST_TARGETS, _MOST_FOLDERS, _MOST_STARTS, _MOST_BRACES = 300, 32, 40, 8
_ENTERS = names("cd pushd env sudo git make tar")
_HOME = re.compile(r"\$HOME(?=/|$)|\$\{HOME(?:[:%#?+=-][^}]*)?\}|~(?=/|$)")
_HERE = re.compile(r"^(?:\$PWD|\$\{PWD[^}]*\}|\$\(pwd\)|`pwd`|~\+)")
_FORKS = re.compile(r"fork\s*(?:\(\))?\s*while|while\b[^;]*\bfork\b|while\s+(?:True|1)\s*:\s*os\.fork")


def never_of(followed: ShellText, folders: Sequence[Path], root: Path) -> str:
    """Why a text never runs, or nothing. Each command is looked at in every folder the text may have gone to."""
    commands = followed.commands
    if len(folders) > _MOST_FOLDERS:
        return f"it goes to more than {_MOST_FOLDERS} folders"
    texts = [text for one in commands for text in (*(w.text for w in one.words[1:]), *" ".join(one.fed).split())]
    paths = [Word(text) for text in dict.fromkeys(texts) if re.match(r"/|~|\.\.|\$\{?HOME", text)]
    looked = []
    for command in commands:
        words = [word for word in command.words if word.literal or word.text != "{}"]
        if len(words) < len(command.words):  # what xargs or find gives it may be every path the text names
            command = replace(command, words=[*words, Word("-r"), *paths])
        looked += [(command, folder) for folder in folders]
    for command in followed.strangers:  # of a program nobody knows any word may be what it runs
        starts = range(1, min(len(command.words), _MOST_STARTS))
        looked += [(replace(command, words=command.words[start:]), folders[0]) for start in starts]
    return next((why for one, folder in looked if (why := _refusal(one, folder, root))), "") or _bomb(commands)


def folders_of(commands: Sequence[SimpleCommand], cwd: Path) -> list[Path]:
    """Where the commands of a text may run: here, and wherever a `cd` or `env -C` in it goes."""
    found, latest = [cwd], cwd
    for command in commands:
        if not command.words or command.words[0].text not in _ENTERS:
            continue
        words = [expand(word.text, cwd) for word in command.words]
        if words[0] in ("cd", "pushd"):
            target = words[-1] if len(words) > 1 else os.path.expanduser("~")
            latest = latest / target
            found += [cwd / target, latest]
        options = re.findall(r"(?:^|\0)(?:-C\0?|--(?:chdir|directory)[=\0]|-D\0)([^\0]*)", "\0".join(words))
        found += [cwd / value for value in options]
    return list(dict.fromkeys(Path(os.path.normpath(folder)) for folder in found))


def _refusal(command: SimpleCommand, cwd: Path, root: Path) -> str:
    words = [word.text for word in command.words]
    name, rest = (program(words[0]), words[1:]) if words else ("", [])
    text = " ".join(words)
    sets = [*command.assigned, *re.findall(r"\$\{(\w+):?=", text), *re.findall(r"\bBASH_(?:CMDS|ALIASES)\b", text)]
    if name in _SETTERS:
        sets += [part.rstrip("+").partition("[")[0] for word in rest for part in word.split("=")[:2]]
    for setting in filter(_INJECTS.fullmatch, sets):
        return f"setting {setting} makes other programs run code"
    written = [word.text for word in command.writes]
    for option, word in pairwise(["", *rest]):
        target = re.sub(r"^(?:of|--output|--output-document)=", "", word)
        if (name in _WRITES or option in _OUTPUTS or target != word) and not word.startswith("if="):
            written.append(target)
    for target in (target for target in written if target.startswith("/")):
        if _DEVICE.match(os.path.normpath("/" + target.lstrip("/"))):
            return f"it writes to the device {target}"
    if _ERASES.fullmatch(name) or (name == "diskutil" and any(word.startswith("erase") for word in rest)):
        return f"{name} erases a file system"
    if any(map(_FORKS.search, rest)):
        return "it keeps starting itself"
    targets = _targets(name, rest) if name in _DESTROYS else []
    single = list(islice((one for target in targets for one in _alternatives(target)), _MOST_TARGETS + 1))
    if len(single) > _MOST_TARGETS or any(target.count("{") > _MOST_BRACES for target in targets):
        return f"{name} of more than {_MOST_TARGETS} paths; name fewer at a time"
    return next((f"{name} of {target}: {why}" for target in single if (why := _vital(target, cwd, root))), "")


def _bomb(commands: Sequence[SimpleCommand]) -> str:
    bodies: dict[str, list[SimpleCommand]] = {}
    for command in commands:
        if command.function and command.words:
            bodies.setdefault(command.function, []).append(command)
    reached = {name: {one.words[0].text for one in body} for name, body in list(bodies.items())[:50]}
    for _ in reached:
        reached = {name: called.union(*(reached.get(one, ()) for one in called)) for name, called in reached.items()}
    loops = {name for name, called in reached.items() if name in called}
    for name in sorted(loops):
        again = [one for one in bodies[name] if one.words[0].text in loops]
        reaching = [one for called in (name, *reached[name]) for one in bodies.get(called, ())]
        if len(again) > 1 or any(one.background for one in reaching):
            return f"{name} is a function that keeps starting itself"
    return ""


def _targets(name: str, words: Sequence[str]) -> list[str]:
    """The paths a command deletes or changes with all that is in them."""
    named = [word for word in words if not word.startswith("-")]
    if not any(re.match(_DESTROYS[name], word) for word in words if word.startswith("-")) and _DESTROYS[name]:
        return [word for word in named if _DESTROYS[name] == _DEEP and name != "rm" and not word.strip("/.")]
    if name == "mv" and not any(word.startswith(("-t", "--t")) for word in words):
        return named[:-1] or named
    if name == "rsync":
        return named[-1:]
    if name == "git":
        if "clean" not in named:
            return []
        trees = re.findall(r"(?:^|\0)(?:-C|--work-tree)[=\0]([^\0]*)", "\0".join(words))
        after = words[words.index("clean") + 1 :]
        return [*trees, *(word for word in after if not word.startswith("-"))] or ["."]
    if name == "find":
        if "-delete" not in words and not _FIND_RUNS & set(map(program, words)):
            return []
        plain = (word for word in words if not re.fullmatch(r"-[HLP]|-O\d?|-D", word))
        return list(takewhile(lambda word: not re.match(r"[-(!\\]", word), plain)) or ["."]
    return named


def expand(text: str, cwd: Path) -> str:
    """A path with what a shell puts in for the home and the present folder."""
    if not re.search(r"[~$`]", text):
        return text
    text = _HOME.sub(lambda _: os.path.expanduser("~"), _HERE.sub(lambda _: str(cwd), text))
    return os.path.expanduser(text) if text.startswith("~") else text


def _alternatives(target: str) -> Iterator[str]:
    """What `{a,b}` stands for, each by itself."""
    braces = re.search(r"(?<!\$)\{([^{}]*,[^{}]*)\}", target) if target.count("{") <= _MOST_BRACES else None
    if braces is None:
        yield target
    else:
        for part in braces[1].split(","):
            yield from _alternatives(target[: braces.start()] + part + target[braces.end() :])


def _vital(target: str, cwd: Path, root: Path) -> str:
    """Why a path must not go, with patterns of everything in it seen through."""
    if re.fullmatch(r"~[\w-]*/*", target):
        return "it is a home folder"
    whole = re.sub(r"\{[^{}]*\}", "*", expand(target, cwd))
    if whole.startswith("/proc/"):
        return "what it leads to is only known at run time"
    parts = [part for part in whole.split("/") if part not in ("", ".")]
    while parts and re.fullmatch(r"[*?.]*\*[*?.]*|\.\[.*|\[!.*", parts[-1]):
        parts.pop()  # all that is in a folder is the folder
    bare = ("/" if whole.startswith("/") else "") + "/".join(parts)
    if re.search(r"[$`]", bare) and not bare.startswith("/"):
        return ""
    path, vital = os.path.normpath(cwd / bare), {*_SYSTEM, os.path.expanduser("~")}
    if re.search(r"[*?\[]", path):
        same = any(place.count("/") == path.count("/") and fnmatchcase(place, path) for place in vital)
        return "it may be the system or a home folder" if same else ""
    for place in (Path(path), Path(os.path.realpath(path))):
        if str(place) in vital:
            return "it is the system or a home folder"
        if place != root and root.is_relative_to(place):
            return "it holds the workspace"
    return ""
