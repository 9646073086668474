"""A server with SQLite behind it never waits for itself."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stateward.airflow.web.serialize_writes import OneWriteAtATime

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


def like_airflow(database: Path, holds_the_lock: asyncio.Event) -> ASGIApp:
    """An application that treats the database as Airflow's does: part in a thread, part on the event loop."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        connection = sqlite3.connect(database, timeout=LOCK_TIMEOUT_S, check_same_thread=False)
        try:
            if scope["path"] == "/task":  # an endpoint in a thread, and its session's commit in another
                await asyncio.to_thread(connection.execute, WRITE)
                holds_the_lock.set()
                await asyncio.sleep(0)  # the server looks at its other connections
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


async def click_while_a_task_starts(database: Path, *, guarded: bool) -> None:
    """Send a click as soon as the task's request holds the lock, and wait until both are answered."""
    holds_the_lock = asyncio.Event()
    bare = like_airflow(database, holds_the_lock)
    app = OneWriteAtATime(bare) if guarded else bare

    async def click() -> None:
        await holds_the_lock.wait()
        await app(request("POST", "/click"), receive, ignore)

    await asyncio.gather(app(request("PATCH", "/task"), receive, ignore), click())


def test_without_it_a_click_is_lost_and_the_server_stands_still(database: Path) -> None:
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        asyncio.run(click_while_a_task_starts(database, guarded=False))


def test_a_click_waits_for_the_task_and_both_are_written(database: Path) -> None:
    asyncio.run(click_while_a_task_starts(database, guarded=True))
    with sqlite3.connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM log").fetchone() == (2,)


def test_a_page_is_shown_while_something_writes() -> None:
    shown: list[Any] = []

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


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the body of the request."""
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


class Client:
    """A client that sends its body in parts, and nothing more after `parts`."""

    def __init__(self, *parts: bytes, complete: bool = True) -> None:
        self.answer: list[Message] = []
        self._parts = list(parts)
        self._complete = complete

    async def receive(self) -> Message:
        if not self._parts and not self._complete:
            await asyncio.Event().wait()
        part = self._parts.pop(0) if self._parts else b""
        return {
            "type": "http.request",
            "body": part,
            "more_body": bool(self._parts) or not self._complete,
        }

    async def send(self, message: Message) -> None:
        self.answer.append(message)

    async def ask(self, app: ASGIApp) -> tuple[int, bytes]:
        await app(request("POST", "/dags"), self.receive, self.send)
        return self.answer[0]["status"], b"".join(one.get("body", b"") for one in self.answer)


def test_a_half_sent_request_stops_nobody() -> None:
    async def both() -> tuple[int, bytes]:
        app = OneWriteAtATime(echo)
        half = asyncio.create_task(Client(b"half a bo", complete=False).ask(app))
        await asyncio.sleep(0)
        answer = await asyncio.wait_for(Client(b"a ", b"whole ", b"one").ask(app), DEADLINE_S)
        assert not half.done()
        half.cancel()
        return answer

    assert asyncio.run(both()) == (200, b"a whole one")


def test_a_request_that_is_never_complete_is_refused() -> None:
    async def ask() -> tuple[int, bytes]:
        app = OneWriteAtATime(echo, within_s=0.05)
        return await asyncio.wait_for(Client(b"half a bo", complete=False).ask(app), DEADLINE_S)

    assert asyncio.run(ask()) == (408, b"The request was not complete after 0.05 s. Send it again.")


def test_a_client_that_does_not_read_its_answer_stops_nobody() -> None:
    async def both() -> tuple[int, bytes]:
        app = OneWriteAtATime(echo)
        sent = asyncio.Event()

        async def send(message: Message) -> None:
            sent.set()
            await asyncio.Event().wait()  # the connection's buffer is full, and stays so

        deaf = asyncio.create_task(app(request("POST", "/dags"), receive, send))
        await asyncio.wait_for(sent.wait(), DEADLINE_S)
        answer = await asyncio.wait_for(Client(b"next").ask(app), DEADLINE_S)
        deaf.cancel()
        return answer

    assert asyncio.run(both()) == (200, b"next")


def test_a_body_without_end_is_refused() -> None:
    async def ask() -> tuple[int, bytes]:
        return await Client(*[b"x" * 10] * 11).ask(OneWriteAtATime(echo, most_bytes=100))

    assert asyncio.run(ask()) == (413, b"The request has more than 100 bytes. Send it in parts.")


def test_nothing_is_done_for_a_client_that_has_gone() -> None:
    async def gone() -> Message:
        return {"type": "http.disconnect"}

    async def never(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("half of a request was passed on")

    asyncio.run(OneWriteAtATime(never)(request("POST", "/dags"), gone, ignore))
