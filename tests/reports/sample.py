"""A session with everything a page can show: children, a grandchild, an approval, a retry, an edit, a rewind."""

from __future__ import annotations

from dataclasses import replace

from cowork.core.blocks import Image, Text, Thinking, ToolUse, Usage
from cowork.core.events import (
    AgentEnded,
    AgentStarted,
    ContextCompacted,
    Event,
    Notice,
    PromptAdded,
    QuestionAnswered,
    QuestionAsked,
    ReplyAdded,
    RetryScheduled,
    SessionRewound,
    SessionStarted,
    ToolEnded,
    ToolStarted,
    TurnEnded,
)

START = 1_790_000_000.0
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
DIFF = """--- a/shop/refunds.py
+++ b/shop/refunds.py
@@ -10,4 +10,6 @@
 def receiver(order: Order) -> str:
     \"\"\"Who gets the money back.\"\"\"
-    return USERS[order.user_id]
+    if order.user_id is None:
+        return order.email
+    return USERS.get(order.user_id)
 def refund(order: Order) -> str:"""
ANSWER = """Refunds fail for **guest orders** because `receiver` looks a guest up in `USERS` (shop/refunds.py:12).

1. `guest_order` leaves `user_id` empty
2. `receiver` reads `USERS[None]` and raises
   - the webhook swallows the error

| place | what | tests |
|---|---|---:|
| `shop/refunds.py` | looks up `None` | 3 |
| `shop/webhooks.py` | hides the failure | 0 |

```python
def receiver(order: Order) -> str:
    # Guests have an e-mail address and no account.
    return USERS[order.user_id] if order.user_id else "guest: " + order.email
```

> See [the report](https://example.org/issues/7) for the first sighting."""


class Story:
    """Collects events with times and agents set by hand."""

    def __init__(self, session_id: str = "k3vq7m2a9xyz", start: float = START) -> None:
        self.events: list[Event] = []
        self.session_id, self.start, self.now = session_id, start, 0.0

    def add(self, event: Event, at: float, agent: str = "main") -> None:
        """Let an event happen so many seconds after the start."""
        self.now = max(self.now, at)
        number = len(self.events) + 1
        stamped = replace(event, id=number, at=round(self.start + at, 3), session_id=self.session_id, agent=agent)
        self.events.append(stamped)

    def reply(self, at: float, took: float, *content: object, agent: str = "main", cost: float | None = 0.012) -> None:
        """Let a model answer."""
        model = "claude-sonnet-4-5" if agent == "main" else "claude-haiku-4-5"
        usage = Usage(1_200, 180, 14_000, 900)
        stop = "tool_use" if any(isinstance(c, ToolUse) for c in content) else "end_turn"
        self.add(ReplyAdded(tuple(content), stop, usage, cost, model, round(took * 1000)), at, agent)  # type: ignore[arg-type]

    def tool(self, call: ToolUse, at: float, until: float, said: str, agent: str = "main", **display: object) -> None:
        """Let a call run from one moment to another."""
        line = str(next(iter(call.input.values()), ""))
        self.add(ToolStarted(call.id, call.name, call.input, "other", line), at, agent)
        self.end(call, until, said, agent, **display)

    def end(
        self, call: ToolUse, at: float, said: str, agent: str = "main", status: str = "success", **display: object
    ) -> None:
        record = {"status": status, "data": {}, "text": said, "stats": {}, "context": {}}
        self.add(ToolEnded(call.id, call.name, record, display), at, agent)


def sample() -> list[Event]:
    """The whole story, in order."""
    s = Story()
    s.add(SessionStarted("/home/ada/src/shop", "claude-sonnet-4-5", "anthropic", "ask", "main", "0.2"), 0)
    s.add(PromptAdded("Why do refunds fail for guest orders? Fix it, with a test."), 0.5)
    one = ToolUse("t1", "Task", {"description": "guest checkout flow", "prompt": "Where are guest orders made?"})
    two = ToolUse("t2", "Task", {"description": "run the refund tests", "prompt": "Run the refund tests."})
    s.reply(
        4.2,
        3.5,
        Thinking("Three places may matter: orders, refunds and the webhook."),
        Text("I'll look at two places at once."),
        one,
        two,
    )
    for call in (one, two):
        s.add(ToolStarted(call.id, "Task", call.input, "delegate", call.input["description"]), 4.3)
    _first_child(s, one)
    _second_child(s, two)
    s.events = [replace(e, id=n) for n, e in enumerate(sorted(s.events, key=lambda e: e.at), 1)]
    s.end(one, 17.2, "Guest orders are made in `shop/orders.py:19` without a `user_id`.")
    s.end(two, 21.1, "2 passed, 1 failed: test_guest_refund", status="partial")
    s.add(RetryScheduled(2, 5, 2.0, "overloaded", "The service is overloaded (529)", model="claude-sonnet-4-5"), 23)
    edit = ToolUse(
        "c9", "Edit", {"file_path": "shop/refunds.py", "old_string": "USERS[order.user_id]", "new_string": "…"}
    )
    s.reply(28.4, 3.2, Text(ANSWER), edit, cost=0.031)
    s.add(ToolStarted("c9", "Edit", edit.input, "write", "shop/refunds.py"), 28.5)
    s.add(
        QuestionAsked("q1", {"kind": "permission", "title": "Allow Edit?", "tool": "Edit", "line": "shop/refunds.py"}),
        28.6,
    )
    s.add(QuestionAnswered("q1", "once"), 36.1)
    s.end(edit, 36.3, "Edited shop/refunds.py (line 12): +3 −1.", kind="diff", diff=DIFF, summary="+3 −1")
    test = ToolUse("c10", "Bash", {"command": "python -m unittest -q"})
    s.reply(39.9, 3.4, test)
    s.tool(
        test,
        40,
        43.5,
        "Ran 3 tests in 0.012s\n\nOK",
        kind="terminal",
        command="python -m unittest -q",
        exit_code=0,
        summary="exit 0",
    )
    s.reply(46, 2.2, Text("Fixed: guests are paid back by e-mail. All three tests pass."))
    s.add(TurnEnded("completed", duration_ms=46_000), 46.1)
    s.add(PromptAdded("Never mind, try it another way"), 1_900)
    s.reply(1_903, 2.5, Text("SECRET-OF-THE-PAST"))
    s.add(TurnEnded("completed"), 1_903.1)
    s.add(SessionRewound(len(s.events) - 2, True, ()), 1_910)
    s.add(
        ContextCompacted("The user asked for guest refunds; done.", 1, tokens_before=31_000, tokens_after=4_200), 1_911
    )
    s.add(PromptAdded("What does this picture show?", images=(Image("image/png", PIXEL),)), 1_912)
    s.reply(1_915, 2.8, Text("A single pixel."), cost=None)
    s.add(Notice("Prices of one request are not known.", "warning", "price.unknown"), 1_915.1)
    s.add(TurnEnded("completed"), 1_915.2)
    return s.events


