"""Numbers as people read them in a narrow line."""

from __future__ import annotations


def tokens(count: int) -> str:
    """`980`, `6.1k`, `48k`, `1.2M`."""
    if count < 1_000:
        return str(count)
    if count < 99_950:
        return f"{count / 1_000:.1f}k"
    if count < 999_500:
        return f"{count / 1_000:.0f}k"
    return f"{count / 1_000_000:.1f}M"


def money(usd: float | None) -> str:
    """`$0.004`, `$1.42`; `$?` when a price is unknown."""
    if usd is None:
        return "$?"
    return f"${usd:.3f}" if 0 < usd < 0.1 else f"${usd:.2f}"


def clock(seconds: float) -> str:
    """`0:14`, `12:05`, `1:02:03`."""
    whole = max(0, int(seconds))
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def duration(seconds: float) -> str:
    """`0.4 s`, `21 s`, `3 min 20 s`."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    return f"{whole} s" if whole < 90 else f"{whole // 60} min {whole % 60} s"


def count(number: int, word: str) -> str:
    """`1 turn`, `3 turns`."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"
