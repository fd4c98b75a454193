"""What uses a name: calls first, then imports and mentions, each with the function it stands in."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace

from cowork.providers.offline import found, source
from cowork.providers.offline.answer import code, plural, shortened
from cowork.providers.offline.describe import describe
from cowork.providers.offline.found import Line
from cowork.providers.offline.intent import Intent
from cowork.providers.offline.languages import definition, family_of, outline_pattern
from cowork.providers.offline.plan import Plan, grep
from cowork.providers.offline.rank import is_test, place_weight
from cowork.providers.offline.where import outline_of, split_name

_MOST_FILES = 8
_MOST_ROWS = 14
_MOST_ELSEWHERE = 30
_IMPORT = re.compile(
    r"^\s*(?:from\s+\S+\s+import\b|import\b|use\s|#\s*include|require\b|.*\brequire\(|export\s+.*\bfrom\b)"
)


def uses(intent: Intent) -> Plan:
    """Say what uses a name."""
    for_tests = intent.hint == "tests"
    if len(intent.subject.split()) > 1:
        return (yield from describe(replace(intent, subject=f"tests {intent.subject}") if for_tests else intent))
    name, container = split_name(intent)
    pattern = rf"(?:^|[^\w$]){re.escape(name)}(?:[^\w$]|$)"
    if container:
        pattern = rf"(?:\.|::|->){re.escape(name)}(?:[^\w$]|$)"
    (result,) = yield [grep(pattern, path=intent.path, head_limit=1000)]
    hits = [hit for hit in found.lines(result) if is_test(hit.path) or not for_tests]
    if not hits and for_tests:
        return f"I searched all tests for {code(intent.subject)} and found nothing."
    if not hits:
        place = f" under `{intent.path}`" if intent.path else ""
        return f"I searched all files{place} for {code(intent.subject)} and found nothing."
    wanted = _wanted(intent.text)
    kinds: dict[str, list[Line]] = defaultdict(list)
    for hit in hits:
        kinds[_kind(hit, name)].append(hit)
    shown = _pick(kinds, wanted)
    files = list(dict.fromkeys(h.path for h in shown))[:_MOST_FILES]
    looks = yield [grep(outline_pattern(path), path=path, head_limit=2000) for path in files]
    outlines = {path: outline_of(look) for path, look in zip(files, looks, strict=True)}
    rows = [_row(hit, source.enclosing(outlines.get(hit.path, []), hit.number)) for hit in shown]
    return _told(name, kinds, rows, shown)


def _wanted(text: str) -> str:
    if re.search(r"\bimport", text, re.IGNORECASE):
        return "import"
    if re.search(r"\b(?:subclass|inherit|extend)", text, re.IGNORECASE):
        return "base"
    return "call" if re.search(r"\bcall|\binvo|\binstantiat|\brais", text, re.IGNORECASE) else ""


def _kind(hit: Line, name: str) -> str:
    if family_of(hit.path) in ("doc", ""):
        return "text"
    escaped = re.escape(name)
    if re.search(rf"\bclass\s+\w+[^:{{]*[(:,\s<]{escaped}\b", hit.text) and not re.search(
        rf"\bclass\s+{escaped}\b", hit.text
    ):
        return "base"
    item = definition(hit.path, hit.number, hit.text, name)
    if item and item.kind not in ("attribute", "field", "key"):
        return "definition"
    if _IMPORT.match(hit.text):
        return "import"
    if re.match(r"\s*(?:#|//|\*|/\*|--)", hit.text):
        return "text"
    return "call" if re.search(rf"{escaped}\s*(?:<[^>]*>)?\(", hit.text) or f"@{name}" in hit.text else "mention"


def _pick(kinds: dict[str, list[Line]], wanted: str) -> list[Line]:
    order = [wanted] if wanted and kinds.get(wanted) else ["call", "base", "mention", "import", "text"]
    picked: list[Line] = []
    for kind in order:
        rows = sorted(kinds.get(kind, ()), key=lambda h: (-place_weight(h.path), h.path, h.number))
        picked += _spread(rows)
        if len(picked) >= _MOST_ROWS:
            break
    return picked[:_MOST_ROWS]


def _spread(rows: list[Line]) -> list[Line]:
    """Not more than a few of one file before every file had its turn."""
    seen: dict[str, int] = defaultdict(int)
    keyed = []
    for index, row in enumerate(rows):
        keyed.append((seen[row.path] // 3, is_test(row.path), index, row))
        seen[row.path] += 1
    return [row for *_, row in sorted(keyed, key=lambda item: item[:3])]


def _row(hit: Line, inside: str) -> str:
    place = f" in {code(inside)}" if inside else ""
    return f"- `{hit.at}`{place}: {code(shortened(hit.text, 90))}"


def _told(name: str, kinds: dict[str, list[Line]], rows: list[str], shown: list[Line]) -> str:
    counted = {
        "call": "call",
        "base": "subclass",
        "import": "import",
        "mention": "other use",
        "text": "textual mention",
    }
    parts = [plural(len(kinds[k]), word) for k, word in counted.items() if kinds.get(k)]
    made = min(kinds.get("definition", ()), key=lambda h: (-place_weight(h.path), h.path, h.number), default=None)
    where_ = f"; defined at `{made.at}`" if made else ""
    if not rows:
        return f"{code(name)} is defined but I found no use of it{where_}."
    rest = _elsewhere([line for kind in counted for line in kinds.get(kind, ())], {line.path for line in shown})
    return f"{code(name)}: {', '.join(parts)}{where_}.\n\n" + "\n".join(rows) + rest


def _elsewhere(lines: list[Line], named: set[str]) -> str:
    """The first use in each file that was not spoken of yet."""
    first: dict[str, Line] = {}
    for line in lines:
        if line.path not in named:
            first.setdefault(line.path, line)
    if not first:
        return ""
    some = sorted(first.values(), key=lambda h: (-place_weight(h.path), h.path))[:_MOST_ELSEWHERE]
    more = f" and {plural(len(first) - len(some), 'more file')}" if len(first) > len(some) else ""
    return "\n\nAlso in " + ", ".join(f"`{h.at}`" for h in some) + more + "."
