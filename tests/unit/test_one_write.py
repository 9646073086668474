"""A server with SQLite behind it never waits for itself."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from include.web.one_write import OneWriteAtATime

LOCK_TIMEOUT_S = 0.5
DEADLINE_S = 5
WRITE = "INSERT INTO log VALUES (1)"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "airflow.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE log (n INTEGER)")
    return path


def like_airflow(database: Path) -> ASGIApp:
    """An application that treats the database as Airflow's does: part in a thread, part on the event loop."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        connection = sqlite3.connect(database, timeout=LOCK_TIMEOUT_S, check_same_thread=False)
        try:
            if scope["path"] == "/task":  # an endpoint in a thread, and its session's commit in another
                await asyncio.to_thread(connection.execute, WRITE)
                await send({"type": "written"})
                await asyncio.to_thread(connection.commit)
            else:  # the audit log of a click, on the event loop
                connection.execute(WRITE)
                connection.commit()
        finally:
            connection.close()

    return app


async def receive() -> Message:
    """Stand for a client that has sent its request."""
    return {"type": "http.request"}


async def ignore(message: Message) -> None:
    """Stand for a client that does not read its answer."""


def request(method: str, path: str) -> Scope:
    """An HTTP request, as far as these applications look at it."""
    return {"type": "http", "method": method, "path": path}


async def click_while_a_task_starts(app: ASGIApp) -> None:
    """Send a click as soon as the task's request holds the lock, and wait until both are answered."""
    holds_the_lock = asyncio.Event()

    async def note(message: Message) -> None:
        holds_the_lock.set()
        await asyncio.sleep(0)  # the server looks at its other connections

    async def click() -> None:
        await holds_the_lock.wait()
        await app(request("POST", "/click"), receive, ignore)

    await asyncio.gather(app(request("PATCH", "/task"), receive, note), click())


def test_without_it_a_click_is_lost_and_the_server_stands_still(database: Path) -> None:
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        asyncio.run(click_while_a_task_starts(like_airflow(database)))


def test_a_click_waits_for_the_task_and_both_are_written(database: Path) -> None:
    asyncio.run(click_while_a_task_starts(OneWriteAtATime(like_airflow(database))))
    with sqlite3.connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM log").fetchone() == (2,)


def test_a_page_is_shown_while_something_writes() -> None:
    shown = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "POST":
            await asyncio.wait_for(served(request("GET", "/streams"), receive, ignore), DEADLINE_S)
        else:
            shown.append(scope["path"])

    served = OneWriteAtATime(app)
    asyncio.run(served(request("POST", "/click"), receive, ignore))
    assert shown == ["/streams"]


def test_the_next_has_its_turn_after_one_that_failed() -> None:
    async def fails_once(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/bad":
            raise ValueError("bad")

    app = OneWriteAtATime(fails_once)

    async def both() -> None:
        with pytest.raises(ValueError, match="bad"):
            await app(request("POST", "/bad"), receive, ignore)
        await asyncio.wait_for(app(request("POST", "/good"), receive, ignore), DEADLINE_S)

    asyncio.run(both())
