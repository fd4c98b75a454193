"""The script a scripted model plays: YAML or JSON read into turns, with exact errors. docs/scripts.md explains it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

from cowork.core.blocks import Json, Usage
from cowork.core.errors import ProviderError, ProviderErrorKind, UserError
from cowork.core.frozen import frozen
from cowork.core.later import later
from cowork.core.ports import StopReason

with later(__name__):
    from cowork.providers.errors import kind_of_status

At = Literal["before", "first", "middle", "last"]

_KINDS = frozenset(get_args(ProviderErrorKind))
_PLACES = frozenset(get_args(At))
_STOPS = frozenset(get_args(StopReason))


@frozen
class Fault:
    """How one try of a turn fails, and where in the stream."""

    kind: ProviderErrorKind
    message: str
    at: At = "before"
    status: int | None = None
    retry_after: float | None = None

    def error(self, usage: Usage) -> ProviderError:
        return ProviderError(self.kind, self.message, status=self.status, retry_after=self.retry_after, usage=usage)


@frozen
class ScriptedCall:
    name: str
    input: Json
    id: str = ""
    malformed: str = ""


@frozen
class Turn:
    """One answer. Its faults come first, one a try; a turn of nothing but faults is over with the last of them."""

    say: str = ""
    think: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    stop_reason: StopReason = "end_turn"
    usage: Usage | None = None
    chunks: int = 0
    delay_ms: float = 0.0
    faults: tuple[Fault, ...] = ()
    answers: bool = True
    contains: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    take: Mapping[str, str] = field(default_factory=dict)


@frozen
class ScriptScene:
    """Turns for the conversations whose text contains `match`; an empty match fits any."""

    match: str
    turns: tuple[Turn, ...]


@frozen
class Script:
    main: tuple[Turn, ...]
    agents: Mapping[str, tuple[ScriptScene, ...]] = field(default_factory=dict)
    asides: tuple[ScriptScene, ...] = ()
    model: str = ""
    context_window: int = 0
    max_output_tokens: int = 0
    price: Mapping[str, float] | None = None
    resume: bool = False

    def turns(self) -> Iterator[Turn]:
        """Every turn of every part."""
        yield from self.main
        for scenes in (*self.agents.values(), self.asides):
            for scene in scenes:
                yield from scene.turns


def load_script(path: str | Path) -> Script:
    """The script in a YAML or JSON file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        raw = json.loads(text) if str(path).endswith(".json") else yaml.safe_load(text)
    except OSError as e:
        raise UserError(f"Cannot read the script {path}: {e.strerror}", "Give the path of a YAML or JSON file.") from e
    except (ValueError, yaml.YAMLError) as e:
        raise UserError(f"The script {path} does not parse: {' '.join(str(e).split())}") from e
    return parse_script(raw, str(path))


def parse_script(raw: object, where: str = "script") -> Script:
    """The script a list of turns, or a mapping with `main` and `agents`, stands for."""
    if isinstance(raw, list):
        raw = {"main": raw}
    known = {"main", "agents", "asides", "model", "context_window", "max_output_tokens", "price", "resume"}
    head = _mapping(raw, where, known | {"delay_ms", "chunks"})
    pace: Json = {key: head[key] for key in ("delay_ms", "chunks") if key in head}
    agents = _mapping(head.get("agents") or {}, f"{where}: agents")
    return Script(
        main=_turns(head.get("main") or [], f"{where}: main", pace),
        agents={agent_key(str(n)): _scenes(s, f"{where}: agents.{n}", pace) for n, s in agents.items()},
        asides=_scenes(head.get("asides") or [], f"{where}: asides", pace),
        model=str(head.get("model") or ""),
        context_window=int(_number(head.get("context_window", 0), f"{where}: context_window")),
        max_output_tokens=int(_number(head.get("max_output_tokens", 0), f"{where}: max_output_tokens")),
        price=_price(head.get("price"), f"{where}: price"),
        resume=head.get("resume") is True,
    )


def agent_key(name: str) -> str:
    """A name as agents are selected: ignoring case, `-` and `_`."""
    return name.lower().replace("-", "").replace("_", "")


# ---------------------------------------------------------------- parts


def _scenes(raw: object, where: str, pace: Json) -> tuple[ScriptScene, ...]:
    """A list of turns, or of `{match, turns}`."""
    if not isinstance(raw, list):
        raise UserError(f"{where}: expected a list")
    if not raw or not all(isinstance(item, dict) and "turns" in item for item in raw):
        return (ScriptScene("", _turns(raw, where, pace)),) if raw else ()
    scenes = []
    for i, item in enumerate(raw):
        at = f"{where}[{i}]"
        _mapping(item, at, {"match", "turns"})
        scenes.append(ScriptScene(str(item.get("match", "")), _turns(item["turns"], f"{at}.turns", pace)))
    return tuple(scenes)


def _turns(raw: object, where: str, pace: Json) -> tuple[Turn, ...]:
    if not isinstance(raw, list):
        raise UserError(f"{where}: expected a list of turns")
    return tuple(_turn(item, f"{where}[{i}]", pace) for i, item in enumerate(raw))


_TURN_KEYS = {"say", "think", "call", "calls", "usage", "stop_reason", "chunks", "delay_ms", "fault", "expect", "take"}


