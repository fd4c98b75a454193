"""The words of a question, and which of many places they most likely mean.

Source comes before tests and docs, definitions before mentions, and rare words say more than common ones.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Mapping, Sequence

from cowork.core.frozen import frozen
from cowork.providers.offline import languages
from cowork.providers.offline.languages import Definition, Line, family_of

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


def quotations(text: str) -> list[str]:
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
    known = ending.lower() in languages.KNOWN_ENDINGS and "::" not in stem
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


_ENDING = re.compile(
    r"(\w{5,})ization|(\w{6,}?)ions?|(\w{3,}?)ies|(\w{4,}?)(?:ings?|ers?|ors?|ed|es|y)|(\w{3,}?)e|(\w{3,})(?<!s)s"
)


@functools.lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """The part of a word its relatives share, for use as a prefix."""
    found = _ENDING.fullmatch(word)
    root = next(filter(None, found.groups())) if found else word
    # A doubled consonant, as in running, comes from the ending.
    return root[:-1] if found and len(root) > 3 and root[-1] == root[-2] and root[-1] not in "sl" else root


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


# ---------------------------------------------------------------- ranking

_TESTS = re.compile(
    r"(?:^|/)(?:tests?|testing|spec|specs|__tests__|e2e)/"
    r"|(?:^|/)(?:test_[^/]*|conftest\.py|[^/]*(?:_test|\.test|\.spec)\.\w+)$"
)
_DOCS = re.compile(r"(?:^|/)(?:docs?|documentation|site|man)/|\.(?:md|rst|txt|adoc)$", re.IGNORECASE)
_ASIDE = re.compile(
    r"(?:^|/)(?:examples?|samples?|demos?|benchmarks?|scripts|tools|contrib|fixtures|golden|playground)/"
)
_FOREIGN = re.compile(
    r"(?:^|/)(?:vendor|vendored|_vendor|third_party|node_modules|dist|build|site-packages|\.venv|[\w.-]+\.egg-info)/"
    r"|\.min\.\w+$|-lock\.\w+$|\.lock$"
)


def place_weight(path: str, keywords: Sequence[str] = ()) -> float:
    """How likely code at this path is what somebody asks about; more so if the path speaks of the keywords."""
    weights = ((_TESTS, 60), (_DOCS, 50), (_ASIDE, 15), (_FOREIGN, 80))
    weight = -sum(less for pattern, less in weights if pattern.search(path))
    weight -= 25 * (family_of(path) not in languages.SOURCE) + min(path.count("/"), 6)
    there = words(path.rpartition(".")[0] or path) if keywords else []
    return weight + 4 * sum(max((affinity(word, part) for part in there), default=0.0) for word in keywords)


def is_source(path: str) -> bool:
    return not (_TESTS.search(path) or _DOCS.search(path) or _FOREIGN.search(path))


def is_test(path: str) -> bool:
    return bool(_TESTS.search(path))


def by_place(lines: Iterable[Line], keywords: Sequence[str] = ()) -> list[Line]:
    """Lines, those of the program first."""
    return sorted(lines, key=lambda line: (-place_weight(line.path, keywords), line.path, line.number))


def likeliest(found: Iterable[Definition], question: str = "", hint: str = "") -> list[Definition]:
    """Definitions, the likeliest first; the words of the question break ties."""
    said = keywords(question)

    def score(item: Definition) -> tuple[float, str, int]:
        points = languages.WEIGHT[item.kind] + place_weight(item.path, said)
        points += 40 * (item.kind in KINDS.get(hint, ())) + 8 * (item.indent == 0)
        return (-points, item.path, item.number)

    return sorted({d.at: d for d in found}.values(), key=score)


def rank_files(asked: Sequence[Term], lines: Iterable[Line], paths: Iterable[str]) -> list[str]:
    """Files, the likeliest first, by their names and the lines a search found in them."""
    places = {path: Place(_file(path)) for path in paths if family_of(path)}
    for line in dict.fromkeys(lines):
        if family_of(line.path):
            places.setdefault(line.path, Place(_file(line.path))).lines.append(words(line.text))
    return [place.at.path for place in _rank(asked, list(places.values()))]


def rank_places(asked: Sequence[Term], by_file: Mapping[str, Sequence[Line]]) -> list[Place]:
    """What the files define, the likeliest first; each file as a whole is a place too."""
    return _rank(asked, [place for path, lines in by_file.items() for place in _places(path, lines)])


def _file(path: str) -> Definition:
    """A file as a place; the name that tells of it is its folder's where its own is that of every such file."""
    *folders, base = path.split("/")
    stem = base.split(".")[0]
    name = folders[-1] if folders and stem in ("__init__", "index", "mod", "lib", "main") else stem
    return Definition(path, 1, "", "file", name, indent=-1)


