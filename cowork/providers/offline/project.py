"""A project as a whole: what it is, how it is laid out, how it is run, where it starts, what it declares."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cowork.core.format import code, one_line
from cowork.providers.offline import words
from cowork.providers.offline.languages import Line, indent_of
from cowork.providers.offline.locate import describe
from cowork.providers.offline.plans import CallResult, Plan, Steps, bullets, call, evidence, grep, read
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
