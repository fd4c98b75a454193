"""A project as a whole: what its files say of it, what git tells of its history, and which of its tests fail."""

from __future__ import annotations

import re
from collections.abc import Iterator
from shlex import quote

from cowork.core.format import code, one_line
from cowork.providers.offline import words
from cowork.providers.offline.languages import Line, indent_of
from cowork.providers.offline.locate import describe, resolve
from cowork.providers.offline.plans import CallResult, Plan, Steps, bullets, call, evidence, fence, grep, plural, read
from cowork.providers.offline.questions import BEGINS, DEPENDENCIES, FACTS, SCRIPTS, Intent
from cowork.providers.offline.words import by_place, is_test

_MANIFESTS = re.compile(
    r"readme(?:\.\w+)?|pyproject\.toml|setup\.(?:cfg|py)|package\.json|Cargo\.toml|go\.mod|Makefile|justfile|tox\.ini"
    r"|[\w.-]*requirements[\w.-]*\.txt",
    re.IGNORECASE,
)
_MOST_READ = 12


class Files:
    """The files at the top that tell of a project; each as its lines by number."""

    def __init__(self, tree: CallResult, texts: dict[str, dict[int, str]]) -> None:
        self.tree = tree
        self.texts = texts

    def lines(self, pattern: str = "") -> list[Line]:
        """The lines of files whose name fits a pattern."""
        named = ((name, rows) for name, rows in self.texts.items() if re.match(pattern, name, re.IGNORECASE))
        return [Line(name, number, text) for name, rows in named for number, text in sorted(rows.items())]

    def blocks(self, pattern: str) -> Iterator[list[Line]]:
        """Lines of manifests that fit a pattern, each with its block: what is indented below it, or a table of TOML."""
        for name in self.texts:
            lines = [] if name.lower().startswith("readme") else self.lines(re.escape(name))
            for index, head in enumerate(lines):
                if not re.search(pattern, head.text, re.IGNORECASE):
                    continue
                is_table, deep = head.text.startswith("["), indent_of(head.text)
                block = [head]
                for line in lines[index + 1 :]:
                    if line.text.startswith("[") if is_table else indent_of(line.text) <= deep:
                        break
                    block += [line] if line.text.strip() else []
                yield block


def look(path: str = "") -> Steps[Files]:
    """List the folder and read what tells of the project."""
    (tree,) = yield [call("LS", path=path)]
    top = [row.strip() for row in tree.text.splitlines() if row and not row.startswith(" ")]
    wanted = sorted(filter(_MANIFESTS.fullmatch, top), key=lambda name: not name.lower().startswith("readme"))
    base = f"{path.rstrip('/')}/" if path else ""
    pages = (yield [read(base + name, limit=400) for name in wanted[:_MOST_READ]]) if wanted else []
    return Files(tree, {name: page.page for name, page in zip(wanted, pages, strict=False)})


_DESCRIPTION = r"""\s*["']?description["']?\s*[=:]\s*["']?([^"'\[{]{9,})"""
_PROSE = r"\s*(?![#<\[!=*|:.-])\S.{30,}"


def outline(intent: Intent) -> Plan:
    """What is in this repo: purpose, layout, how to start."""
    files = yield from look(intent.path)
    if files.tree.failed:
        return f"I could not list {code(intent.path or '.')}: {files.tree.text}"
    first, *rows = files.tree.text.splitlines()
    base = f"{intent.path.rstrip('/')}/" if intent.path else ""
    layout = [code(f"{base}{row}") for row in rows if not row.startswith((" ", "Ignored", "."))]
    parts = [f"**Layout** ({first.split(': ', 1)[-1]}):\n{bullets(sorted(layout, key=lambda row: '/' not in row))}"]
    # What the project says it is: the description of a manifest, else the first prose of the README.
    described = [(line, re.match(_DESCRIPTION, line.text)) for line in files.lines("pyproject|setup|package|cargo")]
    purposes = [(line, said[1]) for line, said in described if said]
    purposes += [(line, line.text) for line in files.lines("readme") if re.match(_PROSE, line.text)]
    for line, said in purposes[:1]:
        parts.insert(0, f"{one_line(said, 220)} (`{base}{line.at}`)")
    if rows := [f"{code(command)} (`{at}`)" for verb in ("run", "test") for command, at in commands(files, verb)]:
        parts.append(f"**Run and test**:\n{bullets(rows[:6])}")
    return "\n\n".join(parts)


