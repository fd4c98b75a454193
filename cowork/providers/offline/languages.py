"""What a definition looks like, language by language: for lookups of one name and for outlines of a file."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from cowork.core.frozen import frozen

ANY_NAME = r"[A-Za-z_$][\w$]*"
_NOT_METHODS_TEXT = """
    if for while switch catch function return else do try with new throw typeof await yield super sizeof defined
    using foreach lock elseif unless until when match loop"""
_NOT_METHODS = frozenset(_NOT_METHODS_TEXT.split())
_WORD_BEFORE = re.compile(
    r"\b(?:def|function|func?|fn|fun|class|[\w$]+\.)\s*\*?\s*$"
)  # then such a word is a name after all

_EXTENSIONS: dict[str, str] = {
    "python": "py pyi pyx pxd",
    "script": "js jsx ts tsx mjs cjs mts cts vue svelte",
    "go": "go",
    "rust": "rs",
    "c": "c h cc cpp cxx hpp hh hxx m mm cu ino",
    "classes": "java kt kts scala swift cs dart php groovy",
    "ruby": "rb rake gemspec",
    "shell": "sh bash zsh fish ksh",
    "other": "lua ex exs erl hs ml jl r pl pm sql proto graphql gql tf vim el clj lisp scm zig nim",
    "style": "css scss less",
    "data": "toml ini cfg conf yaml yml json env properties",
    "doc": "md rst txt adoc",
}
FAMILY_OF = {ext: family for family, exts in _EXTENSIONS.items() for ext in exts.split()}
SOURCE = frozenset({"python", "script", "go", "rust", "c", "classes", "ruby", "shell", "other", "make"})

_OPEN = r"(?P<indent>\s*)"
_RUST_WORDS = r"(?:default\s+|const\s+|async\s+|unsafe\s+|extern\s+(?:\"[^\"]*\"\s+)?)*"
_LAMBDA = r"(?:async\s*)?(?:function\b|\([^)]*\)\s*(?::[^=]+)?=>|[\w$]+\s*=>)"
_VISIBLE = r"(?:pub(?:\([^)]*\))?\s+)?"
_MODIFIERS = (
    r"(?:(?:public|private|protected|internal|static|final|abstract|override|synchronized|async|virtual|sealed"
    r"|native|default|open|inline|suspend|data|partial|export|readonly|const|fileprivate|mutating)\s+)"
)

# family -> (kind, pattern); NAME stands for the name, `indent` is what stands before it all.
_PATTERNS: dict[str, tuple[tuple[str, str], ...]] = {
    "python": (
        ("function", _OPEN + r"(?:async\s+)?def\s+(?P<name>NAME)\b"),
        ("class", _OPEN + r"class\s+(?P<name>NAME)\b"),
        ("type", _OPEN + r"type\s+(?P<name>NAME)\b\s*[\[=]"),
        ("attribute", _OPEN + r"(?:self|cls)\.(?P<name>NAME)\s*(?::[^=]+)?=(?!=)"),
        ("variable", _OPEN + r"(?P<name>NAME)\s*(?::[^=]+)?=(?!=)"),
        ("field", r"(?P<indent>\s+)(?P<name>NAME)\s*:\s*[A-Za-z\"'][^=()]*$"),
    ),
    "script": (
        ("function", _OPEN + r"(?:[\w$]+\.)+(?P<name>NAME)\s*=\s*" + _LAMBDA),
        ("function", _OPEN + r"(?:export\s+)?(?:const|let|var)\s+(?P<name>NAME)\s*(?::[^=]+)?=\s*" + _LAMBDA),
        (
            "function",
            _OPEN + r"(?:export\s+)?(?:default\s+)?(?:declare\s+)?(?:async\s+)?function\s*\*?\s*(?P<name>NAME)\b",
        ),
        (
            "class",
            _OPEN + r"(?:export\s+)?(?:default\s+)?(?:declare\s+)?(?:abstract\s+)?class\s+(?P<name>NAME)\b",
        ),
        (
            "type",
            _OPEN + r"(?:export\s+)?(?:declare\s+)?(?:const\s+)?(?:interface|type|enum|namespace)\s+(?P<name>NAME)\b",
        ),
        ("variable", _OPEN + r"(?:export\s+)?(?:declare\s+)?(?:const|let|var)\s+(?P<name>NAME)\b"),
        (
            "attribute",
            _OPEN + r"(?:module\.)?(?:exports|this|[\w$.]+\.prototype|[A-Za-z_$][\w$]*)\.(?P<name>NAME)\s*=(?!=)",
        ),
        ("method", r"(?P<indent>\s+)(?P<name>NAME)\s*:\s*(?:async\s*)?(?:function\b|\([^)]*\)\s*=>)"),
        (
            "method",
            r"(?P<indent>\s+)(?:(?:public|private|protected|static|async|override|readonly|abstract|get|set)\s+)*"
            r"[*#]?(?P<name>NAME)\s*(?:<[^>]*>)?\([^;]*\{\s*$",
        ),
        ("key", r"(?P<indent>\s+)[\"']?(?P<name>NAME)[\"']?\s*:\s"),
    ),
    "go": (
        ("function", r"(?P<indent>)func\s+(?:\([^)]*\)\s*)?(?P<name>NAME)\b"),
        ("type", _OPEN + r"type\s+(?P<name>NAME)\b"),
        ("variable", _OPEN + r"(?:const|var)\s+(?P<name>NAME)\b"),
        ("variable", r"(?P<indent>\t)(?P<name>NAME)\s+(?:[\w.\[\]*]+\s+)?=(?!=)"),
        ("field", r"(?P<indent>\t+)(?P<name>NAME)\s+[\w\[\]*.]+(?:\s+`[^`]*`)?\s*(?://.*)?$"),
    ),
    "rust": (
        ("function", _OPEN + _VISIBLE + _RUST_WORDS + r"fn\s+(?P<name>NAME)\b"),
        ("type", _OPEN + _VISIBLE + r"(?:struct|enum|trait|union|type)\s+(?P<name>NAME)\b"),
        ("module", _OPEN + _VISIBLE + r"mod\s+(?P<name>NAME)\b"),
        ("variable", _OPEN + _VISIBLE + r"(?:const|static)\s+(?:mut\s+)?(?P<name>NAME)\b"),
        ("macro", _OPEN + r"macro_rules!\s*(?P<name>NAME)\b"),
        ("field", r"(?P<indent>\s+)" + _VISIBLE + r"(?P<name>NAME)\s*:\s*[^:].*,\s*$"),
    ),
    "c": (
        ("macro", _OPEN + r"#\s*define\s+(?P<name>NAME)\b"),
        (
            "type",
            _OPEN + r"(?:typedef\s+)?(?:struct|union|enum(?:\s+class)?|class|namespace)\s+(?P<name>NAME)\b[^;()]*$",
        ),
        ("type", _OPEN + r"(?:typedef\b.*\b|\}\s*)(?P<name>NAME)\s*;"),
        ("type", _OPEN + r"using\s+(?P<name>NAME)\s*="),
        ("function", r"(?P<indent>)(?:[A-Za-z_][\w\s*&:<>,~]*?[\s*&:])?(?P<name>NAME)\s*\([^;]*$"),
        ("method", r"(?P<indent>\s+)(?:[\w:<>*&~]+\s+)+[*&]?(?P<name>NAME)\s*\([^;]*\)[^;]*\{"),
        ("variable", r"(?P<indent>)(?:static\s+|const\s+|extern\s+)*[\w\s*]+\b(?P<name>NAME)(?:\[[^\]]*\])*\s*="),
    ),
    "classes": (
        (
            "class",
            _OPEN
            + _MODIFIERS
            + r"*(?:class|interface|enum|record|object|trait|struct|protocol|extension|@interface)\s+(?P<name>NAME)\b",
        ),
        ("function", _OPEN + _MODIFIERS + r"*(?:fun|func|def|function)\s+(?:<[^>]*>\s*)?(?:\w+\.)?(?P<name>NAME)\b"),
        ("method", r"(?P<indent>\s+)" + _MODIFIERS + r"+[\w<>\[\],.? ]+\s+(?P<name>NAME)\s*\("),
        ("method", r"(?P<indent>\s+)(?:[\w<>\[\],.?]+\s+)(?P<name>NAME)\s*\([^;=]*\)\s*(?:throws [\w, .]+)?\{\s*$"),
        ("variable", _OPEN + _MODIFIERS + r"*(?:val|var|let|const)\s+(?P<name>NAME)\b"),
        ("field", r"(?P<indent>\s+)" + _MODIFIERS + r"+[\w<>\[\],.?]+\s+\$?(?P<name>NAME)\s*[=;]"),
    ),
    "ruby": (
        ("function", _OPEN + r"def\s+(?:self\.)?(?P<name>NAME)(?![\w])"),
        ("class", _OPEN + r"(?:class|module)\s+(?:\w+::)*(?P<name>NAME)\b"),
        ("variable", _OPEN + r"(?P<name>NAME)\s*=(?!=)"),
        ("attribute", _OPEN + r"attr_(?:accessor|reader|writer)\b.*:(?P<name>NAME)\b"),
    ),
    "shell": (
        ("function", _OPEN + r"(?:function\s+)?(?P<name>NAME)\s*\(\)"),
        ("function", _OPEN + r"function\s+(?P<name>NAME)\b"),
        ("variable", _OPEN + r"(?:export\s+|local\s+|readonly\s+|declare\s+\S+\s+)?(?P<name>NAME)="),
    ),
    "make": (
        ("target", r"(?P<indent>)(?P<name>NAME)\s*:(?![=:])"),
        ("variable", r"(?P<indent>)(?:export\s+)?(?P<name>NAME)\s*[:?+]?="),
    ),
    "other": (
        ("function", _OPEN + r"(?:local\s+)?function\s+(?:[\w.:]+[.:])?(?P<name>NAME)\b"),
        (
            "function",
            _OPEN + r"(?:pub\s+|export\s+)*(?:def|defp|defmacro|sub|fn|proc|fun|let rec|let)\s+(?P<name>NAME)\b",
        ),
        ("module", _OPEN + r"(?:defmodule|module|package)\s+(?:[\w.]+\.)?(?P<name>NAME)\b"),
        ("type", _OPEN + r"(?:message|service|rpc|enum|type|input|interface|struct|data|newtype)\s+(?P<name>NAME)\b"),
        (
            "table",
            _OPEN + r"(?i:create\s+(?:or\s+replace\s+)?(?:temp\w*\s+)?(?:table|view|function|index|trigger)\s+)"
            r"(?i:if\s+not\s+exists\s+)?[\"`\[]?(?:\w+\.)?(?P<name>NAME)\b",
        ),
        ("function", _OPEN + r"\((?:defun|defmacro|defn-?|define)\s+\(?(?P<name>NAME)"),
        ("function", _OPEN + r"(?P<name>NAME)\s*(?:<-\s*function|::)"),
        ("block", _OPEN + r"(?:resource|data|variable|output|module)\s+(?:\"[^\"]*\"\s+)?\"(?P<name>NAME)\""),
        ("variable", _OPEN + r"(?:local\s+|my\s+|our\s+|let\s+)?[$@%]?(?P<name>NAME)\s*(?:=(?!=)|<-)"),
    ),
    "style": (("rule", _OPEN + r"[.#@$]?(?P<name>NAME)\b[^;]*[{:]"),),
    "data": (
        ("section", r"(?P<indent>\s*)\[+[^\]]*?(?P<name>NAME)[\"']?\]+"),
        ("key", r"(?P<indent>\s*)(?:- )?[\"']?(?P<name>NAME)[\"']?\s*[:=]"),
    ),
    "doc": (("heading", r"(?P<indent>)(?:#+|=+)\s.*?(?<!\w)(?P<name>NAME)\b"),),
}

WEIGHT = {
    "class": 100,
    "type": 100,
    "function": 98,
    "macro": 95,
    "table": 92,
    "method": 90,
    "target": 90,
    "module": 85,
    "block": 80,
    "variable": 70,
    "option": 66,
    "section": 56,
    "rule": 52,
    "field": 50,
    "key": 46,
    "attribute": 44,
    "heading": 12,
}


@frozen
class Definition:
    """A line that defines a name."""

    path: str
    line: int
    kind: str
    name: str
    indent: int
    text: str

    @property
    def at(self) -> str:
        return f"{self.path}:{self.line}"


def family_of(path: str) -> str:
    """Which family of languages a file belongs to, by its name."""
    base = path.rsplit("/", 1)[-1]
    if base in ("Makefile", "makefile", "GNUmakefile", "justfile", "Justfile") or base.endswith(".mk"):
        return "make"
    return FAMILY_OF.get(base.rpartition(".")[2].lower() if "." in base else "", "")


def definition(path: str, line: int, text: str, name: str = "", *, ignore_case: bool = False) -> Definition | None:
    """The definition a line holds, of `name` or of anything."""
    for kind, pattern in _compiled(family_of(path) or "other", name, ignore_case):
        found = pattern.match(text)
        if not found or (found["name"] in _NOT_METHODS and not _WORD_BEFORE.search(text[: found.start("name")])):
            continue
        indent = len(found["indent"].expandtabs(4))
        if kind == "function" and indent and family_of(path) == "python":
            kind = "method"
        return Definition(path, line, kind, found["name"], indent, text.strip())
    return None


@functools.lru_cache(maxsize=256)
def _compiled(family: str, name: str, ignore_case: bool) -> tuple[tuple[str, re.Pattern[str]], ...]:
    wanted = re.escape(name) if name else ANY_NAME
    flags = re.IGNORECASE if ignore_case else 0
    return tuple((kind, re.compile(text.replace("NAME", wanted), flags)) for kind, text in _PATTERNS[family])


_LEADING = (
    r"def|class|function|func|fn|fun|sub|struct|enum|union|trait|interface|type|typedef|protocol|record|object|module"
    r"|mod|namespace|package|const|let|var|val|static|macro_rules|#\s*define|message|service|rpc|TABLE|table|VIEW"
    r"|defp?|defmodule|defmacro|defun|defn|extension|using|resource|variable|output|local|export"
)


def definition_pattern(name: str) -> str:
    """For Grep: lines that may define a name; what they are is looked at again.

    A word that begins a definition stands before it, or the line begins by giving it a value, a type or a section,
    or it may begin a function in a language without a word for that.
    """
    name = _escaped(name)
    before = r"(?:export\s+|local\s+|self\.|cls\.|this\.|exports\.|[\w.]+\.prototype\.|- )*"
    return (
        rf"(?:^|[^\w])(?:{_LEADING})\b[!*]?[^=;]*[^\w$]{name}(?:[^\w]|$)"
        rf"|^\s*{before}[\"']?{name}[\"']?(?:\s*[:?+]?=|\s*:|\s*<-|\s*\(\)|\s+=)|^\s*\[+[^\]]*\b{name}\b"
        rf"|^[\w\s*&<>:,~\[\]@.?#]*\b{name}\s*(?:<[^>]*>)?\([^;]*$"
    )


OUTLINE_PATTERN = (  # loose: what it finds is looked at again
    r"^\s*(?:[\w()]+\s+){0,4}(?:def|class|function|func|fn|fun|struct|enum|trait|interface|type|impl|module|mod|namespace"
    r"|record|object|protocol|macro_rules!|message|service|defmodule|defp?|sub)\b"
)


_WORDLESS = {  # how definitions begin in languages that have no word for them
    "script": r"^\s*(?:export\s+)?(?:(?:const|let"
    r"|var)\s+)?(?:[\w$]+\.)*[\w$]+\s*[:=]\s*(?:async\s*)?(?:function\b|\([^)]*\)\s*=>)"
    r"|^\s+(?:(?:static|async|get|set|public|private|protected|override)\s+)*[*#]?[\w$]+\s*\([^;]*\)[^;=]*\{\s*$",
    "c": r"^[A-Za-z_][\w\s*&:<>,~]*\([^;]*$|^\s*#\s*define\s+\w+",
    "classes": r"^\s+(?:(?:public|private|protected|internal|static|final|override|async"
    r"|virtual)\s+)+[\w<>\[\],.? ]+\s+\w+\s*\(",
}


def outline_pattern(path: str) -> str:
    """For Grep: the lines of one file that begin definitions."""
    return outlines_pattern([path])


def outlines_pattern(paths: Sequence[str]) -> str:
    """For Grep: the lines of some files that begin definitions."""
    families = {family_of(path) for path in paths}
    return "|".join([OUTLINE_PATTERN, *(_WORDLESS[family] for family in sorted(families) if family in _WORDLESS)])


def named_pattern(stems: str) -> str:
    """For Grep: lines that may define a name with one of these stems, with or without a word that says so."""
    name = rf"[\w$]*(?:{stems})[\w$]*"
    return (
        rf"{OUTLINE_PATTERN}[^=;]*?(?:{stems})"
        rf"|^[\w\s*&.:$#<>,~]*\b{name}\s*(?:[:=]\s*(?:async\s*)?(?:function\b|\([^)]*\)\s*=>)|\([^;]*\{{\s*$)"
        rf"|^[\w\s.]*\b{name}\s*(?::[^=]+)?=[^=]"
    )


def options_pattern(flag: str) -> str:
    """For Grep: where a command-line option is spelled out in quotes, or made from a field of that name."""
    bare = flag.lstrip("-")
    field = re.escape(bare.replace("-", "_"))
    return rf"[\"'`]{re.escape(flag)}[\"'`=/\s,|<\[]|long\s*=\s*\"{re.escape(bare)}\"|^\s*(?:pub\s+)?{field}\s*:"


def _escaped(name: str) -> str:
    return re.sub(r"([^\w])", r"\\\1", name)
