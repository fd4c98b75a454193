"""The chat: joins a run to the terminal, and starts it over where a command asks for another conversation."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from importlib import import_module
from typing import Any

from cowork.app.chat.host import ChatHost
from cowork.config import paths
from cowork.config.run_options import RunOptions
from cowork.core.hooks import EndReason
from cowork.frontends.host import Options
from cowork.frontends.prompt import available
from cowork.frontends.repl.repl import WARM_AFTER_S, Repl
from cowork.sessions.resume_state import rewind_points

# What the first calls of tools load on use. On the event loop that would hold up the screen.
_FIRST_CALLS = (
    *("cowork.permissions.commands", "cowork.tools.search.ripgrep"),
    *("cowork.tools.files.match", "cowork.tools.files.atomic_write", "cowork.engine.changed_files"),
)


async def chat(options: RunOptions, beside: Callable[[Repl], Coroutine[Any, Any, None]] | None = None) -> int:
    """Talk until the person leaves; gives the exit code. `beside` goes on meanwhile, such as a hand that types."""
    environ = os.environ
    host = ChatHost(options, environ)
    ui = host.run.config.ui
    repl = Repl(
        host,
        Options(
            history=None if options.no_session else paths.history_file(environ),
            keys="vi" if ui.keys == "vi" else "emacs",
            theme=ui.theme,  # type: ignore[arg-type]
            notify="off" if not ui.notify else "bell" if ui.bell else "auto",
            notify_by="777" if environ.get("TERM", "").startswith(("rxvt", "foot")) else "9",
            notify_after_s=ui.notify_after,
            title=ui.title,
            prompt=options.prompt,
        ),
        environ,
    )
    question = host.trust_question() if available() else None
    asyncio.get_running_loop().call_later(WARM_AFTER_S, _warm_up, host)
    why: EndReason = "other"
    other = asyncio.ensure_future(beside(repl)) if beside else None
    try:

        def join() -> None:
            host.join(repl.on_event, repl.ask, repl.terminal)

        if question is None:
            join()
        code = await repl.run(first=(lambda: host.settle_trust(question, repl.ask, join)) if question else None)
        why = "other" if code else "prompt_input_exit"
        return code
    finally:
        if other is not None:
            other.cancel()
        await host.close(why)
        if host.run.log and rewind_points(host.run.agent.transcript):
            print(f"Go on with: cowork --resume {host.run.session_id}")


def _warm_up(host: ChatHost) -> None:
    """Have ready what the first turn needs, while the person reads and writes."""
    if host.run.checkpoints:
        host.run.checkpoints.warm()
    asyncio.get_running_loop().run_in_executor(None, lambda: [import_module(name) for name in _FIRST_CALLS])
