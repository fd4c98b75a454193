"""Things a program declares that a search can list: errors, options, settings, commands, routes, variables, TODOs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from cowork.core.frozen import frozen
from cowork.providers.offline import found, source, words
from cowork.providers.offline.answer import code, plural, shortened
from cowork.providers.offline.describe import describe
from cowork.providers.offline.facts import script_module
from cowork.providers.offline.files import show
from cowork.providers.offline.found import Line
from cowork.providers.offline.intent import Intent, clean
from cowork.providers.offline.languages import family_of
from cowork.providers.offline.plan import Plan, Steps, grep, read
from cowork.providers.offline.project import look
from cowork.providers.offline.rank import is_source, path_affinity, place_weight
from cowork.providers.offline.where import definitions, split_name

_MOST_SHOWN = 40


@frozen
class Listed:
    """What is listed, and how a line that declares one looks."""

    noun: str
    pattern: str
    looked_for: str
    anywhere: bool = False  # in tests and texts too
    after: int = 0  # lines a declaration may run on to
    first: str = ""  # the lines that come before the others


KINDS = {
    "todos": Listed("mark", r"(?:^|[^\w])(?:TODO|FIXME|XXX|HACK)\b", "TODO, FIXME, XXX and HACK", anywhere=True),
    "raised": Listed(
        "place",
        r"^\s*raise\s+\w|\bthrow\s+\w|\bcreateError\(|\bbail!|\bpanic!?\(|\bErr\(|\berrors\.New\(|\bfmt\.Errorf\(",
        "lines that raise (`raise`, `throw`, `Err(`, …)",
    ),
    "exits": Listed(
        "line",
        r"\bsys\.exit\(|\bos\._exit\(|\bprocess\.exit|\bos\.Exit\(|process::exit\(|\bSystemExit\(|\bExitCode\b"
        r"|\bclass \w*(?:Exit|Status)\w*\(.*Enum|\b(?:EXIT|ERROR|SUCCESS)(?:_\w+)?\s*=\s*\d|\bEXIT_\w+\s*[:=]"
        r"|\btyper\.Exit\(|\.exit\(\d",
        "exit codes (`sys.exit`, `process.exit`, `EXIT_…`, enums of statuses)",
        first=r"class |=\s*\d",
    ),
    "settings": Listed(
        "setting",
        r"^\s*(?:export )?(?:class|interface|struct|type|pub struct)\s+\w*(?:Config|Settings|Options|Defaults"
        r"|Preferences)\b"
        r"|^\s*(?:export )?(?:const |let |var |self\.)?\w*(?:DEFAULT|default|CONFIG|SETTINGS|settings"
        r"|config)\w*\s*(?::[^=]+)?=\s*[{\[(]"
        r"|\.set(?:_|)default\(|\baddini\(|\b(?:config|settings|options)\.(?:get\w*\(|setdefault\()|\badd_setting\(",
        "settings (classes and tables of settings, reads of a config)",
        after=6,
    ),
    "variables": Listed(
        "read of the environment",
        r"environ(?:\.get\(|\[)|getenv\(|process\.env\.\w|process\.env\[|env::var|os\.LookupEnv|os\.Getenv|ENV\["
        r"|\benvvar\s*=",
        "reads of the environment (`os.environ`, `getenv`, `process.env`, …)",
    ),
    "errors": Listed(
        "error type",
        r"^\s*(?:export\s+|default\s+|public\s+|abstract\s+|final\s+)*class\s+\w*(?:Error|Exception|Warning)\b"
        r"|^\s*class\s+\w+\s*\([^)]*\b\w*(?:Error|Exception|Warning)\b|\bextends\s+\w*(?:Error|Exception)\b"
        r"|^\s*(?:pub(?:\([^)]*\))?\s+)?(?:enum|struct)\s+\w*Error\b|^\s*type\s+\w*Error\b"
        r"|^\s*(?:var\s+)?Err[A-Z]\w*\s*="
        r"|^\s*[A-Z]\w*ERR\w*\s*[:=]\s*createError\(",
        "classes and types of errors",
    ),
    "options": Listed(
        "option",
        r"add_argument\(|\badd_option\(|\bclick\.(?:option|argument)\(|\btyper\.(?:Option|Argument)\("
        r"|\.(?:option|requiredOption)\(\s*['\"`]|#\[(?:arg|clap|structopt)\b|\bflag\.(?:String|Bool|Int|Duration"
        r"|Var)\w*\("
        r"|\bFlags\(\)\.\w+\(|\b(?:Option|Argument)\(\s*['\"]-|^\s*@(?:\w+\.)*(?:option|argument)\(|^\s*@?(?:option"
        r"|opt|arg|argument)\(\s*[\"'`]-",
        "declarations of command-line options (`add_argument`, `option(`, `#[arg]`, …)",
        after=4,
    ),
    "commands": Listed(
        "command",
        r"add_parser\(|^\s*@(?:\w+\.)*(?:command|group)\(|\.command\(\s*['\"`]|\.add_command\(|cobra\.Command\{"
        r"|derive\([^)]*Subcommand|^\s*(?:async\s+)?def\s+\w+_command\(",
        "declarations of commands (`add_parser`, `@command`, `.command(`, …)",
    ),
    "routes": Listed(
        "route",
        r"^\s*@\w+(?:\.\w+)*\.(?:route|get|post|put|delete|patch|websocket)\("
        r"|^\s*(?:app|router|server|fastify|api|r|mux)\.(?:get|post|put|delete|patch|all|route|Get|Post|Put"
        r"|Delete)\(\s*['\"`]"
        r"|\bHandle(?:Func)?\(\s*\"|^\s*(?:re_)?path\(\s*r?['\"]|#\[(?:get|post|put|delete|patch|route)\(",
        "declarations of routes (`@app.route`, `app.get(`, `HandleFunc(`, …)",
    ),
}


def inventory(intent: Intent) -> Plan:
    """Every one of a kind, with its place."""
    kind = _asked(intent)
    path = intent.path
    if intent.container:
        path = yield from _behind(intent.container)
        if not path:
            if (yield from definitions(intent, intent.container)):
                return (yield from show(replace(intent, kind="show", subject=intent.container, container="")))
            path = intent.path
    (result,) = yield [grep(kind.pattern, path=path, after=kind.after, head_limit=900 if kind.after else 300)]
    every = found.lines_with_context(result) if kind.after else found.lines(result)
    hits = _ranked(found.lines(result), kind, intent)
    place = f" under `{path}`" if path else ""
    searched = f"I searched{place or ' all files'} for {kind.looked_for} and found none."
    if not hits and kind.anywhere:
        return searched
    if not hits:
        return (yield from describe(Intent("describe", clean(intent.text), intent.path, text=intent.text),
                                    prefix=f"{searched}\n\n"))  # fmt: skip
    texts = {(line.path, line.number): line.text for line in every}
    rows = [f"- `{h.at}` {code(shortened(_whole(h, texts, kind)))}" for h in hits[:_MOST_SHOWN]]
    more = f"\n- and {len(hits) - _MOST_SHOWN} more" if len(hits) > _MOST_SHOWN else ""
    files = plural(len({hit.path for hit in hits}), "file")
    head = f"{plural(len(hits), kind.noun)} in {files}{place}, by {kind.looked_for}:\n\n"
    return head + "\n".join(rows) + more


_MARKS = ("TODO", "FIXME", "XXX", "HACK")


def _asked(intent: Intent) -> Listed:
    """The kind; of marks only those that are named."""
    kind = KINDS[intent.subject]
    named = [mark for mark in _MARKS if re.search(rf"\b{mark}S?\b", intent.text, re.IGNORECASE)]
    if intent.subject != "todos" or not named:
        return kind
    return replace(kind, pattern=rf"(?:^|[^\w])(?:{'|'.join(named)})\b", looked_for=" and ".join(named))


def _behind(name: str) -> Steps[str]:
    """The file or folder that a command's options are declared in, by the manifest that installs it."""
    files = yield from look()
    module = script_module(files, name)
    if not module:
        return ""
    package = module.rsplit("/", 1)[0] if "/" in module else module
    here, near = yield [
        grep(KINDS["options"].pattern, glob=f"**/{module}.py,**/{module}/__init__.py", head_limit=5),
        grep(KINDS["options"].pattern, glob=f"**/{package}/**", head_limit=50),
    ]
    if own := found.lines(here):
        return own[0].path
    beside = {line.path.rsplit("/", 1)[0] for line in found.lines(near) if is_source(line.path)}
    return min(beside, key=lambda folder: (folder.count("/"), folder), default="")


