"""Where something is that has no exact name: its words against names, files, docstrings and comments, ranked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from cowork.providers.offline import found, rank, source, words
from cowork.providers.offline.answer import NEEDS_MODEL, code
from cowork.providers.offline.found import Line
from cowork.providers.offline.intent import Intent
from cowork.providers.offline.languages import named_pattern, outlines_pattern
from cowork.providers.offline.plan import Call, Plan, Steps, glob, grep, read
from cowork.providers.offline.rank import Place
from cowork.providers.offline.terms import Term, either, terms

_BEST_FILES = 3  # looked into by one search, so that a long one leaves room for the others
_MORE_FILES = 6
_MOST_OTHERS = 4
_WORTH_NAMING = 0.5  # of the best one's score
_COMMENT = r"^\s*(?:\"\"\"|'''|///?!?|/?\*+|#+|--|<!--)\s?.*"
_ASIDE = (
    "!test,!tests,!test_*,!*_test.*,!*.test.*,!docs,!doc,!*.md,!*.rst,!*.txt,!*.min.js,!*.lock,!node_modules,!vendor"
)


def describe(intent: Intent, *, prefix: str = "") -> Plan:
    """Name the likeliest places for a phrase, and say what was searched for."""
    asked = terms(intent.subject)
    if all(term.word in words.SOFT for term in asked):
        return prefix + _nothing(intent, asked)
    places = yield from _places(intent, asked, _aside(intent))
    if not places and intent.path:  # a name that looks like a path, such as .netrc, may be what it is about
        intent = replace(intent, path="")
        places = yield from _places(intent, asked, _ASIDE)
    if not places and _aside(intent):
        places = yield from _places(intent, asked, "")
    if not places:
        return prefix + _nothing(intent, asked)
    best = places[0].at
    (page,) = yield [read(best.path, max(1, best.line - 12), 45)]
    lines = found.numbered(page)
    told = source.first_words(lines, best.line, best.path) if best.kind != "file" else source.module_words(lines)
    return prefix + _told(intent, asked, places, told)


def _aside(intent: Intent) -> str:
    """What is left out at first: tests and texts, unless the question is about them."""
    return "" if intent.path or re.search(r"\b(?:tests?|docs?|documentation|readme)\b", intent.subject) else _ASIDE


def _places(intent: Intent, asked: Sequence[Term], aside: str) -> Steps[list[Place]]:
    """Find the files that speak of it, then rank what they define."""
    any_, path = either(asked), intent.path
    texts = rf"{_COMMENT}(?:{any_})" + (rf"|(?:{any_}).*[^\w](?:{any_})" if len(asked) > 1 else "")
    named, said, files = yield [
        grep(named_pattern(any_), ignore_case=True, glob=aside, path=path, head_limit=700),
        grep(texts, ignore_case=True, glob=aside, path=path, head_limit=700),
        _named_files(asked, path),
    ]
    lines = [line for result in (named, said) for line in found.lines(result)]
    paths = [p for p in found.paths(files) if not aside or rank.is_source(p)]
    best = rank.files(asked, lines, paths)[:_MORE_FILES]
    groups = [group for group in (best[:_BEST_FILES], best[_BEST_FILES:]) if group]
    if not groups:
        return []
    looks = yield [
        grep(f"{outlines_pattern(group)}|{any_}", ignore_case=True, glob=_only(group), head_limit=1900)
        for group in groups
    ]
    by_file: dict[str, list[Line]] = {path: [] for path in best}
    lines += [line for look in looks for line in found.lines(look)]
    for line in dict.fromkeys(lines):  # a long look is cut in the middle, so the first one counts too
        if line.path in by_file:
            by_file[line.path].append(line)
    return rank.places(asked, by_file)


def _named_files(asked: Sequence[Term], path: str) -> Call:
    stems = [stem for term in asked if term.word not in words.SOFT for stem in term.stems]
    spelled = ",".join(dict.fromkeys(s for stem in stems for s in (stem, stem.capitalize())))
    return glob(f"**/*{{{spelled}}}*" if "," in spelled else f"**/*{spelled}*", path)


def _only(paths: Sequence[str]) -> str:
    """A glob that means these files; what has a meaning in globs stands for itself."""
    return ",".join(re.sub(r"[\s,*?\[\]{}!]", "?", path) for path in paths)


def _told(intent: Intent, asked: Sequence[Term], places: list[Place], told: str) -> str:
    best, *rest = places
    rows = [f"Most likely `{best.at.at}`{_what(best)}{f': {told}' if told else ''}"]
    worth = (place for place in rest if place.score >= _WORTH_NAMING * best.score and place.at.name != best.at.name)
    others = list({place.at.name: place for place in reversed(list(worth))}.values())[::-1][:_MOST_OTHERS]
    if others:
        rows += ["", "Or:", *(f"- `{p.at.at}`{_what(p)}" for p in others)]
    rows += ["", _evidence(asked, best)]
    if re.match(r"\s*how (?:does|do|is|are|can|should)\b", intent.text, re.IGNORECASE):
        rows.append(NEEDS_MODEL)
    return "\n".join(rows)


def _what(place: Place) -> str:
    item = place.at
    if item.kind == "file":
        return ", the file itself"
    name = f"{place.inside}.{item.name}" if place.inside else item.name
    return f", {item.kind} {code(name)}"


def _evidence(asked: Sequence[Term], best: Place) -> str:
    """What speaks for the best place and what does not: the reader judges how sure that is."""
    parts = [
        f"{where} {', '.join(code(term.word) for term in asked if term.word in found_)}"
        for where, found_ in (("its name says", best.named), ("its text says", best.said))
        if found_
    ]
    missing = [code(term.word) for term in asked if term.word not in {*best.named, *best.said}]
    parts += [f"nothing there says {', '.join(missing)}"] if missing else []
    return f"Ranked by words, not understood: {'; '.join(parts)}."


def _nothing(intent: Intent, asked: Sequence[Term]) -> str:
    looked = ", ".join(code(term.word) for term in asked) or "any word of it"
    place = f" under `{intent.path}`" if intent.path else ""
    where = f"names, docstrings, comments and file names{place}"
    return f"I searched {where} for {looked} and found nothing that fits.\n\n{NEEDS_MODEL}"
