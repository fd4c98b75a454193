"""Orders to change something, in the few shapes that need no understanding: exact text in, exact text out."""

from __future__ import annotations

import re
from typing import Literal

Edit = Literal["replace", "rename", "add", "create", "remove"]
Order = tuple[Edit, str, str, str]  # kind, subject, path, other

_Q = r"(?:`[^`]+`|\"[^\"]*\"|'[^']*'|“[^”]*”"
_THING = r"(?:function|method|class|variable|constant|module|file|type|symbol|name|text|word|string|field|option)"
_FILE = r"(?:the )?(?:file )?[`'\"]?(?P<file>[\w./@+-]+)[`'\"]?"

_REPLACE = re.compile(
    rf"^(?:replace|change|substitute|swap)\s+(?:all |every |each )?(?:occurrences? of )?(?:the )?(?:{_THING} )?"
    rf"(?P<a>{_Q}|.+?))\s+(?:by|with|to|for|into)\s+(?P<b>{_Q}|.+?))\s+(?:in|inside|within|of)\s+{_FILE}$",
    re.IGNORECASE | re.DOTALL,
)
_IN_REPLACE = re.compile(
    rf"^in\s+{_FILE},?\s+(?:replace|change)\s+(?:the )?(?P<a>{_Q}|.+?))\s+(?:by|with|to)\s+(?P<b>{_Q}|.+))$",
    re.IGNORECASE | re.DOTALL,
)
_RENAME = re.compile(
    rf"^rename\s+(?:the )?(?:{_THING} )?(?P<a>{_Q}|[\w.$-]+)(?:\(\))?)\s+(?:to|into|as)\s+(?P<b>{_Q}"
    rf"|[\w.$-]+)(?:\(\))?)"
    rf"(?:\s+(?:in|inside|within|under)\s+{_FILE})?(?:\s+everywhere)?$",
    re.IGNORECASE,
)
_ADD = re.compile(
    rf"^(?:add|append|insert|put)\s+(?:the |a )?(?:new )?(?:line|text|entry)?:?\s*(?P<a>{_Q}|.+?))\s+"
    rf"(?:to|at|into|in|on)\s+(?:the )?(?P<end>end|bottom|top|start|beginning)?(?: of )?\s*{_FILE}$",
    re.IGNORECASE | re.DOTALL,
)
_CREATE = re.compile(
    r"^(?:create|make|write|add)\s+(?:a |an |the )?(?:new )?(?:empty )?(?:text )?file\s+(?:called |named )?"
    r"[`'\"]?(?P<file>[\w./@+-]+)[`'\"]?(?:\s+(?:with|containing|that says|saying|holding)"
    r"(?: the)?(?: contents?| text| lines?)?:?\s*(?P<b>.+))?$",
    re.IGNORECASE | re.DOTALL,
)
_REMOVE = re.compile(
    rf"^(?:delete|remove|drop)\s+(?:the )?(?:lines?|text)\s+(?P<a>{_Q}|.+?))\s+(?:from|in)\s+{_FILE}$",
    re.IGNORECASE | re.DOTALL,
)


def command(text: str) -> Order | None:
    """The edit a sentence orders, if it is one of the known shapes."""
    if hit := _RENAME.match(text):
        old, new = (_bare(hit[group]).removesuffix("()") for group in "ab")
        return ("rename", old, hit["file"] or "", new)
    if hit := _REPLACE.match(text) or _IN_REPLACE.match(text):
        return ("replace", _bare(hit["a"]), hit["file"], _bare(hit["b"]))
    if hit := _CREATE.match(text):
        return ("create", hit["file"], hit["file"], _unfenced(hit["b"] or ""))
    if hit := _REMOVE.match(text):
        return ("remove", _bare(hit["a"]), hit["file"], "")
    if (hit := _ADD.match(text)) and ("." in hit["file"] or "/" in hit["file"] or hit["file"][0].isupper()):
        top = (hit["end"] or "").lower() in ("top", "start", "beginning")
        return ("add", _bare(hit["a"]), hit["file"], "top" if top else "end")
    return None


def _bare(text: str) -> str:
    """Without the quotes around it."""
    text = text.strip()
    pairs = (("`", "`"), ('"', '"'), ("'", "'"), ("“", "”"))
    for left, right in pairs:
        if len(text) >= 2 and text[0] == left and text[-1] == right:
            return text[1:-1]
    return text


def _unfenced(text: str) -> str:
    fenced = re.fullmatch(r"\s*```\w*\n(.*?)\n?```\s*", text, re.DOTALL)
    body = fenced[1] if fenced else _bare(text)
    return body if body.endswith("\n") or not body else body + "\n"
