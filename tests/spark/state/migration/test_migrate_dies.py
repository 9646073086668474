"""The verb ``migrate`` killed by SIGKILL at one step after the other, each time by the next attempt.

The state is always the old one or the new one, and in the end the stream's answer is that of one never moved.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stateward.runtime.checkpoint import generations
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.checkpoint.generations import UNFINISHED, Generation
from stateward.state.compatibility.start import require_start
from stateward.state.files.checkpoint_copy import checksums_of
from stateward.state.job import perform
from stateward.state.migration.bucket_states import stored_states
from tests.support.full import ci_full, only_full
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import Launch
from tests.support.spark.running_query import running
from tests.support.state.crash_injection import MADE_CURRENT, PLANNED, killed_at
from tests.support.state.operations import new_launch, operate, request_of
from tests.support.streams.oracle import difference, expected_rows, found_rows
from tests.support.streams.payments import QUIET, payments

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# Each needs its own Spark.
EACH = ["check", "transform", "copy", "write", PLANNED, "prove", "generation", MADE_CURRENT]
FEW = [PLANNED, MADE_CURRENT]


@pytest.mark.parametrize(
    "steps",
    [pytest.param(FEW, marks=ci_full, id="few"), pytest.param(EACH, marks=only_full, id="each")],
)
def test_killed_at_each_step_the_state_is_the_old_or_the_new(
    steps: list[str], tmp_path: Path, broker: RunningBroker, spark: SparkSession
) -> None:
    sent = payments(seed=10, accounts=60)
    launch = new_launch(tmp_path, broker, "migration-dies")
    half = len(sent.records) // 2
    launch.send(sent.records[:half])
    with running(launch, spark, "run-1", checkpoint_uri=launch.checkpoint) as query:
        query.settle()
        query.drain()
    old, root = generations.current(launch.uri("checkpoint")), launch.uri("checkpoint")
    files, states = checksums_of(old.uri), kept(spark, launch)
    launch.buckets = 12

    for step in steps:
        asked = request_of(launch, "migrate")
        killed_at(step, launch, asked)
        assert checksums_of(old.uri) == files
        if step != MADE_CURRENT:
            assert generations.current(root) == old
            check_left(step, old)
            refused_as_it_is(launch)
    assert generations.current(root).number == 2
    assert kept(spark, launch) == states

    # A retry of the same task reports what the last one did; another run reports that nothing is left to do.
    assert perform(asked).data == {"changed": True, "generation": 2}
    assert operate(launch, "migrate").data == {"changed": False}
    launch.send(sent.records[half:])
    with running(launch, spark, "run-2", checkpoint_uri=launch.checkpoint) as query:
        require_start(launch.stream.job, query.config)
        query.settle()
        query.tick(sent.last + QUIET)
        query.drain()
    assert difference(found_rows(launch), expected_rows(launch, sent.events)) == {}


def kept(spark: SparkSession, launch: Launch) -> dict[str, bytes]:
    """The states of the current generation by key."""
    rows = stored_states(spark, launch.stream.name, launch.checkpoint).collect()
    return {row["key"]: bytes(row["state"]) for row in rows}


def refused_as_it_is(launch: Launch) -> None:
    """A crash leaves a state that still needs the migration, and never one that would be misread."""
    told = operate(launch, "verdict")
    assert (told.data["level"], told.is_good) == ("needs migration", False)


def check_left(step: str, old: Generation) -> None:
    """What a crash leaves beside the current state: a folder that is marked as unfinished."""
    target = old.following().uri
    batch = Checkpoint(old.uri).last_committed() + 1
    unfinished = ("transform", "copy", "write", PLANNED, "prove")
    assert Path(f"{target}/{UNFINISHED}".removeprefix("file://")).exists() == (step in unfinished)
    assert (Checkpoint(target).last_planned() == batch) == (step in (PLANNED, "prove", "generation"))
    assert (Checkpoint(target).last_committed() == batch) == (step in ("prove", "generation"))
