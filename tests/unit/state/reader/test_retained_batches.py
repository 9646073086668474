"""The batches of a checkpoint, read without Spark: their times, repartitions, and files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from stateward.state.errors import StateError
from stateward.state.reader.retained_batches import batch_times, plans, repartitions, retained, state_files

BEGIN_MS = 1_700_000_000_000


def checkpoint(folder: Path, batches: range, *, partitions: dict[int, int] | None = None) -> str:
    """A checkpoint with a batch a second, each of half a second and ten records more than the last."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    for batch in batches:
        planned_ms = BEGIN_MS + 1000 * batch
        conf = {"spark.sql.shuffle.partitions": str((partitions or {}).get(batch, 2))}
        metadata = {"batchWatermarkMs": 10 * batch, "batchTimestampMs": planned_ms, "conf": conf}
        offsets = {"events": {"0": sum(range(0, 10 * (batch + 1), 10))}}
        lines = ["v1", json.dumps(metadata), json.dumps(offsets)]
        (folder / "offsets" / str(batch)).write_text("\n".join(lines))
        commit = folder / "commits" / str(batch)
        commit.write_text('v1\n{"nextBatchWatermarkMs":0}')
        os.utime(commit, ((planned_ms + 500) / 1000,) * 2)
    return f"file://{folder}"


def test_the_newest_batch_is_read_unless_another_is_requested(tmp_path: Path) -> None:
    uri = checkpoint(tmp_path, range(3, 10))
    newest = retained(uri + "/", "s")
    assert (newest.first, newest.last, newest.batch_id) == (3, 9, 9)
    assert (newest.watermark_ms, newest.planned_ms) == (90, BEGIN_MS + 9000)
    assert retained(uri, "s", 4).watermark_ms == 40


@pytest.mark.parametrize("batch", [2, 10])
def test_a_missing_batch_is_reported_with_the_retained_ones(tmp_path: Path, batch: int) -> None:
    uri = checkpoint(tmp_path, range(3, 10))
    with pytest.raises(StateError, match=rf"stream s: batch {batch} of .*retained are the batches 3 to 9"):
        retained(uri, "s", batch)


def test_a_folder_without_a_commit_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="stream s: expected a checkpoint with a committed batch"):
        retained(f"file://{tmp_path}", "s")


def test_batches_are_timed_by_plan_and_commit(tmp_path: Path) -> None:
    found = retained(checkpoint(tmp_path, range(3, 6)), "s")
    times = batch_times(found, plans(found))
    assert [(time.batch_id, time.duration_ms) for time in times] == [(3, 500), (4, 500), (5, 500)]
    assert [time.records for time in times[1:]] == [40, 50]


def test_a_copied_checkpoint_is_not_timed(tmp_path: Path) -> None:
    uri = checkpoint(tmp_path, range(3, 6))
    for commit in (tmp_path / "commits").iterdir():
        os.utime(commit, (BEGIN_MS / 1000 + 99_999,) * 2)
    found = retained(uri, "s")
    assert batch_times(found, plans(found)) == []


def test_only_batches_up_to_the_requested_one_are_timed(tmp_path: Path) -> None:
    found = retained(checkpoint(tmp_path, range(3, 10)), "s", 6)
    assert list(plans(found)) == [3, 4, 5, 6]


def test_a_repartition_is_known_by_the_number_of_partitions(tmp_path: Path) -> None:
    uri = checkpoint(tmp_path, range(3, 10), partitions={5: 4, 6: 4, 7: 3, 8: 3, 9: 3})
    assert repartitions(retained(uri, "s")) == [5, 7]


def test_the_files_of_the_state_are_added_up_by_operator_and_partition(tmp_path: Path) -> None:
    uri = checkpoint(tmp_path, range(1))
    found = retained(uri, "s")
    assert state_files(found) == {}
    for name, size in (
        ("0/0/1.changelog", 5),
        ("0/0/2.zip", 7),
        ("0/1/left/1.changelog", 3),
        ("0/_metadata/v2/0", 99),
    ):
        path = tmp_path / "state" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
    assert state_files(found) == {(0, 0): 12, (0, 1): 3}
