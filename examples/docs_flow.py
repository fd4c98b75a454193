"""A flow: cowork flow run examples/docs_flow.py 'src/**/*.py'

Each file is summed up by a light agent; files that are hard to understand get a second look; one agent writes the page.
"""

from dataclasses import dataclass
from pathlib import Path

from cowork import Flow


@dataclass
class Summary:
    file: str
    why: str
    line: int = 0  # of the hardest part; 0: none is hard


async def main(flow: Flow, files: str = "*.py") -> str:
    root = flow.session.run.root
    names = sorted(str(path.relative_to(root)) for path in root.glob(files))
    summaries = await flow.map(
        "explore", names, lambda name: f"Sum up what {name} is for.", schema=Summary, key=lambda name: f"sum up {name}"
    )
    for summary in summaries:
        if summary.line:
            more = await flow.task("explore", f"Explain {summary.file} around line {summary.line}.", key=summary.file)
            summary.why += f"\n  {more}"
    listed = "\n".join(f"- {summary.file}: {summary.why}" for summary in summaries)
    page = await flow.task("general", f"Write an overview of this program from:\n{listed}", key="page")
    Path(root / "OVERVIEW.md").write_text(page)
    return f"OVERVIEW.md, {len(page)} characters"
