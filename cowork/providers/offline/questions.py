"""Which rule a question fits: an ordered table; the first that fits wins."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from cowork.providers.offline import topics, words
from cowork.providers.offline.commands import command
from cowork.providers.offline.intent import Intent, Kind, about, clean, place_of

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


def _resolved(intent: Intent, before: Intent | None) -> Intent:
    """With "it" replaced by what was spoken of before."""
    if before is None or not before.subject:
        return intent
    if intent.kind == "count":  # the name goes where the pronoun stands
        return replace(intent, subject=_PRONOUN.sub(f"`{before.subject}`", intent.subject, count=1))
    bare = intent.kind in ("where", "describe", "uses", "show", "explain", "read", "raises") and (
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
    return lambda text, hit: Intent(kind, path=place_of(text))


def _of(kind: Kind) -> Make:
    return lambda text, hit: about(hit["x"], kind)


def _count(text: str, hit: re.Match[str]) -> Intent | None:
    what = hit["x"].strip()
    return Intent("count", what, place_of(text), text=text)


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
    if re.search(r"\bhow\b", text, re.IGNORECASE) and not words.names(rest) and not words.quoted(rest):
        return Intent("describe", rest)
    return intent if one else None


_LISTED = frozenset(
    [
        "public",
        "top",
        "level",
        "types",
        "type",
        "workspace",
        "python",
        "make",
        "makefile",
        "names",
        "name",
        "available",
        "unit",
        "test",
        "tests",
    ]
)


_SHAPED = r"imports?|constants?|enums?|structs?|traits?|interfaces?|types?|fixtures?|decorators?|macros?"


def _list(text: str, hit: re.Match[str]) -> Intent | None:
    rest = hit["x"].lower()
    known = re.search(
        r"\b(?P<what>files?|folders?|directories|modules?|classes|functions|methods|tests?|targets?|commands?"
        r"|definitions"
        r"|subclasses|packages|" + _SHAPED + r")\b",
        rest,
    )
    place = place_of(hit["x"])
    if not known and "/" in place and not words.is_file(place):
        return Intent("list", "files", place, "files")  # whatever they are called, they are files
    if not known or (known["what"].startswith("command") and "make" not in rest):
        return None
    left = [w for w in words.keywords(hit["x"].replace(place, "")) if w not in _LISTED and w != known["what"]]
    if left and not known["what"].startswith(("file", "module", "package")):
        return Intent("describe", hit["x"], place)
    inside = re.search(r"\b(?:in|under|inside) (?:the )?([\w.-]+)$", hit["x"])
    return Intent("list", hit["x"], place or (inside[1] if inside else ""), known["what"])


def _rule(pattern: str, make: Make) -> tuple[re.Pattern[str], Make]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL), make


_X = r"(?P<x>.+)"
_USED = r"(?:used|called|imported|referenced|instantiated|invoked|subclassed|inherited from|mentioned)"
_RULES: tuple[tuple[re.Pattern[str], Make], ...] = (
    _rule(r"^(?:hi|hello|hey|help|thanks?|thank you|good (?:morning|evening)|who are you|what are you|what can you do"
          r"|how (?:do|can) (?:you|i use you)(?: work)?|test|ping|yo|\?)?$", _fixed("hello")),
    _rule(r"\b(?:todos?|fixmes?|xxx|hacks?)\b(?! (?:list|tool|item|write))", lambda t, h: topics.todos(t)),
    _rule(r"\b(?:inherit(?:s|ing|ed)? from|extend(?:s|ing)?|subclass(?:es|ing)?(?: of)?|derive[sd]? "
          r"from)\s+(?P<x>[`'\"]?\w.*)",
          _of("uses")),
    _rule(r"\bbase class (?:of|for) (?:all |the |every |each )*(?P<x>\w+)",
          lambda t, h: Intent("where", h["x"].removesuffix("s").capitalize(), "", "class")),
    _rule(r"\bdifference between\b|\bcompare\b|\bpros and cons\b|\bshould (?:i|we)\b", _fixed("unknown")),
    _rule(r"\b(?:largest|biggest|longest) (?:\w+ )?(?:files?|modules?)\b|\bfiles? (?:is|are) (?:the )?(?:largest"
          r"|biggest|longest)\b|^how (?:big|large|long) is (?:it|this|the)\b",
          lambda t, h: Intent("count", "lines", place_of(t))),
    _rule(r"^(?:does|do|is|are) (?:it|this|they|there|the \w+)(?: \w+)? (?:have |any )*(?:any |a )?tests?$",
          lambda t, h: Intent("count", "tests", "")),
    _rule(r"^(?:what|which)(?: kinds? of)? (?:errors?|exceptions?)(?: types?| classes)? (?:can|could|does|do|may|might"
          r"|will|is|are)\s+(?P<x>.+?)\s+(?:raise|throw|return|produce|give|fail with|end in)[sn]?\b"
          r"|^(?:what|which)(?: \w+)? (?:errors?|exceptions?)(?: are| is| get| can be)? (?:raised|thrown|returned)"
          r" (?:by|in|from)\s+(?P<y>.+)"
          r"|^(?:what|when) (?:can|does|could|might|do)\s+(?P<z>.+?)\s+(?:raise|throw|fail)s?$"
          r"|^how can\s+(?P<w>.+?)\s+fail$", lambda t, h: topics.raises(next(filter(None, h.groups())))),
    *(_rule(pattern, make) for pattern, make in topics.LISTS),
    _rule(topics.DEFAULT, lambda t, h: topics.default(next(filter(None, h.groups())), t)),
    _rule(r"^(?:what|which|list|show)(?: me)?(?: all)?(?: the)? (?:methods|attributes|members|functions)"
          r"(?: does| do| of| in| are in| has| on)?(?: the)?(?: class)? [`'\"]?(?P<x>[A-Z]\w*)[`'\"]?(?: "
          r"class)?(?: have| has| define)?$",
          lambda t, h: Intent("list", t, "", "methods", h["x"])),
    _rule(r"^(?:what|which) (?:arguments?|parameters?|args|options)(?: does| do| can)\s+(?P<x>.+?)\s+(?:take|accept"
          r"|have"
          r"|expect|need|be given)s?$", lambda t, h: about(h["x"], "show")),
    _rule(r"^(?:does|do|is|are) (?:this|the|it|we|they)\b.{0,30}?\b(?:use|import|depend on|call|using)s?\s+" + _X,
          _of("uses")),
    _rule(r"^how (?:many|much) (?:\w+ )?(?:dependencies|crates|requirements)\b", lambda t, h: Intent("manifest", t)),
    _rule(r"^how (?:many|much) " + _X, _count),
    _rule(r"^(?:count|number of)\s+(?:the |all |how many )?(?:number of )?" + _X, _count),
    _rule(topics.TESTS, lambda t, h: topics.tests(t)),
    _rule(topics.GIT, lambda t, h: topics.history(t)),
    _rule(r"^(?:which|what|are there|is there|where are|show|list|find)\b(?:\s+(?:any|the|all|me|unit|a))*\s+tests?\s+"
          r"(?:that |which )?(?:cover|for|of|test|exercise|check|use|call|touch)(?:s|es|ing)?\s+" + _X,
          lambda t, h: replace(about(h["x"], "uses"), hint="tests")),
    _rule(r"^(?:show|list|find|give|get|print|display|name)?(?: me)? ?(?:every|all|each|any|the)?(?: the"
          r"| of the)? ?(?:\w+ )?"
          r"(?:places?|spots?|lines?|files?|functions?|methods?|modules?|classes|code|tests?|callers?|everything"
          r"|anything"
          r"|everywhere|anywhere)(?: in \S+)?(?: (?:that|which|where|who))?(?: (?:we|you|it|they|i))? "
          r"(?:uses?|calls?|imports?|references?|invokes?|depends? on|mentions?|instantiates?|raises?|calling|using"
          r"|importing|raising|referencing)\s+(?P<x>[`'\"]?[\w@.:$]+(?:\(\))?[`'\"]?)(?:\s+(?:in|from|under|at)\b.*)?$",
          lambda t, h: replace(about(h["x"], "uses"), path=place_of(t))),
    _rule(r"^(?:show|list|find|give|get|print|name)?(?: me)? ?(?:every|all|each|any|the)?(?: the)? ?"
          r"(?:places?|spots?|lines?|files?|everywhere|anywhere)(?: (?:that|which|where))?\s+(?P<x>\S+)\s+(?:is|are"
          r"|gets?) "
          + _USED + r"$", _of("uses")),
    _rule(r"^(?:what|who|which (?:files?|functions?|modules?|classes|places|code|tests?))(?: else)?(?: all)? "
          r"(?:uses?|calls?|imports?|references?|invokes?|depends? on|subclass(?:es)?|inherits? from|extends?|mentions?"
          r"|instantiates?|raises?|overrides?)\s+" + _X, _of("uses")),
    _rule(r"^(?:where|how|in (?:which|what) (?:files?|places?|modules?)) (?:is|are|does|do|gets?|else is|all "
          r"is)\s+(?P<x>.+?)\s+"
          + _USED + r"(?:\s+(?:in|by|from|within|inside|outside|anywhere|at)\b.*)?$", _of("uses")),
    _rule(r"^(?:is|are)\s+(?P<x>.+?)\s+" + _USED + r"(?: anywhere| somewhere)?$", _of("uses")),
    _rule(r"\b(?:callers?|calls?|usages?|uses|users|references|call sites?|occurrences?|importers|subclasses) (?:of|to"
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
    _rule(r"\bentry ?points?\b|\bwhere does (?:it|the program|execution|the app(?:lication)?) (?:start|begin)\b"
          r"|\b(?:console|gui|command.?line) (?:scripts?|programs?|tools?|executables?)\b|\bexecutables?\b"
          r"|\bbinar(?:y|ies)\b"
          r"|\b(?:commands|programs|scripts) (?:does|do|is|are|get|gets)\b.*\b(?:install|provide|ship|declare)"
          r"|^(?:what|which|where)(?: is|'s) the main (?:file|function|module|script|program)$", _fixed("entry")),
    _rule(topics.FACTS, lambda t, h: topics.facts(t)),
    _rule(r"^(?:list|enumerate|name)(?: out)?(?: me)?\s+" + _X, _list),
    _rule(r"^(?:what|which)\s+(?P<x>(?:\w+ )?(?:files|classes|functions|methods|targets|tests|modules|folders"
          r"|definitions|packages|constants|enums|structs|traits|interfaces|fixtures|imports)\b.*)", _list),
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
          lambda t, h: Intent("search", (words.quoted(h["x"]) or [h["x"]])[0], place_of(h["x"]))),
    _rule(r"^(?:which|what) files? (?:contain|mention|have|include)s?\s+" + _X,
          lambda t, h: Intent("search", (words.quoted(h["x"]) or [h["x"]])[0], "")),
    _rule(r"^(?:where|wherever)(?:'s| is| are| was| were| does| do| did| can| could)?\b ?(?:i |we |you |one |it "
          r"|they )?(?:find )?" + _X,
          _of("where")),
    _rule(r"^(?:in )?(?:which|what) (?:file|module|place|line|folder|class|function|method|code|part)s?\b(?: of "
          r"the code)? "
          r"(?:(?:is|are|does|do|has|have|holds?|contains?|defines?|implements?)\b)?\s*" + _X, _of("where")),
    _rule(r"^(?:find|locate|go to|jump to|definition of|search for|look for|look up)\s+(?:the )?(?:definition "
          r"of )?" + _X,
          _of("where")),
    _rule(r"^(?:show|print|display|read|open|cat|view|see)(?: me)?(?: the)?(?: source| body| code| contents?| "
          r"definition| text| signature| docstring| implementation)?"
          r"(?: of| for)?\s+" + _X, _show),
    _rule(r"^(?:explain|describe|outline|summari[sz]e|document)\s+(?:to me )?(?:what |how )?" + _X, _explain),
    _rule(r"^what(?:'s| is| are)(?: in| inside)\s+" + _X, _explain),
    _rule(r"^(?:what|how) (?:does|do)\s+(?P<x>.+?)\s+(?:do|work|look like|return|take|accept|contain|say|mean"
          r"|define)s?\b", _explain),
    _rule(r"^(?:what(?:'s| is| are)|who is|signature of|docstring of)\s+(?:the )?(?:signature of |docstring of "
          r"|purpose of |definition of )?"
          + _X, _explain),
)  # fmt: skip


def _outline(text: str) -> Intent | None:
    if len(text.split()) > 14:
        return None
    if found := words.files(text):
        return Intent("explain", found[0], found[0])
    return None if words.names(text) else Intent("outline", path=place_of(text))
