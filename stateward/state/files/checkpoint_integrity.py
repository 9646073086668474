"""Whether a checkpoint may be moved, judged by its logs alone: nothing is written, and no Spark is needed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from stateward.contract import storage
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.state.operation.errors import StateError

ROCKSDB = "RocksDBStateStoreProvider"
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_PARTITIONS = "spark.sql.shuffle.partitions"


class UnsoundCheckpointError(StateError):
    """A checkpoint is not fit for what was to be done with it."""


@dataclass(frozen=True)
class Sound:
    """A checkpoint whose last planned batch is committed.

    Attributes:
        query_id: Of its query.
        batch_id: The last batch.
        partitions: Of its state.
        provider: The class that keeps its state, without the package.
        ends: Where the last batch ends in each of the query's sources, of whatever kind, as JSON.
        watermark_ms: The watermark of the last batch (ms since 1970 UTC); 0 without one.
    """

    query_id: str
    batch_id: int
    partitions: int
    provider: str
    ends: tuple[str, ...]
    watermark_ms: int


def examine(checkpoint_uri: str) -> Sound:
    """What a checkpoint's logs say.

    Raises:
        UnsoundCheckpointError: It is not there, not drained, or a part of its logs is missing or damaged.
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
            f"{partitions or 'nothing'}; the checkpoint is of a Spark that is too old to be moved"
        )
    return Sound(
        query_id,
        checkpoint.last_committed(),
        int(partitions),
        provider.rpartition(".")[2],
        ends,
        int(metadata.get("batchWatermarkMs", 0)),
    )


def require_whole_logs(checkpoint_uri: str) -> None:
    """Make sure that no batch is missing between the first and the last that are on record.

    Raises:
        UnsoundCheckpointError: One is, or no batch is committed.
    """
    planned, committed = (_batches(checkpoint_uri, log) for log in ("offsets", "commits"))
    if not committed:
        raise UnsoundCheckpointError(
            f"{checkpoint_uri}: expected a committed batch, found none; let the stream run for a batch first"
        )
    for log, batches in (("offsets", planned), ("commits", committed)):
        # Spark removes files from the old end of its logs only.
        first, last = min(batches, default=0), max(committed)
        missing = [str(batch) for batch in range(first, last + 1) if batch not in batches]
        if missing:
            raise UnsoundCheckpointError(
                f"{checkpoint_uri}/{log}: expected batches {first} to {last}, found no file for "
                f"{', '.join(missing[:5])}; restore a savepoint that is whole"
            )


def _require_drained(checkpoint_uri: str) -> None:
    planned, committed = (_batches(checkpoint_uri, log) for log in ("offsets", "commits"))
    if max(planned) != max(committed):
        raise UnsoundCheckpointError(
            f"{checkpoint_uri}: expected a drained checkpoint, found batch {max(planned)} planned and batch "
            f"{max(committed)} the last that is committed; start the stream and stop it again"
        )


def _batches(checkpoint_uri: str, log: str) -> set[int]:
    return {int(name) for name in storage.list_names(f"{checkpoint_uri}/{log}") if name.isdigit()}


def _plan(checkpoint_uri: str, batch_id: int) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The metadata of a batch's plan, with the settings it has to have, and the ends of its sources."""
    uri = f"{checkpoint_uri}/offsets/{batch_id}"
    try:
        _, text, *ends = (storage.read_text(uri) or "").splitlines()
        metadata: dict[str, Any] = json.loads(text)
        return {**metadata, "conf": dict(metadata["conf"])}, tuple(ends)
    except (ValueError, IndexError, KeyError, TypeError) as error:
        raise UnsoundCheckpointError(
            f"{uri}: expected a batch's plan with Spark's settings, found something else "
            f"({type(error).__name__}: {error}); restore a savepoint that is whole"
        ) from error
