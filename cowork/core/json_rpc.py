"""JSON-RPC 2.0 for either end of a conversation, with one message a line where streams carry it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import stat
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from typing import Any

from cowork.core.blocks import Json, as_object
from cowork.core.errors import UserError

PARSE_ERROR, INVALID_REQUEST, UNKNOWN_METHOD, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
CANCELLED = -32800
_LAST_WORDS_S = 2.0  # for a reader that does not read any more
CANCEL = "$/cancel_request"

Answer = Callable[[str, Json], Awaitable[Any]]
Hear = Callable[[str, Json], None]


class RpcError(Exception):
    """An error answer, sent or received."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data

    @classmethod
    def from_dict(cls, error: Any) -> RpcError:
        known = as_object(error)
        code, message = known.get("code"), str(known.get("message") or "no reason given")
        return cls(code if isinstance(code, int) else INTERNAL_ERROR, message, known.get("data"))


def encode(message: Json) -> bytes:
    """A message as one line; what no encoding can hold is replaced, for a strict reader would refuse all of it."""
    text = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace") + b"\n"


def decode(raw: bytes) -> Json:
    """A message from its bytes; RpcError where it is none."""
    try:
        message = json.loads(raw)
    except (ValueError, RecursionError) as problem:
        raise RpcError(PARSE_ERROR, "The message is not JSON.") from problem
    if not isinstance(message, dict):
        raise RpcError(INVALID_REQUEST, "The message is not an object.")
    return message


@contextlib.asynccontextmanager
async def standard_streams(limit: int) -> AsyncIterator[tuple[asyncio.StreamReader, Callable[[Json], None]]]:
    """(what the program that started us says, how it is answered); what anything else prints goes to stderr."""
    loop = asyncio.get_running_loop()
    reader, out = asyncio.StreamReader(limit=limit), os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # nothing else may get between the messages
    try:
        if stat.S_ISCHR(os.fstat(0).st_mode) and not os.isatty(0):  # asyncio would take it and stumble later
            raise ValueError
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        transport, protocol = await loop.connect_write_pipe(lambda: _Answers(reader), out)
    except ValueError:
        hint = "The program that uses it starts it, with pipes for stdin and stdout."
        raise UserError("This command speaks to a program, not to a person or a file.", hint) from None
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    try:
        yield reader, lambda message: writer.write(encode(message))
    finally:
        with contextlib.suppress(OSError, TimeoutError):
            await asyncio.wait_for(writer.drain(), _LAST_WORDS_S)


class _Answers(asyncio.StreamReaderProtocol):
    """The way out; when nobody hears the answers any more, what is read ends too."""

    def __init__(self, requests: asyncio.StreamReader) -> None:
        super().__init__(asyncio.StreamReader())
        self._requests = requests

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._requests.feed_eof()


class Peer:
    """One end: `answer` gives the results of requests, `hear` takes notifications, `send` carries messages away.

    Each request is answered in a task of its own; tasks start, and notifications are heard, in the order they came.
    Either end withdraws a request by the notification `cancel`; with `tells_cancelled` it still gets an answer.
    """

    def __init__(
        self,
        send: Callable[[Json], None],
        answer: Answer,
        hear: Hear,
        *,
        cancel: str = CANCEL,
        tells_cancelled: bool = True,
        flush: Callable[[], Awaitable[None]] | None = None,  # awaited after each request
    ) -> None:
        self._send, self._answer, self._hear = send, answer, hear
        self._cancel, self._tells_cancelled, self._flush = cancel, tells_cancelled, flush
        self._ids = count(1)
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._answering: dict[int | str | None, asyncio.Task[None]] = {}

    async def serve(self, reader: asyncio.StreamReader) -> None:
        """Read until the other end closes; then stop what is being answered and fail what was asked."""
        try:
            while line := await reader.readline():
                try:
                    if line.strip():
                        self.take(decode(line))
                except RpcError as problem:
                    self._fail(None, problem)
        except ValueError:  # longer than the reader's limit; there is no telling where the next message starts
            self._fail(None, RpcError(PARSE_ERROR, "The message is too long."))
        finally:
            asked, self._asked = self._asked, {}
            for future in asked.values():
                future.cancel()
            await self.stop()

    async def request(self, method: str, params: Json) -> Any:
        """The result of a request to the other end; an RpcError is its error answer."""
        number = next(self._ids)
        future = self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            self._send({"id": number, "method": method, "params": params})
            if self._flush:
                await self._flush()
            return await future
        except asyncio.CancelledError:
            if number in self._asked:
                self.notify(self._cancel, {"requestId": number})
            raise
        finally:
            self._asked.pop(number, None)

    def notify(self, method: str, params: Json) -> None:
        """Say something that needs no answer."""
        self._send({"method": method, "params": params})

    def take(self, message: Json) -> None:
        """Act on a message of the other end."""
        method, params = message.get("method"), message.get("params")
        if method is None:
            return self._settle(message)
        if not isinstance(method, str) or not isinstance(params, dict | None):
            return self._fail(message.get("id"), RpcError(INVALID_REQUEST, "`method` is a string, `params` an object."))
        loop = asyncio.get_running_loop()
        if "id" not in message:
            loop.call_soon(self._take_notification, method, params or {})
            return None
        number = message["id"]
        if isinstance(number, bool) or not isinstance(number, int | str | None):
            return self._fail(None, RpcError(INVALID_REQUEST, "`id` is a number or a string."))
        if number in self._answering:
            return self._fail(number, RpcError(INVALID_REQUEST, f"A request with the id {number!r} is being answered."))
        self._answering[number] = task = loop.create_task(self._give_answer(number, method, params or {}))
        task.add_done_callback(lambda task: self._answering.pop(number))
        return None

    def fail(self, error: Exception) -> None:
        """Nothing that was asked will be answered any more."""
        for future in self._asked.values():
            if not future.done():
                future.set_exception(error)

    async def stop(self) -> None:
        """Stop what is being answered."""
        tasks = list(self._answering.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _take_notification(self, method: str, params: Json) -> None:
        if method == self._cancel:
            number = params.get("requestId")
            if isinstance(number, int | str | None) and (task := self._answering.get(number)):
                task.cancel()
        else:
            self._hear(method, params)

    async def _give_answer(self, number: Any, method: str, params: Json) -> None:
        try:
            result = await self._answer(method, params)
        except RpcError as error:
            self._fail(number, error)
        except UserError as error:
            self._fail(number, RpcError(INVALID_PARAMS, " ".join(filter(None, (error.message, error.hint)))))
        except asyncio.CancelledError:
            if self._tells_cancelled:
                with contextlib.suppress(OSError):
                    self._fail(number, RpcError(CANCELLED, "The request was cancelled."))
            raise
        except Exception as error:  # the other end must get an answer; who reads the log sees more
            self._fail(number, RpcError(INTERNAL_ERROR, f"{type(error).__name__}: {error}"))
            raise
        else:
            self._send({"id": number, "result": result})

    def _settle(self, message: Json) -> None:
        number = message.get("id")
        future = self._asked.get(number) if isinstance(number, int) else None
        if future is None or future.done():
            return  # an answer to what nobody waits for any more
        if message.get("error") is None:
            future.set_result(message.get("result"))
        else:
            future.set_exception(RpcError.from_dict(message["error"]))

    def _fail(self, number: Any, error: RpcError) -> None:
        more = {} if error.data is None else {"data": error.data}
        self._send({"id": number, "error": {"code": error.code, "message": error.message, **more}})
