"""Where something is that has no exact name: keywords against names, files, docstrings and comments, ranked."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from cowork.core.frozen import frozen
from cowork.providers.offline import found, rank, source, words
from cowork.providers.offline.answer import NEEDS_MODEL, code, shortened
from cowork.providers.offline.found import Line
from cowork.providers.offline.intent import Intent
from cowork.providers.offline.languages import (
    CALLED_GLOB,
    OUTLINE_PATTERN,
    Definition,
    definition,
    family_of,
    outline_pattern,
    wordless_pattern,
)
from cowork.providers.offline.plan import Call, Plan, Result, Steps, glob, grep

_MOST_KEYWORDS = 6
_MOST_FILES = 5
_MOST_SHOWN = 5
_COMMENT = r"^\s*(?:\"\"\"|'''|///?!?|/?\*+|#+|--|<!--)\s?.*"
_ASIDE = (
    "!test,!tests,!test_*,!*_test.*,!*.test.*,!docs,!doc,!*.md,!*.rst,!*.txt,!*.min.js,!*.lock,!node_modules,!vendor"
)


@frozen
class Place:
    """A definition (or the top of a file) and how well it fits."""

    at: Definition
    words: str
    score: float
    inside: str = ""  # the class it is part of


def describe(intent: Intent, *, prefix: str = "") -> Plan:
    """Name the likeliest places for a phrase, and say what was searched for."""
    said = words.keywords(intent.subject)
    keys = ([key for key in said if key not in words.STRONG_KINDS] or said)[:_MOST_KEYWORDS]
    if all(key in words.SOFT for key in keys):
        return _nothing(intent, keys)
    places = yield from _places(intent, keys, _aside(intent))
    if not places and _aside(intent):
        places = yield from _places(intent, keys, "")
    if not places:
        return prefix + _nothing(intent, keys)
    return prefix + _told(intent, keys, places)


def _aside(intent: Intent) -> str:
    """What is left out at first: tests and texts, unless the question is about them."""
    return "" if intent.path or re.search(r"\b(?:tests?|docs?|documentation|readme)\b", intent.subject) else _ASIDE


def _places(intent: Intent, keys: Sequence[str], aside: str) -> Steps[list[Place]]:
    stems = [re.escape(words.stem(key)) for key in keys]
    any_ = "|".join(stems)
    pairs = [rf"{a}\w*\W{{0,3}}(?:\w+\W{{1,3}}){{0,2}}\w*{b}" for a in stems for b in stems if a != b][:12]
    path = intent.path
    calls = [
        grep(rf"{OUTLINE_PATTERN}\s*\*?\s*[\w$]*(?:{any_})", ignore_case=True, glob=aside, path=path, head_limit=400),
        grep(rf"{_COMMENT}(?:{any_})", ignore_case=True, glob=aside, path=path, head_limit=400),
        _named_files(keys, path),
        grep(wordless_pattern(any_), ignore_case=True, glob="" if path else CALLED_GLOB, path=path, head_limit=300),
    ]
    if pairs:
        calls.append(grep("|".join(pairs), ignore_case=True, glob=aside, path=path, head_limit=250))
    named, said, files, wordless, *near = yield calls
    hits = _Hits(keys, intent.text)
    hits.definitions(found.lines(named))
    hits.definitions(line for line in found.lines(wordless) if not aside or rank.is_source(line.path))
    hits.comments(found.lines(said))
    hits.files(p for p in found.paths(files) if not aside or rank.is_source(p))
    for result in near:
        hits.pairs(found.lines(result))
    best = hits.best_files()
    if not best:
        return []
    looks = yield [call for path in best for call in _closer(path, any_)]
    return _ranked(hits, best, list(zip(looks[::2], looks[1::2], strict=True)))


def _named_files(keys: Sequence[str], path: str) -> Call:
    stems = [words.stem(key) for key in keys]
    either = ",".join(dict.fromkeys(spelled for s in stems for spelled in (s, s.capitalize())))
    return glob(f"**/*{{{either}}}*" if "," in either else f"**/*{either}*", path)


def _closer(path: str, any_: str) -> tuple[Call, Call]:
    python = family_of(path) == "python"  # what a definition is for stands below it there, elsewhere above
    return (
        grep(outline_pattern(path), path=path, after=3 if python else 0, before=0 if python else 6, head_limit=2000),
        grep(any_, ignore_case=True, path=path, head_limit=400),
    )


class _Hits:
    """What the first look found, gathered by file."""

    def __init__(self, keys: Sequence[str], question: str) -> None:
        self.keys = keys
        self.question = question
        self._named: dict[str, set[str]] = defaultdict(set)  # file -> keywords in names it defines
        self._whole: Counter[str] = Counter()  # file -> most keywords in one name
        self._said: dict[str, set[str]] = defaultdict(set)
        self._top: dict[str, set[str]] = defaultdict(set)  # in the first lines
        self._near: Counter[str] = Counter()
        self._files: set[str] = set()
        self._seen: Counter[str] = Counter()  # keyword -> lines, to tell common words from rare ones

    def definitions(self, lines: Iterable[Line]) -> None:
        for line in lines:
            item = definition(line.path, line.number, line.text)
            if item is None:
                continue
            held = _held(self.keys, words.parts(item.name))
            self._named[line.path] |= held
            self._whole[line.path] = max(self._whole[line.path], len(held))
            self._seen.update(held)

    def comments(self, lines: Iterable[Line]) -> None:
        for line in lines:
            held = _held(self.keys, words.words(line.text))
            self._said[line.path] |= held
            if line.number <= 4:
                self._top[line.path] |= held
            self._seen.update(held)

    def files(self, paths: Iterable[str]) -> None:
        self._files.update(paths)

    def pairs(self, lines: Iterable[Line]) -> None:
        self._near.update(line.path for line in lines)

    def weight(self, key: str) -> float:
        """Rare words say more; some say little anywhere."""
        return (0.3 if key in words.SOFT else 1.0) / (1 + math.log1p(self._seen[key]) / 3)

    def sum(self, keys: Iterable[str]) -> float:
        return sum(self.weight(key) for key in keys)

    def covered(self, strong: set[str], weak: set[str]) -> float:
        """A share that grows with the keywords a place speaks of; those of its body count half."""
        whole = self.sum(self.keys) or 1.0
        return 0.25 + 0.75 * (self.sum(strong) + 0.5 * self.sum(weak - strong)) / whole

    def file_score(self, path: str) -> float:
        stem = path.rsplit("/", 1)[-1].rpartition(".")[0] or path
        in_name = _held(self.keys, words.words(stem))
        in_path = _held(self.keys, words.words(path))
        points = 4 * self.sum(in_name) + 1.5 * self.sum(in_path) + 3 * self.sum(self._top[path])
        points += 2.5 * self.sum(self._named[path]) + 1.2 * self.sum(self._said[path])
        points += 1.5 * self._whole[path] + 0.4 * min(self._near[path], 6)
        return points + rank.place_weight(path) / 12

    def best_files(self) -> list[str]:
        known = self._files | set(self._named) | set(self._said) | set(self._near)
        known = {path for path in known if family_of(path)}
        return sorted(known, key=lambda p: (-self.file_score(p), p))[:_MOST_FILES]


def _held(keys: Sequence[str], there: Iterable[str]) -> set[str]:
    parts = set(there)
    return {key for key in keys if any(words.affinity(key, part) >= 0.4 for part in parts)}


def _ranked(hits: _Hits, files: Sequence[str], looks: Sequence[tuple[Result, Result]]) -> list[Place]:
    places: list[Place] = []
    for path, (outline, mentions) in zip(files, looks, strict=True):
        around = {line.number: line.text for line in found.lines_with_context(outline)}
        items = [d for n, t in around.items() if (d := definition(path, n, t)) and d.kind not in ("field", "key")]
        items = [d for d in items if d.kind not in ("variable", "attribute")]
        told = found.lines(mentions)
        base = hits.file_score(path) * 0.55
        places += [_place(hits, item, items, around, told, base) for item in items]
        top = [line for line in told if line.number <= 6]
        text = top[0].text if top else ""
        at = Definition(path, top[0].number if top else 1, "file", path.rsplit("/", 1)[-1], 0, text.strip())
        held = _held(hits.keys, words.words(text))
        strong = held | _held(hits.keys, words.words(path))
        places.append(Place(at, "", (base + 2.2 * hits.sum(held) - 0.5) * hits.covered(strong, set())))
    places.sort(key=lambda p: (-p.score, p.at.path, p.at.line))
    return [p for p in places if p.score > 0.8]


def _place(
    hits: _Hits, item: Definition, items: list[Definition], around: dict[int, str], told: list[Line], base: float
) -> Place:
    end = next((d.line for d in items if d.line > item.line and d.indent <= item.indent), 1 << 30)
    inner = [line for line in told if item.line < line.number < end]
    doc = source.first_words(around, item.line, item.path)
    in_name = _held(hits.keys, words.parts(item.name))
    in_doc = _held(hits.keys, words.words(doc))
    in_body = _held(hits.keys, (w for line in inner for w in words.words(line.text)))
    chain = source.enclosing(items, item.line).split(".")[:-1]
    around_it = _held(hits.keys, (part for name in chain for part in words.parts(name))) - in_name if in_name else set()
    points = 4 * hits.sum(in_name) + 2.5 * hits.sum(in_doc) + 0.8 * hits.sum(in_body)
    points += _fit(hits, item, in_name, around_it)
    exact = sum(key in words.parts(item.name) for key in hits.keys)
    points += 2.2 * hits.sum(around_it)
    points += 0.08 * min(len(inner), 10) + 0.3 * exact + (0.25 if item.indent == 0 else 0)
    points += (0.4 if item.kind in ("class", "type") else 0) - (0.3 if item.name.startswith("_") else 0)
    points -= 0.15 * max(0, len(words.parts(item.name)) - len(in_name))
    strong = in_name | around_it | in_doc | _held(hits.keys, words.words(item.path))
    return Place(item, doc, (base + points) * hits.covered(strong, in_body), ".".join(chain[-1:]))


def _fit(hits: _Hits, item: Definition, in_name: set[str], around_it: set[str]) -> float:
    """A name that says all of it, or nothing else, is more likely meant than one that says some of it."""
    parts = words.parts(item.name)
    told = sum(any(words.affinity(key, part) >= 0.4 for key in hits.keys) for part in parts)
    points = 0.0
    if in_name and len(in_name) == len(hits.keys):
        points += 3.5
    elif in_name and len(in_name | around_it) == len(hits.keys):
        points += 1.5
    if parts and told == len(parts):
        points += 0.9
    return points


def _told(intent: Intent, keys: Sequence[str], places: list[Place]) -> str:
    shown: list[Place] = []
    per_file: Counter[str] = Counter()
    for place in places:
        if per_file[place.at.path] < 2 and len(shown) < _MOST_SHOWN:
            shown.append(place)
            per_file[place.at.path] += 1
    shown += [place for place in places if place not in shown][: _MOST_SHOWN - len(shown)]
    best = shown[0]
    rows = [f"Most likely `{best.at.at}`{_what(best)}"]
    if len(shown) > 1:
        rows.append("")
        rows += [f"- `{p.at.at}`{_what(p)}" for p in shown[1:]]
    searched = ", ".join(code(key) for key in keys)
    rows += ["", f"Found by the words {searched} in names, docstrings and comments; ranked, not understood."]
    if re.match(r"\s*(?:why|how (?:does|do|is|are|can|should))\b", intent.text, re.IGNORECASE):
        rows.append(NEEDS_MODEL)
    return "\n".join(rows)


def _what(place: Place) -> str:
    item = place.at
    if item.kind == "file":
        return f", the file itself: {shortened(item.text.strip(chr(34) + chr(39)))}" if item.text else ", by its name"
    name = f"{place.inside}.{item.name}" if place.inside else item.name
    return f", {item.kind} {code(name)}" + (f": {place.words}" if place.words else "")


def _nothing(intent: Intent, keys: Sequence[str]) -> str:
    looked = ", ".join(code(key) for key in keys) or "any word of it"
    place = f" under `{intent.path}`" if intent.path else ""
    where = f"names, docstrings, comments and file names{place}"
    return f"I searched {where} for {looked} and found nothing that fits.\n\n{NEEDS_MODEL}"
