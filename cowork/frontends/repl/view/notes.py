"""The small finished things: banner, prompts, todo lists, notices, how a turn ended."""

from __future__ import annotations

import os
from collections.abc import Sequence

from cowork.core import format
from cowork.core.blocks import Json
from cowork.core.events import ContextCompacted, Event, Notice, PromptAdded, RetryScheduled, SessionRewound, TurnEnded
from cowork.core.format import one_line
from cowork.core.hygiene import visible
from cowork.frontends.host import ContextUse, Status
from cowork.frontends.styled import Line, Theme, clip, clip_line, clip_start, line_width, pad, width, wrap, wrap_behind

_PROMPT_ROWS = 12
_PROMPT_LINE = 4_000  # characters shown of one line
_TODO_MARKS = {"completed": ("good", "✓", "dim"), "in_progress": ("accent", "▸", "bold"), "pending": ("dim", "○", "")}
_LEVELS = {"info": ("dim", "·"), "warning": ("warn", "!"), "error": ("bad", "✗")}
_KINDS = {
    "rate_limit": "The service asks to slow down (429)",
    "overloaded": "The service is overloaded (529)",
    "server": "The service failed",
    "connection": "No connection to the service",
    "stalled": "The service went silent",
    "broken_stream": "The answer broke off",
}
_HERE = {  # what a shell user runs, and what does the same in the chat
    "/model or `cowork config init`": "/login or /model",
    "`cowork doctor`": "/doctor",
    "`cowork config init`": "/model",
    "`cowork sessions list`": "/resume",
    "`cowork config show`": "/config",
    "`cowork agents list`": "/agents",
}
_COLOURS = ("blue", "cyan", "green", "yellow", "orange", "magenta", "purple", "pink")
_WIDEST_BAR, _WIDEST_NAME = 72, 28


def in_chat(text: str) -> str:
    """A hint with the slash commands that do the same."""
    for shell, here in _HERE.items():
        text = text.replace(shell, here)
    return text


def _prompt_lines(event: PromptAdded, columns: int) -> list[Line]:
    """What the user said; a long text is folded."""
    if event.source not in ("user", "queue", "steer"):
        return [[("dim", f"· {clip(one_line(event.label or event.text), columns - 3)}")]] if event.label else []
    lines = (event.label or event.text).split("\n")
    rows = [row for line in lines[: _PROMPT_ROWS + 2] for row in wrap(visible(line[:_PROMPT_LINE]), columns - 3)]
    hidden = len(rows) + len(lines) - min(len(lines), _PROMPT_ROWS + 2) - _PROMPT_ROWS
    shown = rows if hidden <= 1 else rows[:_PROMPT_ROWS]
    glyph = "↪ " if event.source == "steer" else "❯ "
    out: list[Line] = [[("accent", glyph if not i else "  "), ("bold", row)] for i, row in enumerate(shown)]
    if len(shown) < len(rows):
        out.append([("dim", f"  … {hidden:,} more lines")])
    out.extend([("faint", "  ↳ "), ("dim", clip(one_line(line), columns - 5))] for line in event.attached)
    if event.images and not event.attached:
        out.append([("dim", f"  {format.plural(len(event.images), 'image')}")])
    return out


def todo_lines(todos: Sequence[Json], columns: int, *, limit: int | None = None) -> list[Line]:
    """The checklist; with a limit, the part around what is being done."""
    rows: list[Line] = []
    for todo in todos:
        mark_style, mark, style = _TODO_MARKS.get(str(todo.get("status")), _TODO_MARKS["pending"])
        text = (todo.get("activeForm") if style == "bold" else "") or todo.get("content") or ""
        rows.append([("", "  "), (mark_style, f"{mark} "), (style, clip(one_line(str(text)), columns - 5))])
    if limit is None or len(rows) <= limit:
        return rows
    current = max((place for place, todo in enumerate(todos) if todo.get("status") == "in_progress"), default=0)
    start = max(0, min(current - 1, len(rows) - limit + 1))
    shown = rows[start : start + limit - 1]
    return [*shown, [("dim", f"    … {len(rows) - len(shown)} more")]]


