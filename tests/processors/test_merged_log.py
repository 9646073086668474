"""A log whose small chunks are merged, and one that a release without merges has left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from stateward.runtime.keyed import log_index
from stateward.runtime.keyed.state_log import Head, StateLog
from stateward.testing.bucket_bench import close_copies
from tests.processors.test_state_store import SHORT_LOG, SparkWithCopies, contents, encoded, write


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[SparkWithCopies]:
    spark = SparkWithCopies(tmp_path)
    yield spark
    spark.store.abort()
    close_copies()


def test_a_copy_follows_a_merge_that_leaves_the_head_as_it_was(
    spark: SparkWithCopies, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SHORT_LOG.items():
        monkeypatch.setattr(log_index, name, value)
    for keys, padding in (("abc", 0), ("ab", 1), ("a", 2)):
        before = StateLog(cast("Any", spark.handle)).head() if spark.timers(0) else Head()
        bucket = spark.bucket(0, 0)
        for key in keys:
            write(bucket, key, 50, padding)
        bucket.finish()
        spark.commit()
    head = StateLog(cast("Any", spark.handle)).head()
    assert (head.next_seq, head.logged) == (before.next_seq, before.logged) == (2, 5), "merged into the last"
    assert head.stamp != before.stamp
    expected = sum(len(key) + len(encoded(50, padding)) for key, padding in (("a", 2), ("b", 1), ("c", 0)))
    assert spark.bucket(0, 0).size().bytes == expected


def test_a_log_that_a_release_before_left_with_many_chunks_becomes_short(spark: SparkWithCopies) -> None:
    """Every release reads and writes one format; a release without merges left a chunk for each call."""
    keys, calls = 50, 600
    spark.handle.setGroupingKey(0)
    log = StateLog(cast("Any", spark.handle))
    log.append(Head(), {f"k{number}": encoded(50 + number) for number in range(keys)})
    for seq in range(1, calls):
        log.append(Head(next_seq=seq), {f"k{seq % keys}": encoded(50, 1)})
    log.write_head(Head("", 0, calls, keys, keys + calls - 1, None, 1))
    expected = {f"k{number}": encoded(50, 1) for number in range(keys)}
    for number in range(1 + calls // log_index.CHUNKS_PER_CALL):
        bucket = spark.bucket(0, 0)
        write(bucket, "k0", 60, padding=number + 1)
        bucket.finish()
        spark.commit()
    head = log.head()
    assert head.next_seq - head.first_seq <= log_index._MOST_CHUNKS + 1
    spark.move()
    assert contents(spark.bucket(0, 0)) == {**expected, "k0": encoded(60, number + 1)}, "the log alone"
