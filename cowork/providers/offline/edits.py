"""Literal edits: orders in the few shapes that need no understanding, done to the letter. Permissions decide."""

from __future__ import annotations

import re

from cowork.core.blocks import Json
from cowork.providers.offline.intent import Intent, Kind
from cowork.providers.offline.locate import resolve
from cowork.providers.offline.markdown import code, plural, shortened
from cowork.providers.offline.plans import Call, Plan, grep, read

_MOST_FILES = 40
_MOST_EDITS = 60
_TEXT = r"(?:`[^`]+`|\"[^\"]*\"|'[^']*'|“[^”]*”|.+?)"
_WORD = r"(?:`[^`]+`|\"[^\"]*\"|'[^']*'|“[^”]*”|[\w.$-]+)(?:\(\))?"
_THING = r"(?:function|method|class|variable|constant|module|file|type|symbol|name|text|word|string|field|option)"
_FILE = r"(?:the )?(?:file )?[`'\"]?(?P<file>[\w./@+-]+)[`'\"]?"
_ORDERS: tuple[tuple[Kind, str], ...] = (
    ("rename", rf"rename\s+(?:the )?(?:{_THING} )?(?P<a>{_WORD})\s+(?:to|into|as)\s+(?P<b>{_WORD})"
               rf"(?:\s+(?:in|inside|within|under)\s+{_FILE})?(?:\s+everywhere)?"),
    ("replace", rf"(?:replace|change|substitute|swap)\s+(?:all |every "
                rf"|each )?(?:occurrences? of )?(?:the )?(?:{_THING} )?"
                rf"(?P<a>{_TEXT})\s+(?:by|with|to|for|into)\s+(?P<b>{_TEXT})\s+(?:in|inside|within|of)\s+{_FILE}"),
    ("replace", rf"in\s+{_FILE},?\s+(?:replace|change)\s+(?:the )?(?P<a>{_TEXT})\s+(?:by|with|to)\s+(?P<b>{_TEXT})"),
    ("create", r"(?:create|make|write|add)\s+(?:a |an |the )?(?:new )?(?:empty )?(?:text )?file\s+(?:called |named )?"
               r"[`'\"]?(?P<file>[\w./@+-]+)[`'\"]?(?:\s+(?:with|containing|that says|saying|holding)"
               r"(?: the)?(?: contents?| text| lines?)?:?\s*(?P<b>.+))?"),
    ("remove", rf"(?:delete|remove|drop)\s+(?:the )?(?:lines?|text)\s+(?P<a>{_TEXT})\s+(?:from|in)\s+{_FILE}"),
    ("add", rf"(?:add|append|insert|put)\s+(?:the |a )?(?:new )?(?:line|text|entry)?:?\s*(?P<a>{_TEXT})\s+(?:to|at"
            rf"|into|in"
            rf"|on)\s+(?:the )?(?P<end>end|bottom|top|start|beginning)?(?: of )?\s*{_FILE}"),
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
        return Intent(kind, path, path, other=_unfenced(said["b"]))
    if kind == "add":
        top = said["end"].lower() in ("top", "start", "beginning")
        is_file = "." in path or "/" in path or path[0].isupper()
        return Intent(kind, old, path, other="top" if top else "end") if is_file else None
    if kind == "rename":
        old, new = old.removesuffix("()"), new.removesuffix("()")
    return Intent(kind, old, path, other=new)


def _bare(text: str) -> str:
    """Without the quotes around it."""
    text = text.strip()
    return text[1:-1] if re.fullmatch(r"`.*`|\".*\"|'.*'|“.*”", text, re.DOTALL) and len(text) > 1 else text


def _unfenced(text: str) -> str:
    fenced = re.fullmatch(r"\s*```\w*\n(.*?)\n?```\s*", text, re.DOTALL)
    body = fenced[1] if fenced else _bare(text)
    return body if body.endswith("\n") or not body else body + "\n"


def edit(intent: Intent) -> Plan:
    """Do the edit that was ordered."""
    path = (yield from resolve(intent.path)) if intent.path and intent.kind != "create" else intent.path
    if intent.kind == "rename":
        return (yield from _rename(intent, path, rf"\b{re.escape(intent.subject)}\b"))
    (page,) = yield [read(path)]
    rows = [text for _, text in sorted(page.page.items())]
    if intent.kind == "create":
        if not page.failed:
            return f"I changed nothing: `{path}` is already there."
        call = Call("Write", {"file_path": path, "content": intent.other})
    elif page.failed:
        hint = f" To make it: create file {path} with …" if intent.kind == "add" else ""
        return f"I changed nothing. {page.text}{hint}"
    elif intent.kind == "add" and not rows:
        call = Call("Write", {"file_path": path, "content": intent.subject + "\n"})
    elif intent.kind == "add":
        top = intent.other == "top"
        anchor = _unique(rows, top=top) if page.total_lines <= len(rows) else ""
        if not anchor:
            return f"I changed nothing: I found no unique text at the {intent.other} of `{path}` to hold on to."
        call = _edit(path, anchor, f"{intent.subject}\n{anchor}" if top else f"{anchor}\n{intent.subject}")
    else:
        old = intent.subject
        old = next((f"{text}\n" for text in rows if old in text), old) if intent.kind == "remove" else old
        call = _edit(path, old, intent.other, everywhere="\n".join([*rows, ""]).count(old) > 1)
    (done,) = yield [call]
    if done.failed and "occurs" in done.text:  # further down than was read
        (done,) = yield [Call("Edit", call.input | {"replace_all": True})]
    return f"I changed nothing in `{path}`. {done.text}" if done.failed else f"Done. {done.text}"


def _edit(path: str, old: str, new: str, *, everywhere: bool = False) -> Call:
    given: Json = {"file_path": path, "old_string": old, "new_string": new}
    return Call("Edit", given | ({"replace_all": True} if everywhere else {}))


def _rename(intent: Intent, path: str, pattern: str) -> Plan:
    """Change every line that holds the text, file by file, each through the permission dialog."""
    old, new = intent.subject, intent.other
    (result,) = yield [grep(pattern, path=path, head_limit=2000)]
    files = list(dict.fromkeys(hit.path for hit in result.hits))
    if not files:
        return f"I changed nothing: I searched {code(path or 'all files')} for {code(old)} and found it nowhere."
    if len(files) > _MOST_FILES:
        many = f"{code(old)} is in {plural(len(files), 'file')}, more than I change at once ({_MOST_FILES})"
        return f"I changed nothing: {many}. Name a folder: rename {old} to {new} in FOLDER."
    pages = yield [read(file) for file in files]
    said: list[str] = []
    for file, page in zip(files, pages, strict=True):
        edits = _line_edits(page.page, pattern, new)
        if not edits:
            why = shortened(page.text, 120) if page.failed else "no line to change"
            said.append(f"- `{file}`: not changed; {why}")
            continue
        (done,) = yield [Call("MultiEdit", {"file_path": file, "edits": edits[:_MOST_EDITS]})]
        said.append(f"- `{file}`: {'not changed: ' if done.failed else ''}{shortened(done.text, 160)}")
        if done.denied:
            said.append("I stopped there.")
            break
    advice = "\n\nI changed text, not meaning: run the tests." if any("Edited " in row for row in said) else ""
    return f"{code(old)} → {code(new)}:\n\n" + "\n".join(said) + advice


def _line_edits(lines: dict[int, str], pattern: str, new: str) -> list[Json]:
    """An edit for each different line; whole lines, so that a longer name that holds the old one is left alone."""
    edits: dict[str, Json] = {}
    for _, text in sorted(lines.items()):
        changed = re.sub(pattern, lambda _: new, text)
        if changed != text:
            edits[text] = {"old_string": text, "new_string": changed, "replace_all": True}
    # A line that is part of another would change both, so the longer one goes first.
    return sorted(edits.values(), key=lambda e: -len(e["old_string"]))


def _unique(rows: list[str], *, top: bool) -> str:
    """As many lines from one end as make a text that occurs once."""
    whole = "\n".join(rows)
    parts = ("\n".join(rows[:size] if top else rows[-size:]) for size in range(1, min(len(rows), 40) + 1))
    return next((part for part in parts if part.strip() and whole.count(part) == 1), "")
