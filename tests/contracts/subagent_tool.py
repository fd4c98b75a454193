"""Rows of the contract of the `subagent` tool: fields, answers, messages, settings and log lines."""

from __future__ import annotations

import json
import os

from cowork.engine.subagents.result import view_003
from tests.contracts import evidence as e
from tests.contracts.rows import Check

LABELLED = '{"label": "research_quantum"}'


def view(given: str = "{}", settings: str = "{}") -> dict[str, object]:
    return dict(view_003(e.exposed(given, settings).record))


def metadata(given: str = "{}") -> dict[str, str]:
    return dict(view_003(e.exposed(given).record)["metadata"])


def message(**given: object) -> str:
    return str(view(json.dumps(given))["error"])


def field(name: str) -> dict[str, object]:
    return dict(e.properties("subagent")[name])


def required() -> list[str]:
    return list(e.specs()["subagent"].schema["required"])


def has(event: str, *fields: str) -> bool:
    return all(f" subagent.{name}=" in e.line(event) for name in fields)


ROWS: list[tuple[str, Check]] = [
    ("The tool is called `subagent`", lambda: "subagent" in e.specs()),
    (
        "It is offered by default",
        "it is the same machinery as Task; `expose_subagent_tool = true` adds it under this name",
    ),
    ("Its description says isolated context", lambda: "context" in e.specs()["subagent"].description),
    ("Parameters are an object", lambda: e.specs()["subagent"].schema["type"] == "object"),
    ("`label` is a string", lambda: field("label")["type"] == "string"),
    ("`label` is required", lambda: "label" in required()),
    ("`label` has at least one character", lambda: field("label")["minLength"] == 1),
    ("`label` identifies the child in logs", lambda: 'subagent.label="review the app"' in e.line("spawn")),
    ("A label used twice is told apart", lambda: all("subagent_id=" in x for x in e.logged())),
    ("`task_prompt` is a string", lambda: field("task_prompt")["type"] == "string"),
    ("`task_prompt` is required", lambda: "task_prompt" in required()),
    ("`task_prompt` has at least one character", lambda: field("task_prompt")["minLength"] == 1),
    ("`task_prompt` is the child's first user message", lambda: e.exposed().child[0].messages[0].text == "Look around"),
    ("`summary_prompt` is optional", lambda: "summary_prompt" not in required()),
    (
        "... by default `Summarize your findings concisely`",
        lambda: e.exposed().child[-1].messages[-1].text == "Summarize your findings concisely",
    ),
    (
        "... and shapes the output",
        lambda: e.exposed('{"summary_prompt": "In one word"}').child[-1].messages[-1].text == "In one word",
    ),
    ("`allowed_tools` is an array of strings", lambda: field("allowed_tools")["items"] == {"type": "string"}),
    ("`allowed_tools` is optional", lambda: "allowed_tools" not in required()),
    ("... left out: the parent's tools but subagent", lambda: "subagent" not in tools("{}") and "Write" in tools("{}")),
    ("... given: only those", lambda: tools('{"allowed_tools": ["Read", "Grep"]}') == ["Read", "Grep"]),
    ("... takes `grep`", "tools have the names models know, so it is spelled Grep"),
    ("... takes `file_ops`", lambda: {"Read", "Write"} <= set(tools('{"allowed_tools": ["file_ops"]}'))),
    ("... takes `terminal`", lambda: "Bash" in tools('{"allowed_tools": ["terminal"]}')),
    ("... takes `fetch`", lambda: tools('{"allowed_tools": ["fetch"]}') == ["WebFetch"]),
    ("`subagent` in it is always blocked", lambda: view('{"allowed_tools": ["subagent"]}')["success"] is False),
    ("`max_turns` is an integer", lambda: field("max_turns")["type"] == "integer"),
    ("`max_turns` is optional", lambda: "max_turns" not in required()),
    ("`max_turns` is 1 at least", lambda: field("max_turns")["minimum"] == 1),
    ("`max_turns` is 50 at most", lambda: field("max_turns")["maximum"] == 50),
    ("... by default `default_max_turns`", lambda: e.exposed().started.max_turns == 10),
    ("... and is what the child has", lambda: e.exposed('{"max_turns": 2}').started.max_turns == 2),
    (
        "The answer is {success, output, error, metadata}",
        lambda: set(view()) == {"success", "output", "error", "metadata"},
    ),
    ("`success` is true when it completed", lambda: view()["success"] is True),
    ("`success` is false when it failed", lambda: view('{"label": ""}')["success"] is False),
    ("`output` is a string", lambda: isinstance(view()["output"], str)),
    ("`output` is the summary", lambda: view()["output"] == "short"),
    ("`output` is at most `output_max_size`, 4096 by default", lambda: cut() == 4096),
    ("... another size where it is set", lambda: cut(output_max_size=1024) == 1024),
    ("... with `[Output truncated]` appended", lambda: "[Output truncated]" in long_output()),
    ("... cut on a character boundary", lambda: "\ufffd" not in long_output()),
    ("`error` is null on success", lambda: view()["error"] is None),
    ("`error` is a string on failure", lambda: isinstance(view('{"label": ""}')["error"], str)),
    ("`metadata.subagent_label` echoes the label", lambda: metadata(LABELLED)["subagent_label"] == "research_quantum"),
    ("`metadata.recursion_depth` is `1` for a first child", lambda: metadata()["recursion_depth"] == "1"),
    ("... and `2` below it", lambda: "'recursion_depth': '2'" in str(e.nested().events)),
    ("`metadata.completion_status` complete", lambda: metadata()["completion_status"] == "complete"),
    (
        "`metadata.completion_status` incomplete at the limit",
        lambda: metadata('{"max_turns": 2}')["completion_status"] == "incomplete",
    ),
    (
        "`metadata.turns_used` counts user messages",
        "it counts requests, which is what costs: the answer to tool results is one too",
    ),
    ("... the summary and the report among them", lambda: metadata()["turns_used"] == "3"),
    (
        "`metadata.max_turns_reached` true at the limit",
        lambda: metadata('{"max_turns": 2}')["max_turns_reached"] == "true",
    ),
    ("`metadata.max_turns_reached` false otherwise", lambda: metadata()["max_turns_reached"] == "false"),
    ("`metadata.tokens_consumed`", lambda: int(metadata()["tokens_consumed"]) > 0),
    ("All metadata are strings", lambda: all(isinstance(value, str) for value in metadata().values())),
    ("A failure has an empty output", lambda: view('{"label": ""}')["output"] == ""),
    (
        "A failure's metadata are label and depth",
        lambda: set(view_003(e.ended_by("failure").record)["metadata"]) == {"subagent_label", "recursion_depth"},
    ),
    (
        "`Subagent execution failed: …`",
        lambda: e.ended_by("failure").error["message"].startswith("Subagent execution failed: "),
    ),
    (
        "`Maximum subagent recursion depth (N) exceeded. Current depth: N. Cannot spawn nested subagent.`",
        lambda: (
            "Maximum subagent recursion depth (1) exceeded. Current depth: 1. Cannot spawn nested subagent."
            in str(e.nested(1).events)
        ),
    ),
    (
        "Missing label: ``Invalid input: missing field `label` ``",
        lambda: message(label=None) == "Invalid input: missing field `label`",
    ),
    ("Empty label: the same", lambda: message(label=" ") == "Invalid input: missing field `label`"),
    (
        "`Tool 'subagent' cannot be used by subagents`",
        lambda: message(allowed_tools=["subagent"]) == "Tool 'subagent' cannot be used by subagents",
    ),
    (
        "`Unknown tool in allowed_tools: X`",
        lambda: message(allowed_tools=["nonexistent_tool"]) == "Unknown tool in allowed_tools: nonexistent_tool",
    ),
    (
        "Missing prompt: `task_prompt cannot be empty`",
        lambda: message(task_prompt=None) == "task_prompt cannot be empty",
    ),
    ("Blank prompt: the same", lambda: message(task_prompt="  ") == "task_prompt cannot be empty"),
    (
        "`max_turns must be between 1 and 50` below",
        lambda: message(max_turns=0) == "max_turns must be between 1 and 50",
    ),
    (
        "`max_turns must be between 1 and 50` above",
        lambda: message(max_turns=51) == "max_turns must be between 1 and 50",
    ),
    ("`max_depth` is 3 by default", lambda: e.subagent_setting("").max_depth == 3),
    ("`max_depth` can be set", lambda: e.subagent_setting("max_depth = 5").max_depth == 5),
    (
        "`max_depth` is 10 at most",
        lambda: "max_depth cannot exceed 10" in e.wrong("[agent.subagent]\nmax_depth = 11\n"),
    ),
    ("`max_depth` is 1 at least", lambda: "max_depth" in e.wrong("[agent.subagent]\nmax_depth = 0\n")),
    ("`default_max_turns` is 10 by default", lambda: e.subagent_setting("").default_max_turns == 10),
    ("`default_max_turns` can be set", lambda: e.subagent_setting("default_max_turns = 15").default_max_turns == 15),
    (
        "`default_max_turns` is 1 to 100",
        lambda: "default_max_turns" in e.wrong("[agent.subagent]\ndefault_max_turns = 101\n"),
    ),
    ("`output_max_size` can be set", lambda: e.subagent_setting("output_max_size = 8192").output_max_size == 8192),
    (
        "`output_max_size` is 1024 at least",
        lambda: "output_max_size" in e.wrong("[agent.subagent]\noutput_max_size = 1000\n"),
    ),
    (
        "`output_max_size` is 4096 by default",
        "another design gives Task 10,000 characters; `subagent` keeps its 4,096 bytes",
    ),
    ("`telemetry_enabled` is true by default", lambda: e.subagent_setting("").telemetry_enabled is True),
    (
        "`telemetry_enabled = false` is silent",
        lambda: e.subagent_setting("telemetry_enabled = false").telemetry_enabled is False,
    ),
    ("`persistence_enabled` is there", lambda: isinstance(e.subagent_setting("").persistence_enabled, bool)),
    (
        "`persistence_enabled` is false by default",
        "it is true: resuming a child and pricing a session need its conversation",
    ),
    ("Settings are in YAML", "the configuration is TOML, as for everything else of it"),
    ("Event `spawn`", lambda: e.line("spawn").endswith("Spawning subagent")),
    (
        "... with label, depth, max_turns, allowed_tools",
        lambda: has("spawn", "label", "depth", "max_turns", "allowed_tools"),
    ),
    ("... tools as a JSON list", lambda: '"Read","Grep"]' in e.line("spawn")),
    ("Event `complete`", lambda: e.line("complete").endswith("Subagent completed")),
    (
        "... with label, depth, turns_used, tokens_consumed, status",
        lambda: has("complete", "label", "depth", "turns_used", "tokens_consumed", "status"),
    ),
    (
        "... status is complete or incomplete",
        lambda: (
            {x.split("subagent.status=")[1].split()[0] for x in e.logged() if "event=complete" in x}
            == {"complete", "incomplete"}
        ),
    ),
    ("Event `error`", lambda: e.line("error").endswith("Subagent execution failed")),
    ("... with label, depth, error", lambda: has("error", "label", "depth", "error")),
    ("Event `max_turns_exceeded`", lambda: e.line("max_turns_exceeded").endswith("Subagent exceeded max turns")),
    ("... with label, depth, max_turns", lambda: has("max_turns_exceeded", "label", "depth", "max_turns")),
    ("Event `truncation`", lambda: e.line("truncation").endswith("Subagent output truncated")),
    (
        "... with label, original_size, truncated_size",
        lambda: has("truncation", "label", "original_size", "truncated_size"),
    ),
    ("Event `depth_limit`", lambda: e.line("depth_limit").endswith("Subagent recursion depth limit enforced")),
    ("... with label, current_depth, max_depth", lambda: has("depth_limit", "label", "current_depth", "max_depth")),
    (
        "Every line has session, subagent_id and model",
        lambda: all(x.startswith("session=testsession subagent_id=") and " model=" in x for x in e.logged()),
    ),
    ("Logging is switched on by an environment variable", lambda: e.setting(COWORK_LOG="info").log.level == "info"),
    (
        "It can be filtered by logger",
        lambda: e.setting(COWORK_LOG="cowork.subagents=debug").log.level == "cowork.subagents=debug",
    ),
    ("The variable is `RUST_LOG`", "it is `COWORK_LOG`; this is no Rust program and other tools read that name"),
    (
        "A lookup with a narrow tool and few turns",
        lambda: e.exposed('{"allowed_tools": ["Read"], "max_turns": 3}').started.tools == ("Read",),
    ),
    ("Children in sequence, each in a call of its own", lambda: len(e.five().of(e.AgentEnded)) == 5),
    ("Quota `max_executions`", lambda: e.subagent_setting("max_executions = 1").max_executions == 1),
    ("... refuses the next", lambda: executions() == "Resource quota exceeded: Execution limit reached: 1/1"),
    ("Quota `max_total_tokens`", lambda: e.subagent_setting("max_total_tokens = 5").max_total_tokens == 5),
    ("Quota `max_total_time`", lambda: e.subagent_setting("max_total_time = 5").max_total_time == 5),
    ("Tools must be available in the parent", lambda: set(tools("{}")) <= {s.name for s in e.exposed().main[0].tools}),
    (
        "A tutorial and a reference are there",
        lambda: os.path.exists(e.DOCS / "delegating.md") and os.path.exists(e.DOCS / "reference/task.md"),
    ),
]


def tools(given: str) -> list[str]:
    return list(e.exposed(given).started.tools)


def long_output(**settings: int) -> str:
    stage = e.new_stage(**settings)
    stage.tools = stage.tools.all.only()
    order = e.call("subagent", label="l", task_prompt="p")
    played = e.play([e.turn(order), e.say("ok")], {"general-purpose": [e.say("x"), e.say("é" * 6_000)]}, stage)
    return str(view_003(played.record)["output"])


def cut(**settings: int) -> int:
    return len(long_output(**settings).split("...\n\n[Result truncated")[0].encode())


def executions() -> str:
    stage = e.new_stage(max_executions=1)
    main = [e.turn(e.task()), e.turn(e.task(prompt="again")), e.say("ok")]
    return str(e.play(main, {"code-reviewer": [e.say("one")]}, stage).records[1]["error"]["message"])
