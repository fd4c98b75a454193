"""A project as a whole: what it is, how it is laid out, how it is run, where it starts, what it needs."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from cowork.core.frozen import frozen
from cowork.providers.offline import found, manifests
from cowork.providers.offline.answer import code, fence, shortened
from cowork.providers.offline.intent import Intent
from cowork.providers.offline.manifests import Item
from cowork.providers.offline.plan import Call, Plan, Result, Steps, grep, read

_BESIDE = ("Makefile", "justfile", "CMakeLists.txt", "tox.ini", "noxfile.py", "Dockerfile", ".pre-commit-config.yaml")
MANIFESTS = (*manifests.NAMES[:6], *_BESIDE[:2], *manifests.NAMES[6:], *_BESIDE[2:])
_MOST_READ = 12
_README = ("README.md", "README.rst", "README.txt", "README", "readme.md")
_BORING = re.compile(r"^\s*(?:#+\s*)?(?:\[!\[|!\[|<|\[\w+\]:|\.\. |:alt|:target|=+$|-+$|\*+$|\|)")


@frozen
class Files:
    """The files at the top that tell of a project, by name; each as its lines by number."""

    tree: Result
    texts: dict[str, dict[int, str]]

    def text(self, name: str) -> str:
        lines = self.texts.get(name, {})
        return "\n".join(lines[n] for n in sorted(lines))

    def line_of(self, name: str, pattern: str) -> int:
        """Where a text first stands in a file; 1 where it does not."""
        for number, text in self.texts.get(name, {}).items():
            if re.search(pattern, text):
                return number
        return 1

    @property
    def readme(self) -> str:
        return next((name for name in _README if name in self.texts), "")


def look(path: str = "") -> Steps[Files]:
    """List the folder and read what tells of the project."""
    (tree,) = yield [Call("LS", {"path": path} if path else {})]
    top = {row.strip() for row in tree.text.splitlines() if row and not row.startswith(" ")}
    needed = sorted(name for name in top if manifests.REQUIREMENTS.fullmatch(name))
    wanted = [name for name in (*_README, *MANIFESTS) if name in top] + needed
    wanted = wanted[:_MOST_READ]
    base = f"{path.rstrip('/')}/" if path else ""
    pages = (yield [read(base + name, limit=400) for name in wanted]) if wanted else []
    return Files(tree, {name: found.numbered(page) for name, page in zip(wanted, pages, strict=True)})


def declared(files: Files) -> list[Item]:
    """Everything the manifests at the top declare."""
    known = [name for name in files.texts if name in manifests.NAMES or manifests.REQUIREMENTS.fullmatch(name)]
    return [item for name in known for item in manifests.items(name, files.texts[name])]


def outline(intent: Intent) -> Plan:
    """What is in this repo: purpose, layout, size, how to start."""
    files = yield from look(intent.path)
    if files.tree.failed:
        return f"I could not list {code(intent.path or '.')}: {files.tree.text}"
    folders = _folders(files.tree)
    inner = [f for f in folders if not f.startswith(".")][:8]
    base = f"{intent.path.rstrip('/')}/" if intent.path else ""
    heads, *inside = yield [
        grep(r"^\s*(?:\"\"\"|'''|//!|/\*\*|# ).+", glob="__init__.py,mod.rs,lib.rs,doc.go,index.ts", head_limit=150),
        *(Call("LS", {"path": f"{base}{folder}"}) for folder in inner),
    ]
    return _outlined(files, folders, dict(zip(inner, inside, strict=True)), heads, base)


def _outlined(files: Files, folders: list[str], inside: dict[str, Result], heads: Result, base: str) -> str:
    parts = []
    about, at = purpose(files)
    if about:
        parts.append(f"{about} (`{base}{at}`)")
    counted = files.tree.text.split("\n", 1)[0].split(": ", 1)[-1]
    told = {h.path.rsplit("/", 1)[0]: h.text.strip(" \"'/*#!") for h in reversed(found.lines(heads))}
    rows = [row for folder in folders[:14] for row in _folder_rows(f"{base}{folder}", inside.get(folder), told)]
    parts.append(f"**Layout** ({counted}):\n" + "\n".join(rows[:40]) if rows else f"**Layout**: {counted}")
    top = [name for name in files.texts if name != files.readme]
    if top:
        parts.append("**Manifests**: " + ", ".join(f"`{base}{name}`" for name in top))
    if commands := run_commands(files, ("run", "test"), base):
        parts.append("**Run and test**:\n" + "\n".join(commands[:6]))
    if not about and not top:
        parts.append(fence("\n".join(files.tree.text.splitlines()[1:25]), "tree.txt"))
    return "\n\n".join(parts)


def _folder_rows(folder: str, listing: Result | None, told: dict[str, str]) -> list[str]:
    """A folder, what it says of itself and what is in it; folders in it that say something get a row each."""
    note = f" {shortened(told[folder], 90)}" if folder in told else ""
    if listing is None or listing.failed:
        return [f"- `{folder}/`{note}"]
    rows = listing.text.splitlines()
    entries = [row.split(" (")[0] for row in rows[1:] if row and not row.startswith((" ", "Ignored"))]
    inner = [e.rstrip("/") for e in entries if e.endswith("/")]
    spoken = [e for e in inner if f"{folder}/{e}" in told]
    plain = [e for e in entries if e.rstrip("/") not in spoken and not e.startswith((".", "__"))]
    shown = ", ".join(code(e) for e in plain[:7]) + (", …" if len(plain) > 7 else "")
    size = rows[0].split(": ", 1)[-1].split(" in ")[0]
    head = f"- `{folder}/` ({size}){note}" + (f": {shown}" if shown else "")
    return [head, *(f"  - `{folder}/{e}/` {shortened(told[f'{folder}/{e}'], 90)}" for e in spoken[:14])]


def purpose(files: Files) -> tuple[str, str]:
    """(what the project says it is, where it says so)."""
    for name, pattern in (
        ("pyproject.toml", r'^description\s*=\s*"(.+)"'),
        ("package.json", r'^\s*"description":\s*"(.+?)"'),
        ("Cargo.toml", r'^description\s*=\s*"(.+)"'),
        ("setup.cfg", r"^description\s*=\s*(.+)"),
        ("METADATA", r"^Summary:\s*(.+)"),
    ):
        for number, text in files.texts.get(name, {}).items():
            if hit := re.match(pattern, text):
                return hit[1].strip(), f"{name}:{number}"
    for number, text in files.texts.get(files.readme, {}).items():
        plain = text.strip()
        if len(plain) > 30 and not plain.startswith("#") and not _BORING.match(plain):
            return shortened(plain, 220), f"{files.readme}:{number}"
    return "", ""


def _folders(tree: Result) -> list[str]:
    rows = (re.match(r"^([\w.@+-]+)/", row) for row in tree.text.splitlines()[1:])
    return [hit[1] for hit in rows if hit]


def howto(intent: Intent) -> Plan:
    """How to run, build, test or install it, from what the project itself says."""
    files = yield from look(intent.path)
    said = intent.subject.lower()
    verb = next((v for v, pattern in _VERBS.items() if re.search(pattern, said)), "run")
    rows = run_commands(files, (verb,) if verb != "run" else ("run", "install"), "")
    (docs,) = yield [grep(_DOC_COMMANDS[verb], glob="*.md,*.rst,*.txt,*.toml,*.yml,*.yaml", head_limit=80)]
    hits = sorted(found.lines(docs), key=lambda h: (h.path != files.readme, h.path.count("/"), h.path, h.number))
    known = "\n".join(rows)
    extra = [h for h in hits if not re.search(r"CHANGE|HISTORY|NEWS|\.lock$|egg-info/", h.path, re.IGNORECASE)]
    extra = [h for h in extra if _runnable(h.text) and h.text.strip("$ `") not in known][:5]
    rows += [f"- {code(shortened(h.text.strip(' $`>')))} (`{h.at}`)" for h in extra]
    if not rows:
        looked = ", ".join(files.texts) or "no README or manifest at the top"
        return f"I found no command to {verb} this: I looked at {looked} and at the docs for commands."
    return f"To {verb} it:\n\n" + "\n".join(rows)


_VERBS = {
    "test": r"\btests?\b|\bpytest\b",
    "lint": r"\blint|\bformat|\btype.?check|\bcheck\b",
    "build": r"\bbuild|\bcompile",
    "install": r"\binstall|\bset ?up\b",
    "benchmark": r"\bbench",
    "run": r"\brun|\bstart|\blaunch|\buse|\bexecute",
}
_DOC_COMMANDS = {
    "test": r"^\s*(?:\$ |`)?(?:make (?:test|check)|python -m (?:pytest|unittest)|pytest\b|tox\b(?!\.)|nox\b|(?:npm|yarn"
            r"|pnpm)(?: run)? test|"
    r"cargo (?:test|nextest)|go test|uv run pytest|hatch (?:run )?test|poetry run pytest|scripts/test|\./\S*test\S*)",
    "lint": r"^\s*(?:\$ |`)?(?:make (?:lint|check|format)|ruff|mypy|pre-commit|(?:npm|yarn|pnpm) run lint|cargo "
            r"(?:clippy|fmt)|go vet|tox -e lint)",
    "build": r"^\s*(?:\$ |`)?(?:make(?: build| all)?\s*$|python -m build|uv build|(?:npm|yarn|pnpm) run build"
             r"|cargo build|go build|cmake|\./configure|hatch build)",
    "install": r"^\s*(?:\$ |`)?(?:(?:python -m )?pip install|uv (?:pip install|add|tool install|sync)|pipx "
               r"install|(?:npm|yarn|pnpm) (?:i|install|add)|cargo install|go install|brew install|make install"
               r"|conda install)",
    "benchmark": r"^\s*(?:\$ |`)?(?:make bench|python -m bench|cargo bench|asv )",
    "run": r"^\s*(?:\$ |`)?(?:make (?:run|start|demo|dev)|python -m \w|(?:npm|yarn|pnpm) (?:run )?(?:start|dev)"
           r"|cargo run|go run|docker (?:run|compose)|uvx|uv run|npx|\./\w)",
}  # fmt: skip


def _runnable(text: str) -> bool:
    plain = text.strip().strip("`")
    return len(plain) < 140 and "`" not in plain and not plain.startswith("#") and "==" not in plain


def run_commands(files: Files, verbs: Sequence[str], base: str) -> list[str]:
    """Commands the manifests define, a Markdown line each with its place."""
    rows: list[str] = []
    for verb in verbs:
        rows += (
            _make_targets(files, verb, base) + _python_commands(files, verb, base) + _node_scripts(files, verb, base)
        )
        for name, command in (("Cargo.toml", f"cargo {verb}"), ("go.mod", _GO.get(verb, ""))):
            if name in files.texts and command and verb in ("run", "test", "build", "install"):
                rows.append(f"- {code(command)} (`{base}{name}:1`)")
        for number, text in files.texts.get(files.readme, {}).items():
            plain = text.strip().removeprefix("$ ").strip("`")
            if re.match(_DOC_COMMANDS[verb], text, re.IGNORECASE) and _runnable(text) and plain not in "\n".join(rows):
                rows.append(f"- {code(shortened(plain))} (`{base}{files.readme}:{number}`)")
    return list(dict.fromkeys(rows))


_GO = {"run": "go run .", "test": "go test ./...", "build": "go build ./...", "install": "go install ./..."}
_TARGETS = {
    "run": ("run", "start", "serve", "dev", "demo", "up"),
    "test": ("test", "tests", "check"),
    "build": ("build", "all", "dist", "compile"),
    "install": ("install", "setup", "deps"),
    "lint": ("lint", "check", "format", "fmt"),
    "benchmark": ("bench", "benchmark"),
}


def _make_targets(files: Files, verb: str, base: str) -> list[str]:
    rows = []
    for name in ("Makefile", "justfile"):
        for number, text in files.texts.get(name, {}).items():
            hit = re.match(r"^([\w.-]+)\s*:(?!=)", text)
            if hit and hit[1] in _TARGETS[verb]:
                rows.append(f"- `{'make' if name == 'Makefile' else 'just'} {hit[1]}` (`{base}{name}:{number}`)")
    return rows


def _python_commands(files: Files, verb: str, base: str) -> list[str]:
    pyproject = (
        "pyproject.toml"
        if "pyproject.toml" in files.texts
        else next((n for n in ("setup.py", "setup.cfg") if n in files.texts), "")
    )
    if not pyproject:
        return []
    if verb == "run":
        return [f"- `{i.key}` runs `{i.value}` (`{base}{i.at}`)" for i in manifests.scripts(declared(files))]
    if verb == "test":
        told = [name for name in (pyproject, "setup.cfg", "tox.ini", "noxfile.py") if "pytest" in files.text(name)]
        return [f"- `pytest` (`{base}{name}:{files.line_of(name, 'pytest')}`)" for name in told[:1]]
    if verb == "install":
        return [f"- `pip install -e .` (`{base}{pyproject}:1`)"]
    return []


def _node_scripts(files: Files, verb: str, base: str) -> list[str]:
    scripts = package_json(files).get("scripts") or {}
    wanted = [n for n in scripts if n.split(":")[0] in (*_TARGETS[verb], verb)] if isinstance(scripts, dict) else []
    rows = []
    for name in wanted:
        line = files.line_of("package.json", rf'"{re.escape(name)}"\s*:')
        short = name if name in ("test", "start") else f"run {name}"
        rows.append(f"- `npm {short}` runs {code(shortened(str(scripts[name]), 80))} (`{base}package.json:{line}`)")
    return rows


def package_json(files: Files) -> dict[str, Any]:
    try:
        value = json.loads(files.text("package.json") or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
