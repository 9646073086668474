"""The verb ``repartition`` killed by SIGKILL at one step after the other, each time by the next attempt.

The state is always the old one or the new one, and in the end the stream's answer is that of one never moved.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stateward.runtime.checkpoint import generations
from stateward.runtime.checkpoint.generations import UNFINISHED, Generation
from stateward.state.files.checkpoint_copy import checksums_of
from stateward.state.files.checkpoint_integrity import examine
from stateward.state.inspection.comparison import State
from stateward.state.verbs.compare import compare
from tests.support.full import ci_full, only_full
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.running_query import running
from tests.support.state.crash_injection import MADE_CURRENT, PLANNED, killed_at
from tests.support.state.operations import new_launch, operate, request_of
from tests.support.streams.oracle import difference, expected_rows, found_rows
from tests.support.streams.payments import QUIET, payments

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# Each needs its own Spark.
EACH = ["check", "digest", "copy", PLANNED, "prove", "generation", MADE_CURRENT]
FEW = [PLANNED, MADE_CURRENT]


@pytest.mark.parametrize(
    "steps",
    [pytest.param(FEW, marks=ci_full, id="few"), pytest.param(EACH, marks=only_full, id="each")],
)
def test_killed_at_each_step_the_state_is_the_old_or_the_new(
    steps: list[str], tmp_path: Path, broker: RunningBroker, spark: SparkSession
) -> None:
    sent = payments(seed=9, accounts=60)
    launch = new_launch(tmp_path, broker, "dies")
    half = len(sent.records) // 2
    launch.send(sent.records[:half])
    with running(launch, spark, "run-1", checkpoint_uri=launch.checkpoint) as query:
        query.settle()
        query.drain()
    old, root = generations.current(launch.uri("checkpoint")), launch.uri("checkpoint")
    files = checksums_of(old.uri)

    for step in steps:
        killed_at(step, launch, request_of(launch, "repartition", partitions=5))
        assert checksums_of(old.uri) == files
        if step != MADE_CURRENT:
            assert generations.current(root) == old
            check_left(step, old)
    new = generations.current(root)
    assert (new.number, examine(new.uri).partitions) == (2, 5)

    # A retry reports that it is done.
    assert operate(launch, "repartition", partitions=5).data == {"changed": False, "partitions": 5}
    assert compare(spark, State(old.uri), State(new.uri), lambda *step: None).equal
    launch.send(sent.records[half:])
    with running(launch, spark, "run-2", checkpoint_uri=launch.checkpoint) as query:
        query.settle()
        query.tick(sent.last + QUIET)
        query.drain()
    assert difference(found_rows(launch), expected_rows(launch, sent.events)) == {}


def check_left(step: str, old: Generation) -> None:
    """What a crash leaves beside the current state: a folder that is marked as unfinished."""
    target = Path(old.following().uri.removeprefix("file://"))
    batch = examine(old.uri).batch_id + 1
    assert (target / UNFINISHED).exists() == (step in ("copy", PLANNED, "prove"))
    assert (target / "offsets" / str(batch)).exists() == (step in (PLANNED, "prove", "generation"))
    assert (target / "commits" / str(batch)).exists() == (step in ("prove", "generation"))
