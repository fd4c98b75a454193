"""The question whether a folder's own files may steer, and what follows from the answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cowork.app.chat.host import ChatHost
from cowork.app.trust import fingerprint, grant, steering
from cowork.config import paths
from cowork.core.errors import UserError
from cowork.core.ports import Ask, Question


def trust_question(host: ChatHost) -> Question | None:
    """What to ask about a folder that would steer the run, if anything; nothing of it is used before."""
    root, options = host.run.root, host.options
    if options.bare or host.run.project.trusted or not (found := steering(root)):
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


async def settle_trust(host: ChatHost, question: Question, ask: Ask, join: Callable[[], None]) -> None:
    """Ask before the first prompt, then join: to the conversation as it is, or to one that uses the folder's files."""
    root = host.run.root
    seen = fingerprint(root)
    answer = await ask(question)
    if answer.choice != "no":
        if seen != fingerprint(root):  # it is not what the person looked at
            message = f"What steers in {root} changed while you were asked, or is too much to compare."
            raise UserError(message, "Start again and look once more; --trust uses it whatever it holds.")
        if answer.choice == "always":
            grant(root, host.environ)
        await host.replace_run(replace(host.options, trusted_as=seen))
    join()
    host.follow(answer)
