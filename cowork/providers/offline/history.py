"""What git knows: what is not committed, what commits changed, when and by whom."""

from __future__ import annotations

import re
from shlex import quote

from cowork.providers.offline import words
from cowork.providers.offline.intent import Intent
from cowork.providers.offline.locate import resolve
from cowork.providers.offline.markdown import bullets, code, plural, shortened
from cowork.providers.offline.plans import Plan, Result, Steps, bash, read

_FORMAT = "--date=short --format='@`%h` %ad %s (%an)'"
_STATES = {"M": "modified", "A": "added", "D": "deleted", "R": "renamed", "?": "untracked", "U": "in conflict"}
_STATUS = ("status --short --branch --untracked-files=all", "diff --stat HEAD")
_UNCOMMITTED = (
    r"\buncommit|\bnot? (?:yet |been )*commit|\b(?:un-?)?staged?\b|\buntracked\b|\bworking (?:tree|copy)|^status$"
    r"|\bgit (?:status|diff)\b|\blocal(?:ly)? (?:chang|modif|edit)|\b(?:did|have) (?:i|we) (?:chang|modif|edit|touch)"
)
_PARTS = {  # of what is not committed: how a question names a part of it, and how git marks that
    "untracked": (r"\buntracked\b", r"\?\?"),
    "not staged": (r"\bunstaged\b|\bnot (?:yet )?staged\b", r".[^ ]"),
    "staged": (r"\bstaged?\b", r"[^ ?]"),
    "not committed": (r"", r""),
}
_RAW = {  # questions that one command answers as it is
    r"\bstash": "stash list",
    r"\btags?\b|\breleases?\b": "tag --list --sort=-creatordate",
    r"\bremotes?\b": "remote -v",
    r"\bbranch(?:es)?\b": "branch --all --format='`%(refname:short)` %(subject) %(HEAD)'",
    r"\bcontribut|\bauthors?\b|\bmost commits\b|\bwho works\b": "shortlog -sn HEAD",
}
_ID = r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b"
_FIRST = r"\b(?:first|oldest|initial|earliest|add|added|introduced|created)\b"


def history(intent: Intent) -> Plan:
    """Answer by the kind of question: what is not committed, what one command tells, or commits."""
    said = intent.subject.lower()
    raw = next((command for pattern, command in _RAW.items() if re.search(pattern, said)), "")
    if re.search(_UNCOMMITTED, said):
        results = yield from _git(*_STATUS)
        return results if isinstance(results, str) else _uncommitted(said, *results)
    if raw:
        results = yield from _git(raw)
        if isinstance(results, str):
            return results
        rows = [" ".join(row.split()) for row in results[0].text.splitlines() if row.strip()]
        return f"By `git {raw.split()[0]}`:\n\n{bullets(rows, 30)}"
    about = ((yield from resolve(files[0])) if (files := words.files(intent.subject)) else "") or _name(intent)
    if about or re.search(rf"\bcommit|\blog\b|\bhistory\b|\brecent|\bsince\b|{_ID}|\bhead\b|{_FIRST}", said):
        return (yield from _commits(intent.subject, about, is_file=bool(files)))
    results = yield from _git(*_STATUS, f"log {_FORMAT} -n 10")
    if isinstance(results, str):
        return results
    return f"{_uncommitted('', *results[:2])}\n\nLatest commits:\n\n{bullets(_read(results[2])[0])}"


def _name(intent: Intent) -> str:
    named = [n for n in words.quoted(intent.subject) + words.names(intent.subject) if not words.is_acronym(n)]
    return named[0].removesuffix("()") if named else ""


def _git(*commands: str) -> Steps[list[Result] | str]:
    """Run git; a text instead of results where it cannot answer."""
    results = list((yield [bash(f"git {command}", f"Run git {command.split()[0]}") for command in commands]))
    said = "\n".join(result.text for result in results)
    if denied := next((result for result in results if result.denied), None):
        return (yield from _without_git(denied))
    if re.search(r"not a git repository", said, re.IGNORECASE):
        return "This folder is not a git repository, so there is no history and nothing to compare with."
    none = re.search(r"not have any commits yet|unknown revision .*HEAD", said)
    return "This repository has no commits yet." if none else results