def _ranked(hits: list[Line], kind: Listed, intent: Intent) -> list[Line]:
    """Those of the program first; the words of the question and the shape of the line decide next."""
    if kind.anywhere:
        hits = [hit for hit in hits if family_of(hit.path)]
    elif not intent.path:
        hits = [hit for hit in hits if is_source(hit.path)] or hits
        hits = [hit for hit in hits if family_of(hit.path) not in ("doc", "data")]
    said = words.keywords(intent.text)
    first = re.compile(kind.first) if kind.first else None

    def weight(hit: Line) -> tuple[bool, float, str, int]:
        late = first is not None and not first.search(hit.text)
        return (late, -place_weight(hit.path) - 4 * path_affinity(hit.path, said), hit.path, hit.number)

    return sorted(hits, key=weight)


def _whole(hit: Line, texts: Mapping[tuple[str, int], str], kind: Listed) -> str:
    """A declaration with the lines it runs on to: its names may stand there."""
    if kind.anywhere:
        return hit.text.strip(" #/*-")
    text = hit.text.strip()
    for number in range(hit.number + 1, hit.number + 1 + kind.after):
        more = texts.get((hit.path, number), "").strip()
        closed = (
            text.count("(") <= text.count(")") and not text.startswith(("#[", "class", "@")) and text[-1:] not in "{[("
        )
        if closed or not more or len(text) > 100:
            break
        text += f" {more}"
    return text


