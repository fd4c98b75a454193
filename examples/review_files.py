"""Many agents at once, each with a typed result and a budget for all: python examples/review_files.py *.py"""

import asyncio
import sys
from dataclasses import dataclass, field

import cowork


@dataclass
class Review:
    file: str
    line: int
    why: str
    others: list[str] = field(default_factory=list)


REVIEWER = cowork.AgentDef("reviewer", "Finds the worst fault of a file.", "You review code. Read before you judge.",
                           tools=("Read", "Grep", "Glob"))  # fmt: skip


async def main() -> None:
    files = sys.argv[1:] or ["app.py"]
    async with cowork.Session(agents=[REVIEWER], budget=1.0) as session:
        tasks = [session.task("reviewer", f"What is the worst fault in {file}?", schema=Review) for file in files]
        for found in await asyncio.gather(*tasks, return_exceptions=True):
            print(found if isinstance(found, BaseException) else f"{found.file}:{found.line} {found.why}")
        print(f"${session.cost or 0:.4f}", file=sys.stderr)


if __name__ == "__main__":
    asyncio.run(main())
