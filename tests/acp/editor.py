"""An editor, played with the protocol's own Python client, which refuses frames that its schema does not allow."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import acp
from acp import schema

from tests.fakes.command import COWORK, QUIET

Choose = Callable[[str, list[Any]], str]  # title and options -> the kind, or the start of the name, to choose


@dataclass
class Editor:
    """Keeps what it is told, and answers questions as the test wants."""

    choose: Choose = lambda title, options: "allow_once"
    updates: list[Any] = field(default_factory=list)
    asked: list[Any] = field(default_factory=list)
    forms: list[Any] = field(default_factory=list)
    buffers: dict[str, str] = field(default_factory=dict)  # unsaved texts
    saved: dict[str, str] = field(default_factory=dict)
    on_update: Callable[[Any], None] = lambda update: None
    agent: Any = None
    process: Any = None

    def on_connect(self, conn: Any) -> None: ...

    async def session_update(self, session_id: str, update: Any, **rest: Any) -> None:
        self.updates.append(update)
        self.on_update(update)

    async def request_permission(self, session_id: str, tool_call: Any, options: list[Any], **rest: Any) -> Any:
        self.asked.append(tool_call)
        wanted = self.choose(tool_call.title or "", options)
        for option in options:
            if option.kind == wanted or option.name.startswith(wanted):
                return schema.RequestPermissionResponse(
                    outcome=schema.AllowedOutcome(outcome="selected", option_id=option.option_id)
                )
        return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))

    async def create_elicitation(self, message: str, mode: Any, **rest: Any) -> Any:
        self.forms.append(message)
        return schema.AcceptElicitationResponse(action="accept", content={"text": "as I say"})

    async def read_text_file(self, session_id: str, path: str, line: Any = None, limit: Any = None, **rest: Any) -> Any:
        if path not in self.buffers:
            raise acp.RequestError.resource_not_found(path)
        return schema.ReadTextFileResponse(content=self.buffers[path])

    async def write_text_file(self, session_id: str, path: str, content: str, **rest: Any) -> Any:
        self.saved[path] = content
        Path(path).write_text(content)
        return schema.WriteTextFileResponse()

    def text(self, kind: str = "agent_message_chunk") -> str:
        return "".join(u.content.text for u in self.updates if u.session_update == kind)

    def of(self, kind: str) -> list[Any]:
        return [u for u in self.updates if u.session_update == kind]

    async def say(self, session_id: str, *blocks: Any) -> str:
        """One prompt; gives the stop reason."""
        prompt = [acp.text_block(b) if isinstance(b, str) else b for b in blocks]
        answer = await self.agent.prompt(session_id=session_id, prompt=prompt)
        return str(answer.stop_reason)


@dataclass
class Desk:
    """A folder to work in, a home, and a script to play."""

    folder: Path

    def __post_init__(self) -> None:
        self.work, self.home = self.folder / "work", self.folder / "home"
        self.work.mkdir()
        self.home.mkdir(mode=0o700)

    @asynccontextmanager
    async def editor(
        self, script: object, *words: str, can: Any = None, kind: type[Editor] = Editor, **given: Any
    ) -> AsyncIterator[Editor]:
        """An editor that has started `cowork acp` and said hello."""
        file = self.folder / "script.yaml"
        file.write_text(json.dumps(script))
        editor = kind(**given)
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "COWORK_HOME": str(self.home),
            "SURVIVOR_MARK": str(self.folder),
            **QUIET,
        }
        words = ("--script", str(file), *words)
        limits = {"transport_kwargs": {"limit": 2**24, "shutdown_timeout": 100}, "use_unstable_protocol": True}
        async with acp.spawn_agent_process(editor, str(COWORK), "acp", *words, env=env, **limits) as (agent, process):
            editor.agent, editor.process = agent, process
            editor.hello = await agent.initialize(  # type: ignore[attr-defined]
                protocol_version=acp.PROTOCOL_VERSION, client_capabilities=can or schema.ClientCapabilities()
            )
            yield editor

    async def within(self, work: Any, seconds: float = 60) -> Any:
        return await asyncio.wait_for(work, seconds)
