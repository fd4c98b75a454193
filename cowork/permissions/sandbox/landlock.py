"""The read box where bubblewrap cannot make one: Landlock for files and ports, a seccomp filter for the rest (Linux).

`python landlock.py PLACES program …` becomes that program, which can then change no file, open no socket, read no
secret and no more of the home folder than it is shown, and look into no other process. It has no /tmp of its own, and
names of files can be seen where their content cannot.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache

# From linux/landlock.h, which only grows.
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION = _BENEATH = 1
_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2
_WRITING = 0b1_1111_1111_0010  # write a file, remove and make anything
_WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 1, 1 << 2, 1 << 3
_SINCE = {2: 1 << 13, 3: 1 << 14}  # version -> right: move between folders, truncate
_TCP_SINCE, _TCP = 4, 0b11
_SCOPES_SINCE, _SCOPES = 6, 0b11  # abstract sockets, signals
# What Landlock lets through: sockets, modes, owners, times and attributes of files, keys, other processes. By machine:
# the name of its calling convention and the numbers of its calls; the last three send signals.
_CALLS = {
    "x86_64": (
        0xC000003E,
        "41 90 91 92 93 94 260 268 452 132 235 261 280 188 189 190 197 198 199 463 466 425 101 310 311 248 249 250",
        "62 200 234",
    ),
    "aarch64": (0xC00000B7, "198 52 53 452 54 55 88 5 6 7 14 15 16 463 466 425 117 270 271 217 218 219", "129 130 131"),
}
_REFUSED, _ALLOWED = 0x0005_0001, 0x7FFF_0000  # EPERM
_NOT_SHOWN = ("/tmp", "/var/tmp", "/home", "/root", "/run")
_MOST_RULES = 5_000


@lru_cache(maxsize=1)
def version() -> int:
    """What of Landlock this kernel has; 0: nothing, or a machine whose calls are not known here."""
    if not sys.platform.startswith("linux") or os.uname().machine not in _CALLS:
        return 0
    with suppress(OSError):
        return max(0, _call("syscall", _CREATE, None, 0, _VERSION))
    return 0


def words(argv: Sequence[str], *, home: str, shown: Sequence[str], hidden: Sequence[str]) -> list[str]:
    places = "\0".join((home, "", *shown, "", *hidden)).encode("utf-8", "surrogateescape").hex()
    return [sys.executable, "-I", "-S", __file__, places, *argv]


def close(home: str, shown: Sequence[str], hidden: Sequence[str]) -> None:
    """Put the box around this process and all it will start. There is no way out."""
    import ctypes

    known = version()
    writing = _WRITING | sum(right for since, right in _SINCE.items() if known >= since)
    files = writing | _READ_FILE | _READ_DIR
    wanted = [files, *([_TCP] if known >= _TCP_SINCE else []), *([_SCOPES] if known >= _SCOPES_SINCE else [])]
    rules = struct.pack(f"={len(wanted)}Q", *wanted)
    ruleset = _call("syscall", _CREATE, rules, len(rules), 0)
    kept = {*hidden, *_NOT_SHOWN, home}
    for path, rights in (*_grants("/", kept, lists=False), *(r for top in shown for r in _grants(top, {*hidden}))):
        _allow(ruleset, path, rights)
    _allow(ruleset, os.devnull, _WRITE_FILE | _READ_FILE | (writing & _SINCE[3]))
    _call("prctl", _NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    _call("syscall", _RESTRICT, ruleset, 0)
    os.close(ruleset)
    # Refuse the calls that Landlock knows nothing of; also those that send signals, unless it keeps them inside.
    machine, calls, sends = _CALLS[os.uname().machine]
    steps = [(0x20, 0, 0, 4), (0x15, 1, 0, machine), (0x06, 0, 0, _REFUSED), (0x20, 0, 0, 0)]
    steps += [(0x35, 0, 1, 0x4000_0000), (0x06, 0, 0, _REFUSED)]  # the other calling convention of x86
    for number in map(int, f"{calls} {sends if known < _SCOPES_SINCE else ''}".split()):
        steps += [(0x15, 0, 1, number), (0x06, 0, 0, _REFUSED)]
    steps.append((0x06, 0, 0, _ALLOWED))
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    _call("prctl", _SET_SECCOMP, _FILTER, struct.pack("@HP", len(steps), ctypes.addressof(code)), 0, 0)


def _grants(top: str, hidden: set[str], *, lists: bool = True) -> Iterable[tuple[str, int]]:
    """(path, rights) that together let all below a folder be read but what is hidden; names of it may be listed."""
    waiting, count = [top], 0
    while waiting:
        path = waiting.pop()
        count += 1
        if path in hidden or count > _MOST_RULES:
            continue
        if not any(place.startswith(path.rstrip("/") + "/") for place in hidden):
            yield path, _READ_FILE | _READ_DIR
            continue
        if lists:
            yield path, _READ_DIR
        with suppress(OSError):
            waiting += [os.path.join(path, name) for name in os.listdir(path)]


def _allow(ruleset: int, path: str, rights: int) -> None:
    rights &= -1 if os.path.isdir(path) else ~_READ_DIR
    with suppress(OSError):  # it is gone, or a link, which is judged by where it leads
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            _call("syscall", _ADD, ruleset, _BENEATH, struct.pack("=Qi", rights, descriptor), 0)
        finally:
            os.close(descriptor)


def _call(name: str, *arguments: object) -> int:
    import ctypes  # not above: most runs have bubblewrap and never come here

    result = int(getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


if __name__ == "__main__":
    try:
        home, _, rest = os.fsdecode(bytes.fromhex(sys.argv[1])).partition("\0\0")
        shown, _, hidden = rest.partition("\0\0")
        close(home, shown.split("\0"), [place for place in hidden.split("\0") if place])
        os.execv(sys.argv[2], sys.argv[2:])
    except OSError as error:
        os.write(2, f"The command was not run: it cannot be held ({error.strerror}).\n".encode())
        os._exit(126)
