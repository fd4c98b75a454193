"""A conversation to give away: Markdown to read, JSON to process. Children are nested where they were sent out."""

from __future__ import annotations

import html
import json
import re
import time
from collections.abc import Iterable, Sequence

from cowork.core.blocks import Image, Json, Text, Thinking, ToolUse, blocks_to_list
from cowork.core.events import (
    AgentEnded,
    AgentStarted,
    ContextCompacted,
    Event,
    PromptAdded,
    ReplyAdded,
    SessionStarted,
    ToolEnded,
    TurnEnded,
)
from cowork.core.format import money
from cowork.core.hygiene import ascii_json, visible
from cowork.core.transcript import fold
from cowork.sessions.cost import Spending, totals
from cowork.sessions.index import title_of
from cowork.sessions.resume_state import surviving

MAIN = "main"
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")


def markdown(events: Iterable[Event]) -> str:
    """The conversation as Markdown; tool calls and children fold away, and nothing in them can break out."""
    return _Writer(list(events)).document()


def as_json(events: Iterable[Event]) -> str:
    """The conversation as JSON: what the session was, the messages of the main agent, and those of each child."""
    history = list(events)
    kept = surviving(history)
    sums = totals(history)
    children = [_child_json(e, kept, sums) for e in kept if isinstance(e, AgentStarted)]
    out = {
        "version": 1,
        "session": _about(kept),
        "usage": sums[""].usage.to_dict(),
        "total_cost_usd": sums[""].cost_usd,
        "messages": _messages(kept, MAIN),
        "children": children,
    }
    return ascii_json(out, indent=2) + "\n"


def task_markdown(events: Iterable[Event], agent: str) -> str:
    """The conversation of one child, by its path."""
    return "\n\n".join(_Writer(list(events)).conversation(agent) or ["*Its conversation was not kept.*"]) + "\n"


def task_messages(events: Iterable[Event], agent: str) -> list[Json]:
    """The messages of one child as they would be sent to a model."""
    return _messages(surviving(events), agent)


class _Writer:
    def __init__(self, events: list[Event]) -> None:
        self._sums = totals(events)
        self._events = surviving(events)
        self._results = {(e.agent, e.tool_use_id): e for e in self._events if isinstance(e, ToolEnded)}
        self._children: dict[tuple[str, str], list[AgentStarted]] = {}
        for event in self._events:
            if isinstance(event, AgentStarted):
                self._children.setdefault((event.parent, event.tool_use_id), []).append(event)
        self._ends = {e.agent: e for e in self._events if isinstance(e, AgentEnded)}

    def document(self) -> str:
        about = _about(self._events)
        facts = [
            f"session `{about['id']}`",
            about["cwd"] and _code(about["cwd"]),
            about["branch"] and _code(about["branch"]),
        ]
        facts += [about["model"] and _code(about["model"]), about["created"], _price(self._sums[""])]
        head = [f"# {_inline(str(about['title']) or 'Conversation')}", " · ".join(str(f) for f in facts if f)]
        return "\n\n".join([*head, *self.conversation(MAIN)]) + "\n"

    def conversation(self, agent: str) -> list[str]:
        parts: list[str] = []
        for event in self._events:
            if event.agent != agent:
                continue
            match event:
                case PromptAdded():
                    parts += self._prompt(event)
                case ReplyAdded():
                    parts += self._reply(event)
                case ContextCompacted(summary=summary) if summary:
                    parts.append(_details("Earlier conversation summarised for the model", [_fenced(summary)]))
                case TurnEnded(reason=reason) if reason != "completed":
                    parts.append(f"*Stopped: {_inline(reason)}.*")
        return parts

    def _prompt(self, event: PromptAdded) -> list[str]:
        if event.source == "system":
            return []
        who = "You" if event.agent == MAIN else "Task"
        images = ["*[image]*"] * len(event.images)
        return [f"## {who}" if event.agent == MAIN else f"**{who}**", _prose(event.text), *images]

    def _reply(self, event: ReplyAdded) -> list[str]:
        parts = ["## cowork"] if event.agent == MAIN else []
        for block in event.content:
            match block:
                case Text(text) if text.strip():
                    parts.append(_prose(text))
                case Thinking(text) if text.strip():
                    parts.append(_details("Thinking", [_fenced(text)]))
                case Image():
                    parts.append("*[image]*")
                case ToolUse():
                    parts.append(self._call(event.agent, block))
        return parts

    def _call(self, agent: str, call: ToolUse) -> str:
        ended = self._results.get((agent, call.id))
        record = ended.record if ended else {}
        status = str(record.get("status") or "interrupted")
        shown = ended.display.get("summary") if ended else ""
        argument = next((str(v) for v in call.input.values() if isinstance(v, str)), "")
        title = f"{call.name}({title_of(argument)}) · {shown or status}"
        body = [_fenced(json.dumps(call.input, indent=2, ensure_ascii=False, default=str), "json")]
        for child in self._children.get((agent, call.id), []):
            body.append(self._child(child))
        diff = str(ended.display.get("diff") or "") if ended else ""
        if diff:
            body.append(_fenced(diff, "diff"))
        elif text := str(record.get("text") or ""):
            body.append(_fenced(text))
        return _details(title, body)

    def _child(self, started: AgentStarted) -> str:
        end = self._ends.get(started.agent)
        spent = self._sums[started.agent]
        status = end.status if end else "interrupted"
        title = f"{started.subagent_type}: {started.description} · {status} · {_price(spent)}"
        return _details(title, self.conversation(started.agent) or ["*Its conversation was not kept.*"])


