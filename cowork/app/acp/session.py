"""One conversation with an editor: prompts and commands in, updates and questions out."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from cowork.app.acp.editor import EditorFiles, in_terminals
from cowork.app.chat.host import ChatHost, open_chat
from cowork.app.project import Additions
from cowork.app.run import Run
from cowork.config.run_options import RunOptions
from cowork.core import format
from cowork.core.blocks import Image, Json, as_object
from cowork.core.errors import UserError
from cowork.core.events import Event, PromptAdded, ReplyAdded, TurnEnded
from cowork.core.front_matter import mention, mentions
from cowork.core.hooks import Hooks
from cowork.core.json_rpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, Peer, RpcError
from cowork.core.ports import ABOUT, Question, mode_of
from cowork.engine.loop import Prompt
from cowork.frontends import host as pages
from cowork.frontends.acp import EditorQuestions, Updates
from cowork.frontends.dialog_choices import Choice, Step
from cowork.sessions.index import title_of
from cowork.tools.files.media import picture
from cowork.tools.shell.bash import bash

T = TypeVar("T")
AUTH_REQUIRED = -32000
_STOP_REASONS = {
    "completed": "end_turn",
    "denied": "end_turn",
    "max_turns": "max_turn_requests",
    "budget": "max_tokens",
}
_CUT = {"max_tokens": "max_tokens", "context_overflow": "max_tokens", "refusal": "refusal"}
_MOST_ROWS = 20  # of a list to choose from


class EditorSession:
    """A chat whose screen is an editor."""

    def __init__(self, options: RunOptions, environ: Mapping[str, str], peer: Peer, client: Mapping[str, Any]) -> None:
        self._peer = peer
        self.id = options.resume or options.session_id
        files = as_object(client.get("fs"))
        has_files = files.get("readTextFile") and files.get("writeTextFile")
        self._files = EditorFiles(self._request, self._family_of) if has_files else None
        self._has_terminals = client.get("terminal") is True
        self._host = ChatHost(options, environ, self._open_run)
        forms = as_object(client.get("elicitation")).get("form") is not None
        self._updates = Updates(self._host.run.root, self._update)
        self._questions = EditorQuestions(self._host.run.root, self._request, forms=forms)
        self._trust = self._host.trust_question()
        self._silent = False  # while a story is retold that the editor knows
        self._busy = self._cancelled = False
        self._ended: TurnEnded | None = None
        self._cut = ""  # how the last reply broke off
        self._titled = bool(options.resume)

    def begin(self, *, replay: bool) -> None:
        """Start, or take up, the conversation; with `replay` the editor is told all of it."""
        self._silent = not replay
        try:
            self._host.join(self._hear, self._questions.ask)
        finally:
            self._silent = False
        # after the answer that names the session
        asyncio.get_running_loop().call_soon(self._offer_commands)

    def state(self) -> Json:
        """Modes and options, as an answer that opens a session carries them."""
        modes = [{"id": mode, "name": mode, "description": ABOUT[mode]} for mode in self._host.modes()]
        current = {"currentModeId": self._host.run.permissions.mode, "availableModes": modes}
        return {"modes": current, "configOptions": self.config_options()}

    def config_options(self) -> list[Json]:
        run = self._host.run
        names = dict.fromkeys([run.agent.provider.model, "main", *(["light"] if run.config.has_light else [])])
        modes = {mode: ABOUT[mode] for mode in self._host.modes()}
        choices: dict[str, tuple[str, Mapping[str, str | None]]] = {
            "mode": (run.permissions.mode, modes),
            "model": (run.agent.provider.model, names),
        }
        return [
            {
                "id": name,
                "name": name.capitalize(),
                "category": name,
                "type": "select",
                "currentValue": current,
                "options": [{"value": v, "name": v, "description": about} for v, about in values.items()],
            }
            for name, (current, values) in choices.items()
        ]

    def set_mode(self, mode: str) -> None:
        chosen = mode_of(mode)
        if chosen not in self._host.modes():
            raise RpcError(INVALID_PARAMS, "bypass is only there when cowork is started with it.")
        self._host.set_mode(chosen)

    async def set_option(self, name: str, value: str) -> None:
        if name == "mode":
            self.set_mode(value)
        elif name == "model":
            await self._command("model", value)
        else:
            raise RpcError(INVALID_PARAMS, f"There is no option {name}.")

    async def prompt(self, blocks: Sequence[Json]) -> str:
        """Answer one prompt; gives the protocol's stop reason."""
        if self._busy:
            raise RpcError(INVALID_REQUEST, "A prompt of this session is being answered; cancel it first.")
        self._busy, self._cancelled, self._ended, self._cut = True, False, None, ""
        try:
            prompt = _prompt_of(blocks)
            if self._trust:  # the folder's files may be used from then on; the story so far is empty either way
                join = partial(self.begin, replay=False)
                await self._host.settle_trust(self._trust, lambda q: self._stoppable(self._questions.ask(q)), join)
                self._trust = None
            name, *rest = prompt.text.removeprefix("/").split(None, 1) or [""]
            is_command = prompt.text.startswith("/") and any(command.name == name for command in self._commands())
            if self._files and not self._cancelled:
                await self._stoppable(self._save_mentioned(self._files, prompt.text))
            if not self._cancelled:
                await (self._command(name, "".join(rest).strip(), prompt) if is_command else self._host.say(prompt))
            return self._stop_reason()
        except asyncio.CancelledError:
            self._host.interrupt()
            return "cancelled"
        finally:
            self._busy = False

    def cancel(self) -> None:
        """Stop the prompt that is being answered, if there is one."""
        if self._busy:
            self._cancelled = True
            self._host.interrupt()

    async def close(self) -> None:
        self.cancel()
        await self._host.close()

    def _family_of(self, name: str) -> str:
        tool = self._host.run.agent.runner.tools.all.get(name)
        return tool.family if tool else ""

    def _open_run(self, options: RunOptions, host: ChatHost) -> Run:
        run = open_chat(options, host, Additions(hooks=self._files or Hooks()))

        def is_unboxed(box: str) -> bool:
            """Whether a command that is to run in this box has the person's own rights."""
            return box == "outside" or (box != "read" and run.permissions.boxes != "both")

        tools = run.agent.runner.tools
        if self._has_terminals and bash.name in tools:
            tools.swap(in_terminals(bash, self._request, lambda *call: self._updates.show_terminal(*call), is_unboxed))
        return run

    async def _save_mentioned(self, files: EditorFiles, text: str) -> None:
        """Have the editor save what a prompt names, for it is read from disk."""
        cwd = self._host.run.agent.runner.state.cwd
        for path in (cwd / os.path.expanduser(name) for name in mentions(text)):
            if os.path.isfile(path):
                await files.save(path)

    async def _stoppable(self, work: Awaitable[T]) -> T:
        """A command or question, which a cancel of the prompt ends."""
        done: T = (await self._host.until_stopped(work)).result()
        return done

    def _commands(self) -> list[pages.Command]:
        """What makes sense without a terminal: not what opens another conversation."""
        return [command for command in self._host.commands() if not command.resets]

    async def _command(self, name: str, rest: str, given: Prompt | None = None) -> None:
        command = next(command for command in self._commands() if command.name == name)
        try:
            result = await self._stoppable(command.run(rest))
            while isinstance(result, pages.Choose):
                rows = {f"{row.label}  {row.detail}".strip(): row for row in result.rows[:_MOST_ROWS]}
                step = Step(result.title, (*(Choice(label) for label in rows), Choice("None of these", "no")))
                choice = await self._questions.choose(step, Question("questions", result.title))
                result = await result.then(rows[choice.label]) if choice and choice.label in rows else None
        except UserError as error:
            return self._say(" ".join(filter(None, (error.message, error.hint))))
        if isinstance(result, pages.PromptResult):
            return await self._host.say(replace(given or Prompt(""), text=result.text, label=result.label))
        self._say(_as_text(result))
        return None

    def _hear(self, event: Event) -> None:
        if isinstance(event, pages.ConversationOpened):
            for told in event.history:
                self._hear(told)
            return None
        if self._files:
            self._files.hear(event)
        if self._silent:
            return None
        match event:
            case PromptAdded(agent="main") if self._busy:  # the editor shows what it sent
                if not self._titled and event.source == "user":
                    self._titled = True
                    title = title_of(event.label or event.text)
                    self._update({"sessionUpdate": "session_info_update", "title": title})
                return self._say("".join(f"{line}\n" for line in event.attached), "agent_thought_chunk")
            case ReplyAdded(agent="main"):
                self._cut = _CUT.get(event.stop_reason, "")
            case TurnEnded(agent="main"):
                self._ended = event
        self._updates(event)
        if self._busy and isinstance(event, ReplyAdded | TurnEnded) and event.agent == "main":
            agent, cost = self._host.run.agent, self._host.status().cost_usd
            used = {"used": agent.transcript.tokens, "size": agent.provider.context_window}
            spent = {} if cost is None else {"cost": {"amount": cost, "currency": "USD"}}
            self._update({"sessionUpdate": "usage_update", **used, **spent})
        return None

    def _stop_reason(self) -> str:
        ended = self._ended
        if self._cancelled or (ended and ended.reason == "interrupted"):
            return "cancelled"
        if ended is None or ended.reason == "completed":
            return self._cut or "end_turn"
        if ended.reason in _STOP_REASONS:
            if message := ended.error.get("message"):
                self._say(str(message))
            return _STOP_REASONS[ended.reason]
        code = AUTH_REQUIRED if ended.reason == "auth" else INTERNAL_ERROR
        raise RpcError(code, str(ended.error.get("message") or ended.reason), {"terminalReason": ended.reason})

    def _offer_commands(self) -> None:
        offered = [
            {"name": c.name, "description": c.help, "input": {"hint": c.arguments} if c.arguments else None}
            for c in self._commands()
        ]
        self._update({"sessionUpdate": "available_commands_update", "availableCommands": offered})

    def _say(self, text: str, kind: str = "agent_message_chunk") -> None:
        if text:
            self._update({"sessionUpdate": kind, "content": {"type": "text", "text": text}})

    async def _request(self, method: str, params: Json) -> Any:
        """Ask the editor something about this session."""
        return await self._peer.request(method, {"sessionId": self.id, **params})

    def _update(self, update: Json) -> None:
        self._peer.notify("session/update", {"sessionId": self.id, "update": update})