def _without_git(denied: Result) -> Plan:
    """The last entries of the reflog say what was committed; the rest is unknown, and said so."""
    (log,) = yield [read(".git/logs/HEAD")]
    entries = [text.split("\t", 1) for _, text in sorted(log.page.items())]
    rows = [f"{code(e[0].split()[1][:9])} {shortened(e[1])}" for e in entries[-8:][::-1] if len(e) == 2]
    said = f"I may not run git here ({shortened(denied.text, 160)}), so I cannot see uncommitted changes."
    advice = " Trust the folder (`--trust`) or allow `Bash(git:*)` to let me."
    return f"{said}\n\nFrom `.git/logs/HEAD`, latest first:\n{bullets(rows)}" if rows else said + advice


def _uncommitted(said: str, status: Result, stat: Result) -> str:
    kind, (_, marks) = next(item for item in _PARTS.items() if re.search(item[1][0], said))
    rows = [row for row in status.text.splitlines() if re.match(r"[ MADRCUT?!]{2} ", row) and re.match(marks, row)]
    if not rows:
        return f"Nothing is {kind}."
    staged = {row: ", staged" if row[0] not in " ?" else "" for row in rows}
    shown = [f"`{row[3:]}` {_STATES.get(row.strip()[0], 'changed')}{staged[row]}" for row in rows]
    total = re.findall(r"^.*files? changed.*$", stat.text, re.MULTILINE) if kind == "not committed" else []
    sum_ = f"\n\nIn sum: {total[-1].strip()}." if total else ""
    return f"{plural(len(rows), 'file')} {kind}:\n{bullets(shown, 30)}{sum_}"


def _read(log: Result) -> tuple[list[str], list[str]]:
    """(commits, files they changed) of a log."""
    files = re.findall(r"^([A-Z])\d*\t(?:.+\t)?(.+)$", log.text, re.MULTILINE)
    told = (f"`{path}` {_STATES.get(letter, 'changed')}" for letter, path in files)
    return re.findall(r"^@(.*)$", log.text, re.MULTILINE), list(dict.fromkeys(told))


def _commits(question: str, about: str, *, is_file: bool) -> Plan:
    """The commits of a file, with a text, of a time; the first or the last of them."""
    options = _of_time(question)
    if about:
        options = f"--follow -- {quote(about)}" if is_file else f"-S {quote(about)} -n 50 --name-status"
    results = yield from _git(f"log {_FORMAT} {options}")
    if isinstance(results, str):
        return results
    commits, changed = _read(results[0])
    if not commits:
        return f"I found no such commit (`git log {options}`)."
    lead = f"{plural(len(commits), 'commit')}, latest first:"
    if about:
        first = re.search(_FIRST, question.lower())
        lead = f"{code(about)} {'first came with' if first else 'was last changed by'} {commits[-1 if first else 0]}."
        commits = [] if first else commits[1:10]
    files = f"{plural(len(changed), 'file')} changed:\n{bullets(changed, 30)}" if changed else ""
    return "\n\n".join(part for part in (lead, bullets(commits, 30), files) if part)


def _of_time(question: str) -> str:
    """Options of git log for what is asked: how many, since when, the first, the last, or one by its id."""
    said = question.lower()
    number = re.search(r"\b(?:last|latest|recent|past|newest) (\d+) (?:\w+ )?(?:commits|changes)", said)
    if id := re.search(_ID, said):
        return f"-n 1 --name-status --first-parent {id[0]}"
    if re.search(r"\b(?:first|oldest|initial|earliest)\b", said):
        return "--max-parents=0"
    if re.search(r"\b(?:head|last|latest|newest|most recent) (?:commit|change)\b|\bhead\b", said):
        return "-n 1 --name-status --first-parent"
    if since := re.search(r"\bsince ([\w -]+)|\b(today|yesterday|(?:this|last) (?:week|month|year))\b", said):
        return f"-n 50 --name-status --since={quote((since[1] or since[2]).replace('today', 'midnight'))}"
    return f"-n {number[1] if number else 10} --name-status"
