"""The verb ``repartition`` on real checkpoints: a stream's rows are those without a repartition."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stateward.runtime.checkpoint.generations import UNFINISHED
from stateward.state.files.checkpoint_copy import checksums_of
from stateward.state.files.state_file_completeness import missing_files
from stateward.state.inspection.comparison import State
from stateward.state.partitions.repartition import RepartitionResult, repartition
from stateward.state.verbs.compare import compare
from tests.support.full import ci_full, only_full
from tests.support.kafka.broker import RunningBroker
from tests.support.spark.launches import Launch
from tests.support.spark.running_query import COUNTS, running
from tests.support.state.moves import FEW, MOVES, Move, Story, configured
from tests.support.streams.oracle import Rows, difference, found_rows, in_order

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PARTITIONS = (2, 5, 3)


@pytest.mark.parametrize(
    "move",
    [
        pytest.param(
            move, marks=() if move is FEW[0] else ci_full if move in FEW else only_full, id=str(move)
        )
        for move in MOVES
    ],
)
def test_moved_up_and_down_the_answer_is_exact(
    move: Move, tmp_path: Path, broker: RunningBroker, spark: SparkSession
) -> None:
    launch = Launch(
        tmp_path, broker, f"moved-{move.stream.name}", partitions=2, stream=move.stream, buckets=8
    )
    broker.create_topic(launch.topic, launch.partitions)
    story = move.story()
    third = len(story.records) // 3
    parts = (story.records[:third], story.records[third : 2 * third], story.records[2 * third :])
    with configured(spark, move.conf):
        for number, part in enumerate(parts):
            uri = launch.uri(f"g{number}")
            if number:
                # As in an operation's job, the session has none of the stream's state settings.
                with configured(spark, {"spark.sql.streaming.stateStore.checkpointFormatVersion": "1"}):
                    moved(spark, launch.uri(f"g{number - 1}"), uri, *PARTITIONS[number - 1 : number + 1])
            launch.send(part)
            changes = {**move.settings, "checkpoint_uri": uri, "state_partitions": PARTITIONS[0]}
            with running(launch, spark, f"run-{number}", **changes) as query:
                query.settle()
                assert number == 2 or query.state_rows() > 0, "the state is empty, so the test shows nothing"
                if number == 2:
                    query.tick(story.end())
                query.drain()
                counted = query.counted()

    assert tuple(counted[name] for name in COUNTS) == story.counts
    assert difference(_found(launch, story), _ordered(story.expected(launch))) == {}


def moved(spark: SparkSession, source: str, target: str, before: int, after: int) -> None:
    """Repartition, and check the result independently of the proof."""
    files = checksums_of(source)
    steps: list[str] = []

    done = repartition(spark, source, target, after, lambda step, state: steps.append(step))

    assert checksums_of(source) == files, "the source has changed"
    assert [missing_files(uri) for uri in (source, target)] == [[], []]
    assert (done.changed, done.partitions_before, done.partitions_after) == (True, before, after)
    assert list(dict.fromkeys(steps)) == ["check", "digest", "copy", "repartition", "prove"]
    assert [step.name for step in done.steps] == ["digest", "copy", "repartition", "prove"]
    assert done.steps[1].bytes_written >= sum(file.size for file in files if not file.path.endswith(".crc"))
    assert done.steps[2].bytes_written > 0
    assert not list(Path(target.removeprefix("file://")).glob(UNFINISHED))
    check_spread(done)
    found = compare(spark, State(source), State(target), lambda *step: None)
    assert found.equal, found
    assert found.left == {name: digest.entries for name, digest in done.digests.items()}


def check_spread(done: RepartitionResult) -> None:
    """No key is counted twice, and the entries are spread over partitions."""
    for name, places in done.per_partition.items():
        assert sum(places.values()) == done.digests[name].entries
        assert places.keys() <= set(range(done.partitions_after))
    assert any(len(places) > 1 for places in done.per_partition.values()), done.per_partition


def _found(launch: Launch, story: Story) -> dict[str, Rows]:
    found = found_rows(launch)
    if not story.columns:
        return found
    return _ordered(
        {
            table: [{name: row[name] for name in story.columns} for row in rows]
            for table, rows in found.items()
        }
    )


def _ordered(rows: dict[str, Rows]) -> dict[str, Rows]:
    return {table: in_order(found) for table, found in rows.items()}
