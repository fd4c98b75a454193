"""Which commands of the person's own need the whole terminal: editors, pagers, and what talks to them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import PurePath

_ALWAYS = """
vi vim nvim view nano pico micro emacs helix hx kak less more most man info top htop btop atop iotop nvtop watch tig
lazygit gitui fzf ranger mc nnn ncdu tmux screen ssh mosh telnet su passwd visudo crontab w3m lynx links pdb ipdb pudb
gdb lldb k9s claude codex opencode aider cowork
"""
_BARE = "python python3 ipython node deno bun irb php lua ghci sqlite3 psql mysql bc bash sh zsh fish"  # without words
_MESSAGE = ("--message", "-F", "--file", "-C", "--no-edit", "--fixup")
_GIT_ASKS = {"rebase": ("-i", "--interactive"), "add": ("-p", "-i", "--patch", "--interactive")}


def needs_terminal(command: str, environ: Mapping[str, str]) -> bool:
    """Whether a command would draw on the terminal or read from it."""
    try:
        words = shlex.split(command, comments=True)
    except ValueError:
        return False
    while words and (words[0] in ("sudo", "env", "command", "exec", "time") or "=" in words[0].partition("/")[0]):
        words = words[1:]
    if not words or any(mark in command for mark in ("|", ">", "&", ";")):
        return False
    name = PurePath(words[0]).name
    named = {PurePath(word).name for key in ("EDITOR", "VISUAL", "PAGER") for word in environ.get(key, "").split()[:1]}
    if name in named or name in _ALWAYS.split():
        return True
    return _git_asks(words[1:]) if name == "git" else name in _BARE.split() and len(words) == 1


def _git_asks(words: list[str]) -> bool:
    given = [word.partition("=")[0] for word in words[1:]]
    if words[:1] == ["commit"]:
        short = any(word[:1] == "-" and word[:2] != "--" and "m" in word for word in given)
        return not short and not any(word in _MESSAGE for word in given)
    return any(word in _GIT_ASKS.get(words[0], ()) for word in given) if words else False
