"""Which of many places is most likely meant: source before tests and docs, definitions before mentions."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from cowork.core.frozen import frozen
from cowork.providers.offline import words
from cowork.providers.offline.languages import INNER, SOURCE, WEIGHT, Definition, definition, family_of, indent_of
from cowork.providers.offline.plans import Line
from cowork.providers.offline.words import Term

_TESTS = re.compile(
    r"(?:^|/)(?:tests?|testing|spec|specs|__tests__|e2e)/"
    r"|(?:^|/)(?:test_[^/]*|conftest\.py|[^/]*(?:_test|\.test|\.spec)\.\w+)$"
)
_DOCS = re.compile(r"(?:^|/)(?:docs?|documentation|site|man)/|\.(?:md|rst|txt|adoc)$", re.IGNORECASE)
_ASIDE = re.compile(
    r"(?:^|/)(?:examples?|samples?|demos?|benchmarks?|scripts|tools|contrib|fixtures|golden|playground)/"
)
_FOREIGN = re.compile(
    r"(?:^|/)(?:vendor|vendored|_vendor|third_party|node_modules|dist|build|site-packages|\.venv|[\w.-]+\.egg-info)/"
    r"|\.min\.\w+$|-lock\.\w+$|\.lock$"
)
_STUBS = re.compile(r"\.(?:pyi|d\.[cm]?ts)$")


def place_weight(path: str) -> int:
    """How likely code at this path is what somebody asks about."""
    weights = ((_TESTS, 60), (_DOCS, 50), (_ASIDE, 15), (_FOREIGN, 80), (_STUBS, 30))
    weight = -sum(less for pattern, less in weights if pattern.search(path))
    return weight - 25 * (family_of(path) not in SOURCE) - min(path.count("/"), 6)


def is_source(path: str) -> bool:
    return not (_TESTS.search(path) or _DOCS.search(path) or _FOREIGN.search(path))


def is_test(path: str) -> bool:
    return bool(_TESTS.search(path))


def by_place(lines: Iterable[Line]) -> list[Line]:
    """Lines, those of the program first."""
    return sorted(lines, key=lambda line: (-place_weight(line.path), line.path, line.number))


def likeliest(found: Iterable[Definition], question: str = "", hint: str = "") -> list[Definition]:
    """Definitions, the likeliest first; the words of the question break ties."""
    said = words.keywords(question)

    def score(item: Definition) -> tuple[float, str, int]:
        points: float = WEIGHT[item.kind] + place_weight(item.path) + 4 * path_affinity(item.path, said)
        points += 40 * (item.kind in words.KINDS.get(hint, ())) + 8 * (item.indent == 0)
        return (-points, item.path, item.line)

    return sorted({(d.path, d.line): d for d in found}.values(), key=score)


def path_affinity(path: str, keywords: Sequence[str]) -> float:
    """How many of the keywords a path speaks of."""
    there = words.words(path.rpartition(".")[0] or path)
    return sum(max((words.affinity(word, part) for part in there), default=0.0) for word in keywords)


@frozen
class RankedPlace:
    """A definition (or a file) and how well it fits what was asked."""

    at: Definition
    score: float
    named: tuple[str, ...] = ()  # terms its name speaks of, with the class and the file it is in
    said: tuple[str, ...] = ()  # terms its docstring, comments and body speak of
    inside: str = ""  # the class it is part of

    @property
    def told(self) -> str:
        """The place and what is there."""
        name = f"{self.inside}.{self.at.name}" if self.inside else self.at.name
        return f"`{self.at.at}`, " + ("the file itself" if self.at.kind == "file" else f"{self.at.kind} `{name}`")


def files(asked: Sequence[Term], lines: Iterable[Line], paths: Iterable[str]) -> list[str]:
    """Files, the likeliest first, by their names and the lines a search found in them."""
    drafts = {path: _Draft(_file(path)) for path in paths if family_of(path)}
    for line in dict.fromkeys(lines):
        if family_of(line.path):
            drafts.setdefault(line.path, _Draft(_file(line.path))).hear(line)
    return [place.at.path for place in _judge(asked, list(drafts.values()))]


def places(asked: Sequence[Term], by_file: Mapping[str, Sequence[Line]]) -> list[RankedPlace]:
    """What the files define, the likeliest first; each file as a whole is a place too."""
    return _judge(asked, [draft for path, lines in by_file.items() for draft in _drafts(path, lines)])


def _file(path: str) -> Definition:
    """A file as a place; the name that tells of it is its folder's where its own is that of every such file."""
    *folders, base = path.split("/")
    stem = base.split(".")[0]
    return Definition(path, 1, "file", folders[-1] if stem in _EVERY and folders else stem, -1, "")


