"""The words of a question: names of things in code, and keywords with their stems."""

from __future__ import annotations

import functools
import re

_STOP_TEXT = """
    a an the is are was were be been being do does did can could should would will shall may might must
    have has had having i you we they he she it its this that these those there here me my our your their
    them us and or but not no nor if then than so as at by for from in into of off on onto out over to under
    up via with within without about after again all also any because before between both down during each
    few further how just like more most much many now once only other own same some such too very what when
    where whether which while who whom whose why please tell show find locate look give explain describe know want
    need see code codebase repo repository project source program software application package library
    folder directory implementation implemented implements implement implementing
    defined defines define definition declared declare located live lives place happen happens
    happening logic part parts thing things stuff actually exactly gets got getting make makes made making
    work works working doing responsible used using use uses function functions method methods
    class classes module modules line lines way ways kind kinds section take takes
    taken one ones first bit piece really inside currently anyone anything something someone
    contains contain
"""
STOP = frozenset(_STOP_TEXT.split())

KINDS = {
    "function": "function method",
    "functions": "function method",
    "func": "function method",
    "method": "method function",
    "methods": "method function",
    "class": "class type",
    "classes": "class type",
    "type": "type class",
    "struct": "type",
    "interface": "type class",
    "trait": "type",
    "enum": "type class",
    "protocol": "class type",
    "dataclass": "class",
    "exception": "class",
    "constant": "variable macro",
    "variable": "variable",
    "global": "variable",
    "macro": "macro",
    "module": "module",
    "field": "field variable attribute key",
    "attribute": "attribute field variable",
    "property": "method attribute field",
    "setting": "key field variable section",
    "key": "key section field",
    "option": "option key field variable",
    "flag": "option",
    "target": "target",
    "table": "table section",
    "fixture": "function",
    "decorator": "function class",
    "test": "function method class",
    "alias": "variable type",
    "helper": "function",
    "parameter": "field",
    "section": "section heading",
}

_STRONG_KINDS_TEXT = """
    function functions func method methods class classes struct interface trait enum dataclass constant variable
    macro target decorator fixture
"""
STRONG_KINDS = frozenset(_STRONG_KINDS_TEXT.split())
# Words that say little by themselves, but break ties.
_SOFT_TEXT = """
    handle handles handled handling manage manages managed managing process processed processes processing done run
    runs running file files test tests testing
"""
SOFT = frozenset(_SOFT_TEXT.split())

_IRREGULAR_TEXT = """
    sent send; built build; kept keep; found find; written write; wrote write; made make; chosen choose; chose choose
    thrown throw; threw throw; ran run; begun begin; broken break; hidden hide; bound bind; rewound rewind; held hold
    given give; shown show; drawn draw; caught catch; lost lose; told tell; bought buy; meant mean; sought seek
    resent resend; rebuilt rebuild; overridden override; indices index; caches cache; wound wind; spelt spell
"""
_IRREGULAR = dict(re.findall(r"(\w+) (\w+)", _IRREGULAR_TEXT))

_QUOTED = re.compile(r"`([^`\n]+)`|\"([^\"\n]+)\"|“([^”\n]+)”|(?<![\w])'([^'\n]+)'(?!\w)|‘([^’\n]+)’")
_NAME = re.compile(
    r"(?<![\w/.-])(?:"
    r"--[a-zA-Z][\w-]*"  # --option
    r"|@?[A-Za-z_$][\w$]*(?:(?:\.|::|#)[A-Za-z_$][\w$]*)+(?:\(\))?"  # a.b, A::b
    r"|[A-Za-z_$][\w$]*\(\)"  # call()
    r"|_\w+|\w*[a-z0-9]_\w+|\w+__\w*"  # snake_case, _private, __dunder__
    r"|[a-z]+[A-Z]\w*"  # camelCase
    r"|[A-Z][a-z0-9]+[A-Z]\w*|[A-Z]{2,}[a-z]\w+"  # CamelCase, HTTPServer
    r"|[A-Z][A-Z0-9]*_[A-Z0-9_]+|[A-Z]{3,}"  # CONSTANT
    r")(?![\w/])"
)
_FILE = re.compile(
    r"(?<![\w/.])((?:\.{1,2}/)?(?:[\w.@+-]+/)+(?:[\w.@+-]*[\w@+]/?)?|/?[\w@+-][\w.@+-]*\.[A-Za-z][A-Za-z0-9]{0,9}"
    r"|Makefile|Dockerfile|README|LICENSE|CHANGELOG|justfile|\.[a-z][\w.-]+)(?![\w/])"
)
_BARE_FILES = frozenset(["Makefile", "Dockerfile", "README", "LICENSE", "CHANGELOG", "justfile"])
_KNOWN_ENDINGS_TEXT = """
    py pyi pyx js jsx ts tsx mjs cjs vue go rs c h cc cpp hpp cxx java kt kts scala swift cs dart php rb sh bash
    zsh lua ex exs erl hs ml jl r pl sql proto tf css scss less html htm xml toml ini cfg conf yaml yml json md
    rst txt lock csv tsv svg env mk gradle cmake ipynb typed in jsonl log"""
