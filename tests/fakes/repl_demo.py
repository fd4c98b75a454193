"""The chat over scripted answers: `python -m tests.fakes.repl_demo`, then type the name of a script."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from cowork.core.blocks import Text, Usage
from cowork.core.events import (
    Notice,
    PromptAdded,
    ReplyAdded,
    RetryScheduled,
    TextDelta,
    ThinkingDelta,
    TodoUpdated,
    ToolEnded,
)
from cowork.core.ports import Question
from cowork.frontends.host import ConversationOpened, Options
from cowork.frontends.repl.repl import Repl
from tests.fakes.calls import started
from tests.fakes.repl_host import FakeHost

DIFF = "\n".join((
    "--- a/shop/refunds/service.py",
    "+++ b/shop/refunds/service.py",
    "@@ -71,5 +71,7 @@",
    " ",
    "     def create(self, order: Order) -> Refund:",
    "-        user = self.users.get(order.user_id)",
    "+        user = self.users.get(order.user_id) if order.user_id else None",
    "+        if user is None and not order.email:",
    '+            raise RefundError("a guest order needs an e-mail address")',
    "         return self.refunds.add(order, user)",
    " ",
))  # fmt: skip

ANSWER = """I looked at **three places** at once.

## What is wrong

Refunds fail because `RefundService.create` requires `order.user_id`, which a *guest* order does not have
(`shop/refunds/service.py:74`). The webhook handler swallows the error.

1. `create` looks the user up first
2. the lookup raises for `None`
3. the webhook answers 200 anyway

```python
def create(self, order: Order) -> Refund:
    user = self.users.get(order.user_id) if order.user_id else None
    return self.refunds.add(order, user)
```

| place | state |
|---|---|
| checkout | fine |
| refunds | broken for `Optional<User>` |
| 通知 | unknown |

> Nobody tested guests.

