"""What a definition looks like, language by language: how to search for it, where it ends, what it says."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence

from cowork.core.frozen import frozen

_EXTENSIONS = {
    "python": "py pyi pyx pxd",
    "c": "c h cc cpp cxx hpp hh hxx m mm cu ino",
    "code": "js jsx ts tsx mjs cjs mts cts vue svelte go rs java kt kts scala swift cs dart php groovy rb rake gemspec"
    " sh bash zsh fish ksh lua ex exs erl hs ml jl r pl pm sql proto graphql gql tf vim el clj lisp scm zig nim",
    "make": "mk",
    "data": "css scss less toml ini cfg conf yaml yml json env properties",
    "doc": "md rst txt adoc",
}
_FAMILY_OF = {ext: family for family, exts in _EXTENSIONS.items() for ext in exts.split()}
SOURCE = frozenset(_EXTENSIONS) - {"data", "doc"}
_MORE_ENDINGS = "html htm xml lock csv tsv svg gradle cmake ipynb typed in jsonl log"
KNOWN_ENDINGS = frozenset([*_FAMILY_OF, *_MORE_ENDINGS.split()])

# How likely a definition of a kind is what somebody asks for.
_WEIGHTS = """
    class 100 type 100 function 98 macro 95 table 92 method 90 target 90 module 85 variable 70 section 56
    field 50 key 46 attribute 44
"""
WEIGHT = {kind: int(weight) for kind, weight in re.findall(r"(\w+) (\d+)", _WEIGHTS)}
INNER = ("field", "key", "attribute")  # parts of something, seldom worth a line of their own

# kind -> the words that begin a definition of that kind, in whatever language has them
_WORDS = {
    "function": "def defp defmacro function func fn fun sub proc",
    "class": "class record object protocol extension @interface",
    "type": "struct union enum trait interface type namespace message service rpc newtype",
    "module": "mod module defmodule package",
    "macro": r"macro_rules! #\s*define",
    "variable": "const let var val",
}
_IN_PYTHON = ("def", "class", "type")  # the others are words of its docstrings
_BEFORE = (
    r"(?:(?:export|default|declare|abstract|public|private|protected|internal|static|final|override|async|virtual|sealed"
    r"|open|inline|suspend|data|partial|readonly|const|local|unsafe|extern(?: \"[^\"]*\")?|pub(?:\([^)]*\))?)\s+)*"
)
_AFTER = r"(?:\s+rec|\s+mut|\s*\*)?\s+(?:\([^)]*\)\s*|<[^>]*>\s*)?(?:\w+(?:\.|::))*"
_LAMBDA = r"(?:async\s*)?(?:function\b|\([^)]*\)\s*(?::[^=]+)?=>|[\w$]+\s*=>)"
_TYPED = r"(?:[\w:<>*&~\[\],.?#]+\s+)*[*&#]?"  # modifiers and a type before a name

# (kind, families, pattern): definitions that no word begins. NAME stands for the name.
_SHAPES = (
    ("attribute", "python code c", r"(?:[\w$]+\.)+(?P<name>NAME)\s*(?::[^=]+)?=(?!=)"),
    ("method", "code c", rf"(?P<name>NAME)\s*:\s*{_LAMBDA}"),
    ("call", "code c", rf"{_TYPED}(?P<name>NAME)\s*(?:<[^>]*>)?\([^;]*\{{\s*$"),
    ("function", "c", r"(?<!\s)(?:[A-Za-z_][\w\s*&:<>,~]*?[\s*&:])?(?P<name>NAME)\s*\([^;]*$"),
    ("type", "c", r"(?:typedef\b.*\b|\}\s*)(?P<name>NAME)\s*;"),
    ("table", "code", r"(?i:create\s+(?:\w+\s+){0,3}?(?:table|view|function|index|trigger)\s+"
                       r"(?:if\s+not\s+exists\s+)?)[\"`\[]?(?:\w+\.)?(?P<name>NAME)\b"),
    ("field", "python code c", r"(?<=\s)[\"']?(?P<name>NAME)[\"']?\s*:\s*[A-Za-z\"'\[{(\d-]"),
    ("variable", "python code c make", _TYPED + r"[$@%]?(?P<name>NAME)(?:\[[^\]]*\])*\s*(?::[^=]+)?"
                                                 r"(?:[:?+]?=(?![=>])|<-)"),
    ("target", "make", r"(?P<name>NAME)\s*:"),
    ("section", "data", r"\[+[^\]]*?(?P<name>NAME)[\"']?\]+"),
    ("key", "data", r"(?:- )?[\"']?(?P<name>NAME)[\"']?\s*[:=]"),
)  # fmt: skip
_NO_NAMES_TEXT = """
    if for while switch catch function return else do try with new throw typeof await yield super sizeof defined using
    foreach lock elseif unless until when match loop
