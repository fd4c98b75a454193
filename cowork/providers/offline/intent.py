"""From a question in plain words to what is wanted. An ordered table of rules; the first that fits wins."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from cowork.providers.offline import words
from cowork.providers.offline.commands import command

Kind = Literal[
    "where",
    "describe",
    "uses",
    "outline",
    "howto",
    "entry",
    "manifest",
    "count",
    "todos",
    "show",
    "explain",
    "list",
    "read",
    "search",
    "changes",
    "tests",
    "replace",
    "rename",
    "add",
    "create",
    "remove",
    "hello",
    "unknown",
]
SEARCHES = frozenset({"where", "describe", "uses", "outline", "howto", "entry", "manifest", "count", "todos"}) | {
    "show",
    "explain",
    "list",
    "search",
}
EDITS = frozenset({"replace", "rename", "add", "create", "remove"})


@dataclass(frozen=True, slots=True)
class Intent:
    """What somebody wants, with the words it is about."""

    kind: Kind
    subject: str = ""  # a name in code, or a phrase
    path: str = ""  # only there
    hint: str = ""  # what sort of thing: function, class, target, …
    container: str = ""  # the class or module a name is looked for in
    other: str = ""  # the new text of an edit
    text: str = ""  # the question as it was asked

    @property
    def is_edit(self) -> bool:
        return self.kind in EDITS


_COURTESY = re.compile(
    r"^(?:(?:please|hey|hi|hello|ok|okay|so|and|also|then|now|but|well|first|finally|next|cowork)[,:\s]+"
    r"|(?:can|could|would|will) (?:you|i|we|one) (?:please |kindly )?(?!run\b|build\b|test\b|install\b|start\b)"
    r"|(?:i(?:'d| would) like|i want|i need) (?:you )?to (?:know )?|do you know |tell me |let me know |show me "
    r"(?=where|how|what|which)"
    r"|(?:use|launch|send out|spawn|start) (?:\w+ )?(?:sub)?agents? (?:in parallel )?to |figure out |find out )+",
    re.IGNORECASE,
)
_HERE = re.compile(
    r"\s*\b(?:in|inside|within|of|for|from|across|on) (?:this|the|our|my|that)"
    r"(?: (?:whole|entire|current|python|git))? (?:repo|repository|project|codebase|code base|code|source code|tree"
    r"|workspace|library|package|app|application|program|folder|directory)\b",
    re.IGNORECASE,
)
_PRONOUN = re.compile(
    r"\b(?:it|that|this|them|those|these)\b(?! (?:repo|project|code|folder|library|package))", re.IGNORECASE
)


def parse(text: str, before: Intent | None = None) -> Intent:
    """What is wanted; `before` is what was asked last, for "it" and "that"."""
    asked = clean(text)
    if found := command(asked):
        kind, subject, path, other = found
        return Intent(kind, subject, path, other=other, text=text)
    plain = _HERE.sub("", asked).strip() or asked
    for pattern, make in _RULES:
        if hit := pattern.search(plain):
            intent = make(plain, hit)
            if intent is not None:
                return _resolved(replace(intent, text=text), before)
    return _resolved(replace(_by_names(plain), text=text), before)


def clean(text: str) -> str:
    """Without courtesies and question marks."""
    flat = text.strip()
    flat = _COURTESY.sub("", flat)
    return flat.strip().rstrip("?!").strip().removesuffix(".").strip()


def about(rest: str, kind: Kind = "where") -> Intent:
    """The name or phrase a piece of a question speaks of."""
    rest = rest.strip(" ,.:;?")
    hint = next((w for w in re.findall(r"\w+", rest.lower()) if w in words.KINDS), "")
    place = _place(rest)
    core = rest.replace(place, " ") if place else rest
    if owned := _OWNED.search(core):
        owner = owned["owner1"] or owned["owner2"]
        member = owned["member1"] or owned["member2"]
        if member.lower() not in words.STOP and owner.lower() not in words.STOP:
            return Intent(kind, member, place, hint, owner)
    if told := words.quoted(rest):
        return Intent(kind, told[0].removesuffix("()"), place, hint, _second(told))
    content = [w for w in re.findall(r"[\w-]+", core) if w.lower() not in words.STOP | words.STRONG_KINDS]
    found = [n for n in words.names(core) if len(content) == 1 or not words.is_acronym(n)]
    if found:
        return Intent(kind, found[0], place, hint)
    if not content and place:
        return Intent("explain" if kind == "where" else kind, place, place)
    alone = len(content) == 1
    if alone:
        return Intent(kind, content[0], place, hint)
    return Intent("describe" if kind == "where" else kind, _phrase(rest), place, hint)


_OWNED = re.compile(
    r"\b(?P<owner1>\w+)'s (?P<member1>\w+) (?:method|function|attribute|property|field|class)\b"
    r"|[`'\"]?(?P<member2>\w+)(?:\(\))?[`'\"]? (?:method|function|attribute|property|field|constructor) (?:of"
    r"|in|on|from) "
    r"(?:the )?(?:class |module )?[`'\"]?(?P<owner2>[A-Za-z_]\w*)[`'\"]?(?! ?/)(?!\.\w)"
)


def _second(found: list[str]) -> str:
    return found[1] if len(found) > 1 and words.looks_like_name(found[1]) else ""


def _phrase(text: str) -> str:
    return " ".join(text.split())


def _place(text: str) -> str:
    """A file or folder the question is restricted to."""
    if found := words.files(text):
        return found[0].rstrip("/") if found[0] != "/" else ""
    named = re.search(
        r"\b(?:in|under|inside|within|of) (?:the )?[`'\"]?([\w.-]+)[`'\"]? (?:folder|directory|dir)\b", text
    )
    return named[1] if named else ""


def _resolved(intent: Intent, before: Intent | None) -> Intent:
    """With "it" replaced by what was spoken of before."""
    if before is None or not before.subject:
        return intent
    bare = intent.kind in ("where", "describe", "uses", "show", "explain", "count", "read") and (
        not intent.subject or not words.keywords(intent.subject)
    )
    pointing = _PRONOUN.search(intent.text) and not words.names(intent.text) and not words.files(intent.text)
    if not (bare or (pointing and not words.keywords(_PRONOUN.sub("", intent.subject)))):
        return intent
    kind: Kind = "where" if intent.kind == "describe" and before.kind != "describe" else intent.kind
    return replace(
        intent,
        kind=kind,
        subject=before.subject,
        path=intent.path or before.path,
        hint=intent.hint or before.hint,
        container=before.container,
    )


# What no search can do.
_ORDERS_TEXT = """
    refactor fix write implement improve optimize optimise review debug generate translate update design convert port
    delete commit push install upgrade deploy make build solve simplify clean speed rewrite
