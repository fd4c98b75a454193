"""Events of a run as the protocol's `session/update` objects.

A child's calls are calls of their own that name the call they belong to in `_meta`; what a child does now is the
content of the Task call that sent it out.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cowork.core import events, format
from cowork.core.blocks import Image, Json, Text, Thinking
from cowork.core.events import Event, ToolEnded, ToolOutput, ToolStarted
from cowork.core.hygiene import visible
from cowork.frontends.text import call_text

KINDS = {"read": "read", "search": "search", "write": "edit", "exec": "execute", "delegate": "think", "fetch": "fetch"}
_PEOPLE = ("user", "queue", "steer")
_PATHS = ("file_path", "path")  # arguments that name a file
TAIL = 4_000  # characters of a running command's output that are shown
EVERY_S = 0.1  # between two updates of one running call
ACTIONS = 6  # lines of what a child did


class Updates:
    """Turns the events of one session into updates, in their order."""

    def __init__(self, root: Path, send: Callable[[Json], None]) -> None:
        self.root = root
        self._send = send
        self._streamed = ""  # kind of what the model is streaming
        self._outputs: dict[str, str] = {}  # running call -> the end of what it printed
        self._sent_at: dict[str, float] = {}  # running call -> when its output was last shown
        self._task_calls: dict[str, str] = {}  # child's path -> the call that sent it out
        self._actions: dict[str, list[str]] = {}  # child's path -> what it did last
        self._terminals: dict[str, Json] = {}  # running call -> the editor's terminal it has

    def __call__(self, event: Event) -> None:
        if "/" in event.agent and not isinstance(event, ToolStarted | ToolOutput | ToolEnded):
            updates = self._of_child(event)
        else:
            updates = self._of_main(event)
        for update in updates:
            self._send(update)

    def show_terminal(self, call: str, terminal: str) -> None:
        """This call runs in a terminal of the editor, which stays its content."""
        self._terminals[call] = {"type": "terminal", "terminalId": terminal}
        self._send(_update(call, content=[self._terminals[call]]))

    def _of_main(self, event: Event) -> Iterator[Json]:
        match event:
            case events.PromptAdded() if event.source in _PEOPLE:
                yield from _user(event.label or event.text, event.images)
            case events.TextDelta(text=text):
                self._streamed = "text"
                yield _chunk("agent_message_chunk", text)
            case events.ThinkingDelta(text=text):
                self._streamed = "thinking"
                yield _chunk("agent_thought_chunk", text)
            case events.ReplyAdded():
                streamed, self._streamed = self._streamed, ""
                if not streamed:
                    yield from _reply(event)
            case events.RetryScheduled():
                if self._streamed:
                    yield _chunk("agent_message_chunk", f"\n\n[{event.message} The answer starts again.]\n\n")
                self._streamed = ""
            case ToolStarted():
                yield self._started(event)
            case ToolOutput():
                yield from self._output(event)
            case ToolEnded():
                yield self._ended(event)
            case events.TodoUpdated():
                yield {"sessionUpdate": "plan", "entries": [_entry(todo) for todo in event.todos]}
            case events.Notice(code="mode.changed", data={"mode": mode}):
                yield {"sessionUpdate": "current_mode_update", "currentModeId": mode}
            case events.Notice(level="warning" | "error"):
                yield _chunk("agent_thought_chunk", f"{event.text}\n")

    def _of_child(self, event: Event) -> Iterator[Json]:
        match event:
            case events.AgentStarted():
                self._task_calls[event.agent] = event.tool_use_id
                self._actions[event.agent] = []
            case events.AgentUpdated() if event.action:
                actions = self._actions.setdefault(event.agent, [])
                if not actions or actions[-1] != event.action:
                    actions[:] = [*actions[1 - ACTIONS :], event.action]
                yield from self._progress(event)
            case events.AgentEnded():
                self._actions.pop(event.agent, None)

    def _progress(self, event: events.AgentUpdated) -> Iterator[Json]:
        """What a child does now, in the call that sent it out."""
        call = self._task_calls.get(event.agent)
        if not call:
            return
        counts = (
            format.plural(event.turns, "turn"),
            format.plural(event.tool_calls, "call"),
            f"{format.tokens(event.usage.total)} tokens",
            format.money(event.cost_usd),
        )
        lines = [f"{event.subagent_id}: {', '.join(counts)}"]
        lines += [f"- {format.one_line(action, 100)}" for action in self._actions[event.agent]]
        yield _update(call, content=[text_content("\n".join(lines))])

    def _started(self, event: ToolStarted) -> Json:
        name = event.agent.rpartition("/")[2] + " · " if "/" in event.agent else ""
        call: Json = {
            "sessionUpdate": "tool_call",
            "toolCallId": event.tool_use_id,
            "title": name + call_text(event, width=120),
            "kind": KINDS.get(event.family, "other"),
            "status": "in_progress",
            "rawInput": event.input,
            "locations": self.locations(event.input),
        }
        if parent := self._task_calls.get(event.agent):
            call["_meta"] = {"cowork": {"agent": event.agent, "parentToolCallId": parent}}
        return call

    def locations(self, given: Json) -> list[Json]:
        """The file a call is about, for an editor that follows along."""
        for name in _PATHS:
            path = given.get(name)
            if isinstance(path, str) and path:
                line = given.get("offset")
                where: Json = {"path": str(self.root / path)}
                return [where | {"line": line} if isinstance(line, int) and line > 0 else where]
        return []

    def _output(self, event: ToolOutput) -> Iterator[Json]:
        kept = self._outputs[event.tool_use_id] = (self._outputs.get(event.tool_use_id, "") + event.text)[-TAIL:]
        now = time.monotonic()
        if now - self._sent_at.get(event.tool_use_id, 0.0) >= EVERY_S:
            self._sent_at[event.tool_use_id] = now
            yield _update(event.tool_use_id, content=[text_content(kept)])

    def _ended(self, event: ToolEnded) -> Json:
        self._outputs.pop(event.tool_use_id, None)
        self._sent_at.pop(event.tool_use_id, None)
        record = event.record
        if terminal := self._terminals.pop(event.tool_use_id, None):
            content = [terminal]
        else:
            content = content_of(event.display, self.root) or [text_content(str(record.get("text") or ""))]
        content += [{"type": "content", "content": _image(image)} for image in event.images]
        status = "failed" if record.get("status") == "error" else "completed"
        return _update(event.tool_use_id, status=status, content=content)


def _reply(event: events.ReplyAdded) -> Iterator[Json]:
    for block in event.content:
        if isinstance(block, Text) and block.text:
            yield _chunk("agent_message_chunk", block.text)
        elif isinstance(block, Thinking) and block.text:
            yield _chunk("agent_thought_chunk", block.text)


def _user(text: str, images: Sequence[Image]) -> Iterator[Json]:
    yield _chunk("user_message_chunk", text)
    for image in images:
        yield {"sessionUpdate": "user_message_chunk", "content": _image(image)}


def _update(call: str, **fields: object) -> Json:
    return {"sessionUpdate": "tool_call_update", "toolCallId": call, **fields}


def _chunk(kind: str, text: str) -> Json:
    return {"sessionUpdate": kind, "content": {"type": "text", "text": visible(text)}}


def _image(image: Image) -> Json:
    return {"type": "image", "mimeType": image.media_type, "data": image.data}


def _entry(todo: Json) -> Json:
    status = str(todo.get("status"))
    return {
        "content": visible(str(todo.get("content") or "")),
        "priority": "medium",
        "status": status if status in ("pending", "in_progress", "completed") else "pending",
    }


_HUNK = re.compile(r"^@@ .*@@", re.MULTILINE)


def text_content(text: str) -> Json:
    """A piece of text inside a tool call."""
    return {"type": "content", "content": {"type": "text", "text": visible(text)}}


def content_of(display: Mapping[str, Any], root: Path) -> list[Json]:
    """What is drawn in a terminal, as an editor takes it; empty for what has no text."""
    if display.get("kind") == "diff":
        return list(_diffs(str(display.get("diff") or ""), str(root / str(display.get("path") or ""))))
    text = display.get("text")
    return [text_content(text)] if isinstance(text, str) and text.strip() else []


def _diffs(diff: str, path: str) -> Iterator[Json]:
    """One for each hunk, for the whole texts are not in a unified diff."""
    head, *_ = diff.split("\n@@", 1)
    is_new = "--- /dev/null" in head
    for hunk in _HUNK.split(diff)[1:]:
        old: list[str] = []
        new: list[str] = []
        for line in hunk.split("\n")[1:]:
            if line[:1] in (" ", "-"):
                old.append(line[1:])
            if line[:1] in (" ", "+"):
                new.append(line[1:])
        yield {
            "type": "diff",
            "path": path,
            "oldText": None if is_new else "\n".join(old),
            "newText": "\n".join(new),
        }
