"""What somebody wants, and the name or phrase it is about."""

from __future__ import annotations

import re

from cowork.core.frozen import frozen
from cowork.providers.offline import words

# Of code: where describe uses show explain raises default. Of what is there: list inventory count search read.
# Of the project: outline howto entry manifest. Of what a command tells: changes tests. Else: hello unknown.
Kind = str
_NO_SEARCH = ("read", "changes", "tests", "hello", "unknown")


@frozen
class Intent:
    """What somebody wants, with the words it is about."""

    kind: Kind
    subject: str = ""  # a name in code, or a phrase
    path: str = ""  # only there
    hint: str = ""  # what sort of thing: function, class, target, …
    container: str = ""  # the class or module a name is looked for in
    other: str = ""  # the lines to read
    text: str = ""  # the question as it was asked

    @property
    def is_search(self) -> bool:
        """Whether a child that only reads can look into it."""
        return self.kind not in _NO_SEARCH


_COURTESY = re.compile(
    r"^(?:(?:please|hey|hi|hello|ok|okay|so|and|also|then|now|but|well|first|finally|next|cowork)[,:\s]+"
    r"|(?:can|could|would|will) (?:you|i|we|one) (?:please |kindly )?(?!run\b|build\b|test\b|install\b|start\b)"
    r"|(?:i(?:'d| would) like|i want|i need) (?:you )?to (?:know )?|do you know |tell me |let me know "
    r"|show me (?=where|how|what|which)|(?:use|launch|spawn|start) (?:\w+ )?(?:sub)?agents? (?:in parallel )?to "
    r"|figure out |find out )+",
    re.IGNORECASE,
)
_OWNED = re.compile(
    r"\b(?P<owner1>\w+)'s (?P<member1>\w+) (?:method|function|attribute|property|field|class)\b"
    r"|[`'\"]?(?P<member2>\w+)(?:\(\))?[`'\"]? (?:method|function|attribute|property|field|constructor) "
    r"(?:of|in|on|from) (?:the )?(?:class |module )?[`'\"]?(?P<owner2>[A-Za-z_]\w*)[`'\"]?(?! ?/)(?!\.\w)"
)


def clean(text: str) -> str:
    """Without courtesies and question marks."""
    return _COURTESY.sub("", text.strip()).strip().rstrip("?!").strip().removesuffix(".").strip()


def about(rest: str, kind: Kind = "where") -> Intent:
    """The name or phrase a piece of a question speaks of."""
    rest = rest.strip(" ,.:;?")
    hint = next((w for w in re.findall(r"\w+", rest.lower()) if w in words.KINDS), "")
    place = place_of(rest)
    core = rest.replace(place, " ") if place else rest
    if owned := _OWNED.search(core):
        owner, member = owned["owner1"] or owned["owner2"], owned["member1"] or owned["member2"]
        if not words.STOP & {member.lower(), owner.lower()}:
            return Intent(kind, member, place, hint, owner)
    if told := words.quoted(rest):
        container = told[1] if len(told) > 1 and words.looks_like_name(told[1]) else ""
        return Intent(kind, told[0].removesuffix("()"), place, hint, container)
    content = [w for w in re.findall(r"[\w-]+", core) if w.lower() not in words.STOP | words.KINDS.keys()]
    named = [n for n in words.names(core) if len(content) == 1 or not words.is_acronym(n)]
    if named or len(content) == 1:
        return Intent(kind, (named or content)[0], place, hint)
    if not content and place:
        return Intent("explain" if kind in ("where", "show") else kind, place, place)
    return Intent("describe" if kind == "where" else kind, " ".join(rest.split()), place, hint)


def place_of(text: str) -> str:
    """A file or folder the question is restricted to."""
    if found := words.files(text):
        return found[0].rstrip("/")
    named = re.search(
        r"\b(?:in|under|inside|within|of) (?:the )?[`'\"]?([\w.-]+)[`'\"]? (?:folder|directory|dir)\b", text
    )
    return named[1] if named and named[1].lower() not in words.STOP else ""
