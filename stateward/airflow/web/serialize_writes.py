"""Lets Airflow's API server, on SQLite, answer one writing request at a time.

Airflow 3.3 commits the audit log of a request on the event loop of its server (`action_logging` in
airflow/api_fastapi/logging/decorators.py). SQLite has one writer: while a request in a thread is in the
middle of its transaction, that commit waits for it, and the thread waits for the event loop, without which
it cannot end. No request is answered until SQLite's timeout: no page, no task, no supervision, for a minute
at a time. A click on *Trigger* while a task starts is enough. PostgreSQL has no such lock. Measured in
docs/decisions/0009-one-write-at-a-time.md.

The lock is never held while waiting for a client: the request is read before, the response is sent after.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_MOST_BYTES = 16 * 1024 * 1024
_WITHIN_S = 30.0


class _RefusedError(Exception):
    """The request cannot be read; has an HTTP status and a message."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class _ClientGoneError(Exception):
    """The client has disconnected before its request was complete."""


class OneWriteAtATime:
    """Queues requests that may write, off the event loop, until the one before has been answered.

    Args:
        app: The wrapped application (ASGI).
        most_bytes: The largest body that is read; a larger one is refused with status 413.
        within_s: How long a body may take, in seconds; a slower one is refused with status 408.
    """

    def __init__(self, app: ASGIApp, most_bytes: int = _MOST_BYTES, within_s: float = _WITHIN_S) -> None:
        self._app = app
        self._most_bytes = most_bytes
        self._within_s = within_s
        self._turn = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on one request (ASGI)."""
        if scope["type"] != "http" or scope["method"] in _READING:
            await self._app(scope, receive, send)
            return
        try:
            body = await self._body(receive)
        except _RefusedError as error:
            await _refuse(error, send)
            return
        except _ClientGoneError:
            return
        answer: list[Message] = []

        async def collect(message: Message) -> None:
            answer.append(message)

        async with self._turn:
            await self._app(scope, _replay(body, receive), collect)
        for message in answer:
            await send(message)

    async def _body(self, receive: Receive) -> bytes:
        try:
            async with asyncio.timeout(self._within_s):
                return await self._read(receive)
        except TimeoutError:
            raise _RefusedError(
                408, f"The request was not complete after {self._within_s:g} s. Send it again."
            ) from None

    async def _read(self, receive: Receive) -> bytes:
        body = bytearray()
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _ClientGoneError
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > self._most_bytes:
                raise _RefusedError(
                    413, f"The request has more than {self._most_bytes:,} bytes. Send it in parts."
                )
        return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return the body as one message, then the server's further messages, such as a disconnect."""
    unread = [body]

    async def replayed() -> Message:
        if unread:
            return {"type": "http.request", "body": unread.pop(), "more_body": False}
        return await receive()

    return replayed


async def _refuse(error: _RefusedError, send: Send) -> None:
    text = str(error).encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(text)).encode()),
        # The rest of the request must not be read as the next one.
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": text})
