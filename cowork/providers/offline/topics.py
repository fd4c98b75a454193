"""Topics with words of their own: what git knows, what manifests say, what a program declares."""

from __future__ import annotations

import re
from collections.abc import Callable

from cowork.providers.offline import words
from cowork.providers.offline.intent import Intent, about, place_of

FACTS = (  # what manifests say
    r"\bdependenc(?:y|ies)\b|\bdepends? on\b|\b(?:dev|peer|optional)Dependencies\b|\brequirements\b|\bextras\b"
    r"|\b(?:packages?|crates?|librar(?:y|ies)|gems?|modules?)\b.*\b(?:needs?|needed|requires?|required|depends?|uses?"
    r"|pulls?)\b"
    r"|\b(?:needs?|needed|requires?|required) (?:at|for|to) (?:runtime|run|build|testing|development|it)\b"
    r"|\bversions?\b|\blicen[cs]ed?\b"
    r"|\bwho (?:wrote|maintains|is the (?:author|maintainer)|are the (?:authors|maintainers))\b"
    r"|\bauthors?\b|\bmaintainers?\b|\b(?:which|what) pythons?\b|\b(?:npm|package\.json) scripts\b|\bhomepage\b"
    r"|\bname of (?:the|this) (?:package|project|crate)\b|\bthe (?:package|project|crate|library) (?:called|named)\b"
    r"|\bthird.party\b|\bedition of rust\b|\brust edition\b|\bsupports? (?:for )?(?:python|node|rust|go) ?\d"
)
_CHANGED = r"(?:changed?|modified|edited|touched|updated)"
GIT = (  # what only the history or the working tree can tell
    r"\bgit (?:status|diff|log|history|blame|tags?|stash|remotes?|branch(?:es)?)\b|^status$|\bworking (?:tree|copy)\b"
    r"|\bun-?committed\b|\buntracked\b|\b(?:un)?staged\b|\bcommits?\b|\bcommitted\b|\bstash(?:es|ed)\b"
    r"|\bcontributors?\b"
    r"|\b(?:what|which files?|anything|files?)(?:'s| has| have| was| were| did| is| are| that)?(?: been| i| we| you"
    r"| they)* "
    rf"{_CHANGED}\b|\bwhat(?:'s| is)? new\b|\b(?:recent|last|latest|newest|local) (?:\w+ )?(?:changes?"
    rf"|modifications|edits)\b|\bHEAD\b"
    r"|^(?:show |list )?(?:me )?(?:the )?changes\b"
    rf"|\bwho (?:last |has |was |the |one |to |person |most recently )*(?:{_CHANGED}|touch|wrote|added|introduced"
    rf"|removed|created|works?|worked|contributed)\b"
    r"|\bdid (?:i|we|you|they|any\w+|some\w+) (?:change|modify|edit|touch|update)\b"
    rf"|\bwhen (?:was|were|did)\b.*\b(?:{_CHANGED}|added|introduced|removed|deleted|created|renamed|appear|written)\b"
    r"|\b(?:latest|last|newest) (?:tag|release)\b|\b(?:which|what|current|list|show|on this)\b[^.]*\bbranch(?:es)?\b"
    r"|\b(?:change|edit|revision) history\b|\bhistory of\b|\bremote url\b|\bchurn\b"
    r"|\bchanges? most (?:often|frequently)\b"
)


def facts(text: str) -> Intent | None:
    """Manifests are asked unless the question is about code that deals with such things."""
    if re.match(r"(?:where|how (?:does|do)|why|find|locate|run|explain|search)\b", text, re.IGNORECASE):
        return None
    if re.search(r"\b(?:function|class|method|file|code|tests)\b|--\w|\w\(\)", text, re.IGNORECASE):
        return None
    return Intent("manifest", text, place_of(text) if not words.is_file(place_of(text)) else "")


def history(text: str) -> Intent | None:
    """git is asked unless the question is about code that deals with such things."""
    if re.match(r"(?:where|how|why|explain|run|find|what happens)\b|who (?:calls|uses)\b", text, re.IGNORECASE):
        return None
    if re.match(r"who wrote (?:it|this|that)?$", text, re.IGNORECASE):
        return Intent("manifest", text)
    if re.search(
        r"\b(?:function|class|method|module|code) (?:that|which|for|to)\b|\bthe author\b", text, re.IGNORECASE
    ):
        return None
    return Intent("changes", text)


def inventory(subject: str) -> Callable[[str, re.Match[str]], Intent | None]:
    """A list of all of a kind; one that belongs to a name in code is a question about that name."""

    def make(text: str, hit: re.Match[str]) -> Intent | None:
        if "make" in text.lower().split():
            return None
        named = [n for n in words.quoted(text) + words.names(text) if not words.is_acronym(n)]
        if named and subject != "options":
            return None
        if subject == "exits" and re.match(r"where\b", text, re.IGNORECASE) and "exit" not in text.lower():
            return None  # status codes may be those of HTTP
        told = named or re.findall(
            r"\b(?:does|do|of|for|to)\s+(?:the )?([\w-]+)(?: command| script| program| cli| tool)?"
            r"(?: (?:accept|take|have|support|understand)s?)?$",
            text,
        )
        name = told[0] if told and told[0].lower() not in words.STOP | {"command", "cli"} else ""
        return Intent("inventory", subject, place_of(text), container=name if subject == "options" else "")

    return make


def raises(rest: str) -> Intent | None:
    """What one thing raises, a file, or everything."""
    if words.files(rest) and not words.names(rest):
        return Intent("inventory", "raised", words.files(rest)[0])
    if re.match(r"(?:this|the|our) (?:repo|project|library|package|code|program|app)|(?:there|we)$", rest):
        return Intent("inventory", "errors")
    intent = about(rest, "raises")
    return intent if len(intent.subject.split()) == 1 else None


def default(rest: str, text: str) -> Intent | None:
    """What something is when nobody says otherwise."""
    place = place_of(text)
    asked = words.keywords(rest.replace(place, " ") if place else rest)
    return Intent("default", " ".join(asked), place) if asked else None


def todos(text: str) -> Intent | None:
    """The marks left in the source; a tool or a class of that name is something else."""
    if words.names(re.sub(r"\b(?:TODOS?|FIXMES?|XXX|HACKS?)\b", "", text)) and not words.files(text):
        return None
    if re.search(r"\b(?:tool|list tool|class|panel)\b", text):
        return None
    return Intent("inventory", "todos", place_of(text))


# What can be listed, and how it is named; looked for in questions that begin like one for a list or a number.
_NOUNS = (
    ("errors", r"(?:custom |own )?(?:exceptions?|errors?)(?: class(?:es)?| types?)?(?=$|.*\b(?:defined?|declared?|there"
               r"|exist|have|has|own|custom)\b)"),
    ("exits", r"(?:exit|return|status) (?:codes?|status(?:es)?)"),
    ("variables", r"(?:environment|env) var(?:iable)?s"),
    ("options", r"(?:command.?line|cli) (?:options|flags|switches|arguments|args|parameters)|(?:options|flags"
                r"|switches)(?=$"
                r"|.*\b(?:command|cli|script|program|accept|take|support|have|there|available|pass)\w*\b)"),
    ("settings", r"(?:config(?:uration)? )?(?:settings|options|values|keys)(?=$|.*\b(?:config\w*|set|changed?|available"
                 r"|there|have|supported|exist)\b)|defaults"),
    ("commands", r"(?:sub)?commands"),
    ("routes", r"(?:http )?(?:routes|endpoints)"),
)  # fmt: skip
_FOLLOWS = (
    r"(?=\s*(?:$|(?:are|is|does|do|exist|in|of|for|there|supported|available|defined|declared|used|read|needed|that"
    r"|it|affect|control|override|change|configure"
    r"|can (?:i|you|we|it|be))\b))"
    r"(?!\s+(?:are|is) (?:handled|caught|parsed|processed|logged|raised|thrown|checked|matched|dispatched))"
)
_BEGINS = r"^(?:what|which|list|show|are there|name|give|where are|how many|count|number of)\b(?:\s+[\w-]+){0,3}?\s+"
_RAISED = (
    r"^(?:what|which|list|show|where are)\b(?:\s+[\w-]+){0,3}?\s+(?:exceptions?|errors?)(?: are| is"
    r"| get)? (?:raised|thrown)"
)
LISTS = (
    (rf"{_RAISED}(?:$|\s+(?:in|under)\b)", inventory("raised")),
    *((rf"{_BEGINS}(?:{nouns})\b{_FOLLOWS}", inventory(subject)) for subject, nouns in _NOUNS),
)
DEFAULT = (
    r"^(?:what|which|how (?:long|big|many|large|often|much|high|deep))(?:'s| is| are)?(?: the)? default(?: value"
    r"| setting)?"
    r"(?: of| for)?\s+(?!branch)(?P<x>.+)|^what (?:does|do|is|are)\s+(?P<y>.+?)\s+(?:default to|by default"
    r"|set to by default)$"
    r"|^what(?:'s| is)\s+(?P<z>.+?)'s default(?: value)?$"
)
TESTS = (
    r"^(?:re-?run|run|execute|start)\b.*\b(?:tests?|test suite|pytest|unittests?|specs?)\b|^(?:re-?run|run"
    r"|execute)\b.*\S*test\S*"
    r"|\b(?:which|what|any|do(?: all)?|does) (?:of )?(?:the )?tests? (?:(?:are |is |currently )*fail|pass|broken|break)"
    r"|\b(?:tests?|test suite|build) (?:in \S+ )?(?:pass(?:ing)?|green|fail(?:ing|s)?|red)\b|^(?:do|does"
    r"|is)\b.*test\S* (?:pass|fail)"
    r"|^(?:pytest|test (?:it|this|everything|\S+\.\w+)|npm test|cargo test|go test|make test)$"
    r"|^(?:check|see) (?:if|whether)\b.*\btests?\b.*\bpass"
)


def tests(text: str) -> Intent | None:
    """All tests, those of a file, or one by its name."""
    wanted = re.split(r"\b(?:and|then)\b.*\b(?:tell|say|report|show|list|which|what|if|whether)\b", text)[0]
    node = re.search(r"[\w./-]+\.\w+::[\w:]+", wanted)
    path = node[0] if node else place_of(wanted)
    rest = wanted.replace(path, " ") if path else wanted
    named = [n for n in words.quoted(rest) + words.names(rest) if not words.is_acronym(n)]
    if not named and re.match(r"\s*(?:re-?)?run\b|\s*execute\b", rest, re.IGNORECASE):
        about_ = re.search(
            r"\b(?:the|only|just)\s+([\w-]+)\s+tests?\b|\btests? (?:for|of|about|named"
            r"|called)\s+(?:the )?([\w-]+)",
            rest,
        )
        named = [word for word in (about_.groups() if about_ else ()) if word and word.lower() not in _EVERY]
    return Intent("tests", named[0] if named else "", path)


_EVERY = words.STOP | frozenset(["unit", "whole", "full", "entire", "python", "test", "existing", "complete"])
