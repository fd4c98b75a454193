"""What servers want of the person: leave to start, and answers to their own questions."""

from __future__ import annotations

from typing import Any

from cowork.core.blocks import Json
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

    async def elicit(params: Json) -> Json:
        if ask is None:
            return {"action": "decline"}
        message = visible(str(params.get("message", "")))[:2_000]
        if params.get("mode") == "url":
            return await _by_url(ask, agent, server, message, str(params.get("url", "")))
        schema = params.get("requestedSchema")
        properties = schema.get("properties") if isinstance(schema, dict) else None
        fields = properties if isinstance(properties, dict) else {}
        needed = schema.get("required") or () if isinstance(schema, dict) else ()
        steps = [_step(server, message, name, field, name in needed) for name, field in fields.items()][:_MOST_FIELDS]
        steps = steps or [{"question": f"{server} asks: {message}", "options": ["Yes", "No"]}]
        answer = await ask(
            Question("questions", f"{server} asks", agent=agent, tool=server, input={"questions": steps})
        )
        answers = [str(text) for text in answer.data.get("answers") or ()]
        if answer.choice == "no" or len(answers) != len(steps):
            return {"action": "cancel" if not answer.note else "decline"}
        if not fields:
            return {"action": "accept" if answers[0] == "Yes" else "decline"}
        pairs = zip(fields.items(), answers, strict=False)
        return {"action": "accept", "content": {n: _value(f, text) for (n, f), text in pairs if text != _SKIP}}

    return elicit


async def _by_url(ask: Ask, agent: str, server: str, message: str, url: str) -> Json:
    """The person opens the page themselves; its address is shown whole, and nothing of it is fetched here."""
    shown = visible_line(url)
    step = {"question": f"{server} asks: {message}\nOpen this page in a browser: {shown}", "options": ["Done", "No"]}
    answer = await ask(Question("questions", f"{server} asks", agent=agent, tool=server, input={"questions": [step]}))
    done = answer.choice != "no" and list(answer.data.get("answers") or ()) == ["Done"]
    return {"action": "accept" if done else "decline"}


def _step(server: str, message: str, name: str, field: Any, needed: bool) -> Json:
    field = field if isinstance(field, dict) else {}
    about = " — ".join(str(part) for part in (field.get("title") or name, field.get("description")) if part)
    options = _choices(field)
    if (default := field.get("default")) is not None:
        text = _spelled(field, default)
        options = [text, *(option for option in options if option != text)]
    if not needed:
        options.append(_SKIP)
    return {"question": visible(f"{server}: {message}\n{about}"), "options": options}


def _choices(field: Json) -> list[str]:
    if field.get("type") == "boolean":
        return ["Yes", "No"]
    values = field.get("enum")
    titled = field.get("oneOf") or field.get("anyOf")
    if isinstance(values, list):
        return [_spelled(field, value) for value in values]
    if isinstance(titled, list):
        return [str(one.get("title", one.get("const"))) for one in titled if isinstance(one, dict)]
    return []


def _spelled(field: Json, value: Any) -> str:
    """A value as the person sees it: by its title where there is one."""
    if isinstance(value, bool):
        return "Yes" if value else "No"
    values, names = field.get("enum"), field.get("enumNames")
    if isinstance(values, list) and isinstance(names, list) and value in values and len(names) == len(values):
        return str(names[values.index(value)])
    if isinstance(value, list):
        return ", ".join(map(str, value))
    titled = [one for one in field.get("oneOf") or () if isinstance(one, dict)]
    return next((str(one.get("title", value)) for one in titled if one.get("const") == value), str(value))


def _value(field: Any, text: str) -> Any:
    """What the person's words mean for a field."""
    field = field if isinstance(field, dict) else {}
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
    for one in field.get("oneOf") or ():
        if isinstance(one, dict) and text == str(one.get("title", one.get("const"))):
            return one.get("const")
    for value in field.get("enum") or ():
        if text == _spelled(field, value):
            return value
    return text
