"""Which of many places is most likely meant: source before tests and docs, definitions before mentions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from cowork.providers.offline import words
from cowork.providers.offline.languages import SOURCE, WEIGHT, Definition, family_of

_TESTS = re.compile(
    r"(?:^|/)(?:tests?|testing|spec|specs|__tests__|e2e)/|(?:^|/)(?:test_[^/]*|conftest\.py|[^/]*(?:_test|\.test|\.spec)\.\w+)$"
)
_DOCS = re.compile(r"(?:^|/)(?:docs?|documentation|site|man)/|\.(?:md|rst|txt|adoc)$", re.IGNORECASE)
_ASIDE = re.compile(
    r"(?:^|/)(?:examples?|samples?|demos?|benchmarks?|scripts|tools|contrib|fixtures|golden|playground)/"
)
_FOREIGN = re.compile(
    r"(?:^|/)(?:vendor|vendored|_vendor|third_party|node_modules|dist|build|site-packages|\.venv|[\w.-]+\.egg-info)/|\.min\.\w+$|-lock\.\w+$|\.lock$"
)


def place_weight(path: str) -> int:
    """How likely code at this path is what somebody asks about."""
    weight = 0
    if _TESTS.search(path):
        weight -= 60
    if _DOCS.search(path):
        weight -= 50
    if _ASIDE.search(path):
        weight -= 15
    if _FOREIGN.search(path):
        weight -= 80
    if path.endswith((".pyi", ".d.ts", ".d.cts", ".d.mts")):
        weight -= 30
    if family_of(path) not in SOURCE:
        weight -= 25
    return weight - min(path.count("/"), 6)


def is_source(path: str) -> bool:
    return not _TESTS.search(path) and not _DOCS.search(path) and not _FOREIGN.search(path)


def is_test(path: str) -> bool:
    return bool(_TESTS.search(path))


def ordered(found: Iterable[Definition], question: str = "", hint: str = "") -> list[Definition]:
    """Definitions, the likeliest first; the words of the question break ties."""
    wanted = words.KINDS.get(hint, "").split()
    said = words.keywords(question)
    asks_for_tests = bool(re.search(r"\btests?\b", question))

    def score(item: Definition) -> tuple[float, str, int]:
        points: float = WEIGHT[item.kind] + place_weight(item.path)
        if item.kind in wanted:
            points += 40
        if item.indent == 0:
            points += 8
        if asks_for_tests and is_test(item.path):
            points += 70
        points += 4 * path_affinity(item.path, said)
        return (-points, item.path, item.line)

    return sorted({(d.path, d.line): d for d in found}.values(), key=score)


def path_affinity(path: str, keywords: Sequence[str]) -> float:
    """How many of the keywords a path speaks of."""
    there = words.words(path.rpartition(".")[0] or path)
    return sum(max((words.affinity(word, part) for part in there), default=0.0) for word in keywords)
