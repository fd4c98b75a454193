"""A conversation with one server, in whichever era it speaks: handshake, lists, calls, questions, changes."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from cowork.core.blocks import Json, as_object
from cowork.core.format import one_line
from cowork.core.json_rpc import UNKNOWN_METHOD, RpcError
from cowork.mcp import protocol
from cowork.mcp.protocol import LEGACY, MODERN, Background, Channel, Elicit, LoginNeeded, McpError, ServerGone

CONNECT_S = 30.0
SILENCE_S = 300.0  # that a call may be silent; progress counts as a word
_MOST_ITEMS, _MOST_PAGES = 10_000, 1_000
_MOST_ROUNDS = 8  # of questions a server may ask before it answers one request
_LISTENS = 5
_LIST_S = 60.0
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_MAY_TAKE_LONG = ("tools/call", "prompts/get", "resources/read")
_MODERN_META: Json = {  # what every request of the stateless revision carries
    f"{protocol.META}protocolVersion": MODERN,
    f"{protocol.META}clientInfo": protocol.CLIENT_INFO,
    f"{protocol.META}clientCapabilities": protocol.CAPABILITIES,
}

Progress = Callable[[str], None]


class McpClient:
    """One connected server."""

    def __init__(
        self,
        channel: Channel,
        *,
        elicit: Elicit,
        changed: Callable[[str], None] = lambda what: None,
        warn: Callable[[str], None] = lambda text: None,
        silence_s: float = 0.0,
    ) -> None:
        self.facts: protocol.ServerFacts  # once it is connected
        self._channel, self._elicit, self._changed, self._warn = channel, elicit, changed, warn
        self._silence_s = silence_s or SILENCE_S
        self._tokens = count(1)
        self._progress: dict[int, tuple[Progress, asyncio.Timeout]] = {}  # by token
        self._headers: dict[str, dict[str, tuple[str, ...]]] = {}  # tool -> header -> path in the arguments
        self._tasks = Background()
        channel.attach(self._serve, self._hear)

    async def connect(self, era: str = "") -> protocol.ServerFacts:
        """Open the connection and agree on a version; `era` is the last one: `modern`, `legacy` or empty."""
        try:
            async with asyncio.timeout(CONNECT_S):
                await self._channel.open()
                self.facts = await self._shake_hands(era)
        except BaseException as error:
            await self._channel.aclose()
            if isinstance(error, TimeoutError):
                raise McpError(f"did not answer within {CONNECT_S:g} s") from None
            raise
        return self.facts

    async def follow(self) -> None:
        """Hear of changes, where the server tells them."""
        lists = {what: as_object(self.facts.capabilities.get(what)) for what in ("tools", "prompts", "resources")}
        wanted = {f"{what}ListChanged": True for what, facts in lists.items() if facts.get("listChanged") is True}
        if self.facts.version != MODERN:
            await self._channel.listen()
        elif wanted:
            self._tasks.start(self._subscribe(wanted))

    async def aclose(self) -> None:
        await self._tasks.stop()
        await self._channel.aclose()

    async def tools(self) -> list[Json]:
        """Its tools; one whose header marks are wrong is left out where they would matter."""
        kept: list[Json] = []
        for tool in await self.listed("tools"):
            name, schema = tool.get("name"), tool.get("inputSchema")
            if not isinstance(name, str) or not name or not isinstance(schema, dict):
                self._warn(f"a tool without a name or a schema is left out: {one_line(str(name), 60)}")
                continue
            try:
                self._headers[name] = header_paths(schema) if self._channel.remote else {}
                kept.append(tool)
            except ValueError as problem:
                self._warn(f"the tool {one_line(name, 60)} is left out: {problem}")
        return kept

    async def templates(self) -> list[Json]:
        with contextlib.suppress(McpError):  # few have them
            return await self.listed("resources", "resources/templates/list", "resourceTemplates")
        return []

    async def call(self, tool: str, arguments: Json, progress: Progress = lambda text: None) -> Json:
        """The result of a tool. Its list is asked for again where the headers it wants have changed."""
        for again in (True, False):
            headers = headers_for(self._headers.get(tool, {}), arguments) if self.facts.version == MODERN else {}
            try:
                return await self._rounds("tools/call", {"name": tool, "arguments": arguments}, headers, progress)
            except McpError as error:
                if error.code != protocol.HEADER_MISMATCH or not again:
                    raise
            await self.tools()
        raise AssertionError  # the last try returns or raises

    async def prompt(self, name: str, arguments: Json) -> Json:
        return await self._rounds("prompts/get", {"name": name, "arguments": arguments})

    async def read(self, uri: str) -> Json:
        return await self._rounds("resources/read", {"uri": uri})

    async def listed(self, what: str, method: str = "", key: str = "") -> list[Json]:
        """All pages of a list; a server that turns in circles or never ends is stopped."""
        if not self.facts.can(what):
            return []
        found: list[Json] = []
        seen: set[str] = set()
        cursor = ""
        for _ in range(_MOST_PAGES):
            answer = await self._ask(method or f"{what}/list", {"cursor": cursor} if cursor else {})
            items = answer.get(key or what)
            if not isinstance(items, list):
                raise McpError(f"answered {method or f'{what}/list'} without a list")
            found += [item for item in items if isinstance(item, dict)]
            following = answer.get("nextCursor")
            if len(found) >= _MOST_ITEMS or (isinstance(following, str) and following in seen):
                self._warn(f"its list of {what} has no end; {min(len(found), _MOST_ITEMS):,} are used")
                break
            if not isinstance(following, str) or not following:
                break
            seen.add(cursor := following)
        return found[:_MOST_ITEMS]

    async def _rounds(
        self, method: str, params: Json, headers: dict[str, str] | None = None, progress: Progress | None = None
    ) -> Json:
        """A request whose answer may be questions: they are answered and the request is made again."""
        given = dict(params)
        for _ in range(_MOST_ROUNDS):
            found = await self._ask(method, given, headers, progress)
            if found.get("resultType", "complete") == "complete":
                return found
            if found["resultType"] != "input_required" or not (found.keys() & {"inputRequests", "requestState"}):
                raise McpError(f"answered with {one_line(str(found['resultType']), 40)}, which means nothing")
            wanted = found.get("inputRequests")
            given = dict(params)
            if isinstance(wanted, dict):
                given["inputResponses"] = {key: await self._answer(item) for key, item in wanted.items()}
            if "requestState" in found:
                given["requestState"] = found["requestState"]
        raise McpError(f"asked for more {_MOST_ROUNDS} times and never answered")

    async def _answer(self, wanted: Any) -> Json:
        method, params = (wanted.get("method"), wanted.get("params")) if isinstance(wanted, dict) else ("", None)
        if method != "elicitation/create" or not isinstance(params, dict):
            raise McpError(f"asks for {one_line(str(method), 40)}, which cowork does not offer")
        return await self._elicit(params)

    async def _ask(
        self, method: str, params: Json, headers: dict[str, str] | None = None, progress: Progress | None = None
    ) -> Json:
        token = next(self._tokens)
        meta = _MODERN_META if self._channel.version == MODERN else {}
        if progress:
            meta = meta | {"progressToken": token}
        if meta:
            params = params | {"_meta": meta}
        seconds = self._silence_s if method in _MAY_TAKE_LONG else _LIST_S if method.endswith("/list") else None
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                if progress:
                    self._progress[token] = (progress, limit)
                return await self._channel.request(method, params, headers or {})
        except TimeoutError:
            if not limit.expired():
                raise
            raise McpError(f"was silent for {seconds:g} s; the request was cancelled") from None
        finally:
            self._progress.pop(token, None)

    async def _shake_hands(self, era: str) -> protocol.ServerFacts:
        """The specification would probe a local server first; that wakes servers which are lazy, so it comes last."""
        ways = [self._discover, self._initialize]
        if era == "legacy" or (era != "modern" and not self._channel.remote):
            ways.reverse()
        refusals: list[str] = []
        for way in ways:
            try:
                return await way()
            except (LoginNeeded, ServerGone):
                raise
            except McpError as refusal:
                if refusal.code == protocol.UNSUPPORTED_VERSION:
                    return await self._agree(refusal)
                if refusal.code in protocol.MODERN_ERRORS and self._channel.version == MODERN:
                    raise
                refusals.append(str(refusal))
        raise McpError(f"speaks no version of MCP that cowork knows ({'; '.join(refusals)})")

    async def _agree(self, refusal: McpError) -> protocol.ServerFacts:
        supported = refusal.data.get("supported") if isinstance(refusal.data, dict) else None
        known = [v for v in (MODERN, *LEGACY) if isinstance(supported, list) and v in supported]
        if not known:
            raise McpError(f"speaks no version of MCP that cowork knows ({one_line(str(supported), 100)})")
        return await (self._discover() if known[0] == MODERN else self._initialize(known[0]))

    async def _initialize(self, version: str = LEGACY[0]) -> protocol.ServerFacts:
        self._channel.version = ""
        params = {"protocolVersion": version, "capabilities": protocol.CAPABILITIES, "clientInfo": protocol.CLIENT_INFO}
        answer = await self._ask("initialize", params)
        chosen = answer.get("protocolVersion")
        if chosen not in LEGACY:
            raise McpError(f"speaks version {one_line(str(chosen), 40)} of MCP, which cowork does not know")
        self._channel.version = str(chosen)
        await self._channel.notify("notifications/initialized")
        return _facts(str(chosen), answer, answer.get("serverInfo"))

    async def _discover(self) -> protocol.ServerFacts:
        self._channel.version = MODERN
        answer = await self._ask("server/discover", {})
        versions = answer.get("supportedVersions")
        if isinstance(versions, list) and MODERN not in versions:
            raise McpError("unsupported version", protocol.UNSUPPORTED_VERSION, {"supported": versions})
        info = answer.get("serverInfo") or as_object(answer.get("_meta")).get(f"{protocol.META}serverInfo")
        return _facts(MODERN, answer, info)

    def _hear(self, method: str, params: Json) -> None:
        token = params.get("progressToken")
        if method == "notifications/progress" and isinstance(token, int) and (found := self._progress.get(token)):
            tell, limit = found
            with contextlib.suppress(RuntimeError):  # it ended in this moment
                limit.reschedule(asyncio.get_running_loop().time() + self._silence_s)
            tell(_progress_line(params))
        elif method.endswith("/list_changed"):
            self._changed(method.split("/")[1])

    async def _serve(self, method: str, params: Json) -> Json:
        """Answer what a server of a legacy revision asks."""
        if method == "elicitation/create":
            return await self._elicit(params)
        if method == "ping":
            return {}
        raise RpcError(UNKNOWN_METHOD, f"cowork does not offer {one_line(method, 60)}")

    async def _subscribe(self, wanted: Json) -> None:
        """Keep a stream of changes open; one that breaks off is opened again a few times."""
        for attempt in range(_LISTENS):
            try:
                await self._ask("subscriptions/listen", {"notifications": wanted})
                return  # the server ended it in good order
            except ServerGone:
                await asyncio.sleep(2**attempt)
            except McpError:
                return


def _facts(version: str, answer: Json, info: Any) -> protocol.ServerFacts:
    info, instructions = as_object(info), answer.get("instructions")
    name, release = (one_line(str(info.get(key) or ""), 80) for key in ("name", "version"))
    said = instructions if isinstance(instructions, str) else ""
    return protocol.ServerFacts(
        version, name, release, said, as_object(answer.get("capabilities")), tools=[], prompts=[]
    )


def _progress_line(params: Json) -> str:
    line = ""
    for sign, value in (("", params.get("progress")), ("/", params.get("total"))):
        line += f"{sign}{value:g}" if isinstance(value, int | float) and abs(value) < 1e15 else ""
    line += f" {one_line(str(message), 200)}" if (message := params.get("message")) else ""
    return line.strip() + "\n"


def header_paths(schema: Any) -> dict[str, tuple[str, ...]]:
    """Header -> where its value lies in the arguments, by the `x-mcp-header` marks; ValueError where one is wrong."""
    found: dict[str, tuple[str, ...]] = {}
    _collect(schema, (), found)
    return found


def _collect(part: Any, path: tuple[str, ...] | None, found: dict[str, tuple[str, ...]], depth: int = 0) -> None:
    """Find the marks in a part of the schema; `path` leads to it in the arguments, if a plain one does."""
    if depth > 60:
        raise ValueError("nested too deeply")
    if not isinstance(part, dict):
        for inner in part if isinstance(part, list) else ():
            _collect(inner, None, found, depth + 1)
        return
    header = part.get("x-mcp-header")
    if path and "x-mcp-header" in part:
        if not isinstance(header, str) or not _HEADER_NAME.fullmatch(header):
            raise ValueError("x-mcp-header is not a header name")
        if part.get("type") not in ("string", "integer", "boolean"):
            raise ValueError(f"x-mcp-header {header} is not on a string, an integer or a boolean")
        if f"mcp-param-{header.lower()}" in found:
            raise ValueError(f"x-mcp-header {header} is there twice")
        found[f"mcp-param-{header.lower()}"] = path
    elif "x-mcp-header" in part and not isinstance(header, dict):  # else it is a property of that name
        raise ValueError("x-mcp-header where no plain property is")
    for key, inner in part.items():
        plain = path is not None and key == "properties" and isinstance(inner, dict)
        for name, value in inner.items() if plain else [("", inner)]:
            _collect(value, (*(path or ()), name) if plain else None, found, depth + 1)


def headers_for(paths: Mapping[str, tuple[str, ...]], arguments: Json) -> dict[str, str]:
    """The headers a call carries for its arguments."""
    found = {}
    for header, path in paths.items():
        value: Any = arguments
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if value is not None:
            found[header] = protocol.header_value(value)
    return found
