"""A Delta table that is written to again and again, opened seldom."""

from __future__ import annotations

from deltalake import DeltaTable

from spark_jobs.runtime import storage

# An object that is kept and updated grows by 100 kB a commit.
_COMMITS_BETWEEN_OPENINGS = 64


class KeptTable:
    """Opens a table anew only now and then: a log without a checkpoint of late takes some 12 ms to read.

    Args:
        uri: The table.
    """

    def __init__(self, uri: str) -> None:
        self._uri = uri.rstrip("/")
        self._table: DeltaTable | None = None
        self._reopen_at = 0

    def current(self) -> DeltaTable:
        """The table as it is now.

        Raises:
            deltalake.exceptions.TableNotFoundError: It is not there.
        """
        if self._table is None or self._table.version() >= self._reopen_at or not self._is_there(self._table):
            self._table = DeltaTable(self._uri)
            self._reopen_at = self._table.version() + _COMMITS_BETWEEN_OPENINGS
        else:
            self._table.update_incremental()
        return self._table

    def _is_there(self, table: DeltaTable) -> bool:
        # A table that somebody removed would be written on to where it ended, and be one without a beginning.
        return storage.exists(f"{self._uri}/_delta_log/{table.version():020d}.json")