def _first_child(s: Story, call: ToolUse) -> None:
    path = "main/explore-1"
    s.add(
        AgentStarted(
            "explore-1", "main", call.id, "guest checkout flow", "Where are guest orders made?", "explore", "light"
        ),
        4.4,
        path,
    )
    s.add(PromptAdded("Where are guest orders made?", source="agent"), 4.5, path)
    grep, read = ToolUse("g1", "Grep", {"pattern": "guest"}), ToolUse("r1", "Read", {"file_path": "shop/orders.py"})
    s.reply(6.1, 1.5, grep, read, agent=path, cost=0.002)
    s.tool(grep, 6.15, 6.6, "shop/orders.py:19: def guest_order", path, kind="matches", summary="31 in 9 files")
    s.tool(
        read,
        6.15,
        6.8,
        "def guest_order(number: int, cents: int, email: str) -> Order:",
        path,
        kind="text",
        summary="24 lines",
    )
    deep = ToolUse("t7", "Task", {"description": "callers of guest_order", "prompt": "Who calls guest_order?"})
    s.reply(9, 2.1, deep, agent=path, cost=0.002)
    s.add(ToolStarted("t7", "Task", deep.input, "delegate", "callers of guest_order"), 9.05, path)
    inner = path + "/explore-3"
    s.add(
        AgentStarted(
            "explore-3", path, "t7", "callers of guest_order", "Who calls guest_order?", "explore", "light", depth=2
        ),
        9.1,
        inner,
    )
    s.add(PromptAdded("Who calls guest_order?", source="agent"), 9.2, inner)
    s.reply(12.5, 3.2, Text("Only `shop/cart.py:44`."), agent=inner, cost=0.001)
    s.add(AgentEnded("explore-3", "completed"), 12.6, inner)
    s.end(deep, 12.7, "Only `shop/cart.py:44`.", path)
    s.reply(17, 4.1, Text("Guest orders are made in `shop/orders.py:19` without a `user_id`."), agent=path, cost=0.003)
    s.add(AgentEnded("explore-1", "completed"), 17.1, path)


def _second_child(s: Story, call: ToolUse) -> None:
    path = "main/general-purpose-2"
    s.add(
        AgentStarted(
            "general-purpose-2",
            "main",
            call.id,
            "run the refund tests",
            "Run the refund tests.",
            "general-purpose",
            "main",
        ),
        4.45,
        path,
    )
    s.add(PromptAdded("Run the refund tests.", source="agent"), 4.5, path)
    bash = ToolUse("b1", "Bash", {"command": "python -m unittest -q tests.test_refunds"})
    s.reply(7.4, 2.8, bash, agent=path, cost=0.006)
    s.add(ToolStarted("b1", "Bash", bash.input, "exec", bash.input["command"]), 7.5, path)
    s.add(
        QuestionAsked(
            "q0", {"kind": "permission", "title": "Allow Bash?", "tool": "Bash", "line": bash.input["command"]}
        ),
        7.6,
        path,
    )
    s.add(QuestionAnswered("q0", "session"), 12.3, path)
    s.end(
        bash,
        18.9,
        "FAILED (errors=1)\nKeyError: None",
        path,
        status="partial",
        kind="terminal",
        command=bash.input["command"],
        exit_code=1,
        summary="exit 1",
    )
    s.reply(21, 1.9, Text("2 passed, 1 failed: `test_guest_refund` raises `KeyError: None`."), agent=path, cost=0.005)
    s.add(AgentEnded("general-purpose-2", "incomplete"), 21.05, path)
