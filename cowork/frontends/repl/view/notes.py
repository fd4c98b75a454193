"""The small finished things: prompts, todo lists, notices, retries and how a turn ended."""

from __future__ import annotations

from collections.abc import Sequence

from cowork.core import format
from cowork.core.blocks import Json
from cowork.core.events import ContextCompacted, Event, Notice, PromptAdded, RetryScheduled, SessionRewound, TurnEnded
from cowork.core.format import one_line
from cowork.core.hygiene import visible
from cowork.frontends.repl.view.styled import Line, clip, clip_line, wrap, wrap_behind

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
_ENDINGS = {
    "max_turns": "stopped: the limit of turns is reached",
    "budget": "stopped: the budget is used up",
    "timeout": "stopped: out of time",
    "terminated": "stopped: terminated",
    "denied": "ended after a denied action",
    "auth": "the service refused the credentials",
    "unavailable": "the service could not be reached",
}

_HERE = {  # what a shell user runs, and what does the same in the chat
    "/model or `cowork config init`": "/login or /model",
    "`cowork doctor`": "/doctor",
    "`cowork config init`": "/model",
    "`cowork sessions list`": "/resume",
    "`cowork config show`": "/config",
    "`cowork agents list`": "/agents",
}


def in_chat(text: str) -> str:
    """A hint with the slash commands that do the same."""
    for shell, here in _HERE.items():
        text = text.replace(shell, here)
    return text


def prompt_lines(event: PromptAdded, columns: int) -> list[Line]:
    """What the user said; a long text is folded."""
    if event.source not in ("user", "queue", "steer"):
        return [[("dim", f"· {clip(one_line(event.label or event.text), columns - 3)}")]] if event.label else []
    lines = (event.label or event.text).split("\n")
    rows = [row for line in lines[: _PROMPT_ROWS + 2] for row in wrap(visible(line[:_PROMPT_LINE]), columns - 3)]
    hidden = len(rows) + len(lines) - min(len(lines), _PROMPT_ROWS + 2) - _PROMPT_ROWS
    shown = rows if hidden <= 1 else rows[:_PROMPT_ROWS]
    glyph = "↪ " if event.source == "steer" else "❯ "
    out: list[Line] = [[("user.bar", glyph if not i else "  "), ("user", row)] for i, row in enumerate(shown)]
    if len(shown) < len(rows):
        out.append([("dim", f"  … {hidden:,} more lines")])
    out.extend([("faint", "  ↳ "), ("dim", clip(one_line(line), columns - 5))] for line in event.attached)
    if event.images and not event.attached:
        out.append([("dim", f"  {format.plural(len(event.images), 'image')}")])
    return out


def todo_lines(todos: Sequence[Json], columns: int, *, limit: int | None = None) -> list[Line]:
    """The checklist; with a limit, the part around what is being done."""
    rows: list[Line] = []
    current = 0
    for index, todo in enumerate(todos):
        status = str(todo.get("status"))
        mark_style, mark, style = _TODO_MARKS.get(status, _TODO_MARKS["pending"])
        if status == "in_progress":
            current = index
        text = todo.get("activeForm") if status == "in_progress" and todo.get("activeForm") else todo.get("content")
        rows.append([("", "  "), (mark_style, f"{mark} "), (style, clip(one_line(str(text or "")), columns - 5))])
    if limit is None or len(rows) <= limit:
        return rows
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
        [
            ("good", "✓ "),
            ("", clip(one_line(str(t.get("content"))), columns - 16)),
            ("dim", f" · {count} of {len(after)}"),
        ]
        for count, t in enumerate(fresh, len(done) - len(fresh) + 1)
    ]


def todo_summary(todos: Sequence[Json], columns: int) -> list[Line]:
    """The checklist under a line that counts it."""
    done = sum(t.get("status") == "completed" for t in todos)
    head: Line = [("good" if done == len(todos) else "accent", "● "), ("bold", "Todo"),
                  ("dim", f" · {done} of {len(todos)} done")]  # fmt: skip
    return [head, *todo_lines(todos, columns)]


def todo_folded(todos: Sequence[Json], columns: int) -> Line:
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
    """What happened to the conversation as a whole; nothing for events that are shown otherwise."""
    match event:
        case Notice():
            return notice_lines(event, columns)
        case ContextCompacted():
            return compacted_lines(event, columns)
        case SessionRewound():
            return rewound_lines(event, columns)
        case TurnEnded():
            return turn_end_lines(event, columns)
    return []


def notice_lines(event: Notice, columns: int) -> list[Line]:
    style, glyph = _LEVELS.get(event.level, _LEVELS["info"])
    text_style = "dim" if event.level == "info" else ""
    return wrap_behind((style, f"{glyph} "), visible(event.text), columns, text_style)


def compacted_lines(event: ContextCompacted, columns: int) -> list[Line]:
    what = "context compacted" if event.summary else "old tool results cleared"
    if event.tokens_before:
        after = f" → {format.tokens(event.tokens_after)}" if event.tokens_after else ""
        what += f": {format.tokens(event.tokens_before)}{after} tokens"
    if event.kept:
        what += f" · kept {', '.join(one_line(k) for k in event.kept)}"
    return wrap_behind(("dim", "· "), what, columns, "dim")


def rewound_lines(event: SessionRewound, columns: int) -> list[Line]:
    what = "went back" if event.conversation else "files went back"
    if event.files:
        what += f" · {format.plural(len(event.files), 'file')} restored"
    return [clip_line([("accent", "↺ "), ("", what)], columns)]


def retry_line(event: RetryScheduled, seconds: float, columns: int) -> Line:
    """Calm: what, when it goes on, how to stop."""
    what = _KINDS.get(event.kind) or one_line(event.message) or "The request failed"
    tries = f"({event.attempt} of {event.max_attempts})"
    when = f"Trying again in {max(0, round(seconds))} s {tries}" if seconds > 0.5 else f"Trying again {tries}"
    return clip_line([("bad", "✗ "), ("", f"{what}. {when}"), ("dim", " · Esc to stop")], columns)


def turn_end_lines(event: TurnEnded, columns: int) -> list[Line]:
    """Nothing after a short answer; receipts after work; what went wrong and what next otherwise."""
    if event.reason == "interrupted":
        return [[("warn", "⊘ "), ("", "interrupted")]]
    if event.reason == "completed":
        if event.num_turns < 2 and event.duration_ms < 20_000:
            return []
        facts = [format.plural(event.num_turns, "turn"), f"{format.tokens(event.usage.total)} tok",
                 format.money(event.cost_usd), format.duration(event.duration_ms / 1000)]  # fmt: skip
        return [clip_line([("faint", "  "), ("dim", " · ".join(facts))], columns)]
    message = str(event.error.get("message") or _ENDINGS.get(event.reason) or event.reason.replace("_", " "))
    hint = in_chat(str(event.error.get("hint") or ""))
    told = wrap_behind(("bad", "✗ "), visible(message), columns)
    return [*told, *(wrap_behind(("", "  "), visible(hint), columns, "dim") if hint else ())]
