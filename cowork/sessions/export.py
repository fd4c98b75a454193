"""A conversation to give away: Markdown to read, JSON to process. Children are nested where they were sent out."""

from __future__ import annotations

import html
import json
import re
import time
from collections.abc import Iterable, Sequence

from cowork.core import events
from cowork.core.blocks import Image, Json, Text, Thinking, ToolUse, blocks_to_list
from cowork.core.format import code, fence, money, one_line
from cowork.core.hygiene import ascii_json, visible
from cowork.core.transcript import fold
from cowork.sessions.cost import Spending, totals
from cowork.sessions.index import title_of
from cowork.sessions.resume_state import surviving

MAIN = "main"
_NOT_KEPT = "*Its conversation was not kept.*"
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
_MARKUP = re.compile(f"{_CODE.pattern}|<")


class Story:
    """The events of a session that rewinding left, and what belongs to what. Costs are of everything."""

    def __init__(self, history: Iterable[events.Event]) -> None:
        history = list(history)
        self.spent = totals(history)
        self.events = surviving(history)
        self.results = {(e.agent, e.tool_use_id): e for e in self.events if isinstance(e, events.ToolEnded)}
        self.starts = [e for e in self.events if isinstance(e, events.AgentStarted)]
        self.sent: dict[tuple[str, str], list[events.AgentStarted]] = {}  # by who sent them out, and with which call
        for start in self.starts:
            self.sent.setdefault((start.parent, start.tool_use_id), []).append(start)
        self._ends = {e.agent: e.status for e in self.events if isinstance(e, events.AgentEnded)}

    def end_of(self, agent: str) -> str:
        """How a child ended."""
        return self._ends.get(agent, "interrupted")

    def messages(self, agent: str) -> list[Json]:
        """The messages of an agent as they would be sent to a model."""
        return [{"role": m.role, "content": blocks_to_list(m.content)} for m in fold(self.events, agent).messages()]


def about(history: Sequence[events.Event]) -> Json:
    """What a session was, in a few words."""
    started = next((e for e in history if isinstance(e, events.SessionStarted)), events.SessionStarted())
    prompt = next((e for e in history if isinstance(e, events.PromptAdded) and e.agent == MAIN), events.PromptAdded())
    replies = [e.model for e in history if isinstance(e, events.ReplyAdded) and e.agent == MAIN and e.model]
    return {
        "id": history[-1].session_id if history else "",
        "title": title_of(prompt.label or prompt.text),
        "cwd": started.cwd,
        "branch": started.branch,
        "model": replies[-1] if replies else started.model,
        "created": time.strftime("%Y-%m-%d %H:%M", time.localtime(history[0].at)) if history else "",
    }


def markdown(history: Iterable[events.Event]) -> str:
    """The conversation as Markdown; tool calls and children fold away, and nothing in them can break out."""
    writer = _MarkdownWriter(history)
    facts = about(writer.events)
    named = [code(one_line(facts[name])) for name in ("cwd", "branch", "model") if facts[name]]
    shown = [f"session `{facts['id']}`", *named, facts["created"], _price(writer.spent[""])]
    head = [f"# {_inline(facts['title'] or 'Conversation')}", " · ".join(filter(None, shown))]
    return "\n\n".join([*head, *writer.conversation(MAIN)]) + "\n"


def as_json(history: Iterable[events.Event]) -> str:
    """The conversation as JSON: what the session was, the messages of the main agent, and those of each child."""
    story = Story(history)
    out = {
        "version": 1,
        "session": about(story.events),
        "usage": story.spent[""].usage.to_dict(),
        "total_cost_usd": story.spent[""].cost_usd,
        "messages": story.messages(MAIN),
        "children": [_child_json(started, story) for started in story.starts],
    }
    return ascii_json(out, indent=2) + "\n"