_RAISES = {
    "python": r"^\s*raise\b|:raises?\b|^\s*Raises?:|\babort\(",
    "script": r"\bthrow\b|\breject\(|\bnew \w*Error\(|\bcreateError\(|@throws|\b(?:next|callback|cb|done)\(err",
    "rust": r"\bErr\(|\bbail!|\bensure!|\bpanic!|\banyhow!|\bunwrap\(\)|\bexpect\(|\.(?:with_)?context\(",
    "go": r"\berrors\.New|\bErrorf\(|\bpanic\(|\breturn\b.*\b[eE]rr\w*",
}
_RAISES_ELSEWHERE = r"\bthrow\b|\braise\b|\bpanic\b|\bError\b|\bdie\b|\breturn -1\b|\bNULL;"


def raises(intent: Intent) -> Plan:
    """The errors a function or class raises itself."""
    name, container = split_name(intent)
    hits = yield from definitions(intent, name, container)
    if not hits:
        return (yield from describe(Intent("describe", clean(intent.text), intent.path, text=intent.text)))
    best = hits[0]
    (page,) = yield [read(best.path, max(1, best.line - 12), 600)]
    lines = found.numbered(page)
    end, _ = source.body(lines, best)
    pattern = re.compile(_RAISES.get(family_of(best.path), _RAISES_ELSEWHERE))
    above = best.line if family_of(best.path) == "python" else best.line - 12
    inner = [(n, text) for n, text in sorted(lines.items()) if above <= n <= end and pattern.search(text)]
    shown = f"{container}.{best.name}" if container else best.name
    head = f"{code(shown)} (`{best.at}-{end}`)"
    rest = "What it calls may raise more; following calls needs a real model."
    if not inner:
        return f"{head} raises nothing itself that I recognise. {rest}"
    rows = "\n".join(f"- `{best.path}:{n}` {code(shortened(text))}" for n, text in inner[:_MOST_SHOWN])
    return f"{head} can fail at {plural(len(inner), 'line')}:\n\n{rows}\n\n{rest}"
