"""What is there: files and folders, declarations of a kind, lines with a text; listed, counted or read."""

from __future__ import annotations

import re
from dataclasses import replace

from cowork.core.format import code
from cowork.providers.offline import languages, words
from cowork.providers.offline.languages import KINDS, Declared, Definition, Line, definition, family_of, find_kind
from cowork.providers.offline.locate import describe, resolve
from cowork.providers.offline.plans import Plan, bullets, call, clip, evidence, fence, grep, plural, read
from cowork.providers.offline.project import outline
from cowork.providers.offline.questions import Intent, clean
from cowork.providers.offline.words import by_place, is_source

_FILES = {  # how people name files of a sort, and the glob for them
    r"\btests? files?\b": "{test_*,*_test.*,*.test.*,*.spec.*}",
    r"\bpackages?\b": "{__init__.py,package.json,Cargo.toml,go.mod,mod.rs,index.ts,index.js}",
    r"\bpython\b": "*.py",
    r"\brust\b": "*.rs",
    r"\bmarkdown\b": "*.md",
    r"\b(go|java|c|json|toml|html|css|sql|txt)\b": "*.{}",
    r"\bjavascript\b": "*.{js,jsx,mjs,cjs}",
    r"\btypescript\b": "*.{ts,tsx}",
    r"\byaml\b": "*.{yml,yaml}",
    r"(?<![\w.])\.(\w{1,6})\b(?= files?)": "*.{}",
    r"\bmodules?\b": "*.{py,js,ts,mjs,cjs,jsx,tsx,go,rs,rb,java,kt,ex,hs,ml}",
}
_MARKS = ("TODO", "FIXME", "XXX", "HACK")
_OUTLINED = ("class", "function", "method", "type", "macro", "target")


def take_stock(intent: Intent) -> Plan:
    """List, count or search: files, declarations of a kind, or lines with a text."""
    said = intent.subject.lower()
    text, name = intent.subject.strip(" `'\""), ""
    if intent.kind == "count" and re.search(r"\b(?:times|often|occurrences of|uses of|calls to|usages of)\b", said):
        name = _name_to_count(intent)
    elif intent.kind == "count" and "line" in said:
        return (yield from _count_lines(intent))
    elif intent.kind != "search":
        is_files = re.search(r"\bfiles?\b|\bmodules?\b|\bpackages?\b", said)
        kind = find_kind(said) if intent.kind == "count" and not is_files else intent.hint
        if kind in KINDS:
            return (yield from _list_declarations(intent, KINDS[kind]))
        if is_files or intent.kind == "list":
            return (yield from _files(intent))
        name = _name_to_count(intent)
    pattern = rf"(?:^|[^\w]){re.escape(name)}(?:[^\w]|$)" if name else re.escape(text)
    return (yield from _list_declarations(intent, Declared("", pattern, f"line with {code(name or text)}")))


def _name_to_count(intent: Intent) -> str:
    """What is to be counted."""
    subject = intent.subject
    found = words.quotations(subject) or words.names(subject) or words.keywords(subject.lower()) or [subject]
    return found[0].removesuffix("()")


def _glob_of(text: str) -> str:
    """The glob a phrase such as “python files” or “*.md files” means; empty for files of any name."""
    if star := re.search(r"[\w/]*\*[\w.*/{},-]+", text):
        return star[0] if "/" in star[0] else f"**/{star[0]}"
    for said, pattern in _FILES.items():
        if hit := re.search(said, text, re.IGNORECASE):
            return f"**/{pattern.format(*hit.groups()) if hit.groups() else pattern}"
    return ""


def _files(intent: Intent) -> Plan:
    path = yield from resolve(intent.path)
    base = "" if family_of(path) else path.rstrip("/")
    pattern = _glob_of(intent.subject.replace(intent.path, " ") if intent.path else intent.subject)
    if intent.kind == "list" and not pattern and not re.search(r"\ball\b|\bevery\b", intent.subject):
        return (yield from _folder(base))
    (result,) = yield [call("Glob", pattern=pattern or "**/*", path=base)]
    place = f" under `{base}`" if base else ""
    if not result.paths:
        return f"No files match `{pattern}`{place}."
    total = result.totals[0]
    head = f"{plural(total, 'file')} match `{pattern or '**/*'}`{place}"
    listed = bullets([code(name) for name in sorted(result.paths)], total=total)
    return f"{head}." if intent.kind == "count" else f"{head}:\n\n{listed}"


