"""The main job on real input, through Kafka, Spark and Airflow, while parts of it are killed.

All scenarios share one stream that goes on living. Each sends its own copy of the real events, thirty days
after the one before and with users of its own, and must find the known answer for exactly those users.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from spark_jobs.user_sessions.logic import SessionLogic
from spark_jobs.user_sessions.model import SessionEvent
from stateward.runtime.api.key_logic import replay_oracle
from tests.support.control.installation import Installation
from tests.support.control.live_stream import LiveStream
from tests.support.full import ci_full, only_full
from tests.support.streams.event_files import (
    KNOWN_EVENTS,
    KNOWN_SESSIONS,
    Event,
    as_line,
    mixed_with_bad,
    shifted,
    web_events,
    write_lines,
)
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.e2e

GAP_MS = 30 * 60 * 1000


@pytest.fixture(scope="module")
def stream(platform: Installation) -> LiveStream:
    """The stream `user_sessions`, deployed by triggering its DAG."""
    stream = LiveStream("user_sessions", platform)
    stream.trigger("run")
    stream.wait_running()
    return stream


def expected_sessions(events: list[Event]) -> int:
    """Return how many sessions the oracle finds."""
    by_user: dict[str, list[SessionEvent]] = defaultdict(list)
    for event in events:
        at = int(datetime.fromisoformat(event["event_time"]).timestamp() * 1000)
        by_user[event["user_id"]].append(SessionEvent(event["event_id"], at, event["event_type"]))
    return sum(len(replay_oracle(SessionLogic(GAP_MS), user, found)) for user, found in by_user.items())


def wait_for_answer(stream: LiveStream, prefix: str, sessions: int, events: int) -> None:
    """Wait until the users with `prefix` have exactly so many sessions and events."""
    wait_until(
        lambda: stream.sessions_of(prefix) == (sessions, events),
        PATIENCE_S,
        lambda: (
            f"{sessions} sessions of {events} events; found {stream.sessions_of(prefix)}, {stream.describe()}"
        ),
        poll_s=1,
    )


def replay_with_interruption(
    stream: LiveStream, tmp_path: Path, days_later: int, interrupt: Callable[[], None]
) -> None:
    """Interrupt when some real events are read, others just sent, and others not yet; expect the answer."""
    prefix = f"s{days_later}"
    events = shifted(web_events(), days_later, prefix)

    def send(some: list[Event], *options: str) -> None:
        file = write_lines(tmp_path / "events.jsonl", [as_line(event) for event in some])
        assert stream.replay(file, *options).wait(timeout=PATIENCE_S) == 0

    before = stream.counted()
    send(events[:3000])
    wait_until(
        lambda: stream.counted() >= before + 3000,
        PATIENCE_S,
        lambda: f"3000 events are read: {stream.describe()}",
    )
    send(events[3000:7000])
    interrupt()
    send(events[7000:], "--tick")
    wait_for_answer(stream, prefix, KNOWN_SESSIONS, KNOWN_EVENTS)
    delivered, accounted = stream.balance()
    assert accounted == delivered
    assert len(stream.drivers()) == 1


def kill_driver_and_wait(stream: LiveStream) -> None:
    """Kill the driver and wait until another one runs, under a new epoch."""
    epoch = stream.status()["epoch"]
    for driver in stream.drivers():
        driver.kill()
    wait_until(
        lambda: stream.is_running() and stream.status()["epoch"] > epoch and len(stream.drivers()) == 1,
        PATIENCE_S,
        lambda: f"a new driver runs; found {stream.describe()}",
    )


def test_bad_records_are_counted_and_reach_no_session(
    stream: LiveStream, tmp_path: Path, days_later: int
) -> None:
    good = shifted(web_events()[:9000], days_later, "bad")
    lines = mixed_with_bad(good, bad_count=1000, seed=1)
    before = stream.status()
    replay = stream.replay(write_lines(tmp_path / "mixed.jsonl", lines), "--tick")
    assert replay.wait(timeout=PATIENCE_S) == 0
    wait_for_answer(stream, "bad", expected_sessions(good), len(good))
    after = stream.status()
    grown = {
        name: after[name] - (before[name] or 0)
        for name in ("delivered", "accepted", "dead", "late", "duplicates")
    }
    assert grown["delivered"] == len(lines)
    assert grown["accepted"] == len(good)
    assert grown["dead"] + grown["late"] + grown["duplicates"] == len(lines) - len(good)
    events = "SELECT sum(event_count) FROM sessions WHERE user_id LIKE 'bad-%'"
    assert str(len(good)) in stream.installation.must_run("sql", events)
    letters = stream.rows("dead_letters", ["reason", "value"])
    assert len(letters) == after["dead"]
    assert max(len(letter["value"] or b"") for letter in letters) > 5_000_000, (
        "the largest record is kept whole"
    )


def test_two_triggers_at_once_leave_one_driver(stream: LiveStream) -> None:
    (driver,) = stream.drivers()
    runs = [stream.trigger("run"), stream.trigger("run")]
    wait_until(
        lambda: {stream.run_state(run) for run in runs} == {"success"},
        2 * PATIENCE_S,
        f"the runs {runs} end",
        poll_s=1,
    )
    assert stream.drivers() == [driver]


@ci_full
def test_a_second_driver_by_hand_is_refused_and_names_the_holder(stream: LiveStream) -> None:
    (driver,) = stream.drivers()
    by_hand = subprocess.run(
        driver.cmdline(),
        env=driver.environ(),
        cwd=driver.cwd(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert by_hand.returncode == 3, by_hand.stdout + by_hand.stderr
    assert str(driver.pid) in by_hand.stdout + by_hand.stderr
    stream.wait_running()
    assert stream.drivers() == [driver]


def test_the_driver_is_killed_in_mid_replay(stream: LiveStream, tmp_path: Path, days_later: int) -> None:
    replay_with_interruption(stream, tmp_path, days_later, lambda: kill_driver_and_wait(stream))


@only_full
def test_its_python_workers_are_killed_in_mid_replay(
    stream: LiveStream, tmp_path: Path, days_later: int
) -> None:
    def kill() -> None:
        # That batches go on is shown by the answer.
        for worker in wait_until(stream.python_workers, PATIENCE_S, stream.describe):
            worker.kill()

    replay_with_interruption(stream, tmp_path, days_later, kill)


@pytest.mark.parametrize(
    "part", [pytest.param("scheduler", marks=ci_full), pytest.param("triggerer", marks=only_full)]
)
def test_a_part_of_airflow_is_killed_in_mid_replay(
    stream: LiveStream, platform: Installation, tmp_path: Path, days_later: int, part: str
) -> None:
    (driver,) = stream.drivers()

    def kill() -> None:
        pid = platform.pids()[part]
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        platform.wait_ready(PATIENCE_S)
        assert stream.is_running(), stream.describe()

    replay_with_interruption(stream, tmp_path, days_later, kill)
    assert stream.drivers() == [driver], "the driver has noticed nothing"
    kill_driver_and_wait(stream)


@only_full
def test_down_leaves_nothing_and_up_goes_on(
    stream: LiveStream, platform: Installation, tmp_path: Path, days_later: int
) -> None:
    platform.must_run("down")
    assert platform.processes() == []
    assert stream.status()["state"] == "stopped"
    platform.must_run("up")
    stream.wait_running()
    replay_with_interruption(stream, tmp_path, days_later, lambda: None)


def test_stop_drains_and_start_goes_on(stream: LiveStream, platform: Installation) -> None:
    said = platform.must_run("stop", stream.name, "--reason", "the test says so")
    assert f"/dags/{stream.dag}/runs/" in said
    assert stream.status()["state"] == "stopped"
    assert stream.drivers() == []
    platform.must_run("start", stream.name)
    assert stream.is_running(), stream.describe()
