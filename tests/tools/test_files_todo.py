"""The todo list is state, event and checklist at once, and never has two things going on."""

from __future__ import annotations

from typing import Any

from cowork.core.events import TodoUpdated
from cowork.tools.todo import todo_write
from tests.tools.conftest import Agent


def item(content: str, status: str, **more: Any) -> dict[str, Any]:
    return {"content": content, "status": status, **more}


async def test_the_list_is_kept_emitted_and_shown(agent: Agent) -> None:
    todos = [
        item("Find the bug", "completed", activeForm="Finding the bug"),
        item("Fix it", "in_progress", activeForm="Fixing it"),
        item("Run the tests", "pending"),
    ]
    record = await agent.call(todo_write, todos=todos)
    kept = [*todos[:2], todos[2] | {"activeForm": "Run the tests"}]
    assert record.text == "Todo list saved, 1 of 3 done. Now: Fix it."
    assert agent.state.todos == kept
    assert agent.events == [TodoUpdated(tuple(kept))]
    assert record.display == {"kind": "todos", "todos": kept, "summary": "1 of 3 done"}
    assert record.data == {"todos": kept}


async def test_the_text_says_what_comes_next(agent: Agent) -> None:
    assert (await agent.call(todo_write, todos=[item("a", "pending")])).text.endswith("Next: a.")
    assert (await agent.call(todo_write, todos=[item("a", "completed")])).text.endswith("All done.")
    assert (await agent.call(todo_write, todos=[])).text.endswith("The list is empty.")


async def test_two_things_in_progress_are_refused_and_the_old_list_stays(agent: Agent) -> None:
    await agent.call(todo_write, todos=[item("a", "in_progress")])
    before = agent.state.todos
    record = await agent.call(todo_write, todos=[item("a", "in_progress"), item("b", "in_progress")])
    assert record.error is not None
    assert record.error["code"] == "INVALID_PARAM"
    assert "At most one todo can be in_progress, 2 are: a; b." in record.text
    assert agent.state.todos is before
    assert len(agent.events) == 1


async def test_a_wrong_status_or_an_empty_item_is_named(agent: Agent) -> None:
    record = await agent.call(todo_write, todos=[item("a", "done")])
    assert '`todos[0].status` must be one of "pending", "in_progress", "completed"' in record.text
    record = await agent.call(todo_write, todos=[item("a", "pending"), item(" ", "pending")])
    assert "`content` of todo 2 is empty" in record.text
    assert agent.events == []


async def test_a_list_sent_as_a_string_is_taken(agent: Agent) -> None:
    record = await agent.call(todo_write, todos='[{"content": "a", "status": "pending"}]')
    assert record.status == "success"
