"""Repartitions the state of a drained stream: on a copy, with Spark's own repartition, and verified."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stateward.contract import storage
from stateward.contract.process_output import Report
from stateward.runtime.checkpoint.generations import UNFINISHED
from stateward.state.errors import StateError
from stateward.state.files.checkpoint_build import Step, Steps, unfinished
from stateward.state.files.checkpoint_copy import copy_checkpoint, paths_in
from stateward.state.files.checkpoint_integrity import ROCKSDB, DrainedCheckpoint, examine
from stateward.state.inspection.comparison import Difference, Samples, State, compare_entries
from stateward.state.inspection.masker import Masker
from stateward.state.reader.checksums import Placement, StateDigests, survey
from stateward.state.reader.stores import checkpoint_format, spark_errors_as
from stateward.state.reader.variables import is_movable, variables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SHOWN = 5
_LONGEST = 200


class RepartitionRefusedError(StateError):
    """The state cannot be repartitioned; nothing was written."""


class RepartitionFailedError(StateError):
    """Spark could not repartition the copy; the source is unchanged."""


class ProofError(StateError):
    """The repartitioned state differs from the source, which is unchanged."""


@dataclass(frozen=True)
class RepartitionResult:
    """The result of a repartition.

    Attributes:
        changed: False if the state already had that number of partitions; then there is no target.
        partitions_before, partitions_after: Number of state partitions.
        batch_before, batch_after: The last batch of source and target; a repartition is a separate batch.
        digests: The checksums by variable, equal before and after.
        per_partition: Entries by variable and partition, after.
        steps: The steps, in order.
    """

    changed: bool
    partitions_before: int
    partitions_after: int
    batch_before: int
    batch_after: int
    digests: StateDigests = field(default_factory=dict)
    per_partition: dict[str, dict[int, int]] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()


def repartition(
    spark: SparkSession, source_uri: str, target_uri: str, partitions: int, report: Report
) -> RepartitionResult:
    """Copy a checkpoint and change the number of state partitions of the copy.

    The source is only read. The target of an interrupted attempt is removed first. Until the proof succeeds,
    the target has a file `UNFINISHED`.

    Args:
        spark: A session; no query may run on the source.
        source_uri: A drained checkpoint.
        target_uri: Folder of the copy.
        partitions: The new number of state partitions.
        report: Called with ``check``, ``digest``, ``copy``, ``repartition`` and ``prove``.

    Raises:
        RepartitionRefusedError: The repartition is impossible; nothing was written.
        UnsoundCheckpointError: The source is not drained, or incomplete; nothing was written.
        StateReadError: The state of the source cannot be read; nothing was written.
        CopyError: A file cannot be read or written, or is damaged; the target is removed.
        RepartitionFailedError: Spark failed.
        ProofError: The result differs from the source.
    """
    source_uri, target_uri = source_uri.rstrip("/"), target_uri.rstrip("/")
    report("check", source_uri)
    drained = _check(source_uri, target_uri, partitions)
    if drained.partitions == partitions:
        return RepartitionResult(False, partitions, partitions, drained.batch_id, drained.batch_id)
    steps = Steps(target_uri)
    report("digest", "the current state")
    with steps.timed("digest"):
        before = _digest(spark, source_uri, drained)
    with unfinished(target_uri, {"source": source_uri, "partitions": partitions}):
        with steps.timed("copy"):
            copy_checkpoint(source_uri, target_uri, report)
        report("repartition", f"{drained.partitions} to {partitions} partitions")
        with steps.timed("repartition"):
            _run(spark, target_uri, partitions)
        report("prove", f"{sum(digest.entries for digest in before.values())} entries")
        with steps.timed("prove"):
            per_partition = _prove(spark, source_uri, target_uri, partitions, before)
    return RepartitionResult(
        True,
        drained.partitions,
        partitions,
        drained.batch_id,
        drained.batch_id + 1,
        before,
        per_partition,
        steps.done,
    )


def spark_repartition(spark: SparkSession, checkpoint_uri: str, partitions: int) -> None:
    """Run Spark's offline repartition in place; private in Spark 4.2, so only this function calls it."""
    spark._streamingCheckpointManager.repartition(checkpoint_uri, partitions, enforce_exactly_once_sink=True)


