"""Questions to the person, asked through the editor: one permission request for each thing that is asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from cowork.core.blocks import Json, as_object
from cowork.core.json_rpc import RpcError
from cowork.core.ports import Answer, Question
from cowork.frontends.acp.updates import KINDS, content_of, text_content
from cowork.frontends.dialog_choices import Choice, Step, steps_of

Request = Callable[[str, Json], Awaitable[Json]]
_OPTION_KINDS = {"once": "allow_once", "session": "allow_always", "always": "allow_always", "no": "reject_once"}


class EditorQuestions:
    """Asks in one session. With `forms` the editor can also take free text."""

    def __init__(self, session_id: str, root: Path, request: Request, *, forms: bool) -> None:
        self._session_id = session_id
        self._root = root
        self._request = request
        self._forms = forms

    async def ask(self, question: Question) -> Answer:
        """The person's answer; what the editor leaves unanswered is a no."""
        answers: list[str] = []
        choice = None
        for step in steps_of(question):
            choice = await self.choose(step, question)
            if choice is None:
                return Answer("no", "the user did not answer")
            written = await self._written(choice, question) if choice.writes else ""
            if choice.answer == "no":
                return Answer("no", written)
            answers.append(written or choice.label)
        if choice is None:
            return Answer("no")
        data = {**choice.data, "answers": answers} if question.kind == "questions" else dict(choice.data)
        return Answer(choice.answer, data=data)

    async def choose(self, step: Step, question: Question) -> Choice | None:
        """The choice that was made; None when the editor gave none."""
        offered = [c for c in step.choices if self._can_offer(c)]
        result = await self._answer(
            "session/request_permission",
            {
                "sessionId": self._session_id,
                "toolCall": self._call(question, step.title),
                "options": [
                    {"optionId": str(number), "name": choice.label, "kind": _OPTION_KINDS[choice.answer]}
                    for number, choice in enumerate(offered)
                ],
            },
        )
        outcome = result.get("outcome")
        picked = outcome.get("optionId") if isinstance(outcome, dict) else None
        return next((c for number, c in enumerate(offered) if str(number) == picked), None)

    async def _answer(self, method: str, params: Json) -> Json:
        """What the editor answers; an editor that cannot ask leaves the question open."""
        try:
            return as_object(await self._request(method, params))
        except RpcError:
            return {}

    def _can_offer(self, choice: Choice) -> bool:
        """An editor has no $EDITOR to hand a plan to, and free text only where it has forms."""
        return not choice.data.get("edit") and (not choice.writes or choice.answer == "no" or self._forms)

    def _call(self, question: Question, title: str) -> Json:
        content = content_of(question.display, self._root)
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

    async def _written(self, choice: Choice, question: Question) -> str:
        """What the person writes beside a choice; nothing where the editor has no forms."""
        if not self._forms:
            return ""
        result = await self._answer(
            "elicitation/create",
            {
                "sessionId": self._session_id,
                "mode": "form",
                "message": choice.label,
                "requestedSchema": {
                    "type": "object",
                    "properties": {"text": {"type": "string", "title": choice.label.rstrip(" …")}},
                    "required": ["text"],
                },
            },
        )
        content = result.get("content") if result.get("action") == "accept" else None
        return str(content.get("text") or "") if isinstance(content, dict) else ""
