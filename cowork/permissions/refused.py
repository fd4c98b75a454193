"""What never runs, whatever rules and mode say: deleting the system or a home, raw devices, fork bombs, injection."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from cowork.permissions.words import Command, Word, names
from cowork.permissions.wrappers import program

_INJECTS = re.compile(
    r"BASH_ENV|PROMPT_COMMAND|SHELLOPTS|BASHOPTS|PS4|BASH_FUNC_.*|LD_PRELOAD|LD_AUDIT|DYLD_INSERT_LIBRARIES|GCONV_PATH"
    r"|PERL5OPT|PERL5DB|RUBYOPT|PYTHONSTARTUP|GIT_EXTERNAL_DIFF|GIT_SSH_COMMAND|GIT_ASKPASS|LESSOPEN|LESSCLOSE"
)
_DEVICE = re.compile(
    r"/dev/(?:sd[a-z]|hd[a-z]|vd[a-z]|xvd[a-z]|nvme\d|mmcblk\d|loop\d|dm-\d|md\d|sr\d|disk|rdisk|mapper/|block/|mem\b|kmem\b|port\b)"
)
_SYSTEM = names(
    "/ /bin /boot /dev /etc /home /lib /lib32 /lib64 /mnt /media /opt /proc /root /run /sbin /srv /sys /usr /usr/bin"
    " /usr/lib"
    " /usr/local /usr/share /usr/sbin /var /var/lib /var/log /Users /System /Library /Applications /private"
)
_WIPES = names("wipefs blkdiscard sgdisk sfdisk parted fdisk cfdisk cryptsetup hdparm nvme badblocks")
_MOST_TARGETS = 300
_HOME = re.compile(r"~(?:\w*)|\$HOME|\$\{HOME\}")


def refused(command: Command, cwd: Path, root: Path) -> str:
    """Why this command never runs, or nothing."""
    for name in command.assigned:
        if _INJECTS.fullmatch(name):
            return f"setting {name} makes other programs run code"
    for word in command.writes:
        if _DEVICE.match(word.text):
            return f"it writes to the device {word.text}"
    if not command.words:
        return ""
    name = program(command.words[0])
    rest = command.words[1:]
    if name.startswith("mkfs") or name in ("mke2fs", "mkswap", "newfs", "mkdosfs", "mkntfs"):
        return f"{name} erases a file system"
    if name in ("export", "declare", "typeset", "env", "local", "readonly", "sudo", "setenv"):
        for word in rest:
            if _INJECTS.fullmatch(word.text.partition("=")[0]):
                return f"setting {word.text.partition('=')[0]} makes other programs run code"
    if name in ("dd", "tee", "cp", "mv", "shred", "install", "truncate", "ln") or name in _WIPES:
        for word in rest:
            if _DEVICE.match(word.text.removeprefix("of=")) and not word.text.startswith("if="):
                return f"it writes to the device {word.text.removeprefix('of=')}"
    return _deletes(name, rest, cwd, root)


def bomb(commands: Sequence[Command]) -> str:
    """Why these commands together are a fork bomb, or nothing."""
    for command in commands:
        if command.function and command.words and command.words[0].text == command.function:
            again = [
                c
                for c in commands
                if c.function == command.function and c.words and c.words[0].text == command.function
            ]
            if len(again) > 1 or any(c.background for c in commands if c.function == command.function):
                return f"{command.function} is a function that keeps starting itself"
    return ""


def _deletes(name: str, rest: Sequence[Word], cwd: Path, root: Path) -> str:
    words = [word.text for word in rest]
    flags = [word for word in words if word.startswith("-")]
    if name == "find":
        deep = "-delete" in words or any(program(Word(word)) in ("rm", "shred", "unlink") for word in words)
        targets = [word for word in words if not word.startswith("-")][:3] if deep else []
    elif name in ("rm", "chmod", "chown", "chgrp", "srm", "trash"):
        deep = any(re.match(r"-[a-zA-Z]*[rR]", flag) or flag.startswith("--r") for flag in flags)
        targets = [word for word in words if not word.startswith("-")] if deep else []
    elif name in ("mv", "rmdir", "shred"):
        targets = [word for word in words if not word.startswith("-")][:-1] or words[-1:]
    else:
        return ""
    if len(targets) > _MOST_TARGETS:
        return f"{name} of more than {_MOST_TARGETS} paths; name fewer at a time"
    for target in targets:
        if why := _vital(target, cwd, root):
            return f"{name} of {target}: {why}"
    return ""


def _vital(target: str, cwd: Path, root: Path) -> str:
    """Why a path must not go, with a final `/*` or `/.` seen through."""
    bare = re.sub(r"(?:/+(?:\*+|\.|\.\*|\{.*\}|\.\[.*))+$|/+$", "", target) or (
        "/" if target.startswith("/") else target
    )
    home = os.path.expanduser("~")
    bare = re.sub(r"^(?:\$HOME|\$\{HOME\}|~(?=/|$))", lambda _: home, bare)
    if _HOME.fullmatch(bare) or (bare.startswith("~") and "/" not in bare):
        return "it is a home folder"
    bare = re.sub(r"^(?:\$PWD|\$\{PWD\})", str(cwd), "." if re.fullmatch(r"[*.]|\.?\*+", bare) else bare)
    if re.search(r"[$`]", bare) and not bare.startswith("/"):
        return ""
    path = Path(os.path.normpath(cwd / bare))
    real = Path(os.path.realpath(path))
    for place in (path, real):
        if str(place) in _SYSTEM or place == Path(home):
            return "it is the system or a home folder"
        if place != root and root.is_relative_to(place):
            return "it holds the workspace"
    return ""
