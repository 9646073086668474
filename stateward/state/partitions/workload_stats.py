"""Measures a stream's state and traffic for the advice on partitions."""

from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from stateward.contract.names import BATCH_COUNTS
from stateward.runtime.api.stream_job import StreamJob
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.state.operation.context import Context
from stateward.state.operation.errors import StateError
from stateward.state.partitions.advice import Measured

_COUNTED = ("accepted", "dead", "late", "duplicates")
_BACK = timedelta(days=7)
_HOUR_S = 3600
# For a stream that has just started, so that its first batch is not the rate.
_LEAST_S = 60


def measured(context: Context) -> Measured:
    """Measure the current state, the recorded traffic, and the cores of the session.

    Raises:
        StateError: There is no state.
    """
    from stateward.state.verbs.inspect import inspect

    config = context.request.config
    spark = context.spark()
    found = inspect(
        spark,
        context.generation.uri,
        context.stream,
        job=context.job,
        config=config,
        samples=1,
        report=context.report,
    )
    partitions = Checkpoint(context.generation.uri).state_partitions()
    if partitions is None:
        raise StateError(f"stream {context.stream}: expected a planned batch, found none; let it run first")
    return Measured(
        partitions=partitions,
        state_bytes=found.size.live_bytes,
        keys=found.size.keys,
        records_per_s=_busiest(config.tables[BATCH_COUNTS], context.stream, context.clock() - _BACK),
        cores=spark.sparkContext.defaultParallelism,
        buckets=config.state_buckets if isinstance(context.job, StreamJob) else None,
    )


def _busiest(uri: str, stream: str, since: datetime) -> float:
    """The rate in the busiest hour, records/s: a backlog that is read once is no lasting rate."""
    try:
        rows = (
            DeltaTable(uri)
            .to_pyarrow_dataset()
            .to_table(
                columns=["committed_at", *_COUNTED],
                filter=(pc.field("stream") == stream) & (pc.field("committed_at") >= since),
            )
        )
    except TableNotFoundError:
        return 0.0
    return busiest_hour(
        [(row["committed_at"], sum(row[name] or 0 for name in _COUNTED)) for row in rows.to_pylist()]
    )


def busiest_hour(batches: list[tuple[datetime, int]]) -> float:
    """The largest mean rate of a clock hour, records/s.

    Args:
        batches: Commit time and number of records of each batch.
    """
    by_hour: dict[datetime, int] = {}
    for at, records in batches:
        hour = at.replace(minute=0, second=0, microsecond=0)
        by_hour[hour] = by_hour.get(hour, 0) + records
    if not by_hour:
        return 0.0
    times = [at for at, _ in batches]
    lasted = (max(times) - min(times)).total_seconds()
    return max(by_hour.values()) / min(_HOUR_S, max(_LEAST_S, lasted))
