"""What something is by default: assignments, parameters and fields whose name fits, with their values."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cowork.core.frozen import frozen
from cowork.providers.offline import found, words
from cowork.providers.offline.answer import code, shortened
from cowork.providers.offline.describe import describe
from cowork.providers.offline.found import Line
from cowork.providers.offline.intent import Intent, clean
from cowork.providers.offline.languages import family_of
from cowork.providers.offline.plan import Plan, grep
from cowork.providers.offline.rank import is_source, place_weight
from cowork.providers.offline.terms import Term, either, terms

_MOST_SHOWN = 8
_VALUE = (
    r"(-?\d[\w.]*(?:\s*[*+/-]\s*\d+)*|[rbfu]?\"[^\"]*\"|[rbfu]?'[^']*'|True|False|None|true|false|null"
    r"|[A-Z][A-Z0-9_]{2,}|\w+\()"
)


@frozen
class Given:
    """A name that gets a value in a line."""

    line: Line
    name: str
    value: str
    score: float


def default(intent: Intent) -> Plan:
    """Name the value something has by default, and where it gets it."""
    asked = terms(intent.subject)
    any_ = either(asked)
    (result,) = yield [
        grep(rf"(?:{any_})\w*['\"]?\)?\s*(?::[^=]*)?[=:(,]", ignore_case=True, path=intent.path, head_limit=900)
    ]
    hits = [hit for hit in found.lines(result) if is_source(hit.path) and family_of(hit.path) not in ("doc", "")]
    given = sorted(
        (g for hit in hits for g in _given(hit, asked)), key=lambda g: (-g.score, g.line.path, g.line.number)
    )
    if not given:
        return (yield from describe(Intent("describe", clean(intent.text), intent.path, text=intent.text)))
    best = given[0]
    rows = [f"- `{g.line.at}` {code(shortened(g.line.text))}" for g in given[1:] if g.score > best.score / 2]
    head = f"{code(best.name)} is {code(best.value)} at `{best.line.at}`: {code(shortened(best.line.text))}"
    others = list(dict.fromkeys(rows))[:_MOST_SHOWN]
    return head + ("\n\nOr:\n" + "\n".join(others) if others else "")


def _given(hit: Line, asked: Sequence[Term]) -> list[Given]:
    """Every name in a line that fits what was asked, with its value."""
    out = []
    for pair in re.finditer(rf"([\w-]+)['\"]?\s*(?::\s*[\w\[\], |.<>&']+?)?\s*(?:=(?!=)|:)\s*{_VALUE}", hit.text):
        parts = words.parts(pair[1])
        fit = sum(term.in_(parts) for term in asked)
        if fit < 0.6 * len(asked):
            continue
        score = 10 * fit / max(len(asked), 1) - 1.5 * max(0, len(set(parts) - {"default", "defaults"}) - len(asked))
        score += 6 * ("default" in parts or "defaults" in parts)
        score += 2 * bool(re.match(r"[-\d\"']", pair[2])) + 2 * bool(re.search(r"\bdef\b|\bdefault", hit.text))
        score -= 3 * (pair[2] in ("None", "null")) + 2 * pair[2].endswith("(")
        out.append(Given(hit, pair[1], pair[2].removesuffix("("), score + place_weight(hit.path) / 20))
    return out
