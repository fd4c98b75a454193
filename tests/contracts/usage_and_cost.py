"""Rows of the contract of usage and cost: required fields, four fields back, and using them."""

from __future__ import annotations

from cowork.engine.subagents.result import view_002
from tests.contracts import evidence as e
from tests.contracts.rows import Check

COST = 2 * (1200 * 3.0 + 450 * 15.0) / 1_000_000


def view() -> dict[str, object]:
    return dict(view_002(e.review().record))


def missing(field: str) -> bool:
    played = e.refused(f'{{"{field}": null}}')
    return played.error["message"] == f"Invalid input: missing field `{field}`" and not played.child


ROWS: list[tuple[str, Check]] = [
    ("`description` is required", lambda: missing("description")),
    ("`prompt` is required", lambda: missing("prompt")),
    ("`subagent_type` is required", lambda: missing("subagent_type")),
    ("`description` is for logs and monitoring", lambda: 'label="review the app"' in e.line("spawn")),
    ("`description` is not for the child", "another design puts it under `# Task` in the child's system prompt"),
    (
        "An empty description is refused",
        lambda: e.refused('{"description": " "}').error["message"] == "description cannot be empty",
    ),
    ("`prompt` is the child's primary input", lambda: e.review().child[0].messages[0].text == "review app.py"),
    (
        "`prompt` holds all the context it needs",
        lambda: "it sees nothing else" in e.properties()["prompt"]["description"],
    ),
    ("`subagent_type` is a key of the agents", lambda: "code-reviewer" in e.review().stage.agents),
    (
        "Nothing is inferred from a missing parameter",
        lambda: not e.refused('{"subagent_type": null}').of(e.AgentStarted),
    ),
    ("No agent is selected by itself", lambda: not e.refused('{"subagent_type": "bug finder"}').of(e.AgentStarted)),
    (
        "The type is chosen at run time",
        lambda: [r["data"]["subagent_type"] for r in two_types().records] == ["explore", "plan"],
    ),
    (
        "The model reads the agents' descriptions",
        lambda: "- code-reviewer: Reviews code for bugs" in e.specs()["Task"].description,
    ),
    ("The answer has four fields", lambda: set(view()) == {"result", "usage", "total_cost_usd", "duration_ms"}),
    ("`result` is the child's output", lambda: view()["result"] == "app.py:1 prints."),
    ("`usage.prompt_tokens`", lambda: e.review().data["usage"]["prompt_tokens"] == 2400),
    ("`usage.completion_tokens`", lambda: e.review().data["usage"]["completion_tokens"] == 900),
    ("`total_cost_usd` is the cost of this delegation", lambda: view()["total_cost_usd"] == round(COST, 9)),
    ("`duration_ms` is its time", lambda: isinstance(view()["duration_ms"], int)),
    ("An unknown price is no zero", lambda: unpriced()["total_cost_usd"] is None),
    ("The coordinator is told to read the result", lambda: "read it" in e.review().main[0].system),
    ("... to use it in its answer", lambda: "use it in your answer" in e.review().main[0].system),
    (
        "... and never to answer as if it had not come",
        lambda: "as if it had not come back" in e.review().main[0].system,
    ),
    ("The result reaches its next request", lambda: "app.py:1 prints." in str(e.review().main[1].messages[-1])),
    ("Cost aggregates by subagent_type", lambda: by_type()["code-reviewer"]["total_cost_usd"] == round(COST, 9)),
    ("Tasks are counted by type", lambda: by_type()["code-reviewer"]["tasks"] == 1),
    ("Duration aggregates by type", lambda: "duration_ms" in by_type()["code-reviewer"]),
    ("Usage aggregates by type", lambda: by_type()["code-reviewer"]["usage"]["input_tokens"] == 2400),
    ("Every delegation is listed with its type", lambda: tasks()[0]["subagent_type"] == "code-reviewer"),
    (
        "... its id, description, model and status",
        lambda: {"subagent_id", "description", "model", "status"} <= set(tasks()[0]),
    ),
    ("Parts add up to the whole", lambda: e.review().stage.ledger.spent.usage.total == 4 * 1650),
    ("Budgets can stop the spending", lambda: "max_total_cost_usd" in e.page("delegating.md")),
    ("Durations guide a timeout", lambda: e.ended_by("timeout").data["duration_ms"] >= 50),
]


def by_type() -> dict[str, dict[str, object]]:
    return dict(e.review().stage.subagents.cost_by_type())


def tasks() -> list[dict[str, object]]:
    return list(e.review().stage.subagents.tasks())


def two_types() -> e.Played:
    orders = [e.task("explore"), e.task("plan")]
    return e.play([e.turn(*orders), e.say("ok")], {"explore": [e.say("a")], "plan": [e.say("b")]})


def unpriced() -> dict[str, object]:
    stage = e.new_stage()
    model = e.Scripted([e.turn(e.task()), e.say("ok")], {"code-reviewer": [e.say("x")]})

    async def go() -> None:
        stage.set_up(model)
        await stage.agent.run(e.Prompt("go"))

    e.awaited(go())
    return dict(view_002(e.Played(stage, None, []).record))  # type: ignore[arg-type]