def _prompt_of(blocks: Sequence[Json]) -> Prompt:
    """What the person wrote; files they attached by text go before it, as data."""
    prompt, was_link = Prompt(""), False
    for block in blocks:
        match block:
            case {"type": "text", "text": str(text)}:
                prompt.text += (_gap(prompt.text, text) if was_link else "") + text
            case {"type": "image", "mimeType": str(kind), "data": str(data)}:
                prompt.images += (Image(kind, data),)
            case {"type": "resource_link", "uri": str(uri)}:
                link = mention(path) if (path := _path_of(uri)) != uri else uri
                prompt.text += _gap(prompt.text, link) + link
            case {"type": "resource", "resource": {"uri": str(uri), "text": str(text)}}:
                _add_text(prompt, uri, text)
            case {"type": "resource", "resource": {"uri": str(uri), "blob": str(blob)}}:
                _add_bytes(prompt, uri, blob)
            case {"type": kind}:
                raise RpcError(INVALID_PARAMS, f"A prompt cannot hold {kind!r} content.")
        was_link = block.get("type") == "resource_link"
    return prompt


def _gap(before: str, after: str) -> str:
    """What keeps a link apart from the words around it."""
    apart = not before or before[-1].isspace() or before[-1] in "([" or after[:1].isspace() or after[:1] in ".,;:!?)]"
    return "" if apart else " "


