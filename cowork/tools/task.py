"""Task and its optional twin `subagent` hand a piece of work to a child; the engine does the rest through ctx.spawn."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from cowork.core.errors import ToolError
from cowork.core.ports import AgentDef, Effect, TaskOrder, ToolRecord
from cowork.tools.base import Param, Precheck, ToolContext, tool

DEFAULT_SUMMARY = "Summarize your findings concisely"
GENERAL_PURPOSE = "general-purpose"
MAX_TURNS = 50
_MOST_SAID = 200  # characters about an agent
SUBAGENT_BYTES = 4_096  # of a result of `subagent`
_MISSING, _EMPTY = "Invalid input: missing field `{}`", "{} cannot be empty"


def _precheck(**needed: tuple[str, str]) -> Precheck:
    """Checks parameters by what is said where one is absent, and where it is blank."""

    def check(args: Mapping[str, Any]) -> None:
        for name, (absent, blank) in needed.items():
            value = args.get(name)
            if value is None or (isinstance(value, str) and not value.strip()):
                raise ToolError("INVALID_PARAM", (absent if value is None else blank).format(name))
        turns = args.get("max_turns")
        if isinstance(turns, int) and not isinstance(turns, bool) and not 1 <= turns <= MAX_TURNS:
            raise ToolError("INVALID_PARAM", f"max_turns must be between 1 and {MAX_TURNS}")

    return check


def agents_list(offers: Iterable[tuple[AgentDef, Sequence[str]]], most: Collection[str] = ()) -> str:
    """The agents a model may send out and the tools each would have, a line each; `most` are all but Task."""
    lines = []
    for agent, tools in offers:
        # The tools of a server are one, whether or not it runs: the list must not change while agents work.
        names = (f"mcp__{name.split('__')[1]}__*" if name.startswith("mcp__") else name for name in tools)
        shown = dict.fromkeys((*names, *(f"mcp__{name}__*" for name in agent.named_servers)))
        has = "all but Task" if set(tools) == set(most) else ", ".join(shown) or "no tools"
        about = agent.description
        about = about if len(about) <= _MOST_SAID else about[: _MOST_SAID - 1] + "…"
        lines.append(f"- {agent.name}: {about} ({has})")
    return "\n".join(lines)


@tool(
    "Task",
    family="delegate",
    reads=True,
    effects=lambda ctx, args: [Effect("delegate", str(args["subagent_type"]))],
    line=lambda args, cwd: str(args["description"]),
    precheck=_precheck(description=(_MISSING, _EMPTY), prompt=(_MISSING, _EMPTY), subagent_type=(_MISSING, _EMPTY)),
)
async def task(
    ctx: ToolContext,
    description: Annotated[str, Param("3-5 words", min_length=1)],
    prompt: Annotated[str, Param("All the child needs to know: it sees nothing else", min_length=1)],
    subagent_type: Annotated[str, Param("Which agent", min_length=1)],
    model: Annotated[Literal["main", "light"] | None, "light for simple work"] = None,
    summary_prompt: Annotated[str | None, "Ask for a last summary in this form"] = None,
    allowed_tools: Annotated[list[str] | None, "Narrow its tools"] = None,
    max_turns: Annotated[int | None, Param("Requests it may make", minimum=1, maximum=MAX_TURNS)] = None,
    output_schema: Annotated[dict[str, Any] | None, "JSON Schema the result must satisfy"] = None,
    run_in_background: Annotated[bool, "Go on while it works; its result comes later"] = False,
    resume: Annotated[str | None, "subagent_id to go on with"] = None,
) -> ToolRecord:
    order = TaskOrder(
        description=description,
        prompt=prompt,
        subagent_type=subagent_type,
        model=model or "",
        summary_prompt=summary_prompt or "",
        allowed_tools=None if allowed_tools is None else tuple(allowed_tools),
        max_turns=max_turns or 0,
        output_schema=output_schema,
        run_in_background=run_in_background,
        resume=resume or "",
    )
    return await _spawn(ctx, order)


@tool(
    "subagent",
    family="delegate",
    reads=True,
    effects=lambda ctx, args: [Effect("delegate", GENERAL_PURPOSE)],
    line=lambda args, cwd: str(args["label"]),
    precheck=_precheck(label=(_MISSING, _MISSING), task_prompt=(_EMPTY, _EMPTY)),
)
async def subagent(
    ctx: ToolContext,
    label: Annotated[str, Param("Identifies this subagent", min_length=1)],
    task_prompt: Annotated[str, Param("The task, self-contained", min_length=1)],
    summary_prompt: Annotated[str | None, "How to summarize the findings"] = None,
    allowed_tools: Annotated[list[str] | None, "Tool names it may use"] = None,
    max_turns: Annotated[int | None, Param("Requests it may make", minimum=1, maximum=MAX_TURNS)] = None,
) -> ToolRecord:
    order = TaskOrder(
        description=label,
        prompt=task_prompt,
        subagent_type=GENERAL_PURPOSE,
        summary_prompt=summary_prompt or DEFAULT_SUMMARY,
        allowed_tools=None if allowed_tools is None else tuple(allowed_tools),
        max_turns=max_turns or 0,
        result_bytes=SUBAGENT_BYTES,
    )
    return await _spawn(ctx, order)


async def _spawn(ctx: ToolContext, order: TaskOrder) -> ToolRecord:
    if ctx.spawn is None:
        raise ToolError("PERMISSION_DENIED", "Subagents are not available here. Do the work yourself.")
    return await ctx.spawn(ctx, order)
