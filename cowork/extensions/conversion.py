"""What other agent programs write, as cowork writes it. What would not mean the same is said, never guessed."""

from __future__ import annotations

import re

WHOLE_WORDS = "whole words only"  # covers less than before
_RENAMED = {"AskUserQuestion": "AskUser", "KillShell": "KillBash", "TaskStop": "KillBash", "TaskOutput": "BashOutput"}
# `git push * --force`: a rule that refuses or asks finds options wherever they stand.
_OPTIONS_LAST = re.compile(r"([^*]*\w)(?: \*)+((?: --?[A-Za-z][\w-]*)+)(?::\*)?")


def rules_of(text: str, *, guard: bool) -> tuple[list[str], str]:
    """Claude's permission rule as rules of cowork, and what is different about them.

    A guard, which refuses or asks, may come to cover more than before, a rule that allows only less. Whether they are
    rules at all is not asked here.
    """
    tool, bracket, rest = text.strip().partition("(")
    tool, pattern = _RENAMED.get(tool, tool), rest.removesuffix(")")
    if not bracket:
        return [tool], ""
    if tool != "Bash":
        if not pattern.startswith("/"):
            return [f"{tool}({pattern})"], ""
        if pattern.startswith("//"):  # from the root of the file system
            return [f"{tool}({pattern[1:]})"], ""
        here = f"{tool}(.{pattern})"  # from that of the project; people also mean the other one
        return ([here, f"{tool}({pattern})"], "here and from /") if guard else ([here], "")
    wanted, why = re.sub(r" \*$", ":*", pattern), ""
    if re.search(r"\w\*$", wanted):
        letters = guard and re.search(r" -[A-Za-z]+\*$", wanted)  # which it finds among others
        wanted, why = f"{wanted[:-1]}:*", "" if letters else WHOLE_WORDS
    elif guard and (found := _OPTIONS_LAST.fullmatch(wanted)):
        wanted, why = f"{found[1]}{found[2]}:*", "whatever stands between"
    elif guard and (found := re.fullmatch(r"([^*]*\S) \S*[^\s\w*:]\*", wanted)):  # `rm -rf /*`, `dd if=*`
        wanted, why = f"{found[1]}:*", "whatever follows"
    return [f"{tool}({wanted})"], why
