"""Even partitions: where Spark puts a bucket, and what the advisor does about an uneven state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stateward.contract.state_care import largest_over_median
from stateward.state.partitions.advice import BusyBatch, Measured, advise
from stateward.state.partitions.bucket_places import even_buckets, partition_sizes, spark_hash
from stateward.state.reader.measures import BatchTime
from stateward.state.verbs.advise import busy_batch

GB = 1024**3


def test_the_hash_is_that_of_spark() -> None:
    # From Spark's documentation: SELECT hash('Spark', array(123), 2).
    assert spark_hash("Spark", 123, 2) == -1321691492


def state(partitions: int, size: int, *, cores: int = 2, buckets: int = 64) -> Measured:
    """A state whose buckets are all of the same size."""
    by_bucket = (size // buckets,) * buckets
    return Measured(
        partitions=partitions,
        state_bytes=size,
        keys=1_000_000,
        records_per_s=1_000,
        cores=cores,
        buckets=buckets,
        partition_bytes=tuple(partition_sizes("event", by_bucket, partitions)),
        bucket_bytes=by_bucket,
        lane="event",
    )


@pytest.mark.parametrize(
    ("found", "partitions", "buckets", "says"),
    [
        pytest.param(state(2, 2 * GB), 4, None, "4 for 2,147,483,648 bytes", id="more, and even"),
        pytest.param(state(2, 4 * GB, cores=1), 9, None, "9, so that the largest", id="next even one"),
        pytest.param(state(8, 4 * GB, cores=1), 9, None, "9, so that the largest", id="may not stay"),
        pytest.param(state(8, 4 * GB), 8, 256, "256 buckets in place of 64", id="no multiple of the cores"),
        pytest.param(state(16, 8 * GB), 16, 512, "512 buckets in place of 64", id="no number is even"),
        pytest.param(state(16, 8 * GB, buckets=512), 16, None, "16 for 8,589,934,592", id="enough buckets"),
    ],
)
def test_the_largest_partition_is_at_most_one_and_a_half_times_the_median(
    found: Measured, partitions: int, buckets: int | None, says: str
) -> None:
    advice = advise(found)
    assert (advice.partitions, advice.buckets) == (partitions, buckets), advice.reasons
    assert says in advice.reasons[-1]
    if buckets is None:
        assert largest_over_median(partition_sizes("event", found.bucket_bytes, advice.partitions)) <= 1.5


def test_no_number_of_buckets_divides_one_key() -> None:
    by_bucket = (GB, *(GB // 256,) * 63)
    sizes = tuple(partition_sizes("event", by_bucket, 2))
    found = replace(
        state(2, sum(by_bucket)), bucket_bytes=by_bucket, partition_bytes=sizes, largest_key_bytes=GB
    )
    advice = advise(found)
    assert advice.buckets is None
    assert "no number of buckets changes that: the largest key has 80%" in advice.reasons[-1]


def test_more_buckets_are_a_power_of_two_times_the_current_ones_up_to_a_limit() -> None:
    assert [even_buckets("event", 64, partitions) for partitions in (4, 8, 16, 64)] == [128, 256, 512, None]
    assert even_buckets("event", 64, 8, largest_key=0.5) is None


def test_a_stream_that_can_do_no_more_shows_what_its_cores_reach() -> None:
    busy = BusyBatch(ms=4_000, records=20_000, fixed_ms=500, trigger_ms=1_000)
    quiet = replace(state(1, GB // 4, cores=4), records_per_s=5_000)
    assert "for 5,000 records/s" not in advise(quiet).reasons[0]
    advice = advise(replace(quiet, busy=busy))
    assert "2 for 5,000 records/s, at 3,750 for a core" in advice.reasons[0]
    assert "three quarters of the 5,000 that its batches of 4,000 ms reach" in advice.reasons[0]
    for short in (replace(busy, ms=900), replace(busy, fixed_ms=2_500), replace(busy, records=0)):
        assert not short.is_full


def test_a_busy_batch_is_of_the_quarter_that_reads_the_most() -> None:
    times = [BatchTime(number, 0, 100 + number, 10 * number) for number in range(1, 9)]
    assert busy_batch([], 1_000) is None
    assert busy_batch(times, 1_000) == BusyBatch(107.5, 75, 101.5, 1_000)
