"""Lets Airflow's API server, on SQLite, answer one writing request at a time.

Airflow 3.3 commits the audit log of a request on the event loop of its server (`action_logging` in
airflow/api_fastapi/logging/decorators.py). SQLite has one writer: while a request in a thread is in the
middle of its transaction, that commit waits for it, and the thread waits for the event loop, without which
it cannot end. Nothing is answered until SQLite's time is up: no page, no task, no supervision, for a minute
at a time. It takes no more than a click on *Trigger* at the moment in which a task starts. PostgreSQL has
no such lock. Measured in docs/decisions/0009-one-write-at-a-time.md.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_READING = frozenset({"GET", "HEAD", "OPTIONS"})


class OneWriteAtATime:
    """Has a request that may write wait, off the event loop, until the one before it has been answered.

    Args:
        app: The application behind (ASGI).
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._turn = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on one request (ASGI)."""
        if scope["type"] != "http" or scope["method"] in _READING:
            await self._app(scope, receive, send)
            return
        async with self._turn:
            await self._app(scope, receive, send)
