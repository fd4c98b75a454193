"""What a test run's output says: how many passed, which failed, and where."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cowork.core.frozen import frozen
from cowork.providers.offline.answer import code, fence, plural, shortened

_MOST_FAILED = 20


@frozen
class Failure:
    """A test that failed, where, and the line that says why."""

    name: str
    at: str = ""
    why: str = ""


def report(command: str, output: str, *, failed: bool) -> str:
    """The result first, then each failure with its place."""
    failures = read(output)
    summary = _summary(output)
    ran = f"`{command}`"
    exit_code = re.search(r"^Exit code (\d+)\.", output, re.MULTILINE)
    if failures:
        rows = [_row(f) for f in failures[:_MOST_FAILED]]
        more = f"\n- and {len(failures) - _MOST_FAILED} more" if len(failures) > _MOST_FAILED else ""
        head = f"{plural(len(failures), 'test')} failed" + (f" ({summary})" if summary else "")
        return f"{head}, run with {ran}:\n\n" + "\n".join(rows) + more
    if exit_code or failed:
        tail = "\n".join(output.strip().splitlines()[-15:])
        how = f"exit code {exit_code[1]}" if exit_code else "an error"
        head = f"The test run ended with {how}, and I could not read which test failed."
        return f"{head} {ran} said last:\n\n{fence(tail, 'log.txt')}"
    return f"All tests pass{f': {summary}' if summary else ''} ({ran})."


def read(output: str) -> list[Failure]:
    """The failures of pytest, unittest, go, cargo and the runners of node."""
    for reader in (_pytest, _unittest, _go, _cargo, _node):
        if found := reader(output):
            return found
    return []


def relative(output: str, suites: Sequence[str]) -> str:
    """The output with paths of this project as they are below its folder, by the test files that are known."""
    for path in dict.fromkeys(re.findall(r"(/[^\s\":]+\.\w+)\b", output)):
        for suite in suites:
            if path.endswith(f"/{suite}"):
                return output.replace(path.removesuffix(suite), "")
    return output


def _own(frames: Sequence[tuple[str, str]]) -> str:
    """The last frame that is not of a library or of the interpreter."""
    own = [
        f"{path}:{line}"
        for path, line in frames
        if not re.search(
            r"^[</]|site-packages/|/lib/python"
            r"|node_modules/",
            path,
        )
    ]
    every = [f"{path}:{line}" for path, line in frames if not path.startswith("<")]
    return (own or every or [""])[-1]


def _row(failure: Failure) -> str:
    place = f" at `{failure.at}`" if failure.at else ""
    why = f": {code(shortened(failure.why, 140))}" if failure.why else ""
    return f"- {code(failure.name)}{place}{why}"


def _summary(output: str) -> str:
    for pattern in (
        r"^=*\s*((?:\d+ (?:failed|passed|skipped|errors?|warnings?|xfailed|xpassed|deselected)(?:, )?)+) in [\d.:]+",
        r"^(Ran \d+ tests? in [\d.]+s)",
        r"^(test result: .+?);",
        r"^\s*(Tests:\s+.+)$",
        r"^# (pass \d+)",
    ):
        if hits := re.findall(pattern, output, re.MULTILINE):
            return str(hits[-1]).strip()
    return ""


def _pytest(output: str) -> list[Failure]:
    names = re.findall(r"^(?:FAILED|ERROR) ([^\s:]+\.py(?:::.+?)?)(?: - (.*))?$", output, re.MULTILINE)
    places = re.findall(r"^([^\s:]+\.py):(\d+): (.+)$", output, re.MULTILINE)
    blocks = re.split(r"^_{3,} (.+?) _{3,}$", output, flags=re.MULTILINE)
    where: dict[str, tuple[str, str]] = {}
    for title, text in zip(blocks[1::2], blocks[2::2], strict=True):
        at = re.findall(r"^([^\s:]+\.py):(\d+):", text, re.MULTILINE)
        at += re.findall(r'^  File "(.+?)", line (\d+)', text, re.MULTILINE)  # --tb=native
        why = re.findall(r"^E\s+(.+)$", text, re.MULTILINE)
        test = re.sub(r"ERROR (?:at (?:setup|teardown) of|collecting) ", "", title)
        where[test if test.endswith(".py") else test.split(".")[-1]] = (_own(at), why[0] if why else "")
    found = []
    for name, said in names:
        path, _, test = name.partition("::")
        place, because = where.get(test.split("::")[-1] or path, ("", ""))
        if not place:
            place = next((f"{p}:{n}" for p, n, _ in places if p == path), f"{path}:1")
        found.append(Failure(name, place, because or said))
    return found


def _unittest(output: str) -> list[Failure]:
    found = []
    blocks = re.split(r"^={20,}\n(?=(?:FAIL|ERROR): )", output, flags=re.MULTILINE)
    for block in blocks[1:]:
        title = re.match(r"(?:FAIL|ERROR): (\S+)(?: \((.+?)\))?", block)
        at = re.findall(r'^  File "(.+?)", line (\d+)', block, re.MULTILINE)
        why = re.findall(r"^(\w[\w.]*(?:Error|Exception|Failure|Exit)\b.*)$", block, re.MULTILINE)
        if title:
            name = title[2] if title[2] and title[1] in title[2] else f"{title[2]}.{title[1]}" if title[2] else title[1]
            found.append(Failure(name, _own(at), why[-1] if why else ""))
    return found


def _go(output: str) -> list[Failure]:
    found = []
    for hit in re.finditer(r"^\s*--- FAIL: (\S+).*\n((?:\s{4,}.*\n?)*)", output, re.MULTILINE):
        at = re.search(r"^\s*(\S+\.go):(\d+): ?(.*)$", hit[2], re.MULTILINE)
        found.append(Failure(hit[1], f"{at[1]}:{at[2]}" if at else "", at[3] if at else ""))
    broken = re.findall(r"^(\S+\.go):(\d+):\d+: (.+)$", output, re.MULTILINE)
    return found or [Failure("build", f"{path}:{line}", why) for path, line, why in broken]


def _cargo(output: str) -> list[Failure]:
    names = re.findall(r"^test (\S+) \.\.\. FAILED$", output, re.MULTILINE)
    found = []
    for name in names:
        block = re.search(rf"^---- {re.escape(name)} stdout ----\n(.*?)(?=^----|\Z)", output, re.MULTILINE | re.DOTALL)
        at = re.search(r"panicked at (?:'.*?', )?(\S+?):(\d+)(?::\d+)?:?\n?(.*)", block[1]) if block else None
        found.append(Failure(name, f"{at[1]}:{at[2]}" if at else "", at[3].strip() if at else ""))
    return found


def _node(output: str) -> list[Failure]:
    found = []
    for hit in re.finditer(
        r"^\s*(?:●|✕|✖|×|not ok \d+ -|FAIL)\s+(.+?)$((?:\n(?!\s*(?:●|not ok|ok \d)).*){0,40})", output, re.MULTILINE
    ):
        at = re.search(
            r"\(?((?:[\w.@-]+/)*[\w.-]+\.(?:test|spec)\.\w+|(?:[\w.@-]+/)*[\w.-]+\.[cm]?[jt]sx?):(\d+)", hit[2]
        )
        why = re.search(r"((?:\w*Error|expect\().*)", hit[2])
        found.append(Failure(hit[1].strip(), f"{at[1]}:{at[2]}" if at else "", why[1] if why else ""))
    seen: dict[str, Failure] = {}
    for failure in found:
        if failure.name not in seen or failure.at:
            seen[failure.name] = failure
    return list(seen.values())
