"""What git knows: what is not committed, what commits changed, when and by whom."""

from __future__ import annotations

import re
from collections.abc import Sequence
from shlex import quote

from cowork.core.frozen import frozen
from cowork.providers.offline import source, words
from cowork.providers.offline.intent import Intent
from cowork.providers.offline.locate import definitions, resolve, split_name
from cowork.providers.offline.markdown import bullets, code, plural, shortened
from cowork.providers.offline.plans import Plan, Result, Steps, bash, read

_FORMAT = "--date=short --format='@%h|%an|%ad|%s'"
_NUMBERS = {"two": 2, "couple": 2, "three": 3, "few": 3, "four": 4, "five": 5, "ten": 10}
_STATES = {"M": "modified", "A": "added", "D": "deleted", "R": "renamed", "?": "untracked", "U": "in conflict"}
_STATUS = ("status --short --branch --untracked-files=all", "diff --stat HEAD")
_UNCOMMITTED = re.compile(
    r"\buncommit|\bnot? (?:yet |been )*commit|\b(?:un-?)?staged?\b|\buntracked\b|\bworking (?:tree|copy)"
    r"|\bgit (?:status|diff)\b"
    r"|^status$|\bpending\b|\blocal(?:ly)? (?:chang|modif|edit)|\b(?:did|have) (?:i|we) (?:chang|modif|edit|touch)"
    r"|\bto commit\b"
)
_ONLY = {  # of what is not committed: how a question names a part of it, and how git marks that
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
_ONE = r"\b(?:previous|head|tip|last|latest|newest|most recent) (?:commit|change)\b|\bcommit before\b|\bhead\b"
_SINCE = (
    r"\bsince ([\w -]+)|\b(?:in|over|during) the (?:last|past) ([\w ]+)|\b(today|yesterday|(?:this"
    r"|last) (?:week|month|year))\b"
)
_SOME = rf"\bcommit|\blog\b|\bhistory\b|\brecent|\bfirst\b|\bby [A-Z]|{_ID}|{_ONE}|{_SINCE}"


@frozen
class Commit:
    """A commit as the log tells it, with the files it changed."""

    row: str
    files: tuple[str, ...]


def history(intent: Intent) -> Plan:
    """Answer by the kind of question: the first that fits."""
    said = intent.subject.lower()
    named = [n for n in words.quoted(intent.subject) + words.names(intent.subject) if not words.is_acronym(n)]
    raw = next((command for pattern, command in _RAW.items() if re.search(pattern, said)), "")
    if _UNCOMMITTED.search(said):
        results = yield from _git(*_STATUS)
        return results if isinstance(results, str) else _uncommitted(said, *results)
    if raw:
        results = yield from _git(raw)
        rows = [] if isinstance(results, str) else [row for row in results[0].text.splitlines() if row.strip()]
        rows = [re.sub(r"^\s*(\d+)\s+(.+)$", _counted, row) for row in rows]
        return results if isinstance(results, str) else f"By `git {raw.split()[0]}`:\n\n{bullets(rows, 30)}"
    if files := words.files(intent.subject):
        return (yield from _of_file(intent, files[0]))
    if named:
        return (yield from _of_name(intent, named[0]))
    if re.search(_SOME, said):
        return (yield from _recent(intent))
    results = yield from _git(*_STATUS, f"log {_FORMAT} -n 10")
    if isinstance(results, str):
        return results
    return f"{_uncommitted('', *results[:2])}\n\nLatest commits:\n\n{bullets([c.row for c in _commits(results[2])])}"


def _counted(hit: re.Match[str]) -> str:
    return f"{hit[2]}: {plural(int(hit[1]), 'commit')}"


def _git(*commands: str) -> Steps[list[Result] | str]:
    """Run git; a text instead of results where it cannot answer."""
    results = list((yield [bash(f"git {command}", f"Run git {command.split()[0]}") for command in commands]))
    said = "\n".join(result.text for result in results)
    if denied := next((result for result in results if result.denied), None):
        return (yield from _without_git(denied))
    if re.search(r"not a git repository", said, re.IGNORECASE):
        return "This folder is not a git repository, so there is no history and nothing to compare with."
    return (
        "This repository has no commits yet."
        if re.search(r"not have any commits yet|unknown revision .*HEAD", said)
        else results
    )


def _without_git(denied: Result) -> Plan:
    """The last entries of the reflog say what was committed; the rest is unknown, and said so."""
    (log,) = yield [read(".git/logs/HEAD")]
    entries = [text.split("\t", 1) for _, text in sorted(log.page.items())]
    rows = [f"{code(e[0].split()[1][:9])} {shortened(e[1])}" for e in entries[-8:][::-1] if len(e) == 2]
    said = f"I may not run git here ({shortened(denied.text, 160)}), so I cannot see uncommitted changes."
    advice = " Trust the folder (`--trust`) or allow `Bash(git:*)` to let me."
    return f"{said}\n\nFrom `.git/logs/HEAD`, latest first:\n{bullets(rows)}" if rows else said + advice


def _uncommitted(said: str, status: Result, stat: Result) -> str:
    kind, (_, marks) = next(item for item in _ONLY.items() if re.search(item[1][0], said))
    rows = [row for row in status.text.splitlines() if re.match(r"[ MADRCUT?!]{2} ", row) and re.match(marks, row)]
    branch = re.search(r"^## (.+)$", status.text, re.MULTILINE)
    head = f"Branch `{branch[1]}`.\n\n" if branch else ""
    if not rows:
        return f"{head}Nothing is {kind}."
    shown = [f"`{row[3:]}` {_state(row)}" for row in rows]
    total = re.findall(r"^.*files? changed.*$", stat.text, re.MULTILINE) if kind == "not committed" else []
    sum_ = f"\n\nIn sum: {total[-1].strip()}." if total else ""
    return f"{head}{plural(len(rows), 'file')} {kind}:\n{bullets(shown, 30)}{sum_}"


def _state(row: str) -> str:
    return _STATES.get(row.strip()[0], "changed") + (", staged" if row[0] not in " ?" else "")


def _log(options: str) -> Steps[list[Commit] | str]:
    """The commits a log speaks of, newest first; a text where git cannot answer or there are none."""
    results = yield from _git(f"log {_FORMAT} {options}")
    return results if isinstance(results, str) else _commits(results[0]) or "I found no such commit."


def _commits(log: Result) -> list[Commit]:
    commits = []
    for head, rest in re.findall(r"^@(.*)\n?((?:(?!@).*\n?)*)", log.text, re.MULTILINE):
        id, author, date, subject = [*head.split("|", 3), "", "", ""][:4]
        files = re.findall(r"^([A-Z])\d*\t(?:.+\t)?(.+)$", rest, re.MULTILINE)
        told = tuple(f"`{path}` {_STATES.get(letter, 'changed')}" for letter, path in files)
        commits.append(Commit(f"{code(id)} {date} {shortened(subject, 90)} ({author})", told))
    return commits


def _recent(intent: Intent) -> Plan:
    """Commits: as many as asked for, of whom, since when; or the last, the first, or one given by its id."""
    said = intent.subject.lower()
    number = re.search(r"\b(?:last|latest|recent|past|newest) (\w+)(?: of)? (?:\w+ )?(?:commits|changes)", said)
    many = number[1] if number else ""
    options = f"-n {many if many.isdigit() else _NUMBERS.get(many, 10)} --name-status"
    if re.search(r"\b(?:first|oldest|initial|earliest)\b", said):
        options = "--max-parents=0"
    elif id := re.search(_ID, said):
        options = f"-n 1 --name-status --first-parent {id[0]}"
    elif re.search(_ONE, said):
        options = f"-n 1 --name-status --first-parent{' --skip 1' if re.search('before|previous', said) else ''}"
    elif not number and (since := re.search(_SINCE, said)):
        when = since[1] or (f"{since[2]} ago" if since[2] else since[3].replace("today", "midnight"))
        options = f"-n 50 --name-status --since={quote(when)}"
    author = re.search(r"\bby ([A-Z][\w.-]+)", intent.subject)
    commits = yield from _log(options + (f" --author={quote(author[1])}" if author else ""))
    return commits if isinstance(commits, str) else _told(commits)


def _told(commits: Sequence[Commit]) -> str:
    files = list(dict.fromkeys(file for commit in commits for file in commit.files))
    changed = f"\n\n{plural(len(files), 'file')} changed:\n{bullets(files, 30)}" if files else ""
    return f"{plural(len(commits), 'commit')}, latest first:\n\n{bullets([c.row for c in commits], 30)}{changed}"


def _of_file(intent: Intent, name: str) -> Plan:
    """When a file was changed, and by whom."""
    path = yield from resolve(name)
    commits = yield from _log(f"--follow -- {quote(path)}")
    if isinstance(commits, str):
        return f"{code(path)}: {commits}"
    if re.search(r"\b(?:added|created|introduced|first)\b", intent.subject, re.IGNORECASE):
        return f"`{path}` first came with {commits[-1].row}."
    return f"`{path}` was last changed by {commits[0].row}.\n\n{_told(commits[:10])}"


def _of_name(intent: Intent, subject: str) -> Plan:
    """Who last changed a definition, by the lines it stands on; or what added or removed a text."""
    name, container = split_name(Intent("where", subject))
    hits = yield from definitions(Intent("where", name, text=intent.text), name, container)
    removed = re.search(r"\bremov|\bdelet|\bdropp", intent.subject, re.IGNORECASE)
    if not hits or removed or re.search(r"\b(?:add|introduc|creat|first)", intent.subject, re.IGNORECASE):
        commits = yield from _log(f"-S {quote(name)} -n 50")
        if isinstance(commits, str):
            return f"{code(name)}: {commits}"
        return f"{code(name)} {'last went' if removed else 'first came'} with {commits[0 if removed else -1].row}."
    (page,) = yield [read(hits[0].path, hits[0].line, 260)]
    end, _ = source.body(page.page, hits[0])
    commits = yield from _log(f"-n 1 -s -L {hits[0].line},{end}:{quote(hits[0].path)}")
    at = f"{code(name)} (`{hits[0].at}-{end}`)"
    return f"{at}: {commits}" if isinstance(commits, str) else f"{at} was last changed by {commits[0].row}."