def task_markdown(history: Iterable[events.Event], agent: str) -> str:
    """The conversation of one child, by its path."""
    return "\n\n".join(_MarkdownWriter(history).conversation(agent) or [_NOT_KEPT]) + "\n"


class _MarkdownWriter(Story):
    def conversation(self, agent: str) -> list[str]:
        parts: list[str] = []
        for event in self.events:
            if event.agent != agent:
                continue
            match event:
                case events.PromptAdded(source=source) if source != "system":
                    head = "## You" if agent == MAIN else "**Task**"
                    parts += [head, _prose(event.text), *["*[image]*"] * len(event.images)]
                case events.ReplyAdded():
                    parts += self._reply(event)
                case events.ContextCompacted(summary=summary) if summary:
                    parts.append(_details("Earlier conversation summarised for the model", [_fence(summary)]))
                case events.TurnEnded(reason=reason) if reason != "completed":
                    parts.append(f"*Stopped: {_inline(reason)}.*")
        return parts

    def _reply(self, event: events.ReplyAdded) -> list[str]:
        parts = ["## cowork"] if event.agent == MAIN else []
        for block in event.content:
            match block:
                case Text(text) if text.strip():
                    parts.append(_prose(text))
                case Thinking(text) if text.strip():
                    parts.append(_details("Thinking", [_fence(text)]))
                case Image():
                    parts.append("*[image]*")
                case ToolUse():
                    parts.append(self._call(event.agent, block))
        return parts

    def _call(self, agent: str, call: ToolUse) -> str:
        ended = self.results.get((agent, call.id), events.ToolEnded())
        argument = next((str(v) for v in call.input.values() if isinstance(v, str)), "")
        outcome = ended.display.get("summary") or ended.record.get("status") or "interrupted"
        body = [_fence(json.dumps(call.input, indent=2, ensure_ascii=False, default=str), "json")]
        body += [self._child(started) for started in self.sent.get((agent, call.id), ())]
        if diff := str(ended.display.get("diff") or ""):
            body.append(_fence(diff, "diff"))
        elif text := str(ended.record.get("text") or ""):
            body.append(_fence(text))
        return _details(f"{call.name}({title_of(argument)}) · {outcome}", body)

    def _child(self, started: events.AgentStarted) -> str:
        came_to = f"{self.end_of(started.agent)} · {_price(self.spent[started.agent])}"
        title = f"{started.subagent_type}: {started.description} · {came_to}"
        return _details(title, self.conversation(started.agent) or [_NOT_KEPT])


def _child_json(started: events.AgentStarted, story: Story) -> Json:
    names = ("agent", "parent", "tool_use_id", "subagent_id", "subagent_type", "description")
    spent = story.spent[started.agent]
    return {name: getattr(started, name) for name in names} | {
        "status": story.end_of(started.agent),
        "usage": spent.usage.to_dict(),
        "total_cost_usd": spent.cost_usd,
        "messages": story.messages(started.agent),
    }


def _price(spent: Spending) -> str:
    return f"{spent.usage.total:,} tokens, {money(spent.cost_usd, 'price unknown')}"


def _details(title: str, body: Sequence[str]) -> str:
    summary = html.escape(visible(" ".join(title.split())), quote=False)
    return "\n\n".join([f"<details>\n<summary>{summary}</summary>", *body, "</details>"])


def _fence(text: str, language: str = "") -> str:
    return fence(visible(text).rstrip("\n"), language)


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
            fence, plain = "" if closes else fence, True
        elif mark and not (mark[1][0] == "`" and "`" in mark[2]):
            fence = mark[1]
        else:
            plain = not line.strip() or (plain and "\\`" not in line and "`" not in _CODE.sub("", line))
            lines.append(_MARKUP.sub(_escape, line) if plain else line.replace("<", "&lt;"))
            continue
        lines.append(line)
    return "\n".join([*lines, fence] if fence else lines)


def _escape(found: re.Match[str]) -> str:
    return "&lt;" if found[0] == "<" else found[0]
