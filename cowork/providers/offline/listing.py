"""What is there: files and folders, declarations of a kind, lines with a text; listed, counted or read."""

from __future__ import annotations

import re
from dataclasses import replace

from cowork.providers.offline import source, words
from cowork.providers.offline.declarations import KINDS, Declared, kind_named
from cowork.providers.offline.intent import Intent, clean
from cowork.providers.offline.languages import definition, family_of
from cowork.providers.offline.locate import define, definitions, describe, resolve
from cowork.providers.offline.markdown import bullets, code, evidence, fence, plural
from cowork.providers.offline.plans import Plan, Steps, bash, glob, grep, listed, read
from cowork.providers.offline.project import look, outline, scripts
from cowork.providers.offline.ranking import is_source, path_affinity, place_weight

_FILES = {  # how people name files of a sort, and the glob for them
    r"\btests? files?\b": "{test_*,*_test.*,*.test.*,*.spec.*}",
    r"\bpackages?\b": "{__init__.py,package.json,Cargo.toml,go.mod,mod.rs,index.ts,index.js}",
    r"\bpython\b": "*.py",
    r"\bjavascript\b": "*.{js,jsx,mjs,cjs}",
    r"\btypescript\b": "*.{ts,tsx}",
    r"\brust\b": "*.rs",
    r"\bc\+\+": "*.{cc,cpp,cxx,hpp,hh}",
    r"\bc\b": "*.{c,h}",
    r"\bruby\b": "*.rb",
    r"\bshell\b": "*.{sh,bash}",
    r"\bmarkdown\b": "*.md",
    r"\byaml\b": "*.{yml,yaml}",
    r"\b(go|java|json|toml|html|css|sql|txt)\b": "*.{}",
    r"(?<![\w.])\.(\w{1,6})\b(?= files?)": "*.{}",
    r"\bmodules?\b": "*.{py,js,ts,mjs,cjs,jsx,tsx,go,rs,rb,java,kt,ex,hs,ml}",
}
_VALUE = r"(-?\d[\w.]*(?:\s*[*+/-]\s*\d+)*|[rbfu]?\"[^\"]*\"|[rbfu]?'[^']*'|True|False|true|false|[A-Z][A-Z0-9_]{2,})"


def _glob_of(text: str) -> str:
    """The glob a phrase such as “python files” or “*.md files” means; empty for files of any name."""
    if star := re.search(r"[\w/]*\*[\w.*/{},-]+", text):
        return star[0] if "/" in star[0] else f"**/{star[0]}"
    hits = ((re.search(said, text, re.IGNORECASE), pattern) for said, pattern in _FILES.items())
    hit, pattern = next(((hit, pattern) for hit, pattern in hits if hit), (None, ""))
    return f"**/{pattern.format(*hit.groups()) if hit and hit.groups() else pattern}" if hit else ""


def list_(intent: Intent) -> Plan:
    """Files, folders, or declarations of a kind."""
    if intent.hint in KINDS:
        return (yield from _declared(intent, KINDS[intent.hint]))
    pattern = _glob_of(intent.subject.replace(intent.path, " ") if intent.path else intent.subject)
    base = "" if words.is_file(intent.path) else intent.path.rstrip("/")
    if not pattern and not re.search(r"\ball\b|\bevery\b", intent.subject):
        return (yield from _folder(base))
    (result,) = yield [glob(pattern or "**/*", base)]
    place = f" under `{base}`" if base else ""
    if not result.paths:
        return f"No files match `{pattern}`{place}."
    rows = bullets([f"`{name}`" for name in sorted(result.paths)], total=result.total_files)
    return f"{plural(result.total_files, 'file')} match `{pattern or '**/*'}`{place}:\n\n{rows}"


def _folder(path: str) -> Plan:
    (tree,) = yield [listed(path)]
    if tree.failed:
        return f"I could not list {code(path or '.')}: {tree.text}"
    first, *rows = tree.text.splitlines()
    return f"{first}\n\n" + fence("\n".join([*rows[:60], *(["…"] if len(rows) > 60 else [])]), "tree.txt")


def inventory(intent: Intent) -> Plan:
    """Every declaration of a kind in the program, or of one command."""
    kind, path = KINDS[intent.subject], intent.path
    if intent.container:
        path = (yield from _source_of_script(intent.container)) or path
        if path == intent.path and (yield from definitions(intent, intent.container)):
            return (yield from define(replace(intent, kind="show", subject=intent.container, container="")))
    named = [mark for mark in ("TODO", "FIXME", "XXX", "HACK") if re.search(rf"\b{mark}S?\b", intent.text.upper())]
    if named:
        kind = replace(kind, pattern=rf"(?:^|[^\w])(?:{'|'.join(named)})\b", noun=" or ".join(named))
    return (yield from _declared(replace(intent, path=path), kind))


def _source_of_script(name: str) -> Steps[str]:
    """The file or folder that a command's options are declared in, by the manifest that installs it."""
    files = yield from look()
    path = next((i.value.split(":")[0].replace(".", "/") for i in scripts(files.items) if i.key == name), "")
    (near,) = yield [grep(KINDS["options"].pattern, glob=f"**/{path}.py,**/{path.rpartition('/')[0] or path}/**")]
    hits = sorted((hit.path for hit in near.hits if path), key=lambda p: (path not in p, p.count("/"), p))
    return "" if not hits else hits[0] if path in hits[0] else hits[0].rpartition("/")[0]


