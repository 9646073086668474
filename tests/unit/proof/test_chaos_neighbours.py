"""What the chaos run's neighbours send, and how a launch gets a clock that is off."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from proof.chaos import wrong_clock
from proof.chaos.feed import ADDED, GARBAGE_PARTITION, PARTITIONS, partition_of
from proof.chaos.neighbours import BURST, HOUR, MAX_AHEAD, YEAR, ahead, garbage
from proof.traffic.generate import Plan, Traffic
from proof.traffic.profiles import profile_named
from proof.traffic.records import DEAD, Record, values_of
from proof.truth.keyed_truth import KeyedTruth
from spark_jobs.user_sessions.declaration import JOB
from stateward.contract.names import ENV_DRIVER_STREAM
from tests.support.full import ci_full
from tests.unit.state.compatibility.test_descriptor import config_of

# It is about what the software is tested with.
pytestmark = ci_full

NOW = datetime(2026, 11, 24, tzinfo=UTC)


@pytest.mark.parametrize("by", [HOUR, YEAR])
def test_events_of_a_wrong_clock_are_dead_by_the_right_one_and_would_be_valid_by_their_own(
    tmp_path: Path, by: timedelta
) -> None:
    plan = Plan(profile_named("daily"), minutes=0.5, topics=("user_events",))
    sent = [record for _, record in values_of(Traffic(plan).slices())]
    made = ahead(sent, by, NOW, 0.5)
    assert len(made) == BURST
    assert len({json.loads(record.value or b"")["event_id"] for record, _ in made}) == BURST

    config = config_of("user_sessions", tmp_path, max_ahead_ms=MAX_AHEAD // timedelta(milliseconds=1))
    truth = KeyedTruth(JOB, config, int(NOW.timestamp() * 1000))
    for record, at_ms in made:
        assert at_ms == int((NOW + by).timestamp() * 1000)
        truth.see(Record(*record))
    assert truth.finish().counts["dead"] == BURST


def test_garbage_is_garbage_and_each_burst_another(tmp_path: Path) -> None:
    records = [*garbage(1), *garbage(2)]
    assert len({record.value for record in records}) == len(records)
    truth = KeyedTruth(JOB, config_of("user_sessions", tmp_path), 0)
    for record in records:
        assert record.mark == DEAD
        truth.see(Record(*record))


def test_no_event_goes_where_garbage_goes_and_all_go_to_what_was_added() -> None:
    keys = [b"%d" % number for number in range(200)]
    assert {partition_of(key, added=False) for key in keys} == set(range(PARTITIONS)) - {GARBAGE_PARTITION}
    everywhere = set(range(PARTITIONS + ADDED)) - {GARBAGE_PARTITION}
    assert {partition_of(key, added=True) for key in keys} == everywhere


@pytest.mark.skipif(wrong_clock.library() is None, reason="no libfaketime here (Debian: faketime)")
@pytest.mark.parametrize("seconds", [600, -600])
def test_one_launch_of_one_stream_has_another_clock(tmp_path: Path, seconds: int) -> None:
    look = f"{sys.executable} -c 'import time; print(time.time(), time.monotonic())'"
    with wrong_clock.clocks_in(tmp_path / "clocks"):
        wrong_clock.set_clock(tmp_path / "clocks", "a", seconds)

        def launch(stream: str) -> list[float]:
            command = f'. "${wrong_clock.VARIABLE}/spark-env.sh"; {look}'
            environment = {**os.environ, ENV_DRIVER_STREAM: stream}
            done = subprocess.run(
                ["bash", "-c", command], env=environment, check=True, capture_output=True, text=True
            )
            return [float(number) for number in done.stdout.split()]

        other, first, second = launch("b"), launch("a"), launch("a")

    assert first[0] - other[0] == pytest.approx(seconds, abs=60)
    assert second[0] - other[0] == pytest.approx(0, abs=60)
    assert 0 <= first[1] - other[1] < 60, "the monotonic clock is left alone"


WAIT = """
public class Wait {
    public static void main(String[] arguments) throws Exception {
        long began = System.nanoTime();
        Object lock = new Object();
        synchronized (lock) { lock.wait(300); }
        System.out.print((System.nanoTime() - began) / 1e9);
    }
}
"""


@pytest.mark.skipif(wrong_clock.library() is None, reason="no libfaketime here (Debian: faketime)")
def test_a_jvm_waits_as_long_as_by_a_right_clock(tmp_path: Path) -> None:
    (tmp_path / "Wait.java").write_text(WAIT)
    with wrong_clock.clocks_in(tmp_path / "clocks"):
        wrong_clock.set_clock(tmp_path / "clocks", "a", 600)
        command = f'. "${wrong_clock.VARIABLE}/spark-env.sh"; java {tmp_path}/Wait.java'
        environment = {**os.environ, ENV_DRIVER_STREAM: "a"}
        done = subprocess.run(
            ["bash", "-c", command], env=environment, check=False, capture_output=True, text=True
        )
    if "jdk.compiler" in done.stderr:
        pytest.skip("this Java has no compiler")
    assert float(done.stdout) >= 0.3, done.stderr


def test_what_the_library_leaves_of_dead_processes_is_removed(tmp_path: Path) -> None:
    (dead := tmp_path / "sem.faketime_sem_999999999").touch()
    (alive := tmp_path / f"faketime_shm_{os.getpid()}").touch()
    (other := tmp_path / "pulse-shm-999999999").touch()
    wrong_clock.remove_left(tmp_path)
    assert (dead.exists(), alive.exists(), other.exists()) == (False, True, True)
