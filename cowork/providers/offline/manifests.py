"""What manifests declare, whatever they are written in: each entry with its table, its key and its line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from cowork.core.frozen import frozen

# At the top of a project, most telling first.
NAMES = (
    "pyproject.toml",
    "setup.cfg",
    "setup.py",
    "package.json",
    "Cargo.toml",
    "go.mod",
    "Pipfile",
    "pom.xml",
    "build.gradle",
    "Gemfile",
    "composer.json",
    "environment.yml",
    "METADATA",
    "PKG-INFO",
)
REQUIREMENTS = re.compile(r"(?:[\w.-]*[-_.])?requirements[\w.-]*\.(?:txt|in)|requirements/[\w.-]+\.(?:txt|in)")
_LANGUAGES = {
    "rust": ("Cargo.toml",),
    "crate": ("Cargo.toml",),
    "npm": ("package.json",),
    "node": ("package.json",),
    "javascript": ("package.json",),
    "typescript": ("package.json",),
    "go": ("go.mod",),
    "golang": ("go.mod",),
    "ruby": ("Gemfile",),
    "gem": ("Gemfile",),
    "php": ("composer.json",),
    "java": ("pom.xml", "build.gradle"),
    "python": ("pyproject.toml", "setup.cfg", "setup.py", "Pipfile", "METADATA", "PKG-INFO", "requirements"),
    "pip": ("pyproject.toml", "setup.cfg", "setup.py", "Pipfile", "METADATA", "PKG-INFO", "requirements"),
}


@frozen
class Item:
    """One entry of a manifest."""

    file: str
    line: int
    section: str  # tables and keys around it, joined by dots
    key: str
    value: str

    @property
    def at(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def path(self) -> str:
        return f"{self.section}.{self.key}".strip(".")


def of_language(items: Iterable[Item], question: str) -> list[Item]:
    """Only what the language a question names is built by; everything where it names none."""
    said = re.findall(r"[a-z]+", question.lower())
    wanted = [name for word in said for name in _LANGUAGES.get(word, _LANGUAGES.get(word.removesuffix("s"), ()))]
    items = list(items)
    return [item for item in items if any(name in item.file for name in wanted)] or items


def items(name: str, lines: Mapping[int, str]) -> list[Item]:
    """The entries of a manifest, in order."""
    base = name.rsplit("/", 1)[-1]
    if REQUIREMENTS.fullmatch(base) or REQUIREMENTS.search(name):
        return list(_requirements(name, lines))
    if base in ("METADATA", "PKG-INFO"):
        return list(_headers(name, lines))
    if base in ("pom.xml", "Gemfile", "build.gradle"):
        return list(_marked(name, lines))
    return list(_tables(name, lines))


_HEADER = re.compile(r"^\[+\s*(.+?)\s*\]+\s*(?:#.*)?$")
_PAIR = re.compile(r"""^["']?([\w.@/+-]+)["']?\s*(?:=(?![=>~<])|:(?=\s|$|["'\[{]))\s*(.*)$""")
_BLOCK = re.compile(r"^(require|exclude|replace|use)\s*\($")
_QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'")
_NAME = re.compile(r"^[\"'-]*\s*(@?[A-Za-z0-9][\w./@-]*)")


def _tables(name: str, lines: Mapping[int, str]) -> Iterable[Item]:
    """TOML, INI, JSON, YAML, go.mod and calls of setup(): tables by headers, brackets and indentation."""
    section, depth = "", 0
    around: list[tuple[str, int]] = []  # keys whose value is still open, and the depth they began at
    hanging = ""  # a key whose values are the indented lines below it
    for number, raw in sorted(lines.items()):
        text = raw.strip()
        if not text or text.startswith(("#", ";", "//")):
            continue
        if not depth and (header := _HEADER.match(raw)):
            section, hanging = _unquoted(header[1]), ""
            above, _, last = section.rpartition(".")
            yield Item(name, number, above, last, "")  # [dependencies.serde] declares serde
            continue
        if not depth and not raw[0].isspace():
            hanging = ""
        path = ".".join(part for part in (section, hanging, *(key for key, _ in around)) if part)
        bare = _QUOTED.sub("", text).split(" #")[0]
        opened = sum(bare.count(c) for c in "[{(") - sum(bare.count(c) for c in "]})")
        block, pair = _BLOCK.match(text), _PAIR.match(text)
        if block or (pair and opened > 0):
            around.append((block[1] if block else _unquoted(pair[1]) if pair else "", depth))
        if pair:
            yield from _pair(name, number, path, pair)
            if not depth and not pair[2] and not raw[0].isspace():
                hanging = pair[1]
        elif not block and (one := _single(name, number, path, text)):
            yield one
        depth = max(0, depth + opened)
        while around and depth <= around[-1][1]:
            around.pop()


def _pair(name: str, number: int, path: str, pair: re.Match[str]) -> Iterable[Item]:
    """A key with its value; a list on the same line is entries of its own."""
    key, value = pair[1], pair[2].rstrip(", ")
    yield Item(name, number, path, key, value)
    if value.startswith(("[", "{")) or '": [' in value:
        inner = f"{path}.{key}".strip(".")
        for told in _QUOTED.findall(value):
            if made := _single(name, number, inner, told):
                yield made


def _single(name: str, number: int, path: str, text: str) -> Item | None:
    """An entry without a key: a requirement, a word of a list, a directive of go.mod."""
    if name.endswith("go.mod") and (
        told := re.match(r"(?:(go|require|toolchain|module)\s+)?(\S+)(?:\s+(v\S+.*))?$", text)
    ):
        if told[1] and told[1] != "require":
            return Item(name, number, "", told[1], told[2])
        return Item(name, number, "require", told[2], told[3] or "")
    told = _NAME.match(text)
    plain = text.rstrip(", ")
    return Item(name, number, path, told[1], _unquoted(plain)) if told else None


def _requirements(name: str, lines: Mapping[int, str]) -> Iterable[Item]:
    group = "dev-requirements" if re.search(r"dev|test|doc|lint|ci|build", name) else "requirements"
    for number, text in sorted(lines.items()):
        plain = text.split(" #")[0].strip()
        if (told := _NAME.match(plain)) and not plain.startswith(("#", "-")):
            yield Item(name, number, group, re.split(r"[\[=<>~!;@ ]", told[1])[0], plain)


def _headers(name: str, lines: Mapping[int, str]) -> Iterable[Item]:
    for number, text in sorted(lines.items()):
        if not text.strip():
            return
        if pair := re.match(r"^([A-Z][\w-]+):\s*(.+)$", text):
            told = _NAME.match(pair[2]) if pair[1] == "Requires-Dist" else None
            extra = "optional-dependencies.extra" if "extra ==" in pair[2] else "requires-dist"
            yield Item(name, number, extra, told[1], pair[2]) if told else Item(name, number, "", pair[1], pair[2])


def _marked(name: str, lines: Mapping[int, str]) -> Iterable[Item]:
    """Manifests of which only single lines are understood."""
    for number, text in sorted(lines.items()):
        if found := re.match(
            r"\s*(?:gem\s+['\"](?P<a>[\w-]+)|<artifactId>(?P<b>[^<]+)"
            r"|(?P<dev>test)?(?:[iI]mplementation|api|compileOnly)[\s(]+['\"](?P<c>[^'\"]+))",
            text,
        ):
            key = next(g for g in (found["a"], found["b"], found["c"]) if g)
            yield Item(name, number, "devDependencies" if found["dev"] else "dependencies", key, text.strip())
        elif pair := re.match(r"\s*<(version|name|description)>([^<]+)<|\s*version\s*=\s*['\"](.+?)['\"]", text):
            yield Item(name, number, "", pair[1] or "version", pair[2] or pair[3])


def scripts(entries: Iterable[Item]) -> list[Item]:
    """The commands that packages of Python declare, each keyed by its name and valued by what it calls."""
    out = []
    for item in entries:
        told = re.search(r"(?:([\w.-]+)\s*=\s*)?([\w.]+:[\w.]+)", item.value)
        if told and _SCRIPTS.search(item.section):
            out.append(Item(item.file, item.line, item.section, told[1] or item.key, told[2]))
    return out


_SCRIPTS = re.compile(r"(?:^|\.)(?:(?:gui[-_]|console[-_])?scripts|entry[-_]points(?:\..+)?)$")


def _unquoted(text: str) -> str:
    """Without the quotes around all of it; quotes inside stay in pairs."""
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text
