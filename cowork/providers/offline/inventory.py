"""Things a program declares that a search can list: errors, options, commands, routes, variables, TODOs."""

from __future__ import annotations

import re

from cowork.core.frozen import frozen
from cowork.providers.offline import found, source
from cowork.providers.offline.answer import code, plural, shortened
from cowork.providers.offline.describe import describe
from cowork.providers.offline.intent import Intent, clean
from cowork.providers.offline.languages import family_of
from cowork.providers.offline.plan import Plan, grep, read
from cowork.providers.offline.rank import is_source, place_weight
from cowork.providers.offline.where import definitions, split_name

_MOST_SHOWN = 40


@frozen
class Listed:
    """What is listed, and how a line that declares one looks."""

    noun: str
    pattern: str
    looked_for: str
    anywhere: bool = False  # in tests and texts too


KINDS = {
    "todos": Listed("mark", r"(?:^|[^\w])(?:TODO|FIXME|XXX|HACK)\b", "TODO, FIXME, XXX and HACK", anywhere=True),
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
        r"|^\s*(?:pub(?:\([^)]*\))?\s+)?(?:enum|struct)\s+\w*Error\b|^\s*type\s+\w*Error\b|^\s*(?:var\s+)?Err[A-Z]\w*\s*="
        r"|^\s*[A-Z]\w*ERR\w*\s*[:=]\s*createError\(",
        "classes and types of errors",
    ),
    "options": Listed(
        "option",
        r"add_argument\(|\badd_option\(|\bclick\.(?:option|argument)\(|\btyper\.(?:Option|Argument)\("
        r"|\.(?:option|requiredOption)\(\s*['\"`]|#\[(?:arg|clap|structopt)\b|\bflag\.(?:String|Bool|Int|Duration|Var)\w*\("
        r"|\bFlags\(\)\.\w+\(|^\s*@?(?:option|opt|arg|argument)\(\s*[\"'`]-",
        "declarations of command-line options (`add_argument`, `option(`, `#[arg]`, …)",
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
        r"|^\s*(?:app|router|server|fastify|api|r|mux)\.(?:get|post|put|delete|patch|all|route|Get|Post|Put|Delete)\(\s*['\"`]"
        r"|\bHandle(?:Func)?\(\s*\"|^\s*(?:re_)?path\(\s*r?['\"]|#\[(?:get|post|put|delete|patch|route)\(",
        "declarations of routes (`@app.route`, `app.get(`, `HandleFunc(`, …)",
    ),
}


def inventory(intent: Intent) -> Plan:
    """Every one of a kind, with its place."""
    kind = KINDS[intent.subject]
    (result,) = yield [grep(kind.pattern, path=intent.path, head_limit=300)]
    hits = found.lines(result)
    if not kind.anywhere and not intent.path:
        hits = [hit for hit in hits if is_source(hit.path)] or hits
        hits = [hit for hit in hits if family_of(hit.path) not in ("doc", "data")]
    hits.sort(key=lambda h: (-place_weight(h.path), h.path, h.number))
    place = f" under `{intent.path}`" if intent.path else ""
    searched = f"I searched{place or ' all files'} for {kind.looked_for} and found none."
    if not hits and kind.anywhere:
        return searched
    if not hits:
        return (yield from describe(Intent("describe", clean(intent.text), intent.path, text=intent.text),
                                    prefix=f"{searched}\n\n"))  # fmt: skip
    total = found.totals(result)[0] if kind.anywhere else len(hits)
    rows = [f"- `{h.at}` {code(shortened(h.text.strip(' #/*-') if kind.anywhere else h.text))}" for h in hits]
    more = f"\n- and {total - _MOST_SHOWN} more" if total > _MOST_SHOWN else ""
    files = plural(len({hit.path for hit in hits}), "file")
    head = f"{plural(total, kind.noun)} in {files}{place}, by {kind.looked_for}:\n\n"
    return head + "\n".join(rows[:_MOST_SHOWN]) + more


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
