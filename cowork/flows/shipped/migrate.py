"""The same change in many files: a task a file, in a worktree of its own, merged where a command succeeds there."""

from __future__ import annotations

import asyncio

from cowork.api.result import TaskFailed
from cowork.flows.flow import Flow


async def main(flow: Flow, files: str, prompt: str, check: str = "", agent: str = "general-purpose") -> str:
    root = flow.session.run.root
    names = sorted(str(path.relative_to(root)) for path in root.glob(files) if path.is_file())
    if not names:
        return f"No file fits {files}."
    ends = await asyncio.gather(*(_migrate(flow, name, prompt, check, agent) for name in names))
    merged = sum(end.startswith("merged") for end in ends)
    lines = [f"- {name}: {end}" for name, end in zip(names, ends, strict=True)]
    return "\n".join([f"{merged} of {len(names)} files merged:", *lines])


async def _migrate(flow: Flow, name: str, prompt: str, check: str, agent: str) -> str:
    asked = f"In the file {name}, and only there: {prompt}" + (f"\nThen `{check}` must succeed." if check else "")
    try:
        done = await flow.record(
            agent, asked, key=f"migrate {name}", description=name, isolation="worktree", check=check
        )
    except TaskFailed as failure:
        return f"failed: {failure}"
    return str((done.get("worktree") or {}).get("line", "no worktree"))
