"""The tools of servers as values that join an agent's set, tools that read resources, and servers' questions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any

from cowork.core.blocks import Json, as_object
from cowork.core.errors import ToolError
from cowork.core.format import first_sentence
from cowork.core.hygiene import visible, visible_line
from cowork.core.ports import Ask, Effect, Question, ToolRecord, error_record, ok
from cowork.mcp.content import ServerContent, cut_text, resource_content, result_content, schema_of, tool_name
from cowork.mcp.entries import ServerEntry
from cowork.mcp.protocol import Elicit, LoginNeeded, McpError
from cowork.mcp.servers import Server
from cowork.tools.base import Tool, ToolContext, gist, tool

_MOST_FIELDS = 12  # of a form
_SKIP = "(leave empty)"
_MOST_LISTED = 200  # resources of a server
_NOTHING = (Effect("none"),)


def tools_of(server: Server) -> list[Tool]:
    """What a server offers, under the names models call it by; of two with one name the first counts."""
    found: dict[str, Tool] = {}
    for definition in server.tools:
        made = _tool(server, definition)
        found.setdefault(made.name, made)
    return list(found.values())


def tokens_of(tools: list[Tool]) -> int:
    """About how many tokens their definitions take in each request."""
    return sum(len(t.name) + len(t.description) + len(json.dumps(t.schema)) for t in tools) // 4


def _tool(server: Server, definition: Json) -> Tool:
    theirs, name = str(definition["name"]), tool_name(server.name, str(definition["name"]))
    about = cut_text(definition.get("description") or definition.get("title") or theirs)
    effects = (Effect("call", name),)  # its annotations are hints, and no permission

    async def run(ctx: ToolContext, **args: Any) -> ToolRecord:
        known = {str(one.get("name")) for one in server.tools}
        if theirs not in known:
            raise ToolError("NOT_FOUND", f"The MCP server {server.name} has no tool {theirs!r} any more.")
        elicit = elicit_by(ctx.ask, ctx.agent, server.name)
        try:
            said = result_content(await server.call(theirs, args, ctx.output, elicit))
        except McpError as error:
            raise _failure(server, error) from error
        return _record(server, said)

    return Tool(name, about, schema_of(definition), run, lambda ctx, args: effects)


def _record(server: Server, said: ServerContent) -> ToolRecord:
    data: Json = {"server": server.name} | ({} if said.structured is None else {"structured": said.structured})
    if said.failed:
        return error_record("EXECUTION_ERROR", said.text or "It failed and said nothing.", **data)
    summary = gist(said.text)
    display = {"kind": "text", "text": said.text, "summary": summary} if summary else None
    shown = said.text or ("(images only)" if said.images else "(no output)")
    return ok(shown, display=display, images=said.images, **data)


def _failure(server: Server, error: McpError) -> ToolError:
    text = f"The MCP server {server.name} {_sentence(str(error))}"
    if isinstance(error, LoginNeeded):
        hint = f"Tell the user: `cowork mcp login {server.name}`."
        return ToolError("ACCESS_DENIED", f"{text} {hint}", server=server.name)
    return ToolError("EXECUTION_ERROR", text, server=server.name)


def _sentence(text: str) -> str:
    verbs = ("did", "sent", "was", "is", "ended", "asked", "asks", "answered", "cannot", "has", "speaks", "does")
    said = text if text.split(" ")[0] in verbs else f"refused: {text}"
    return said if said.endswith((".", "!", "?")) else f"{said}."


def resource_tools(usable: Callable[[], Mapping[str, Server]]) -> list[Tool]:
    """ListMcpResources and ReadMcpResource, for the servers that may be used."""

    @tool("ListMcpResources", reads=True, effects=lambda ctx, args: _NOTHING)
    async def list_resources(ctx: ToolContext, server: Annotated[str | None, "Only of this one"] = None) -> ToolRecord:
        """List the resources of MCP servers: documents and data that ReadMcpResource reads."""
        rows = []
        for one in [_pick(usable(), server)] if server else usable().values():
            try:
                found = await one.resources()
            except McpError as error:
                rows.append(f"{one.name}: {_sentence(str(error))}")
                continue
            for uri, about in map(resource_line, found[:_MOST_LISTED]):
                rows.append(f"{one.name} {uri}{f': {about}' if about else ''}")
        return ok("\n".join(rows) or "There are no resources.")

    @tool("ReadMcpResource", effects=lambda ctx, args: (Effect("call", f"mcp__{args['server']}"),))
    async def read_resource(
        ctx: ToolContext, server: Annotated[str, "Its name"], uri: Annotated[str, "As ListMcpResources gave it"]
    ) -> ToolRecord:
        """Read a resource of an MCP server."""
        one = _pick(usable(), server)
        try:
            said = resource_content(await one.read(uri, elicit_by(ctx.ask, ctx.agent, one.name)))
        except McpError as error:
            raise _failure(one, error) from error
        return _record(one, replace(said, text=said.text or "(empty)"))

    return [list_resources, read_resource]


def _pick(servers: Mapping[str, Server], name: str) -> Server:
    if name not in servers:
        raise ToolError("NOT_FOUND", f"There is no MCP server {name!r}. There are {', '.join(servers) or 'none'}.")
    return servers[name]


def resource_line(row: Json) -> tuple[str, str]:
    """(its address, what it is) of a resource, fit for a screen."""
    uri = visible_line(str(row.get("uri") or row.get("uriTemplate") or ""))
    return uri, first_sentence(cut_text(row.get("description") or row.get("title") or row.get("name")), 80)


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
        return answers if answer.granted and len(answers) == len(steps) else [], bool(answer.note)

    async def ask_consent(question: str, yes: str) -> Json:
        answers, _ = await put([{"question": question, "options": [yes, "No"]}])
        return {"action": "accept" if answers == [yes] else "decline"}

    async def elicit(params: Json) -> Json:
        if ask is None:
            return {"action": "decline"}
        message = visible(str(params.get("message", "")))[:2_000]
        if params.get("mode") == "url":  # the person opens it; its address is shown whole, and nothing is fetched here
            page = visible_line(str(params.get("url", "")))
            return await ask_consent(f"{server} asks: {message}\nOpen this page in a browser: {page}", "Done")
        schema = as_object(params.get("requestedSchema"))
        fields = dict(list(as_object(schema.get("properties")).items())[:_MOST_FIELDS])
        if not fields:
            return await ask_consent(f"{server} asks: {message}", "Yes")
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
        text = next((label for label, value in _choices(field) if value == default), _spell(default))
        options = [text, *(option for option in options if option != text)]
    return {"question": visible(f"{asked}\n{about}"), "options": [*options, *([] if needed else [_SKIP])]}


def _choices(field: Json) -> list[tuple[str, Any]]:
    """(as the person sees it, what it stands for) of each value a field may have; none: any."""
    if field.get("type") == "boolean":
        return [("Yes", True), ("No", False)]
    if isinstance(values := field.get("enum"), list):
        names = field.get("enumNames")
        names = names if isinstance(names, list) and len(names) == len(values) else values
        return [(_spell(name), value) for name, value in zip(names, values, strict=True)]
    titled = field.get("oneOf") or field.get("anyOf")
    titled = [one for one in titled if isinstance(one, dict)] if isinstance(titled, list) else []
    return [(str(one.get("title", one.get("const"))), one.get("const")) for one in titled]


def _spell(value: Any) -> str:
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
