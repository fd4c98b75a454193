"""Puts a run together from options, configuration and files."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from cowork import prompts
from cowork.app import logs
from cowork.app.extend.hooks import ProjectHooks
from cowork.app.project import Additions, Project, any_servers, load_project, start_notes
from cowork.app.run import Models, Run, nobody
from cowork.app.safety import KeptFiles, Worktrees, safety, tighten
from cowork.config import paths
from cowork.config.load import Config
from cowork.config.run_options import RunOptions
from cowork.core.blocks import Json, Usage
from cowork.core.errors import UserError, os_error_as
from cowork.core.events import AgentEnded, AgentStarted, Event, Notice
from cowork.core.hooks import HookGroup, Hooks
from cowork.core.later import later
from cowork.core.ports import Ask, Emit
from cowork.core.transcript import Transcript, fold
from cowork.core.workspace import Workspace, load_json
from cowork.engine.assembly import AgentSpec, Rights, Services
from cowork.engine.budget import Ledger, Limits
from cowork.engine.compaction import Compaction
from cowork.engine.emitter import Emitter, SinkFailed
from cowork.engine.loop import Agent
from cowork.engine.subagents.children import Subagents
from cowork.sessions.log.reader import events_of
from cowork.sessions.log.writer import OUTPUTS, SessionLog, drop_old_outputs, is_id, new_id
from cowork.tool_names import is_tool_word
from cowork.tools.ask import ask_user, exit_plan
from cowork.tools.task import subagent
from cowork.tools.toolset import ToolSet

with later(__name__):  # loaded only where they are used
    from cowork.app.mcp.servers import McpRun
    from cowork.sessions import index
    from cowork.sessions.log.writer import fork, origins
    from cowork.telemetry import TelemetryExport
    from cowork.tools.json_schema import schema_problems


def build(
    options: RunOptions,
    environ: Mapping[str, str],
    *,
    ask: Ask | None = None,
    sinks: Sequence[Emit] = (),
    on_sink_failure: SinkFailed = lambda sink, error: None,
    chat: bool = False,
    program: Additions | None = None,
) -> Run:
    """A run that is ready for its first prompt. Without `ask` nobody is there: what would ask is denied.

    In a chat an answer does not wait for background children, and log lines stay off the screen. A `program` that
    builds a run keeps what belongs to its process, such as where log lines go.
    """
    place = load_project(options, environ, program)
    config = place.config
    if program is None:
        logs.set_up(config.log.level, config.log.file)
    schema = _output_schema(options.output_schema)
    log, troubles = _open_session(place)
    try:
        emitter = Emitter(
            log.id if log else options.session_id or new_id(),
            first_id=log.loaded.last_id + 1 if log else 1,
            on_failure=on_sink_failure,
        )
        if log:
            emitter.add(log if config.agent.subagent.persistence_enabled else lambda event: _keep_main(log, event))
        run = _join(place, log, emitter, ask, program.hooks if program else Hooks(), waits=not chat)
    except BaseException:
        if log:
            log.close()  # nothing was said in it, so it leaves no trace
        raise
    run.output_schema = schema
    notes = () if options.replay else start_notes(config, environ)
    run.notes = tuple(Notice(text, "info", "start") for text in notes)
    run.notes += tuple(Notice(text, "warning", "stdin") for text in options.notes)
    run.notes += tuple(Notice(text, "warning", "session.trouble") for text in troubles)
    if chat and config.log.level and not config.log.file:
        file = (log.folder if log else run.tree.scratch) / "log.txt"
        logs.set_up(config.log.level, str(file))
        run.notes += (Notice(f"Log lines go to {file}.", "info", "start"),)
    if config.telemetry.otel:
        run.telemetry = _telemetry(place, run)
    for sink in (run.keep_warning, *sinks):
        emitter.add(sink)
    return run


def _telemetry(place: Project, run: Run) -> TelemetryExport | None:
    """Spans and metrics of the run; its commands learn which call they belong to."""
    try:
        from cowork.telemetry import TelemetryExport, is_disabled
    except ImportError as error:
        raise UserError("telemetry.otel needs OpenTelemetry.", "Install it: pip install 'cowork[otel]'") from error
    if is_disabled(place.environ):
        return None
    export = TelemetryExport(place.environ, content=place.config.telemetry.content)
    run.emitter.add(export.sink)
    run.tree.call_environ = export.sink.traceparent
    return export


def _join(
    place: Project, log: SessionLog | None, emitter: Emitter, ask: Ask | None, hooks: Hooks, *, waits: bool
) -> Run:
    """Models, tools, permissions and children around one conversation."""
    config, past = place.config, log.loaded.events if log else ()
    scratch = log.folder / OUTPUTS if log else Path(tempfile.mkdtemp(prefix="cowork-"))
    workspace = _workspace(place, log, past, scratch)
    models = Models(config, place.options, place.root, place.environ)
    kept_files = _kept_files(place, log, emitter)
    permissions, tree = safety(place, workspace, scratch, emitter, kept_files)
    mcp = McpRun(place, ask, lambda: run) if any_servers(place) else None
    limits = Limits(config.limits.max_tokens, config.limits.max_cost_usd)
    ledger = Ledger(limits, near=lambda text: emitter.publish(Notice(text, "warning", "budget.near")))
    compaction = Compaction(prompts.text_of("compact"), config.compaction.auto, config.compaction.threshold)
    services = Services(
        emitter=emitter,
        ask=ask or nobody,
        workspace=workspace,
        tree=tree,
        permit_for=lambda modes: tighten(permissions, modes),
        model=models,
        compact=compaction,
        hooks=HookGroup([hooks, ProjectHooks(place, lambda: run), place.invoker.withheld]),
        isolate=Worktrees(place, emitter, permissions, tree),
        recall=lambda path: _recall(log, path),
        prepare=mcp.ready_for if mcp else None,
    )
    # Children go on being numbered where the past ended.
    numbers = [event.subagent_id.rpartition("-")[2] for event in past if isinstance(event, AgentStarted)]
    last = max((int(number) for number in numbers if number.isdecimal()), default=0)
    subagents = Subagents(services, place.agents, config.agent.subagent, ledger, first_number=last + 1)
    place.invoker.subagents = subagents
    if kept_files:
        emitter.add(kept_files)
    transcript = fold(past, recall=(lambda: events_of(log.path, "main")) if log else None)
    emitter.add(transcript.apply)
    main = _main_agent(place, subagents, ledger, transcript, waits=waits)
    run = Run(place, main, subagents, permissions, models, compaction, log, kept_files, mcp)
    return run


def _workspace(place: Project, log: SessionLog | None, past: Sequence[Event], scratch: Path) -> Workspace:
    """The folders that file tools may use; long outputs of this session and of those it came from can be read."""
    names = [origin for origin in origins(past) if is_id(origin)] if past else []
    earlier = [log.folder.parent / name / OUTPUTS for name in names] if log else []
    added = [Path(folder).expanduser() for folder in place.config.permissions.add_dirs]
    own = (paths.config_dir(place.environ), paths.state_dir(place.environ))
    workspace = Workspace(place.root, added, readable=[scratch, *earlier], own=own)
    workspace.lend(s.folder for s in place.invoker.extensions.skills.values() if s.kind == "skill")
    return workspace


def choose_tools(tools: ToolSet, config: Config, *, person: bool = True) -> ToolSet:
    """The tools the configuration leaves; unknown names are a mistake worth a word."""
    enabled, disabled = config.tools.enabled, config.tools.disabled
    for name in (*enabled, *disabled):
        if not is_tool_word(name, tools):
            raise UserError(f"There is no tool {name!r}.", f"The tools are {', '.join(tools)}.")
    hidden = [] if config.agent.subagent.expose_subagent_tool else [subagent.name]
    hidden += [] if person else [ask_user.name]
    return tools.only(enabled or None, refused=(*disabled, *hidden))


def _main_agent(place: Project, subagents: Subagents, ledger: Ledger, transcript: Transcript, *, waits: bool) -> Agent:
    options, config, services = place.options, place.config, subagents.services
    tools = choose_tools(place.tools, config, person=services.ask is not nobody)
    role = place.agents.find(options.agent) if options.agent else None
    if options.agent and role is None:
        raise UserError(f"There is no agent {options.agent!r}.", f"The agents are {', '.join(sorted(place.agents))}.")
    if role:
        tools = tools.only(role.tools, refused=role.disallowed_tools)
    provider, tier = services.model(options.model or (role.model if role and role.model != "inherit" else "main"))
    if options.model not in ("", "main", "light", "offline") and provider.name == "offline":
        raise UserError(
            f"No service is known for the model {options.model!r}.",
            "Say where it is: --provider and a key, or LLM_BASE_URL; `cowork config init` finds local servers.",
        )
    if config.limits.max_cost_usd and provider.price(Usage(1, 1)) is None:
        raise UserError(
            f"--max-cost needs prices, and none are known for {provider.model}.",
            f'Set [pricing."{provider.model}"] in the configuration.',
        )
    modes = (role.permission_mode,) if role else ()
    offered = Rights("main", tools.only(refused=[exit_plan.name]), services.permit_for(modes)).offers(
        place.agents, config.agent.subagent
    )
    system = role.role if role else prompts.system_prompt([definition for definition, _ in offered])
    spec = AgentSpec(
        "main",
        provider,
        "\n\n".join(p for p in (system, options.system_prompt_append) if p),
        tools,
        ledger,
        transcript,
        place.root,
        session_id=services.emitter.session_id,
        max_turns=config.limits.max_turns,
        waits=waits,
        tier=tier,
        modes=modes,
        kept_tools=(exit_plan.name,),  # the plan is the main agent's
    )
    return subagents.add(spec)


def _kept_files(place: Project, log: SessionLog | None, emitter: Emitter) -> KeptFiles | None:
    """What /rewind brings back. A full disk and the like are said, once, as notices."""

    def say(text: str) -> None:
        emitter.publish(Notice(text, "warning", "session.trouble"))

    if log is None:
        return None
    log.report = say
    extra = [Path(d).expanduser() for d in place.config.permissions.add_dirs]
    return KeptFiles(log.folder / "checkpoints", place.root, extra, say) if place.config.session.checkpoints else None


def _open_session(place: Project) -> tuple[SessionLog | None, list[str]]:
    """A new log, or the one to go on with, none where nothing is kept; and what a person should know about it."""
    options = place.options
    sessions = paths.sessions_dir(place.environ)
    if options.continue_ or options.resume:
        if options.continue_ and options.resume:
            raise UserError("--continue and --resume each name a session to go on with.", "Leave one of them out.")
        if options.no_session:
            raise UserError("--no-session stores nothing, so it cannot go on with a session.", "Leave one of them out.")
        entry = index.find(sessions, options.resume) if options.resume else index.latest(sessions, place.root)
        if options.fork:
            entry = index.find(sessions, fork(sessions, entry.id))
        hint = f"`cowork sessions show {entry.id}` still reads it."
        with os_error_as(f"Session {entry.id} cannot be written", hint):
            log = SessionLog.open(sessions, entry.id)
        log.summary = entry.summary
        return log, []
    if options.fork:
        raise UserError("--fork needs a session to copy.", "Name it with --resume ID, or use --continue.")
    if not place.config.session.enabled:
        return None, []
    try:
        log = SessionLog.create(sessions, options.session_id)
        if days := place.config.session.retention_days:
            index.prune(sessions, keep_days=days)
        kept = place.config.session.output_days
        said = drop_old_outputs(sessions, kept) if kept else ""
        return log, [said] if said else []
    except OSError as error:
        return None, [f"This conversation is not kept: {sessions} cannot be written ({error.strerror})."]


def _keep_main(log: SessionLog, event: Event) -> None:
    """Keep of children only that they were sent out and what they came to."""
    if event.agent == "main" or isinstance(event, AgentStarted | AgentEnded):
        log(event)


def _recall(log: SessionLog | None, path: str) -> Transcript | None:
    """A child's conversation from the log."""
    if log is None:
        return None
    log.sync()
    return fold(events_of(log.path, path), path)


def _output_schema(path: Path | None) -> Json | None:
    if path is None:
        return None
    try:
        with os_error_as(f"--output-schema: {path} cannot be read"):
            schema = load_json(path)
    except ValueError as error:
        raise UserError(f"--output-schema: {path} is not JSON: {error}.") from error
    wrong = schema_problems(schema) if isinstance(schema, dict) else ["not an object"]
    if wrong:
        raise UserError(f"--output-schema: {path} is not a JSON Schema: {'; '.join(wrong)}.")
    return dict(schema)
