"""The conversation as content blocks, what a request cost, and calls counted. One model, converted at the edge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal

from cowork.core.frozen import frozen

Json = dict[str, Any]
Role = Literal["user", "assistant"]


def as_object(value: Any) -> Json:
    """The value if it is a JSON object, else an empty one: what files and other programs say may be anything."""
    return value if isinstance(value, dict) else {}


@frozen
class Text:
    text: str


@frozen
class Thinking:
    """Reasoning of a model. `wire` is the provider's own block, signature included, kept verbatim."""

    text: str
    wire: Json = field(default_factory=dict)
    model: str = ""


@frozen
class Image:
    media_type: str
    data: str  # base64


@frozen
class ToolUse:
    """A call the model asks for. `malformed` says why its arguments could not be read, else empty."""

    id: str
    name: str
    input: Json = field(default_factory=dict)
    malformed: str = ""


@frozen
class ToolResult:
    tool_use_id: str
    content: str | tuple[Text | Image, ...]
    is_error: bool = False


Block = Text | Thinking | Image | ToolUse | ToolResult


class Spoken:
    """What is made of blocks."""

    content: tuple[Block, ...]

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        return "".join(b.text for b in self.content if isinstance(b, Text))

    @property
    def calls(self) -> tuple[ToolUse, ...]:
        return tuple(b for b in self.content if isinstance(b, ToolUse))


@frozen
class Message(Spoken):
    role: Role
    content: tuple[Block, ...]

    @property
    def results(self) -> tuple[ToolResult, ...]:
        return tuple(b for b in self.content if isinstance(b, ToolResult))


@frozen
class Usage:
    """Tokens of one or more requests. `input_tokens` excludes cached ones on every provider."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    estimated: bool = False  # a part of them is not the service's word

    def __add__(self, other: Usage) -> Usage:
        counts: Json = {name: getattr(self, name) + getattr(other, name) for name in _COUNTS}
        return Usage(**counts, estimated=self.estimated or other.estimated)

    def __sub__(self, other: Usage) -> Usage:
        """What was used since `other`, an earlier state of the same count."""
        counts: Json = {name: getattr(self, name) - getattr(other, name) for name in _COUNTS}
        return Usage(**counts, estimated=self.estimated)

    @property
    def prompt_tokens(self) -> int:
        """All input, cached or not."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    @property
    def total(self) -> int:
        return self.prompt_tokens + self.output_tokens

    def to_dict(self) -> Json:
        """The four counts, and `estimated` only when true."""
        counts = {name: getattr(self, name) for name in _COUNTS}
        return counts | {"estimated": True} if self.estimated else counts

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Usage:
        counts: Json = {name: int(raw.get(name) or 0) for name in _COUNTS}
        return cls(**counts, estimated=raw.get("estimated") is True)


_COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")

CHARS_A_TOKEN = 4
IMAGE_TOKENS = 1_500


