"""What git knows: what is not committed, what commits changed, when and by whom. Its own output is the answer."""

from __future__ import annotations

import re
from shlex import quote

from cowork.providers.offline import words
from cowork.providers.offline.intent import Intent
from cowork.providers.offline.locate import resolve
from cowork.providers.offline.markdown import fence, shortened
from cowork.providers.offline.plans import Plan, bash

_LOG = "log --date=short --format='%h %ad %s (%an)'"
_STATUS = ("status --short --untracked-files=all", "diff --stat HEAD")
_ID = r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b"
_LAST = r"\b(?:last|latest|newest|most recent) (?:commit|change)\b|\bhead\b"
_UNCOMMITTED = (
    r"\buncommit|\bnot? (?:yet |been )*commit|\b(?:un-?)?staged?\b|\buntracked\b|\bworking (?:tree|copy)|^status$"
    r"|\bgit (?:status|diff)\b|\blocal(?:ly)? (?:chang|modif|edit)|\b(?:did|have) (?:i|we) (?:chang|modif|edit|touch)"
)
_RAW = {  # questions that one command answers as it is
    r"\btags?\b|\breleases?\b": "tag --list --sort=-creatordate",
    r"\bbranch(?:es)?\b": "branch --all --format='%(HEAD) %(refname:short) %(subject)'",
    r"\bcontribut|\bauthors?\b|\bmost commits\b|\bwho works\b": "shortlog -sn HEAD",
}
_COMMITS = (
    rf"\bcommit|\blog\b|\bhistory\b|\brecent|\bsince\b|{_ID}|\bhead\b"
    r"|\b(?:first|oldest|add|added|introduced|created)\b"
)
_MOST = 60  # lines of what one command said


def history(intent: Intent) -> Plan:
    """Run the commands for what is asked, and show what they say."""
    said, path = intent.subject.lower(), ""
    if files := words.files(intent.subject):
        path = yield from resolve(files[0])
    commands = _commands(said, path, words.quoted(intent.subject) + words.names(intent.subject))
    results = yield [bash(f"git {command}", f"Run git {command.split()[0]}") for command in commands]
    if denied := next((result for result in results if result.denied), None):
        advice = "Trust the folder (`--trust`) or allow `Bash(git:*)` to let me."
        return f"I may not run git here ({shortened(denied.text, 160)}), so I cannot see what changed. {advice}"
    everything = "\n".join(result.text for result in results)
    if re.search(r"not a git repository", everything, re.IGNORECASE):
        return "This folder is not a git repository, so there is no history and nothing to compare with."
    if re.search(r"not have any commits yet|unknown revision .*HEAD", everything):
        return "This repository has no commits yet."
    parts = []
    for command, result in zip(commands, results, strict=True):
        rows = result.text.splitlines()
        more = [f"… {len(rows) - _MOST} more lines"] if len(rows) > _MOST else []
        parts.append(f"`git {command}`:\n\n" + fence("\n".join([*rows[:_MOST], *more]), "git.txt"))
    return "\n\n".join(parts)


def _commands(said: str, path: str, names: list[str]) -> tuple[str, ...]:
    """What to ask git: about what is not committed, a file, a name in code, or commits."""
    named = [name.removesuffix("()") for name in names if not words.is_acronym(name)]
    if re.search(_UNCOMMITTED, said):
        return _STATUS
    if raw := next((command for pattern, command in _RAW.items() if re.search(pattern, said)), ""):
        return (raw,)
    if path:
        return (f"{_LOG} --follow --name-status -- {quote(path)}",)
    if named:
        return (f"{_LOG} -n 50 --name-status -S {quote(named[0])}",)
    return (f"{_LOG} {_which(said)}",) if re.search(_COMMITS, said) else (*_STATUS, f"{_LOG} -n 10")


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
