"""What one batch adds to one table: files that are written first, and one commit that refers to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties
from deltalake.transaction import AddAction

from stateward.runtime.sink.commit_retry import commit_with_retry
from stateward.runtime.sink.current_rows import newest_rows, upsert
from stateward.runtime.sink.data_files import add_files, write_data_files
from stateward.runtime.sink.fence import CheckLease, epoch_in

_WRITER = WriterProperties(compression="ZSTD")


class TableWrite:
    """The rows of a batch on their way into a table, once however often that is tried.

    After `prepare` the files have to be synced, and after `commit` the commit (`durable.sync_disks`).

    Args:
        stream: The stream.
        uri: The table.
        name: The name under which the table remembers the batches.
        batch_id: The batch.
        rows: All of the table's columns that the stream knows.
        current_by: The key of a table with one current row for each; its files are written by the commit.
        open_table: Gives the table as it is now.
    """

    def __init__(
        self,
        stream: str,
        uri: str,
        name: str,
        batch_id: int,
        rows: pa.Table,
        *,
        current_by: Sequence[str] = (),
        open_table: Callable[[], DeltaTable] | None = None,
    ) -> None:
        self._stream = stream
        self._uri = uri
        self._batch = Transaction(name, batch_id)
        self._rows = rows
        self._current_by = current_by
        # Opened again each time: a table object that is kept and updated grows by 100 kB a commit.
        self._open = open_table or (lambda: DeltaTable(uri))
        self._table: DeltaTable | None = None
        self._files: list[AddAction] | None = None

    def prepare(self) -> None:
        """Write the files, unless the batch is in the table.

        Raises:
            OSError: A file cannot be written; none is left.
        """
        self._table = self._open()
        if not self._current_by and not self._is_in(self._table):
            self._write_files(self._table)

    def commit(self, check: CheckLease) -> None:
        """Add the rows in one commit, unless the batch is in the table.

        Args:
            check: Called before each try.

        Raises:
            LeaseLostError: The lease is lost, or the table knows a later holder of it.
            CommitFailedError: Others have come between each time.
        """

        def write() -> None:
            table, self._table = self._table or self._open(), None
            epoch = epoch_in(table, self._stream, check)
            if not self._is_in(table):
                self._commit(table, epoch)

        commit_with_retry(self._uri, write)

    def _is_in(self, table: DeltaTable) -> bool:
        written = table.transaction_version(self._batch.app_id)
        return written is not None and written >= self._batch.version

    def _commit(self, table: DeltaTable, epoch: Transaction) -> None:
        transactions = [epoch, self._batch]
        if key := self._current_by:
            commit = CommitProperties(app_transactions=transactions)
            upsert(table, newest_rows(self._rows, key), key, _WRITER, commit)
        else:
            files = self._write_files(table) if self._files is None else self._files
            add_files(table, files, self._rows.num_rows, transactions)

    def _write_files(self, table: DeltaTable) -> list[AddAction]:
        types = {field.name: field.type for field in pa.schema(table.schema())}
        rows = self._rows.cast(pa.schema([(name, types[name]) for name in self._rows.schema.names]))
        self._files = write_data_files(self._uri, rows, table.metadata().partition_columns)
        return self._files