_KNOWN_ENDINGS = frozenset(_KNOWN_ENDINGS_TEXT.split())


def quoted(text: str) -> list[str]:
    """What stands in quotes or backticks, in order."""
    return [next(g for g in m.groups() if g) for m in _QUOTED.finditer(text)]


def names(text: str) -> list[str]:
    """Words that look like names in code, in order, each once; file names are not among them."""
    found = (m[0].rstrip("()") for m in _NAME.finditer(text))
    return list(dict.fromkeys(n for n in found if not is_file(n) and n not in _BARE_FILES))


def files(text: str) -> list[str]:
    """Words that look like paths of files or folders, in order."""
    found = (m[1] for m in _FILE.finditer(text))
    return list(dict.fromkeys(f for f in found if "/" in f or f in _BARE_FILES or is_file(f) or f.startswith(".")))


def is_file(word: str) -> bool:
    """Whether a dotted word is the name of a file rather than of an attribute."""
    stem, dot, ending = word.rpartition(".")
    return bool(dot) and (ending.lower() in _KNOWN_ENDINGS) and "::" not in stem


def is_acronym(word: str) -> bool:
    """`CLI` may be a constant or just a word in capitals."""
    return word.isupper() and word.isalpha()


def looks_like_name(word: str) -> bool:
    return bool(_NAME.fullmatch(word)) and not is_file(word)


def words(text: str) -> list[str]:
    """Plain words in lower case, names in code broken into theirs."""
    return [part for word in re.findall(r"[A-Za-z0-9_]+", text) for part in parts(word)]


def parts(name: str) -> list[str]:
    """`parse_HTTPHeader` -> parse, http, header."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name.replace("_", " ").replace("-", " "))
    spaced = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1 \2", spaced)
    return [part.lower() for part in re.findall(r"[A-Za-z]+|\d+", spaced)]


def keywords(text: str) -> list[str]:
    """The words worth searching for, in order, each once."""
    found = (w for w in words(text) if w not in STOP and len(w) > 1 and not (w.isdigit() and len(w) < 3))
    return list(dict.fromkeys(found))


@functools.lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """The part of a word its relatives share, for use as a prefix."""
    word = _IRREGULAR.get(word, word)
    if found := re.match(r"(\w{3,}y)[sz](?:is|es?|ed|ing|ers?)$", word):
        return found[1]  # analysis, analyzer
    for ending, least in (("ization", 5), ("ions", 6), ("ion", 6), ("ings", 4), ("ing", 4), ("ies", 3)):
        if word.endswith(ending) and len(word) - len(ending) >= least:
            return _single(word[: -len(ending)])
    for ending, least in (("ers", 4), ("ors", 4), ("er", 4), ("or", 4), ("ed", 4), ("es", 4), ("y", 4), ("e", 3)):
        if word.endswith(ending) and len(word) - len(ending) >= least:
            return _single(word[: -len(ending)])
    if word.endswith("s") and not word.endswith("ss") and len(word) > 3:
        return stem(word[:-1])
    return word


@functools.lru_cache(maxsize=65536)
def affinity(keyword: str, part: str) -> float:
    """How much a part of a name speaks of a keyword: 1 the same, less for relatives, 0 none."""
    if keyword == part or keyword + "s" == part or part + "s" == keyword:
        return 1.0
    root = stem(keyword)
    if len(root) >= 3 and part.startswith(root):
        return 0.8 if len(part) - len(root) <= 4 else 0.4
    return 0.3 if len(part) >= 4 and keyword.startswith(part) else 0.0


def _single(root: str) -> str:
    """`runn` -> run; a doubled consonant comes from the ending."""
    return root[:-1] if len(root) > 3 and root[-1] == root[-2] and root[-1] not in "sl" else root