_TOOLS = (
    r"make|just|npm|yarn|pnpm|npx|cargo|go|python3? -m|pip|pipx|uvx?|poetry|hatch|tox|nox|pytest|docker|cmake|ruff|mypy"
    r"|pre-commit|brew|conda|\./"
)
_VERBS = {  # what somebody may want to do, and the words of commands, targets and scripts that do it
    "test": r"tests?|check|pytest|unittest|tox|nox",
    "lint": r"lint|check|format|fmt|ruff|mypy|clippy|vet|pre-commit",
    "build": r"build|compile|all|dist|cmake",
    "install": r"install|setup|set up|sync|deps",
    "benchmark": r"bench\w*",
    "run": r"run|start|serve|dev|demo|up|uvx|npx|python3? -m \w+$",
}


def commands(files: Files, verb: str) -> list[tuple[str, str]]:
    """(command, place) of what the manifests and the README say does it."""
    said = rf"(?:{_VERBS[verb]})(?::[\w:-]+)?"
    targets = (("make", files.lines("makefile")), ("just", files.lines("justfile")))
    found = [(f"{tool} {hit[1]}", line.at) for tool, lines in targets for line in lines
             if (hit := re.match(rf"({said})\s*:(?!=)", line.text))]  # fmt: skip
    for line in (line for block in files.blocks(SCRIPTS) for line in block[1:]):
        hit = re.match(r"""\s*["']?([\w.:-]+)["']?\s*[=:]""", line.text)
        if hit and line.path == "package.json" and re.fullmatch(said, hit[1]):
            found.append((f"npm run {hit[1]}", line.at))
        elif hit and line.path != "package.json" and verb == "run":
            found.append((hit[1], line.at))
    found += [(f"{tool} {verb}", f"{name}:1") for name, tool in (("Cargo.toml", "cargo"), ("go.mod", "go"))
              if name in files.texts and verb != "lint"]  # fmt: skip
    alone = rf"^\s*(?:\$ |`)?(?:{_TOOLS})\b[^`]{{0,100}}?\b(?:{_VERBS[verb]})\b[^`]{{0,60}}`?$"
    read_me = [line for line in files.lines("readme") if re.search(alone, line.text)]
    return list(dict.fromkeys([*found, *((line.text.strip("$ `>"), line.at) for line in read_me)]))


def howto(intent: Intent) -> Plan:
    """How to run, build, test or install it, from what the project itself says."""
    files = yield from look(intent.path)
    verb = next((verb for verb, said in _VERBS.items() if re.search(rf"\b(?:{said})\b", intent.subject.lower())), "run")
    verbs = (verb, "install") if verb == "run" else (verb,)
    rows = [f"{code(command)} (`{at}`)" for each in verbs for command, at in commands(files, each)]
    if rows:
        return f"To {verb} it:\n\n{bullets(list(dict.fromkeys(rows)))}"
    looked = ", ".join(files.texts) or "no README or manifest at the top"
    return f"I found no command to {verb} this: I looked at {looked}."


_MAIN = r"^if __name__ == .__main__.|^(?:func|def|int|(?:pub )?(?:async )?fn) main\(|static void main\("


def manifest(intent: Intent) -> Plan:
    """Dependencies, version, license, author, where it starts: the lines of the manifests that say so."""
    files = yield from look(intent.path)
    said = intent.subject.lower()
    keys = next((keys for asked, keys in FACTS.items() if re.search(asked, said)), DEPENDENCIES)
    needed = [*files.blocks(DEPENDENCIES), *filter(None, [files.lines(r"[\w.-]*requirements")])]
    inner = {line for block in needed for line in block}  # a version there is that of something else
    found = needed if keys == DEPENDENCIES else [block for block in files.blocks(keys) if block[0] not in inner]
    kind = set(words.words(said)) - words.STOP - {"dependencies", "requirements"}
    found = [block for block in found if block and kind & set(words.words(f"{block[0].path} {block[0].text}"))] or found
    if keys == BEGINS:
        (begun,) = yield [grep(_MAIN, head_limit=60)]
        found += filter(None, [[hit for hit in by_place(begun.hits)[:8] if not is_test(hit.path)]])
    if not found:
        looked = f"I looked in {', '.join(files.texts) or 'the top folder'} and found no line for that."
        return f"{looked}\n\n{(yield from describe(intent))}"
    return "\n\n".join(bullets(evidence(block), 30) for block in found)


# ---------------------------------------------------------------- git

