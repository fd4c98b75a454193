"""Where code is: the definition of a name, its source, what uses it, and what a phrase describes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from cowork.core.format import code, one_line
from cowork.providers.offline import languages, plans, words
from cowork.providers.offline.languages import INNER, Definition, Line, definition, enclosing
from cowork.providers.offline.plans import Plan, Steps, bullets, call, fence, grep, plural, read
from cowork.providers.offline.questions import Intent, clean
from cowork.providers.offline.words import Place, Term, by_place, either, is_source, is_test, place_weight, terms

_ASIDE = (
    "!test,!tests,!test_*,!*_test.*,!*.test.*,!docs,!doc,!*.md,!*.rst,!*.txt,!*.min.js,!*.lock,!node_modules,!vendor"
)
_COMMENT = r"^\s*(?:\"\"\"|'''|///?!?|/?\*+|#+|--|<!--)\s?.*"


def resolve(path: str) -> Steps[str]:
    """The path as it is in the tree: given whole, or found by its name."""
    if path in ("", ".") or path.startswith("/"):
        return path
    (hits,) = yield [call("Glob", pattern=path if any(c in path for c in "*{") else f"**/{path.strip('/')}")]
    candidates = [p for p in hits.paths if p == path or p.endswith("/" + path.strip("./"))]
    if not candidates and "." not in path and "/" not in path:  # README, LICENSE
        (hits,) = yield [call("Glob", pattern=f"**/{path}.*")]
        candidates = hits.paths
    if path in candidates or not candidates:
        return path
    return min(candidates, key=lambda p: (-place_weight(p), len(p), p))


def split_name(subject: str) -> tuple[str, str]:
    """(name, what it is part of) of `Class.method`, `mod::name` or a plain name."""
    name = subject.strip().removesuffix("()").strip("@`'\" ")
    if not re.fullmatch(r"[\w$]+(?:(?:\.|::|#)[\w$]+)+", name):
        return name, ""
    *_, container, name = re.split(r"\.|::|#", name)
    return name, container


def definitions(intent: Intent, name: str, container: str = "") -> Steps[list[Definition]]:
    """Definitions of a name, the likeliest first; those in the class or module that is named before all others."""
    pattern, hits = languages.definition_pattern(name), list[Definition]()
    for any_case in (False, True):
        if not hits:
            (result,) = yield [grep(pattern, path=intent.path, ignore_case=any_case, head_limit=600)]
            items = (definition(hit, name, ignore_case=any_case) for hit in result.hits)
            hits = words.likeliest(filter(None, items), intent.text, intent.hint)
    if not container or not hits:
        return hits
    outlines = yield from _outlines(d.path for d in sorted(hits, key=lambda d: _stem(d.path) != container.lower()))

    def distance(item: Definition) -> int:
        chain = enclosing(outlines.get(item.path, []), item.number).split(".")
        if container in chain[:-1] or re.search(rf"\b{re.escape(container)}(?:\.{name}|\))", item.text):
            return 0
        return 1 if container.lower() in (_stem(item.path), *item.path.lower().split("/")) else 2

    return sorted(hits, key=distance)


def _stem(path: str) -> str:
    return path.rsplit("/", 1)[-1].split(".")[0].lower()


def _outlines(paths: Iterable[str]) -> Steps[dict[str, list[Definition]]]:
    """What each of some files defines."""
    files = list(dict.fromkeys(paths))[:8]
    looks = yield [grep(languages.outline_pattern(), path=path, head_limit=2000) for path in files]
    return {
        path: [item for item in map(definition, look.hits) if item and item.kind not in (*INNER, "variable")]
        for path, look in zip(files, looks, strict=True)
    }


def _find_mentions(intent: Intent, name: str) -> Plan:
    """A name without a definition: the lines that mention it, in quotes first."""
    (said,) = yield [grep(rf"{re.escape(name)}(?:[^\w-]|$)", path=intent.path, head_limit=200)]
    searched = f"I searched for definitions of {code(name)}" + (f" under `{intent.path}`" if intent.path else "")
    if said.hits:
        times, many = plural(said.totals[0], "time"), plural(said.totals[1], "file")
        hits = sorted(by_place(said.hits), key=lambda h: not re.search(rf"[\"'`]{re.escape(name)}\b", h.text))
        rows = bullets(plans.evidence(hits[:8]), 8, said.totals[0])
        return f"{searched} and found none; it is mentioned {times} in {many}:\n{rows}"
    if words.keywords(name) and not words.looks_like_name(name):
        return f"There is nothing called {code(name)}. " + (yield from describe(replace(intent, subject=name)))
    return f"{searched} and for any mention of it, and found neither."


def define(intent: Intent) -> Plan:
    """Where a name is defined, and its source where what it does, takes or raises is asked for."""
    name, container = split_name(intent.subject)
    hits = [] if name.startswith("-") else (yield from definitions(intent, name, container))
    if not hits and (intent.kind == "where" or words.looks_like_name(intent.subject)):
        return (yield from _find_mentions(intent, name))
    aside = hits and (hits[0].kind in INNER or (hits[0].kind == "variable" and hits[0].indent > 0))
    if not hits or (aside and not words.looks_like_name(intent.subject) and not words.quotations(intent.text)):
        # A plain word is more likely about the code than about some local variable of that name.
        return (yield from describe(replace(intent, subject=clean(intent.text))))
    best, *others = hits
    (page,) = yield [read(best.path, max(1, best.number - 12), 600)]
    told = languages.first_words(page.page, best)
    shown = f"{container}.{name}" if container else best.name
    if intent.kind == "where":
        parts = [f"{code(shown)} is defined at `{best.at}` ({best.kind})", fence(best.text, best.path)]
    else:
        rows = languages.body(page.page, best)
        parts = [f"{code(shown)} ({best.kind}) is at `{best.at}-{best.number + len(rows) - 1}`"]
        parts += [fence(plans.clip(rows, 60), best.path)]
        parts += [] if told else [f"It has no docstring. {plans.NEEDS_MODEL}"]
    parts[0] += f": {told}" if told else "."
    if same := [f"`{d.at}` {d.kind} {code(one_line(d.text, 100))}" for d in others if place_weight(d.path) > -75]:
        parts.append(f"Other definitions of {code(best.name)}:\n{bullets(same, 5)}")
    return "\n\n".join(parts)


def describe(intent: Intent) -> Plan:
    """Name the likeliest places for a phrase, and say what was searched for."""
    asked = terms(intent.subject)
    about_texts = re.search(r"\b(?:tests?|docs?|documentation|readme)\b", intent.subject)
    aside = "" if intent.path or about_texts else _ASIDE
    places: list[Place] = []
    # A name that looks like a path, such as .netrc, may be what it is about; tests and texts come last.
    for path, without in dict.fromkeys([(intent.path, aside), ("", aside or _ASIDE), ("", "")]):
        if not places and asked:
            places = yield from _places(path, asked, without)
    if not places:
        looked = ", ".join(code(term.word) for term in asked) or "any word of it"
        where_ = "names, docstrings, comments and file names" + (f" under `{intent.path}`" if intent.path else "")
        return f"I searched {where_} for {looked} and found nothing that fits.\n\n{plans.NEEDS_MODEL}"
    best, *rest = places
    (page,) = yield [read(best.at.path, max(1, best.at.number - 12), 45)]
    told = languages.first_words(page.page, best.at)
    rows = [f"Most likely {best.label}{f': {told}' if told else ''}"]
    worth = [place for place in rest if place.score >= 0.5 * best.score and place.at.name != best.at.name]
    others = {place.at.name: place for place in reversed(worth)}
    if others:
        rows += ["", "Or:", bullets([place.label for place in reversed(others.values())][:4])]
    missing = [term.word for term in asked if term.word not in {*best.named, *best.said}]
    found = (("its name says", best.named), ("its text says", best.said), ("nothing there says", missing))
    seen = "; ".join(f"{where_} {', '.join(map(code, said))}" for where_, said in found if said)
    rows += ["", f"Ranked by words, not understood: {seen}."]  # the reader judges how sure that is
    if re.match(r"\s*how (?:does|do|is|are|can|should)\b", intent.text, re.IGNORECASE):
        rows.append(plans.NEEDS_MODEL)
    return "\n".join(rows)


def _places(path: str, asked: Sequence[Term], aside: str) -> Steps[list[Place]]:
    """Find the files that speak of it, then rank what they define."""
    any_ = either(asked)
    stems = [stem for term in asked for stem in term.stems]
    spelled = ",".join(dict.fromkeys(s for stem in stems for s in (stem, stem.capitalize())))
    texts = rf"{_COMMENT}(?:{any_})" + (rf"|(?:{any_}).*[^\w](?:{any_})" if len(asked) > 1 else "")
    named, said, titled = yield [
        grep(languages.outline_pattern(any_), ignore_case=True, glob=aside, path=path, head_limit=700),
        grep(texts, ignore_case=True, glob=aside, path=path, head_limit=700),
        call("Glob", pattern=f"**/*{{{spelled}}}*" if "," in spelled else f"**/*{spelled}*", path=path),
    ]
    lines = [*named.hits, *said.hits]
    best = words.rank_files(asked, lines, [p for p in titled.paths if not aside or is_source(p)])[:6]
    if not best:
        return []
    files, inside = re.sub(r"[\s*?\[\]{}!]", "?", ",".join(best)), f"{languages.outline_pattern()}|{any_}"
    (look,) = yield [grep(inside, ignore_case=True, glob=files, head_limit=1900)]
    by_file: dict[str, list[Line]] = {path: [] for path in best}
    for line in dict.fromkeys([*lines, *look.hits]):
        if line.path in by_file:
            by_file[line.path].append(line)
    return words.rank_places(asked, by_file)


_IMPORT = re.compile(r"\s*(?:from\s+\S+\s+import\b|import\b|use\s|#\s*include|.*\brequire\b|export\s+.*\bfrom\b)")
_TEXT = re.compile(r"\s*(?:#|//|\*|/\*|--)")
_SHAPES = {  # how a question names a kind of use, and how a line looks that is one
    r"\bimport": _IMPORT.pattern,
    r"\b(?:subclass|inherit|extend)": r"\s*(?:\w+\s+)*class\s.*\bNAME\b",
    r"": r".*\bNAME\s*(?:<[^>]*>)?\(|\s*@NAME\b",
}


def uses(intent: Intent) -> Plan:
    """What uses a name: the kind of use that is asked for first, each with the function it stands in."""
    for_tests = bool(re.search(r"\btests?\b", intent.text))
    if len(intent.subject.split()) > 1:
        return (yield from describe(intent))
    name, container = split_name(intent.subject)
    before = r"(?:\.|::|->)" if container else r"(?:^|[^\w$])"
    (result,) = yield [grep(rf"{before}{re.escape(name)}(?:[^\w$]|$)", path=intent.path, head_limit=1000)]
    hits = [hit for hit in by_place(result.hits) if is_test(hit.path) or not for_tests]
    made = [hit for hit in hits if (d := definition(hit, name)) and d.kind not in INNER]
    hits = [hit for hit in hits if hit not in made]
    defined = f"; defined at `{made[0].at}`" if made else ""
    if not hits:
        place = "all tests" if for_tests else f"all files under `{intent.path}`" if intent.path else "all files"
        return f"I searched {place} for uses of {code(intent.subject)} and found none{defined}."
    asked = next(shape for said, shape in _SHAPES.items() if re.search(said, intent.text, re.IGNORECASE))
    wanted = re.compile(asked.replace("NAME", re.escape(name)))

    def order(hit: Line) -> int:
        if languages.family_of(hit.path) in ("doc", "") or _TEXT.match(hit.text):
            return 3
        return 0 if wanted.match(hit.text) else 2 if _IMPORT.match(hit.text) else 1

    shown = sorted(hits, key=order)[:14]
    outlines = yield from _outlines(hit.path for hit in shown)
    rows = []
    for hit in shown:
        inside = enclosing(outlines.get(hit.path, []), hit.number)
        rows.append(f"`{hit.at}`{f' in {code(inside)}' if inside else ''}: {code(one_line(hit.text, 90))}")
    rest = [f"`{hit.at}`" for hit in {hit.path: hit for hit in hits if hit.path not in outlines}.values()]
    also = f"\n\nAlso in {', '.join(rest[:30])}." if rest else ""
    number, many = plural(len(hits), "use"), plural(len({hit.path for hit in hits}), "file")
    return f"{code(name)}: {number} in {many}{defined}.\n\n{bullets(rows, len(rows), len(hits))}{also}"
