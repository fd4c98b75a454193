"""A review of the changes against a base: an agent a file finds faults, a second one tries to refute each of them."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass

from cowork.core.format import plural
from cowork.core.git import git_output, run_git
from cowork.core.secret_names import sensitive
from cowork.flows.flow import Flow

_MOST_DIFF = 200_000  # bytes of a new file


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
    diffs = {file: await _git(flow, "diff", "--relative", base, "--", file) for file in _names(flow, changed)}
    diffs |= {file: await _new(flow, file) for file in _names(flow, new)}
    diffs = {file: diff for file, diff in diffs.items() if diff}  # a repository within this one has none
    if not diffs:
        return f"Nothing differs from {base}."
    found = await asyncio.gather(*(_review(flow, file, diff, agent) for file, diff in diffs.items()))
    held = [finding for findings in found for finding in findings]
    lines = [f"- {f.file}:{f.line} {f.title}: {f.why}" for f in held]
    head = f"{plural(len(held), 'finding')} in {plural(len(diffs), 'file')}:"
    return "\n".join([head, *lines]) if held else "No findings."


def _names(flow: Flow, listed: str) -> list[str]:
    """The files of git's list that may be told: none that a rule denies, or that looks like it holds secrets."""
    run = flow.session.run
    paths = {name: run.root / name for name in listed.split("\0") if name}
    return [name for name, path in paths.items() if run.permissions.may_read(path) and not sensitive(path)]


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


async def _new(flow: Flow, file: str) -> str:
    """A file that git does not know yet, as a diff; git says by its exit code that it differs from nothing."""
    words = ("diff", "--no-index", "--", os.devnull, file)
    done = await asyncio.to_thread(run_git, flow.session.run.root, *words, environ=os.environ)
    return done.stdout[:_MOST_DIFF].decode("utf-8", "replace")


async def _git(flow: Flow, *words: str) -> str:
    return await asyncio.to_thread(git_output, flow.session.run.root, *words, environ=os.environ)
