"""What can be told of a piece of source from its text alone: its signature, its docstring, where it ends."""

from __future__ import annotations

import re
from collections.abc import Mapping

from cowork.providers.offline.languages import Definition, definition, family_of

_DOC_OPEN = re.compile(r'^\s*[rRuUbB]{0,2}("""|\'\'\')(.*)$')
_COMMENT = re.compile(r"^\s*(?:///?!?|#+|--|;+|%+|/?\*+!?)\s?(.*?)(?:\s*\*+/)?$")
MOST_LINES = 60


def first_words(lines: Mapping[int, str], at: int, path: str) -> str:
    """The first sentence of the docstring below a definition, or of the comment above it."""
    if family_of(path) == "python":
        for number in range(at, at + 25):
            if number not in lines:
                break  # what was not looked at says nothing
            text = lines[number]
            if number > at and (hit := _DOC_OPEN.match(text)):
                return _doc_line(lines, number, hit)
            if number > at and re.match(r"\s*(?:async\s+)?(?:def|class|return)\b", text):
                break
        return ""
    rows: list[str] = []
    for number in range(at - 1, max(at - 12, 0), -1):
        text = lines.get(number, "").strip()
        if text.startswith(("@", "#[", "[")) and not rows:
            continue
        hit = _COMMENT.match(text)
        if not text or not hit:
            break
        said = hit[1].strip(" */")
        if said.startswith("@"):
            rows.clear()  # tags come after the words
        elif said:
            rows.insert(0, said)
    return _sentence(" ".join(rows))


def module_words(lines: Mapping[int, str]) -> str:
    """The first sentence of the docstring or comment a file begins with."""
    for number in sorted(lines)[:12]:
        text = lines[number]
        if hit := _DOC_OPEN.match(text):
            return _doc_line(lines, number, hit)
        if not text.strip() or text.startswith(
            ("#!", "#[", "# -*-", "<?", "// @", "/* eslint", "'use", '"use', "// Copyright")
        ):
            continue
        comment = _COMMENT.match(text)
        if comment and comment[1].strip(" */#=-"):
            rows = [comment[1].strip()]
            for more in range(number + 1, number + 6):
                follow = _COMMENT.match(lines.get(more, ""))
                if not follow or not follow[1].strip(" */"):
                    break
                rows.append(follow[1].strip())
            said = " ".join(rows)
            return "" if re.search(r"copyright|licen[cs]e|spdx", said, re.IGNORECASE) else _sentence(said)
        if not comment:
            return ""
    return ""


def body(lines: Mapping[int, str], found: Definition) -> tuple[int, str]:
    """(last line, text) of a definition, as far as indentation or braces tell."""
    start = found.line
    top = len(lines[start]) - len(lines[start].lstrip()) if start in lines else 0
    end = start
    python = family_of(found.path) in ("python", "ruby", "data")
    depth = seen = 0
    signature_open = 0
    for number in range(start, max(lines, default=start) + 1):
        text = lines.get(number, "")
        if python:
            inside = len(text) - len(text.lstrip()) > top or not text.strip()
            if number > start and not signature_open and not inside and not re.match(r"\s*[)\]}]", text):
                break
            signature_open = max(0, signature_open + text.count("(") - text.count(")")) if number < start + 40 else 0
        else:
            depth += text.count("{") - text.count("}")
            seen += text.count("{")
            if number > start and not seen and (not text.strip() or definition(found.path, number, text)):
                break
        if text.strip():
            end = number
        if not python and ((seen and depth <= 0) or (not seen and text.rstrip().endswith(";"))):
            break
    return end, "\n".join(lines.get(n, "") for n in range(start, end + 1))


def enclosing(outline: list[Definition], line: int) -> str:
    """`Class.method` around a line, by the definitions before it and their indentation."""
    chain: list[Definition] = []
    for item in outline:
        if item.line > line:
            break
        while chain and chain[-1].indent >= item.indent:
            chain.pop()
        chain.append(item)
    return ".".join(item.name for item in chain)


def _doc_line(lines: Mapping[int, str], number: int, hit: re.Match[str]) -> str:
    quote, rest = hit[1], hit[2]
    rows = [rest.split(quote)[0]]
    while quote not in rest and number + 1 in lines and len(" ".join(rows)) < 400:
        number += 1
        rest = lines[number]
        if not rest.strip() and any(rows):
            break
        rows.append(rest.split(quote)[0].strip())
    return _sentence(" ".join(row.strip() for row in rows))


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    found = re.match(r"(.{15,}?[.!?])(?:\s+[A-Z`*(]|$)", text)
    text = found[1] if found else text
    return text if len(text) <= 220 else text[:219] + "…"
