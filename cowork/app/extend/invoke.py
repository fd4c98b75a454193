"""Skills and commands at work: fills in their text, runs what it wants run, asks for grants, sends out children."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from cowork import prompts
from cowork.app.extend.hooks import WithheldTools
from cowork.app.steering import SKILL_TOOL, Places
from cowork.core.blocks import Json, ToolUse
from cowork.core.errors import ToolError, UserError
from cowork.core.events import Notice, PromptAdded, ReplyAdded
from cowork.core.front_matter import mentions
from cowork.core.later import later
from cowork.core.ports import AgentDef, Effect, Question, TaskOrder, ToolRecord, ok
from cowork.engine.loop import Agent, Outcome, Prompt
from cowork.engine.runner import Runner
from cowork.engine.subagents.children import Subagents
from cowork.extensions.finder import Extensions, stamp
from cowork.extensions.skills import Skill
from cowork.permissions.rules import parse
from cowork.tools.base import Tool, ToolContext
from cowork.tools.task import GENERAL_PURPOSE

with later(__name__):
    from cowork.extensions.skills import pieces

REPORT = "That was asked for with {name}. Give the result to the user."
MOST_FILES = 20  # that a text may bring in by @path
MOST_BESIDE = 40  # files beside a skill that are listed


class Invoker:
    """Carries out the skills and commands of a run, for people and for models."""

    def __init__(
        self,
        places: Places,
        look_again: Callable[[], Places],
        tools: Collection[str],
        root: Path,
        *,
        shipped: bool,
        agents: Sequence[AgentDef] = (),
    ) -> None:
        self.root, self.shipped = root, shipped
        self.places, self._look_again, self._tools = places, look_again, tuple(tools)
        self._added = agents  # by the program that runs it
        self._stamp: frozenset[tuple[str, int, int]] | None = None  # taken with the second look: many need no more
        self.extensions = self._find_all()
        self.subagents: Subagents | None = None  # joined when the run is
        self.withheld = WithheldTools()
        self._asked: set[tuple[str, ...]] = set()  # grants that were asked about, whatever was said

    def refresh(self) -> Notice | None:
        """Look again if a file changed since the last look; gives what became of it, in a line."""
        if stamp(self.places.folders) == self._stamp:
            return None
        before, self.places = self.extensions, self._look_again()
        self._stamp = stamp(self.places.folders)
        self.extensions = self._find_all()
        return changes(before, self.extensions)

    def _find_all(self) -> Extensions:
        found = self.places.find(self._tools)
        return replace(found, agents=found.agents.with_added(self._added)) if self._added else found

    def _find(self, text: str) -> tuple[Skill, str] | None:
        """The skill or command that `/name …` calls, and what is typed after it."""
        name, *typed = text[1:].split(None, 1) if text.startswith("/") and text[1:].strip() else ("",)
        skill = self.extensions.skills.get(name)
        return (skill, "".join(typed)) if skill and skill.for_people else None

    async def ask(
        self, agent: Agent, prompt: Prompt, model: Callable[[str], Any], say: Callable[[Prompt], Awaitable[Outcome]]
    ) -> Outcome:
        """Answer a prompt; where it calls a skill or command, `say` answers the text that stands for."""
        found = self._find(prompt.text)
        if found is None:
            return await say(prompt)
        skill, typed = found
        prompt.label = prompt.label or prompt.text
        try:
            # What the person named goes along with the prompt already; a child is told no more than the text.
            attached = set() if skill.fork else {line.partition(" · ")[0] for line in prompt.attached}
            prompt.text = await self._fill(skill, typed, agent.runner, attached)
        except ToolError as error:
            raise UserError(error.text) from error
        before = agent.provider
        if skill.model and not skill.fork:
            agent.provider, _ = model(skill.model)
        try:
            with self.withheld.withhold_in_block(skill, agent.path):
                if skill.fork:
                    await self._send_out(skill, prompt, agent)
                    prompt = Prompt(REPORT.format(name=prompt.label), prompt.context, source="system", label="skill")
                return await say(prompt)
        finally:
            agent.provider = before

    async def _send_out(self, skill: Skill, prompt: Prompt, agent: Agent) -> None:
        """Let a child do it, in the conversation a Task call as any other."""
        order = {"description": skill.name, "prompt": prompt.text, "subagent_type": skill.agent or GENERAL_PURPOSE}
        if skill.model in ("main", "light"):
            order["model"] = skill.model
        call = ToolUse(f"skill_{uuid4().hex[:8]}", "Task", order)
        agent.emit(PromptAdded(prompt.label, prompt.context, label=prompt.label))
        agent.emit(ReplyAdded((call,), "tool_use", cost_usd=0.0, model=agent.provider.model))
        await agent.runner.run([call])

    def tool(self) -> Tool | None:
        """Skill, with the catalogue in its description; None where there is nothing to call."""
        skills = self.extensions.skills_for_model(shipped=self.shipped)
        if not skills:
            return None
        schema: Json = {
            "type": "object",
            "properties": {
                "skill": {"type": "string", "enum": [skill.name for skill in skills]},
                "args": {"type": "string", "description": "What to apply it to"},
            },
            "required": ["skill"],
            "additionalProperties": False,
        }
        lines = "\n".join(skill.line for skill in skills)
        return Tool(
            SKILL_TOOL,
            f"{prompts.text_of('tools/Skill')}\n{lines}",
            schema,
            self._call,
            self._effects,
            reads=True,
            tell=lambda args, cwd: f"{args['skill']} {args.get('args', '')}".strip(),
        )

    def _effects(self, ctx: ToolContext, args: Any) -> list[Effect]:
        skill = self.extensions.skills.get(str(args["skill"]))
        return [Effect("delegate", skill.agent or GENERAL_PURPOSE)] if skill and skill.fork else [Effect("none")]

    async def _call(self, ctx: ToolContext, skill: str, args: str = "") -> ToolRecord:
        found = self.extensions.skills.get(skill)
        if found is None or not found.for_model:
            raise ToolError("NOT_FOUND", f"There is no skill {skill!r} any more.")
        assert self.subagents is not None
        agent = self.subagents.agent(ctx.agent)
        text = await self._fill(found, args, agent.runner)
        prompt = agent.since
        if not found.fork:
            self.withheld.withhold(found, agent.path, lambda: agent.since != prompt)
            return ok(f"{text}{_beside(found)}", skill=skill)
        if ctx.spawn is None:
            raise ToolError("PERMISSION_DENIED", "This skill needs a subagent, and you cannot send out any.")
        model = found.model if found.model in ("main", "light") else ""
        with self.withheld.withhold_in_block(found, agent.path):
            return await ctx.spawn(ctx, TaskOrder(found.name, text, found.agent or GENERAL_PURPOSE, model))

    async def _fill(self, skill: Skill, typed: str, runner: Runner, attached: Collection[str] = ()) -> str:
        """The text with its arguments, its commands' output and its files. Each is judged as a call of the agent."""
        await self._ask_grants(skill, runner)
        own = str(skill.folder)
        known = {"CLAUDE_SKILL_DIR": own, "SKILL_DIR": own, "CLAUDE_PROJECT_DIR": str(self.root)}
        if skill.plugin:
            root = next((p.root for p in self.extensions.plugins if p.name == skill.plugin), skill.folder)
            known |= {"CLAUDE_PLUGIN_ROOT": str(root), "PLUGIN_ROOT": str(root)}
        parts, files = list[str](), list[str]()
        for kind, text in pieces(skill, typed, known):
            if kind == "command":
                parts.append(await _output(runner, "Bash", {"command": text}, f"`{text}` of /{skill.name}"))
            else:
                parts.append(text)
                cwd = runner.state.cwd
                named = mentions(text, markdown=True)
                files += [name for name in named if os.path.isfile(cwd / os.path.expanduser(name))]
        for name in dict.fromkeys(name for name in files[:MOST_FILES] if name not in attached):
            content = await _output(runner, "Read", {"file_path": name}, f"@{name} of /{skill.name}")
            parts.append(f'\n\n<file path="{name}">\n{content}\n</file>')
        if skill.disallowed_tools:
            parts.append(f"\n\nDo not use these tools for it: {', '.join(skill.disallowed_tools)}.")
        return "".join(parts)

    async def _ask_grants(self, skill: Skill, runner: Runner) -> None:
        """What it wants to use unasked is granted for this session, once, and only if the person says so."""
        rules = list(dict.fromkeys(filter(None, map(_rule, skill.allowed_tools))))
        key = (skill.name, *rules)
        if not rules or key in self._asked:
            return
        self._asked.add(key)
        answer = await runner.put(
            Question(
                "permission",
                f"Let /{skill.name} use these unasked?",
                agent=runner.agent,
                tool=SKILL_TOOL,
                input={"skill": skill.name, "allowed_tools": rules},
                reason=f"{skill.path} asks for it; it would hold for this session",
                session_rule=", ".join(rules),
                display={"kind": "text", "text": "\n".join(rules)},
                line=skill.name,
                once=False,
            )
        )
        if answer.granted:
            for rule in rules:
                runner.permit.grant(runner.agent, rule, forever=False)


