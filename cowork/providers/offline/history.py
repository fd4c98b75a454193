"""What git knows: what is not committed, what commits changed, when, by whom, on which branch."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from shlex import quote

from cowork.core.frozen import frozen
from cowork.providers.offline import found, source, words
from cowork.providers.offline.answer import code, plural, shortened
from cowork.providers.offline.files import resolve
from cowork.providers.offline.intent import Intent
from cowork.providers.offline.plan import Plan, Result, Steps, bash, read
from cowork.providers.offline.where import definitions, split_name

_MOST_FILES = 30
_MOST_COMMITS = 10
_FORMAT = "--date=short --format='@%h|%an|%ad|%s'"
_NUMBERS = {"two": 2, "couple": 2, "three": 3, "few": 3, "four": 4, "five": 5, "ten": 10}


@frozen
class Commit:
    """A commit as the log tells it, with the files it changed."""

    id: str
    author: str
    date: str
    subject: str
    files: tuple[tuple[str, str], ...] = ()  # (letter, path)
    body: str = ""

    @property
    def row(self) -> str:
        return f"{code(self.id)} {self.date} {shortened(self.subject, 90)} ({self.author})"


def history(intent: Intent) -> Plan:
    """Answer by the kind of question: the first that fits."""
    said = intent.subject
    plan = next((plan for pattern, plan in _QUESTIONS if re.search(pattern, said, re.IGNORECASE)), None)
    if plan is None:
        plan = _of_file if words.files(said) else _by_words
    return (yield from plan(intent))


def _git(*commands: str) -> Steps[list[Result] | str]:
    """Run git; a text instead of results where it cannot answer."""
    results = list((yield [bash(f"git {command}", f"Run git {command.split()[0]}") for command in commands]))
    for result in results:
        if result.denied:
            return (yield from _without_git(result))
        if re.search(r"not a git repository", result.text, re.IGNORECASE):
            return "This folder is not a git repository, so there is no history and nothing to compare with."
        if re.search(r"does not have any commits yet|unknown revision .*HEAD|bad revision 'HEAD'", result.text):
            return "This repository has no commits yet."
    return results


def _without_git(denied: Result) -> Plan:
    """The last entries of the reflog say what was committed; the rest is unknown, and said so."""
    head, log = yield [read(".git/HEAD"), read(".git/logs/HEAD")]
    branch = "".join(found.numbered(head).values()).removeprefix("ref: refs/heads/").strip()
    entries = [text.split("\t", 1) for _, text in sorted(found.numbered(log).items())]
    rows = [f"- {code(e[0].split()[1][:9])} {shortened(e[1])}" for e in entries[-8:][::-1] if len(e) == 2]
    why = shortened(denied.text, 160)
    said = f"I may not run git here ({why}), so I cannot see uncommitted changes."
    if not rows:
        return said + " Trust the folder (`--trust`) or allow `Bash(git:*)` to let me."
    return f"{said}\n\nFrom `.git/logs/HEAD`, branch {code(branch)}, latest first:\n" + "\n".join(rows)


_STATES = {
    "M": "modified",
    "A": "added",
    "D": "deleted",
    "R": "renamed",
    "?": "untracked",
    "U": "in conflict",
    "C": "copied",
    "T": "of another type",
}


def _log(command: str) -> Steps[list[Commit] | str]:
    """The commits a log speaks of, newest first."""
    results = yield from _git(f"log {_FORMAT} {command}")
    return results if isinstance(results, str) else _commits(results[0])


def _commits(log: Result) -> list[Commit]:
    commits: list[Commit] = []
    for row in log.text.splitlines():
        if head := re.match(r"@(\w+)\|(.*?)\|([\d-]+)\|(.*)$", row):
            commits.append(Commit(head[1], head[2], head[3], head[4]))
        elif commits and (file := re.match(r"([A-Z])\d*\t(?:.+\t)?(.+)$", row)):
            last = commits.pop()
            kept = (*last.files, (file[1], file[2]))
            commits.append(Commit(last.id, last.author, last.date, last.subject, kept))
    return commits


def _one(commit: Commit, lead: str = "") -> str:
    files = commit.files
    rows = [f"- `{path}` {_STATES.get(letter, 'changed')}" for letter, path in files[:_MOST_FILES]]
    more = [f"- and {len(files) - _MOST_FILES} more"] if len(files) > _MOST_FILES else []
    size = f" It changed {plural(len(files), 'file')}:\n\n" if files else ""
    return f"{lead}{commit.row}.{size}" + "\n".join(rows + more)


def _listed(commits: Sequence[Commit], lead: str) -> str:
    """Commits with their files, then each file once."""
    rows = [f"- {commit.row}" for commit in commits[:_MOST_FILES]]
    touched = Counter(path for commit in commits for _, path in commit.files)
    shown = ", ".join(f"`{path}`" for path, _ in touched.most_common(_MOST_FILES))
    more = f" and {len(touched) - _MOST_FILES} more" if len(touched) > _MOST_FILES else ""
    files = f"\n\n{plural(len(touched), 'file')} changed: {shown}{more}" if touched else ""
    return f"{lead}:\n\n" + "\n".join(rows) + files


_STATUS = ("status --short --branch --untracked-files=all", "diff --stat HEAD")


def _tree(intent: Intent) -> Plan:
    """What is not committed; only what is staged or untracked where that is asked."""
    results = yield from _git(*_STATUS)
    return results if isinstance(results, str) else _uncommitted(intent.subject.lower(), *results)


def _uncommitted(said: str, status: Result, stat: Result) -> str:
    rows = [row for row in status.text.splitlines() if re.match(r"^[ MADRCUT?!]{2} ", row)]
    branch = next((row[3:] for row in status.text.splitlines() if row.startswith("## ")), "")
    kind = "not committed"
    if re.search(r"\buntracked\b|\bnot tracked\b", said):
        rows, kind = [row for row in rows if row.startswith("??")], "untracked"
    elif re.search(r"\bunstaged\b|\bnot (?:yet )?staged\b", said):
        rows, kind = [row for row in rows if row[1] != " "], "not staged"
    elif re.search(r"\bstaged?\b|\bindex\b", said):
        rows, kind = [row for row in rows if row[0] not in " ?"], "staged"
    return "\n\n".join(_told(rows, kind, stat, branch))


def _told(rows: Sequence[str], kind: str, stat: Result, branch: str) -> list[str]:
    parts = [f"Branch `{branch}`."] if branch else []
    if not rows:
        return [*parts, "Nothing is uncommitted." if kind == "not committed" else f"Nothing is {kind}."]
    shown = [f"- `{row[3:]}` {_state(row[:2])}" for row in rows[:_MOST_FILES]]
    more = [f"- and {len(rows) - _MOST_FILES} more"] if len(rows) > _MOST_FILES else []
    parts.append(f"{plural(len(rows), 'file')} {kind}:\n" + "\n".join(shown + more))
    total = [row.strip() for row in stat.text.splitlines() if re.search(r"files? changed", row)]
    return parts + ([f"In sum: {total[-1]}."] if total and kind == "not committed" else [])


def _state(marks: str) -> str:
    word = _STATES.get(marks.strip()[:1], "changed")
    return f"{word}, staged" if marks[0] not in " ?" else word


def _overview(intent: Intent) -> Plan:
    """Both: what is not committed, and the latest commits."""
    results = yield from _git(*_STATUS, f"log {_FORMAT} -n {_MOST_COMMITS}")
    if isinstance(results, str):
        return results
    tree = _uncommitted("", *results[:2])
    return f"{tree}\n\n{_listed(latest, 'Latest commits')}" if (latest := _commits(results[2])) else tree


def _recent(intent: Intent) -> Plan:
    """The last commits, as many as asked for, of whom and since when it is asked."""
    said = intent.subject.lower()
    since, words_ = _since(said)
    author = re.search(r"\bby ([A-Z][\w.-]+(?: [A-Z][\w.-]+)?)", intent.subject)
    many = _how_many(said)
    options = f"-n {many}" if not since else f"--since={quote(since)} -n 50"
    options += f" --author={quote(author[1])}" if author else ""
    commits = yield from _log(f"{options} --name-status")
    if isinstance(commits, str):
        return commits
    lead = f"commit{'s' if len(commits) != 1 else ''}"
    lead += f" by {author[1]}" if author else ""
    if not commits:
        return f"No {lead} {words_}.".replace("  ", " ")
    if len(commits) == 1:
        return _one(commits[0], f"One commit {words_}: " if words_ else "")
    return _listed(commits, f"{len(commits)} {lead} {words_ or '(latest first)'}")


def _how_many(said: str) -> int:
    number = re.search(
        r"\b(?:last|latest|recent|past|newest|most recent) (?:(\d+)|(\w+)(?: of)?) (?:\w+ )?(?:commits?|changes)", said
    )
    if number and number[1]:
        return min(int(number[1]), 50)
    return _NUMBERS.get(number[2], _MOST_COMMITS) if number and number[2] else _MOST_COMMITS


def _since(said: str) -> tuple[str, str]:
    """(a date git understands, the words for it)."""
    if told := re.search(
        r"\b(?:in|during|over|within) the (?:last|past) ((?:\d+ )?(?:hours?|days?|weeks?|months?|years?))", said
    ):
        span = told[1] if told[1][0].isdigit() else f"1 {told[1]}"
        return f"{span} ago", f"in the last {told[1]}"
    for word, date in (("today", "midnight"), ("yesterday", "yesterday"), ("this week", "1 week ago"),
                       ("last week", "1 week ago"), ("this month", "1 month ago"), ("last month", "1 month ago"),
                       ("this year", "1 year ago")):  # fmt: skip
        if word in said:
            return date, f"since {word}" if word == "yesterday" else word
    told = re.search(
        r"\bsince ((?:\d{4}-\d\d-\d\d)|(?:mon|tues|wednes|thurs|fri|satur|sun)day|[a-z]+ \d{4}|\d{4})", said
    )
    return (told[1], f"since {told[1]}") if told else ("", "")


def _last(intent: Intent) -> Plan:
    """One commit: the newest, the one before it, the first, or one given by its id."""
    said = intent.subject.lower()
    id = re.search(_ID, said)
    if re.search(r"\b(?:first|oldest|initial|earliest)\b", said):
        commits = yield from _log("--reverse")
    elif id:
        commits = yield from _log(f"-n 1 --name-status --first-parent {id[0]}")
    else:
        skip = " --skip 1" if re.search(r"\b(?:before the last|second.to.last|penultimate|previous to)\b", said) else ""
        commits = yield from _log(f"-n 1{skip} --name-status --first-parent")
    if isinstance(commits, str):
        return commits
    if not commits:
        return "I found no such commit."
    return _one(commits[0])


def _of_file(intent: Intent) -> Plan:
    """When a file was changed, and by whom."""
    path = yield from resolve(words.files(intent.subject)[0])
    commits = yield from _log(f"-n {_MOST_COMMITS} --follow -- {quote(path)}")
    if isinstance(commits, str):
        return commits
    if not commits:
        return f"No commit changed {code(path)}: it is not tracked, or there is no such file."
    if re.search(r"\b(?:added|created|introduced|first)\b", intent.subject, re.IGNORECASE):
        every = yield from _log(f"--follow -- {quote(path)}")
        first = every[-1] if not isinstance(every, str) and every else commits[-1]
        return f"`{path}` first came with {first.row}."
    rows = "\n".join(f"- {commit.row}" for commit in commits[1:])
    head = f"`{path}` was last changed by {commits[0].row}."
    return head + (f"\n\nBefore that:\n{rows}" if rows else "")


def _of_name(intent: Intent) -> Plan:
    """Who last changed a definition, by the lines it stands on."""
    name, container = split_name(Intent("where", _name(intent.subject)))
    hits = yield from definitions(Intent("where", name, text=intent.text), name, container)
    if not hits:
        return (yield from _pickaxe(intent))
    best = hits[0]
    (page,) = yield [read(best.path, best.line, 260)]
    end, _ = source.body(found.numbered(page), best)
    results = yield from _git(f"blame --date=short -L {best.line},{end} -- {quote(best.path)}")
    if isinstance(results, str):
        return results
    rows = [hit for row in results[0].text.splitlines() if (hit := re.match(_BLAMED, row))]
    at = f"{code(name)} (`{best.at}-{end}`)"
    if any(not hit[1].strip("0") for hit in rows):
        return f"{at} has changes that are not committed yet."
    if not rows:
        return f"{at}: git blame names no commit. {shortened(results[0].text, 160)}"
    newest = max(rows, key=lambda hit: hit[2])
    commits = yield from _log(f"-n 1 {newest[1]}")
    told = commits[0].row if not isinstance(commits, str) and commits else code(newest[1])
    return f"{at} was last changed by {told}."


_BLAMED = r"\^?([0-9a-f]{7,40}) .*?(\d{4}-\d\d-\d\d) +\d+\)"


def _pickaxe(intent: Intent) -> Plan:
    """The commits that added or removed a text."""
    name = _name(intent.subject)
    commits = yield from _log(f"-S {quote(name)} -n 50")
    if isinstance(commits, str):
        return commits
    if not commits:
        return f"No commit added or removed {code(name)}."
    removed = re.search(r"\bremov|\bdelet|\bdropp", intent.subject, re.IGNORECASE)
    best = commits[0] if removed else commits[-1]
    others = [commit for commit in commits if commit is not best][:8]
    head = f"{code(name)} {'last went' if removed else 'first came'} with {best.row}."
    return head + ("\n\nIts number also changed in:\n" + "\n".join(f"- {c.row}" for c in others) if others else "")


def _name(text: str) -> str:
    told = words.quoted(text) or words.names(text)
    return told[0] if told else ""


def _authors(intent: Intent) -> Plan:
    results = yield from _git("shortlog -sn HEAD")
    if isinstance(results, str):
        return results
    rows = [hit for row in results[0].text.splitlines() if (hit := re.match(r"\s*(\d+)\s+(.+)$", row))]
    shown = "\n".join(f"- {hit[2]}: {plural(int(hit[1]), 'commit')}" for hit in rows[:_MOST_FILES])
    return f"{plural(len(rows), 'author')} by commits:\n\n{shown}" if rows else "I found no authors."


def _often(intent: Intent) -> Plan:
    commits = yield from _log("-n 500 --name-status")
    if isinstance(commits, str):
        return commits
    touched = Counter(path for commit in commits for _, path in commit.files)
    rows = "\n".join(f"- `{path}` in {plural(many, 'commit')}" for path, many in touched.most_common(15))
    return f"Changed most often in the last {plural(len(commits), 'commit')}:\n\n{rows}"


def _branches(intent: Intent) -> Plan:
    """The branches; or what one of them has that the main one has not."""
    results = yield from _git("branch --all -vv")
    if isinstance(results, str):
        return results
    rows = [row for row in results[0].text.splitlines() if row.strip()]
    here = next((row[2:].split()[0] for row in rows if row.startswith("*")), "")
    names = [row[2:].split()[0] for row in rows]
    if re.search(r"\bchang|\bcommits?\b|\bdiffer|\bahead\b", intent.subject, re.IGNORECASE):
        main = next((name for name in ("main", "master", "trunk", "develop") if name in names and name != here), "")
        if not main:
            return (yield from _recent(intent))
        commits = yield from _log(f"{main}..HEAD --name-status")
        if isinstance(commits, str):
            return commits
        if not commits:
            return f"`{here}` has no commits that `{main}` has not."
        return _listed(commits, f"{plural(len(commits), 'commit')} on `{here}` since `{main}`")
    listed = "\n".join(
        f"- {code(row[2:].split()[0])} {shortened(' '.join(row[2:].split()[1:]), 90)}" for row in rows[:_MOST_FILES]
    )
    return f"You are on `{here}`. {plural(len(rows), 'branch')}:\n\n{listed}"


def _short(command: str, what: str) -> Callable[[Intent], Plan]:
    """A question that one command answers as it is."""

    def plan(intent: Intent) -> Plan:
        results = yield from _git(command)
        if isinstance(results, str):
            return results
        rows = [row for row in results[0].text.splitlines() if row.strip() and row != "(no output)"]
        shown = "\n".join(f"- {code(shortened(' '.join(row.split())))}" for row in rows[:_MOST_FILES])
        return f"{what}, by `git {command}`:\n\n{shown}" if rows else f"There are no {what.lower()} (`git {command}`)."

    return plan


_RECENTLY = r"\b(?:recent|recently|last|latest|newest|most recent)\b"
_QUESTIONS: tuple[tuple[str, Callable[[Intent], Plan]], ...] = (
    (r"\buncommit|\bnot? (?:yet |been )*commit|\b(?:un-?)?staged?\b|\buntracked\b|\bworking (?:tree|copy|dir)"
     r"|\bgit status\b"
     r"|^status$|\bdirty\b|\bclean\b|\bpending\b|\blocal(?:ly)? (?:chang|modif|edit)\w*|\bmodified files\b"
     r"|\bfiles are (?:modified|changed)\b"
     r"|\bgit diff\b"
     r"|\bsince the last commit\b|\bto commit\b|\b(?:what|which files?) (?:did|have) (?:i|we) (?:chang|modif|edit"
     r"|touch)", _tree),
    (r"\bstash", _short("stash list", "Stashes")),
    (r"\btags?\b|\breleases?\b", _short("tag --list --sort=-creatordate", "Tags")),
    (r"\bremotes?\b|\borigin\b|\bupstream\b", _short("remote -v", "Remotes")),
    (r"\bbranch(?:es)?\b", _branches),
    (r"\bcontribut|\bcommitt(?:ers?|ed (?:the )?most)|\bauthors?\b|\bmost commits\b|\bwho (?:wrote|works"
     r"|worked)\b", _authors),
    (r"\b(?:most|very) (?:often|frequently|changed|edited|modified)|\bchanged? (?:the )?most\b(?! recent)|\bchurn"
     r"|\bhot ?spots?", _often),
)  # fmt: skip
_ID = r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b"
_SINGLE = (
    rf"\b(?:first|oldest|initial|earliest|previous|head|tip) commit\b|\bcommit before\b|\bHEAD\b|{_ID}"
    rf"|{_RECENTLY} commit\b"
    r"|\b(?:last|latest|newest|most recent) (?:thing |change )?(?:that was |we |you |i )?(?:committed|change)\b"
)


def _by_words(intent: Intent) -> Plan:
    """A name in code, a span of time, or everything."""
    said = intent.subject
    if re.search(_SINGLE, said, re.IGNORECASE):
        return _last(intent)
    name = _name(said)
    if name and re.search(r"\b(?:add|introduc|remov|delet|creat|appear|first|dropp)", said, re.IGNORECASE):
        return _pickaxe(intent)
    if name and not words.is_acronym(name):
        return _of_name(intent)
    recent = (
        rf"\bcommits?\b|\bcommitted\b|\blog\b|\bhistory\b|\bfiles?\b.*{_RECENTLY}|{_RECENTLY}.*\b(?:files?|chang)"
        rf"|\bby [A-Z]"
    )
    if _since(said.lower())[0] or re.search(recent, said):
        return _recent(intent)
    return _overview(intent)
