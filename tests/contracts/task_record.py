"""Rows of the contract of the record: the response protocol, types, prompts, models and tool filtering."""

from __future__ import annotations

import json

from tests.contracts import evidence as e
from tests.contracts.rows import Check

FIVE = {"LS", "Glob", "Grep", "Read", "TodoWrite"}
KINDS = ("general", "explore", "summary", "plan")


def denied(tool: str) -> bool:
    rows = [row for kind in KINDS for row in e.role(kind).data["tool_summary"] if row["tool"] == tool]
    return [row["denied"] for row in rows] == [1] * 4


def offered(tool: str) -> bool:
    return all(tool in {spec.name for spec in e.role(kind).child[0].tools} for kind in KINDS)


def typed(kind: str) -> bool:
    played = e.role(kind)
    return played.child[0].system == f"{played.stage.agents[kind].role}\n\n# Task\nreview the app"


def model(name: str, **environ: str) -> str:
    found = getattr(e.setting(**environ).models, name)
    return f"{found.model} {found.base_url}"


ROWS: list[tuple[str, Check]] = [
    ("A task runs synchronously", lambda: e.review().main[1].messages[-1].results),
    ("Background jobs are out of scope", "`run_in_background` is there; it is off unless a call asks for it"),
    ("TaskOutput polling is out of scope", "results of background children are delivered, so nothing polls"),
    ("Resume by transcript is deferred", "`resume` takes a subagent_id and goes on with its conversation"),
    ("Forking the parent's context is deferred", lambda: "fork_context" not in e.properties()),
    ("An event bus is deferred", "children are events of the same stream, which panels need"),
    ("Plugin-based agent loading is deferred", "agents are Markdown files of the user and the project"),
    ("Permission prompts are deferred", "a child's questions reach the person and name the child"),
    ("A child has its own message list", lambda: e.review().child[0].messages[0].text == "review app.py"),
    ("A child has its own system prompt", lambda: e.review().child[0].system != e.review().main[0].system),
    ("Its tools are filtered", lambda: len(e.review().child[0].tools) < len(e.review().main[0].tools)),
    ("Its model can be overridden", lambda: e.with_light().records[1]["data"]["model_used"] == "main"),
    ("The primary agent decides when to delegate", lambda: "Delegate when" in e.review().main[0].system),
    ("Input `description`", lambda: "description" in e.properties()),
    ("Input `prompt`", lambda: "prompt" in e.properties()),
    ("Input `subagent_type`", lambda: "subagent_type" in e.properties()),
    ("Input `model` is main or light", lambda: e.properties()["model"]["enum"] == ["main", "light"]),
    ("`model` may be left out", lambda: "model" not in e.specs()["Task"].schema["required"]),
    ("Output `status` success", lambda: e.review().record["status"] == "success"),
    ("Output `data.status` completed", lambda: e.review().data["status"] == "completed"),
    ("Output `data.result` is the final text", lambda: e.review().data["result"] == "app.py:1 prints."),
    ("Output `data.tool_summary` lists tools", lambda: e.review().data["tool_summary"][0]["tool"] == "Read"),
    ("... with the count of calls", lambda: e.review().data["tool_summary"][0]["count"] == 1),
    (
        "... that ran, and apart those that failed or were denied",
        lambda: e.ended_by("denied").data["tool_summary"][0]["count"] == 0,
    ),
    ("Output `data.model_used`", lambda: e.with_light().records[0]["data"]["model_used"] == "light"),
    ("Output `data.subagent_type`", lambda: e.review().data["subagent_type"] == "code-reviewer"),
    (
        "Output `text` is `Subagent (type, model) completed.` and the result",
        lambda: e.review().record["text"].startswith("Subagent (code-reviewer, main) completed.\n\napp.py:1 prints."),
    ),
    ("Output `stats.time_ms`", lambda: e.review().record["stats"]["time_ms"] >= 0),
    ("Output `stats.tool_calls`", lambda: e.review().record["stats"]["tool_calls"] == 1),
    ("Output `stats.model`", lambda: e.review().record["stats"]["model"] == "main"),
    ("Output `context.cwd`", lambda: e.review().record["context"]["cwd"] == "."),
    (
        "Output `context.params_input`",
        lambda: e.review().record["context"]["params_input"]["prompt"] == "review app.py",
    ),
    (
        "The common response protocol: status, data, text, stats, context",
        lambda: set(e.review().record) == {"status", "data", "text", "stats", "context"},
    ),
    (
        "... and `error` where there is one",
        lambda: set(e.refused('{"subagent_type": "x"}').error) == {"code", "message"},
    ),
    ("`tool_summary` may be left out", "it is always there; it is what makes a receipt"),
    ("Type `general`", lambda: typed("general")),
    ("Type `explore`", lambda: typed("explore")),
    ("Type `summary`", lambda: typed("summary")),
    ("Type `plan`", lambda: typed("plan")),
    ("Only those four types", "two more that act, bash and general-purpose, are shipped, and users add their own"),
    ("The pipeline is the same for every type", lambda: len({tuple(e.role(k).data) for k in KINDS}) == 1),
    ("The template is chosen by `subagent_type`", lambda: len({e.role(k).child[0].system for k in KINDS}) == 4),
    ("System prompt: role, blank line, `# Task`, description", lambda: all(map(typed, KINDS))),
    ("User message: the prompt", lambda: e.role("plan").child[0].messages[0].text == "Where is main?"),
    ("`Explore` is explore", lambda: e.role("Explore").data["subagent_type"] == "explore"),
    (
        "An unknown type is an error without fallback",
        lambda: e.refused('{"subagent_type": "x"}').record["status"] == "error",
    ),
    ("Two selectable models only", lambda: len(e.properties()["model"]["enum"]) == 2),
    (
        "Light is switched by editing a file",
        lambda: e.setting('[models.light]\nprovider = "openai"\nmodel = "m"\n').models.light.model == "m",
    ),
    ("`light` for simple work is said to the model", lambda: "`light` is for simple" in e.review().main[0].system),
    (
        "`main` for hard reasoning is said to the model",
        lambda: "`main` for hard reasoning" in e.review().main[0].system,
    ),
    (
        "`LLM_MODEL_ID`",
        lambda: model("main", LLM_PROVIDER="openai", LLM_MODEL_ID="big", LLM_API_KEY="k").startswith("big"),
    ),
    (
        "`LLM_API_KEY`",
        lambda: e.setting(LLM_PROVIDER="openai", LLM_MODEL_ID="b", LLM_API_KEY="k").models.main.model == "b",
    ),
    (
        "`LLM_BASE_URL`",
        lambda: "://h/v1" in model("main", LLM_MODEL_ID="b", LLM_API_KEY="k", LLM_BASE_URL="http://h/v1"),
    ),
    (
        "`LIGHT_LLM_MODEL_ID`",
        lambda: model("light", LIGHT_LLM_PROVIDER="openai", LIGHT_LLM_MODEL_ID="s", LIGHT_LLM_API_KEY="k").startswith(
            "s"
        ),
    ),
    (
        "`LIGHT_LLM_API_KEY`",
        lambda: e.setting(LIGHT_LLM_PROVIDER="openai", LIGHT_LLM_MODEL_ID="s", LIGHT_LLM_API_KEY="k").has_light,
    ),
    (
        "`LIGHT_LLM_BASE_URL`",
        lambda: (
            "://h/v1" in model("light", LIGHT_LLM_MODEL_ID="s", LIGHT_LLM_API_KEY="k", LIGHT_LLM_BASE_URL="http://h/v1")
        ),
    ),
    (
        "The type's own model is used where the call names none",
        lambda: e.with_light().records[0]["data"]["model_used"] == "light",
    ),
    ("`Task` is blocked for children", lambda: denied("Task")),
    ("`Write` is blocked", lambda: denied("Write")),
    ("`Edit` is blocked", lambda: denied("Edit")),
    ("`MultiEdit` is blocked", lambda: denied("MultiEdit")),
    ("`Bash` is blocked", lambda: denied("Bash")),
    (
        "The deny list holds for every type",
        "agents whose file names them may write or run commands; permissions still hold",
    ),
    ("`LS` is allowed", lambda: offered("LS")),
    ("`TodoWrite` is allowed", lambda: offered("TodoWrite")),
    ("`Glob` is allowed", lambda: offered("Glob")),
    ("`Grep` is allowed", lambda: offered("Grep")),
    ("`Read` is allowed", lambda: offered("Read")),
    ("Nothing else is", lambda: all({s.name for s in e.role(k).child[0].tools} == FIVE for k in KINDS)),
    ("The list can grow with more types", lambda: "tools: Bash" in e.shipped("bash")),
    ("Nothing of the workspace changed", lambda: not (e.role("general").stage.workspace.root / "x").exists()),
    ("The tool validates its input", lambda: e.refused('{"description": null}').error["code"] == "INVALID_PARAM"),
    ("It builds the toolset", lambda: len(e.role("plan").child[0].tools) == 5),
    ("It uses the given model", lambda: e.with_light().records[1]["data"]["model_requested"] == "main"),
    ("It returns the result and the tool summary", lambda: {"result", "tool_summary"} <= set(e.review().data)),
    ("Guidance: Task for complex or parallel work", lambda: "run in parallel" in e.review().main[0].system),
    ("A child is told that it is a subagent", lambda: "subagent" in e.shipped("explore").lower()),
    ("... to use only its tools", lambda: "tools" in e.shipped("explore").lower()),
    (
        "... to report concisely",
        lambda: "report" in e.shipped("explore").lower() or "answer" in e.shipped("explore").lower(),
    ),
    ("`subagent_general_prompt.py`", "role prompts are Markdown with front matter, agents/general.md"),
    ("`subagent_explore_prompt.py`", "the same: agents/explore.md, so people can write their own"),
    ("`subagent_plan_prompt.py`", "the same: agents/plan.md, so people can write their own"),
    ("`subagent_summary_prompt.py`", "the same: agents/summary.md, so people can write their own"),
    (
        "Missing description or prompt: INVALID_PARAM",
        lambda: e.refused('{"prompt": " "}').error["code"] == "INVALID_PARAM",
    ),
    ("Unknown type: INVALID_PARAM", lambda: e.refused('{"subagent_type": "x"}').error["code"] == "INVALID_PARAM"),
    (
        "Run-time error: INTERNAL_ERROR with its message",
        lambda: e.ended_by("failure").error["code"] == "INTERNAL_ERROR",
    ),
    ("A session ID of the child is recorded", lambda: e.review().data["subagent_id"] == "code-reviewer-1"),
    (
        "The model choice is in the trace",
        lambda: " model=scripted " in next(x for x in e.logged() if "event=spawn" in x),
    ),
    (
        "No recursion: children have no Task",
        lambda: "Task" not in json.dumps([s.name for s in e.role("plan").child[0].tools]),
    ),
]