def todo_change(before: Sequence[Json], after: Sequence[Json], columns: int) -> list[Line]:
    """What an update means: the whole list once it is done, else the steps that were finished.

    A new list is not printed: it stands above the input while there is something to do.
    """
    done = [t for t in after if t.get("status") == "completed"]
    if after and len(done) == len(after):
        return todo_summary(after, columns)
    finished = {str(t.get("content")) for t in before if t.get("status") == "completed"}
    fresh = [t for t in done if str(t.get("content")) not in finished]
    return [
        [("good", "✓ "), ("", clip(one_line(str(t.get("content"))), columns - 16)), ("dim", f" · {n} of {len(after)}")]
        for n, t in enumerate(fresh, len(done) - len(fresh) + 1)
    ]


def todo_summary(todos: Sequence[Json], columns: int) -> list[Line]:
    """The checklist under a line that counts it."""
    done = sum(t.get("status") == "completed" for t in todos)
    head: Line = [("good" if done == len(todos) else "accent", "● "), ("bold", "Todo"),
                  ("dim", f" · {done} of {len(todos)} done")]  # fmt: skip
    return [head, *todo_lines(todos, columns)]


def todo_line(todos: Sequence[Json], columns: int) -> Line:
    """The checklist in a line: how far it got, and what comes next."""
    left = [t for t in todos if t.get("status") != "completed"]
    going = next((t for t in left if t.get("status") == "in_progress"), left[0])
    done = f"  ○ Todo · {len(todos) - len(left)} of {len(todos)} done · next: {one_line(str(going.get('content')))}"
    return [("dim", clip(done, columns))]


def thought_line(text: str, seconds: float, columns: int) -> Line:
    """Reasoning, folded: how long it took and how it began; the viewer has all of it."""
    took = f" {format.duration(seconds)}" if seconds >= 1 else ""
    return clip_line([("dim", f"✻ thought{took}"), ("faint", f" · {one_line(text)}")], columns)


def note_lines(event: Event, columns: int) -> list[Line]:
    """What was said or happened to the conversation as a whole; nothing for events that are shown otherwise."""
    match event:
        case PromptAdded():
            return _prompt_lines(event, columns)
        case TurnEnded():
            return _turn_end_lines(event, columns)
        case Notice():
            style, glyph = _LEVELS.get(event.level, _LEVELS["info"])
            text_style = "dim" if event.level == "info" else ""
            return wrap_behind((style, f"{glyph} "), visible(event.text), columns, text_style)
        case ContextCompacted():
            what = "context compacted" if event.summary else "old tool results cleared"
            after = f" → {format.tokens(event.tokens_after)}" if event.tokens_after else ""
            what += f": {format.tokens(event.tokens_before)}{after} tokens" if event.tokens_before else ""
            what += f" · kept {', '.join(one_line(k) for k in event.kept)}" if event.kept else ""
            return wrap_behind(("dim", "· "), what, columns, "dim")
        case SessionRewound():
            what = "went back" if event.conversation else "files went back"
            what += f" · {format.plural(len(event.files), 'file')} restored" if event.files else ""
            return [clip_line([("accent", "↺ "), ("", what)], columns)]
    return []


def retry_line(event: RetryScheduled, seconds: float, columns: int) -> Line:
    """Calm: what, when it goes on, how to stop."""
    what = _KINDS.get(event.kind) or one_line(event.message) or "The request failed"
    tries = f"({event.attempt} of {event.max_attempts})"
    when = f"Trying again in {max(0, round(seconds))} s {tries}" if seconds > 0.5 else f"Trying again {tries}"
    return clip_line([("bad", "✗ "), ("", f"{what}. {when}"), ("dim", " · Esc to stop")], columns)