"""
_NO_NAMES = frozenset(_NO_NAMES_TEXT.split())
_WORD_BEFORE = re.compile(r"\b(?:def|function|func?|fn|fun|class|[\w$]+\.)\s*\*?\s*$")  # then it is a name after all


@frozen
class Line:
    """A line of a file that a search found."""

    path: str
    number: int
    text: str

    @property
    def at(self) -> str:
        return f"{self.path}:{self.number}"


@frozen
class Definition(Line):
    """A line that defines a name."""

    kind: str
    name: str
    indent: int


def family_of(path: str) -> str:
    """Which family of languages a file belongs to, by its name."""
    base = path.rsplit("/", 1)[-1]
    if base.lower() in ("makefile", "gnumakefile", "justfile"):
        return "make"
    return _FAMILY_OF.get(base.rpartition(".")[2].lower() if "." in base else "", "")


def definition(line: Line, name: str = "", *, ignore_case: bool = False) -> Definition | None:
    """The definition a line holds, of `name` or of anything."""
    family, text = family_of(line.path), line.text
    for kind, pattern in _compile_patterns(family or "code", name, ignore_case):
        found = pattern.match(text)
        if not found or (found["name"] in _NO_NAMES and not _WORD_BEFORE.search(text[: found.start("name")])):
            continue
        if kind == "type" and family == "c" and text.rstrip().endswith(";") and "typedef" not in text:
            continue  # it only uses the type
        indent = len(found["indent"].expandtabs(4))
        if kind == "call" or (kind == "function" and family == "python"):
            kind = "method" if indent else "function"
        return Definition(line.path, line.number, text.strip(), kind, found["name"], indent)
    return None


@functools.lru_cache(maxsize=256)
def _compile_patterns(family: str, name: str, ignore_case: bool) -> tuple[tuple[str, re.Pattern[str]], ...]:
    wanted = re.escape(name) if name else r"[A-Za-z_$][\w$]*"
    before = r"(?:export\s+)?(?:(?:const|let|var)\s+|(?:[\w$]+\.)+)"
    rows = [("function", rf"{before}(?P<name>NAME)\s*(?::[^=]+)?=\s*{_LAMBDA}")] if family == "code" else []
    for kind, text in _WORDS.items() if family in ("python", "code", "c") else ():
        if words := [word for word in re.split(" ", text) if family != "python" or word in _IN_PYTHON]:
            rows.append((kind, rf"{_BEFORE}(?:{'|'.join(words)}){_AFTER}(?P<name>NAME)(?![\w$])"))
    rows += [(kind, pattern) for kind, families, pattern in _SHAPES if family in families.split()]
    flags = re.IGNORECASE if ignore_case else 0
    return tuple((kind, re.compile(rf"(?P<indent>\s*){row.replace('NAME', wanted)}", flags)) for kind, row in rows)


def definition_pattern(name: str) -> str:
    """For Grep: lines that may define a name, by a word before it or a value after it; they are looked at again."""
    name = re.sub(r"([^\w])", r"\\\1", name)
    before = r"(?:export\s+|local\s+|self\.|cls\.|this\.|exports\.|[\w.]+\.prototype\.|- )*"
    return (
        rf"(?:^|[^\w])(?:{_LEADING})\b[!*]?[^=;]*[^\w$]{name}(?:[^\w]|$)"
        rf"|^\s*{before}[\"']?{name}[\"']?(?:\s*[:?+]?=|\s*:|\s*<-|\s*\(\)|\s+=)|^\s*\[+[^\]]*\b{name}\b"
        rf"|^[\w\s*&<>:,~\[\]@.?#]*\b{name}\s*(?:<[^>]*>)?\([^;]*$"
    )


_OUTLINED = [word.strip("!@") for kind, words in _WORDS.items() if kind != "variable" for word in words.split(" ")]
_LEADING = "|".join(sorted([*_OUTLINED, *_WORDS["variable"].split(), "typedef", "static", "TABLE", "table", "VIEW"]))


def outline_pattern(stems: str = "") -> str:
    """For Grep: lines that may define a name, or one with such a stem, with or without a word that says so."""
    name = rf"[\w$]*(?:{stems})[\w$]*"
    return (
        rf"^\s*(?:[\w()]+\s+){{0,4}}(?:{'|'.join(_OUTLINED)}|impl)\b[^=;]*?(?:{stems})"
        rf"|^[\w\s*&.:$#<>,~\[\]?]*\b{name}\s*(?:[:=]\s*(?:async\s*)?(?:function\b|\([^)]*\)\s*=>)|\([^;]*\{{\s*$)"
        + (rf"|^[\w\s.]*\b{name}\s*(?::[^=]+)?=[^=]" if stems else r"|^[A-Za-z_][\w\s*&:<>,~]*\([^;]*$")
    )


def enclosing(outline: Sequence[Definition], line: int) -> str:
    """`Class.method` around a line, by the definitions before it and their indentation."""
    chain: list[Definition] = []
    for item in outline:
        if item.number > line:
            break
        while chain and chain[-1].indent >= item.indent:
            chain.pop()
        chain.append(item)
    return ".".join(item.name for item in chain)


# ---------------------------------------------------------------- what can be listed

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


def find_kind(text: str) -> str:
    """The first kind that a text names, if any."""
    hits = ((re.search(rf"\b(?:{kind.asked})\b", text, re.IGNORECASE), name) for name, kind in KINDS.items())
    return min(((hit.start(), name) for hit, name in hits if hit), default=(0, ""))[1]


# ---------------------------------------------------------------- what a definition says

_DOCSTRING = re.compile(r'\s*[rRuU]?("""|\'\'\')\s*(.*?)\s*(?:\1|\n\s*\n|$)', re.DOTALL)
_COMMENT = re.compile(r"^\s*(?:///?!?|#+|--|;+|%+|/?\*+!?)\s?(.*?)(?:\s*\*+/)?$")
_CLOSES = re.compile(r"\s*(?:[)\]}{]|else\b|elif\b|except\b|finally\b|catch\b|end\b)")