_ABOVE = re.compile(r"\s*(?:@|#\[|#(?!\s*(?:define|include|if))|//|/\*|\*|--)")
_KIND = {"variable": -0.05, "file": -0.1, "class": 0.05, "type": 0.03, "module": -0.04}


class Place:
    """A definition (or a file), with the words of the lines that belong to it, and how well it fits what was asked."""

    def __init__(self, at: Definition, around: Sequence[Definition] = ()) -> None:
        self.at, self.around = at, around  # the definitions it is in, the outermost first
        self.own = parts(at.name)
        self.lines: list[list[str]] = []
        self.score = 0.0
        self.named: list[str] = []  # terms its name speaks of, with the class and the file it is in
        self.said: list[str] = []  # terms its docstring, comments and body speak of

    @property
    def label(self) -> str:
        """The place and what is there."""
        name = ".".join(d.name for d in (*self.around[1:][-1:], self.at))
        return f"`{self.at.at}`, " + ("the file itself" if self.at.kind == "file" else f"{self.at.kind} `{name}`")

    def judge(self, asked: Sequence[Term], worth: Mapping[str, float]) -> None:
        """Set the score: how much its name, what is around it and its lines speak of the terms."""
        around = [part for d in self.around or [_file(self.at.path)] for part in parts(d.name)]
        points = 0.0
        for term in asked:
            told = sum(term.fits(row) > 0 for row in self.lines)
            heard = 3.2 * term.fits(self.own) + 1.2 * term.fits(around) + 1.5 * told / (told + 1)
            points += worth[term.word] * heard / (heard + 1.4)
            if term.fits([*self.own, *around]):
                self.named.append(term.word)
            elif told:
                self.said.append(term.word)
        whole = sum(worth.values()) or 1.0
        meant = sum(max(term.fits([part]) for term in asked) for part in self.own) / max(len(self.own), 1)
        self.score = points / whole + meant * (0.06 + 0.2 * sum(worth[word] for word in self.named) / whole)
        self.score += _KIND.get(self.at.kind, 0) + place_weight(self.at.path) / 250
        self.score += 0.06 * (asked[-1].fits(self.own[-1:]) >= 0.8)  # “the daemon server” is a server


def _rank(asked: Sequence[Term], places: Sequence[Place]) -> list[Place]:
    """Places by how well they fit; rare words say more than common ones."""
    said = [{part for row in (place.own, *place.lines) for part in row} for place in places]
    seen = {term.word: sum(term.fits(parts) > 0 for parts in said) for term in asked}
    worth = {word: math.log(1 + (len(places) + 1) / (number + 0.5)) for word, number in seen.items()}
    for place in places:
        place.judge(asked, worth)
    return sorted((p for p in places if p.named or p.said), key=lambda p: (-p.score, p.at.path, p.at.number))


def _places(path: str, lines: Sequence[Line]) -> list[Place]:
    """The definitions of a file, each with the lines in it and the comment above it."""
    chain = [Place(_file(path))]  # the file itself is indented less than any line
    places = list(chain)
    above: list[list[str]] = []
    for line in sorted(lines, key=lambda each: each.number):
        item = languages.definition(line)
        if item and _is_place(item):
            chain = [outer for outer in chain if outer.at.indent < item.indent]
            place = Place(item, [outer.at for outer in chain])
            place.lines, above = above, []
            places.append(place)
            chain += [place] if item.kind != "variable" else []
        elif _ABOVE.match(line.text):
            above.append(words(line.text))
        else:  # it belongs to the innermost definition that is indented less
            deep = languages.indent_of(line.text)
            [outer for outer in chain if outer.at.indent < deep][-1].lines.append(words(line.text))
    return places


def _is_place(item: Definition) -> bool:
    """Whether a definition is worth naming: not a field, not an import, not a local variable."""
    if item.kind != "variable":
        return item.kind not in languages.INNER
    return (item.indent == 0 or item.name.isupper()) and not re.search(r"\brequire\(|\bimport\b", item.text)
