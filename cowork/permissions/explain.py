"""Says of a command where it would run, whether anybody is asked, and why; nothing is run."""

from __future__ import annotations

from pathlib import Path

from cowork.core.blocks import Json
from cowork.core.hygiene import visible_line
from cowork.core.ports import Decision, Effect, ToolFacts
from cowork.permissions import Permissions

_BOXES = {
    "read": "in the read box: it can change nothing, send nothing and see no secrets",
    "masked": "in the write box: it can write the workspace, has no network and sees no secrets",
    "write": "in the write box: it can write the workspace and has no network",
    "network": "in the write box with the network, without the workspace's secrets",
    "outside": "outside the sandbox, with your own rights",
    "": "with your own rights",
}


def explain(permissions: Permissions, tool: ToolFacts, command: str, cwd: Path) -> Json:
    """The decision for a command, its parts, its box and why."""
    decision = permissions.judge("main", tool, {"command": command}, [Effect("exec", command, str(cwd))])
    box = decision.box if permissions.scene().boxes == "both" or decision.box == "read" else ""
    return {
        "verdict": decision.verdict,
        "box": box if decision.verdict != "deny" else "",
        "why": decision.reason,
        "rule": decision.rule,
        "parts": decision.display.get("parts", []),
        "text": _said(decision, box),
    }


def explain_text(found: Json) -> str:
    """The same as lines for people."""
    marks = {"allow": "looks or allowed", "ask": "asks", "deny": "refused"}
    lines = [f"{marks[p['verdict']]:17} {visible_line(p['text'])}   ({visible_line(p['why'])})" for p in found["parts"]]
    return "\n".join([*lines, visible_line(found["text"])])


def _said(decision: Decision, box: str) -> str:
    if decision.verdict == "deny":
        return f"It does not run: {decision.reason}."
    if decision.verdict == "allow":
        return f"It runs unasked {_BOXES[box]}."
    rule = f" Always would add {decision.rule}." if decision.rule else ""
    return f"It asks ({decision.reason}), and with a yes runs {_BOXES[box]}.{rule}"
