"""Stops a query between batches, so that the last planned batch in its checkpoint is committed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from stateward.runtime.checkpoint.checkpoint import Checkpoint

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_LOG = logging.getLogger(__name__)


class NotDrainedError(RuntimeError):
    """The query is stopped, but its last planned batch is not committed; the next start commits it."""


def drain(
    query: StreamingQuery | None,
    checkpoint: Checkpoint,
    start_once: Callable[[], StreamingQuery],
    stream: str,
) -> None:
    """Stop ``query`` and finish its planned batch.

    ``stop()`` interrupts the query and usually leaves a batch that is planned but not committed. Another
    start with ``trigger(once=True)`` runs exactly that batch. On a clean checkpoint it would run a new batch,
    so it is skipped.

    Args:
        query: The running query, or None if it has already ended.
        checkpoint: Its checkpoint.
        start_once: Starts the same query for one batch.
        stream: Name of the stream, for errors.

    Raises:
        NotDrainedError: The pending batch could not be committed.
    """
    from pyspark.errors import PySparkException

    if query is not None:
        query.stop()
    if checkpoint.is_clean():
        return
    planned = checkpoint.last_planned()
    _LOG.info("stream %s: committing the pending batch %d before leaving", stream, planned)
    cause: Exception | None = None
    try:
        start_once().awaitTermination()
    except PySparkException as error:
        cause = error
    if not checkpoint.is_clean():
        raise NotDrainedError(
            f"stream {stream}: batch {planned} is planned but not committed, so the checkpoint is not "
            "drained; start the stream again to repair it"
        ) from cause
