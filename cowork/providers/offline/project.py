"""A project as a whole: what it is, how it is laid out, how it is run, where it starts, what it declares."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property

from cowork.core.frozen import frozen
from cowork.providers.offline import manifests, words
from cowork.providers.offline.intent import Intent
from cowork.providers.offline.manifests import Item
from cowork.providers.offline.markdown import bullets, code, evidence, plural, shortened
from cowork.providers.offline.plans import Line, Plan, Result, Steps, glob, grep, listed, read
from cowork.providers.offline.ranking import by_place, is_source, is_test

_MOST_READ = 12
_SCRIPTS = re.compile(r"(?:^|\.)(?:(?:gui[-_]|console[-_])?scripts|entry[-_]points(?:\..+)?)$")


class Files:
    """The files at the top that tell of a project; each as its lines by number."""

    def __init__(self, tree: Result, texts: dict[str, dict[int, str]]) -> None:
        self.tree = tree
        self.texts = texts
        self.readme = next((name for name in texts if name.lower().startswith("readme")), "")

    @cached_property
    def items(self) -> list[Item]:
        """Everything the manifests declare."""
        return [item for name, lines in self.texts.items() for item in manifests.items(name, lines)]

    def text(self, name: str) -> str:
        return "\n".join(line.text for line in self.lines(name))

    def lines(self, name: str) -> list[Line]:
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


def scripts(entries: Iterable[Item]) -> list[Item]:
    """The commands that packages of Python declare, each keyed by its name and valued by what it calls."""
    out = []
    for item in entries:
        told = re.search(r"(?:([\w.-]+)\s*=\s*)?([\w.]+:[\w.]+)", item.value)
        if told and _SCRIPTS.search(item.section):
            out.append(Item(item.file, item.line, item.section, told[1] or item.key, told[2]))
    return out


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
        if item.key.lower() in ("description", "summary") and item.section in ("", "project", "package", "metadata"):
            return Line(item.file, item.line, item.value.strip("\"'"))
    plain = r"\s*(?![#<\[!=*|:.-])\S.{30,}"
    return next((line for line in files.lines(files.readme) if re.match(plain, line.text)), None)


@frozen
class Verb:
    """Something to do with a project: how a question names it, what does it, and the commands docs give for it."""

    asked: str
    targets: str  # of Makefiles, and scripts of package.json
    documented: str
    usual: str = ""  # what tools of Python do it with


_VERBS = {
    "test": Verb(r"\btests?\b|\bpytest\b", r"tests?|check",
                 r"make (?:test|check)|(?:python -m )?(?:pytest|unittest)\b|tox\b|nox\b|(?:npm|yarn|pnpm)(?: run)? test"
                 r"|cargo (?:test|nextest)|go test|(?:uv|poetry|hatch) (?:run )?(?:pytest|test)", "pytest"),
    "lint": Verb(r"\blint|\bformat|\btype.?check|\bcheck\b", r"lint|check|format|fmt",
                 r"make (?:lint|check|format)|ruff|mypy|pre-commit|(?:npm|yarn|pnpm) run lint|cargo (?:clippy|fmt)"
                 r"|go vet"),
    "build": Verb(r"\bbuild|\bcompile", r"build|all|dist|compile",
                  r"make(?: build| all)?\s*$|python -m build|(?:uv|hatch|cargo|go) build|(?:npm|yarn|pnpm) run build"
                  r"|cmake"),
    "install": Verb(r"\binstall|\bset ?up\b", r"install|setup|deps",
                    r"(?:python -m )?pip install|uv (?:pip install|add|tool install|sync)|(?:pipx|cargo|go|brew|make"
                    r"|conda)"
                    r" install|(?:npm|yarn|pnpm) (?:i|install|add)\b", "pip install -e ."),
    "benchmark": Verb(r"\bbench", r"bench(?:mark)?", r"make bench|python -m bench|cargo bench|asv "),
    "run": Verb(r"", r"run|start|serve|dev|demo|up",
                r"make (?:run|start|demo|dev)|python -m \w|(?:npm|yarn|pnpm) (?:run )?(?:start|dev)|cargo run|go run"
                r"|docker (?:run|compose)|uvx|uv run|npx|\./\w"),
}  # fmt: skip


def _commands(files: Files, verb: str) -> list[str]:
    """Commands the manifests and the README give, a row each with its place."""
    do = _VERBS[verb]
    makers = {"Makefile": "make", "justfile": "just", "package.json": "npm run"}
    targets = [item for item in files.items if item.section in ("targets", "scripts") and item.file in makers]
    found = [(f"{makers[i.file]} {i.key}", i.at) for i in targets if re.fullmatch(rf"(?:{do.targets})(?::.*)?", i.key)]
    if verb == "run":
        found += [(item.key, item.at) for item in scripts(files.items)]
    usual = {
        "Cargo.toml": f"cargo {verb}",
        "go.mod": f"go {verb} ./...",
        "pyproject.toml": do.usual,
        "setup.py": do.usual,
    }
    if verb in ("run", "test", "build", "install"):
        found += [(command, f"{name}:1") for name, command in usual.items() if command and name in files.texts]
    found += [
        (line.text.strip("$ `>"), line.at) for line in files.lines(files.readme) if _runnable(line, do.documented)
    ]
    return [f"{code(command)} (`{at}`)" for command, at in reversed(dict(reversed(found)).items())]


def _runnable(line: Line, documented: str) -> bool:
    plain = line.text.strip().strip("`")
    fits = re.match(rf"\s*(?:\$ |`)?(?:{documented})", line.text)
    return bool(fits) and len(plain) < 140 and "`" not in plain and "==" not in plain


def howto(intent: Intent) -> Plan:
    """How to run, build, test or install it, from what the project itself says."""
    files = yield from look(intent.path)
    verb = next(name for name, do in _VERBS.items() if re.search(do.asked, intent.subject.lower()))
    rows = [row for each in ((verb, "install") if verb == "run" else (verb,)) for row in _commands(files, each)]
    documented = _VERBS[verb].documented
    (docs,) = yield [grep(rf"^\s*(?:\$ |`)?(?:{documented})", glob="*.md,*.rst,*.txt,*.yml", head_limit=80)]
    hits = [hit for hit in docs.hits if _runnable(hit, documented) and hit.path != files.readme]
    hits = [hit for hit in hits if not re.search(r"CHANGE|HISTORY|NEWS|egg-info/", hit.path, re.IGNORECASE)]
    rows += [f"{code(shortened(hit.text.strip(' $`>')))} (`{hit.at}`)" for hit in by_place(hits)[:5]]
    if rows:
        return f"To {verb} it:\n\n{bullets(rows)}"
    looked = ", ".join(files.texts) or "no README or manifest at the top"
    return f"I found no command to {verb} this: I looked at {looked} and at the docs for commands."


_BEGINS = (
    r"^if __name__ == .__main__.|^func main\(\)|^(?:pub )?(?:async )?fn main\(|^int main\(|static void main\("
    r"|^def main\("
)


def entry(intent: Intent) -> Plan:
    """Where execution begins: declared commands and what they call, main functions, files called main."""
    files = yield from look(intent.path)
    commands = scripts(files.items)
    calls = []
    for module, _, function in (item.value.partition(":") for item in commands[:4]):
        path, name = module.replace(".", "/"), re.escape(function)
        made = rf"^\s*(?:async )?def {name}\b|^{name}\s*=|import .*\b{name}\b"
        calls.append(grep(made, glob=f"**/{path}.py,**/{path}/__init__.py", head_limit=5))
    begun, *called = yield [grep(_BEGINS, head_limit=60), *calls]
    rows = [f"`{item.at}` declares the command {code(item.key)}: {code(item.value)}" for item in commands]
    rows += [row for result in called for row in evidence(result.hits[:1])]
    declared = [item for item in files.items if re.match(r"(?:main|bin)\b", item.path) and item.value not in ("{", "[")]
    rows += [f"`{item.at}` {item.path}: {code(item.value)}" for item in declared]
    rows += evidence(hit for hit in by_place(begun.hits)[:8] if not is_test(hit.path))
    if not rows:
        return "I looked for console scripts and main functions, and found none."
    return f"Entry points:\n\n{bullets(list(dict.fromkeys(rows)))}"


@frozen
class Fact:
    """Something a manifest says: how a question names it, and the entries that say it, as `path = value`."""

    name: str
    asked: str
    keys: str


_DEV = r"(?:dev|develop|development|tests?|testing|docs?|lint|typing|ci|bench)"
_GROUPS = (  # sorts of dependencies, by the tables they stand in
    Fact("development", rf"\b(?:{_DEV})\b",
         rf"dev-?dependencies|dev-packages|dev-requirements|tests_require|require-dev|dependency-groups\.[\w-]+"
         rf"|group\.[\w-]+\.dependencies|(?:optional-dependencies|extras_require)\.{_DEV}[\w-]*"),
    Fact("optional", r"\b(?:optional|extras?|peer|features?)\b",
         r"(?:optional-dependencies|extras_require)\.[\w-]+|(?:peer|optional)dependencies"),
    Fact("build", r"\b(?:build|building|compile)\b", r"build-system\.requires|build-dependencies|setup_requires"),
    Fact("runtime", r"\b(?:runtime|production|prod|main|direct)\b",
         r"dependencies|install_requires|requires-dist|requirements|require|packages"),
)  # fmt: skip
_VERSION = r"^_*version_*\s*(?::[^=]+)?=\s*[\"'(\w]"
_OWN = r"^(?:(?:tool\.)?(?:project|package|metadata|poetry|hatch|setuptools(?:\.dynamic)?|setup)\.)?"
_FACTS = (
    Fact("license", r"\blicen[cs]", r"(?:^|\.)licen[cs]e(?:-?files?|-expression)?\b|= License ::"),
    Fact("version supported", r"\b(?:python|node|rust|go|ruby|java|minimum|support\w*|compatible)\b.*\bversions?\b"
         r"|\bversions? of (?:python|node|rust|go)\b|\b(?:which|what) pythons?\b|\bedition\b",
         r"requires?[-_.]python|python_requires|rust-version|edition|^engines\b|^go =|dependencies\.python ="),
    Fact("version", r"\bversion", _OWN + r"version\b"),
    Fact("author", r"\bauthors?\b|\bwrote\b|\bmaintain", r"author|maintainer|contributors"),
    Fact("address", r"\b(?:homepage|urls?|website|repository|tracker)\b", r"homepage|repository|\burls?\b|bugs"
                                                                          r"|documentation"),
    Fact("script", r"\bscripts\b", r"^scripts\."),
    Fact("name", r"\bname\b|\b(?:called|named)$", _OWN + r"name\b|^module\b"),
)  # fmt: skip


def manifest(intent: Intent) -> Plan:
    """Dependencies, version, license, author: the entries of the manifests that say so."""
    files = yield from look(intent.path)
    said = intent.subject.lower()
    entries = manifests.of_language(files.items, said)
    fact = next((fact for fact in _FACTS if re.search(fact.asked, said)), None)
    own = {item.value.strip("\"'").lower() for item in entries if item.key == "name"}
    spoken = set(re.findall(r"[\w@/.-]+", said)) - own - words.STOP
    named = [item for item in entries if _group(item) and len(item.key) > 2 and item.key.lower() in spoken]
    if named and (fact is None or fact.name == "version"):
        return f"Declared:\n\n{bullets([f'`{item.at}` {_shown(item)} ({_group(item)})' for item in named[:8]])}"
    rows = []
    if fact:
        told = [item for item in entries if re.search(fact.keys, f"{item.path} = {item.value}", re.IGNORECASE)]
        rows = [f"`{item.at}` {_shown(item)}" for item in told] + (yield from _elsewhere(fact.name))
    answer = (
        f"The {fact.name}:\n\n{bullets(rows, 30)}" if fact and rows else "" if fact else _dependencies(entries, said)
    )
    looked = f"I looked in {', '.join(files.texts) or 'the top folder'} and found no"
    return answer or f"{looked} {fact.name if fact else 'list of dependencies'}."


def _elsewhere(name: str) -> Steps[list[str]]:
    """What stands outside of manifests: a version in code, a licence in its own file."""
    if name == "version":
        (result,) = yield [grep(_VERSION, ignore_case=True, glob="*.py,*.js,*.ts,*.go,*.rs", head_limit=40)]
        return evidence(hit for hit in by_place(result.hits)[:4] if is_source(hit.path))
    if name == "license":
        (kept,) = yield [glob("{LICENSE*,LICENCE*,COPYING*,UNLICENSE,licenses/*}")]
        return [f"`{path}:1`" for path in sorted(kept.paths)[:3]]
    return []


def _group(item: Item) -> str:
    """The group of dependencies an entry belongs to, if it is one."""
    if item.key.lower() in ("python", "include-group") or not re.match(r"[@\w]", item.key):
        return ""
    return next((g.name for g in _GROUPS if re.search(rf"(?:^|[.'])(?:{g.keys})$", item.section.lower())), "")


def _shown(item: Item) -> str:
    """An entry as it is written, never a piece of it; with the extra or the group that brings it."""
    plain = item.value.strip("\"'") if item.value.count(item.value[:1]) == 2 else item.value
    pair = plain if plain.startswith(item.key) else f"{item.key} = {item.value}"
    table, _, extra = item.section.rpartition(".")
    brought = re.search(r"optional-dependencies|extras_require|dependency-groups", table)
    return code(shortened(item.key if item.value in ("", "[", "{", "(") else pair)) + (f" ({extra})" if brought else "")


def _dependencies(entries: Sequence[Item], said: str) -> str:
    groups: dict[str, dict[tuple[str, str], Item]] = {}
    for item in entries:
        if group := _group(item):
            groups.setdefault(group, {}).setdefault((item.file, item.path), item)
    asked = [g.name for g in _GROUPS if re.search(g.asked, said) and g.name in groups]
    first = asked or (["runtime"] if "runtime" in groups else list(groups))
    parts = []
    for name in first:
        rows = [f"`{item.at}` {_shown(item)}" for item in groups[name].values()]
        parts.append(f"{plural(len(rows), f'{name} dependency')}:\n{bullets(rows, 30)}")
    rest = {name: list(groups[name].values())[:12] for name in groups if name not in first}
    others = [f"{name} ({', '.join(code(item.key) for item in some)})" for name, some in rest.items()]
    return "\n\n".join(parts + (["Also declared: " + "; ".join(others) + "."] if others else []))
