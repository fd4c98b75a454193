"""What a program declares that a search can list and count: how people name it, and how lines that declare it look."""

from __future__ import annotations

import re

from cowork.core.frozen import frozen

_MADE = r"^\s*(?:(?:export|default|declare|pub(?:\([^)]*\))?|public|private|protected|static|final|abstract|async)\s+)*"


@frozen
class Declared:
    """A sort of declaration."""

    asked: str  # how a question names it
    pattern: str  # how a line looks that declares one
    noun: str = ""
    everywhere: bool = False  # asked for of the whole program, and looked for in its source only
    after: int = 0  # lines a declaration may run on to


KINDS = {
    "todos": Declared(r"todos?|fixmes?|xxx|hacks?", r"(?:^|[^\w])(?:TODO|FIXME|XXX|HACK)\b", "mark"),
    "errors": Declared(
        r"(?:custom |own )?(?:exceptions?|errors?)(?: class(?:es)?| types?)?"
        r"(?=$|.*\b(?:defined?|declared?|there|exist|have|has|own|custom)\b)",
        _MADE + r"class\s+\w*(?:Error|Exception|Warning)\b|^\s*class\s+\w+\s*\([^)]*\b\w*(?:Error|Exception|Warning)\b"
        r"|\bextends\s+\w*(?:Error|Exception)\b|" + _MADE + r"(?:enum|struct|type)\s+\w*Error\b"
                                                            r"|^\s*(?:var\s+)?Err[A-Z]\w* =",
        "error type", everywhere=True),
    "variables": Declared(
        r"(?:environment|env) var(?:iable)?s",
        r"environ(?:\.get\(|\[)|getenv\(|process\.env[.\[]|env::var|os\.LookupEnv|ENV\[|\benvvar\s*=",
        "read of the environment", everywhere=True),
    "options": Declared(
        r"(?:command.?line|cli) (?:options|flags|switches|arguments|args|parameters)"
        r"|(?:options|flags|switches)(?=$|.*\b(?:command|cli|script|program|accept|take|support|have|there|available)\w*\b)",
        r"add_argument\(|\badd_option\(|\b(?:click|typer)\.(?:option|argument|Option|Argument)\(|#\[(?:arg|clap|structopt)\b"
        r"|\.(?:option|requiredOption)\(\s*['\"`]|\bflag\.(?:String|Bool|Int|Duration|Var)\w*\(|\bFlags\(\)\.\w+\("
        r"|^\s*@?(?:\w+\.)*(?:[oO]ption|opt|[aA]rg(?:ument)?)\(\s*(?:$|[\"'`]-)", "option", everywhere=True, after=4),
    "settings": Declared(
        r"(?:config(?:uration)? )?(?:settings|values|keys)(?=$|.*\b(?:config\w*|set|available|there|have|exist)\b)",
        _MADE + r"(?:class|interface|struct|type)\s+\w*(?:Config|Settings|Options|Defaults|Preferences)\b|\baddini\("
        r"|^\s*\w*(?:DEFAULTS?|CONFIG|SETTINGS)\w*\s*(?::[^=]+)?=\s*[{\[(]|\b(?:config|settings)\.(?:get\w*|setdefault)\(",
        "setting", everywhere=True, after=6),
    "commands": Declared(
        r"(?:sub)?commands",
        r"add_parser\(|^\s*@(?:\w+\.)*(?:command|group)\(|\.command\(\s*['\"`]|\.add_command\(|cobra\.Command\{"
        r"|derive\([^)]*Subcommand|^\s*(?:async\s+)?def\s+\w+_command\(", "command", everywhere=True),
    "routes": Declared(
        r"(?:http )?(?:routes|endpoints)",
        r"^\s*@\w+(?:\.\w+)*\.(?:route|get|post|put|delete|patch|websocket)\(|\bHandle(?:Func)?\(\s*\""
        r"|^\s*(?:app|router|server|api|r|mux)\.(?:get|post|put|delete|patch|all|route|Get|Post)\(\s*['\"`]"
        r"|^\s*(?:re_)?path\(\s*r?['\"]|#\[(?:get|post|put|delete|patch|route)\(", "route", everywhere=True),
    "targets": Declared(r"targets?|make commands", r"^[A-Za-z][\w.-]*\s*:(?:[^=]|$)", "target"),
    "tests": Declared(
        r"tests?", r"^\s*(?:async\s+)?def test\w*|^\s*func Test\w+|^\s*#\[(?:tokio::)?test\]|^\s*(?:it"
                   r"|test)\(", "test"),
    "functions": Declared(r"functions?|definitions?", _MADE + r"(?:def|function|func|fn|fun"
                                                              r"|sub)\s+\*?\s*[\w(]", "function"),
    "methods": Declared(r"methods?", r"^\s+(?:[a-z]+\s+)*(?:def|func|fn|fun)\s+\w", "method"),
    "classes": Declared(r"(?:sub)?class(?:es)?", _MADE + r"(?:class|interface|struct|enum|trait)\s+\w", "class"),
    "imports": Declared(r"imports?", r"^\s*(?:import\s|from\s+\S+\s+import\b|use\s+\w|#\s*include"
                                     r"|.*\brequire\()", "import"),
    "constants": Declared(
        r"constants?", r"^[A-Z][A-Z0-9_]+\s*(?::[^=]+)?=(?!=)"
                       r"|^\s*#\s*define\s+[A-Z]|" + _MADE + r"const\s+\w", "constant"),
    "fixtures": Declared(r"fixtures?", r"@(?:pytest\.)?fixture\b", "fixture"),
    **{f"{word}s": Declared(rf"{word}s?", _MADE + rf"(?:{word}|type\s+\w+\s+{word})\s+\w"
                                                  rf"|^\s*class\s+\w+\(.*\b{base}\b", word)
       for word, base in (("enum", r"\w*(?:Enum|Flag)"), ("struct", "Structure"), ("trait", "Protocol"),
                          ("interface", "Protocol"), ("type", "NewType"))},
}  # fmt: skip


def kind_named(text: str) -> str:
    """The first kind that a text names, if any."""
    hits = ((re.search(rf"\b(?:{kind.asked})\b", text, re.IGNORECASE), name) for name, kind in KINDS.items())
    return min(((hit.start(), name) for hit, name in hits if hit), default=(0, ""))[1]
