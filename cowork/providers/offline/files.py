"""Files and what is in them: list, read, count, show, explain, search, TODOs."""

from __future__ import annotations

import re

from cowork.providers.offline import found, source, words
from cowork.providers.offline.answer import NEEDS_MODEL, code, fence, plural, shortened
from cowork.providers.offline.describe import describe
from cowork.providers.offline.intent import Intent
from cowork.providers.offline.languages import Definition, definition, outline_pattern
from cowork.providers.offline.plan import Call, Plan, Steps, glob, grep, read
from cowork.providers.offline.project import outline
from cowork.providers.offline.rank import place_weight
from cowork.providers.offline.where import definitions, outline_of, split_name, where

ENDINGS = {
    "python": "py",
    "javascript": "{js,jsx,mjs,cjs}",
    "typescript": "{ts,tsx}",
    "go": "go",
    "rust": "rs",
    "c": "{c,h}",
    "c++": "{cc,cpp,cxx,hpp,hh}",
    "java": "java",
    "ruby": "rb",
    "shell": "{sh,bash}",
    "markdown": "md",
    "yaml": "{yml,yaml}",
    "json": "json",
    "toml": "toml",
    "html": "{html,htm}",
    "css": "{css,scss}",
    "sql": "sql",
    "text": "txt",
}
_MOST_SHOWN = 40
_SHORT = 400  # lines that are read whole


def resolve(path: str) -> Steps[str]:
    """The path as it is in the tree: given whole, or found by its name."""
    if path in ("", ".") or path.startswith("/"):
        return path
    (hits,) = yield [glob(path if any(c in path for c in "*{") else f"**/{path.strip('/')}")]
    candidates = [p for p in found.paths(hits) if p == path or p.endswith("/" + path.strip("./"))]
    if not candidates and "." not in path and "/" not in path:  # README, LICENSE
        (hits,) = yield [glob(f"**/{path}.*")]
        candidates = found.paths(hits)
    if path in candidates or not candidates:
        return path
    return min(candidates, key=lambda p: (-place_weight(p), len(p), p))


def read_file(intent: Intent) -> Plan:
    """Show a file, or some lines of it."""
    path = yield from resolve(intent.path)
    first, _, last = intent.other.partition("-")
    start = int(first) if first else 1
    count = int(last) - start + 1 if last else 2000
    (page,) = yield [read(path, start, max(1, min(count, 2000)))]
    if page.failed and "directory" in page.text.lower():
        return (yield from _folder(path))
    if page.failed:
        return f"I could not read {code(path)}: {page.text}"
    lines = found.numbered(page)
    shown = dict(sorted(lines.items())[:200])
    total = found.total_lines(page)
    text = "\n".join(shown.values())
    note = f", lines {start}–{max(shown, default=start)} of {total}" if intent.other or len(shown) < total else ""
    return f"`{path}:{start}`{note}:\n\n{fence(text, path)}"


def explain(intent: Intent) -> Plan:
    """The outline of a file: what it says it is for, its definitions and their first words."""
    path = yield from resolve(intent.path)
    (page,) = yield [read(path)]
    if page.failed and ("directory" in page.text.lower() or "folder" in page.text.lower()):
        return (yield from outline(Intent("outline", path=path, text=intent.text)))
    if page.failed:
        return f"I could not read {code(path)}: {page.text}"
    lines, total = found.numbered(page), found.total_lines(page)
    items = _definitions(path, lines)
    if total > len(lines):
        (more,) = yield [grep(outline_pattern(path), path=path, head_limit=2000)]
        items = [d for d in outline_of(more) if d.indent <= 4]
    parts = [f"`{path}` has {plural(total, 'line')}." + (f" {told}" if (told := source.module_words(lines)) else "")]
    rows = [_outline_row(item, lines) for item in items[:60]]
    if rows:
        parts.append("\n".join(rows) + (f"\n- and {len(items) - 60} more" if len(items) > 60 else ""))
    else:
        head = [t for _, t in sorted(lines.items())][:25]
        parts.append(
            "It defines no functions or classes that I recognise. It begins:\n\n" + fence("\n".join(head), path)
        )
    return "\n\n".join(parts)


