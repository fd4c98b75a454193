"""A project as a whole: what it is, how it is laid out, how it is run, where it starts, what it declares."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property

from cowork.providers.offline import manifests, words
from cowork.providers.offline.intent import Intent
from cowork.providers.offline.locate import describe
from cowork.providers.offline.manifests import Item
from cowork.providers.offline.markdown import bullets, code, evidence, plural, shortened
from cowork.providers.offline.plans import Line, Plan, Result, Steps, grep, listed, read
from cowork.providers.offline.ranking import by_place, is_test

_MOST_READ = 12


class Files:
    """The files at the top that tell of a project; each as its lines by number."""

    def __init__(self, tree: Result, texts: dict[str, dict[int, str]]) -> None:
        self.tree = tree
        self.texts = texts

    @cached_property
    def items(self) -> list[Item]:
        """Everything the manifests declare."""
        return [item for name, lines in self.texts.items() for item in manifests.items(name, lines)]

    @property
    def readme(self) -> list[Line]:
        name = next((name for name in self.texts if name.lower().startswith("readme")), "")
        return [Line(name, number, text) for number, text in sorted(self.texts.get(name, {}).items())]


def look(path: str = "") -> Steps[Files]:
    """List the folder and read what tells of the project."""
    (tree,) = yield [listed(path)]
    top = [row.strip() for row in tree.text.splitlines() if row and not row.startswith(" ")]
    readmes = [name for name in top if re.fullmatch(r"readme(?:\.\w+)?", name, re.IGNORECASE)]
    needed = sorted(name for name in top if manifests.REQUIREMENTS.fullmatch(name))
    wanted = [*readmes, *(name for name in manifests.NAMES if name in top), *needed][:_MOST_READ]
    base = f"{path.rstrip('/')}/" if path else ""
    pages = (yield [read(base + name, limit=400) for name in wanted]) if wanted else []
    return Files(tree, {name: page.page for name, page in zip(wanted, pages, strict=True)})


def outline(intent: Intent) -> Plan:
    """What is in this repo: purpose, layout, how to start."""
    files = yield from look(intent.path)
    if files.tree.failed:
        return f"I could not list {code(intent.path or '.')}: {files.tree.text}"
    first, *rows = files.tree.text.splitlines()
    folders = [hit[1] for row in rows if (hit := re.match(r"([\w.@+-]+)/", row))][:14]
    base = f"{intent.path.rstrip('/')}/" if intent.path else ""
    inside = (yield [listed(f"{base}{folder}") for folder in folders]) if folders else []
    layout = [_folder_row(f"{base}{folder}/", listing) for folder, listing in zip(folders, inside, strict=True)]
    parts = [f"**Layout** ({first.split(': ', 1)[-1]}):\n{bullets(layout or rows[:24])}"]
    if purpose := _purpose(files):
        parts.insert(0, f"{shortened(purpose.text, 220)} (`{base}{purpose.at}`)")
    if commands := [*_commands(files, "run"), *_commands(files, "test")]:
        parts.append(f"**Run and test**:\n{bullets(commands[:6])}")
    return "\n\n".join(parts)


def _folder_row(folder: str, listing: Result) -> str:
    """A folder, how large it is and what is in it."""
    first, *rows = listing.text.splitlines() or [""]
    entries = [code(row.split(" (")[0]) for row in rows if row and not row.startswith((" ", "Ignored", ".", "__"))]
    shown = ", ".join([*entries[:7], *(["…"] if len(entries) > 7 else [])])
    return f"`{folder}` ({first.split(': ', 1)[-1].split(' in ')[0]}): {shown}"


def _purpose(files: Files) -> Line | None:
    """What the project says it is: the description of a manifest, else the first prose of the README."""
    for item in files.items:
        if item.path in ("description", "project.description", "package.description", "metadata.description"):
            return Line(item.file, item.line, item.value.strip("\"'"))
    return next((line for line in files.readme if re.match(r"\s*(?![#<\[!=*|:.-])\S.{30,}", line.text)), None)


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
_MAKERS = {"Makefile": "make", "justfile": "just", "package.json": "npm run"}


def _commands(files: Files, verb: str) -> list[str]:
    """Commands the manifests and the README give, a row each with its place."""
    makes = [item for item in files.items if item.section in ("targets", "scripts") and item.file in _MAKERS]
    found = [(f"{_MAKERS[i.file]} {i.key}", i.at) for i in makes if re.fullmatch(rf"(?:{_VERBS[verb]})(?::.*)?", i.key)]
    if verb == "run":
        found += [(item.key, item.at) for item in _scripts(files.items)]
    found += [(f"{tool} {verb}", f"{name}:1") for name, tool in (("Cargo.toml", "cargo"), ("go.mod", "go"))
              if name in files.texts and verb != "lint"]  # fmt: skip
    found += [(line.text.strip("$ `>"), line.at) for line in files.readme if re.search(_documented(verb), line.text)]
    return [f"{code(command)} (`{at}`)" for command, at in reversed(dict(reversed(found)).items())]


def _documented(verb: str) -> str:
    """For lines of documents: a command alone on its line that does it."""
    return rf"^\s*(?:\$ |`)?(?:{_TOOLS})\b[^`]{{0,100}}?\b(?:{_VERBS[verb]})\b[^`]{{0,60}}`?$"


def howto(intent: Intent) -> Plan:
    """How to run, build, test or install it, from what the project itself says."""
    files = yield from look(intent.path)
    verb = next((verb for verb, said in _VERBS.items() if re.search(rf"\b(?:{said})\b", intent.subject.lower())), "run")
    rows = [row for each in ((verb, "install") if verb == "run" else (verb,)) for row in _commands(files, each)]
    (docs,) = yield [grep(_documented(verb), glob="*.md,*.rst,*.txt,*.yml,!CHANGE*,!HISTORY*,!NEWS*", head_limit=80)]
    rows += [f"{code(shortened(hit.text.strip(' $`>')))} (`{hit.at}`)" for hit in by_place(docs.hits)[:5]]
    if rows:
        return f"To {verb} it:\n\n{bullets(list(dict.fromkeys(rows)))}"
    looked = ", ".join(files.texts) or "no README or manifest at the top"
    return f"I found no command to {verb} this: I looked at {looked} and at the docs for commands."


def _scripts(entries: Iterable[Item]) -> list[Item]:
    """The commands that packages of Python declare, each keyed by its name and valued by what it calls."""
    out = []
    for item in entries:
        told = re.search(r"(?:([\w.-]+)\s*=\s*)?([\w.]+:[\w.]+)", item.value)
        if told and re.search(r"scripts$|entry[-_]points(?:\.|$)", item.section):
            out.append(Item(item.file, item.line, item.section, told[1] or item.key, told[2]))
    return out


_BEGINS = (
    r"^if __name__ == .__main__.|^func main\(\)|^(?:pub )?(?:async )?fn main\(|^int main\(|static void main\("
    r"|^def main\("
)


def entry(intent: Intent) -> Plan:
    """Where execution begins: declared commands, main functions, files called main."""
    files = yield from look(intent.path)
    (begun,) = yield [grep(_BEGINS, head_limit=60)]
    rows = [f"`{i.at}` declares the command {code(i.key)}: {code(i.value)}" for i in _scripts(files.items)]
    declared = [item for item in files.items if re.match(r"(?:main|bin)\b", item.path) and item.value not in ("{", "[")]
    rows += [f"`{item.at}` {item.path}: {code(item.value)}" for item in declared]
    rows += evidence(hit for hit in by_place(begun.hits)[:8] if not is_test(hit.path))
    if not rows:
        return "I looked for console scripts and main functions, and found none."
    return f"Entry points:\n\n{bullets(rows)}"


_OWN = r"^(?:(?:tool\.)?(?:project|package|metadata|poetry|setup)\.)?"
_FACTS = {  # how a question names it, and the entries that say it, as `path = value`
    r"\blicen[cs]": r"(?:^|\.)licen[cs]e|= License ::",
    r"\b(?:python|node|rust|go|minimum|support\w*|compatible)\b.*\bversions?\b|\bversions? of (?:python|node|rust|go)\b"
    r"|\b(?:which|what) pythons?\b|\bedition\b": r"requires?[-_.]python|rust-version|edition|^engines\b|^go =",
    r"\bversion": _OWN + r"version\b",
    r"\bauthors?\b|\bwrote\b|\bmaintain": r"author|maintainer|contributors",
    r"\b(?:homepage|urls?|website|repository|tracker)\b": r"homepage|repository|\burls?\b|bugs|documentation",
    r"\bscripts\b": r"^scripts\.",
    r"\bname\b|\b(?:called|named)$": _OWN + r"name\b|^module\b",
}
_DEPENDENCIES = re.compile(  # the tables that list what a project needs
    r"(?:^|\.)(?:[\w-]*dependencies|[\w-]*requires?|requirements|dependency-groups\.[\w-]+"
    r"|(?:optional-dependencies|extras_require)\.[\w-]+)$",
    re.IGNORECASE,
)


def manifest(intent: Intent) -> Plan:
    """Dependencies, version, license, author: the entries of the manifests that say so."""
    files = yield from look(intent.path)
    said = intent.subject.lower()
    entries = manifests.of_language(files.items, said)
    needed = [i for i in entries if _DEPENDENCIES.search(i.section) and i.key != "python" and i.value[:1] != "["]
    spoken = set(re.findall(r"[\w@/.-]+", said)) - words.STOP - {"dependencies", "requirements"}
    fact = next((keys for asked, keys in _FACTS.items() if re.search(asked, said)), "")
    if named := [item for item in needed if item.key.lower() in spoken]:
        told = named
    elif fact:
        told = [item for item in entries if re.search(fact, f"{item.path} = {item.value}", re.IGNORECASE)]
    else:
        told = [i for i in needed if any(word in i.section.lower() for word in spoken)] or needed
    tables: dict[str, list[Item]] = {}
    for item in told:
        tables.setdefault(f"{item.file} {item.section}".strip(), []).append(item)
    if not tables:
        looked = f"I looked in {', '.join(files.texts) or 'the top folder'} and found no entry for that."
        return f"{looked}\n\n{(yield from describe(intent))}"
    return "\n\n".join(_table(name, rows) for name, rows in tables.items())


def _table(name: str, rows: list[Item]) -> str:
    """The entries of one table as they are written, each with its place."""
    shown = (item.value if item.value.startswith(item.key) else f"{item.key} = {item.value}" for item in rows)
    plain = [shortened(text.removesuffix(" = ")) for text in shown]
    told = [f"`{item.at}` {code(text)}" for item, text in zip(rows, plain, strict=True)]
    return f"{plural(len(rows), 'entry')} in {code(name)}:\n{bullets(told, 30)}"
