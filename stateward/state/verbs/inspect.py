"""The verb ``inspect``: what is in a stream's state, how large it is, where it lies, and how it grows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stateward.contract.process_output import Report
from stateward.runtime.api.key_logic import masked_key
from stateward.runtime.api.stream_job import StreamJob
from stateward.state.errors import StateError
from stateward.state.inspection.bounds import Bound, bounds_of
from stateward.state.inspection.documents import inspection_document
from stateward.state.inspection.evenness import Judged, MeasureLimits, judged
from stateward.state.inspection.sizes import Growth, Sample, Size, SizeLimits, growth, skew, spread
from stateward.state.operation.answer import Answer, Listing
from stateward.state.operation.verb import ReadOnly
from stateward.state.pages.page import inspection_page
from stateward.state.partitions.checkpoint_interval import Interval, interval, mean_time_between
from stateward.state.reader.key_evaluator import evaluator_of
from stateward.state.reader.keyed_variables import KEYS, keyed_variables, live_keys
from stateward.state.reader.measures import BatchTime, Variable, bytes_by_number
from stateward.state.reader.native_variables import native_variable, row_count
from stateward.state.reader.retained_batches import (
    Retained,
    batch_times,
    is_retained,
    plans,
    retained,
    state_files,
)
from stateward.state.reader.state_reader import readable
from stateward.state.reader.stores import Store, stores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stateward.runtime.api.any_job import AnyJob
    from stateward.runtime.api.config import Config
    from stateward.runtime.checkpoint.checkpoint import PlannedBatch


@dataclass(frozen=True)
class Inspection:
    """What was found; times in milliseconds since 1970 UTC.

    Attributes:
        stream: The stream.
        checkpoint_uri: The folder that was read.
        batch_id: As of which batch.
        first_batch, last_batch: The retained batches.
        planned_ms: When that batch was planned.
        watermark_ms: Its watermark; 0 before the first tick.
        variables: By operator and variable.
        partition_skew, bucket_skew: The fullest over the mean, by bytes of keys and states; None without any.
        judged: What is judged of it, by the limits of a running stream.
        size: The terms of the size formula.
        growth: Over the retained batches.
        times: When the retained batches were planned and committed, oldest first.
        interval: The checkpoint-interval formula.
        bounds: How often each bound per key was reached, and what that cost.
        unreadable: States that the current logic of the stream cannot read.
        keys_shown: Whether keys are named in full.
        notes: What was left out, or what a figure rests on, in sentences.
    """

    stream: str
    checkpoint_uri: str
    batch_id: int
    first_batch: int
    last_batch: int
    planned_ms: int
    watermark_ms: int
    variables: tuple[Variable, ...]
    partition_skew: float | None
    bucket_skew: float | None
    judged: tuple[Judged, ...]
    size: Size
    growth: Growth
    times: tuple[BatchTime, ...]
    interval: Interval
    bounds: tuple[Bound, ...]
    unreadable: int
    keys_shown: bool
    notes: tuple[str, ...]


class InspectVerb(ReadOnly):
    """Show what is in a state, how large it is, where it lies, and how it grows."""

    name = "inspect"

    def apply(self) -> Answer:
        """Look at the current state, or at a savepoint's."""
        context, arguments = self.context, self.context.request.arguments
        mtbf_ms: int | None = None
        mtbf_from = "assumed: no restarts are on record"
        if (failures := context.request.failures) is not None:
            since_ms, now_ms = (int(at.timestamp() * 1000) for at in (failures.since, context.clock()))
            mtbf_ms, mtbf_from = mean_time_between(failures.count, since_ms, now_ms)
        found = inspect(
            context.spark(),
            context.checkpoint(arguments["savepoint"]),
            context.stream,
            job=context.job,
            config=context.request.config,
            batch_id=arguments["batch"],
            limits=SizeLimits(**context.request.state_limits),
            measure_limits=context.request.measure_limits,
            mtbf_ms=mtbf_ms,
            mtbf_from=mtbf_from,
            show_keys=arguments["show_keys"],
            report=context.report,
        )
        size = found.size
        rows = [(one.operator, one.name, one.rows, one.key_bytes, one.value_bytes) for one in found.variables]
        return Answer(
            (
                f"{context.stream} as of batch {found.batch_id}: {size.keys:,} keys of "
                f"{size.mean_key_bytes:.0f} bytes with {size.mean_value_bytes:.0f} bytes of state, "
                f"{size.disk_bytes:,} bytes on disk.",
                *(f"{one.level}: {one.text}." for one in found.judged if one.is_above),
                *(f"Bound reached, {one.name}: {one.cost}." for one in found.bounds if one.reached),
                *found.notes,
            ),
            (Listing("Variables", ("operator", "variable", "rows", "key bytes", "value bytes"), rows),),
            inspection_document(found),
            whole_page=inspection_page(found),
        )


