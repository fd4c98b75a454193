"""What servers want of the person: leave to start, and answers to their own questions."""

from __future__ import annotations

from typing import Any

from cowork.core.blocks import Json, as_object
from cowork.core.hygiene import visible, visible_line
from cowork.core.ports import Ask, Question
from cowork.mcp.entries import ServerEntry
from cowork.mcp.protocol import Elicit

_MOST_FIELDS = 12
_SKIP = "(leave empty)"


def approval(entry: ServerEntry) -> Question:
    """May a project's server be started?"""
    lines = [visible_line(entry.line), *(f"with {visible_line(str(name))}" for name in entry.raw.get("env", {}))]
    return Question(
        "server",
        f"Use the MCP server {entry.name} of this project?",
        reason=f"{entry.where} names it. A yes holds until its entry changes.",
        display={"kind": "text", "text": "\n".join(lines)},
        agent="",
    )


def elicit_by(ask: Ask | None, agent: str, server: str) -> Elicit:
    """Puts a server's questions to the person, through the dialog that a model's questions use."""

    async def put(steps: list[Json]) -> tuple[list[str], bool]:
        """(the answers, none when the person left; whether they said something instead)."""
        assert ask is not None
        answer = await ask(
            Question("questions", f"{server} asks", agent=agent, tool=server, input={"questions": steps})
        )
        answers = [str(text) for text in answer.data.get("answers") or ()]
        return answers if answer.choice != "no" and len(answers) == len(steps) else [], bool(answer.note)

    async def agreed(question: str, yes: str) -> Json:
        answers, _ = await put([{"question": question, "options": [yes, "No"]}])
        return {"action": "accept" if answers == [yes] else "decline"}

    async def elicit(params: Json) -> Json:
        if ask is None:
            return {"action": "decline"}
        message = visible(str(params.get("message", "")))[:2_000]
        if params.get("mode") == "url":  # the person opens it; its address is shown whole, and nothing is fetched here
            page = visible_line(str(params.get("url", "")))
            return await agreed(f"{server} asks: {message}\nOpen this page in a browser: {page}", "Done")
        schema = as_object(params.get("requestedSchema"))
        fields = dict(list(as_object(schema.get("properties")).items())[:_MOST_FIELDS])
        if not fields:
            return await agreed(f"{server} asks: {message}", "Yes")
        needed = schema["required"] if isinstance(schema.get("required"), list) else []
        answers, said = await put(
            [_step(f"{server}: {message}", name, as_object(field), name in needed) for name, field in fields.items()]
        )
        if not answers:
            return {"action": "decline" if said else "cancel"}
        pairs = zip(fields.items(), answers, strict=True)
        content = {name: _value(as_object(field), text) for (name, field), text in pairs if text != _SKIP}
        return {"action": "accept", "content": content}

    return elicit


def _step(asked: str, name: str, field: Json, needed: bool) -> Json:
    about = " — ".join(str(part) for part in (field.get("title") or name, field.get("description")) if part)
    options = [label for label, _ in _choices(field)]
    if (default := field.get("default")) is not None:
        text = next((label for label, value in _choices(field) if value == default), _spelled(default))
        options = [text, *(option for option in options if option != text)]
    return {"question": visible(f"{asked}\n{about}"), "options": [*options, *([] if needed else [_SKIP])]}


def _choices(field: Json) -> list[tuple[str, Any]]:
    """(as the person sees it, what it stands for) of each value a field may have; none: any."""
    if field.get("type") == "boolean":
        return [("Yes", True), ("No", False)]
    if isinstance(values := field.get("enum"), list):
        names = field.get("enumNames")
        names = names if isinstance(names, list) and len(names) == len(values) else values
        return [(_spelled(name), value) for name, value in zip(names, values, strict=True)]
    titled = field.get("oneOf") or field.get("anyOf")
    titled = [one for one in titled if isinstance(one, dict)] if isinstance(titled, list) else []
    return [(str(one.get("title", one.get("const"))), one.get("const")) for one in titled]


def _spelled(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _value(field: Json, text: str) -> Any:
    """What the person's words mean for a field."""
    for label, value in _choices(field):
        if text == label:
            return value
    match field.get("type"):
        case "boolean":
            return text.strip().casefold() in ("yes", "true", "y", "1")
        case "integer" | "number" as kind:
            try:
                return int(text) if kind == "integer" else float(text)
            except ValueError:
                return text
        case "array":
            return [part.strip() for part in text.split(",") if part.strip()]
    return text
