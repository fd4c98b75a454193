"""Where a name is defined: search by the shapes of definitions, rank, look at the best, say it with evidence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from cowork.providers.offline import found, source, words
from cowork.providers.offline.answer import code, fence, places, plural, shortened
from cowork.providers.offline.describe import describe
from cowork.providers.offline.intent import Intent, clean
from cowork.providers.offline.languages import (
    OUTLINE_PATTERN,
    Definition,
    definition,
    definition_pattern,
    options_pattern,
    outline_pattern,
)
from cowork.providers.offline.plan import Call, Plan, Result, Steps, glob, grep, read
from cowork.providers.offline.rank import ordered, place_weight

_MOST_OUTLINED = 4
_NEAR = 0.6


def where(intent: Intent) -> Plan:
    """Say where a name is defined."""
    name, container = split_name(intent)
    if name.startswith("-"):
        return (yield from _option(intent, name))
    hits = yield from definitions(intent, name, container)
    if not hits:
        return (yield from _not_defined(intent, name))
    best = hits[0]
    if _is_aside(best) and not words.looks_like_name(intent.subject) and not words.quoted(intent.text):
        return (yield from describe(replace(intent, kind="describe", subject=clean(intent.text))))
    count = Call("Grep", {"pattern": rf"(?:^|[^\w]){re.escape(name)}(?:[^\w]|$)", "output_mode": "count"})
    page, uses = yield [read(best.path, max(1, best.line - 12), 45), count]
    return _defined(name, container, hits, found.numbered(page), found.totals(uses))


def _is_aside(item: Definition) -> bool:
    """A plain word is more likely about the code than about some local variable of that name."""
    return item.kind in ("attribute", "field", "key", "heading") or (item.kind == "variable" and item.indent > 0)


def split_name(intent: Intent) -> tuple[str, str]:
    """(name, what it is part of) of `Class.method`, `mod::name` or a plain name."""
    name = intent.subject.strip().removesuffix("()").strip("@`'\" ")
    container = intent.container
    if not container and re.fullmatch(r"[\w$]+(?:(?:\.|::|#)[\w$]+)+", name):
        *before, name = re.split(r"\.|::|#", name)
        container = before[-1]
    return name, container


def definitions(intent: Intent, name: str, container: str = "") -> Steps[list[Definition]]:
    """Definitions of a name, the likeliest first."""
    hits = yield from _search(name, intent.path, ignore_case=False)
    if not hits:
        hits = yield from _search(name, intent.path, ignore_case=True)
    ranked = ordered(hits, intent.text, intent.hint)
    if container and ranked:
        ranked = yield from _inside(ranked, container)
    return ranked


def _search(name: str, path: str, *, ignore_case: bool) -> Steps[list[Definition]]:
    (result,) = yield [grep(definition_pattern(name), path=path, ignore_case=ignore_case, head_limit=600)]
    hits = found.lines(result)
    items = (definition(h.path, h.number, h.text, name, ignore_case=ignore_case) for h in hits)
    return [item for item in items if item]


def _inside(hits: list[Definition], container: str) -> Steps[list[Definition]]:
    """Those that belong to a class or module first, by the outlines of the files they are in."""
    files = list(dict.fromkeys(d.path for d in sorted(hits, key=lambda d: _stem(d.path) != container.lower())))
    looks = yield [grep(outline_pattern(path), path=path, head_limit=2000) for path in files[:_MOST_OUTLINED]]
    outlines = dict(zip(files, (outline_of(result) for result in looks), strict=False))

    def far(item: Definition) -> int:
        chain = source.enclosing(outlines.get(item.path, []), item.line).split(".")
        if (
            container in chain[:-1]
            or f"{container}.{item.name}" in item.text
            or re.search(rf"^func \([^)]*\b{re.escape(container)}\b", item.text)
        ):
            return 0
        if container.lower() in (_stem(item.path), *item.path.lower().split("/")):
            return 1
        return 2 if container.lower() in (part.lower() for part in chain) else 3

    return sorted(hits, key=far)


def outline_of(result: Result) -> list[Definition]:
    """The definitions in a Grep for the outline of one file."""
    items = (definition(line.path, line.number, line.text) for line in found.lines_with_context(result))
    return [d for d in items if d and d.kind not in ("field", "key", "attribute", "variable")]


def _stem(path: str) -> str:
    return path.rsplit("/", 1)[-1].split(".")[0].lower()


def _defined(name: str, container: str, hits: Sequence[Definition], page: dict[int, str], uses: tuple[int, int]) -> str:
    best = hits[0]
    told = source.first_words(page, best.line, best.path)
    shown = f"{container}.{name}" if container else best.name
    head = f"{code(shown)} is defined at `{best.at}` ({best.kind})" + (f": {told}" if told else ".")
    parts = [head, fence(_signature(page, best), best.path)]
    others = [d for d in hits[1:] if place_weight(d.path) > -75]
    if others:
        parts.append(f"Other definitions of {code(best.name)}:\n{places(others, 5)}")
    if uses[0] > 1:
        parts.append(f"The name occurs {plural(uses[0], 'time')} in {plural(uses[1], 'file')}.")
    return "\n\n".join(parts)


def _signature(page: dict[int, str], best: Definition) -> str:
    """The line of the definition, with those its parentheses run on to."""
    rows = [page.get(best.line, best.text)]
    while rows[-1].strip() and len(rows) < 12:
        joined = "\n".join(rows)
        if joined.count("(") <= joined.count(")") and joined.count("[") <= joined.count("]"):
            break
        rows.append(page.get(best.line + len(rows), ""))
    indent = len(rows[0]) - len(rows[0].lstrip())
    return "\n".join(row[indent:] if not row[:indent].strip() else row for row in rows).rstrip()


def _option(intent: Intent, flag: str) -> Plan:
    """Where a command-line option is made."""
    made, said = yield [
        grep(options_pattern(flag), path=intent.path, head_limit=100),
        grep(re.escape(flag) + r"(?:[^\w-]|$)", path=intent.path, head_limit=150),
    ]
    field = flag.lstrip("-").replace("-", "_")
    strong = sorted(found.lines(made), key=lambda h: (flag not in h.text, -place_weight(h.path), h.number))
    strong = [h for h in strong if flag in h.text or re.search(rf"\blong\b|\b{field}\b", h.text)]
    rest = sorted(found.lines(said), key=lambda h: (-place_weight(h.path), h.number))
    hits = strong or rest
    if not hits:
        return f"I searched all files for `{flag}` and found nothing."
    rows = [f"The option `{flag}` is at `{hits[0].at}`:\n\n{fence(hits[0].text.strip(), hits[0].path)}"]
    others = [h for h in dict.fromkeys([*hits[1:], *rest]) if h != hits[0]][:6]
    if others:
        rows.append("Also:\n" + "\n".join(f"- `{h.at}` {code(shortened(h.text))}" for h in others))
    return "\n\n".join(rows)


def _not_defined(intent: Intent, name: str) -> Plan:
    """No definition: a file of that name, the first mentions, or things with a like name."""
    pattern = re.escape(name)
    like = "|".join(re.escape(words.stem(part)) for part in words.parts(name) if len(part) > 2) or pattern
    files, said, near = yield [
        glob(f"**/*{name}*" if re.fullmatch(r"[\w.-]+", name) else "**/README*"),
        grep(pattern, path=intent.path, head_limit=100),
        grep(rf"{OUTLINE_PATTERN}\s*[\w$]*(?:{like})", ignore_case=True, path=intent.path, head_limit=200),
    ]
    named = [p for p in found.paths(files) if name.lower() == _stem(p) or name in p.split("/")]
    if named:
        named.sort(key=lambda p: (-place_weight(p), p))
        rows = "\n".join(f"- `{p}:1`" for p in named[:5])
        return f"{code(name)} is not defined as a symbol; files of that name:\n{rows}"
    mentions = sorted(found.lines(said), key=lambda h: (-place_weight(h.path), h.path, h.number))
    searched = f"I searched for definitions of {code(name)}" + (f" under `{intent.path}`" if intent.path else "")
    if mentions:
        rows = "\n".join(f"- `{h.at}` {code(shortened(h.text))}" for h in mentions[:6])
        total = found.totals(said)
        where_ = f"{plural(total[0], 'time')} in {plural(total[1], 'file')}"
        return f"{searched} and found none; it is mentioned {where_}:\n{rows}"
    if len(words.keywords(name)) and not words.looks_like_name(name):
        told = f"There is nothing called {code(name)}. "
        return (yield from describe(Intent("describe", name, intent.path, text=intent.text), prefix=told))
    return _nothing(
        searched, name, [d for line in found.lines(near) if (d := definition(line.path, line.number, line.text))]
    )


def _nothing(searched: str, name: str, near: Sequence[Definition]) -> str:
    parts = words.parts(name)

    def likeness(item: Definition) -> float:
        theirs = words.parts(item.name)
        shared = sum(max((words.affinity(p, t) for t in theirs), default=0.0) for p in parts)
        return shared / max(len(parts), len(theirs), 1)

    close = sorted(
        (d for d in near if likeness(d) >= _NEAR), key=lambda d: (-likeness(d), -place_weight(d.path), d.path)
    )
    if not close:
        return f"{searched} and for any mention of it, and found neither."
    return f"{searched} and for any mention of it, and found neither. Names like it:\n{places(close, 5)}"