def _check(source_uri: str, target_uri: str, partitions: int) -> DrainedCheckpoint:
    if partitions < 1:
        raise RepartitionRefusedError(f"{source_uri}: expected 1 partition or more, found {partitions}")
    drained = examine(source_uri)
    if drained.partitions == partitions:
        return drained
    # Spark checks this only after it has written the plan of a batch, with which the stream cannot start.
    if drained.provider != ROCKSDB:
        raise RepartitionRefusedError(
            f"{source_uri}: expected state kept by {ROCKSDB}, found {drained.provider or 'nothing'}: Spark "
            "repartitions no other; migrate the state to RocksDB first"
        )
    if f"{target_uri}/".startswith(f"{source_uri}/") or f"{source_uri}/".startswith(f"{target_uri}/"):
        raise RepartitionRefusedError(
            f"{target_uri}: expected a target beside the source {source_uri}, found one that holds the other"
        )
    if paths_in(target_uri) and storage.read_json(f"{target_uri}/{UNFINISHED}") is None:
        raise RepartitionRefusedError(
            f"{target_uri}: expected an empty target, or {UNFINISHED} of an interrupted attempt in it, "
            "found other files; choose another target"
        )
    return drained


def _digest(spark: SparkSession, source_uri: str, drained: DrainedCheckpoint) -> StateDigests:
    # Spark cannot even read the entries of some operators, and its error does not say why.
    _require_movable(
        source_uri, [str(one) for one in variables(spark, source_uri) if not is_movable(one.store)]
    )
    digests, placement = survey(spark, source_uri, drained.partitions)
    _require_movable(source_uri, placement.unknown)
    if not digests:
        raise RepartitionRefusedError(
            f"{source_uri}: expected a query that keeps state, found none; there is nothing to repartition"
        )
    if problems := _misplaced(placement):
        raise RepartitionRefusedError(
            f"{source_uri}: expected every key in its partition, found "
            f"{'; '.join(problems[:_SHOWN])}; restore an intact savepoint"
        )
    return digests


def _require_movable(source_uri: str, unknown: Sequence[str]) -> None:
    if unknown:
        raise RepartitionRefusedError(
            f"{source_uri}: expected state whose partitioning is known, found {', '.join(unknown)}, for "
            "which a repartition cannot be verified; begin a new checkpoint with the other "
            "number of partitions"
        )


def _run(spark: SparkSession, target_uri: str, partitions: int) -> None:
    failed = f"{target_uri}: the copy could not be repartitioned to {partitions} partitions"
    with spark_errors_as(RepartitionFailedError, failed), checkpoint_format(spark, target_uri):
        spark_repartition(spark, target_uri, partitions)


def _prove(
    spark: SparkSession, source_uri: str, target_uri: str, partitions: int, before: StateDigests
) -> dict[str, dict[int, int]]:
    """Verify the target; returns its entries by variable and partition."""
    problems = _of_logs(source_uri, target_uri, partitions)
    after, placement = survey(spark, target_uri, partitions)
    problems += _misplaced(placement)
    if after != before:
        found = compare_entries(
            spark, State(source_uri), State(target_uri), lambda *step: None, Samples(_SHOWN, Masker())
        )
        problems += [_shown(difference) for difference in found.differences]
        problems = problems or ["checksums that differed once and were equal when computed again"]
    if problems:
        raise ProofError(
            f"{target_uri}: expected the state of {source_uri} in {partitions} partitions, found "
            f"{'; '.join(problems)}. The source is unchanged; keep it, and report this"
        )
    return placement.per_partition


def _of_logs(source_uri: str, target_uri: str, partitions: int) -> list[str]:
    """The problems of the copy's logs: its last batch must read no records."""
    source, target = examine(source_uri), examine(target_uri)
    problems = []
    if (target.query_id, target.provider) != (source.query_id, source.provider):
        problems.append(f"query {target.query_id} on {target.provider}")
    if (target.batch_id, target.partitions) != (source.batch_id + 1, partitions):
        problems.append(f"last batch {target.batch_id} with {target.partitions} partitions")
    if (target.ends, target.watermark_ms) != (source.ends, source.watermark_ms):
        problems.append(f"a last batch that ends at {target.ends}, watermark {target.watermark_ms}")
    return problems


def _shown(difference: Difference) -> str:
    """The difference and its first example, short enough for a log line."""
    examples = [
        f", such as {sample.key[:_LONGEST]}: {(sample.left or 'nothing')[:_LONGEST]} before, "
        f"{(sample.right or 'nothing')[:_LONGEST]} after"
        for sample in difference.samples[:1]
    ]
    return f"{difference}{''.join(examples)}"


def _misplaced(placement: Placement) -> list[str]:
    problems = [
        f"{count} entries of {name} in another partition"
        for name, count in placement.misplaced.items()
        if count
    ]
    return problems + [f"{name}, whose partitioning is unknown" for name in placement.unknown]
