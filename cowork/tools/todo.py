"""TodoWrite: the agent's list of what is to be done, as state, as an event and as a checklist for people."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from cowork.core.blocks import Json
from cowork.core.errors import ToolError
from cowork.core.events import TodoUpdated
from cowork.core.ports import ToolRecord, ok
from cowork.tools.base import ToolContext, tool


class Todo(TypedDict):
    """One thing to do."""

    content: Annotated[str, "What to do: Run the tests"]
    status: Literal["pending", "in_progress", "completed"]
    activeForm: NotRequired[Annotated[str, "While it is done: Running the tests"]]


@tool("TodoWrite", reads=True, line=lambda args, cwd: "")
async def todo_write(ctx: ToolContext, todos: Annotated[list[Todo], "The whole list, in order"]) -> ToolRecord:
    items: list[Json] = [{**todo, "activeForm": todo.get("activeForm") or todo["content"]} for todo in todos]
    blank = [str(number) for number, item in enumerate(items, 1) if not item["content"].strip()]
    if blank:
        raise ToolError("INVALID_PARAM", f"`content` of todo {', '.join(blank)} is empty. Say what is to be done.")
    active = [item["content"] for item in items if item["status"] == "in_progress"]
    if len(active) > 1:
        said = f"At most one todo can be in_progress, {len(active)} are: {'; '.join(active)}. The list was not changed."
        raise ToolError("INVALID_PARAM", f"{said} Keep one and set the others to pending or completed.")
    ctx.state.todos = items
    ctx.emit(TodoUpdated(tuple(items)))
    done = sum(item["status"] == "completed" for item in items)
    following = next((item["content"] for item in items if item["status"] == "pending"), "")
    if active:
        said = f"Now: {active[0]}."
    elif following:
        said = f"Next: {following}."
    else:
        said = "All done." if items else "The list is empty."
    count = f"{done} of {len(items)} done"
    display = {"kind": "todos", "todos": items, "summary": count}
    return ok(f"Todo list saved, {count}. {said}", display=display, todos=items)