_EVERY = ("__init__", "index", "mod", "lib", "main")
_ABOVE = re.compile(r"\s*(?:@|#\[|#(?!\s*(?:define|include|if))|//|/\*|\*|--)")
_KIND = {"variable": -0.05, "file": -0.1, "class": 0.05, "type": 0.03, "module": -0.04}


class _Draft:
    """A definition with the lines that belong to it, before it is judged."""

    def __init__(self, item: Definition, chain: Sequence[Definition] = ()) -> None:
        self.item = item
        self.chain = [d for d in chain if d.kind != "file"]
        self.own = words.parts(item.name)
        self.lines: list[list[str]] = []

    def hear(self, line: Line) -> None:
        self.lines.append(words.words(line.text))

    def judge(self, asked: Sequence[Term], worth: Mapping[str, float]) -> RankedPlace:
        """The place with its score: how much its name, what is around it and its lines speak of the terms."""
        item = self.item
        around = [part for d in (_file(item.path), *self.chain) for part in words.parts(d.name)]
        points, named, said = 0.0, [], []
        for term in asked:
            told = sum(term.fits(row) > 0 for row in self.lines)
            heard = 3.2 * term.fits(self.own) + 1.2 * term.fits(around) + 1.5 * told / (told + 1)
            points += worth[term.word] * heard / (heard + 1.4)
            if term.fits([*self.own, *around]):
                named.append(term.word)
            elif told:
                said.append(term.word)
        whole = sum(worth.values()) or 1.0
        meant = sum(max(term.fits([part]) for term in asked) for part in self.own) / max(len(self.own), 1)
        score = points / whole + meant * (0.06 + 0.2 * sum(worth[word] for word in named) / whole)
        score += _KIND.get(item.kind, 0) + place_weight(item.path) / 250
        score += 0.06 * (asked[-1].fits(self.own[-1:]) >= 0.8)  # “the daemon server” is a server
        # A function within a function is how it is done, not where it is.
        score -= 0.08 * (bool(self.chain) and self.chain[-1].kind in ("function", "method"))
        return RankedPlace(item, score, tuple(named), tuple(said), self.chain[-1].name if self.chain else "")


def _judge(asked: Sequence[Term], drafts: Sequence[_Draft]) -> list[RankedPlace]:
    """Places by how well they fit; rare words say more than common ones."""
    said = [{part for row in (draft.own, *draft.lines) for part in row} for draft in drafts]
    seen = {term.word: sum(term.fits(parts) > 0 for parts in said) for term in asked}
    worth = {word: math.log(1 + (len(drafts) + 1) / (number + 0.5)) for word, number in seen.items()}
    found = [draft.judge(asked, worth) for draft in drafts]
    return sorted((p for p in found if p.named or p.said), key=lambda p: (-p.score, p.at.path, p.at.line))


def _drafts(path: str, lines: Sequence[Line]) -> list[_Draft]:
    """The definitions of a file, each with the lines in it and the comment above it."""
    top = _Draft(_file(path))
    drafts, chain, above = [top], [top], list[Line]()
    for line in sorted(lines, key=lambda each: each.number):
        item = definition(path, line.number, line.text)
        if item and _is_place(item):
            while chain[-1].item.indent >= item.indent:
                chain.pop()
            drafts.append(_Draft(item, [d.item for d in chain]))
            for each in above:
                drafts[-1].hear(each)
            above = []
            chain += drafts[-1:] if item.kind != "variable" else []
        elif _ABOVE.match(line.text):
            above.append(line)
        else:  # it belongs to the innermost definition that is indented less
            next((draft for draft in reversed(chain) if draft.item.indent < indent_of(line.text)), top).hear(line)
    return drafts


def _is_place(item: Definition) -> bool:
    """Whether a definition is worth naming: not a field, not an import, not a local variable."""
    if item.kind != "variable":
        return item.kind not in INNER
    return (item.indent == 0 or item.name.isupper()) and not re.search(r"\brequire\(|\bimport\b", item.text)