def first_words(lines: Mapping[int, str], item: Definition) -> str:
    """The first sentence a file or a definition says of itself: in its docstring, or in a comment at or above it."""
    if item.kind == "file":
        return _sentence(_opening("\n".join(lines.get(number, "") for number in range(1, 16))))
    if family_of(item.path) == "python":
        below = "\n".join(lines.get(number, "") for number in range(item.number, item.number + 25))
        after = re.search(r":\s*(?:#.*)?\n", below)
        found = _DOCSTRING.match(below, after.end()) if after else None
        return _sentence(found[2]) if found else ""
    rows: list[str] = []
    for number in range(item.number - 1, max(item.number - 12, 0), -1):
        text = lines.get(number, "").strip()
        if text.startswith(("@", "#[", "[")) and not rows:
            continue
        hit = _COMMENT.match(text) if text else None
        if not hit:
            break
        said = hit[1].strip(" */")
        rows = [] if said.startswith("@") else [said, *rows]  # tags come after the words
    return _sentence(" ".join(rows))


def _opening(text: str) -> str:
    """The docstring a file begins with, or else its first comment that says something."""
    if before := re.match(r"(?:#.*\n|\s)*(?=[rRuU]?(?:\"\"\"|'''))", text):
        found = _DOCSTRING.match(text, before.end())
        return found[2] if found else ""
    said = (hit[1] for row in text.split("\n")[:8] if not row.startswith("#!") and (hit := _COMMENT.match(row)))
    return next((comment for comment in said if len(comment) > 15), "")


def body(lines: Mapping[int, str], item: Definition) -> list[str]:
    """The lines of a definition: what is indented deeper than its first line, and the line that closes it."""
    deep, end = indent_of(lines.get(item.number, "")), item.number
    for number in range(item.number + 1, max(lines, default=item.number) + 1):
        text = lines.get(number, "")
        if text.strip() and indent_of(text) <= deep and not _CLOSES.match(text):
            break
        end = number if text.strip() else end
    return [lines.get(number, "") for number in range(item.number, end + 1)]


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    found = re.match(r"(.{15,}?[.!?])(?:\s+[A-Z`*(]|$)", text)
    text = found[1] if found else text
    return text if len(text) <= 220 else text[:219] + "…"


def indent_of(text: str) -> int:
    return len(text) - len(text.lstrip())