def _rule(text: str) -> str:
    """A tool as skills name it, as a rule: `Bash(git add *)` is `Bash(git add:*)`. Empty: it is none."""
    rule = text[:-3] + ":*)" if text.endswith(" *)") else text
    try:
        return str(parse(rule))
    except UserError:
        return ""


async def _output(runner: Runner, tool: str, args: Json, what: str) -> str:
    """What a call that a text wants made says; ToolError when it may not be, or cannot."""
    record = await runner.run_aside(tool, args)
    if record.status == "error":
        raise ToolError("PERMISSION_DENIED", f"{what} was not run: {record.text}", reason=record.text)
    return record.text


def _beside(skill: Skill) -> str:
    """Where its other files are, for the model to Read when it needs them."""
    found = sorted(p for p in skill.folder.rglob("*") if p.is_file() and p != skill.path)[: MOST_BESIDE + 1]
    if not found:
        return ""
    names = [str(path.relative_to(skill.folder)) for path in found[:MOST_BESIDE]]
    more = " and more" if len(found) > MOST_BESIDE else ""
    return f"\n\nFiles of this skill, in {skill.folder}: {', '.join(names)}{more}."


def changes(before: Extensions, now: Extensions) -> Notice | None:
    """What a reload added and took away, in a line; None when nothing that people can see."""
    had, has = ({(row.kind, row.name) for row in found.rows()} for found in (before, now))
    said = [f"{kind} {name}" for kind, name in sorted(has - had)]
    said += [f"{kind} {name} gone" for kind, name in sorted(had - has)]
    changed = sum(before.skills.get(name, skill) != skill for name, skill in now.skills.items())
    said += [f"{changed} changed"] if changed else []
    if not said:
        return None
    return Notice(f"Extensions: {', '.join(said[:8])}{' …' if len(said) > 8 else ''}", code="extensions.changed")
