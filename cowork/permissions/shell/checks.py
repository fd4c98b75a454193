"""What flags alone cannot say: operands that are a program, set a clock or name a secret."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence, Set

_MOST_COPIES = 200_000


def immodest(word: str) -> str:
    """Why a program may need more memory for a pattern or a format than a machine has."""
    if re.search(r"%[^%A-Za-z]*[0-9]{5}|\*[0-9]{5,}\]", word):
        return "it may print more than a machine can hold"
    times = [max(int(n) for n in re.findall("[0-9]+", part)) for part in re.findall(r"\{([0-9, ]*[0-9])", word)]
    copies = len(word) * math.prod(max(n, 1) for n in times)  # of what is repeated, should one be inside the other
    return "its pattern may need more than a machine can hold" if times and copies > _MOST_COPIES else ""


def sed(seen: Set[str], operands: Sequence[str]) -> str:
    lines = r"(?:[0-9]+|\$)(?:,(?:[0-9]+|\$|\+[0-9]+))?p"
    if seen & {"-n", "--quiet", "--silent"} and re.fullmatch(
        rf"{lines}(?:; ?{lines})*|/[A-Za-z0-9 _.:^-]*/p", operands[0]
    ):
        return ""
    if not seen & {"-n", "--quiet", "--silent"} and re.fullmatch(r"s/[\w .:^$*-]+/[\w .:-]*/g?", operands[0], re.ASCII):
        return ""
    return "sed is a language; only `sed -n 'A,Bp'` and `sed 's/a/b/'` are known to only read"


def awk(seen: Set[str], operands: Sequence[str]) -> str:
    if any(re.match(r"[A-Za-z_]\w*=", word) for word in operands[1:]):
        return "awk takes this word to set a variable"
    value = r"\$(?:[0-9]{1,3}|NF)"
    good = rf"(?:NR ?[=<>]=? ?[0-9]+ ?)?\{{ ?print(?: {value}(?:, ?{value})*)? ?\}}"
    good += r"|NR ?(?:==|<=?|>=?) ?[0-9]+"
    return "" if re.fullmatch(good, operands[0]) else "awk is a language; only `awk '{print $1}'` is known to only read"


def date(seen: Set[str], operands: Sequence[str]) -> str:
    return "" if all(word.startswith("+") for word in operands) else "date with an operand sets the clock"


def printf(seen: Set[str], operands: Sequence[str]) -> str:
    if re.search(r"%[^%A-Za-z]*[hlLjzt]*n|\\[^nt\\]", operands[0]):  # %n sets a variable, even PATH
        return "this printf format may do more than print"
    if re.search(r"%[^%A-Za-z]*(?:\*|[0-9]{5})", operands[0]):
        return "this printf format may print more than a machine can hold"
    return ""


def sleep(seen: Set[str], operands: Sequence[str]) -> str:
    good = len(operands) == 1 and re.fullmatch(r"[0-9]{1,3}(?:\.[0-9]+)?s?", operands[0])
    return "" if good else "only a short sleep of seconds"


def ps(seen: Set[str], operands: Sequence[str]) -> str:
    good = operands in ([], ["aux"], ["ax"]) and not (seen and operands)
    return "" if good else "these ps flags may show secrets"


def one(seen: Set[str], operands: Sequence[str]) -> str:
    return "" if len(seen) == 1 else "only a test of one file"


def lookup(seen: Set[str], operands: Sequence[str]) -> str:
    return names_only(seen, operands) if seen else "it runs a command"


def names_only(seen: Set[str], operands: Sequence[str]) -> str:
    return "only names of programs, no paths" if any("/" in word for word in operands) else ""


def seq(seen: Set[str], operands: Sequence[str]) -> str:
    good = all(re.fullmatch(r"-?[0-9]{1,7}(?:\.[0-9]{1,3})?", word) for word in operands)
    small = good and (len(operands) < 3 or abs(float(operands[1])) >= 1 or abs(float(operands[2])) < 10_000)
    return "" if small else "only a short sequence of numbers"


def listed(seen: Set[str], operands: Sequence[str]) -> str:
    return "" if not operands or "--list" in seen else "only with --list is this a pattern of names"


def reflog(seen: Set[str], operands: Sequence[str]) -> str:
    return "it changes the reflog" if set(operands) & {"expire", "delete", "drop", "write"} else ""


def setting(seen: Set[str], operands: Sequence[str]) -> str:
    harmless = (
        r"user\.(?:name|email)|remote\.[\w-]+\.url|init\.defaultBranch|core\.\w+|branch\.[\w/-]+\.(?:remote|merge)"
    )
    good = len(operands) == 1 and re.fullmatch(harmless, operands[0])
    return "" if good else "this setting may be a secret"
