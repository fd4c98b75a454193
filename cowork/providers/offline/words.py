"""The words of a question: names in code, files, keywords with their stems, and terms to search and rank by."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence

from cowork.core.frozen import frozen
from cowork.providers.offline.languages import KNOWN_ENDINGS

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

# What sort of thing is meant: the words for it, and the kinds of definitions that are one.
_KINDS = {
    "function functions func method methods decorator fixture": ("function", "method"),
    "class classes struct interface trait enum dataclass": ("class", "type"),
    "constant variable macro": ("variable", "macro"),
    "target": ("target",),
}
KINDS = {word: kinds for said, kinds in _KINDS.items() for word in said.split()}
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
    r"(?<![\w/.])((?:(?:\.{1,2}|~)?/)?(?:[\w.@+-]+/)+(?:[\w.@+-]*[\w@+]/?)?|/?[\w@+-][\w.@+-]*\.[A-Za-z][A-Za-z0-9]{0,9}"
    r"|Makefile|Dockerfile|README|LICENSE|CHANGELOG|justfile|\.[a-z][\w.-]+)(?![\w/])"
)


def quoted(text: str) -> list[str]:
    """What stands in quotes or backticks, in order."""
    return [next(g for g in m.groups() if g) for m in _QUOTED.finditer(text)]


def names(text: str) -> list[str]:
    """Words that look like names in code, in order, each once; file names are not among them."""
    found = (m[0].rstrip("()") for m in _NAME.finditer(text))
    return list(dict.fromkeys(n for n in found if not is_file(n)))


def files(text: str) -> list[str]:
    """Words that look like paths of files or folders, in order."""
    found = (m[1] for m in _FILE.finditer(text))
    return list(dict.fromkeys(f for f in found if "/" in f or is_file(f) or f.startswith(".")))


def is_file(word: str) -> bool:
    """Whether a dotted word is the name of a file rather than of an attribute."""
    stem, dot, ending = word.rpartition(".")
    known = ending.lower() in KNOWN_ENDINGS and "::" not in stem
    return known if dot else word in ("Makefile", "Dockerfile", "README", "LICENSE", "CHANGELOG", "justfile")


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


_ENDINGS_TEXT = "ization 5 ions 6 ion 6 ings 4 ing 4 ies 3 ers 4 ors 4 er 4 or 4 ed 4 es 4 y 4 e 3"
_ENDINGS = {ending: int(least) for ending, least in re.findall(r"(\w+) (\d)", _ENDINGS_TEXT)}


@functools.lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """The part of a word its relatives share, for use as a prefix."""
    if found := re.match(r"(\w{3,}y)[sz](?:is|es?|ed|ing|ers?)$", word):
        return found[1]  # analysis, analyzer
    for ending, least in _ENDINGS.items():
        if word.endswith(ending) and len(word) - len(ending) >= least:
            root = word[: -len(ending)]  # a doubled consonant, as in running, comes from the ending
            return root[:-1] if len(root) > 3 and root[-1] == root[-2] and root[-1] not in "sl" else root
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


_MOST_TERMS = 7
# Different spellings of one thing: searched for as if they had been said.
_SAME_TEXT = """
    configuration config conf cfg settings; authentication auth authorization authenticate; environment env environ
    directory dir folder; argument arg argv; parameter param; database db; message msg; request req; response resp
    command cmd; initialization init; asynchronous async coroutine; character char; exception error err; address addr
    maximum max; minimum min; number num; temporary tmp temp; certificate cert; credential password passwd
    terminal tty console; colour color ansi; source src; destination dest dst; reference ref; delimiter separator
    regex regexp pattern; https tls ssl; uri url; dict dictionary mapping; cmdline cli commandline argparse
"""
_SAME: dict[str, set[str]] = {}
for _family in re.split(r"[;\n]", _SAME_TEXT):
    for _word in _family.split():
        _SAME.setdefault(stem(_word), set()).update(_family.split())


@frozen
class Term:
    """A word that was asked for, with its other spellings."""

    word: str
    spelled: tuple[str, ...]

    @property
    def stems(self) -> tuple[str, ...]:
        """What to search for."""
        return tuple(dict.fromkeys(stem(word) for word in self.spelled if len(word) > 2))

    def fits(self, parts: Iterable[str]) -> float:
        """How much the best of some words speaks of it: 1 the word itself, less for relatives."""
        best = max((affinity(word, part) for part in parts for word in self.spelled), default=0.0)
        return best if best >= 0.4 else 0.0


def terms(text: str) -> list[Term]:
    """The terms of a question, in order."""
    said = keywords(text)
    chosen = ([key for key in said if key not in KINDS] or said)[:_MOST_TERMS]
    return [Term(word, (word, *sorted(_SAME.get(stem(word), set()) - {word}))) for word in chosen]


def either(asked: Sequence[Term]) -> str:
    """For Grep: any of the terms, however it ends."""
    return "|".join(dict.fromkeys(re.escape(stem) for term in asked for stem in term.stems))
