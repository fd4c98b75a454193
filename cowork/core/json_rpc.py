"""JSON-RPC 2.0 with one message a line, for either end of a conversation."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

from cowork.core.blocks import Json
from cowork.core.hygiene import ascii_json

PARSE_ERROR, INVALID_REQUEST, UNKNOWN_METHOD, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
CANCELLED = -32800
CANCEL = "$/cancel_request"

Answer = Callable[[str, Json], Awaitable[Any]]
Hear = Callable[[str, Json], None]


class RpcError(Exception):
    """An error answer, sent or received."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def to_dict(self) -> Json:
        error: Json = {"code": self.code, "message": self.message}
        return error if self.data is None else error | {"data": self.data}


class Peer:
    """One end: `answer` gives the results of requests, `hear` takes notifications.

    Each request is answered in a task of its own; tasks start, and notifications are heard, in the order they came.
    """

    def __init__(self, reader: asyncio.StreamReader, send: Callable[[bytes], None], answer: Answer, hear: Hear) -> None:
        self._reader = reader
        self._send = send
        self._answer = answer
        self._hear = hear
        self._ids = count(1)
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._answering: dict[Any, asyncio.Task[None]] = {}

    async def serve(self) -> None:
        """Read until the other end closes; then stop what is being answered and fail what was asked."""
        try:
            while line := await self._next_line():
                if line.strip():
                    self._take(line)
        finally:
            for future in self._asked.values():
                future.cancel()
            for task in (*self._answering.values(),):
                task.cancel()
            await asyncio.gather(*self._answering.values(), return_exceptions=True)

    async def request(self, method: str, params: Json) -> Any:
        """The result of a request to the other end; an RpcError is its error answer."""
        number = next(self._ids)
        future = self._asked[number] = asyncio.get_running_loop().create_future()
        self._write({"id": number, "method": method, "params": params})
        try:
            return await future
        finally:
            self._asked.pop(number, None)

    def notify(self, method: str, params: Json) -> None:
        """Say something that needs no answer."""
        self._write({"method": method, "params": params})

    async def _next_line(self) -> bytes:
        try:
            return await self._reader.readline()
        except ValueError:  # longer than the reader's limit; there is no telling where the next message starts
            self._fail(None, RpcError(PARSE_ERROR, "The message is too long."))
            return b""

    def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return self._fail(None, RpcError(PARSE_ERROR, "The line is not JSON."))
        if not isinstance(message, dict):
            return self._fail(None, RpcError(INVALID_REQUEST, "The message is not an object."))
        method, params = message.get("method"), message.get("params")
        if method is None:
            return self._settle(message)
        if not isinstance(method, str) or not isinstance(params, dict | None):
            return self._fail(message.get("id"), RpcError(INVALID_REQUEST, "`method` is a string, `params` an object."))
        loop = asyncio.get_running_loop()
        if "id" not in message:
            loop.call_soon(self._heard, method, params or {})
            return None
        number = message["id"]
        task = self._answering[str(number)] = loop.create_task(self._answered(number, method, params or {}))
        task.add_done_callback(lambda task: self._answering.pop(str(number), None))
        return None

    def _heard(self, method: str, params: Json) -> None:
        if method == CANCEL:
            if task := self._answering.get(str(params.get("requestId"))):
                task.cancel()
        else:
            self._hear(method, params)

    async def _answered(self, number: Any, method: str, params: Json) -> None:
        try:
            result = await self._answer(method, params)
        except RpcError as error:
            self._fail(number, error)
        except asyncio.CancelledError:
            with contextlib.suppress(OSError):
                self._fail(number, RpcError(CANCELLED, "The request was cancelled."))
            raise
        except Exception as error:  # the other end must get an answer; who reads the log sees more
            self._fail(number, RpcError(INTERNAL_ERROR, f"{type(error).__name__}: {error}"))
            raise
        else:
            self._write({"id": number, "result": result})

    def _settle(self, message: Json) -> None:
        number = message.get("id")
        future = self._asked.get(number) if isinstance(number, int) else None
        if future is None or future.done():
            return  # an answer to what nobody waits for any more
        error = message.get("error")
        if error is None:
            future.set_result(message.get("result"))
            return
        known = error if isinstance(error, dict) else {}
        code = known.get("code")
        future.set_exception(
            RpcError(code if isinstance(code, int) else INTERNAL_ERROR, str(known.get("message")), known.get("data"))
        )

    def _fail(self, number: Any, error: RpcError) -> None:
        self._write({"id": number, "error": error.to_dict()})

    def _write(self, message: Json) -> None:
        self._send(ascii_json({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n")