_LOG = "log --date=short --format='%h %ad %s (%an)'"
_STATUS = ("status --short --untracked-files=all", "diff --stat HEAD")
_ASKED = {  # how a question is put, and the commands that answer it
    r"\buncommit|\bnot? (?:yet |been )*commit|\b(?:un-?)?staged?\b|\buntracked\b|\bworking (?:tree|copy)|^status$"
    r"|\bgit (?:status|diff)\b|\blocal(?:ly)? (?:chang|modif|edit)"
    r"|\b(?:did|have) (?:i|we) (?:chang|modif|edit|touch)": _STATUS,
    r"\btags?\b|\breleases?\b": ("tag --list --sort=-creatordate",),
    r"\bbranch(?:es)?\b": ("branch --all --format='%(HEAD) %(refname:short) %(subject)'",),
    r"\bcontribut|\bauthors?\b|\bmost commits\b|\bwho works\b": ("shortlog -sn HEAD",),
}
_COMMITS = {  # which commits are meant, and the options of git log for them
    r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b": "-n 1 --name-status --first-parent {}",
    r"\b(?:first|oldest|initial|earliest)\b": "--max-parents=0",
    r"\b(?:last|latest|newest|most recent) (?:commit|change)\b|\bhead\b": "-n 1 --name-status --first-parent",
    r"\bsince ([\w -]+)": "-n 50 --name-status --since={}",
    r"\b(\d+)\b.*\bcommits?\b": "-n {} --name-status",
    r"\bcommit|\blog\b|\bhistory\b|\brecent|\b(?:add|added|introduced|created)\b": "-n 10 --name-status",
}
_MOST = 60  # lines of what one command said


def history(intent: Intent) -> Plan:
    """Run the commands for what is asked, and show what they say."""
    said, path = intent.subject.lower(), ""
    if files := words.files(intent.subject):
        path = yield from resolve(files[0])
    asked = _git_commands(said, path, words.quotations(intent.subject) + words.names(intent.subject))
    git = [{"command": f"git {command}", "description": f"Run git {command.split()[0]}"} for command in asked]
    results = yield [call("Bash", **options) for options in git]
    if denied := next((result for result in results if result.denied), None):
        advice = "Trust the folder (`--trust`) or allow `Bash(git:*)` to let me."
        return f"I may not run git here ({one_line(denied.text, 160)}), so I cannot see what changed. {advice}"
    everything = "\n".join(result.text for result in results)
    if re.search(r"not a git repository", everything, re.IGNORECASE):
        return "This folder is not a git repository, so there is no history and nothing to compare with."
    if re.search(r"not have any commits yet|unknown revision .*HEAD", everything):
        return "This repository has no commits yet."
    parts = []
    for command, result in zip(asked, results, strict=True):
        rows = result.text.splitlines()
        more = [f"… {len(rows) - _MOST} more lines"] if len(rows) > _MOST else []
        parts.append(f"`git {command}`:\n\n" + fence("\n".join([*rows[:_MOST], *more]), "git.txt"))
    return "\n\n".join(parts)


def _git_commands(said: str, path: str, names: list[str]) -> tuple[str, ...]:
    """What to ask git: about what is not committed, a file, a name in code, or commits."""
    for pattern, answer in _ASKED.items():
        if re.search(pattern, said):
            return answer
    if path:
        return (f"{_LOG} --follow --name-status -- {quote(path)}",)
    if named := [name.removesuffix("()") for name in names if not words.is_acronym(name)]:
        return (f"{_LOG} -n 50 --name-status -S {quote(named[0])}",)
    for pattern, options in _COMMITS.items():
        if hit := re.search(pattern, said):
            return (f"{_LOG} {options.format(quote(hit[hit.lastindex or 0]))}",)
    return (*_STATUS, f"{_LOG} -n 10")


# ---------------------------------------------------------------- tests

_TIMEOUT = 600_000


def run_tests(intent: Intent) -> Plan:
    """Run the tests, or those that are named."""
    command = yield from _test_command(intent)
    if not command:
        return "No tests ran; I found no way to run tests: no test files that I know, and no command in a manifest."
    (result,) = yield [call("Bash", command=command, description="Run the tests", timeout=_TIMEOUT)]
    if result.denied:
        head = f"I did not run the tests: {one_line(result.text, 200)}\n\nThe command is {code(command)}."
        return f"{head} Allow it with `--allow 'Bash({command.split()[0]}:*)'`, or answer yes in the chat."
    return report(command, result.text, failed=result.failed)


def _test_command(intent: Intent) -> Plan:
    """The command for the tests of this project, or of the file that is meant."""
    files = yield from look()
    suites, cases = yield [
        call("Glob", pattern="**/{test_*.py,*_test.py}"),
        grep(r"^import pytest|^from pytest|unittest\.TestCase", glob="*.py", head_limit=40),
    ]
    if not suites.paths:
        return next((command for command, _ in commands(files, "test")), "")
    target = f" {quote((yield from resolve(intent.path)))}" if intent.path else ""
    runner = yield from _python(files)
    told = "".join(line.text for line in (*files.lines("pyproject|setup|tox|requirements"), *cases.hits))
    if "pytest" in told or "TestCase" not in told:
        return f"{runner} -m pytest -q{target}"
    return f"{runner} -m unittest{target or ' discover -v'}"


def _python(files: Files) -> Plan:
    """The interpreter of the project's own environment, where there is one; as a rule git ignores its folder."""
    for folder in re.findall(r"(?:^|^Ignored: |, )(\.?venv)/", files.tree.text, re.MULTILINE):
        (programs,) = yield [call("LS", path=f"{folder}/bin")]
        if re.search(r"^python\b(?!3)", programs.text, re.MULTILINE):
            return f"{folder}/bin/python"
    return "python3"