def inspect(
    spark: SparkSession,
    checkpoint_uri: str,
    stream: str,
    *,
    job: AnyJob | None = None,
    config: Config | None = None,
    batch_id: int | None = None,
    limits: SizeLimits | None = None,
    measure_limits: MeasureLimits | None = None,
    mtbf_ms: int | None = None,
    mtbf_from: str = "",
    show_keys: bool = False,
    largest: int = 10,
    samples: int = 5,
    report: Report = lambda step, state: None,
) -> Inspection:
    """Look at the state in a checkpoint's folder; nothing is written there.

    Args:
        spark: A session; it need not be the one that runs the stream.
        checkpoint_uri: One generation's folder, or a savepoint's copy of one.
        stream: Name of the stream.
        job: Its declaration. With it and ``config`` the keys of a keyed stream have timers.
        config: Its launch.
        batch_id: As of which retained batch; None for the newest.
        limits: Sizes at which to warn; None for 1 GB and 5 GB.
        measure_limits: Limits of what is judged; None for the defaults.
        mtbf_ms: The mean time between failures, milliseconds; None to assume a day.
        mtbf_from: The source of that.
        show_keys: Whether keys are named in full, which may be personal data.
        largest: How many of the largest keys to name.
        samples: As of how many batches to count keys for the growth; 1 or less leaves it out. Each costs
            Spark a load of the state.
        report: Called with each step and its state.

    Raises:
        StateError: There is no such batch, or Spark cannot read its state.
    """
    found = retained(checkpoint_uri, stream, batch_id)
    report("operators", "reading")
    all_stores = stores(spark, found.uri)
    variables, unreadable = _measured(
        spark, found, all_stores, job=job, config=config, largest=largest, report=report
    )
    report("growth", "sampling")
    planned, data = plans(found), data_variables(variables)
    size = _size(found, variables)
    earlier = spread([batch for batch in planned if batch < found.batch_id], samples - 1)
    counted = _samples(spark, found, all_stores, [planned[batch] for batch in earlier])
    counted.append(Sample(found.batch_id, found.planned_ms, size.keys))
    times = tuple(batch_times(found, planned))
    return Inspection(
        stream=stream,
        checkpoint_uri=found.uri,
        batch_id=found.batch_id,
        first_batch=found.first,
        last_batch=found.last,
        planned_ms=found.planned_ms,
        watermark_ms=found.watermark_ms,
        variables=tuple(variables if show_keys else map(_masked, variables)),
        partition_skew=skew([*bytes_by_number(one.partitions for one in data).values()]),
        bucket_skew=skew([*bytes_by_number(one.buckets for one in data).values()]),
        judged=judged(data, measure_limits or {}),
        size=size,
        growth=growth(counted, size, limits or SizeLimits()),
        times=times,
        interval=interval(times, mtbf_ms, mtbf_from),
        bounds=bounds_of(job, config, found),
        unreadable=unreadable,
        keys_shown=show_keys,
        notes=tuple(_notes(found, variables, unreadable, bool(times))),
    )


def _measured(
    spark: SparkSession,
    found: Retained,
    all_stores: tuple[Store, ...],
    *,
    job: AnyJob | None,
    config: Config | None,
    largest: int,
    report: Report,
) -> tuple[list[Variable], int]:
    """All variables, and how many states of a keyed stream could not be read."""
    evaluator = evaluator_of(job, config) if isinstance(job, StreamJob) and config is not None else None
    buckets = None if config is None else config.state_buckets
    variables, unreadable = list[Variable](), 0
    for store in all_stores:
        report(f"operator {store.operator_id} {store.name}", "measuring")
        if store.is_keyed:
            keyed = keyed_variables(spark, found, store, evaluator=evaluator, buckets=buckets, most=largest)
            variables += keyed.variables
            unreadable += keyed.unreadable
        else:
            variables.append(native_variable(spark, found, store, largest))
    return variables, unreadable


def data_variables(variables: Sequence[Variable]) -> Sequence[Variable]:
    """The variables that hold the states: the keys of a keyed stream, and not how they are stored."""
    keyed = [variable for variable in variables if variable.name == KEYS]
    return keyed or variables


def _size(found: Retained, variables: list[Variable]) -> Size:
    data = data_variables(variables)
    return Size(
        keys=sum(variable.rows for variable in data),
        key_bytes=sum(variable.key_bytes for variable in data),
        value_bytes=sum(variable.value_bytes for variable in data),
        store_bytes=sum(v.key_bytes + v.value_bytes for v in variables if v.measure == "stored"),
        disk_bytes=sum(state_files(found).values()),
    )


def _samples(
    spark: SparkSession, found: Retained, all_stores: tuple[Store, ...], earlier: list[PlannedBatch]
) -> list[Sample]:
    """The keys as of earlier batches; without those that a running stream has removed in the meantime."""
    counted = []
    for plan in earlier:
        try:
            counted.append(_sample(spark, found, all_stores, plan))
        except StateError:
            if is_retained(found, plan.batch_id):
                raise
    return counted


def _sample(
    spark: SparkSession, found: Retained, all_stores: tuple[Store, ...], plan: PlannedBatch
) -> Sample:
    """The keys as of an earlier batch."""
    batch = plan.batch_id
    with readable(spark, found):
        readers = [(live_keys if store.is_keyed else row_count, store) for store in all_stores]
        keys = sum(read(spark, found, store, batch) for read, store in readers)
    return Sample(batch, plan.planned_ms, keys)


def _masked(variable: Variable) -> Variable:
    return replace(variable, largest=tuple(replace(key, key=masked_key(key.key)) for key in variable.largest))


def _notes(found: Retained, variables: list[Variable], unreadable: int, has_times: bool) -> list[str]:
    notes = []
    if not variables:
        notes.append("The stream keeps no state.")
    if unreadable:
        notes.append(
            f"{unreadable} states cannot be read by the stream's current code, nor brought to its version by "
            "the steps in STATE_STEPS, so they have no timers here: `verdict` says what is missing."
        )
    if any(one.name == KEYS and one.rows and one.timers is None for one in variables):
        notes.append("Without the stream's declaration and configuration its keys have no timers here.")
    if found.batch_id != found.last:
        notes.append("Files on disk are the current ones, whichever batch is inspected.")
    if not has_times:
        notes.append(
            "The times of the commits are not those of their batches, as in a copy of a checkpoint, so what "
            "a batch costs is not measured."
        )
    return notes
