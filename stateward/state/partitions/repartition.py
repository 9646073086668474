"""Another number of partitions for the state of a drained stream: on a copy, by Spark itself, and proved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stateward.contract import storage
from stateward.contract.job_steps import Report
from stateward.runtime.checkpoint.generations import UNFINISHED
from stateward.state.files.checkpoint_copy import copy_checkpoint, paths_in
from stateward.state.files.checkpoint_integrity import ROCKSDB, Sound, examine
from stateward.state.files.checksums import Placement, StateDigests, survey
from stateward.state.inspection.comparison import Difference, Samples, State, compare_entries
from stateward.state.inspection.masker import Masker
from stateward.state.operation.checkpoint_build import Step, Steps, unfinished
from stateward.state.operation.errors import StateError
from stateward.state.reader.stores import format_of, in_words
from stateward.state.reader.variables import is_movable, variables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SHOWN = 5
_LONGEST = 200


class RepartitionRefusedError(StateError):
    """The state cannot be repartitioned; nothing was written."""


class RepartitionFailedError(StateError):
    """Spark could not repartition the copy; the source is as it was."""


class ProofError(StateError):
    """After the repartition the state is not what it was; the source is as it was."""


@dataclass(frozen=True)
class Repartitioned:
    """What came of it.

    Attributes:
        changed: False if the state had that number of partitions already; then there is no target.
        partitions_before, partitions_after: Of the state.
        batch_before, batch_after: The last batch of source and target; a repartition is a batch of its own.
        digests: What each variable comes to, the same before and after.
        per_partition: Entries by variable and partition, after.
        steps: In their order.
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
) -> Repartitioned:
    """Make a copy of a checkpoint whose state has another number of partitions.

    The source is only read. A target that an interrupted attempt has left is thrown away and made anew; until
    the proof has held, the target has a file `UNFINISHED`.

    Args:
        spark: A session; no query may run on the source.
        source_uri: A drained checkpoint.
        target_uri: The folder for the new one.
        partitions: How many.
        report: Called with ``check``, ``digest``, ``copy``, ``repartition`` and ``prove``.

    Raises:
        RepartitionRefusedError: It cannot be done; nothing was written.
        UnsoundCheckpointError: The source is not drained, or not whole; nothing was written.
        StateReadError: The state of the source cannot be read; nothing was written.
        CopyError: A file cannot be read or written, or is damaged; there is no target then.
        RepartitionFailedError: Spark gave up.
        ProofError: The result differs from the source.
    """
    source_uri, target_uri = source_uri.rstrip("/"), target_uri.rstrip("/")
    report("check", source_uri)
    sound = _check(source_uri, target_uri, partitions)
    if sound.partitions == partitions:
        return Repartitioned(False, partitions, partitions, sound.batch_id, sound.batch_id)
    steps = Steps(target_uri)
    report("digest", "the state as it is")
    with steps.timed("digest"):
        before = _digest(spark, source_uri, sound)
    with unfinished(target_uri, {"source": source_uri, "partitions": partitions}):
        with steps.timed("copy"):
            copy_checkpoint(source_uri, target_uri, report)
        report("repartition", f"{sound.partitions} to {partitions} partitions")
        with steps.timed("repartition"):
            _run(spark, target_uri, partitions)
        report("prove", f"{sum(digest.entries for digest in before.values())} entries")
        with steps.timed("prove"):
            per_partition = _prove(spark, source_uri, target_uri, partitions, before)
    return Repartitioned(
        True,
        sound.partitions,
        partitions,
        sound.batch_id,
        sound.batch_id + 1,
        before,
        per_partition,
        steps.done,
    )


def spark_repartition(spark: SparkSession, checkpoint_uri: str, partitions: int) -> None:
    """Spark's own offline repartition, in place; private in Spark 4.2, so it is called here only."""
    spark._streamingCheckpointManager.repartition(checkpoint_uri, partitions, enforce_exactly_once_sink=True)


