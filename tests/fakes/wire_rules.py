"""What the services refuse, checked on messages: used wherever a test builds a request."""

from __future__ import annotations

from collections.abc import Sequence

from cowork.core.blocks import Message, Text, ToolResult, ToolUse


def violations(messages: Sequence[Message]) -> list[str]:
    """Everything a strict service would answer 400 to."""
    found: list[str] = []
    used: set[str] = set()
    if messages and messages[0].role != "user":
        found.append("the first message is not the user's")
    for index, message in enumerate(messages):
        if not message.content:
            found.append(f"message {index} is empty")
        if index and messages[index - 1].role == message.role:
            found.append(f"message {index} repeats the role {message.role}")
        found += [
            f"message {index} has an empty text" for b in message.content if isinstance(b, Text) and not b.text.strip()
        ]
        if message.role == "assistant":
            found += _calls(index, message, messages[index + 1 :], used)
        else:
            found += _results(index, message, messages[index - 1] if index else None)
    return found


def _calls(index: int, message: Message, rest: Sequence[Message], used: set[str]) -> list[str]:
    found = []
    for call in message.calls:
        if call.id in used or not call.id:
            found.append(f"message {index} uses the call id {call.id!r} again")
        used.add(call.id)
    if message.calls and [r.tool_use_id for r in (rest[0].results if rest else ())] != [c.id for c in message.calls]:
        found.append(f"message {index} has calls without results in the next message, in order")
    if any(isinstance(b, ToolResult) for b in message.content):
        found.append(f"message {index} has a result on the assistant's side")
    return found


def _results(index: int, message: Message, before: Message | None) -> list[str]:
    found = []
    results = message.results
    if results and (before is None or not before.calls):
        found.append(f"message {index} has results without calls")
    if tuple(message.content[: len(results)]) != results:
        found.append(f"message {index} has something before its results")
    if any(isinstance(b, ToolUse) for b in message.content):
        found.append(f"message {index} has a call on the user's side")
    return found
