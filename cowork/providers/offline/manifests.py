"""What manifests declare, whatever they are written in: each entry with its table, its key and its line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from cowork.core.frozen import frozen

# What is read at the top of a project, most telling first.
NAMES = (
    *("pyproject.toml", "setup.cfg", "setup.py", "package.json", "Cargo.toml", "go.mod", "Makefile", "justfile"),
    "tox.ini",
)
REQUIREMENTS = re.compile(r"(?:[\w.-]*[-_.])?requirements[\w.-]*\.(?:txt|in)")
_LANGUAGES = {
    r"rust|crates?": "Cargo.toml",
    r"npm|node|javascript|typescript": "package.json",
    r"go|golang": "go.mod",
    r"python|pip": "pyproject.toml setup.cfg setup.py requirements",
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
    if name in ("Makefile", "justfile"):
        hits = ((number, re.match(r"([A-Za-z][\w.-]*)\s*:(?!=)", text)) for number, text in sorted(lines.items()))
        return [Item(name, number, "targets", hit[1], "") for number, hit in hits if hit]
    listed = REQUIREMENTS.fullmatch(name)
    return list(_tables(name, lines, "requirements" if listed else "")) if listed or name in NAMES else []


_HEADER = re.compile(r"^\[+\s*(.+?)\s*\]+\s*(?:#.*)?$")
_PAIR = re.compile(r"""^["']?([\w.@/:+-]+?)["']?\s*(?:=(?![=>~<])|:(?=\s|$|["'\[{]))\s*(.*)$""")
_BLOCK = re.compile(r"^(require|exclude|replace|use)\s*\($")
_QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'")
_DIRECTIVE = re.compile(r"(?:(go|require|toolchain|module)\s+)?(\S+)(?:\s+(v\S+.*))?$")  # of go.mod


def _tables(name: str, lines: Mapping[int, str], section: str) -> Iterator[Item]:
    """TOML, INI, JSON, go.mod and calls of setup(): tables by headers, brackets and indentation."""
    depth = 0
    around: list[tuple[str, int]] = []  # keys whose value is still open, and the depth they began at
    hanging = ""  # a key whose values are the indented lines below it
    for number, raw in sorted(lines.items()):
        text = raw.strip()
        if not text or text.startswith(("#", ";", "//", "-")):
            continue
        if not depth and (header := _HEADER.match(raw)):
            section, hanging = header[1].strip("\"'"), ""
            above, _, last = section.rpartition(".")
            yield Item(name, number, above, last, "")  # [dependencies.serde] declares serde
            continue
        top = not depth and not raw[0].isspace()
        hanging = "" if top else hanging
        path = ".".join(part for part in (section, hanging, *(key for key, _ in around)) if part)
        bare = _QUOTED.sub("", text).split(" #")[0]
        opened = sum(bare.count(c) for c in "[{(") - sum(bare.count(c) for c in "]})")
        block, pair = _BLOCK.match(text), _PAIR.match(text)
        if found := block or (pair if opened > 0 else None):
            around.append((found[1], depth))
        if pair:
            yield from _pair(name, number, path, pair)
            hanging = pair[1] if top and not pair[2] else hanging
        elif not block:
            yield from _single(name, number, path, text.split(" #")[0])
        depth = max(0, depth + opened)
        while around and depth <= around[-1][1]:
            around.pop()


def _pair(name: str, number: int, path: str, pair: re.Match[str]) -> Iterator[Item]:
    """A key with its value; a list on the same line is entries of its own."""
    key, value = pair[1], pair[2].rstrip(", ")
    yield Item(name, number, path, key, value)
    if value.startswith(("[", "{")):
        for told in _QUOTED.findall(value):
            yield from _single(name, number, f"{path}.{key}".strip("."), told)


def _single(name: str, number: int, path: str, text: str) -> Iterator[Item]:
    """An entry without a key: a requirement, a word of a list, a directive of go.mod."""
    told = _DIRECTIVE.match(text) if name == "go.mod" else None
    if told and told[1] in ("go", "toolchain", "module"):
        yield Item(name, number, "", told[1], told[2])
    elif told:
        yield Item(name, number, "require", told[2], told[3] or "")
    elif named := re.match(r"[\"']?(@?[A-Za-z0-9][\w./@-]*)", text):
        plain = text.rstrip(", ")
        yield Item(name, number, path, named[1], plain[1:-1] if plain[0] in "\"'" else plain)