def _turn(raw: object, where: str, pace: Json) -> Turn:
    if isinstance(raw, Turn):
        return raw
    if isinstance(raw, str):
        raw = {"say": raw}
    given = {**pace, **_mapping(raw, where, _TURN_KEYS)}
    calls = (*_call_map(given.get("call") or {}, f"{where}.call"), *_calls(given.get("calls") or [], f"{where}.calls"))
    stop: Any = given.get("stop_reason") or ("tool_use" if calls else "end_turn")
    if stop not in _STOPS:
        raise UserError(f"{where}.stop_reason: {stop!r} is none of {', '.join(sorted(_STOPS))}")
    expect = given.get("expect") or {}
    expect = {"contains": expect} if isinstance(expect, str | list) else _mapping(expect, where, {"contains", "lacks"})
    faults = _faults(given.get("fault"), f"{where}.fault")
    usage = given.get("usage")
    return Turn(
        say=str(given.get("say") or ""),
        think=str(given.get("think") or ""),
        calls=calls,
        stop_reason=stop,
        usage=None if usage is None else Usage.from_dict(_mapping(usage, f"{where}.usage", set(Usage.__annotations__))),
        chunks=int(_number(given.get("chunks", 0), f"{where}.chunks")),
        delay_ms=_number(given.get("delay_ms", 0), f"{where}.delay_ms"),
        faults=faults,
        answers=not faults or not {"say", "think", "call", "calls", "stop_reason"}.isdisjoint(given),
        contains=_strings(expect.get("contains", ())),
        lacks=_strings(expect.get("lacks", ())),
        take={str(k): str(v) for k, v in _mapping(given.get("take") or {}, f"{where}.take").items()},
    )


def _call_map(raw: object, where: str) -> tuple[ScriptedCall, ...]:
    """`{Tool: {args}}`, one or more."""
    found = _mapping(raw, where)
    return tuple(ScriptedCall(str(name), _mapping(args or {}, f"{where}.{name}")) for name, args in found.items())


def _calls(raw: object, where: str) -> tuple[ScriptedCall, ...]:
    """A list of `{name, input, id?, malformed?}` or of `{Tool: {args}}`."""
    if not isinstance(raw, list):
        raise UserError(f"{where}: expected a list of calls")
    calls: list[ScriptedCall] = []
    for i, item in enumerate(raw):
        at = f"{where}[{i}]"
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            calls.extend(_call_map(item, at))
            continue
        _mapping(item, at, {"name", "input", "id", "malformed"})
        args = _mapping(item.get("input") or {}, f"{at}.input")
        calls.append(ScriptedCall(item["name"], args, str(item.get("id", "")), str(item.get("malformed", ""))))
    return tuple(calls)


def _faults(raw: object, where: str) -> tuple[Fault, ...]:
    """A kind, a status, a mapping, or a list of those: one fault a try, `times` of them when said."""
    if raw is None:
        return ()
    if isinstance(raw, list):
        return tuple(fault for i, item in enumerate(raw) for fault in _faults(item, f"{where}[{i}]"))
    if isinstance(raw, int | str):
        raw = {"status" if isinstance(raw, int) else "kind": raw}
    given = _mapping(raw, where, {"kind", "status", "at", "retry_after", "message", "times"})
    status = given.get("status")
    if status is not None and not isinstance(status, int):
        raise UserError(f"{where}.status: {status!r} is not a number")
    kind = given.get("kind") or ("server" if status is None else kind_of_status(status))
    if kind not in _KINDS:
        raise UserError(f"{where}.kind: {kind!r} is none of {', '.join(sorted(_KINDS))}")
    at: Any = given.get("at") or "before"
    if at not in _PLACES:
        raise UserError(f"{where}.at: {at!r} is none of before, first, middle, last")
    wait = given.get("retry_after")
    fault = Fault(
        kind=kind,
        message=str(given.get("message") or f"scripted fault: {f'HTTP {status}' if status else kind}"),
        at=at,
        status=status,
        retry_after=None if wait is None else _number(wait, f"{where}.retry_after"),
    )
    return (fault,) * int(_number(given.get("times", 1), f"{where}.times"))


def _price(raw: object, where: str) -> Mapping[str, float] | None:
    if raw is None:
        return None
    given = _mapping(raw, where, {"input", "output", "cache_read", "cache_write"})
    return {name: _number(value, f"{where}.{name}") for name, value in given.items()}


def _mapping(raw: object, where: str, known: set[str] | None = None) -> Json:
    if not isinstance(raw, dict):
        raise UserError(f"{where}: expected a mapping, not {type(raw).__name__}")
    for key in raw:
        if known is not None and key not in known:
            raise UserError(f"{where}: unknown key {key!r}", f"Known here: {', '.join(sorted(known))}.")
    return raw


def _number(raw: Any, where: str) -> float:
    if isinstance(raw, bool) or not isinstance(raw, int | float) or raw < 0:
        raise UserError(f"{where}: {raw!r} is not a number of at least 0")
    return float(raw)


def _strings(raw: object) -> tuple[str, ...]:
    return (raw,) if isinstance(raw, str) else tuple(str(item) for item in raw) if isinstance(raw, list | tuple) else ()
