"""What git knows: what is not committed, what commits changed, when and by whom."""

from __future__ import annotations

import re
from shlex import quote

from cowork.providers.offline import words
from cowork.providers.offline.intent import Intent
from cowork.providers.offline.locate import resolve
from cowork.providers.offline.markdown import bullets, code, plural, shortened
from cowork.providers.offline.plans import CallResult, Plan, Steps, bash

_LOG = "log --date=short --format='@`%h` %ad %s (%an)'"
_STATES = {"M": "modified", "A": "added", "D": "deleted", "R": "renamed", "?": "untracked", "U": "in conflict"}
_STATUS = ("status --short --untracked-files=all", "diff --stat HEAD")
_ID = r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b"
_FIRST = r"\b(?:first|oldest|initial|earliest|add|added|introduced|created)\b"
_LAST = r"\b(?:last|latest|newest|most recent) (?:commit|change)\b|\bhead\b"
_UNCOMMITTED = (
    r"\buncommit|\bnot? (?:yet |been )*commit|\b(?:un-?)?staged?\b|\buntracked\b|\bworking (?:tree|copy)|^status$"
    r"|\bgit (?:status|diff)\b|\blocal(?:ly)? (?:chang|modif|edit)|\b(?:did|have) (?:i|we) (?:chang|modif|edit|touch)"
)
_RAW = {  # questions that one command answers as it is
    r"\btags?\b|\breleases?\b": "tag --list --sort=-creatordate",
    r"\bbranch(?:es)?\b": "branch --all --format='`%(refname:short)` %(subject) %(HEAD)'",
    r"\bcontribut|\bauthors?\b|\bmost commits\b|\bwho works\b": "shortlog -sn HEAD",
}


def history(intent: Intent) -> Plan:
    """Answer by the kind of question: what is not committed, what one command tells, or commits."""
    said = intent.subject.lower()
    raw = next((command for pattern, command in _RAW.items() if re.search(pattern, said)), "")
    files = words.files(intent.subject)
    named = [n for n in words.quoted(intent.subject) + words.names(intent.subject) if not words.is_acronym(n)]
    commands: tuple[str, ...]
    if re.search(_UNCOMMITTED, said):
        commands = _STATUS
    elif raw:
        commands = (raw,)
    elif files:
        commands = (f"{_LOG} --follow -- {quote((yield from resolve(files[0])))}",)
    elif named:
        commands = (f"{_LOG} -n 50 --name-status -S {quote(named[0].removesuffix('()'))}",)
    elif re.search(rf"\bcommit|\blog\b|\bhistory\b|\brecent|\bsince\b|{_ID}|\bhead\b|{_FIRST}", said):
        commands = (f"{_LOG} {_which(said)}",)
    else:
        commands = (*_STATUS, f"{_LOG} -n 10")
    results = yield from _git(*commands)
    if isinstance(results, str):
        return results
    if raw and commands == (raw,):
        rows = [" ".join(row.split()) for row in results[0].text.splitlines() if row.strip()]
        return f"By `git {raw.split()[0]}`:\n\n{bullets(rows, 30)}"
    parts = [_uncommitted(*results[:2])] if len(results) > 1 else []
    if len(results) != len(_STATUS):
        parts.append(_commits(results[-1], (files or named or [""])[0], first=bool(re.search(_FIRST, said))))
    return "\n\n".join(parts)


def _git(*commands: str) -> Steps[list[CallResult] | str]:
    """Run git; a text instead of results where it cannot answer."""
    results = list((yield [bash(f"git {command}", f"Run git {command.split()[0]}") for command in commands]))
    said = "\n".join(result.text for result in results)
    if denied := next((result for result in results if result.denied), None):
        advice = "Trust the folder (`--trust`) or allow `Bash(git:*)` to let me."
        return f"I may not run git here ({shortened(denied.text, 160)}), so I cannot see what changed. {advice}"
    if re.search(r"not a git repository", said, re.IGNORECASE):
        return "This folder is not a git repository, so there is no history and nothing to compare with."
    none = re.search(r"not have any commits yet|unknown revision .*HEAD", said)
    return "This repository has no commits yet." if none else results


def _uncommitted(status: CallResult, stat: CallResult) -> str:
    rows = [row for row in status.text.splitlines() if re.match(r"[ MADRCUT?!]{2} ", row)]
    if not rows:
        return "Nothing is uncommitted."
    staged = {row: ", staged" if row[0] not in " ?" else "" for row in rows}
    shown = [f"`{row[3:]}` {_STATES.get(row.strip()[0], 'changed')}{staged[row]}" for row in rows]
    total = re.findall(r"^.*files? changed.*$", stat.text, re.MULTILINE)
    sum_ = f"\n\nIn sum: {total[-1].strip()}." if total else ""
    return f"{plural(len(rows), 'file')} not committed:\n{bullets(shown, 30)}{sum_}"


def _commits(log: CallResult, about: str, *, first: bool) -> str:
    """The commits of a log and the files they changed; of a file or a name, the first or the last one leads."""
    commits = re.findall(r"^@(.*)$", log.text, re.MULTILINE)
    if not commits:
        return "I found no such commit."
    lead = f"{plural(len(commits), 'commit')}, latest first:"
    if about:
        lead = f"{code(about)} {'first came with' if first else 'was last changed by'} {commits[-1 if first else 0]}."
        commits = [] if first else commits[1:10]
    changed = re.findall(r"^([A-Z])\d*\t(?:.+\t)?(.+)$", log.text, re.MULTILINE)
    told = list(dict.fromkeys(f"`{path}` {_STATES.get(letter, 'changed')}" for letter, path in changed))
    files = f"{plural(len(told), 'file')} changed:\n{bullets(told, 30)}" if told else ""
    return "\n\n".join(part for part in (lead, bullets(commits, 30), files) if part)


def _which(said: str) -> str:
    """Options of git log for what is asked: how many, since when, the first, the last, or one by its id."""
    if id := re.search(_ID, said):
        return f"-n 1 --name-status --first-parent {id[0]}"
    if re.search(r"\b(?:first|oldest|initial|earliest)\b", said):
        return "--max-parents=0"
    if re.search(_LAST, said):
        return "-n 1 --name-status --first-parent"
    number, since = re.search(r"\b(\d+)\b", said), re.search(r"\bsince ([\w -]+)", said)
    return f"-n {number[1] if number else 10} --name-status{f' --since={quote(since[1])}' if since else ''}"
