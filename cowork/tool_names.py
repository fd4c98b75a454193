"""Names of tools as people and other programs write them in lists and rules."""

from __future__ import annotations

from collections.abc import Container, Mapping

from cowork.core.ports import Family

# Words for several tools at once, where a list names tools.
TOOL_GROUPS: Mapping[str, tuple[Family, ...]] = {
    "file_ops": ("read", "search", "write"),
    "terminal": ("exec",),
    "fetch": ("fetch",),
}

# Tools a run may be without, for want of a service, a server or a skill; lists and rules may name them all the same.
OPTIONAL_TOOLS: Mapping[str, Family] = {
    "WebFetch": "fetch",
    "WebSearch": "fetch",
    "Skill": "other",
    "ToolSearch": "other",
    "ListMcpResources": "other",
    "ReadMcpResource": "other",
}

# What other programs call tools of ours, and tools of theirs that have no counterpart here.
PEER_NAMES: Mapping[str, str] = {
    "Agent": "Task",
    "KillShell": "KillBash",
    "AskUserQuestion": "AskUser",
    "ListMcpResourcesTool": "ListMcpResources",
    "ReadMcpResourceTool": "ReadMcpResource",
}
PEER_TOOLS = frozenset(
    {"NotebookEdit", "NotebookRead", "EnterPlanMode", "ExitPlanMode", "EnterWorktree", "ExitWorktree", "SlashCommand"}
    | {"TaskCreate", "TaskGet", "TaskList", "TaskOutput", "TaskStop", "TaskUpdate", "SendMessage", "Monitor", "LSP"}
)


def tool_names(name: str) -> tuple[str, ...]:
    """A tool's name, and those that other programs have for it."""
    return (name, *(peer for peer, ours in PEER_NAMES.items() if ours == name))


def is_tool_word(word: str, names: Container[str]) -> bool:
    """Whether a word of a list can name tools, given the names there are; those of a server may come later."""
    word = PEER_NAMES.get(word, word)
    return word in names or word in TOOL_GROUPS or word in OPTIONAL_TOOLS or word == "*" or word.startswith("mcp__")


def names_tool(word: str, name: str) -> bool:
    """Whether a word of a rule or a list is this tool's name; `mcp__git` and `mcp__git__*` are all of that server."""
    if not word.startswith("mcp__"):
        return word == name
    return word == name or name.startswith(word[:-1] if word.endswith("*") else f"{word}__")
