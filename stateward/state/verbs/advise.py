"""The verb ``advise``: measures a stream's state and traffic, and proposes a number of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from statistics import median

import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from stateward.contract.names import BATCH_COUNTS
from stateward.contract.reading import as_json
from stateward.contract.state_care import Look
from stateward.runtime.api.stream_job import StreamJob
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.ingest.packed_format import LANE_EVENT
from stateward.state.compatibility.descriptor import read_descriptor
from stateward.state.errors import StateError
from stateward.state.operation.answer import Answer, Listing
from stateward.state.operation.context import Context
from stateward.state.operation.verb import ReadOnly
from stateward.state.partitions.advice import Advice, BusyBatch, Measured, advise
from stateward.state.partitions.checkpoint_interval import fixed_cost_ms
from stateward.state.reader.measures import BatchTime, Load, bytes_by_number
from stateward.state.verbs.inspect import Inspection, data_variables, inspect

_COUNTED = ("accepted", "dead", "late", "duplicates")
_DAYS, _HOURS = 7, 24
# For a stream that has just started, so that its first batch is not the rate.
_LEAST_S = 60


class AdviseVerb(ReadOnly):
    """Propose a number of partitions."""

    name = "advise"

    def apply(self) -> Answer:
        """Measure the state and the traffic, and propose; without a committed batch there is no state."""
        if Checkpoint(self.context.generation.uri).last_committed() < 0:
            text = f"{self.context.stream} has not committed a batch yet: there is nothing to look at."
            return Answer((text,), (), {"look": None})
        workload = measured(self.context)
        found, stream = workload.measured, self.context.stream
        advice = advise(found)
        look = look_of(workload, advice, self.context.clock())
        proposal = (
            f"{stream} has {found.partitions} partitions, and {advice.partitions} are right."
            if advice.partitions == found.partitions
            else f"{stream} has {found.partitions} partitions, and should have {advice.partitions}: run "
            f"`repartition` with {advice.partitions}, or without a number."
        )
        rows = [
            ("partitions now", found.partitions),
            ("keys", found.keys),
            ("bytes of state", found.state_bytes),
            ("records a second, in the busiest hour of the last seven days", round(found.records_per_s, 1)),
            ("records a second, in the busiest hour of the last day", round(look.records_per_s_today, 1)),
            ("bytes of the largest partition", look.largest_bytes),
            ("bytes of the median partition", look.median_bytes),
            ("milliseconds of a busy batch", None if look.batch_ms is None else round(look.batch_ms)),
            ("cores", found.cores),
            ("buckets", found.buckets),
        ]
        return Answer(
            (proposal, *advice.reasons, *workload.uneven),
            (Listing("Measured", ("what", "how much"), rows),),
            {"measured": asdict(found), **asdict(advice), "look": as_json(look)},
        )


def look_of(workload: Workload, advice: Advice, now: datetime) -> Look:
    """Return what the care of the state on a schedule needs of the measurements."""
    found = workload.measured
    today = advise(replace(found, records_per_s=workload.records_per_s_today))
    sizes = found.partition_bytes
    return Look(
        at=now,
        partitions=found.partitions,
        advised=advice.partitions,
        advised_today=today.partitions,
        keys=found.keys,
        state_bytes=found.state_bytes,
        files_bytes=workload.files_bytes,
        largest_bytes=max(sizes, default=0),
        median_bytes=int(median(sizes)) if sizes else 0,
        records_per_s=found.records_per_s,
        records_per_s_today=workload.records_per_s_today,
        cores=found.cores,
        batch_ms=None if found.busy is None else found.busy.ms,
        buckets=found.buckets,
        advised_buckets=advice.buckets,
        state_version=workload.state_version,
        old_versions=workload.old_versions,
        reasons=advice.reasons,
    )


@dataclass(frozen=True)
class Workload:
    """Measurements of a stream, and what else a look on a schedule needs.

    Attributes:
        measured: The measurements; the rate is that of the busiest hour of seven days.
        records_per_s_today: The rate of the busiest hour of the last day, records/s.
        files_bytes: Size of the state's files.
        state_version: Version of the state's schema that the stream writes; None without one.
        old_versions: Older versions that states may still have.
        uneven: What is above a limit of the largest key or of the partitions, one sentence each.
    """

    measured: Measured
    records_per_s_today: float
    files_bytes: int
    state_version: int | None
    old_versions: tuple[int, ...]
    uneven: tuple[str, ...] = ()


def measured(context: Context) -> Workload:
    """Measure the current state, the recorded traffic, and the cores of the session.

    Raises:
        StateError: There is no state.
    """
    config = context.request.config
    spark = context.spark()
    found = inspect(
        spark,
        context.generation.uri,
        context.stream,
        job=context.job,
        config=config,
        samples=1,
        largest=1,
        measure_limits=context.request.measure_limits,
        report=context.report,
    )
    partitions = Checkpoint(context.generation.uri).state_partitions()
    if partitions is None:
        raise StateError(f"stream {context.stream}: expected a planned batch, found none; let it run first")
    day, now = timedelta(seconds=context.request.day_s), context.clock()
    hour_s = day.total_seconds() / _HOURS
    counts = _counts(config.tables[BATCH_COUNTS], context.stream, now - _DAYS * day)
    today = [one for one in counts if one[0] >= now - day]
    is_keyed = isinstance(context.job, StreamJob)
    version, olds = _versions(context) if is_keyed else (None, ())
    by_partition, by_bucket, largest_key = _loads(found)
    return Workload(
        Measured(
            partitions=partitions,
            state_bytes=found.size.live_bytes,
            keys=found.size.keys,
            records_per_s=busiest_hour(counts, hour_s),
            cores=spark.sparkContext.defaultParallelism,
            buckets=config.state_buckets if is_keyed else None,
            partition_bytes=by_partition,
            bucket_bytes=by_bucket if is_keyed else (),
            lane=LANE_EVENT,
            largest_key_bytes=largest_key,
            busy=busy_batch(found.times, config.trigger_interval_ms),
            most_bytes=context.request.partition_bytes,
        ),
        busiest_hour(today, hour_s),
        found.size.disk_bytes,
        version,
        olds,
        tuple(f"{one.level}: {one.text}." for one in found.judged if one.is_above),
    )


def _loads(found: Inspection) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """The bytes of keys and states by partition and by bucket, and those of the largest key."""
    data = data_variables(found.variables)
    largest = max((key.bytes for one in data for key in one.largest), default=0)
    return _sizes(one.partitions for one in data), _sizes(one.buckets for one in data), largest


def _sizes(groups: Iterable[Iterable[Load]]) -> tuple[int, ...]:
    sizes = bytes_by_number(groups)
    return tuple(sizes.get(number, 0) for number in range(max(sizes, default=-1) + 1))


def _versions(context: Context) -> tuple[int | None, tuple[int, ...]]:
    """The version of the state that the stream writes, and older ones in its checkpoint.

    A version that only the deployed code has is none of them: to start that code is an upgrade.
    """
    found = (read_descriptor(context.generation.uri) or {}).get("state")
    if found is None:
        return None, ()
    version = int(found["version"])
    if version != getattr(context.job, "state_version", None):
        return version, ()
    return version, tuple(sorted(int(one) for one in found["schemas"] if int(one) < version))


def busy_batch(times: Sequence[BatchTime], trigger_ms: int) -> BusyBatch | None:
    """The quarter of the batches that read the most; None without batches.

    Args:
        times: The times of the retained batches.
        trigger_ms: The trigger interval, milliseconds.
    """
    fixed_ms = fixed_cost_ms(times)
    if fixed_ms is None:
        return None
    most = sorted(times, key=lambda time: time.records)[-max(1, len(times) // 4) :]
    records = int(median(time.records for time in most))
    return BusyBatch(float(median(time.duration_ms for time in most)), records, fixed_ms, trigger_ms)


def _counts(uri: str, stream: str, since: datetime) -> list[tuple[datetime, int]]:
    """The commit time and the records of each batch since a time."""
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
        return []
    return [(row["committed_at"], sum(row[name] or 0 for name in _COUNTED)) for row in rows.to_pylist()]


def busiest_hour(batches: list[tuple[datetime, int]], hour_s: float = 3600.0) -> float:
    """The largest mean rate of a clock hour, records/s: a backlog that is read once is no lasting rate.

    Args:
        batches: Commit time and number of records of each batch.
        hour_s: How long an hour is, seconds: the 24th part of a day of the stream's care.
    """
    by_hour: dict[int, int] = {}
    for at, records in batches:
        hour = int(at.timestamp() // hour_s)
        by_hour[hour] = by_hour.get(hour, 0) + records
    if not by_hour:
        return 0.0
    times = [at for at, _ in batches]
    lasted = (max(times) - min(times)).total_seconds()
    return max(by_hour.values()) / min(hour_s, max(_LEAST_S, lasted))
