"""Checks from its logs alone, without Spark, that a checkpoint can be moved. Writes nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from stateward.contract import storage
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.state.errors import StateError

ROCKSDB = "RocksDBStateStoreProvider"
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_PARTITIONS = "spark.sql.shuffle.partitions"


class UnsoundCheckpointError(StateError):
    """A checkpoint does not meet the requirements of the operation."""


@dataclass(frozen=True)
class DrainedCheckpoint:
    """A checkpoint whose last planned batch is committed.

    Attributes:
        query_id: The id of its query.
        batch_id: The last batch.
        partitions: Number of state partitions.
        provider: Class name of the state store provider, without the package.
        ends: End offsets of the last batch, as JSON, one for each source of the query.
        watermark_ms: The watermark of the last batch (ms since 1970 UTC); 0 without one.
    """

    query_id: str
    batch_id: int
    partitions: int
    provider: str
    ends: tuple[str, ...]
    watermark_ms: int


def examine(checkpoint_uri: str) -> DrainedCheckpoint:
    """Read the logs of a drained checkpoint.

    Raises:
        UnsoundCheckpointError: It does not exist, is not drained, or its logs are incomplete or damaged.
    """
    checkpoint = Checkpoint(checkpoint_uri)
    try:
        query_id = checkpoint.query_id()
    except (ValueError, KeyError) as error:
        raise UnsoundCheckpointError(
            f"{checkpoint_uri}/metadata: expected the query's id, found something else ({error}); restore a "
            "savepoint"
        ) from error
    if query_id is None:
        raise UnsoundCheckpointError(
            f"{checkpoint_uri}: expected a checkpoint, found no file metadata; check the folder"
        )
    require_whole_logs(checkpoint_uri)
    _require_drained(checkpoint_uri)
    metadata, ends = _plan(checkpoint_uri, checkpoint.last_committed())
    conf = metadata["conf"]
    provider, partitions = str(conf.get(_PROVIDER, "")), str(conf.get(_PARTITIONS, ""))
    if not partitions.isdigit():
        raise UnsoundCheckpointError(
            f"{checkpoint_uri}/offsets/{checkpoint.last_committed()}: expected {_PARTITIONS}, found "
            f"{partitions or 'nothing'}; the Spark version that wrote the checkpoint is too old"
        )
    return DrainedCheckpoint(
        query_id,
        checkpoint.last_committed(),
        int(partitions),
        provider.rpartition(".")[2],
        ends,
        int(metadata.get("batchWatermarkMs", 0)),
    )


def require_whole_logs(checkpoint_uri: str) -> None:
    """Require that the logs have every batch between the first and the last.

    Raises:
        UnsoundCheckpointError: A batch is missing, or none is committed.
    """
    planned, committed = (_batches(checkpoint_uri, log) for log in ("offsets", "commits"))
    if not committed:
        raise UnsoundCheckpointError(
            f"{checkpoint_uri}: expected a committed batch, found none; let the stream run for a batch first"
        )
    for log, batches in (("offsets", planned), ("commits", committed)):
        # Spark removes only the oldest files of its logs.
        first, last = min(batches, default=0), max(committed)
        missing = [str(batch) for batch in range(first, last + 1) if batch not in batches]
        if missing:
            raise UnsoundCheckpointError(
                f"{checkpoint_uri}/{log}: expected batches {first} to {last}, found no file for "
                f"{', '.join(missing[:5])}; restore an intact savepoint"
            )


def _require_drained(checkpoint_uri: str) -> None:
    planned, committed = (_batches(checkpoint_uri, log) for log in ("offsets", "commits"))
    if max(planned) != max(committed):
        raise UnsoundCheckpointError(
            f"{checkpoint_uri}: expected a drained checkpoint, found batch {max(planned)} planned and batch "
            f"{max(committed)} the last committed; start the stream and stop it again"
        )


def _batches(checkpoint_uri: str, log: str) -> set[int]:
    return {int(name) for name in storage.list_names(f"{checkpoint_uri}/{log}") if name.isdigit()}


def _plan(checkpoint_uri: str, batch_id: int) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The metadata of a batch's plan, with Spark's settings, and the end offsets of its sources."""
    uri = f"{checkpoint_uri}/offsets/{batch_id}"
    try:
        _, text, *ends = (storage.read_text(uri) or "").splitlines()
        metadata: dict[str, Any] = json.loads(text)
        return {**metadata, "conf": dict(metadata["conf"])}, tuple(ends)
    except (ValueError, IndexError, KeyError, TypeError) as error:
        raise UnsoundCheckpointError(
            f"{uri}: expected a batch's plan with Spark's settings, found something else "
            f"({type(error).__name__}: {error}); restore an intact savepoint"
        ) from error