Shall I fix it?
"""


async def panels(host: FakeHost, text: str) -> None:
    count = int(text.split()[1]) if len(text.split()) > 1 else 3
    pause = float(text.split()[2]) if len(text.split()) > 2 else 0.3
    host.emit(ReplyAdded((Text("I'll look at three places at once."),), "tool_use", Usage(900, 40), 0.01))
    names = ("guest checkout flow", "refund service", "webhook handler", "payment gateway", "order model",
             "e-mail templates", "admin pages")  # fmt: skip
    steps = [
        ("Grep", {"pattern": "guest"}, "31 in 9 files"),
        ("Read", {"file_path": "shop/checkout/guest.py", "offset": 1, "limit": 200}, "200 lines"),
        ("Bash", {"command": "pytest tests/refunds -q"}, "exit 1"),
        ("Read", {"file_path": "shop/refunds/service.py"}, "180 lines"),
        ("Grep", {"pattern": "user_id", "path": "shop"}, "14 in 5 files"),
    ]
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            kind = "bash" if number == 2 else "explore"
            status = "error" if number == 2 else "completed"
            group.create_task(
                host.child(number + 1, kind, names[number % len(names)], steps[number % 3 :] + steps[: number % 3],
                           pause=pause * (1 + number / 5), color=("cyan", "green", "blue")[number % 3], status=status)
            )  # fmt: skip
    await host.say("Refunds fail because `RefundService.create` requires `order.user_id`.", pieces=8)


async def family(host: FakeHost, text: str) -> None:
    """Three children: one has a child of its own, one asks."""
    look = ("Read", {"file_path": "shop/checkout/guest.py"}, "200 lines")

    async def asks() -> None:
        command = {"command": "pytest -q"}
        question = Question("permission", "Allow this command?", agent="main/bash-2", tool="Bash", input=command,
                            family="exec", line="$ pytest -q", session_rule="pytest", tool_use_id="asked",
                            display={"kind": "text", "text": "runs the tests"})  # fmt: skip
        host.emit(started("asked", "Bash", command), "main/bash-2")
        await host.question(question)
        host.emit(ToolEnded("asked", "Bash", {"status": "success"}, {"summary": "12 passed"}), "main/bash-2")
        calm.set()

    calm = asyncio.Event()
    pause = 0.2
    async with asyncio.TaskGroup() as group:
        for number, kind, what in ((1, "explore", "map the signer"), (2, "bash", "run the tests"),
                                   (3, "explore", "look for dead code")):  # fmt: skip
            group.create_task(host.child(number, kind, what, [look], pause=pause, until=calm, color="cyan"))
        await asyncio.sleep(0.05)
        group.create_task(host.child(4, "explore", "callers of loads", [look], pause=pause, until=calm,
                                     parent="main/explore-1"))  # fmt: skip
        await asyncio.sleep(0.3)
        group.create_task(asks())
    await host.say("family done", pieces=2)


async def answer(host: FakeHost, text: str) -> None:
    await host.say(ANSWER, pieces=120, pause=0.01)


async def lines(host: FakeHost, text: str) -> None:
    """`lines N`: N paragraphs, each with its number."""
    count = int(text.split()[1])
    body = "".join(f"paragraph number {n:04} of the long answer\n\n" for n in range(count))
    await host.say(body, pieces=count, pause=0.005)


async def edit(host: FakeHost, text: str) -> None:
    display = {"kind": "diff", "path": "shop/refunds/service.py", "diff": DIFF, "summary": "+3 −1"}
    question = Question(
        "permission", "Allow this edit?", tool="Edit", input={"file_path": "shop/refunds/service.py"},
        family="write", line="shop/refunds/service.py",
        rule="Edit(shop/refunds/**)", session_rule="edits in shop/refunds/**", display=display,
    )  # fmt: skip
    choice = await host.question(question)
    if choice == "no":
        await host.tool("Edit", {"file_path": "shop/refunds/service.py"}, status="error", text="Denied by the user.")
        await host.say(f"Not allowed: {host.answers[-1][1] or 'no reason given'}.", pieces=3)
        return
    await host.tool("Edit", {"file_path": "shop/refunds/service.py"}, display=display)
    await host.say(f"Done, allowed {choice}.", pieces=3)


async def many(host: FakeHost, text: str) -> None:
    """Three questions at once, from different askers."""
    parts = [
        {"text": "git add -A", "verdict": "asks", "why": "writes the index"},
        {"text": 'git commit -m "Allow guest refunds"', "verdict": "asks", "why": "runs hooks"},
    ]
    command = {"command": 'git add -A && git commit -m "Allow guest refunds"'}
    questions = [
        Question("permission", "Allow this command?", agent=agent, tool="Bash", input=command,
                 rule="Bash(git commit:*)", session_rule="git commit", display={"kind": "command", "parts": parts})
        for agent in ("main", "main/explore-1", "main/explore-2")
    ]  # fmt: skip
    choices = await asyncio.gather(*(host.question(q) for q in questions))
    await host.say("answers: " + " ".join(choices), pieces=3)


async def bash(host: FakeHost, text: str) -> None:
    output = "".join(f"tests/test_{n}.py .....  [{n * 4:3}%]\n" for n in range(25))
    await host.tool("Bash", {"command": "pytest -q"}, output=output, pause=0.2, lines=25)
    await host.tool("Read", {"file_path": f"{host.cwd}/cowork/app.py"}, summary="212 lines")
    await host.tool("Grep", {"pattern": "refund", "path": "shop"}, summary="31 in 9 files")
    await host.tool("Read", {"file_path": "nope.py"}, status="error", text="nope.py does not exist. Nearest: hope.py")
    await host.say("All green.", pieces=2)


async def todo(host: FakeHost, text: str) -> None:
    names = ("Read the refund service", "Write a failing test", "Fix the lookup", "Run the tests")
    for done in range(len(names) + 1):
        states = ["completed"] * done + ["in_progress"] + ["pending"] * len(names)
        host.emit(
            TodoUpdated(
                tuple(
                    {"content": n, "status": s, "activeForm": n + " now"} for n, s in zip(names, states, strict=False)
                )
            )
        )
        await asyncio.sleep(0.4)
    await host.say("All done.", pieces=2)


async def retry(host: FakeHost, text: str) -> None:
    host.emit(TextDelta("This answer will\n\nbreak off in the mid"))
    await asyncio.sleep(0.2)
    host.emit(RetryScheduled(2, 5, 2.0, "overloaded", "overloaded"))
    await asyncio.sleep(2)
    await host.say("The second try works.", pieces=3)


async def slow(host: FakeHost, text: str) -> None:
    """Thinks until it is interrupted, but takes in what is steered."""
    seen = 0
    while True:
        host.emit(ThinkingDelta("still thinking about it "))
        await asyncio.sleep(0.1)
        if len(host.steered) > seen:
            host.emit(PromptAdded(host.steered[seen], source="steer"))
            seen += 1


async def wait(host: FakeHost, text: str) -> None:
    await asyncio.sleep(float(text.split()[1]))
    await host.say("waited", pieces=2)


async def half(host: FakeHost, text: str) -> None:
    """An answer that stands still in the middle of a long paragraph."""
    host.emit(TextDelta("The answer begins. " + " ".join(f"word {n:03}" for n in range(60)) + " and so on"))
    await asyncio.Event().wait()


async def hostile(host: FakeHost, text: str) -> None:
    host.emit(Notice("a \x1b[31mred\x1b[0m note\x1b]0;owned\x07", "warning"))
    await host.tool("Bash", {"command": "printf '\x1b[2J'"}, output="\x1b[2J\x1b[Hgone\n\u202eevil\n")
    await host.say("text with \x1b[2J clear and \u202e bidi and `\x1b]0;x\x07`", pieces=9)


async def flood(host: FakeHost, text: str) -> None:
    """Five panels and 200 updates a second, for so many seconds."""
    seconds = float(text.split()[1])
    step = ("Read", {"file_path": "shop/refunds/service.py"}, "180 lines")
    count = int(seconds / 0.05)
    async with asyncio.TaskGroup() as group:
        for number in range(5):
            group.create_task(host.child(number + 1, "explore", f"part {number + 1}", [step] * count, pause=0.025))
    await host.say("flood over", pieces=2)


SCRIPTS = {
    "panels": panels, "family": family, "answer": answer, "lines": lines, "edit": edit, "many": many, "bash": bash,
    "todo": todo,    "retry": retry, "slow": slow, "wait": wait, "hostile": hostile, "flood": flood, "half": half,
}  # fmt: skip


def make() -> tuple[Repl, FakeHost]:
    """The chat and its host, joined."""
    files = [f"shop/part{n % 40}/module_{n}.py" for n in range(int(os.environ.get("DEMO_FILES", "200")))]
    host = FakeHost(SCRIPTS, ["README.md", "shop/refunds/service.py", "shop/checkout/guest.py", *files])
    history = os.environ.get("DEMO_HISTORY")
    keys = "vi" if os.environ.get("DEMO_KEYS") == "vi" else "emacs"
    repl = Repl(host, Options(history=Path(history) if history else None, keys=keys))
    host.emit_to = repl.on_event
    host.ask = repl.ask
    repl.on_event(ConversationOpened())
    return repl, host


def main() -> int:
    repl, _ = make()
    return asyncio.run(repl.run())


if __name__ == "__main__":
    sys.exit(main())
