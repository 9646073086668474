"""A stream is upgraded by one action: to a version that does well, and to one that does not.

The shared platform runs copies of the drivers' code and of the YAML, so that there is something to deploy.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.support.control.installation import Installation
from tests.support.control.live_stream import LiveStream
from tests.support.full import ci_full
from tests.support.streams.event_files import (
    Event,
    as_line,
    session_counts,
    shifted,
    web_events,
    write_lines,
)
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.e2e, ci_full]

PREFIX = "upgraded"
ENDED = ("success", "failed")
# Which event of the second replay the bug shows at.
SHOWS_AT = 3000
# An upgrade that fails ends before; one that were to succeed by the clock would fail the test.
WATCH_S = 1200
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
    stream.wait_running()
    yield stream
    file.write_text(original)


def at_ms(event: Event) -> int:
    return int(datetime.fromisoformat(event["event_time"]).timestamp() * 1000)


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
    with stream.airflow() as api:
        wait_until(
            lambda: api.task_states(stream.dag, run)["upgrade"] in ENDED,
            600,
            lambda: f"the upgrade ends; found {api.task_states(stream.dag, run)}; {stream.describe()}",
            poll_s=1,
        )
        return api.task_states(stream.dag, run)


def wrong(rows: list[tuple[str, int]], expected: dict[str, int]) -> list[tuple[str, int]]:
    """The rows that a good version does not write."""
    return [row for row in rows if expected.get(row[0], 0) != row[1]]


def test_an_upgrade_does_well_and_the_next_one_is_rolled_back(
    stream: LiveStream, tmp_path: Path, days_later: int
) -> None:
    events = shifted(web_events(), days_later, PREFIX)
    expected = session_counts(events)
    first, rest = events[:5000], events[5000:]
    shows_at_ms = at_ms(rest[SHOWS_AT])
    before = stream.counted()
    sent = stream.replay(write_lines(tmp_path / "first.jsonl", [as_line(event) for event in first]))
    assert sent.wait(300) == 0
    wait_until(lambda: stream.counted() >= before + len(first), 300, stream.describe)
    one = stream.control()

    deploy(stream, "\n# Nothing that matters.\n")
    tasks = ended(stream, upgrade(stream, watch_s=10))
    assert tasks["upgrade"] == "success", f"{tasks}, {stream.describe()}"
    two = stream.control()
    assert stream.is_running()
    assert one["release"] != two["release"]

    deploy(stream, BAD.format(at=shows_at_ms))
    run = upgrade(stream, WATCH_S)
    wait_until(
        lambda: stream.control()["release"] not in (one["release"], two["release"]) and stream.is_running(),
        300,
        lambda: f"what was deployed runs: {stream.describe()}",
        poll_s=1,
    )
    good = [as_line(event) for event in rest if at_ms(event) < shows_at_ms]
    assert stream.replay(write_lines(tmp_path / "good.jsonl", good)).wait(300) == 0
    # Only what was written can be taken back: the bug has to wait for it.
    wait_until(
        lambda: wrong(found(stream), expected),
        300,
        lambda: f"the bad version writes; {stream.describe()}",
        poll_s=1,
    )
    bad = [as_line(event) for event in rest if at_ms(event) >= shows_at_ms]
    more = stream.replay(write_lines(tmp_path / "bad.jsonl", bad), "--tick")
    tasks = ended(stream, run)
    assert tasks["upgrade"] == "failed"
    assert more.wait(300) == 0
    three = stream.control()
    assert three["release"] == two["release"]

    # What the bad version has written was there, and is not any more.
    table = DeltaTable(stream.layout.table_uri("sessions"))
    restored = [one["version"] for one in table.history() if one["operation"] == "RESTORE"]
    assert restored
    table.load_as_version(restored[-1] - 1)
    rows = table.to_pyarrow_table(columns=["session_id", "event_count", "user_id"]).to_pylist()
    mine = [(row["session_id"], row["event_count"]) for row in rows if row["user_id"].startswith(PREFIX)]
    assert wrong(mine, expected)
    wait_until(
        lambda: sorted(found(stream)) == sorted(expected.items()),
        300,
        lambda: f"{len(expected)} sessions; found {len(found(stream))}, {stream.describe()}",
        poll_s=2,
    )
