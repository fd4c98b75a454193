"""What somebody might put into a session to run in the page of whoever looks: 30 payloads, each in more than
ten places."""

from __future__ import annotations

from collections.abc import Iterator

from cowork.core.blocks import Image, Text, Thinking, ToolUse
from cowork.core.events import (
    AgentEnded,
    AgentStarted,
    Event,
    Notice,
    PromptAdded,
    QuestionAnswered,
    QuestionAsked,
    SessionStarted,
)
from tests.reports.sample import Story

PAYLOADS = (
    "<script>hit({n})</script>",
    "</script><script>hit({n})</script>",
    "</ScRiPt ><img src=x onerror=hit({n})>",
    "<!--<script>hit({n})//",
    "--><script>hit({n})</script><!--",
    "]]></title></style></textarea><script>hit({n})</script>",
    "<img src=x onerror=hit({n})>",
    '"><img src="https://evil.invalid/{n}.png" onerror="hit({n})">',
    "<svg onload=hit({n})>",
    "<svg><script>hit({n})</script></svg>",
    "<svg><animate onbegin=hit({n}) attributeName=x dur=1s>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=hit({n})>",
    "<iframe srcdoc='<script>parent.hit({n})</script>'></iframe>",
    "<iframe src=javascript:parent.hit({n})></iframe>",
    "<body onload=hit({n})>",
    "<details open ontoggle=hit({n})>",
    "<input autofocus onfocus=hit({n})>",
    "<meta http-equiv=refresh content='0;url=https://evil.invalid/{n}'>",
    "<base href=https://evil.invalid/>",
    "<link rel=stylesheet href=https://evil.invalid/{n}.css>",
    "<object data=javascript:hit({n})></object>",
    "[link](javascript:hit({n}))",
    "[link](JaVaScRiPt:hit({n}) 'title')",
    "[link](data:text/html,<script>hit({n})</script>)",
    "![image](https://evil.invalid/{n}.png)",
    "<https://evil.invalid/{n}'onmouseover='hit({n})>",
    "```html\n<script>hit({n})</script>\n```",
    "| a |\n|---|\n| <img src=x onerror=hit({n})> |",
    "‮)n(tih>tpircs<⁦ \u0000\u001b]8;;javascript:hit({n})\u0007 \ud800 \u2028hit({n})",
    "constructor __proto__ ${{hit({n})}} `${{hit({n})}}` {{{{hit({n})}}}}",
)
PLACES = 10  # at least


def hostile_session() -> list[Event]:
    """Every payload in every place, and a few lines of a megabyte."""
    story, texts = Story("hostile"), _texts(0)
    story.add(SessionStarted(next(texts), next(texts), "x", "ask", next(texts)), 0)
    for n in range(len(PAYLOADS)):
        texts = _texts(n)
        path = f"main/{next(texts)}-{n}"
        call = ToolUse(f"c{n}", next(texts), {next(texts): next(texts)})
        task = ToolUse(f"t{n}", "Task", {})
        at = 10.0 * n
        label = next(texts)
        story.add(PromptAdded(next(texts), label=label if n % 2 else ""), at)
        story.reply(at + 2, 1, Thinking(next(texts)), Text(next(texts)), call, task)
        shown = next(texts)
        story.tool(
            call,
            at + 3,
            at + 4,
            next(texts),
            kind="markdown" if n % 2 else "diff",
            text=shown,
            diff=f"@@ -1 +1 @@\n-{shown}\n+{shown}",
        )
        story.add(QuestionAsked(f"q{n}", {"title": next(texts), "tool": "x", "line": next(texts)}), at + 4)
        story.add(QuestionAnswered(f"q{n}", next(texts)), at + 5)
        story.add(AgentStarted(f"a{n}", "main", task.id, next(texts), next(texts), next(texts)), at + 5, path)
        story.add(
            PromptAdded(next(texts), source="agent", images=(Image(f"image/svg+xml,{next(texts)}", next(texts)),)),
            at + 5,
            path,
        )
        story.add(AgentEnded(f"a{n}", next(texts)), at + 6, path)
        story.add(Notice(next(texts), level=next(texts)), at + 7)
    story.add(PromptAdded("x" * 1_000_000), 400)
    story.reply(402, 1, Text("**" * 50_000 + "[" * 50_000 + "`" * 20_001), Text("> " * 30_000), Text("- " * 20_000))
    long = 60_000
    runs = (
        "# " + " " * long + "x",
        "` " + "a" * long + "b`",
        "https://x.y/" + "." * long + "x",
        "a" + " " * long + "x",
    )
    runs += ("```" + " " * long + "`", "| " * long, "*a " * long, "[a](" * long, "<" * long, "- " + "\t" * long + "x")
    runs += ("1. " * long, "|" + "-" * long + "x\n|" + "-" * long + "x", "~~~ " + "\t" * long, "\\" * long)
    for text in runs:  # each would take minutes in a pattern that tries it from every place
        story.reply(403, 1, Text(text))
    return story.events


def _texts(first: int) -> Iterator[str]:
    """Payloads, another one first each time, so that every place sees every one."""
    for place in range(len(PAYLOADS)):
        payload = PAYLOADS[(first + place) % len(PAYLOADS)]
        yield payload.replace("{{", "{").replace("}}", "}").replace("{n}", str(100 * first + place))