def _add_text(prompt: Prompt, uri: str, text: str) -> None:
    attached = f'<attached name="{_path_of(uri)}">\n{text}\n</attached>'
    prompt.context = "\n\n".join(filter(None, (prompt.context, attached)))


def _add_bytes(prompt: Prompt, uri: str, blob: str) -> None:
    """A file that the editor gives as bytes: an image or a text, or a line that it was left out."""
    try:
        data = base64.b64decode(blob)
        if found := picture(data):
            prompt.images += (found.block(data),)
        elif b"\0" not in data:
            _add_text(prompt, uri, data.decode())
        else:
            raise ValueError
    except ValueError:
        prompt.attached += (f"{_path_of(uri)} · not attached: neither text nor an image",)


def _path_of(uri: str) -> str:
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme == "file" else uri


def _as_text(result: pages.CommandResult) -> str:
    """What a command gave, as Markdown."""
    match result:
        case str():
            return result
        case list() as files:
            return "\n\n".join(f"`{f.path}` {f.remark}\n```diff\n{f.diff}\n```" for f in files)
        case pages.ContextUse(parts=parts, used=used, window=window):
            rows = [f"- {name}: {format.tokens(count)}" for name, count in parts]
            return "\n".join([f"{format.tokens(used)} of {format.tokens(window)} tokens", *rows])
    return ""
