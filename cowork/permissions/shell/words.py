"""What the scanner finds in a shell text: words, and the simple commands they make."""

from __future__ import annotations

from dataclasses import dataclass, field

from cowork.core.frozen import frozen


def names(text: str) -> frozenset[str]:
    """A set of words, written as they would be read aloud."""
    return frozenset(text.split())


@frozen
class Word:
    """`text` is the value when `literal`, else the value with what is only known at run time left as written."""

    text: str
    literal: bool = True
    quoted: bool = False
    assigns: str = ""  # the variable it would set if it stood before a command


@dataclass(slots=True)
class Command:
    """One simple command: its words, the variables set before it, where it writes, what it is fed."""

    words: list[Word] = field(default_factory=list)
    assigned: list[str] = field(default_factory=list)
    values: list[Word] = field(default_factory=list)  # what those variables are set to
    writes: list[Word] = field(default_factory=list)
    reads: list[Word] = field(default_factory=list)
    fed: list[str] = field(default_factory=list)  # bodies of heredocs and here-strings
    text: str = ""
    top: bool = False
    background: bool = False
    function: str = ""  # the function in whose body it stands
    perhaps: str = ""  # words | text | mentions: what an unknown program is given, which it may run


@dataclass(slots=True)
class Scan:
    commands: list[Command]
    broken: str = ""  # what could not be followed
    limited: bool = False  # a limit was hit, so commands may be missing
    asleep: list[str] = field(default_factory=list)  # quoted texts that arithmetic would run
    counts: bool = False  # there is arithmetic outside of builtins
