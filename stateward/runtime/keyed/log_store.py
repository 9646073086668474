"""The store of a driver: a log in Spark's state store (`state_log`), read from a local copy (`state_cache`).

The log is the state: Spark commits and restores it with the batch. The copy follows it, and may be behind,
ahead or gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext

from stateward.runtime.keyed.bucket import Bucket
from stateward.runtime.keyed.state_cache import StateCache
from stateward.runtime.keyed.state_log import StateLog
from stateward.runtime.keyed.state_store import StateRules

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle


@dataclass(frozen=True)
class LogBackend:
    """Opens the log and the copy of a checkpoint.

    Attributes:
        cache_root: Folder for the local copies of states, on the worker's machine.
        checkpoint_uri: Distinguishes the copies of different checkpoints.
    """

    cache_root: str
    checkpoint_uri: str

    def open(self, handle: StatefulProcessorHandle, rules: StateRules) -> LogStore:
        """Declare the log's variables; the copy is opened when the first bucket is."""
        return LogStore(self, StateLog(handle), rules)


class LogStore:
    """The log and the copy of one state partition, during one task.

    Args:
        backend: The checkpoint.
        log: The log of the bucket that Spark processes.
        rules: What a bucket asks about its states.
    """

    def __init__(self, backend: LogBackend, log: StateLog, rules: StateRules) -> None:
        self._backend = backend
        self._log = log
        self._rules = rules
        self._cache: StateCache | None = None

    def bucket(self, number: int, passed_ms: int) -> Bucket:
        """The bucket that Spark processes.

        Raises:
            CopyFolderError: The folder for copies belongs to another user.
        """
        if self._cache is None:
            context = TaskContext.get()
            partition = 0 if context is None else context.partitionId()
            self._cache = StateCache(self._backend.cache_root, self._backend.checkpoint_uri, partition)
        return Bucket(number, self._log, self._cache, self._rules, passed_ms=passed_ms)

    def commit(self) -> None:
        """Make the changes of the copy visible to the next task; Spark commits the log.

        Raises:
            OSError: The disk is full.
        """
        cache, self._cache = self._cache, None
        if cache is not None:
            cache.commit()

    def abort(self) -> None:
        """Discard the changes of the copy; Spark discards those of the log."""
        cache, self._cache = self._cache, None
        if cache is not None:
            cache.abort()
