"""Literal edits: orders in the few shapes that need no understanding, done to the letter. Permissions decide."""

from __future__ import annotations

import re

from cowork.core.blocks import Json
from cowork.providers.offline.intent import Intent, Kind
from cowork.providers.offline.locate import resolve
from cowork.providers.offline.plans import Call, CallResult, Plan, read

_TEXT = r"(?:`[^`]+`|\"[^\"]*\"|'[^']*'|“[^”]*”|.+?)"
_FILE = r"(?:the )?(?:file )?[`'\"]?(?P<file>[\w./@+-]+)[`'\"]?"
_ORDERS: tuple[tuple[Kind, str], ...] = (
    ("replace", r"(?:replace|change|rename|substitute)\s+(?:all |every |each )?(?:occurrences? of )?(?:the )?"
                r"(?:(?:function|method|class|variable|constant|name|text|word|string|line) )?"
                rf"(?P<a>{_TEXT})\s+(?:by|with|to|for|into)\s+(?P<b>{_TEXT})\s+(?:in|inside|within|of)\s+{_FILE}"),
    ("create", rf"(?:create|make|write|add)\s+(?:a |an |the )?(?:new )?file\s+(?:called |named )?{_FILE}"
               r"(?:\s+(?:with|containing|saying)(?: the)?(?: contents?| text| lines?)?:?\s*(?P<b>.+))?"),
    ("add", rf"(?:add|append|insert|put)\s+(?:the |a )?(?:new )?(?:line|text|entry)?:?\s*(?P<a>{_TEXT})\s+"
            rf"(?:to|at|into|in|on)\s+(?:the )?(?P<end>end|bottom|top|start|beginning)?(?: of )?\s*{_FILE}"),
)  # fmt: skip


def order(text: str) -> Intent | None:
    """The edit a sentence orders, if it is one of the known shapes."""
    hits = ((kind, re.fullmatch(pattern, text, re.IGNORECASE | re.DOTALL)) for kind, pattern in _ORDERS)
    kind, hit = next(((kind, hit) for kind, hit in hits if hit), ("", None))
    if hit is None:
        return None
    said = hit.groupdict(default="")
    path, old, new = said["file"], _bare(said.get("a", "")), _bare(said.get("b", ""))
    if kind == "create":
        fenced = re.fullmatch(r"```\w*\n(.*?)\n?```", new, re.DOTALL)
        body = fenced[1] if fenced else new
        return Intent(kind, path, path, other=body if body.endswith("\n") or not body else body + "\n")
    if kind == "add":
        new = "top" if said["end"].lower() in ("top", "start", "beginning") else "end"
        is_file = "." in path or "/" in path or path[0].isupper()
        return Intent(kind, old, path, other=new) if is_file else None
    return Intent(kind, old, path, other=new)


def _bare(text: str) -> str:
    """Without the quotes around it."""
    text = text.strip()
    return text[1:-1] if re.fullmatch(r"`[^`].*`|\".*\"|'.*'|“.*”", text, re.DOTALL) and len(text) > 1 else text


def edit(intent: Intent) -> Plan:
    """Do the edit that was ordered."""
    path = intent.path if intent.kind == "create" else (yield from resolve(intent.path))
    (page,) = yield [read(path)]
    call = _call(intent, path, page)
    if isinstance(call, str):
        return f"I changed nothing: {call}"
    (done,) = yield [call]
    if done.failed and "occurs" in done.text:  # further down than was read
        (done,) = yield [Call("Edit", call.input | {"replace_all": True})]
    return f"I changed nothing in `{path}`. {done.text}" if done.failed else f"Done. {done.text}"


def _call(intent: Intent, path: str, page: CallResult) -> Call | str:
    """The call that makes the edit, or why it cannot be made."""
    rows = [text for _, text in sorted(page.page.items())]
    old, new = intent.subject, intent.other
    if intent.kind == "create":
        return Call("Write", {"file_path": path, "content": new}) if page.failed else f"`{path}` is already there."
    if page.failed:
        return page.text
    if intent.kind == "add" and not rows:
        return Call("Write", {"file_path": path, "content": old + "\n"})
    if intent.kind == "add":
        top = new == "top"
        anchor = _unique(rows, top=top) if page.total_lines <= len(rows) else ""
        old, new = anchor, f"{old}\n{anchor}" if top else f"{anchor}\n{old}"
        if not anchor:
            return f"I found no unique text at the {intent.other} of `{path}` to hold on to."
    given: Json = {"file_path": path, "old_string": old, "new_string": new}
    return Call("Edit", given | ({"replace_all": True} if "\n".join([*rows, ""]).count(old) > 1 else {}))


def _unique(rows: list[str], *, top: bool) -> str:
    """As many lines from one end as make a text that occurs once."""
    whole = "\n".join(rows)
    parts = ("\n".join(rows[:size] if top else rows[-size:]) for size in range(1, min(len(rows), 40) + 1))
    return next((part for part in parts if part.strip() and whole.count(part) == 1), "")