def _definitions(path: str, lines: dict[int, str]) -> list[Definition]:
    items = (definition(path, number, text) for number, text in sorted(lines.items()))
    kinds = ("class", "function", "method", "type", "macro", "module", "target", "table", "section", "heading")
    return [
        d for d in items if d and (d.kind in kinds or (d.kind == "variable" and d.indent == 0 and d.name.isupper()))
    ]


def _outline_row(item: Definition, lines: dict[int, str]) -> str:
    told = source.first_words(lines, item.line, item.path)
    if item.kind == "heading":
        return f"- `{item.at}` {item.text.strip('#= ')}"
    indent = "  " * min(item.indent // 4, 2)
    return f"{indent}- `{item.at}` {item.kind} {code(item.name)}" + (f": {told}" if told else "")


def show(intent: Intent) -> Plan:
    """The source of a function or class, with its docstring."""
    name, container = split_name(intent)
    hits = yield from definitions(intent, name, container)
    if not hits:
        return (yield from (where(intent) if words.looks_like_name(intent.subject) else describe(intent)))
    best = hits[0]
    (page,) = yield [read(best.path, max(1, best.line - 12), 260)]
    lines = found.numbered(page)
    end, text = source.body(lines, best)
    rows = text.splitlines()
    told = source.first_words(lines, best.line, best.path)
    whole = rows if len(rows) <= source.MOST_LINES else [*rows[: source.MOST_LINES], "…"]
    span = f"{best.at}-{end}" if end > best.line else best.at
    parts = [
        f"{code(best.name)} ({best.kind}) is at `{span}`" + (f": {told}" if told else "."),
        fence("\n".join(whole), best.path),
    ]
    others = [d for d in hits[1:] if d.kind == best.kind and place_weight(d.path) > -40][:4]
    if others:
        parts.append("Others of that name: " + ", ".join(f"`{d.at}`" for d in others))
    if not told and re.match(r"\s*(?:what|how|explain)", intent.text, re.IGNORECASE):
        parts.append(f"It has no docstring. {NEEDS_MODEL}")
    return "\n\n".join(parts)


def search(intent: Intent) -> Plan:
    """Lines that hold a text."""
    text = intent.subject.strip(" `'\"")
    (result,) = yield [grep(re.escape(text), path=intent.path, head_limit=300)]
    hits = sorted(found.lines(result), key=lambda h: (-place_weight(h.path), h.path, h.number))
    if not hits and text.lower() == text:
        (result,) = yield [grep(re.escape(text), path=intent.path, head_limit=300, ignore_case=True)]
        hits = found.lines(result)
    if not hits:
        if len(text.split()) > 1:
            return (yield from describe(Intent("describe", text, intent.path, text=intent.text)))
        return f"I searched all files for {code(text)} and found nothing."
    total, files = found.totals(result)
    rows = [f"- `{h.at}` {code(shortened(h.text))}" for h in hits[:25]]
    more = f"\n- and {total - 25} more" if total > 25 else ""
    return f"{code(text)} is in {plural(total, 'line')} of {plural(files, 'file')}:\n\n" + "\n".join(rows) + more


def list_(intent: Intent) -> Plan:
    """Files, folders, definitions or targets, listed."""
    what = intent.hint
    if intent.container:
        return (yield from _members(intent))
    if what.startswith(("target", "command")):
        return (yield from _targets())
    if re.match(r"class|function|method|definition|test|subclass", what) and "files" not in intent.subject:
        return (yield from _defined_in(intent, what))
    if shape := next((shape for noun, shape in _SHAPES.items() if what.startswith(noun)), ""):
        return (yield from _shaped(intent, what, shape))
    if what.startswith(("folder", "director")):
        return (yield from _folder(intent.path))
    if what.startswith("package"):
        return (yield from _packages(intent.path))
    named = intent.subject.replace(intent.path, " ") if intent.path else intent.subject
    pattern = pattern_of(named)
    if pattern == "**/*" and what.startswith("module"):
        pattern = _MODULES
    base = intent.path.rstrip("/") if intent.path and not words.is_file(intent.path) else ""
    if pattern == "**/*" and not re.search(r"\ball\b|\bevery\b", intent.subject):
        return (yield from _folder(base))
    (result,) = yield [glob(pattern, base)]
    names = sorted(found.paths(result))
    if not names:
        return f"No files match `{pattern}`" + (f" under `{base}`." if base else ".")
    total = found.total_files(result)
    rows = "\n".join(f"- `{name}`" for name in names[:_MOST_SHOWN])
    more = f"\n- and {total - _MOST_SHOWN} more" if total > _MOST_SHOWN else ""
    return f"{plural(total, 'file')} match `{pattern}`" + (f" under `{base}`" if base else "") + f":\n\n{rows}{more}"


_MODULES = "**/*.{py,js,ts,mjs,cjs,jsx,tsx,go,rs,rb,java,kt,ex,hs,ml}"


def _packages(path: str) -> Plan:
    """Folders that are packages, by the file that makes them one."""
    (result,) = yield [glob("**/{__init__.py,package.json,Cargo.toml,go.mod,mod.rs,index.ts,index.js}", path)]
    folders = sorted(
        {p.rpartition("/")[0] or "." for p in found.paths(result)}, key=lambda f: (-place_weight(f + "/x.py"), f)
    )
    if not folders:
        return "I looked for folders with `__init__.py`, `package.json`, `Cargo.toml` or `go.mod` and found none."
    rows = "\n".join(f"- `{folder}`" for folder in folders[:_MOST_SHOWN])
    return f"{plural(len(folders), 'package')}:\n\n{rows}"


def pattern_of(text: str) -> str:
    """The glob a phrase such as “python files” or “*.md files” means."""
    if star := re.search(r"[\w/]*\*[\w.*/{},-]+", text):
        return star[0] if "/" in star[0] else f"**/{star[0]}"
    if dotted := re.search(r"(?<![\w.])\.(\w{1,6})\b(?= files?)", text):
        return f"**/*.{dotted[1]}"
    low = text.lower()
    if re.search(r"\btests?(?: files)\b", low):
        return "**/{test_*,*_test.*,*.test.*,*.spec.*}"
    for name, ending in sorted(ENDINGS.items(), key=lambda item: -len(item[0])):
        if re.search(rf"(?<![\w]){re.escape(name)}(?![\w+])", low):
            return f"**/*.{ending}"
    return "**/*"


def _folder(path: str) -> Plan:
    (tree,) = yield [Call("LS", {"path": path} if path else {})]
    if tree.failed:
        return f"I could not list {code(path or '.')}: {tree.text}"
    rows = tree.text.splitlines()
    cut = rows[1:61] + (["…"] if len(rows) > 61 else [])
    return f"{rows[0]}\n\n{fence(chr(10).join(cut), 'tree.txt')}"


def _targets() -> Plan:
    (result,) = yield [grep(r"^[A-Za-z][\w.-]*\s*:(?:[^=]|$)", glob="{Makefile,justfile,*.mk}", head_limit=100)]
    hits = found.lines(result)
    if not hits:
        return "I looked for a Makefile or justfile with targets and found none."
    return "Targets:\n\n" + "\n".join(f"- `{h.at}` {code(h.text.split(':')[0].strip())}" for h in hits)


def _defined_in(intent: Intent, what: str) -> Plan:
    path = (yield from resolve(intent.path)) if intent.path else ""
    (result,) = yield [grep(outline_pattern(path), path=path, head_limit=2000)]
    if result.failed:
        return f"I could not look at {code(path)}: {result.text}"
    items = [d for d in outline_of(result) if _is(d, what)]
    place = f" in `{path}`" if path else ""
    if not items:
        return f"I found no {what}{place}."
    if not path:
        items.sort(key=lambda d: (-place_weight(d.path), d.path, d.line))
    rows = [f"- `{d.at}` {d.kind} {code(d.name)}" for d in items[:60]]
    more = f"\n- and {len(items) - 60} more" if len(items) > 60 else ""
    return f"{len(items):,} {what}{place}:\n\n" + "\n".join(rows) + more


_MADE = r"^\s*(?:(?:export|default|declare|pub(?:\([^)]*\))?|public|private|protected|static|final|abstract)\s+)*"
_SHAPES = {  # how a line looks that makes one
    "import": r"^\s*(?:import\s|from\s+\S+\s+import\b|use\s+\w|#\s*include|(?:const|let|var)\s.*\brequire\()",
    "constant": r"^[A-Z][A-Z0-9_]+\s*(?::[^=]+)?=(?!=)|^\s*#\s*define\s+[A-Z]|" + _MADE + r"const\s+[A-Z][A-Z0-9_]+\b",
    "enum": _MADE + r"enum\s+\w|^\s*class\s+\w+\(.*\b(?:\w*Enum|\w*Flag)\b",
    "struct": _MADE + r"(?:struct\s+\w|type\s+\w+\s+struct)",
    "trait": _MADE + r"trait\s+\w",
    "interface": _MADE + r"(?:interface\s+\w|type\s+\w+\s+interface)|^\s*class\s+\w+\(.*\bProtocol\b",
    "type": _MADE + r"(?:type|class|struct|enum|interface|trait)\s+\w|^\w+\s*(?::\s*TypeAlias)?\s*=\s*(?:TypeVar"
    r"|NewType|Union)\b",
    "fixture": r"@(?:pytest\.)?fixture\b",
    "macro": r"^\s*macro_rules!\s*\w|^\s*#\s*define\s+\w+\(",
}


def _shaped(intent: Intent, what: str, shape: str) -> Plan:
    """Lines that make one of a kind."""
    path = (yield from resolve(intent.path)) if intent.path else ""
    (result,) = yield [grep(shape, path=path, head_limit=400)]
    hits = [hit for hit in found.lines(result) if path or place_weight(hit.path) > -50 or what.startswith("fixture")]
    place = f" in `{path}`" if path else ""
    if not hits:
        return f"I searched for {what}{place} and found none."
    hits.sort(key=lambda h: (-place_weight(h.path), h.path, h.number))
    rows = [f"- `{h.at}` {code(shortened(h.text))}" for h in hits[:_MOST_SHOWN]]
    more = f"\n- and {len(hits) - _MOST_SHOWN} more" if len(hits) > _MOST_SHOWN else ""
    return f"{len(hits):,} {what}{place}:\n\n" + "\n".join(rows) + more


def _members(intent: Intent) -> Plan:
    """The methods of a class, with their first words."""
    hits = yield from definitions(intent, intent.container)
    best = next((d for d in hits if d.kind in ("class", "type", "function")), None)
    if best is None:
        return f"I searched for a class {code(intent.container)} and found none."
    outline_, page = yield [grep(outline_pattern(best.path), path=best.path, head_limit=2000), read(best.path)]
    items = outline_of(outline_)
    end = next((d.line for d in items if d.line > best.line and d.indent <= best.indent), 1 << 30)
    inner = [d for d in items if best.line < d.line < end]
    top = min((d.indent for d in inner), default=0)
    lines = found.numbered(page)
    rows = [_outline_row(d, lines).strip() for d in inner if d.indent == top]
    return f"{code(best.name)} (`{best.at}`) has {plural(len(rows), 'member')}:\n\n" + "\n".join(rows)


def _is(item: Definition, what: str) -> bool:
    if what.startswith("class"):
        return item.kind in ("class", "type")
    if what.startswith("method"):
        return item.kind == "method"
    if what.startswith("test"):
        return item.name.lower().startswith("test")
    return item.kind in ("function", "method") if what.startswith("function") else True


def count(intent: Intent) -> Plan:
    """How many of something, with how it was counted."""
    text = intent.subject
    low = text.lower()
    place = f" in `{intent.path}`" if intent.path else ""
    if re.search(r"\bcommits?\b", low):
        return (yield from _commits())
    if hit := re.search(
        r"(?:times|often|occurrences of|uses of|calls to|usages of)\s+(?:is |are |does |the )*(?P<x>.+)", text
    ):
        return (yield from _times(hit["x"], intent.path))
    if re.search(r"\blines?\b", low):
        return (yield from _lines(intent, low))
    if re.search(r"\bfiles?\b|\bmodules?\b", low):
        pattern = pattern_of(text) if "module" not in low else "**/*.py"
        (result,) = yield [glob(pattern, intent.path if intent.path and not words.is_file(intent.path) else "")]
        return f"{plural(found.total_files(result), 'file')} match `{pattern}`{place}."
    known = re.search(r"\b(functions?|methods?|classes|class|tests?|types?|structs?)\b", low)
    if known:
        return (yield from _kinds(intent, known[1], place))
    name = (words.quoted(text) or words.names(text) or [re.sub(r"\b(?:are|is|there|in|the|of)\b", "", text).strip()])[0]
    return (yield from _times(name, intent.path))


_COUNTED = {
    "function": r"^\s*(?:(?:export|default|pub(?:\([^)]*\))?|public|private|protected|static|async|unsafe"
    r"|const)\s+)*(?:def|function|func|fn|fun|sub)\s+\*?\s*[\w(]",
    "class": r"^\s*(?:(?:export|default|abstract|public|private|final|data|sealed)\s+)*(?:class|interface"
    r"|struct|enum|trait)\s+\w",
    "test": r"^\s*(?:async\s+)?def test\w*|^\s*func Test\w+|^\s*#\[(?:tokio::)?test\]|^\s*(?:it|test)\(",
}


def _kinds(intent: Intent, what: str, place: str) -> Plan:
    singular = what.removesuffix("s").removesuffix("e") if what.startswith("class") else what.removesuffix("s")
    singular = {"clas": "class", "method": "function", "struct": "class", "type": "class"}.get(singular, singular)
    pattern = _COUNTED[singular]
    if what.startswith("method"):
        pattern = pattern.replace(r"^\s*", r"^\s+", 1)
    path = (yield from resolve(intent.path)) if intent.path else ""
    kind = "py" if re.search(r"\bpython\b", intent.subject.lower()) else ""
    (result,) = yield [Call("Grep", _with({"pattern": pattern, "output_mode": "count"}, path=path, type=kind))]
    total, files = found.totals(result)
    top = "\n".join(f"- `{p}` {n}" for p, n in found.counts(result)[:8])
    head = f"{total:,} {what if total != 1 else singular}{place}" + (
        f" in {plural(files, 'file')}" if not place else ""
    )
    return f"{head}, counted by lines that begin a definition." + (f"\n\nMost:\n{top}" if files > 1 else "")


def _with(given: dict[str, object], **more: str) -> dict[str, object]:
    return given | {key: value for key, value in more.items() if value}


def _times(text: str, path: str) -> Plan:
    name = (words.quoted(text) or words.names(text) or text.split())[0].removesuffix("()")
    calls = bool(re.search(r"\bcall", text))
    pattern = rf"(?:^|[^\w]){re.escape(name)}" + (r"\s*\(" if calls else r"(?:[^\w]|$)")
    (result,) = yield [Call("Grep", _with({"pattern": pattern, "output_mode": "count"}, path=path))]
    total, files = found.totals(result)
    if not total:
        return f"I searched for {code(name)} and found none."
    top = "\n".join(f"- `{p}` {n}" for p, n in found.counts(result)[:8])
    verb = "is called" if calls else "occurs"
    return f"{code(name)} {verb} on {plural(total, 'line')} in {plural(files, 'file')}:\n\n{top}"


def _lines(intent: Intent, low: str) -> Plan:
    if (intent.path and words.is_file(intent.path)) or intent.path in ("Makefile", "Dockerfile", "LICENSE"):
        path = yield from resolve(intent.path)
        (page,) = yield [read(path)]
        if page.failed:
            return f"I could not read {code(path)}: {page.text}"
        return f"`{path}` has {plural(found.total_lines(page), 'line')}."
    pattern = pattern_of(low)
    glob_ = "" if pattern == "**/*" else pattern.removeprefix("**/")
    given = _with({"pattern": "^", "output_mode": "count"}, path=intent.path, glob=glob_)
    (result,) = yield [Call("Grep", given)]
    total, files = found.totals(result)
    more = "more than " if "more than" in result.text else ""
    top = "\n".join(f"- `{p}` {n:,}" for p, n in found.counts(result)[:8])
    kind = f" of {code(glob_)}" if glob_ else ""
    return f"{more}{plural(total, 'line')} in {plural(files, 'file')}{kind}. The longest:\n\n{top}"


def _commits() -> Plan:
    (result,) = yield [Call("Bash", {"command": "git rev-list --count HEAD", "description": "Count commits"})]
    number = result.text.strip().splitlines()[0] if result.text.strip() else ""
    if number.isdigit():
        return f"{plural(int(number), 'commit')} on the current branch (`git rev-list --count HEAD`)."
    return f"I could not count commits: {shortened(result.text, 200)}"
