"""find as a small language: every word must be a path, or a test or action that only looks."""

from __future__ import annotations

from cowork.permissions.shell.literal import Simple
from cowork.permissions.shell.spec import Look
from cowork.permissions.shell.words import names

_FIND_TESTS = names(
    "-name -iname -path -ipath -wholename -type -size -mtime -mmin -atime -amin -ctime -cmin -maxdepth -mindepth -perm"
    " -user"
    " -group -regex -iregex -regextype -links -uid -gid -printf -xtype -inum -lname -ilname -newermt"
)
_FIND_PATHS = names("-newer -anewer -cnewer -samefile")
_FIND_FLAGS = names(
    "-print -print0 -ls -empty -prune -quit -not -and -or -a -o ! -readable -writable -executable -nouser -nogroup"
    " -mount -xdev"
    " -depth -daystart -true -false -noleaf -P"
)


def find_read_only(command: Simple, look: Look) -> str:
    """find is a small language: every word must be a path, or a test or action that only looks."""
    rest = list(command.args)
    while rest:
        word = rest.pop(0)
        if word.text in _FIND_TESTS or word.text in _FIND_PATHS:
            if not rest:
                return f"find {word.text}: its value is missing"
            value = rest.pop(0)
            if value.glob:
                return f"find {word.text}: the shell would expand {value.text}; quote it"
            if word.text == "-newermt" and "=" in value.text:
                return "find -newermt: a date that names a file of time zones"
            if word.text in _FIND_PATHS and (why := look.path(value)):
                return why
            continue
        if word.text in _FIND_FLAGS:
            continue
        if word.text.startswith(("-", "!", ",")):
            return f"find {word.text} is not known to only look"
        if word.text in ("(", ")") and word.quoted:
            continue
        if why := look.path(word):
            return why
    return ""