def _turn_end_lines(event: TurnEnded, columns: int) -> list[Line]:
    """Nothing after a short answer; receipts after work; what went wrong and what next otherwise."""
    if event.reason == "interrupted":
        return [[("warn", "⊘ "), ("", "interrupted")]]
    if event.reason == "completed":
        if event.num_turns < 2 and event.duration_ms < 20_000:
            return []
        facts = [format.plural(event.num_turns, "turn"), f"{format.tokens(event.usage.total)} tok",
                 format.money(event.cost_usd), format.duration(event.duration_ms / 1000)]  # fmt: skip
        return [clip_line([("faint", "  "), ("dim", " · ".join(facts))], columns)]
    reached = event.reason == "max_turns"  # and a report followed, so there is no error
    ended = "stopped: the limit of turns is reached" if reached else event.reason.replace("_", " ")
    message = str(event.error.get("message") or ended)
    hint = in_chat(str(event.error.get("hint") or ""))
    told = wrap_behind(("bad", "✗ "), visible(message), columns)
    return [*told, *(wrap_behind(("", "  "), visible(hint), columns, "dim") if hint else ())]


def banner_lines(status: Status, columns: int) -> list[Line]:
    """Who, where and with what, in a few lines."""
    name: Line = [("", " "), ("bold", f"cowork {one_line(status.version)}".rstrip()), ("dim", " · ")]
    state: Line = [("accent", f"  {one_line(status.branch)}")] if status.branch else []
    state.append(("good", " ✓trusted") if status.trusted else ("warn", " not trusted"))
    room = columns - line_width(name) - line_width(state)
    home, cwd = os.path.expanduser("~"), one_line(status.cwd)
    cwd = "~" + cwd[len(home) :] if f"{cwd}/".startswith(f"{home}/") else cwd
    first: Line = [*name, ("", clip_start(cwd, max(6, room))), *state]
    light = f" (light: {one_line(status.light_model)})" if status.light_model else ""
    facts = [f"model {one_line(status.model)}{light}", f"mode {one_line(status.mode)}"]
    if status.knowledge:
        facts.append(f"{', '.join(one_line(k) for k in status.knowledge)} read")
    if status.agents:
        facts.append(format.plural(status.agents, "agent"))
    out = [clip_line(first, columns), *_wrap_facts(facts, columns)]
    for note in status.notes:
        out.extend(wrap_behind(("warn", " ! "), in_chat(one_line(note)), columns))
    return out


def _wrap_facts(facts: list[str], columns: int) -> list[Line]:
    rows: list[str] = []
    for fact in facts:
        if rows and width(rows[-1]) + width(fact) + 5 <= columns:
            rows[-1] += f" · {fact}"
        else:
            rows.append(fact)
    return [[("", " "), ("dim", clip(row, columns - 2))] for row in rows]


def context_lines(use: ContextUse, columns: int, theme: Theme) -> list[Line]:
    """The window as a bar of coloured pieces, free room at its end; under it the parts, the largest first."""
    parts = sorted(((name, size) for name, size in use.parts if size > 0), key=lambda part: -part[1])
    room = max(10, min(_WIDEST_BAR, columns - 4))
    total = max(1, use.window, sum(size for _, size in parts))
    styles = [theme.agent(_COLOURS[place % len(_COLOURS)]) for place in range(len(parts))]
    pieces = [max(1, round(room * size / total)) for _, size in parts]
    bar: Line = [("", "  "), *((style, "█" * count) for style, count in zip(styles, pieces, strict=True))]
    bar.append(("faint", "░" * max(0, room - sum(pieces))))
    head: Line = [("", "  "), ("bold", f"{format.tokens(use.used)} of {format.tokens(use.window)} tokens"),
                  ("dim", f" · {100 * use.used / max(1, use.window):.0f} % at the last request")]  # fmt: skip
    name_room = min(_WIDEST_NAME, max((width(one_line(name)) for name, _ in parts), default=0))
    out: list[Line] = [head, bar, []]
    for (name, size), style in zip(parts, styles, strict=True):
        told = f"  {format.tokens(size):>6}  {100 * size / max(1, use.window):>5.1f} %"
        out.append([("", "  "), (style, "■ "), ("", pad(one_line(name), name_room)), ("dim", told)])
    free = format.tokens(max(0, use.window - use.used))
    out.append([("", "  "), ("faint", "□ "), ("dim", f"{pad('free', name_room)}  {free:>6}")])
    return [clip_line(line, columns) for line in out]
