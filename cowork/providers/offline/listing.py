"""What is there: files and folders, declarations of a kind, lines with a text; listed, counted or read."""

from __future__ import annotations

import re
from dataclasses import replace

from cowork.core.frozen import frozen
from cowork.providers.offline import languages, words
from cowork.providers.offline.intent import Intent, clean
from cowork.providers.offline.languages import definition, family_of
from cowork.providers.offline.locate import describe, resolve
from cowork.providers.offline.markdown import bullets, code, evidence, fence, plural
from cowork.providers.offline.plans import Plan, glob, grep, listed, read
from cowork.providers.offline.project import outline
from cowork.providers.offline.ranking import is_source, path_affinity, place_weight

_MADE = r"^\s*(?:(?:export|default|declare|pub(?:\([^)]*\))?|public|private|protected|static|final|abstract|async)\s+)*"
_ERROR = r"\w*(?:Error|Exception|Warning)\b"


@frozen
class Declared:
    """A sort of declaration."""

    asked: str  # how a question names it
    pattern: str  # how a line looks that declares one
    noun: str
    everywhere: bool = False  # asked for of the whole program, and looked for in its source only


KINDS = {
    "todos": Declared(r"todos?|fixmes?|xxx|hacks?", r"(?:^|[^\w])(?:TODO|FIXME|XXX|HACK)\b", "mark"),
    "errors": Declared(
        r"(?:custom |own )?(?:exceptions?|errors?)(?: class(?:es)?| types?)?"
        r"(?=$|.*\b(?:defined?|declared?|there|exist|have|has|own|custom)\b)",
        rf"{_MADE}(?:class|enum|struct|type)\s+{_ERROR}|^\s*class\s+\w+\s*\([^)]*\b{_ERROR}|\bextends\s+{_ERROR}"
        r"|^\s*(?:var\s+)?Err[A-Z]\w* =", "error type", everywhere=True),
    "variables": Declared(
        r"(?:environment|env) var(?:iable)?s",
        r"environ(?:\.get\(|\[)|getenv\(|process\.env[.\[]|env::var|os\.LookupEnv|ENV\[|\benvvar\s*=",
        "read of the environment", everywhere=True),
    "options": Declared(
        r"(?:command.?line|cli) (?:options|flags|switches|arguments|args|parameters)"
        r"|(?:options|flags|switches)(?=$|.*\b(?:command|cli|script|program|accept|take|support|have|there|available)\w*\b)",
        r"^\s*(?:.*(?:arg|option|opt|flag)\w*[(.].*)?[\"'`]--?[a-z][\w-]*", "option", everywhere=True),
    "commands": Declared(
        r"(?:sub)?commands",
        r"add_parser\(|^\s*@(?:\w+\.)*(?:command|group)\(|\.command\(\s*['\"`]|\.add_command\(|cobra\.Command\{"
        r"|derive\([^)]*Subcommand|^\s*(?:async\s+)?def\s+\w+_command\(", "command", everywhere=True),
    "targets": Declared(r"targets?|make commands", r"^[A-Za-z][\w.-]*\s*:(?:[^=]|$)", "target"),
    "tests": Declared(
        r"tests?", r"^\s*(?:(?:async\s+)?def test\w*|func Test\w+|#\[(?:tokio::)?test\]|(?:it|test)\()", "test"),
    "functions": Declared(
        r"functions?|definitions?", _MADE + r"(?:def|function|func|fn|fun|sub)\s+\*?\s*[\w(]", "function"),
    "methods": Declared(r"methods?", r"^\s+(?:[a-z]+\s+)*(?:def|func|fn|fun)\s+\w", "method"),
    "classes": Declared(r"(?:sub)?class(?:es)?", _MADE + r"(?:class|interface|struct|enum|trait)\s+\w", "class"),
    "imports": Declared(
        r"imports?", r"^\s*(?:import\s|from\s+\S+\s+import\b|use\s+\w|#\s*include|.*\brequire\()", "import"),
    "constants": Declared(
        r"constants?", r"^[A-Z][A-Z0-9_]+\s*(?::[^=]+)?=(?!=)|^\s*#\s*define\s+[A-Z]|" + _MADE + r"const\s+\w",
        "constant"),
}  # fmt: skip


def kind_named(text: str) -> str:
    """The first kind that a text names, if any."""
    hits = ((re.search(rf"\b(?:{kind.asked})\b", text, re.IGNORECASE), name) for name, kind in KINDS.items())
    return min(((hit.start(), name) for hit, name in hits if hit), default=(0, ""))[1]


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


def _glob_of(text: str) -> str:
    """The glob a phrase such as “python files” or “*.md files” means; empty for files of any name."""
    if star := re.search(r"[\w/]*\*[\w.*/{},-]+", text):
        return star[0] if "/" in star[0] else f"**/{star[0]}"
    hits = ((re.search(said, text, re.IGNORECASE), pattern) for said, pattern in _FILES.items())
    hit, pattern = next(((hit, pattern) for hit, pattern in hits if hit), (None, ""))
    return f"**/{pattern.format(*hit.groups()) if hit.groups() else pattern}" if hit else ""


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


def _declared(intent: Intent, kind: Declared) -> Plan:
    """Search for the shape of a declaration; list the lines, those of the program first, or only count them."""
    path = yield from resolve(intent.path)
    marks = ("TODO", "FIXME", "XXX", "HACK") if kind == KINDS["todos"] else ()
    if named := [mark for mark in marks if re.search(rf"\b{mark}S?\b", intent.text.upper())]:
        kind = replace(kind, pattern=rf"(?:^|[^\w])(?:{'|'.join(named)})\b", noun=" or ".join(named))
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
    said = words.keywords(intent.text)
    hits.sort(key=lambda h: (-place_weight(h.path) - 4 * path_affinity(h.path, said), h.path, h.number))
    number, many = max(len(hits), result.totals[0]), len({hit.path for hit in hits})
    return f"{plural(number, kind.noun)} in {plural(many, 'file')}{place}:\n\n{bullets(evidence(hits))}"


def count(intent: Intent) -> Plan:
    """How many of something, with how it was counted."""
    said, path = intent.subject.lower(), (yield from resolve(intent.path))
    files = _glob_of(said)
    times = re.search(r"\b(?:times|often|occurrences of|uses of|calls to|usages of)\b", said)
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
    items = [d for d in found if d and d.kind in ("class", "function", "method", "type", "macro", "target")]
    if intent.kind == "read" or not items:
        return shown
    told = {d.line: languages.first_words(page.page, d.line, path) for d in items}
    outlined = [f"`{d.at}` {d.kind} {code(d.name)}{f': {told[d.line]}' if told[d.line] else ''}" for d in items]
    return f"`{path}` has {plural(total, 'line')}. {languages.module_words(page.page)}\n\n{bullets(outlined, 60)}"
