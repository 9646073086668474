"""A Delta table that is written to again and again, opened seldom."""

from __future__ import annotations

from deltalake import DeltaTable

from stateward.runtime.sink.delta_tables import has_commit

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
        if self._table is None or self._is_to_be_opened(self._table):
            self._table = DeltaTable(self._uri)
            self._reopen_at = self._table.version() + _COMMITS_BETWEEN_OPENINGS
        else:
            self._table.update_incremental()
        return self._table

    def _is_to_be_opened(self, table: DeltaTable) -> bool:
        # A table that somebody removed would be written on to where it ended, and be one without a beginning.
        return table.version() >= self._reopen_at or not has_commit(self._uri, table.version())
