"""A fence for commands that only read, where there is no sandbox: Linux keeps them from writing files (Landlock).

`python fence.py program …` becomes that program, which can then make, change and remove no file but what it writes to
/dev/null, and where the kernel is new enough neither reach a TCP port nor signal a process outside. It is less than a
sandbox: modes, owners and times of files, datagrams and what listens on a path are not kept from it.
"""

from __future__ import annotations

import os
import struct
import sys
from functools import lru_cache

# From linux/landlock.h, which only grows.
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION = 1
_BENEATH = 1
_NO_NEW_PRIVILEGES = 38
_WRITING = 0b1_1111_1111_0010  # write a file, remove and make anything
_WRITE_FILE = 1 << 1
_SINCE = {2: 1 << 13, 3: 1 << 14}  # version -> right: move between folders, truncate
_TCP_SINCE, _TCP = 4, 0b11
_SCOPES_SINCE, _SCOPES = 6, 0b11  # abstract sockets, signals


@lru_cache(maxsize=1)
def version() -> int:
    """What of Landlock this kernel has; 0: nothing."""
    if not sys.platform.startswith("linux"):
        return 0
    try:
        return max(0, _call("syscall", _CREATE, None, 0, _VERSION))
    except OSError:
        return 0


def close() -> None:
    """Put the fence around this process and all it will start. There is no gate."""
    known = version()
    writing = _WRITING | sum(right for since, right in _SINCE.items() if known >= since)
    wanted = [writing, *([_TCP] if known >= _TCP_SINCE else []), *([_SCOPES] if known >= _SCOPES_SINCE else [])]
    rules = struct.pack(f"={len(wanted)}Q", *wanted)
    ruleset = _call("syscall", _CREATE, rules, len(rules), 0)
    outlet = os.open(os.devnull, os.O_PATH | os.O_CLOEXEC)
    rule = struct.pack("=Qi", _WRITE_FILE | (writing & _SINCE[3]), outlet)
    _call("syscall", _ADD, ruleset, _BENEATH, rule, 0)
    _call("prctl", _NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    _call("syscall", _RESTRICT, ruleset, 0)
    os.close(outlet)
    os.close(ruleset)


def _call(name: str, *words: object) -> int:
    import ctypes  # not above: most runs have a sandbox and never come here

    result = int(getattr(ctypes.CDLL(None, use_errno=True), name)(*words))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


if __name__ == "__main__":
    try:
        close()
        os.execv(sys.argv[1], sys.argv[1:])
    except OSError as error:
        os.write(2, f"The command was not run: it cannot be kept from writing ({error.strerror}).\n".encode())
        os._exit(126)
