"""Writes the rows of one batch to one table: files first, then one commit that adds them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties
from deltalake.transaction import AddAction

from stateward.runtime.delta.commit_retry import commit_with_retry
from stateward.runtime.delta.data_files import add_files, write_data_files
from stateward.runtime.sink.fence import CheckLease, epoch_in
from stateward.runtime.sink.row_files import WrittenFiles

_ORDER = "__order"
_WRITER = WriterProperties(compression="ZSTD")


class TableWrite:
    """The idempotent write of a batch's rows to a table.

    The caller syncs the files after `prepare`, and the log after `commit` (`storage.sync_disks`).

    Args:
        stream: The stream.
        uri: The table.
        name: The application id under which the table stores the newest batch.
        batch_id: The batch.
        rows: The rows, with the columns that the stream writes.
        current_by: The key of a table with one current row per key; the commit writes its files.
        open_table: Opens the current version of the table.
        written: More rows of the batch, in files that tasks have written.
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
        written: WrittenFiles | None = None,
    ) -> None:
        self._stream = stream
        self._uri = uri
        self._batch = Transaction(name, batch_id)
        self._rows = rows
        self._written = written or WrittenFiles()
        self._current_by = current_by
        # Opened each time: an open DeltaTable grows by 100 kB with each commit.
        self._open = open_table or (lambda: DeltaTable(uri))
        self._table: DeltaTable | None = None
        self._files: list[AddAction] | None = None

    def prepare(self) -> None:
        """Write the files, unless the table contains the batch.

        Raises:
            OSError: A file cannot be written; all are removed.
        """
        self._table = self._open()
        if not self._current_by and not self._is_in(self._table):
            self._write_files(self._table)

    def commit(self, check: CheckLease) -> None:
        """Add the rows in one commit, unless the table contains the batch.

        Args:
            check: Checks the lease before each try.

        Raises:
            LeaseLostError: The lease is lost, or the table contains a newer epoch.
            CommitFailedError: Each try conflicted with another commit.
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
            rows = self._rows.num_rows + self._written.rows
            add_files(table, [*files, *self._written.actions], rows, transactions)

    def _write_files(self, table: DeltaTable) -> list[AddAction]:
        if not self._rows.num_rows:
            self._files = []
            return self._files
        types = {field.name: field.type for field in pa.schema(table.schema())}
        rows = self._rows.cast(pa.schema([(name, types[name]) for name in self._rows.schema.names]))
        self._files = write_data_files(self._uri, rows, table.metadata().partition_columns)
        return self._files


def newest_rows(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """The last row of each key, in the order of the rows."""
    numbered = rows.select(list(key)).append_column(_ORDER, pa.array(range(rows.num_rows), pa.int64()))
    last = numbered.group_by(list(key)).aggregate([(_ORDER, "max")])[f"{_ORDER}_max"]
    return rows.take(pc.take(last, pc.sort_indices(last)))


def upsert(
    table: DeltaTable,
    rows: pa.Table,
    key: Sequence[str],
    writer: WriterProperties,
    commit: CommitProperties,
) -> None:
    """Insert or replace rows by key, in one commit.

    Args:
        table: A table with one row per key.
        rows: At most one row per key, with all columns of the table; no key is null.
        key: The key columns.
        writer: Properties of the files.
        commit: Properties of the commit.
    """
    same = " AND ".join(f"kept.{column} = new.{column}" for column in key)
    (
        table.merge(
            rows,
            predicate=same,
            source_alias="new",
            target_alias="kept",
            writer_properties=writer,
            commit_properties=commit,
        )
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )
