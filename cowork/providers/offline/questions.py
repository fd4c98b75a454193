"""From a question, part by part, to what is wanted: an ordered table of rules; the first that fits wins."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from cowork.core.frozen import frozen
from cowork.providers.offline import words
from cowork.providers.offline.languages import KINDS, find_kind

# Of code: where describe uses show explain. Of what is there: list count search read.
# Of the project: outline howto manifest. Of what a command tells: changes tests. Else: hello unknown.
_NO_SEARCH = ("read", "changes", "tests", "hello", "unknown")


@frozen
class Intent:
    """What somebody wants, with the words it is about."""

    kind: str
    subject: str = ""  # a name in code, perhaps with the class or module it is part of, or a phrase
    path: str = ""  # only there
    hint: str = ""  # what sort of thing: function, class, target, …
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


def about(rest: str, kind: str = "where") -> Intent:
    """The name or phrase a piece of a question speaks of."""
    rest = rest.strip(" ,.:;?")
    hint = next((w for w in re.findall(r"\w+", rest.lower()) if w in words.KINDS), "")
    place = place_of(rest)
    core = rest.replace(place, " ") if place else rest
    if owned := _OWNED.search(core):
        owner, member = owned["owner1"] or owned["owner2"], owned["member1"] or owned["member2"]
        if not words.STOP & {member.lower(), owner.lower()}:
            return Intent(kind, f"{owner}.{member}", place, hint)
    if told := [text.removesuffix("()") for text in words.quotations(rest)]:
        part = told[0].isidentifier() and len(told) > 1 and words.looks_like_name(told[1]) and told[1][0] != "-"
        return Intent(kind, f"{told[1]}.{told[0]}" if part else told[0], place, hint)
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


_HERE = re.compile(
    r"\s*\b(?:in|inside|within|of|for|from|across|on) (?:this|the|our|my|that)(?: (?:whole|entire|python|git))? "
    r"(?:repo|repository|project|codebase|code|tree|workspace|library|package|app|application|program|folder|directory)\b",
    re.IGNORECASE,
)
_PRONOUN = re.compile(
    r"\b(?:it|that(?=\W*$)|this|them|they|those|these)\b(?! (?:repo|project|code|folder|library|package))",
    re.IGNORECASE,
)
_STATE = re.compile(r" (?:implemented|defined|declared|handled|done|made|located|stored)$")
_ORDERS = re.compile(  # what no search can do
    r"(?:refactor|fix|write|implement|improve|optimi[sz]e|review|debug|generate|translate|update|design|convert|port|delete"
    r"|commit|push|install|upgrade|deploy|make|build|solve|simplify|clean|speed|rewrite|replace|rename|change|substitute|add|append|insert|create)\b",
    re.IGNORECASE,
)
_MOST_PARTS, _MOST_CHARS = 8, 20_000
_LONG_WORD = re.compile(r"(\S{200})\S+")  # the time patterns take grows with the square of a word
_STARTS = (
    r"(?:where|what|how|which|who|is|are|does|list|count|show|find|locate|run|explain|describe|outline|read|search|rename"
    r"|replace|add|create|tell|summari[sz]e|print|why|when)\b"
)
_SPLIT = re.compile(
    rf"\?\s+|;\s+|\n+|(?:,\s*(?:and|then|and then)?|\s+and then|\s+and also|\s+and|\s+then|\.\s)\s+(?={_STARTS})",
    re.IGNORECASE,
)
_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)]|[a-z]\))\s+")


def intents(text: str, before: Intent | None = None) -> list[Intent]:
    """What is wanted, part by part; a part that makes no sense alone means the text is one question."""
    text = _LONG_WORD.sub(r"\1", text[:_MOST_CHARS])
    whole = parse(text, before)
    if "```" in text:
        return [whole]
    pieces = [_BULLET.sub("", piece).strip(" ,;.?") for piece in _SPLIT.split(text)]
    pieces = [piece for piece in pieces if piece]
    found: list[Intent] = []
    for piece in pieces[:_MOST_PARTS]:
        known = found[-1] if found and found[-1].subject else before
        found.append(parse(piece, known))
    if len(pieces) < 2 or any(intent.kind in ("unknown", "hello") for intent in found):
        return [whole]
    return list(dict.fromkeys(found)) or [whole]


def parse(text: str, before: Intent | None = None) -> Intent:
    """What is wanted; `before` is what was asked last, for "it" and "that"."""
    if before and before.subject and not words.names(text) and not words.files(text):
        name = _STATE.sub("", before.subject)
        shown = f"`{name}`" if words.looks_like_name(name) or text.lower().startswith("how many") else name
        text = _PRONOUN.sub(lambda _: shown, text, count=1)
    asked = clean(text)
    plain = _HERE.sub("", asked).strip() or asked
    for pattern, make in _RULES:
        if (hit := pattern.search(plain)) and (intent := make(plain, hit)):
            return replace(intent, text=text)
    return replace(_by_names(plain), text=text)


def _by_names(text: str) -> Intent:
    """No rule fits: a lone name or path is looked up; a question is searched for by its words."""
    content = text.split()
    if _ORDERS.match(text):
        return Intent("unknown")
    if len(content) <= 4 and (found := words.files(text)):
        return Intent("explain", found[0], found[0])
    is_question = re.match(r"(?:what|how|which|does|do|is|are|why|when|who|whose|did|was)\b", text, re.IGNORECASE)
    short = len(content) <= 3 and all(re.fullmatch(r"[\w.-]+", word) for word in content)
    if len(content) == 1 or (words.quotations(text) + words.names(text) and (is_question or len(content) <= 6)):
        return about(text) if words.keywords(text) else Intent("unknown")
    return Intent("describe", text) if (is_question or short) and words.keywords(text) else Intent("unknown")


Make = Callable[[str, "re.Match[str]"], "Intent | None"]


def _whole(kind: str, subject: str | None = None) -> Make:
    """A question as a whole, or about a subject of its own."""
    return lambda text, hit: Intent(kind, text if subject is None else subject, place_of(text))


def _about(kind: str, *, name: bool = False) -> Make:
    """A question about the name or phrase in the first group that is filled; with `name`, only about a name."""

    def make(text: str, hit: re.Match[str]) -> Intent | None:
        intent = about(next(filter(None, hit.groups())), kind)
        alone = len(intent.subject.split()) == 1
        return replace(intent, path=intent.path or place_of(text)) if alone or not name else None

    return make


def _inventory(name: str) -> Make:
    """A list of all of a kind; one that belongs to a name in code is a question about that name."""

    def make(text: str, hit: re.Match[str]) -> Intent | None:
        named = [n for n in words.quotations(text) + words.names(text) if not words.is_acronym(n)]
        is_other = "make" in text.lower().split() or (named and name != "options")
        return None if is_other else Intent("list", text, place_of(text), name)

    return make


def _list(text: str, hit: re.Match[str]) -> Intent | None:
    rest, place = hit["x"], place_of(hit["x"])
    plain = rest.replace(place, " ") if place else rest
    files = re.search(r"\b(?:files?|folders?|directories|modules?|packages)\b", plain.lower())
    kind = files[0] if files else find_kind(plain)
    if not kind or (kind in KINDS and KINDS[kind].everywhere):
        return None
    if not files and [w for w in words.keywords(plain) if w not in (*KINDS, *_LISTED)]:
        return Intent("describe", rest, place)
    inside = re.search(r"\b(?:in|under|inside) (?:the )?([\w.-]+)$", rest)
    return Intent("list", rest, place or (inside[1] if inside else ""), kind)


def _show(text: str, hit: re.Match[str]) -> Intent | None:
    """A file or lines of it, or the source of a name."""
    rest = hit["x"]
    found = words.files(rest)
    if not found or set(words.quotations(rest) + words.names(rest)) - set(found):
        return _about("show", name=True)(text, hit)
    span = re.search(r"(?:\blines? |:)(\d+)(?:\s*(?:-|to|–)\s*(\d+))?|\b(?:first|top) (\d+) lines", rest)
    first, last, top = span.groups() if span else ("", "", "")
    return Intent("read", found[0], found[0], other=f"{first or 1}-{last or top or first}" if span else "")


_LISTED = ("public", "top", "level", "workspace", "python", "make", "makefile", "names", "name", "available", "unit")
_X = r"(?P<x>.+)"
_USE = r"(?:us|call|import|referenc|invok|instantiat|subclass|inherit|extend|rais|overrid|mention|cover|occurrenc)"
_ASKS = r"^(?:what|which|list|show|are there|name|give|how many|count)\b(?:\s+[\w-]+){0,3}?\s+"
_PROJECT = r"(?:repo|repository|project|codebase|folder|directory|code|package|library|program|tool|app)"
_GIT = (  # what only the history or the working tree can tell
    r"^(?!where|how|why|explain|run|find|who (?:calls|uses|wrote)|.*\b(?:function|class|method|module|code|author)\b)"
    r"(?:status$|what(?:'s| is)? new\b|who\b.*\b(?:added|introduced|removed|created)\b|when (?:was|were|did)\b"
    r"|.*\b(?:git \w+|working (?:tree|copy)|un-?committed|untracked|(?:un)?staged|commits?|committed|contributors?|HEAD"
    r"|history|branch(?:es)?|changed?|changes|modified|edited|touched|(?:latest|last|newest) (?:tag|release))\b)"
)
_KEY = r"""^\s*(?:\[[\w.-]*?)?["']?"""
SCRIPTS = r"""^\[.*scripts\]|^\s*["']?(?:console_|gui_)?scripts["']?\s*[=:]"""
BEGINS = rf"{SCRIPTS}|{_KEY}(?:main|bin)[\"']\s*:"
DEPENDENCIES = _KEY + r"(?:[\w.-]*dependenc(?:y|ies)[\w.-]*|[a-z_]*requires?)\b[\"']?\s*(?:[=:(\]]|$)"
_ENTRY = (
    r"\bentry ?points?\b|\bwhere does (?:it|the program|execution|the app(?:lication)?) (?:start|begin)\b"
    r"|\bexecutables?\b|\b(?:console|gui|command.?line) (?:scripts?|programs?|tools?)\b|\bbinar(?:y|ies)\b"
    r"|^(?:what|which|where)(?: is|'s) the main (?:file|function|module|script|program)$"
)
FACTS = {  # what manifests say: how a question names it, and how the lines begin that say it
    r"\blicen[cs]ed?\b": _KEY + r"licen[cs]e",
    r"\b(?:python|node|rust|go|minimum|support\w*|compatible)\b.*\bversions?\b|\bversions? of (?:python|node|rust|go)\b"
    r"|\b(?:which|what) pythons?\b|\bedition\b": _KEY
    + r"(?:requires-python|python_requires|rust-version|edition|engines|go )",
    r"\bversions?\b": _KEY + r"version\b",
    r"\bauthors?\b|\bwho (?:wrote|maintains)\b|\bmaintainers?\b": _KEY + r"(?:author|maintainer|contributors)",
    r"\bhomepage\b": _KEY + r"(?:homepage|repository|urls?|bugs)\b",
    _ENTRY: BEGINS,
    r"\bnpm scripts\b": SCRIPTS,
    r"\bname of (?:the|this) (?:package|project|crate|library)\b": _KEY + r"(?:name\b|module )",
    r"\bdependenc(?:y|ies)\b|\bdepends? on\b|\w+Dependencies\b|\brequirements\b|\bextras\b"
    r"|\b(?:packages?|crates?|librar(?:y|ies)|modules?)\b.*\b(?:need(?:s|ed)?|require[sd]?|uses?)\b": DEPENDENCIES,
}
_NO_FACT = (
    r"where|how (?:does|do)\b|why|find|locate|run|explain|search|.*\b(?:function|class|method|file|code|tests)\b"
    r"|.*--\w|.*\w\(\)"
)
_RUN_TESTS = (
    r"^(?:re-?run|run|execute|start)\b.*test|^(?:pytest|test (?:it|this|everything|\S+\.\w+)|make test)$"
    r"|\btests?\b(?: in \S+| suite| are| is| all| still| currently)* (?:fail|pass|green\b|red\b)"
)
_TABLE: tuple[tuple[str, Make], ...] = (
    (r"^(?:hi|hello|hey|help|thanks?|thank you|(?:who|what) are you|what can you do|test|ping|\?)?$",
     _whole("hello", "")),
    (r"\bbase class (?:of|for) (?:all |the |every |each )*(?P<x>\w+)",
     lambda t, h: Intent("where", h["x"].removesuffix("s").capitalize(), "", "class")),
    (r"\bdifference between\b|\bcompare\b|\bpros and cons\b|\bshould (?:i|we)\b", _whole("unknown", "")),
    (r"\b(?:largest|biggest|longest)\b.*\b(?:files?|modules?)\b|^how (?:big|large|long) is (?:it|this|the)\b",
     _whole("count", "lines")),
    (r"^(?!.*\b(?:tool|class|panel)\b).*\b(?:todos?|fixmes?|xxx|hacks?)\b(?! (?:list|item|write))",
     _inventory("todos")),
    *((rf"{_ASKS}(?:{kind.asked})\b", _inventory(name)) for name, kind in KINDS.items() if kind.everywhere),
    (rf"^(?:how (?:many|much)|(?:count|number of)(?: the| all)?(?: number of)?) (?!.*(?:dependenc|commit)){_X}",
     lambda t, h: Intent("count", h["x"].strip(), place_of(t))),
    (_RUN_TESTS, _whole("tests", "")),
    (_GIT, _whole("changes")),
    (rf"^(?:what|who|which|show|list|find|every|all|any|where|does|do|is|are)\b(?: [\w-]+){{0,7}}? {_USE}(?:e?s?|ing)"
     r"(?: from| of)?\s+([`'\"]?[\w@.:$]+(?:\(\))?[`'\"]?)(?:\s+(?:in|from|under|at|anywhere)\b.*)?$",
     _about("uses", name=True)),
    (r"^(?:where|how|in (?:which|what) \w+|is|are|(?:show me |list )?(?:every\w*|all|any\w*))"
     rf"(?: (?:places?|files?|lines?|where|is|are|does|do|gets?|else|all))*\s+(.+?)\s+(?:is |are )?{_USE}ed(?: from)?"
     r"(?:\s+(?:in|by|from|within|inside|outside|anywhere|somewhere|at)\b.*)?$", _about("uses")),
    (rf"\b{_USE}(?:e|es|s|ers?|ages?)?(?: sites?)? (?:of|to|for)\s+{_X}", _about("uses")),
    (r"^(?:how (?:do|can|would|should|to) ?(?:i|we|you|one)?|how to|what(?:'s| is) the command to|which command)\s+"
     r"(?P<x>(?:run|start|launch|use|execute|build|compile|install|test|set ?up|deploy|lint|format|type.?check|try"
     r"|benchmark|develop|contribute)s?\b.*)", lambda t, h: Intent("howto", h["x"])),
    (_ENTRY, _whole("manifest")),
    (rf"^(?!{_NO_FACT}).*(?:{'|'.join(FACTS)})", _whole("manifest")),
    (r"^(?:(?:list|enumerate|name)(?: out)?(?: me)?|(?:what|which)(?=(?: \w+)? (?:files|classes|functions|methods"
     r"|targets|tests|modules|folders|definitions|packages|constants|enums|structs|traits|interfaces|fixtures|imports)\b))\s+"
     rf"{_X}", _list),
    (rf"^what(?:'s| is| does)?(?: there)?(?: in)?(?: (?:here|it|this|the)(?: {_PROJECT})?)?(?: do| for| about)?$"
     rf"|^(?:describe|tour|summari[sz]e|explain)(?: (?:it|this|the)(?: {_PROJECT})?)?$"
     r"|^(?:\w+ ){0,6}(?:overview|outline|layout|structure|architecture)$"
     r"|^how is .{0,20}\b(?:organi[sz]ed|structured|laid out)", _whole("outline", "")),
    (r"^(?:(?:search|grep|look)(?: for)?(?: the)?(?: text| string| word)?|(?:which|what) files? (?:contain|mention|have"
     rf"|include)s?)\s+{_X}", lambda t, h: Intent("search", (words.quotations(t) or [h["x"]])[0], place_of(t))),
    (r"^(?:where(?:'s| is| are| was| were| does| do| did| can| could)?\b ?(?:i |we |you |one |it |they )?(?:find )?"
     r"|(?:in )?(?:which|what) (?:file|module|place|line|folder|class|function|method|code|part)s?\b(?: of the code)? "
     r"(?:(?:is|are|does|do|has|have|holds?|contains?|defines?|implements?)\b)?\s*"
     rf"|(?:find|locate|go to|jump to|definition of|look up)\s+(?:the )?(?:definition of )?){_X}", _about("where")),
    (r"^(?:show|print|display|read|open|cat|view|see)(?: me)?(?: the)?(?: source| body| code| contents?| definition"
     rf"| text| signature| docstring| implementation)?(?: of| for)?\s+{_X}", _show),
    (r"^(?:what|how|which)(?: \w+)? (?:does|do|can|could|may)\s+(.+?)\s+(?:do|work|look like|return|take|accept|contain"
     r"|say|mean|define|raise|throw|fail|expect|need)s?\b"
     r"|^(?:(?:explain|describe|outline|summari[sz]e|document)(?: to me)?(?: what| how)?|what(?:'s| is| are)(?: in)?"
     rf"|who is|signature of)\s+(?:the )?(?:(?:signature|docstring|purpose|definition) of )?{_X}",
     _about("show", name=True)),
)  # fmt: skip
_RULES = tuple((re.compile(pattern, re.IGNORECASE | re.DOTALL), make) for pattern, make in _TABLE)
