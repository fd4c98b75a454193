"""The script a scripted model plays: YAML or JSON read into turns, with exact errors. docs/scripts.md explains it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

from cowork.core.blocks import Json, ToolUse, Usage
from cowork.core.errors import ProviderError, ProviderErrorKind, UserError
from cowork.core.frozen import frozen
from cowork.core.later import later
from cowork.core.ports import StopReason
from cowork.core.workspace import parse_json, read_whole

with later(__name__):
    from cowork.providers.errors import kind_of_status

At = Literal["before", "first", "middle", "last"]


@frozen
class Fault:
    """How one try of a turn fails, and where in the stream."""

    at: At
    error: Callable[..., ProviderError]  # called with the usage


@frozen
class Turn:
    """One answer. Its faults come first, one a try; a turn of nothing but faults is over with the last of them."""

    say: str = ""
    think: str = ""
    calls: tuple[ToolUse, ...] = ()
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


def load_script(path: str | Path) -> Script:
    """The script in a YAML or JSON file."""
    try:
        text = read_whole(Path(path)).decode()
        raw = parse_json(text) if str(path).endswith(".json") else yaml.safe_load(text)
    except OSError as e:
        raise UserError(f"Cannot read the script {path}: {e.strerror}", "Give the path of a YAML or JSON file.") from e
    except (ValueError, RecursionError, yaml.YAMLError) as e:
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
    rates = {"input", "output", "cache_read", "cache_write"}
    prices = _mapping(head["price"], f"{where}: price", rates) if head.get("price") else None
    return Script(
        main=_turns(head.get("main") or [], f"{where}: main", pace),
        agents={agent_key(str(n)): _scenes(s, f"{where}: agents.{n}", pace) for n, s in agents.items()},
        asides=_scenes(head.get("asides") or [], f"{where}: asides", pace),
        model=str(head.get("model") or ""),
        context_window=int(_number(head.get("context_window", 0), f"{where}: context_window")),
        max_output_tokens=int(_number(head.get("max_output_tokens", 0), f"{where}: max_output_tokens")),
        price=prices and {name: _number(value, f"{where}: price.{name}") for name, value in prices.items()},
        resume=head.get("resume") is True,
    )


def agent_key(name: str) -> str:
    """A name as agents are selected: ignoring case, `-` and `_`."""
    return name.lower().replace("-", "").replace("_", "")


def _scenes(raw: object, where: str, pace: Json) -> tuple[ScriptScene, ...]:
    """A list of turns, or of `{match, turns}`."""
    if not isinstance(raw, list):
        raise UserError(f"{where}: expected a list")
    if not all(isinstance(item, dict) and "turns" in item for item in raw):
        return (ScriptScene("", _turns(raw, where, pace)),)
    scenes = [(f"{where}[{i}]", _mapping(item, f"{where}[{i}]", {"match", "turns"})) for i, item in enumerate(raw)]
    return tuple(ScriptScene(str(s.get("match", "")), _turns(s["turns"], f"{at}.turns", pace)) for at, s in scenes)


def _turns(raw: object, where: str, pace: Json) -> tuple[Turn, ...]:
    if not isinstance(raw, list):
        raise UserError(f"{where}: expected a list of turns")
    return tuple(_turn(item, f"{where}[{i}]", pace) for i, item in enumerate(raw))


_TURN_KEYS = {"say", "think", "call", "calls", "usage", "stop_reason", "chunks", "delay_ms", "fault", "expect", "take"}


def _turn(raw: object, where: str, pace: Json) -> Turn:
    if isinstance(raw, str):
        raw = {"say": raw}
    given = {**pace, **_mapping(raw, where, _TURN_KEYS)}
    calls = _calls(given, where)
    stop = given.get("stop_reason") or ("tool_use" if calls else "end_turn")
    expect = given.get("expect") or {}
    expect = {"contains": expect} if isinstance(expect, str | list) else _mapping(expect, where, {"contains", "lacks"})
    faults = _faults(given.get("fault"), f"{where}.fault")
    usage = given.get("usage")
    return Turn(
        say=str(given.get("say") or ""),
        think=str(given.get("think") or ""),
        calls=calls,
        stop_reason=_choice(stop, f"{where}.stop_reason", get_args(StopReason)),
        usage=None if usage is None else Usage.from_dict(_mapping(usage, f"{where}.usage", set(Usage.__annotations__))),
        chunks=int(_number(given.get("chunks", 0), f"{where}.chunks")),
        delay_ms=_number(given.get("delay_ms", 0), f"{where}.delay_ms"),
        faults=faults,
        answers=not faults or not {"say", "think", "call", "calls", "stop_reason"}.isdisjoint(given),
        contains=_strings(expect.get("contains", ())),
        lacks=_strings(expect.get("lacks", ())),
        take={str(k): str(v) for k, v in _mapping(given.get("take") or {}, f"{where}.take").items()},
    )


def _calls(turn: Json, where: str) -> tuple[ToolUse, ...]:
    """`call: {Tool: {args}}`, and `calls`, a list of those or of `{name, input, id?, malformed?}`."""
    listed = turn.get("calls") or []
    if not isinstance(listed, list):
        raise UserError(f"{where}.calls: expected a list of calls")
    calls: list[ToolUse] = []
    places = {f"{where}.call": turn.get("call") or {}, **{f"{where}.calls[{i}]": item for i, item in enumerate(listed)}}
    for at, raw in places.items():
        item = _mapping(raw, at)
        if isinstance(item.get("name"), str):
            _mapping(item, at, {"name", "input", "id", "malformed"})
            args = _mapping(item.get("input") or {}, f"{at}.input")
            calls.append(ToolUse(str(item.get("id", "")), item["name"], args, str(item.get("malformed", ""))))
        else:
            calls += [ToolUse("", str(name), _mapping(args or {}, f"{at}.{name}")) for name, args in item.items()]
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
    wait = given.get("retry_after")
    error = partial(
        ProviderError,
        _choice(kind, f"{where}.kind", get_args(ProviderErrorKind)),
        str(given.get("message") or f"scripted fault: {f'HTTP {status}' if status else kind}"),
        status=status,
        retry_after=None if wait is None else _number(wait, f"{where}.retry_after"),
    )
    fault = Fault(_choice(given.get("at") or "before", f"{where}.at", get_args(At)), error)
    return (fault,) * int(_number(given.get("times", 1), f"{where}.times"))


def _choice(raw: Any, where: str, known: Sequence[str]) -> Any:
    if raw not in known:
        raise UserError(f"{where}: {raw!r} is none of {', '.join(known)}")
    return raw


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
