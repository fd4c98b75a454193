"""What never runs, whatever rules and mode say: deleting the system or a home, raw devices, fork bombs, injection."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import islice, pairwise
from pathlib import Path

from cowork.permissions.shell.follow import Followed, program
from cowork.permissions.shell.parse import SimpleCommand, Word, names

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
    " /usr/lib"
    " /usr/local /usr/share /usr/sbin /var /var/lib /var/log /Users /System /Library /Applications /private"
)
_WIPES = names("wipefs blkdiscard sgdisk sfdisk parted fdisk cfdisk cryptsetup hdparm nvme badblocks mdadm")
_WIPES |= names("fsck e2fsck tune2fs resize2fs debugfs pvcreate vgcreate")
_WRITES = names("dd tee cp mv shred install truncate ln rsync scp sponge") | _WIPES
_ERASES = re.compile(r"mkfs\b.*|mke2fs|mkswap|newfs(?:_\w+)?|mkdosfs|mkntfs|mkudffs|mkexfatfs|mkreiserfs")
_CHANGES_ALL = names("rm chmod chown chgrp srm setfacl chattr")
_TAKES_WHOLE = names("rmdir shred trash trash-put rip")
_OUTPUTS = names("-o -O --output --output-document -fprint -fprint0 -fprintf -fls")
_MOST_TARGETS = 300
_MOST_FOLDERS = 32
_MOST_STARTS = 40
_ENTERS = names("cd pushd env sudo git make tar")
_MOST_BRACES = 40
_HOME = re.compile(r"\$HOME(?=/|$)|\$\{HOME(?:[:%#?+=-][^}]*)?\}|~(?=/|$)")
_HERE = re.compile(r"^(?:\$PWD|\$\{PWD[^}]*\}|\$\(pwd\)|`pwd`|~\+)")
_FORKS = re.compile(r"fork\s*(?:\(\))?\s*while|while\b[^;]*\bfork\b|while\s+(?:True|1)\s*:\s*os\.fork")


def never_of(followed: Followed, cwd: Path, root: Path) -> str:
    """Why a text never runs, or nothing. Each command is looked at in every folder the text may have gone to."""
    commands = followed.commands
    folders = folders_of(commands, cwd)
    if len(folders) > _MOST_FOLDERS:
        return f"it goes to more than {_MOST_FOLDERS} folders"
    for command in commands:
        for folder in folders:
            if why := refused(_completed(command, commands), folder, root):
                return why
    for command in followed.strangers:  # of a program nobody knows any word may be what it runs
        for start in range(1, min(len(command.words), _MOST_STARTS)):
            if why := refused(replace(command, words=command.words[start:]), cwd, root):
                return why
    return bomb(commands)


def _completed(command: SimpleCommand, commands: Sequence[SimpleCommand]) -> SimpleCommand:
    """A command that xargs or find gives words to, with every path the text names as what it may be given."""
    if all(word.literal or word.text != "{}" for word in command.words):
        return command
    texts = [text for other in commands for text in (*(w.text for w in other.words[1:]), *" ".join(other.fed).split())]
    paths = [Word(text) for text in dict.fromkeys(texts) if re.match(r"/|~|\.\.|\$\{?HOME", text)]
    return replace(command, words=[*(word for word in command.words if word.text != "{}"), Word("-r"), *paths])


def folders_of(commands: Sequence[SimpleCommand], cwd: Path) -> list[Path]:
    """Where the commands of a text may run: here, and wherever a `cd` or `env -C` in it goes."""
    found, latest = {cwd: None}, cwd
    for command in commands:
        if not command.words or command.words[0].text not in _ENTERS:
            continue
        words = [expanded(word.text, cwd) for word in command.words]
        if words[0] in ("cd", "pushd"):
            target = words[-1] if len(words) > 1 else os.path.expanduser("~")
            latest = Path(os.path.normpath(latest / target))
            found |= {Path(os.path.normpath(cwd / target)): None, latest: None}
        for option, value in pairwise([*words, ""]):
            if attached := re.fullmatch(r"(?:-C|--(?:chdir|directory)=)(.+)", option):
                found[Path(os.path.normpath(cwd / attached.group(1)))] = None
            elif option in ("-C", "--chdir", "--directory", "-D"):
                found[Path(os.path.normpath(cwd / value))] = None
    return list(found)


def refused(command: SimpleCommand, cwd: Path, root: Path) -> str:
    """Why this command never runs, or nothing."""
    words = [word.text for word in command.words]
    name, rest = (program(words[0]), words[1:]) if words else ("", [])
    text = " ".join(words)
    sets = [*command.assigned, *re.findall(r"\$\{(\w+):?=", text), *re.findall(r"\bBASH_(?:CMDS|ALIASES)\b", text)]
    if name in _SETTERS:
        sets += [part.rstrip("+").partition("[")[0] for word in rest for part in word.split("=")[:2]]
    for setting in sets:
        if _INJECTS.fullmatch(setting):
            return f"setting {setting} makes other programs run code"
    for target in (*(word.text for word in command.writes), *_written(name, rest)):
        if device(target):
            return f"it writes to the device {target}"
    if _ERASES.fullmatch(name) or (name == "diskutil" and any(word.startswith("erase") for word in rest)):
        return f"{name} erases a file system"
    return "it keeps starting itself" if any(map(_FORKS.search, rest)) else _deletes(name, rest, cwd, root)


def _written(name: str, rest: Sequence[str]) -> Iterator[str]:
    """What a command writes of the paths among its words."""
    for option, word in pairwise(["", *rest]):
        target = re.sub(r"^(?:of|--output|--output-document)=", "", word)
        if (name in _WRITES or option in _OUTPUTS or target != word) and not word.startswith("if="):
            yield target


def device(text: str) -> bool:
    """Whether a path is that of a raw device, however it is spelled."""
    return text.startswith("/") and bool(_DEVICE.match(os.path.normpath("/" + text.lstrip("/"))))


def bomb(commands: Sequence[SimpleCommand]) -> str:
    """Why these commands together are a fork bomb, or nothing."""
    calls: dict[str, list[str]] = {}
    background: set[str] = set()
    for command in commands:
        if command.function and command.words:
            calls.setdefault(command.function, []).append(command.words[0].text)
            background |= {command.function} if command.background else set()
    for name in list(calls)[:50]:
        reached, waiting, again = set[str](), [name], 0
        while waiting:
            for called in calls.get(waiting.pop(), ()):
                again += called == name
                if called in calls and called not in reached:
                    reached.add(called)
                    waiting += [called] if called != name else []
        if name in reached and (again > 1 or background & reached):
            return f"{name} is a function that keeps starting itself"
    return ""


def _deletes(name: str, words: Sequence[str], cwd: Path, root: Path) -> str:
    flags = [word for word in words if word.startswith("-")]
    named = [word for word in words if not word.startswith("-")]
    if name == "find":
        targets = _found(words)
    elif name in _CHANGES_ALL:
        deep = any(re.match(r"-[a-zA-Z]*[rR]", flag) or flag.startswith("--r") for flag in flags)
        targets = named if deep else [word for word in named if name != "rm" and not word.strip("/.")]
    elif name == "mv":
        into = any(flag.startswith(("-t", "--t")) for flag in flags)
        targets = named if into else named[:-1] or named
    elif name in _TAKES_WHOLE or (name == "tar" and any(flag.startswith("--remove") for flag in flags)):
        targets = named
    elif name == "gio" and named[:1] == ["trash"]:
        targets = named[1:]
    elif name == "git" and "clean" in named and any(re.match(r"-[a-z]*f|--f", flag) for flag in flags):
        targets = _cleaned(words)
    elif name == "rsync" and any(flag.startswith("--del") for flag in flags):
        targets = named[-1:]
    else:
        return ""
    targets = list(islice((one for target in targets for one in _alternatives(target)), _MOST_TARGETS + 1))
    if len(targets) > _MOST_TARGETS:
        return f"{name} of more than {_MOST_TARGETS} paths; name fewer at a time"
    for target in targets:
        if why := _vital(target, cwd, root):
            return f"{name} of {target}: {why}"
    return ""


def _cleaned(words: Sequence[str]) -> list[str]:
    """Where a `git clean` goes: what it names, and the folder it is told to work in."""
    trees = [word.partition("=")[2] for word in words if word.startswith("--work-tree=")]
    trees += [value for option, value in pairwise(words) if option in ("-C", "--work-tree")]
    after = words[words.index("clean") + 1 :]
    return [*trees, *(word for word in after if not word.startswith("-"))] or ["."]


def _found(words: Sequence[str]) -> list[str]:
    """The folders a find would go through, when it changes what it finds."""
    changes = names("rm shred unlink mv chmod chown truncate dd sh bash zsh perl python python3")
    runs = any(word in ("-exec", "-execdir", "-ok", "-okdir") for word in words)
    if "-delete" not in words and not (runs and changes & set(map(program, words))):
        return []
    folders = []
    for word in words:
        if word.startswith(("-", "(", "!", "\\")) and not re.fullmatch(r"-[HLP]|-O\d?|-D", word):
            break
        folders += [] if word.startswith("-") else [word]
    return folders or ["."]


def expanded(text: str, cwd: Path) -> str:
    """A path with what a shell puts in for the home and the present folder."""
    if not re.search(r"[~$`]", text):
        return text
    home = os.path.expanduser("~")
    text = _HOME.sub(lambda _: home, _HERE.sub(lambda _: str(cwd), text))
    return os.path.expanduser(text) if text.startswith("~") else text


def _alternatives(target: str) -> list[str]:
    """What `{a,b}` stands for, each by itself."""
    waiting, found = [target], list[str]()
    while waiting and len(found) < _MOST_BRACES:
        text = waiting.pop()
        braces = re.search(r"(?<!\$)\{([^{}]*,[^{}]*)\}", text)
        if braces is None:
            found.append(text)
        else:
            waiting += [text[: braces.start()] + part + text[braces.end() :] for part in braces.group(1).split(",")]
    return [*found, *waiting]


def _vital(target: str, cwd: Path, root: Path) -> str:
    """Why a path must not go, with patterns of everything in it seen through."""
    if re.fullmatch(r"~[\w-]*/*", target):
        return "it is a home folder"
    whole = re.sub(r"\{[^{}]*\}", "*", expanded(target, cwd))
    parts = [part for part in whole.split("/") if part not in ("", ".")]
    while parts and re.fullmatch(r"[*?.]*\*[*?.]*|\.\[.*|\[!.*", parts[-1]):
        parts.pop()  # all that is in a folder is the folder
    bare = ("/" if whole.startswith("/") else "") + "/".join(parts)
    if re.search(r"[$`]", bare) and not bare.startswith("/"):
        return ""
    path = os.path.normpath(cwd / bare)
    if whole.startswith("/proc/"):
        return "what it leads to is only known at run time"
    home = os.path.expanduser("~")
    vital = {*_SYSTEM, home}
    if re.search(r"[*?\[]", path):
        same = [place for place in vital if place.count("/") == path.count("/") and fnmatchcase(place, path)]
        return "it may be the system or a home folder" if same else ""
    for place in (Path(path), Path(os.path.realpath(path))):
        if str(place) in vital:
            return "it is the system or a home folder"
        if place != root and root.is_relative_to(place):
            return "it holds the workspace"
    return ""
