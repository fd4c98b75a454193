"""What the text of a definition tells: its first words, its signature and where it ends."""

from __future__ import annotations

import re
from collections.abc import Mapping

from cowork.providers.offline.languages import Definition, definition, family_of

_DOC_OPEN = re.compile(r'^\s*[rRuUbB]{0,2}("""|\'\'\')(.*)$')
_COMMENT = re.compile(r"^\s*(?:///?!?|#+|--|;+|%+|/?\*+!?)\s?(.*?)(?:\s*\*+/)?$")
_PREAMBLE = ("#!", "#[", "# -*-", "<?", "// @", "/* eslint", "'use", '"use', "// Copyright")


def first_words(lines: Mapping[int, str], at: int, path: str) -> str:
    """The first sentence of the docstring below a definition, or of the comment above it."""
    if family_of(path) == "python":
        for number in range(at + 1, at + 25):
            if hit := _DOC_OPEN.match(lines.get(number, "")):
                return _docstring(lines, number, hit)
            if number not in lines or re.match(r"\s*(?:async\s+)?(?:def|class|return)\b", lines[number]):
                break
        return ""
    rows: list[str] = []
    for number in range(at - 1, max(at - 12, 0), -1):
        text = lines.get(number, "").strip()
        if text.startswith(("@", "#[", "[")) and not rows:
            continue
        hit = _COMMENT.match(text) if text else None
        if not hit:
            break
        said = hit[1].strip(" */")
        rows = [] if said.startswith("@") else [said, *rows]  # tags come after the words
    return _sentence(" ".join(rows))


def module_words(lines: Mapping[int, str]) -> str:
    """The first sentence of the docstring or comment a file begins with."""
    for number in sorted(lines)[:8]:
        if hit := _DOC_OPEN.match(lines[number]):
            return _docstring(lines, number, hit)
        comment = _COMMENT.match(lines[number])
        if comment and len(comment[1]) > 15 and not lines[number].startswith(_PREAMBLE):
            return _sentence(comment[1])
    return ""


def body(lines: Mapping[int, str], item: Definition) -> tuple[int, str]:
    """(last line, text) of a definition, as far as indentation or braces tell."""
    start = end = item.line
    ends = _ends_by_indent if family_of(item.path) in ("python", "ruby", "data") else _ends_by_braces
    for number in range(start, max(lines, default=start) + 1):
        if number > start and ends(lines, item, number):
            break
        if lines.get(number, "").strip():
            end = number
    return end, "\n".join(lines.get(n, "") for n in range(start, end + 1))


def _ends_by_indent(lines: Mapping[int, str], item: Definition, number: int) -> bool:
    """Whether a line is past the end: not deeper than the first, and no part of an open signature."""
    text = lines.get(number, "")
    if not text.strip() or _indent(text) > _indent(lines.get(item.line, "")) or re.match(r"\s*[)\]}]", text):
        return False
    above = "".join(lines.get(n, "") for n in range(item.line, min(number, item.line + 40)))
    return above.count("(") <= above.count(")")


def _ends_by_braces(lines: Mapping[int, str], item: Definition, number: int) -> bool:
    """Whether the braces before a line are closed, or there are none and something else begins."""
    above = [lines.get(n, "") for n in range(item.line, number)]
    joined = "".join(above)
    if "{" in joined:
        return joined.count("{") <= joined.count("}")
    text = lines.get(number, "")
    return above[-1].rstrip().endswith(";") or not text.strip() or definition(item.path, number, text) is not None


def _docstring(lines: Mapping[int, str], number: int, hit: re.Match[str]) -> str:
    quote, rest = hit[1], hit[2]
    rows = [rest.split(quote)[0].strip()]
    while quote not in rest and number + 1 in lines and len(rows) < 8:
        number += 1
        rest = lines[number]
        if not rest.strip() and any(rows):
            break
        rows.append(rest.split(quote)[0].strip())
    return _sentence(" ".join(rows))


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    found = re.match(r"(.{15,}?[.!?])(?:\s+[A-Z`*(]|$)", text)
    text = found[1] if found else text
    return text if len(text) <= 220 else text[:219] + "…"


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())
