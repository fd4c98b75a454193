"""What bubblewrap can do on this machine, tried once, and the options that every box of ours has."""

from __future__ import annotations

import os
from functools import lru_cache

from cowork.core import spawn
from cowork.core.frozen import frozen

_APART = ("--unshare-all", "--die-with-parent", "--cap-drop", "ALL")
BARE = (*_APART, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
# A second box in the first one: all of that as it is, but for what is mounted on top.
INNER = ("--die-with-parent", "--cap-drop", "ALL", "--dev-bind", "/", "/")
_FOR_ROOT = ("--cap-add", "CAP_SETFCAP")  # without it root can make no namespace in which it is root
# Who can make a user namespace has every capability in it.
NO_NAMESPACES = ("--unshare-user", "--disable-userns")
_PROBE_SECONDS = 20.0  # a busy machine is no reason to go without


@frozen
class _Found:
    """What trying bubblewrap showed: why it does not work here, and what more it can do."""

    missing: str = ""
    extra: tuple[str, ...] = ()


@lru_cache(maxsize=8)
def probe(bwrap: str) -> _Found:
    """Run bubblewrap once, first with what old versions and some containers do not have."""
    for extra in (NO_NAMESPACES, ()):
        said = _tried([bwrap, *BARE, *settings(), *extra, "true"])
        if not said:
            return _Found(extra=extra)
    return _Found(f"bubblewrap does not work here: {said}")


@lru_cache(maxsize=8)
def nests(bwrap: str) -> bool:
    """Whether a box can be made in a box, and none in that."""
    inner = [bwrap, *INNER, *settings(), *NO_NAMESPACES, "true"]
    return bool(probe(bwrap).extra) and not _tried([bwrap, *BARE, *outer(), "--", *inner])


def settings() -> tuple[str, ...]:
    """/proc/sys is writable for root inside as outside, whatever capabilities it has lost."""
    return ("--ro-bind-try", "/proc/sys", "/proc/sys") if os.geteuid() == 0 else ()


def outer() -> tuple[str, ...]:
    return ("--unshare-user", *(_FOR_ROOT if os.geteuid() == 0 else ()))


def _tried(words: list[str]) -> str:
    """What went wrong."""
    try:
        done = spawn.run(words, environ={"PATH": os.defpath}, seconds=_PROBE_SECONDS)
    except OSError as error:
        return str(error)
    if done.returncode == 0:
        return ""
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return said[0] if said else f"exit {done.returncode}"
