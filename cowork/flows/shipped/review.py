"""A review of the changes against a base: an agent a file finds faults, a second one tries to refute each of them."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass

from cowork.core.format import plural
from cowork.core.git import git_output, run_git
from cowork.flows.flow import Flow


@dataclass
class Finding:
    """Something wrong in a change."""

    file: str
    line: int
    title: str
    why: str


@dataclass
class Findings:
    findings: list[Finding]


@dataclass
class Verdict:
    """What a second look says of a finding."""

    holds: bool
    reason: str


async def main(flow: Flow, base: str = "HEAD", agent: str = "explore") -> str:
    changed = await _git(flow, "diff", "--relative", "--name-only", "-z", base)
    new = await _git(flow, "ls-files", "--others", "--exclude-standard", "-z")
    diffs = {file: await _git(flow, "diff", "--relative", base, "--", file) for file in _names(changed)}
    diffs |= {file: await _git(flow, "diff", "--no-index", "--", os.devnull, file) for file in _names(new)}
    diffs = {file: diff for file, diff in diffs.items() if diff}  # a repository within this one has none
    if not diffs:
        return f"Nothing differs from {base}."
    found = await asyncio.gather(*(_review(flow, file, diff, agent) for file, diff in diffs.items()))
    held = [finding for findings in found for finding in findings]
    lines = [f"- {f.file}:{f.line} {f.title}: {f.why}" for f in held]
    head = f"{plural(len(held), 'finding')} in {plural(len(diffs), 'file')}:"
    return "\n".join([head, *lines]) if held else "No findings."


def _names(listed: str) -> list[str]:
    return [name for name in listed.split("\0") if name]


async def _review(flow: Flow, file: str, diff: str, agent: str) -> list[Finding]:
    prompt = (
        "Find real faults in this change: wrong results, crashes, lost data, security. No matters of taste. "
        f"Read around it before you judge. No findings is a good answer.\n\n```diff\n{diff}\n```"
    )
    found = await flow.task(agent, prompt, schema=Findings, key=f"find {file}", description=f"review {file}")
    verdicts = await asyncio.gather(*(_refute(flow, finding, diff, agent) for finding in found.findings))
    return [finding for finding, verdict in zip(found.findings, verdicts, strict=True) if verdict.holds]


async def _refute(flow: Flow, finding: Finding, diff: str, agent: str) -> Verdict:
    prompt = (
        f"Somebody says of {finding.file}:{finding.line}: {finding.title}. {finding.why}\n"
        "Try to refute it: read the code, look for what makes it impossible. It holds only if you cannot."
        f"\n\n```diff\n{diff}\n```"
    )
    key = f"refute {finding.file}:{finding.line} {finding.title}"
    return await flow.task(agent, prompt, schema=Verdict, key=key, description=f"check {finding.title}")


async def _git(flow: Flow, *words: str) -> str:
    if "--no-index" in words:  # which says by its exit code that files differ
        done = await asyncio.to_thread(run_git, flow.session.run.root, *words, environ=os.environ)
        return done.stdout.decode("utf-8", "surrogateescape")
    return await asyncio.to_thread(git_output, flow.session.run.root, *words, environ=os.environ)
