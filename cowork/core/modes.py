"""The permission modes: how much happens without a question."""

from __future__ import annotations

from cowork.core.errors import UserError

ABOUT = {
    "ask": "Reads freely and asks before it writes or runs something.",
    "accept-edits": "Writes files in the workspace without asking; commands still ask.",
    "auto": "Also runs commands unasked that the sandbox holds to the workspace; what leaves it asks.",
    "plan": "Reads and thinks, writes nothing: for a plan you want to see first.",
    "bypass": "Asks nothing. Only for a machine or container you can lose.",
}
MODES = tuple(ABOUT)
LOOSE_TO_STRICT = ("bypass", "auto", "accept-edits", "ask", "plan")
_SPELLINGS = {"default": "ask", "acceptedits": "accept-edits", "bypasspermissions": "bypass", "dontask": "ask"}


def mode_of(text: str) -> str:
    """The mode a word stands for, also as other agents spell it."""
    name = text.strip().replace("_", "-")
    mode = _SPELLINGS.get(name.casefold().replace("-", ""), name.casefold())
    if mode not in MODES:
        raise UserError(f"{text!r} is not a permission mode.", f"Modes: {', '.join(MODES)}.")
    return mode


def tighter(one: str, other: str) -> str:
    """The stricter of two modes."""
    return max(one, other, key=LOOSE_TO_STRICT.index)
