"""Which checkpoints can be moved, from their logs alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stateward.state.files.checkpoint_integrity import DrainedCheckpoint, UnsoundCheckpointError, examine
from stateward.state.partitions.repartition import RepartitionRefusedError, repartition

PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def plan(partitions: int = 2, provider: str = PROVIDER) -> str:
    conf = {
        "spark.sql.streaming.stateStore.providerClass": provider,
        "spark.sql.shuffle.partitions": str(partitions),
    }
    metadata = {"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": conf}
    return f'v1\n{json.dumps(metadata)}\n{{"t": {{"0": 1}}}}'


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoint"
    for log, content in (("offsets", plan()), ("commits", "v1\n{}")):
        (folder / log).mkdir(parents=True)
        for batch in (3, 4, 5):
            (folder / log / str(batch)).write_text(content)
            (folder / log / f".{batch}.crc").write_text("crc")
    (folder / "metadata").write_text('{"id": "q"}')
    return folder


def test_a_drained_checkpoint_passes(checkpoint: Path) -> None:
    assert examine(f"file://{checkpoint}") == DrainedCheckpoint(
        "q", 5, 2, "RocksDBStateStoreProvider", ('{"t": {"0": 1}}',), 0
    )


Damage = Callable[[Path], object]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        pytest.param(
            lambda folder: (folder / "metadata").unlink(), "expected a checkpoint, found no", id="no metadata"
        ),
        pytest.param(
            lambda folder: (folder / "metadata").write_text(""),
            "metadata: expected the query's id",
            id="empty",
        ),
        pytest.param(
            lambda folder: (folder / "commits/5").unlink(),
            "expected a drained checkpoint, found batch 5 planned and batch 4 the last",
            id="last commit is missing",
        ),
        pytest.param(
            lambda folder: (folder / "commits/4").unlink(), "commits: .* no file for 4; restore", id="a gap"
        ),
        pytest.param(
            lambda folder: (folder / "offsets/5").unlink(), "offsets: .* no file for 5; restore", id="no plan"
        ),
        pytest.param(
            lambda folder: [(folder / f"commits/{n}").unlink() for n in (3, 4, 5)],
            "expected a committed batch, found none",
            id="no batch",
        ),
        pytest.param(
            lambda folder: (folder / "offsets/5").write_text(plan()[:100]),
            "offsets/5: expected a batch's plan .*JSONDecodeError",
            id="half a plan",
        ),
        pytest.param(
            lambda folder: (folder / "offsets/5").write_text('v1\n{"conf": {}}'),
            "expected spark.sql.shuffle.partitions, found nothing",
            id="no partitions",
        ),
    ],
)
def test_a_problem_of_the_logs_is_reported(damage: Damage, message: str, checkpoint: Path) -> None:
    damage(checkpoint)
    with pytest.raises(UnsoundCheckpointError, match=message):
        examine(f"file://{checkpoint}")


def refused(checkpoint: Path, target: Path, partitions: int) -> str:
    """The error of a repartition, which neither uses Spark nor writes."""
    before = sorted(checkpoint.parent.rglob("*"))
    spark: Any = None
    with pytest.raises(RepartitionRefusedError) as error:
        repartition(spark, f"file://{checkpoint}", f"file://{target}", partitions, lambda *step: None)
    assert sorted(checkpoint.parent.rglob("*")) == before
    return str(error.value)


def test_a_repartition_is_refused_before_anything_is_written(checkpoint: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    assert "expected 1 partition or more, found 0" in refused(checkpoint, target, 0)
    assert "found one that holds the other" in refused(checkpoint, checkpoint / "inside", 3)
    assert "found one that holds the other" in refused(checkpoint, tmp_path, 3)
    target.mkdir()
    (target / "other").write_text("")
    assert "expected an empty target" in refused(checkpoint, target, 3)


def test_a_store_that_spark_does_not_repartition_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    (checkpoint / "offsets/5").write_text(plan(provider="a.b.HDFSBackedStateStoreProvider"))
    message = refused(checkpoint, tmp_path / "target", 3)
    assert "expected state kept by RocksDBStateStoreProvider, found HDFSBackedStateStoreProvider" in message


def test_a_repartition_to_the_current_number_succeeds_without_a_target(
    checkpoint: Path, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    spark: Any = None
    done = repartition(spark, f"file://{checkpoint}", f"file://{target}", 2, lambda *step: None)
    assert (done.changed, done.partitions_before, done.partitions_after) == (False, 2, 2)
    assert not target.exists()
