"""What manifests declare, whatever they are written in: each entry with its table, its key and its line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from cowork.core.frozen import frozen

# What is read at the top of a project, most telling first.
NAMES = (
    *("pyproject.toml", "setup.cfg", "setup.py", "package.json", "Cargo.toml", "go.mod", "Makefile", "justfile"),
    *("Pipfile", "composer.json", "METADATA", "PKG-INFO", "tox.ini"),
)
REQUIREMENTS = re.compile(r"(?:[\w.-]*[-_.])?requirements[\w.-]*\.(?:txt|in)|requirements/[\w.-]+\.(?:txt|in)")
_LANGUAGES = {
    r"rust|crates?": "Cargo.toml",
    r"npm|node|javascript|typescript": "package.json",
    r"go|golang": "go.mod",
    r"php": "composer.json",
    r"python|pip": "pyproject.toml setup.cfg setup.py Pipfile METADATA PKG-INFO requirements",
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
    spoken = [names for said, names in _LANGUAGES.items() if re.search(rf"\b(?:{said})\b", question.lower())]
    wanted = " ".join(spoken).split()
    items = list(items)
    return [item for item in items if any(name in item.file for name in wanted)] or items


def items(name: str, lines: Mapping[int, str]) -> list[Item]:
    """The entries of a manifest, in order."""
    base = name.rsplit("/", 1)[-1]
    if REQUIREMENTS.fullmatch(base) or REQUIREMENTS.search(name):
        return list(_requirements(name, lines))
    if base in ("METADATA", "PKG-INFO"):
        return list(_headers(name, lines))
    if base in ("Makefile", "justfile"):
        hits = ((number, re.match(r"([A-Za-z][\w.-]*)\s*:(?!=)", text)) for number, text in sorted(lines.items()))
        return [Item(name, number, "targets", hit[1], "") for number, hit in hits if hit]
    return list(_tables(name, lines)) if base in NAMES else []


_HEADER = re.compile(r"^\[+\s*(.+?)\s*\]+\s*(?:#.*)?$")
_PAIR = re.compile(r"""^["']?([\w.@/:+-]+?)["']?\s*(?:=(?![=>~<])|:(?=\s|$|["'\[{]))\s*(.*)$""")
_BLOCK = re.compile(r"^(require|exclude|replace|use)\s*\($")
_QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'")
_NAME = re.compile(r"^[\"'-]*\s*(@?[A-Za-z0-9][\w./@-]*)")


def _tables(name: str, lines: Mapping[int, str]) -> Iterable[Item]:
    """TOML, INI, JSON, go.mod and calls of setup(): tables by headers, brackets and indentation."""
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
        top = not depth and not raw[0].isspace()
        hanging = "" if top else hanging
        path = ".".join(part for part in (section, hanging, *(key for key, _ in around)) if part)
        bare = _QUOTED.sub("", text).split(" #")[0]
        opened = sum(bare.count(c) for c in "[{(") - sum(bare.count(c) for c in "]})")
        block, pair = _BLOCK.match(text), _PAIR.match(text)
        if block or (pair and opened > 0):
            around.append((block[1] if block else _unquoted(pair[1]) if pair else "", depth))
        if pair:
            yield from _pair(name, number, path, pair)
            hanging = pair[1] if top and not pair[2] else hanging
        elif not block:
            yield from _single(name, number, path, text)
        depth = max(0, depth + opened)
        while around and depth <= around[-1][1]:
            around.pop()


def _pair(name: str, number: int, path: str, pair: re.Match[str]) -> Iterable[Item]:
    """A key with its value; a list on the same line is entries of its own."""
    key, value = pair[1], pair[2].rstrip(", ")
    yield Item(name, number, path, key, value)
    if value.startswith(("[", "{")):
        for told in _QUOTED.findall(value):
            yield from _single(name, number, f"{path}.{key}".strip("."), told)


def _single(name: str, number: int, path: str, text: str) -> Iterable[Item]:
    """An entry without a key: a requirement, a word of a list, a directive of go.mod."""
    told = re.match(r"(?:(go|require|toolchain|module)\s+)?(\S+)(?:\s+(v\S+.*))?$", text)
    if name.endswith("go.mod") and told:
        alone = told[1] and told[1] != "require"
        yield (
            Item(name, number, "", told[1], told[2]) if alone else Item(name, number, "require", told[2], told[3] or "")
        )
    elif named := _NAME.match(text):
        yield Item(name, number, path, named[1], _unquoted(text.rstrip(", ")))


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


def _unquoted(text: str) -> str:
    """Without the quotes around all of it; quotes inside stay in pairs."""
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text
