"""Questions of several parts: each part is a question of its own, looked into by a child where that is possible."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cowork.core.blocks import Json
from cowork.providers.offline import words
from cowork.providers.offline.intent import EDITS, Intent, clean
from cowork.providers.offline.markdown import shortened
from cowork.providers.offline.plans import Call, Plan
from cowork.providers.offline.questions import parse

_MOST_PARTS = 8
_STARTS = (
    r"(?:where|what|how|which|who|is|are|does|list|count|show|find|locate|run|explain|describe|outline|read|search|rename"
    r"|replace|add|create|tell|summari[sz]e|print|why|when)\b"
)
_SPLIT = re.compile(
    rf"\?\s+|;\s+|\n+|(?:,\s*(?:and|then|and then)?|\s+and then|\s+and also|\s+and|\s+then|\.\s)\s+(?={_STARTS})",
    re.IGNORECASE,
)
_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)]|[a-z]\))\s+")
_NAMES = re.compile(
    r"^(?P<head>(?:where (?:is|are)|what (?:uses|calls)|who calls|find|locate|show|where's)\s+)(?P<list>.+?)"
    r"(?P<tail>(?:\s+(?:defined|used|called|declared|implemented|imported))?)$",
    re.IGNORECASE,
)
_RIDER = re.compile(  # how to report what the part before asks for
    r"^(?:and )?(?:say|tell|report|show|list|which|what|give)\b.{0,24}"
    r"\b(?:fail(?:ed|s|ing)?|broke|errors?|line|lines|file:line|result|results|evidence|why)\b",
    re.IGNORECASE,
)
_IT = re.compile(r"\b(?:it|that|this|them|they)\b", re.IGNORECASE)


def intents(text: str, before: Intent | None = None) -> list[Intent]:
    """What is wanted, part by part; a part that makes no sense alone means the text is one question."""
    whole = parse(text, before)
    if whole.kind in EDITS or "```" in text:
        return [whole]
    pieces = [_BULLET.sub("", piece).strip(" ,;.?") for piece in _SPLIT.split(text)]
    pieces = [part for piece in pieces if piece for part in _enumerated(piece) if part]
    found: list[Intent] = []
    for piece in pieces[:_MOST_PARTS]:
        known = found[-1] if found and found[-1].subject else before
        if not (found and _RIDER.match(piece)):
            found.append(parse(piece, known))
    if len(pieces) < 2 or any(intent.kind in ("unknown", "hello") for intent in found):
        return [whole]
    return list(dict.fromkeys(found)) or [whole]


def _enumerated(piece: str) -> list[str]:
    """`where are A, B and C defined` is three questions when A, B and C are names."""
    hit = _NAMES.match(clean(piece))
    items = re.split(r",\s*(?:and\s+|or\s+)?|\s+and\s+|\s+or\s+", hit["list"]) if hit else []
    if not hit or len(items) < 2 or not all(map(_is_name, items)):
        return [piece]
    head = re.sub(r"\bare\b", "is", hit["head"])
    return [f"{head}{item.strip()}{hit['tail']}" for item in items]


def _is_name(text: str) -> bool:
    plain = text.strip("`() ")
    return bool(words.quoted(text) or words.looks_like_name(plain) or re.fullmatch(r"[A-Z]\w+", plain))


def delegated(intent: Intent) -> Plan:
    """One part, given to an explore child; its report is the answer to the part."""
    verb = {"where": "find", "describe": "find", "uses": "uses of", "howto": "how to"}.get(intent.kind, intent.kind)
    subject = " ".join(re.sub(r"[`\"']", "", intent.subject).split()[:4])
    title = f"{verb} {subject}".strip()[:60]
    given: Json = {"description": title, "prompt": _standalone(intent), "subagent_type": "explore", "model": "light"}
    (result,) = yield [Call("Task", given)]
    if result.failed:
        return f"The child did not finish: {shortened(result.text, 300)}"
    return _report(result.text)


def joined(parts: Sequence[Intent], answers: Sequence[str]) -> str:
    """The answers under their questions."""
    titles = [shortened(_standalone(intent), 120).replace("*", "") for intent in parts]
    return "\n\n".join(f"**{title}**\n\n{answer}" for title, answer in zip(titles, answers, strict=True))


def _report(text: str) -> str:
    """A child's result without the line before it and the receipts after it."""
    body = text.split("\n\n", 1)[1] if text.startswith("Subagent (") and "\n\n" in text else text
    rows = body.rstrip().splitlines()
    return "\n".join(rows[:-1] if rows and " · subagent_id " in rows[-1] else rows).strip()


def _standalone(intent: Intent) -> str:
    """The part as a question that needs no other."""
    question = clean(intent.text)
    if intent.subject and not (words.names(question) or words.quoted(question) or words.files(question)):
        name = f"{intent.container}.{intent.subject}" if intent.container else intent.subject
        question = _IT.sub(f"`{name}`", question, count=1)
    return question[:1].upper() + question[1:] + "?"
