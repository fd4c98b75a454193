"""Money, tokens, durations, short texts and code as people read them. The one place that decides how they look."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from cowork.core.hygiene import visible


def money(usd: float | None, unknown: str = "$?") -> str:
    """`$0.00`, `<$0.001`, `$0.004`, `$1.42`; `unknown` when no price is known."""
    if usd is None:
        return unknown
    if 0 < usd < 0.001:
        return "<$0.001"
    return f"${usd:.3f}" if 0 < usd < 0.0995 else f"${usd:,.2f}"


def money_sum(usd: float | None, known: float) -> str:
    """A sum; `$1.42+` where it holds requests of unknown price."""
    return f"{money(known)}+" if usd is None else money(usd)


def tokens(count: int) -> str:
    """`980`, `6.1k`, `148k`, `1.2M`."""
    if count < 1_000:
        return str(count)
    if count < 99_950:
        return f"{count / 1_000:.1f}k"
    return f"{count / 1_000:.0f}k" if count < 999_500 else f"{count / 1_000_000:.1f}M"


def clock(seconds: float) -> str:
    """`0:14`, `12:05`, `1:02:03`."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def duration(seconds: float) -> str:
    """`0.4 s`, `8 s`, `41 s`, `3 min 5 s`, `2 h 10 min`."""
    if seconds < 9.95:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"


def plural(number: int, word: str) -> str:
    """`1 turn`, `3 turns`, `5 children`."""
    return f"{number:,} {word if number == 1 else 'children' if word == 'child' else f'{word}s'}"


def one_line(text: str, most: int | None = None) -> str:
    """The text on one line, safe to draw, cut at `most` characters."""
    flat = " ".join(visible(text if most is None else text[: most * 4]).split())
    return flat if most is None or len(flat) <= most else flat[: most - 1] + "…"


def first_sentence(text: str, most: int = 100) -> str:
    """What a text says first; a long sentence ends at a word."""
    sentence = re.split(r"(?<=[.;:!?])\s", " ".join(text.split()), maxsplit=1)[0].rstrip(";:")
    return sentence if len(sentence) <= most else sentence[:most].rsplit(" ", 1)[0] + " …"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows as a table of Markdown; nothing that a cell holds ends it."""
    cells = [[" ".join(str(cell).split()).replace("|", "\\|") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *cells))


def code(text: str) -> str:
    """A name or a path as code within a line of Markdown."""
    longest = _longest_run(text)
    ticks, pad = "`" * (longest + 1), " " if longest else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def fence(text: str, language: str = "") -> str:
    """Lines of code as a block of Markdown, in a fence that nothing in them can close."""
    mark = "`" * max(3, _longest_run(text) + 1)
    return f"{mark}{language}\n{text}\n{mark}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