def _folder(path: str) -> Plan:
    (tree,) = yield [call("LS", path=path)]
    if tree.failed:
        return f"I could not list {code(path or '.')}: {tree.text}"
    first, *rows = tree.text.splitlines()
    return f"{first}\n\n{fence(clip(rows, 60), 'tree.txt')}"


def _count_lines(intent: Intent) -> Plan:
    path = yield from resolve(intent.path)
    files = _glob_of(intent.subject.lower()).removeprefix("**/")
    one, all_ = yield [read(path or "."), grep("^", mode="count", path=path, glob=files)]
    if family_of(path):
        lines = one.totals[0] or max(one.page, default=0)
        return one.text if one.failed else f"`{path}` has {plural(lines, 'line')}."
    counts = re.findall(r"^(.+):(\d+)$", all_.text, re.MULTILINE)
    longest = bullets([f"`{file}` {int(number):,}" for file, number in counts[:8]])
    return f"{plural(all_.totals[0], 'line')} in {plural(all_.totals[1], 'file')}. The longest:\n\n{longest}"


def _list_declarations(intent: Intent, kind: Declared) -> Plan:
    """Search for the shape of a declaration; list the lines, those of the program first, or only count them."""
    path = yield from resolve(intent.path)
    marks = [mark for mark in _MARKS if re.search(rf"\b{mark}S?\b", intent.text.upper())]
    if kind == KINDS["todos"] and marks:
        kind = replace(kind, pattern=rf"(?:^|[^\w])(?:{'|'.join(marks)})\b", noun=" or ".join(marks))
    files = "{Makefile,justfile,*.mk}" if kind.noun == "target" else ""
    (result,) = yield [grep(kind.pattern, path=path, glob=files, head_limit=300)]
    place = f" in `{path}`" if path else ""
    if intent.kind == "count":
        where_ = place or f" in {plural(result.totals[1], 'file')}"
        return f"{plural(result.totals[0], kind.noun)}{where_}, counted by lines that declare one."
    hits = [hit for hit in result.hits if path or family_of(hit.path)]
    if kind.everywhere and not path:
        hits = [hit for hit in hits if is_source(hit.path) and family_of(hit.path) != "data"]
    if not hits:
        searched = f"I searched{place or ' all files'} for {plural(2, kind.noun)[2:]} and found none."
        found = (yield from describe(replace(intent, subject=clean(intent.text)))) if kind.everywhere else ""
        return f"{searched}\n\n{found}".strip()
    hits = by_place(hits, words.keywords(intent.text))
    number, many = max(len(hits), result.totals[0]), len({hit.path for hit in hits})
    return f"{plural(number, kind.noun)} in {plural(many, 'file')}{place}:\n\n{bullets(evidence(hits))}"


def read_file(intent: Intent) -> Plan:
    """Show a file, some lines of it, or its outline."""
    path = yield from resolve(intent.path)
    first, _, last = intent.other.partition("-")
    start = int(first or 1)
    (page,) = yield [read(path, start, max(1, min(int(last) - start + 1, 2000)) if last else 2000)]
    if page.failed and re.search("directory|folder", page.text.lower()):
        return (yield from (outline(replace(intent, path=path)) if intent.kind == "explain" else _folder(path)))
    if page.failed:
        return f"I could not read {code(path)}: {page.text}"
    lines = [Line(path, number, text) for number, text in sorted(page.page.items())]
    total = page.totals[0] or max(page.page, default=0)
    items = [d for d in map(definition, lines) if d and d.kind in _OUTLINED]
    if intent.kind == "read" or not items:
        lines = lines[:200]
        shown = f", lines {start}–{start + len(lines) - 1} of {total}"
        note = shown if intent.other or len(lines) < total else ""
        return f"`{path}:{start}`{note}:\n\n" + fence("\n".join(line.text for line in lines), path)
    told = [(d, languages.first_words(page.page, d)) for d in items]
    rows = [f"`{d.at}` {d.kind} {code(d.name)}{f': {said}' if said else ''}" for d, said in told]
    purpose = languages.first_words(page.page, Definition(path, 1, "", "file", "", 0))
    return f"`{path}` has {plural(total, 'line')}. {purpose}\n\n{bullets(rows, 60)}"