# How runners sum up, count what ran, and name tests that failed, why and where: pytest, unittest, go, cargo, node.
_SUMMARY = (
    r"^=*\s*((?:\d+ (?:failed|passed|skipped|errors?|warnings?|xfailed|xpassed|deselected)(?:, )?)+) in [\d.:]+"
    r"|^(Ran \d+ tests? in [\d.]+s|test result: .+?(?=;)|\s*Tests:\s+.+)"
)
_COUNTED = r"\b(\d+) (?:passed|failed|errors?|xfailed|xpassed)\b|^Ran (\d+) tests?\b|^# (?:pass|fail) (\d+)"
_NONE = r"no tests ran|NO TESTS RAN|[Nn]o tests? (?:were )?found|collected 0 items|no test files|no tests to run"
_MISSING = r"(No module named '?(?:pytest|unittest)\b.*)|^(.*(?:command not found|: not found|Missing script).*)"
_FAILED = (
    r"^(?:FAILED|ERROR) ([^\s:]+\.py\S*)|^(?:FAIL|ERROR): (\S+(?: \(.+?\))?)|^\s*--- FAIL: (\S+)"
    r"|^test (\S+) \.\.\. FAILED$|^\s*(?:●|✕|✖|×|not ok \d+ -)\s+(.+?)$"
)
_REASON = r"^E\s+(.+)$|panicked at .*\n(.*)|^\s*(\w[\w.]*(?:Error|Exception|Failure)\b.*|expect\(.*)$"
_PLACE = (
    r"^\s*([^\s:]+\.(?:py|go)):(\d+): ?|^  File \"([^<\"]+)\", line (\d+)|panicked at (?:'.*?', )?(\S+?):(\d+)"
    r"|((?:[\w.@-]+/)*[\w.-]+\.[cm]?[jt]sx?):(\d+)"
)
_FOREIGN = re.compile(r"site-packages/|/lib/python|node_modules/")


def report(command: str, output: str, *, failed: bool) -> str:
    """The result first, then each failure with its place. Only tests that ran can pass."""
    failures, number = failed_tests(output), _ran(output)
    summary = (_captures(_SUMMARY, output) or [""])[-1].strip()
    last = f"`{command}` said last:\n\n" + fence("\n".join(output.strip().splitlines()[-15:]), "log.txt")
    exit_code = re.search(r"^Exit code (\d+)\.", output, re.MULTILINE)
    missing = _captures(_MISSING, output)
    if failures:
        head = f"{plural(len(failures), 'test')} failed" + (f" ({summary})" if summary else "")
        reasons = dict.fromkeys(one_line(reason, 140) for reason in _captures(_REASON, output))
        rows = {"Failed": failures, "At": failure_places(output), "Because": list(reasons)}
        told = [f"{title}:\n{bullets(list(map(code, each)), 20)}" for title, each in rows.items() if each]
        return f"{head}, run with `{command}`.\n\n" + "\n\n".join(told)
    if number == 0 or (missing and not number):
        because = f"the test runner is missing ({missing[0].strip()})" if missing else summary or "it found none"
        return f"No tests ran: {because}. {last}"
    if exit_code or failed:
        how = f"exit code {exit_code[1]}" if exit_code else "an error"
        return f"The test run ended with {how}, and I could not read which test failed. {last}"
    if number is None:
        return f"The test run ended without an error, but I could not read how many tests ran. {last}"
    return f"All tests pass{f': {summary}' if summary else ''} (`{command}`)."


def _captures(pattern: str, output: str) -> list[str]:
    """What a pattern of alternatives captures, in order; the parts of a place with a colon between them."""
    return [":".join(filter(None, hit)) for hit in re.findall(pattern, output, re.MULTILINE) if any(hit)]


def _ran(output: str) -> int | None:
    """How many tests ran; None where the output does not tell."""
    counts = [int(number) for number in _captures(_COUNTED, output)]
    if counts or re.search(r"^=*\s*\d+ (?:skipped|deselected)\b", output, re.MULTILINE):
        return sum(counts)
    packages = re.findall(r"^ok\s+\S+\s+[\d.(](?!.*no tests to run)", output, re.MULTILINE)  # go
    return len(packages) or (0 if re.search(_NONE, output) else None)


def failed_tests(output: str) -> list[str]:
    """The names of the tests that failed."""
    return list(dict.fromkeys(_captures(_FAILED, output)))


def failure_places(output: str) -> list[str]:
    """The lines of the program that the output points at."""
    return [place for place in dict.fromkeys(_captures(_PLACE, output)) if not _FOREIGN.search(place)]
