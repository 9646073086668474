"""However a stream's input is cut, shuffled, spread and interrupted on real Spark: the oracle's rows.

`tests/processors/test_any_cut.py` has the property without Spark, in many more and smaller examples, with
every change; `make examples` takes ten of each stream on real Spark.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from proof.traffic.records import Record
from proof.truth.expected import Expected
from proof.truth.registry import truth_about
from stateward.project.spec import load_specs
from stateward.runtime.api.config import parse_config
from stateward.runtime.sink import row_files
from tests.support.full import ci_full
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import Launch
from tests.support.spark.running_query import COUNTS, Running, running
from tests.support.streams.oracle import difference, found_rows, in_order
from tests.support.streams.short import LATENESS_MS, QUIET, RECORDED_MS, SHORT, START, Short, arriving
from tests.support.waiting import PATIENCE_S, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# An example takes half a minute: without the setting one each of keyed logic, the wall clock and Spark's own
# operators. Every stream's generated traffic is in `test_traffic`, its examples in the processors tier.
EXAMPLES = int(os.environ.get("SPARK_EXAMPLES", "1"))
PLAYED = [
    short
    for short in SHORT
    if "SPARK_EXAMPLES" in os.environ
    or short.stream.name in {"user_sessions", "action_counts", "event_windows"}
]


@dataclass(frozen=True)
class Run:
    """From one start of the query to the next.

    Attributes:
        shares: How much is sent each time before the ticks are looked after, relative to all the others.
        killed: Whether it ends in the middle of a batch, and not between two; the last one is always drained.
    """

    shares: list[int]
    killed: bool


@dataclass(frozen=True)
class Course:
    """How the input is cut and where it is processed.

    Attributes:
        runs: The query's, one after the other.
        topic_partitions: Partitions of the data topic.
        batches: In about how many batches a part is read.
        returned_bytes: The rows of a table that a task returns to the driver; the others it writes itself.
        changes: To the launch's configuration.
    """

    runs: list[Run]
    topic_partitions: int
    batches: int
    returned_bytes: int
    changes: dict[str, Any]


COURSES = st.builds(
    Course,
    st.lists(
        st.builds(Run, st.lists(st.integers(1, 9), min_size=1, max_size=2), st.sampled_from((True, False))),
        min_size=2,
        max_size=3,
    ),
    st.sampled_from((3, 2, 1)),
    st.sampled_from((2, 1, 3)),
    st.sampled_from((500, 0, 256_000)),
    st.fixed_dictionaries(
        {
            "state_partitions": st.sampled_from((5, 2, 3, 4, 1)),
            "state_buckets": st.sampled_from((4, 16, 1)),
            "timeout_jitter_ms": st.sampled_from((0, 700)),
        }
    ),
)


@ci_full
@pytest.mark.parametrize("short", PLAYED, ids=lambda short: short.stream.name)
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    # To look for a smaller example would take longer than a test may.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    print_blob=True,
)
@given(data=st.data())
def test_the_rows_are_those_of_the_oracle_and_the_state_empties(
    short: Short,
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
    broker: RunningBroker,
    spark: SparkSession,
) -> None:
    sent = data.draw(arriving(short), "sent")
    course = data.draw(COURSES, "course")
    folder = tmp_path_factory.mktemp("any-cut")
    topic = f"{folder.name}-{short.stream.name}"
    launch = Launch(folder, broker, topic, course.topic_partitions, stream=short.stream)
    broker.create_topic(launch.topic, launch.partitions)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_files, "RETURNED_BYTES", course.returned_bytes)
        patch.setattr(row_files, "LEAST_RETURNED_BYTES", course.returned_bytes)
        counted = play(launch, spark, course, sent)

    expected = truth(launch, sent)
    wanted = {table: in_order(rows) for table, rows in expected.tables.items()}
    assert difference(found_rows(launch), wanted) == {}
    assert {name: counted[name] for name in COUNTS} == expected.counts
    assert counted["delivered"] == len(sent)


def test_every_stream_is_here() -> None:
    # Without state or an order of events there is nothing to cut.
    assert {short.stream.name for short in SHORT} == {spec.stream for spec in load_specs()[0]} - {
        "raw_events"
    }


def play(launch: Launch, spark: SparkSession, course: Course, sent: list[Record]) -> dict[str, Any]:
    """Send everything along the course until nothing is in the state; returns what is counted."""
    parts = cut(sent, [share for run in course.runs for share in run.shares])
    for number, run in enumerate(course.runs):
        is_last = run is course.runs[-1]
        mine = [next(parts) for _ in run.shares]
        changes = {
            **course.changes,
            "allowed_lateness_ms": LATENESS_MS,
            "max_records_per_batch": max(map(len, mine)) // course.batches + 1,
            "trigger_interval_ms": 50,
        }
        with running(launch, spark, f"run-{number}", **changes) as query:
            if run.killed and not is_last:
                left = mine.pop()
                process(launch, query, mine)
                send_and_leave(launch, query, left)
                continue
            process(launch, query, mine)
            if is_last:
                query.tick(START + QUIET)
                wait_until(partial(is_empty, query), PATIENCE_S, lambda: f"left: {query.query.lastProgress}")
            query.drain()
            counted = query.counted()
            assert sum(counted[name] for name in COUNTS) == counted["delivered"]
    return counted


def process(launch: Launch, query: Running, parts: list[list[Record]]) -> None:
    """Send part after part."""
    for part in parts:
        launch.send((record.key, record.value) for record in part)
        query.settle()


def send_and_leave(launch: Launch, query: Running, part: list[Record]) -> None:
    """Send, and go as soon as a batch of it is planned."""
    before = query.checkpoint.last_planned()
    launch.send((record.key, record.value) for record in part)
    if part:
        wait_until(lambda: query.checkpoint.last_planned() > before, PATIENCE_S, "a batch is planned", 0.01)


def is_empty(query: Running) -> bool:
    return query.state_rows() == 0


def cut(sent: list[Record], shares: list[int]) -> Iterator[list[Record]]:
    """The records in as many parts as there are shares."""
    begin = done = 0
    for share in shares:
        done += share
        end = len(sent) * done // sum(shares)
        yield sent[begin:end]
        begin = end


def truth(launch: Launch, sent: list[Record]) -> Expected:
    """What the stream has to make of the records."""
    told = truth_about(parse_config(launch.document(), "test"), RECORDED_MS)
    for record in sent:
        told.see(record)
    return told.finish()