def _declared(intent: Intent, kind: Declared) -> Plan:
    """Search for the shape of a declaration; list the lines, those of the program first, or only count them."""
    path = yield from resolve(intent.path)
    files = "{Makefile,justfile,*.mk}" if kind.noun == "target" else ""
    limit = 900 if kind.after else 300
    (result,) = yield [grep(kind.pattern, path=path, after=kind.after, glob=files, head_limit=limit)]
    place = f" in `{path}`" if path else ""
    if intent.kind == "count":
        where_ = place or f" in {plural(result.totals[1], 'file')}"
        return f"{plural(result.totals[0], kind.noun)}{where_}, counted by lines that declare one."
    hits = [hit for hit in result.hits_with_context if path or family_of(hit.path)]
    if kind.everywhere and not path:
        hits = [hit for hit in hits if is_source(hit.path) and family_of(hit.path) != "data"]
    searched = f"I searched{place or ' all files'} for {plural(2, kind.noun)[2:]} and found none."
    if not hits and kind.everywhere:
        return f"{searched}\n\n" + (yield from describe(replace(intent, subject=clean(intent.text))))
    said = words.keywords(intent.text)
    hits.sort(key=lambda h: (-place_weight(h.path) - 4 * path_affinity(h.path, said), h.path, h.number))
    head = (
        f"{plural(max(len(hits), result.totals[0]), kind.noun)} in {plural(len({h.path for h in hits}), 'file')}{place}"
    )
    return f"{head}:\n\n{bullets(evidence(hits))}" if hits else searched


def count(intent: Intent) -> Plan:
    """How many of something, with how it was counted."""
    said, path = intent.subject.lower(), (yield from resolve(intent.path))
    files = _glob_of(said)
    times = re.search(r"\b(?:times|often|occurrences of|uses of|calls to|usages of)\b", said)
    if re.search(r"\bcommits?\b", said):
        (result,) = yield [bash("git rev-list --count HEAD", "Count commits")]
        return f"`git rev-list --count HEAD` says: {result.text.strip()} commits."
    if not times and "line" in said:
        one, all_ = yield [read(path or "."), grep("^", "count", path=path, glob=files.removeprefix("**/"))]
        if family_of(path):
            return one.text if one.failed else f"`{path}` has {plural(one.total_lines, 'line')}."
        longest = bullets([f"`{file}` {number:,}" for file, number in all_.counts[:8]])
        return f"{plural(all_.totals[0], 'line')} in {plural(all_.totals[1], 'file')}. The longest:\n\n{longest}"
    if not times and re.search(r"\bfiles?\b|\bmodules?\b|\bpackages?\b", said):
        (result,) = yield [glob(files or "**/*", "" if family_of(path) else path)]
        return f"{plural(result.total_files, 'file')} match `{files or '**/*'}`{f' in `{path}`' if path else ''}."
    if not times and (kind := kind_named(said)):
        return (yield from _declared(intent, KINDS[kind]))
    names = words.quoted(intent.subject) or words.names(intent.subject) or words.keywords(said) or [said]
    name = names[0].removesuffix("()")
    return (yield from _declared(intent, _lines_with(name, rf"(?:^|[^\w]){re.escape(name)}(?:[^\w]|$)")))


def search(intent: Intent) -> Plan:
    """Lines that hold a text."""
    text = intent.subject.strip(" `'\"")
    return (yield from _declared(intent, _lines_with(text, re.escape(text))))


def _lines_with(text: str, pattern: str) -> Declared:
    return Declared("", pattern, f"line with {code(text)}")


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
    rows, total = [text for _, text in sorted(page.page.items())], page.total_lines
    note = f", lines {start}–{start + min(len(rows), 200) - 1} of {total}" if intent.other or len(rows) < total else ""
    shown = f"`{path}:{start}`{note}:\n\n" + fence("\n".join(rows[:200]), path)
    found = [definition(path, number, text) for number, text in sorted(page.page.items())]
    items = [d for d in found if d and d.kind in ("class", "function", "method", "type", "macro", "target", "heading")]
    if intent.kind == "read" or not items:
        return shown
    told = {d.line: source.first_words(page.page, d.line, path) for d in items}
    outlined = [f"`{d.at}` {d.kind} {code(d.name)}{f': {told[d.line]}' if told[d.line] else ''}" for d in items]
    return f"`{path}` has {plural(total, 'line')}. {source.module_words(page.page)}\n\n{bullets(outlined, 60)}"


def default(intent: Intent) -> Plan:
    """What something is by default: assignments, parameters and fields whose name fits, with their values."""
    asked = words.terms(intent.subject)
    pattern = rf"(?:{words.either(asked)})\w*['\"]?\)?\s*(?::[^=]*)?[=:(,]"
    (result,) = yield [grep(pattern, ignore_case=True, path=intent.path, head_limit=900)]
    given = []
    for hit in (hit for hit in result.hits if is_source(hit.path) and family_of(hit.path) not in ("doc", "")):
        for name, value in re.findall(
            rf"([\w-]+)['\"]?\s*(?::[\w\[\], |.<>&' ]+?)?\s*(?:=(?!=)|:)\s*{_VALUE}", hit.text
        ):
            parts = words.parts(name)
            fit = sum(term.in_(parts) for term in asked) / max(len(asked), 1)
            score = (
                10 * fit - 1.5 * abs(len(parts) - len(asked)) + 6 * ("default" in parts) + place_weight(hit.path) / 20
            )
            given += (
                [(-score, hit.path, hit.number, f"{code(name)} is {code(value)} at `{hit.at}`")] if fit >= 0.6 else []
            )
    if not given:
        return (yield from describe(replace(intent, subject=clean(intent.text))))
    best, *others = [told for *_, told in sorted(given)]
    return f"{best}." + (f"\n\nOr:\n{bullets(others[:8])}" if others else "")
