"""The chat: joins a run to the terminal, and starts it over where a command asks for another conversation."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import replace

from cowork.app.build import build
from cowork.app.chat.host import ChatHost
from cowork.app.run import Run, folder_of
from cowork.app.trust import fingerprint, grant, is_trusted_now, steering
from cowork.config import paths
from cowork.config.options import RunOptions
from cowork.core.errors import UserError
from cowork.core.ports import Question
from cowork.frontends.host import Options
from cowork.frontends.prompt import LinePrompt, available
from cowork.frontends.repl.repl import Repl


def chat(options: RunOptions) -> int:
    """Talk until the person leaves; gives the exit code."""
    return asyncio.run(_chat(options, os.environ))


async def _chat(options: RunOptions, environ: Mapping[str, str]) -> int:
    options = await _settle_trust(options, environ)
    host = ChatHost(options, environ, _opened)
    ui = host.run.config.ui
    repl = Repl(
        host,
        Options(
            history=None if options.no_session else paths.history_file(environ),
            keys="vi" if ui.keys == "vi" else "emacs",
            theme=ui.theme,  # type: ignore[arg-type]
            notify="off" if not ui.notify else "bell" if ui.bell else "auto",
            notify_after_s=ui.notify_after,
            title=ui.title,
            prompt=options.prompt,
        ),
        environ,
    )
    host.join(repl.on_event, repl.ask)
    try:
        return await repl.run()
    finally:
        await host.close()


def _opened(options: RunOptions, environ: Mapping[str, str], host: ChatHost) -> Run:
    return build(options, environ, ask=host.ask, sinks=[host.on_event], on_sink_failure=lambda sink, error: None)


async def _settle_trust(options: RunOptions, environ: Mapping[str, str]) -> RunOptions:
    """Ask once about a folder that would steer the run; nothing of it is used before."""
    root = folder_of(options)
    if options.bare or is_trusted_now(root, options, environ):
        return options
    found = steering(root)
    if not found or not available():
        return options
    question = Question(
        "trust",
        f"Trust {root}?",
        reason="Its own settings, agents, commands and notes would be used.",
        display={"kind": "text", "text": "\n".join(str(path) for path in found[:12])},
    )
    seen = fingerprint(root)
    answer = await LinePrompt()(question)
    if answer.choice == "no":
        return options
    if seen != fingerprint(root):  # it is not what the person looked at
        message = f"What steers in {root} changed while you were asked, or is too much to compare."
        raise UserError(message, "Start again and look once more; --trust uses it whatever it holds.")
    grant(root, environ)  # a yes is remembered until one of these files changes
    return replace(options, trusted_as=seen)