def _check(source_uri: str, target_uri: str, partitions: int) -> Sound:
    if partitions < 1:
        raise RepartitionRefusedError(f"{source_uri}: expected 1 partition or more, found {partitions}")
    sound = examine(source_uri)
    if sound.partitions == partitions:
        return sound
    # Spark itself looks after it has written the plan of a batch, and then the stream does not start.
    if sound.provider != ROCKSDB:
        raise RepartitionRefusedError(
            f"{source_uri}: expected state kept by {ROCKSDB}, found {sound.provider or 'nothing'}: Spark "
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
    return sound


def _digest(spark: SparkSession, source_uri: str, sound: Sound) -> StateDigests:
    # Of some Spark cannot even read the entries, and says so in words that do not help.
    _require_movable(
        source_uri, [str(one) for one in variables(spark, source_uri) if not is_movable(one.store)]
    )
    digests, placement = survey(spark, source_uri, sound.partitions)
    _require_movable(source_uri, placement.unknown)
    if not digests:
        raise RepartitionRefusedError(
            f"{source_uri}: expected a query that keeps state, found none; there is nothing to repartition"
        )
    if problems := _misplaced(placement):
        raise RepartitionRefusedError(
            f"{source_uri}: expected every key where Spark looks for it, found "
            f"{'; '.join(problems[:_SHOWN])}; restore a savepoint that is whole"
        )
    return digests


def _require_movable(source_uri: str, unknown: Sequence[str]) -> None:
    if unknown:
        raise RepartitionRefusedError(
            f"{source_uri}: expected state of which it is known by what Spark partitions it, found "
            f"{', '.join(unknown)}: it cannot be proved that it was moved; begin a new checkpoint with the "
            "other number of partitions"
        )


def _run(spark: SparkSession, target_uri: str, partitions: int) -> None:
    failed = f"{target_uri}: the copy could not be repartitioned to {partitions} partitions"
    with in_words(RepartitionFailedError, failed), format_of(spark, target_uri):
        spark_repartition(spark, target_uri, partitions)


def _prove(
    spark: SparkSession, source_uri: str, target_uri: str, partitions: int, before: StateDigests
) -> dict[str, dict[int, int]]:
    """Entries by variable and partition, if all is as it should be."""
    problems = _of_logs(source_uri, target_uri, partitions)
    after, placement = survey(spark, target_uri, partitions)
    problems += _misplaced(placement)
    if after != before:
        found = compare_entries(
            spark, State(source_uri), State(target_uri), lambda *step: None, Samples(_SHOWN, Masker())
        )
        problems += [_shown(difference) for difference in found.differences]
        problems = problems or ["the checksums differed, and did not when they were taken again"]
    if problems:
        raise ProofError(
            f"{target_uri}: expected the state of {source_uri} in {partitions} partitions, found "
            f"{'; '.join(problems)}; the source is as it was: keep it, and report this"
        )
    return placement.per_partition


def _of_logs(source_uri: str, target_uri: str, partitions: int) -> list[str]:
    """What is wrong with the logs of the copy: its last batch has to be one that reads nothing."""
    source, target = examine(source_uri), examine(target_uri)
    problems = []
    if (target.query_id, target.provider) != (source.query_id, source.provider):
        problems.append(f"query {target.query_id} on {target.provider}")
    if (target.batch_id, target.partitions) != (source.batch_id + 1, partitions):
        problems.append(f"batch {target.batch_id} with {target.partitions} partitions as the last")
    if (target.ends, target.watermark_ms) != (source.ends, source.watermark_ms):
        problems.append(f"a last batch that ends at {target.ends}, watermark {target.watermark_ms}")
    return problems


def _shown(difference: Difference) -> str:
    """The difference and its first example, short enough for a line of a log."""
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
    return problems + [
        f"{name}, of which it is not known how it is partitioned" for name in placement.unknown
    ]