def _about(events: Sequence[Event]) -> Json:
    started = next((e for e in events if isinstance(e, SessionStarted)), SessionStarted())
    prompt = next((e for e in events if isinstance(e, PromptAdded) and e.agent == MAIN), PromptAdded())
    replies = [e.model for e in events if isinstance(e, ReplyAdded) and e.agent == MAIN and e.model]
    return {
        "id": events[-1].session_id if events else "",
        "title": title_of(prompt.label or prompt.text),
        "cwd": started.cwd,
        "branch": started.branch,
        "model": replies[-1] if replies else started.model,
        "created": time.strftime("%Y-%m-%d %H:%M", time.localtime(events[0].at)) if events else "",
    }


def _messages(events: Sequence[Event], agent: str) -> list[Json]:
    return [{"role": m.role, "content": blocks_to_list(m.content)} for m in fold(events, agent).messages()]


def _child_json(started: AgentStarted, events: Sequence[Event], total: dict[str, Spending]) -> Json:
    end = next((e for e in events if isinstance(e, AgentEnded) and e.agent == started.agent), None)
    spent = total[started.agent]
    return {
        "agent": started.agent,
        "parent": started.parent,
        "tool_use_id": started.tool_use_id,
        "subagent_id": started.subagent_id,
        "subagent_type": started.subagent_type,
        "description": started.description,
        "status": end.status if end else "interrupted",
        "usage": spent.usage.to_dict(),
        "total_cost_usd": spent.cost_usd,
        "messages": _messages(events, started.agent),
    }


def _price(spent: Spending) -> str:
    tokens = f"{spent.usage.total:,} tokens"
    return f"{tokens}, {money(spent.cost_usd, 'price unknown')}"


def _details(title: str, body: Sequence[str]) -> str:
    summary = html.escape(visible(" ".join(title.split())), quote=False)
    return "\n\n".join([f"<details>\n<summary>{summary}</summary>", *body, "</details>"])


def _fenced(text: str, language: str = "") -> str:
    """Code in a fence longer than any run of backticks in it."""
    text = visible(text)
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip(chr(10))}\n{fence}"


def _code(text: str) -> str:
    text = visible(" ".join(text.split()))
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    ticks = "`" * (longest + 1)
    pad = " " if longest else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def _inline(text: str) -> str:
    """Text inside a line of ours."""
    return visible(" ".join(text.split())).replace("<", "&lt;")


def _prose(text: str) -> str:
    """Markdown of a person or a model, with HTML made harmless and open fences closed."""
    lines: list[str] = []
    fence = ""
    plain = True  # no backtick of this paragraph is without its partner on its line
    for line in visible(text).strip("\n").split("\n"):
        mark = _FENCE.match(line)
        if fence:
            closes = mark and mark[1][0] == fence[0] and len(mark[1]) >= len(fence) and not mark[2].strip()
            lines.append(line)
            fence = "" if closes else fence
            plain = True
        elif mark and not (mark[1][0] == "`" and "`" in mark[2]):
            fence = mark[1]
            lines.append(line)
        else:
            plain = not line.strip() or (plain and "\\`" not in line and "`" not in _CODE.sub("", line))
            lines.append(_harmless(line) if plain else line.replace("<", "&lt;"))
    if fence:
        lines.append(fence)
    return "\n".join(lines)


def _harmless(line: str) -> str:
    """The line with `<` escaped, but for what is in code spans."""
    out, start = "", 0
    for span in _CODE.finditer(line):
        out += line[start : span.start()].replace("<", "&lt;") + span[0]
        start = span.end()
    return out + line[start:].replace("<", "&lt;")
