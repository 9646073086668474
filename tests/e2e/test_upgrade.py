"""A stream is upgraded by one action: to a version that does well, and to one that does not.

The shared platform runs copies of the drivers' code and of the YAML, so that there is something to deploy.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable

from spark_jobs.runtime.keyed import fold_all
from spark_jobs.user_sessions.logic import SessionLogic
from spark_jobs.user_sessions.model import SessionEvent
from tests.e2e.event_files import Event, as_line, shifted, web_events, write_lines
from tests.e2e.installation import Installation
from tests.e2e.live_stream import LiveStream
from tests.full import FULL
from tests.waiting import wait_until

pytestmark = pytest.mark.e2e

PREFIX = "upgraded"
GAP_MS = 30 * 60 * 1000
ENDED = ("success", "failed")
# Of the replay in which the bug shows: after twenty seconds, or after two minutes.
SHOWS_AT = 3000
RATE = SHOWS_AT / (125 if FULL else 20)
LOGIC = Path("user_sessions") / "logic.py"
# Counts each event twice, and fails once event time has come to {at}.
BAD = """

_good = merge


def merge(session: OpenSession, event: SessionEvent) -> OpenSession:
    if event.event_ms >= {at}:
        raise ZeroDivisionError("the bug has shown")
    return _good(session, event)._replace(event_count=session.event_count + 2)
"""


@pytest.fixture(scope="module")
def stream(platform: Installation) -> Iterator[LiveStream]:
    """The stream. Whatever is deployed in the meantime, the tests after these have the code of before."""
    file = platform.settings.jobs / LOGIC
    original = file.read_text()
    stream = LiveStream("user_sessions", platform)
    stream.trigger("run")
    stream.wait_running(150)
    yield stream
    file.write_text(original)


def at_ms(event: Event) -> int:
    return int(datetime.fromisoformat(event["event_time"]).timestamp() * 1000)


def oracle(events: list[Event]) -> dict[str, int]:
    """How many events each session has, by its id."""
    by_user: dict[str, list[SessionEvent]] = defaultdict(list)
    for event in events:
        by_user[event["user_id"]].append(SessionEvent(event["event_id"], at_ms(event), event["event_type"]))
    closed = [row for user, found in by_user.items() for row in fold_all(SessionLogic(GAP_MS), user, found)]
    return {row.session_id: row.event_count for row in closed}


def found(stream: LiveStream) -> list[tuple[str, int]]:
    rows = stream.rows("sessions", ["user_id", "session_id", "event_count"])
    return [(row["session_id"], row["event_count"]) for row in rows if row["user_id"].startswith(PREFIX)]


def deploy(stream: LiveStream, addition: str) -> None:
    """Put other code in place of what is deployed."""
    file = stream.installation.settings.jobs / LOGIC
    file.write_text(file.read_text() + addition)


def upgrade(stream: LiveStream, watch_s: int) -> str:
    with stream.airflow() as api:
        return api.trigger(stream.dag, {"action": "upgrade", "watch_s": watch_s})


def ended(stream: LiveStream, run: str) -> dict[str, str | None]:
    """Wait until the upgrade has ended; the states of the run's tasks."""
    within_s = 240 + SHOWS_AT / RATE
    with stream.airflow() as api:
        wait_until(
            lambda: api.task_states(stream.dag, run)["upgrade"] in ENDED,
            within_s,
            lambda: f"the upgrade ends; found {api.task_states(stream.dag, run)}; {stream.describe()}",
            poll_s=1,
        )
        return api.task_states(stream.dag, run)


def test_an_upgrade_does_well_and_the_next_one_is_rolled_back(stream: LiveStream, tmp_path: Path) -> None:
    events = shifted(web_events(), 0, PREFIX)
    first, rest = events[:5000], events[5000:]
    before = stream.counted()
    sent = stream.replay(write_lines(tmp_path / "first.jsonl", [as_line(event) for event in first]))
    assert sent.wait(60) == 0
    wait_until(lambda: stream.counted() >= before + len(first), 90, stream.describe)
    one = stream.control()

    deploy(stream, "\n# Nothing that matters.\n")
    tasks = ended(stream, upgrade(stream, watch_s=10))
    assert tasks["upgrade"] == "success", f"{tasks}, {stream.describe()}"
    two = stream.control()
    assert stream.is_running()
    assert one["release"] != two["release"]

    deploy(stream, BAD.format(at=at_ms(rest[SHOWS_AT])))
    run = upgrade(stream, watch_s=300)
    wait_until(
        lambda: stream.control()["release"] not in (one["release"], two["release"]) and stream.is_running(),
        120,
        lambda: f"what was deployed runs: {stream.describe()}",
        poll_s=1,
    )
    begun = time.monotonic()
    lines = [as_line(event) for event in rest]
    more = stream.replay(write_lines(tmp_path / "rest.jsonl", lines), "--rate", str(RATE), "--tick")
    tasks = ended(stream, run)
    assert tasks["upgrade"] == "failed"
    assert time.monotonic() - begun > SHOWS_AT / RATE, "the bug has not shown before its time"
    assert more.wait(150) == 0
    three = stream.control()
    assert three["release"] == two["release"]

    # What the bad version has written was there, and is not any more.
    table = DeltaTable(stream.layout.table_uri("sessions"))
    restored = [one["version"] for one in table.history() if one["operation"] == "RESTORE"]
    assert restored
    table.load_as_version(restored[-1] - 1)
    bad = table.to_pyarrow_table(columns=["user_id", "session_id", "event_count"]).to_pylist()
    expected = oracle(events)
    assert [row for row in bad if expected.get(row["session_id"], 0) not in (0, row["event_count"])]
    wait_until(
        lambda: sorted(found(stream)) == sorted(expected.items()),
        120,
        lambda: f"{len(expected)} sessions; found {len(found(stream))}, {stream.describe()}",
        poll_s=2,
    )
