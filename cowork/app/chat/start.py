"""The chat: joins a run to the terminal, and starts it over where a command asks for another conversation."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import replace

from cowork.app.build import build
from cowork.app.chat.host import ChatHost
from cowork.app.run import Run
from cowork.app.trust import fingerprint, grant, steering
from cowork.config import paths
from cowork.config.options import RunOptions
from cowork.core.errors import UserError
from cowork.core.ports import Question
from cowork.frontends.host import Options
from cowork.frontends.prompt import available
from cowork.frontends.repl.repl import Repl
from cowork.sessions.resume_state import rewind_points

_WARM_AFTER_S = 0.5  # the screen and the first keys come first


def chat(options: RunOptions) -> int:
    """Talk until the person leaves; gives the exit code."""
    return asyncio.run(_chat(options, os.environ))


async def _chat(options: RunOptions, environ: Mapping[str, str]) -> int:
    host = ChatHost(options, environ, _opened)
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
    question = _trust_question(host)
    asyncio.get_running_loop().call_later(_WARM_AFTER_S, host.warm)
    try:
        if question is None:
            host.join(repl.on_event, repl.ask, repl.handover)
            return await repl.run()
        return await repl.run(first=lambda: _settle_trust(host, repl, question))
    finally:
        await host.close()
        if line := resume_line(host):
            print(line)


def _opened(options: RunOptions, environ: Mapping[str, str], host: ChatHost) -> Run:
    return build(
        options, environ, ask=host.ask, sinks=[host.on_event], on_sink_failure=lambda sink, error: None, chat=True
    )


def resume_line(host: ChatHost) -> str:
    """How to go on with what was said, once the chat is left."""
    said = host.run.log is not None and bool(rewind_points(host.events))
    return f"Go on with: cowork --resume {host.run.session_id}" if said else ""


def _trust_question(host: ChatHost) -> Question | None:
    """What to ask about a folder that would steer the run, if anything; nothing of it is used before."""
    root, options = host.run.root, host.options
    if options.bare or host.run.trusted or not (found := steering(root)) or not available():
        return None
    box = host.run.permissions.sandbox
    return Question(
        "trust",
        f"Trust {paths.short(root, host.environ)}?",
        reason="Its own settings, agents, commands and notes would be used. A yes holds until one of them changes.",
        display={"kind": "text", "text": "\n".join(paths.short(path, host.environ) for path in found[:12])},
        agent="",
        mode="auto" if host.run.permissions.mode == "ask" and box is not None and box.boxes == "both" else "",
    )


async def _settle_trust(host: ChatHost, repl: Repl, question: Question) -> None:
    """Ask before the first prompt, then join: to the conversation as it is, or to one that uses the folder's files."""
    root = host.run.root
    seen = fingerprint(root)
    answer = await repl.ask(question)
    if answer.choice != "no":
        if seen != fingerprint(root):  # it is not what the person looked at
            message = f"What steers in {root} changed while you were asked, or is too much to compare."
            raise UserError(message, "Start again and look once more; --trust uses it whatever it holds.")
        if answer.choice == "always":
            grant(root, host.environ)
        await host.replace_run(replace(host.options, trusted_as=seen))
    host.join(repl.on_event, repl.ask, repl.handover)
    host.follow(answer)
