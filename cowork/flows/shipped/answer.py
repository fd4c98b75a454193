"""Three agents answer a question apart from each other; a judge gives the best of it."""

from __future__ import annotations

import asyncio

from cowork.flows.flow import Flow

_WAYS = (
    "Start from the code: read what is there, and answer from that alone.",
    "Start from the tests, the history and the documentation, then check against the code.",
    "Start from what usually goes wrong in such cases, and look for it here.",
)


async def main(flow: Flow, question: str, agent: str = "general-purpose") -> str:
    ways = enumerate(_WAYS, 1)
    answers = await asyncio.gather(
        *(flow.task(agent, f"{question}\n\n{way}", key=f"answer-{n}", description=f"answer {n}") for n, way in ways)
    )
    listed = "\n\n".join(f"## Answer {n}\n{text}" for n, text in enumerate(answers, 1))
    prompt = (
        f"{question}\n\nThree agents answered this on their own. Where they differ, look yourself and decide. "
        f"Write the one best answer, with file and line for what it says.\n\n{listed}"
    )
    return await flow.task(agent, prompt, key="judge", description="judge")