"""
_ORDERS = frozenset(_ORDERS_TEXT.split())


def _by_names(text: str) -> Intent:
    """No rule fits: a lone name or path is looked up; a question is searched for by its words."""
    content = text.split()
    if content and content[0].lower() in _ORDERS:
        return Intent("unknown")
    if len(content) <= 4 and (found := words.files(text)):
        return Intent("explain", found[0], found[0])
    told = words.quoted(text) + words.names(text)
    if told and len(content) <= 6:
        return about(text)
    if re.match(r"(?:what|how|which|does|do|is|are|why|when|who|whose|did|was)\b", text, re.IGNORECASE):
        if told:
            return about(text)
        if len(words.keywords(text)) >= 1:
            return Intent("describe", text)
    if len(content) <= 3 and words.keywords(text) and all(re.fullmatch(r"[\w.-]+", w) for w in content):
        return about(text) if len(content) == 1 else Intent("describe", text)
    return Intent("unknown")


Make = Callable[[str, "re.Match[str]"], "Intent | None"]


def _fixed(kind: Kind) -> Make:
    return lambda text, hit: Intent(kind, path=_place(text))


def _of(kind: Kind) -> Make:
    return lambda text, hit: about(hit["x"], kind)


def _count(text: str, hit: re.Match[str]) -> Intent | None:
    what = hit["x"].strip()
    return Intent("count", what, _place(text), text=text)


def _show(text: str, hit: re.Match[str]) -> Intent | None:
    rest = hit["x"]
    found = words.files(rest)
    named = [n for n in words.quoted(rest) + words.names(rest) if n not in found]
    if found and not named and not re.search(r"\b(?:function|class|method)\b", rest):
        lines = re.search(r"\blines? (\d+)(?:\s*(?:-|to|–)\s*(\d+))?", rest) or re.search(r":(\d+)(?:-(\d+))?", rest)
        if not lines and (top := re.search(r"\b(?:first|top) (\d+) lines", rest)):
            return Intent("read", found[0], found[0], other=f"1-{top[1]}")
        return Intent("read", found[0], found[0], other=f"{lines[1]}-{lines[2] or lines[1]}" if lines else "")
    intent = about(rest, "show")
    return intent if intent.subject and len(intent.subject.split()) <= 2 else None


def _explain(text: str, hit: re.Match[str]) -> Intent | None:
    rest = hit["x"]
    found = words.files(rest)
    if found and not words.names(rest) and not re.search(r"\b(?:function|class|method)\b", rest):
        return Intent("explain", found[0], found[0])
    intent = about(rest, "show")
    one = len(intent.subject.split()) == 1
    if text[:3].lower() == "how" and not words.names(rest) and not words.quoted(rest):
        return Intent("describe", rest)
    return intent if one else None


_LISTED = frozenset(
    ["public", "top", "level", "python", "make", "makefile", "names", "name", "available", "unit", "test", "tests"]
)


def _list(text: str, hit: re.Match[str]) -> Intent | None:
    rest = hit["x"].lower()
    known = re.search(
        r"\b(?P<what>files?|folders?|directories|modules?|classes|functions|methods|tests?|targets?|commands?"
        r"|definitions"
        r"|subclasses|imports?)\b",
        rest,
    )
    if not known or (known["what"].startswith("command") and "make" not in rest):
        return None
    place = _place(hit["x"])
    left = [w for w in words.keywords(hit["x"].replace(place, "")) if w not in _LISTED and w != known["what"]]
    if left and not known["what"].startswith(("file", "module")):
        return Intent("describe", hit["x"], place)
    return Intent("list", hit["x"], _place(hit["x"]), known["what"])


def _rule(pattern: str, make: Make) -> tuple[re.Pattern[str], Make]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL), make


_X = r"(?P<x>.+)"
_USED = r"(?:used|called|imported|referenced|instantiated|invoked|subclassed|inherited from|mentioned)"
_RULES: tuple[tuple[re.Pattern[str], Make], ...] = (
    _rule(r"^(?:hi|hello|hey|help|thanks?|thank you|good (?:morning|evening)|who are you|what are you|what can you do"
          r"|how (?:do|can) (?:you|i use you)(?: work)?|test|ping|yo|\?)?$", _fixed("hello")),
    _rule(r"\b(?:todos?|fixmes?|xxx|hacks?)\b(?! (?:list|tool|item|write))", lambda t, h: _todos(t)),
    _rule(r"^how (?:many|much) " + _X, _count),
    _rule(r"^(?:count|number of)\s+(?:the |all |how many )?(?:number of )?" + _X, _count),
    _rule(r"^(?:run|execute|start) (?:all )?(?:the |all |my |our )?(?:unit |whole )?(?:tests?|test suite|pytest"
          r"|specs?)\b"
          r"|\b(?:which|what|any|do(?: all)?|does) (?:of )?(?:the )?tests? (?:(?:are |is |currently )*fail|pass"
          r"|broken|break)"
          r"|\b(?:tests?|test suite|build) (?:pass(?:ing)?|green|fail(?:ing|s)?|red)\b"
          r"|^(?:pytest|npm test|cargo test|go test|make test)$"
          r"|^(?:check|see) (?:if|whether) (?:all )?(?:the )?tests? pass", _fixed("tests")),
    _rule(r"\b(?:what|which files?)(?: has| have|'s)?(?: been)? (?:changed|modified|new|edited|touched)\b|\bgit "
          r"(?:status|diff|log)\b"
          r"|\buncommitted\b|\b(?:recent|last|latest) (?:\d+ )?(?:commits?|changes?)\b|^(?:show |list )?(?:me "
          r")?(?:the )?changes\b"
          r"|\bwhat did (?:i|we|you|they) change\b|\bworking tree\b|^status$|\b(?:last|latest|recent) (?:thing "
          r")?committed\b",
          lambda t, h: Intent("changes", t)),
    _rule(r"^(?:what|who|which (?:files?|functions?|modules?|classes|places|code|tests?))(?: else)?(?: all)? "
          r"(?:uses?|calls?|imports?|references?|invokes?|depends? on|subclass(?:es)?|inherits? from|extends?|mentions?"
          r"|instantiates?|raises?|overrides?)\s+" + _X, _of("uses")),
    _rule(r"^(?:where|how|in (?:which|what) (?:files?|places?|modules?)) (?:is|are|does|do|gets?|else is|all "
          r"is)\s+(?P<x>.+?)\s+"
          + _USED + r"\b", _of("uses")),
    _rule(r"^(?:is|are)\s+(?P<x>.+?)\s+" + _USED + r"(?: anywhere| somewhere)?$", _of("uses")),
    _rule(r"\b(?:callers?|usages?|uses|users|references|call sites|occurrences|importers|subclasses) (?:of|to"
          r"|for)\s+" + _X,
          _of("uses")),
    _rule(r"^where (?:do|does) (?:we|it|this|they|anyone|the code|anything) (?:use|call|import|reference|invoke"
          r"|raise)\s+" + _X,
          _of("uses")),
    _rule(r"^(?:how (?:do|can|would|should|to) ?(?:i|we|you|one)?|how to|what(?:'s| is) the command to|which "
          r"command)\s+"
          r"(?P<x>(?:run|start|launch|use|execute|build|compile|install|test|set ?up|deploy|lint|format"
          r"|type.?check|try|benchmark"
          r"|develop|contribute)s?\b.*)",
          lambda t, h: Intent("howto", h["x"])),
    _rule(r"^(?:install|build|setup|usage|getting started|run) ?(?:instructions?|steps?|commands?)$",
          lambda t, h: Intent("howto", t)),
    _rule(r"\bentry ?points?\b|\bwhere does (?:it|the program|execution|the app(?:lication)?) (?:start|begin)\b",
          _fixed("entry")),
    _rule(r"\b(?:dependenc(?:y|ies)|depends? on|requirements)\b|\bwhat(?:'s| is)? (?:the )?(?:version|licen[cs]e)\b"
          r"|\b(?:which|what) (?:python |node |rust |go )?(?:version|licen[cs]e)\b|\blicensed\b|\bwho (?:wrote"
          r"|is the author)\b",
          lambda t, h: Intent("manifest", t)),
    _rule(r"^(?:list|enumerate|name)(?: out)?(?: me)?\s+" + _X, _list),
    _rule(r"^(?:what|which)\s+(?P<x>(?:\w+ )?(?:files|classes|functions|methods|targets|tests|modules|folders"
          r"|definitions)\b.*)", _list),
    _rule(r"^(?:what(?:'s| is| are)?(?: there)?(?: in)?|describe|summari[sz]e|overview|outline|explain|tell "
          r"about|give (?:me )?an? "
          r"(?:overview|outline|summary)|show)(?: of| in| about)?(?: an?| the)?(?: overview| outline| summary| "
          r"structure| layout)?"
          r"(?: of| in| about)? ?(?:here|this|it|that|this (?:repo|repository|project|codebase|folder|directory"
          r"|code|package|library)"
          r"|the (?:repo|repository|project|codebase|structure|layout|architecture|purpose))?(?: about| for| "
          r"structure| layout| do)?$",
          _fixed("outline")),
    _rule(r"\bwhat (?:does|is) (?:this|the) (?:repo|repository|project|codebase|package|library|program|tool|app)\b"
          r"|\b(?:overview|outline|layout|structure|architecture)\b(?! (?:function|class|method))[^?]*$"
          r"|^how is (?:this|the|it) ?(?:repo|repository|project|codebase|code|package)? ?(?:organi[sz]ed"
          r"|structured|laid out)"
          r"|^what (?:does|is) (?:it|this)(?: do| for| about)?$|^tour$",
          lambda t, h: _outline(t)),
    _rule(r"^(?:search|grep|look)(?: for)?(?: the)?(?: text| string| word)?\s+" + _X,
          lambda t, h: Intent("search", (words.quoted(h["x"]) or [h["x"]])[0], _place(h["x"]))),
    _rule(r"^(?:which|what) files? (?:contain|mention|have|include)s?\s+" + _X,
          lambda t, h: Intent("search", (words.quoted(h["x"]) or [h["x"]])[0], "")),
    _rule(r"^(?:where|wherever)(?:'s| is| are| was| were| do| does| did| can| could)? ?(?:i |we |you |one |it "
          r"|they )?(?:find )?" + _X,
          _of("where")),
    _rule(r"^(?:in )?(?:which|what) (?:file|module|place|line|folder|class|function|method|code|part)s?\b(?: of "
          r"the code)? "
          r"(?:is|are|does|do|has|have|holds?|contains?|defines?|implements?|handles?)?\s*" + _X, _of("where")),
    _rule(r"^(?:find|locate|go to|jump to|definition of|search for|look for|look up)\s+(?:the )?(?:definition "
          r"of )?" + _X,
          _of("where")),
    _rule(r"^(?:show|print|display|read|open|cat|view|see)(?: me)?(?: the)?(?: source| body| code| contents?| "
          r"definition| text)?"
          r"(?: of| for)?\s+" + _X, _show),
    _rule(r"^(?:explain|describe|outline|summari[sz]e|document)\s+(?:to me )?(?:what |how )?" + _X, _explain),
    _rule(r"^what(?:'s| is| are)(?: in| inside)\s+" + _X, _explain),
    _rule(r"^(?:what|how) (?:does|do)\s+(?P<x>.+?)\s+(?:do|work|look like|return|take|accept|contain)s?\b", _explain),
    _rule(r"^(?:what(?:'s| is| are)|who is|signature of|docstring of)\s+(?:the )?(?:signature of |docstring of "
          r"|purpose of |definition of )?"
          + _X, _explain),
)  # fmt: skip


def _todos(text: str) -> Intent | None:
    if words.names(re.sub(r"\b(?:TODOS?|FIXMES?|XXX|HACKS?)\b", "", text)) and not words.files(text):
        return None
    if re.match(r"how many|count", text, re.IGNORECASE):
        return Intent("count", "todos", _place(text))
    if re.search(r"\b(?:tool|list tool|class|panel)\b", text):
        return None
    return Intent("todos", path=_place(text))


def _outline(text: str) -> Intent | None:
    if found := words.files(text):
        return Intent("explain", found[0], found[0])
    named = words.names(text)
    return None if named else Intent("outline", path=_place(text))
