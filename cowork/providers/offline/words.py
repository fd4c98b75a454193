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
    word = _IRREGULAR.get(word, word)
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
_RELATIVE = 0.5  # what a word of the same family counts, against the word itself
# Different spellings of one thing, a family a line or between semicolons: searched for as if they had been said.
_SAME_TEXT = """
    configuration config conf cfg settings; authentication auth authorization authenticate; environment env environ
    directory dir folder; argument arg argv; parameter param; database db; message msg; request req; response resp
    command cmd; initialization init; asynchronous async coroutine; synchronous sync; automatic auto; character char
    exception error err; address addr; length len; maximum max; minimum min; number num; temporary tmp temp
    certificate cert; credential password passwd; executable exe binary; identifier id ident; attribute attr
    extension ext suffix; implementation impl; repository repo; specification spec; statistics stats; version ver
    terminal tty console; colour color ansi; duplicate repeat dupe; serialise serialize; normalise normalize
    previous prev; source src; destination dest dst; reference ref; delimiter separator delim; difference diff
    regex regexp pattern; https tls ssl; uri url; dict dictionary mapping; concurrency concurrent; tokenize token lex
    cmdline cli commandline argparse; multiple multi; charset encoding; unknown missing
"""
# Families of words of which each may stand for the other in a name, but nobody would search for them all.
_KIN_TEXT = """
    parse read load decode extract scan tokenize split; build make create generate construct compute calculate prepare
    convert transform translate encode render serialize dump format; send write emit output print stream show display
    get fetch retrieve find lookup locate resolve search select choose detect determine
    decide determine choose check should validate verify ensure allow; delete remove drop clear discard skip
    start run launch begin serve execute spawn main invoke call; stop end close finish terminate kill cancel abort
    save store persist dump put set keep; raise throw fail error; wait sleep delay pause timeout backoff; retry attempt
    change modify update edit; merge combine join concat append; limit restrict cap max; ignore skip exclude filter
"""


def _families(text: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = {}
    for row in re.split(r"[;\n]", text):
        family = row.split()
        for word in family:
            found.setdefault(stem(word), set()).update(set(family) - {word})
    return {root: tuple(sorted(family)) for root, family in found.items()}


_SAME, _KIN = _families(_SAME_TEXT), _families(_KIN_TEXT)


@frozen
class Term:
    """A word that was asked for."""

    word: str
    same: tuple[str, ...]  # other spellings
    kin: tuple[str, ...]  # words that may stand for it in a name
    weight: float

    @property
    def stems(self) -> tuple[str, ...]:
        """What to search for."""
        return tuple(dict.fromkeys(stem(word) for word in (self.word, *self.same) if len(word) > 2))

    def fits(self, part: str) -> float:
        """How much a part of a name or a word of a text speaks of it: 1 the word itself, less for relatives."""
        said = max(affinity(word, part) for word in (self.word, *self.same))
        if said >= 0.4:
            return said
        return _RELATIVE if any(affinity(word, part) >= 0.8 for word in self.kin) else 0.0

    def in_(self, parts: Iterable[str]) -> float:
        """The best fit among several words."""
        return max((self.fits(part) for part in parts), default=0.0)

    def said_in(self, parts: Iterable[str]) -> bool:
        """Whether one of them is the word itself or another spelling of it."""
        spelled = (self.word, *self.same)
        return any(affinity(word, part) >= 0.4 for part in parts for word in spelled)


def terms(text: str) -> list[Term]:
    """The terms of a question, in order; what stands in many names says less."""
    said = keywords(text)
    found = []
    for word in ([key for key in said if key not in KINDS] or said)[:_MOST_TERMS]:
        kin = _KIN.get(stem(word), ())
        weight = 0.3 if word in SOFT else 0.65 if kin else 1.0
        found.append(Term(word, _SAME.get(stem(word), ()), kin, weight))
    return found


def either(asked: Sequence[Term]) -> str:
    """For Grep: any of the terms, however it ends."""
    return "|".join(dict.fromkeys(re.escape(stem) for term in asked for stem in term.stems))