def estimate_tokens(*things: Message | Block) -> int:
    """About as many as a model will count for them."""
    return sum(-(-size // CHARS_A_TOKEN) + images * IMAGE_TOKENS for size, images in map(weigh, things))


def weigh(thing: Message | Block) -> tuple[int, int]:
    """(bytes, images), kept with the thing: none of them change, and all are weighed before every request."""
    kept = vars(thing)
    if "weight" not in kept:
        match thing:
            case Text(text) | Thinking(text) | ToolResult(content=str(text)):
                kept["weight"] = _size(text), 0
            case ToolUse():
                import json  # settings are read without it

                kept["weight"] = _size(thing.name) + _size(json.dumps(thing.input, ensure_ascii=False)), 0
            case Message() | ToolResult():
                weights = [weigh(part) for part in thing.content if not isinstance(part, str)]
                kept["weight"] = sum(size for size, _ in weights), sum(images for _, images in weights)
            case Image():
                kept["weight"] = 0, 1
    size, images = kept["weight"]
    return size, images


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def add_cost(a: float | None, b: float | None) -> float | None:
    """Sum of two costs in USD, where an unknown part makes the whole unknown."""
    # Rounded to a billionth, so that sums are the same in whatever order the parts are added.
    return None if a is None or b is None else round(a + b, 9)


def cost_since(now: float | None, before: float | None) -> float | None:
    """What was spent between two states of the same sum."""
    return None if now is None or before is None else add_cost(now, -before)


_KINDS: dict[str, type[Block]] = {
    "text": Text,
    "thinking": Thinking,
    "image": Image,
    "tool_use": ToolUse,
    "tool_result": ToolResult,
}
_NAMES: dict[type[Block], str] = {cls: kind for kind, cls in _KINDS.items()}
_ONLY_WHEN_SET = ("malformed", "is_error")


def block_to_dict(block: Block) -> Json:
    """The block as SPEC's JSON, which is also how the session log keeps it."""
    kind = _NAMES[type(block)]
    out: Json = {"type": kind}
    for name in type(block).__annotations__:
        value = getattr(block, name)
        if value or name not in _ONLY_WHEN_SET:
            out[_wire_name(kind, name)] = blocks_to_list(value) if isinstance(value, tuple) else value
    return out


def _wire_name(kind: str, name: str) -> str:
    return "thinking" if kind == "thinking" and name == "text" else name


def _read_content(raw: object) -> str | tuple[Block, ...]:
    return raw if isinstance(raw, str) else tuple(b for b in blocks_from_list(raw) if isinstance(b, Text | Image))


# How a field of a block or an event is read, by its annotation; what files and other programs say may be anything.
READ: dict[str, Callable[[Any], Any]] = {
    "str": lambda raw: "" if raw is None else str(raw),
    "Json": as_object,
    "bool": lambda raw: raw is True,
    "str | tuple[Text | Image, ...]": _read_content,
    "tuple[Block, ...]": lambda raw: blocks_from_list(raw),
    "tuple[Image, ...]": lambda raw: tuple(block for block in blocks_from_list(raw) if isinstance(block, Image)),
    "Usage": lambda raw: Usage.from_dict(as_object(raw)),
    **dict.fromkeys(("tuple[str, ...]", "tuple[Json, ...]"), lambda raw: tuple(raw) if isinstance(raw, list) else ()),
}


def blocks_to_list(blocks: Sequence[Block]) -> list[Json]:
    return [block_to_dict(b) for b in blocks]


def blocks_from_list(raw: object) -> tuple[Block, ...]:
    """The readable blocks of a JSON list; what is not a block, or of a newer version, is left out."""
    found: list[Block] = []
    for item in map(as_object, raw if isinstance(raw, list) else ()):
        kind = str(item.get("type"))
        if cls := _KINDS.get(kind):
            hints = cls.__annotations__.items()
            found.append(cls(**{name: READ[hint](item.get(_wire_name(kind, name))) for name, hint in hints}))
    return tuple(found)


CallOutcome = Literal["run", "failed", "denied", "unknown"]


def outcome_of(record: Mapping[str, Any]) -> CallOutcome:
    """What became of a call, read from its record."""
    if record.get("status") != "error":
        return "run"
    if (record.get("data") or {}).get("unknown_tool"):
        return "unknown"
    return "denied" if (record.get("error") or {}).get("code") == "PERMISSION_DENIED" else "failed"


class Tally:
    """The calls of one agent."""

    def __init__(self) -> None:
        self.started = 0
        self._by_tool: dict[str, dict[CallOutcome, int]] = {}

    def start(self, tool: str) -> None:
        """Note a call that begins; tools are listed in this order."""
        self.started += 1
        self._by_tool.setdefault(tool, {"run": 0, "failed": 0, "denied": 0, "unknown": 0})

    def end(self, tool: str, outcome: CallOutcome) -> None:
        """Count a call that was started."""
        self._by_tool[tool][outcome] += 1

    def total(self, *outcomes: CallOutcome) -> int:
        """How many calls had one of these outcomes; all calls when none is named."""
        return sum(counts[name] for counts in self._by_tool.values() for name in outcomes or counts)

    @property
    def nothing_ran(self) -> bool:
        """Whether no call got as far as its tool."""
        return not self.total("run", "failed")

    def summary(self) -> list[Json]:
        """`[{tool, count, failed, denied}]`; `count` is of calls that ran; `unknown` is added where it applies."""
        return [
            {"tool": tool, "count": counts["run"]}
            | {name: n for name, n in counts.items() if name in ("failed", "denied") or (name == "unknown" and n)}
            for tool, counts in self._by_tool.items()
        ]

    def line(self) -> str:
        """`3 tool calls (Read 2, Grep 1)`, or `2 tool calls (Read 1; Write 0 run, 1 denied)`."""
        calls, parts, separator = self.total(), [], ", "
        for tool, counts in self._by_tool.items():
            others = [f"{n} {name}" for name, n in counts.items() if name != "run" and n]
            if others:
                separator = "; "
            parts.append(", ".join([f"{tool} {counts['run']}" + " run" * bool(others), *others]))
        listed = f" ({separator.join(parts)})" if calls else ""
        warning = ": nothing was looked at" if self.nothing_ran else ""
        return f"{calls} tool call{'s' * (calls != 1)}{listed}{warning}"
