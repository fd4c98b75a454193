"""The words of a question as terms to search and rank by: each with its relatives and what it is worth."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from cowork.core.frozen import frozen
from cowork.providers.offline import words

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
    typo similar suggest; charset encoding; 404 notfound; unknown missing
    cmdline cli commandline argparse optparse getopt; multiple multi
"""
# Families of words of which each may stand for the other in a name, but nobody would search for them all.
_KIN_TEXT = """
    parse read load decode extract scan tokenize split lex unpack consume
    build make create generate construct produce compose assemble compute calculate prepare new
    turn convert transform translate cast encode render serialize dump format stringify
    send write emit output print transmit post upload stream show display reply
    get fetch retrieve find lookup locate resolve search select pick choose detect discover guess determine figure
    decide determine choose get compute check should is can may validate verify ensure allow accept enforce must select
    delete remove drop clear discard purge evict unset strip pop skip; save store persist dump put set keep extract
    start run launch begin boot listen serve execute exec spawn main invoke call; restart reload rerun
    stop end close shutdown finish terminate kill quit cancel abort give; raise throw fail error
    wait sleep delay pause nap timeout backoff; retry attempt again; change modify update edit patch alter
    merge combine join concat append; compare diff equal cmp; compress gzip deflate zip; decompress inflate unzip
    sign signature hash hmac digest; limit restrict cap bound max throttle; ignore skip exclude filter
    cache memo lru; escape quote sanitize; collect gather accumulate; register add install hook mount
    log logger warn debug report; queue enqueue put push; wrap decorate; open connect; count size length
    scaffold new init template; pass elapsed delay after; jitter random; default fallback initial; follow resolve
    upper lower case capitalize; negotiate accept; complete finish done upgrade; try attempt; several multiple auto
    user username account; client browser; limit rate; 404 notfound missing; first initial; several many list
"""


_SPOKEN = frozenset(["turn", "give", "figure", "must"])  # said in questions; in a name they mean something else
_COMPOUND = ((re.compile(r"\bcommand[- ]lines?\b", re.IGNORECASE), "cmdline"),)  # two words for one thing


def _families(text: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = {}
    for row in re.split(r"[;\n]", text):
        family = row.split()
        for word in family:
            found.setdefault(words.stem(word), set()).update(w for w in family if w != word and w not in _SPOKEN)
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
        return tuple(dict.fromkeys(words.stem(word) for word in (self.word, *self.same) if len(word) > 2))

    def fits(self, part: str) -> float:
        """How much a part of a name or a word of a text speaks of it: 1 the word itself, less for relatives."""
        said = max(words.affinity(word, part) for word in (self.word, *self.same))
        if said >= 0.4:
            return said
        return _RELATIVE if any(words.affinity(word, part) >= 0.8 for word in self.kin) else 0.0

    def in_(self, parts: Iterable[str]) -> float:
        """The best fit among several words."""
        return max((self.fits(part) for part in parts), default=0.0)

    def said_in(self, parts: Iterable[str]) -> bool:
        """Whether one of them is the word itself or another spelling of it."""
        spelled = (self.word, *self.same)
        return any(words.affinity(word, part) >= 0.4 for part in parts for word in spelled)


def terms(text: str) -> list[Term]:
    """The terms of a question, in order."""
    for spoken, one in _COMPOUND:
        text = spoken.sub(one, text)
    said = words.keywords(text)
    keys = [key for key in said if key not in words.STRONG_KINDS] or said
    return [_term(key) for key in keys[:_MOST_TERMS]]


def either(asked: Sequence[Term]) -> str:
    """For Grep: any of the terms, however it ends."""
    return "|".join(dict.fromkeys(re.escape(stem) for term in asked for stem in term.stems))


def _term(word: str) -> Term:
    root = words.stem(word)
    kin = _KIN.get(root, ())
    weight = 0.3 if word in words.SOFT else 0.65 if kin else 1.0
    return Term(word, _SAME.get(root, ()), kin, weight)
