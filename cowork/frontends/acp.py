"""What an editor sees of a run: its events as the protocol's `session/update` objects, and questions to the person.

A child's calls are calls of their own that name the call they belong to in `_meta`; what a child does now is the
content of the Task call that sent it out.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cowork.core import events, format
from cowork.core.blocks import Image, Json, Text, Thinking, as_object
from cowork.core.events import Event, ToolEnded, ToolOutput, ToolStarted
from cowork.core.frozen import frozen
from cowork.core.hygiene import visible
from cowork.core.json_rpc import RpcError
from cowork.core.ports import Answer, Question
from cowork.frontends.dialog_choices import Choice, Step, steps_of
from cowork.frontends.text import call_text

KINDS = {"read": "read", "search": "search", "write": "edit", "exec": "execute", "delegate": "think", "fetch": "fetch"}
_CHUNKS: dict[type, str] = {
    **dict.fromkeys((Text, events.TextDelta), "agent_message_chunk"),
    **dict.fromkeys((Thinking, events.ThinkingDelta), "agent_thought_chunk"),
}
_PEOPLE = ("user", "queue", "steer")
TAIL = 4_000  # characters of a running command's output that are shown
EVERY_S = 0.1  # between two updates of one running call
ACTIONS = 6  # lines of what a child did
_OPTION_KINDS = {"once": "allow_once", "session": "allow_always", "always": "allow_always", "no": "reject_once"}


class Updates:
    """Turns the events of one session into updates, in their order."""

    def __init__(self, root: Path, send: Callable[[Json], None]) -> None:
        self.root = root
        self._send = send
        self._streamed = False  # the model is in the middle of an answer
        self._outputs: dict[str, tuple[str, float]] = {}  # running call -> end of its output, when shown
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
                yield _chunk("user_message_chunk", event.label or event.text)
                for image in event.images:
                    yield {"sessionUpdate": "user_message_chunk", "content": _image(image)}
            case events.TextDelta(text=text) | events.ThinkingDelta(text=text):
                self._streamed = True
                yield _chunk(_CHUNKS[type(event)], text)
            case events.ReplyAdded():
                for block in () if self._streamed else event.content:
                    if isinstance(block, Text | Thinking) and block.text:
                        yield _chunk(_CHUNKS[type(block)], block.text)
                self._streamed = False
            case events.RetryScheduled():
                if self._streamed:
                    yield _chunk("agent_message_chunk", f"\n\n[{event.message} The answer starts again.]\n\n")
                self._streamed = False
            case ToolStarted():
                yield self._begin_call(event)
            case ToolOutput():
                yield from self._show_output(event)
            case ToolEnded():
                yield self._end_call(event)
            case events.TodoUpdated():
                yield {"sessionUpdate": "plan", "entries": [*map(_entry, event.todos)]}
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
                if call := self._task_calls.get(event.agent):
                    yield _update(call, content=[text_content("\n".join(_progress(event, actions)))])
            case events.AgentEnded():
                self._actions.pop(event.agent, None)

    def _begin_call(self, event: ToolStarted) -> Json:
        name = event.agent.rpartition("/")[2] + " · " if "/" in event.agent else ""
        call: Json = {
            "sessionUpdate": "tool_call",
            "toolCallId": event.tool_use_id,
            "title": name + call_text(event, width=120),
            "kind": KINDS.get(event.family, "other"),
            "status": "in_progress",
            "rawInput": event.input,
            "locations": self._locations(event.input),
        }
        if parent := self._task_calls.get(event.agent):
            call["_meta"] = {"cowork": {"agent": event.agent, "parentToolCallId": parent}}
        return call

    def _locations(self, given: Json) -> list[Json]:
        """The file a call is about, for an editor that follows along."""
        path, line = given.get("file_path") or given.get("path"), given.get("offset")
        if not isinstance(path, str) or not path:
            return []
        where: Json = {"path": str(self.root / path)}
        return [where | {"line": line} if isinstance(line, int) and line > 0 else where]

    def _show_output(self, event: ToolOutput) -> Iterator[Json]:
        before, shown_at = self._outputs.get(event.tool_use_id, ("", 0.0))
        kept, now = (before + event.text)[-TAIL:], time.monotonic()
        if now - shown_at >= EVERY_S:
            shown_at = now
            yield _update(event.tool_use_id, content=[text_content(kept)])
        self._outputs[event.tool_use_id] = kept, shown_at

    def _end_call(self, event: ToolEnded) -> Json:
        self._outputs.pop(event.tool_use_id, None)
        if terminal := self._terminals.pop(event.tool_use_id, None):
            content = [terminal]
        else:
            content = content_of(event.display, self.root) or [text_content(str(event.record.get("text") or ""))]
        content += [{"type": "content", "content": _image(image)} for image in event.images]
        status = "failed" if event.record.get("status") == "error" else "completed"
        return _update(event.tool_use_id, status=status, content=content)


def _progress(event: events.AgentUpdated, actions: Sequence[str]) -> Iterator[str]:
    """What a child does now, in the call that sent it out."""
    counts = f"{format.plural(event.turns, 'turn')}, {format.plural(event.tool_calls, 'call')}"
    used = f"{format.tokens(event.usage.total)} tokens, {format.money(event.cost_usd)}"
    yield f"{event.subagent_id}: {counts}, {used}"
    yield from (f"- {format.one_line(action, 100)}" for action in actions)


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
    head, *hunks = re.split(r"^@@ .*@@", diff, flags=re.MULTILINE)
    for hunk in hunks:
        lines = hunk.split("\n")[1:]
        old, new = ("\n".join(line[1:] for line in lines if line[:1] in (" ", side)) for side in "-+")
        yield {"type": "diff", "path": path, "oldText": None if "--- /dev/null" in head else old, "newText": new}


@frozen
class EditorQuestions:
    """Asks in one session. With `forms` the editor can also take free text."""

    root: Path
    request: Callable[[str, Json], Awaitable[Json]]
    forms: bool

    async def ask(self, question: Question) -> Answer:
        """The person's answer; what the editor leaves unanswered is a no."""
        answers: list[str] = []
        for step in steps_of(question):
            choice = await self.choose(step, question)
            if choice is None:
                return Answer("no", "the user did not answer")
            written = await self._ask_text(choice.label) if choice.writes and self.forms else ""
            if choice.answer == "no":
                return Answer("no", written)
            if question.kind != "questions":
                return Answer(choice.answer, data=choice.data)
            answers.append(written or choice.label)
        return Answer("once", data={"answers": answers}) if answers else Answer("no")

    async def choose(self, step: Step, question: Question) -> Choice | None:
        """The choice that was made; None when the editor gave none."""
        # An editor has no $EDITOR to hand a plan to, and free text only where it has forms.
        known = [c for c in step.choices if not c.data.get("edit")]
        able = [c for c in known if not c.writes or c.answer == "no" or self.forms]
        offered = {str(number): choice for number, choice in enumerate(able)}
        options = [{"optionId": n, "name": c.label, "kind": _OPTION_KINDS[c.answer]} for n, c in offered.items()]
        call = {"toolCall": self._call(question, step.title), "options": options}
        outcome = as_object((await self._request("session/request_permission", call)).get("outcome"))
        picked = outcome.get("optionId")
        return offered.get(picked) if isinstance(picked, str) else None

    async def _request(self, method: str, params: Json) -> Json:
        """What the editor answers; an editor that cannot ask leaves the question open."""
        try:
            return as_object(await self.request(method, params))
        except RpcError:
            return {}

    def _call(self, question: Question, title: str) -> Json:
        content = content_of(question.display, self.root)
        if question.reason:
            content.append(text_content(question.reason))
        by = f"{question.agent.rpartition('/')[2]}: " if "/" in question.agent else ""
        return {
            "toolCallId": question.tool_use_id or f"question-{question.kind}",
            "title": by + " ".join(part for part in (title, question.line) if part),
            "kind": KINDS.get(question.family, "other"),
            "status": "pending",
            "content": content,
            "rawInput": question.input,
        }

    async def _ask_text(self, label: str) -> str:
        field = {"type": "string", "title": label.rstrip(" …")}
        schema = {"type": "object", "properties": {"text": field}, "required": ["text"]}
        form = {"mode": "form", "message": label, "requestedSchema": schema}
        result = await self._request("elicitation/create", form)
        content = as_object(result.get("content")) if result.get("action") == "accept" else {}
        return str(content.get("text") or "")
