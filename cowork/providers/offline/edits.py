"""Literal edits: read, change exactly what was said, report what happened. The permission dialog decides."""

from __future__ import annotations

import re

from cowork.core.blocks import Json
from cowork.providers.offline import found, words
from cowork.providers.offline.answer import code, plural, shortened
from cowork.providers.offline.files import resolve
from cowork.providers.offline.intent import Intent
from cowork.providers.offline.plan import Call, Plan, Result, grep, read

_MOST_FILES = 40
_MOST_EDITS = 60


def edit(intent: Intent) -> Plan:
    """Do the edit that was ordered."""
    match intent.kind:
        case "rename":
            return (yield from _rename(intent))
        case "create":
            return (yield from _create(intent))
        case "add":
            return (yield from _add(intent))
        case _:
            return (yield from _replace(intent))


def _replace(intent: Intent) -> Plan:
    path = yield from resolve(intent.path)
    if not words.is_file(path) and "." not in path.rsplit("/", 1)[-1]:
        (look,) = yield [read(path)]
        if (look.failed and "folder" in look.text) or "directory" in look.text:
            return (yield from _everywhere(intent, path, re.escape(intent.subject)))
    (page,) = yield [read(path)]
    if page.failed:
        return f"I changed nothing. {page.text}"
    old, new = intent.subject, intent.other
    if intent.kind == "remove":
        line = next((t for _, t in sorted(found.numbered(page).items()) if old in t), None)
        old, new = (line + "\n", "") if line is not None else (old, "")
    whole = "\n".join(text for _, text in sorted(found.numbered(page).items())) + "\n"
    (done,) = yield [_edit(path, old, new, everywhere=whole.count(old) > 1)]
    if done.failed and "occurs" in done.text:  # further down than was read
        (done,) = yield [_edit(path, old, new, everywhere=True)]
    return _ended(path, done)


def _edit(path: str, old: str, new: str, *, everywhere: bool = False) -> Call:
    given: Json = {"file_path": path, "old_string": old, "new_string": new}
    return Call("Edit", given | ({"replace_all": True} if everywhere else {}))


def _rename(intent: Intent) -> Plan:
    path = (yield from resolve(intent.path)) if intent.path else ""
    return (yield from _everywhere(intent, path, rf"\b{re.escape(intent.subject)}\b"))


def _everywhere(intent: Intent, path: str, pattern: str) -> Plan:
    """Change every line that holds the whole word, file by file, each through the permission dialog."""
    old, new = intent.subject, intent.other
    (result,) = yield [grep(pattern, path=path, head_limit=2000)]
    hits = found.lines(result)
    if not hits:
        return f"I changed nothing: I searched {code(path or 'all files')} for {code(old)} and found it nowhere."
    files = list(dict.fromkeys(h.path for h in hits))
    if len(files) > _MOST_FILES:
        return (
            f"I changed nothing: {code(old)} is in {plural(len(files), 'file')}, more than I change at once "
            f"({_MOST_FILES}). Name a folder: rename {old} to {new} in FOLDER."
        )
    pages = yield [read(file) for file in files]
    said: list[str] = []
    for file, page in zip(files, pages, strict=True):
        edits = _line_edits(found.numbered(page), pattern, new)
        if page.failed or not edits:
            said.append(f"- `{file}`: not changed; {shortened(page.text, 120) if page.failed else 'no line to change'}")
            continue
        (done,) = yield [Call("MultiEdit", {"file_path": file, "edits": edits[:_MOST_EDITS]})]
        said.append(f"- `{file}`: {_outcome(done)}")
        if done.denied:
            said.append("I stopped there.")
            break
    return f"{code(old)} → {code(new)}:\n\n" + "\n".join(said) + _advice(said)


def _line_edits(lines: dict[int, str], pattern: str, new: str) -> list[Json]:
    """An edit for each different line; whole lines, so that a longer name that holds the old one is left alone."""
    edits: dict[str, Json] = {}
    for _, text in sorted(lines.items()):
        changed = re.sub(pattern, lambda _: new, text)
        if changed != text:
            edits[text] = {"old_string": text, "new_string": changed, "replace_all": True}
    # A line that is part of another would change both, so the longer one goes first.
    return sorted(edits.values(), key=lambda e: -len(e["old_string"]))


def _create(intent: Intent) -> Plan:
    (there,) = yield [read(intent.path, limit=1)]
    if not there.failed:
        return f"I changed nothing: `{intent.path}` is already there."
    (done,) = yield [Call("Write", {"file_path": intent.path, "content": intent.other})]
    return _ended(intent.path, done)


def _add(intent: Intent) -> Plan:
    path = yield from resolve(intent.path)
    (page,) = yield [read(path)]
    if page.failed:
        return f"I changed nothing. {page.text} To make it: create file {path} with …"
    lines = found.numbered(page)
    if not lines:
        (done,) = yield [Call("Write", {"file_path": path, "content": intent.subject + "\n"})]
        return _ended(path, done)
    if found.total_lines(page) > len(lines):
        return f"I changed nothing: `{path}` is too long for me to add to safely."
    top = intent.other == "top"
    rows = [text for _, text in sorted(lines.items())]
    anchor = _unique(rows, top=top)
    if not anchor:
        return f"I changed nothing: I found no unique text at the {'top' if top else 'end'} of `{path}` to hold on to."
    new = f"{intent.subject}\n{anchor}" if top else f"{anchor}\n{intent.subject}"
    (done,) = yield [_edit(path, anchor, new)]
    return _ended(path, done)


def _unique(rows: list[str], *, top: bool) -> str:
    """As many lines from one end as make a text that occurs once."""
    whole = "\n".join(rows)
    for size in range(1, min(len(rows), 40) + 1):
        part = "\n".join(rows[:size] if top else rows[-size:])
        if part.strip() and whole.count(part) == 1:
            return part
    return ""


def _outcome(done: Result) -> str:
    return f"not changed: {shortened(done.text, 160)}" if done.failed else shortened(done.text, 160)


def _ended(path: str, done: Result) -> str:
    if not done.failed:
        return f"Done. {done.text}"
    return f"I changed nothing in `{path}`. {done.text}"


def _advice(said: list[str]) -> str:
    changed = sum("Edited " in row for row in said)
    return "\n\nI changed text, not meaning: run the tests." if changed else ""
