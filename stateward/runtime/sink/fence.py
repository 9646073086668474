"""Fencing: the lease's epoch in the tables, so that a table rejects drivers that have lost the lease.

A process may pause between its check of the lease and its commit, while another one takes over. So each
holder first commits to every table that it will write, with its epoch as a transaction of the stream. All its
commits contain that transaction. Delta rejects a commit against an older version, because a newer commit has
a transaction of the same name; a commit against the newest version finds the newer epoch there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from deltalake import DeltaTable, Transaction
from deltalake.exceptions import TableNotFoundError

from stateward.runtime.delta.commit_retry import commit_with_retry, epoch_id
from stateward.runtime.delta.data_files import add_files
from stateward.runtime.lease.lease import LeaseLostError

CheckLease = Callable[[], int]
"""Returns the epoch of the held lease; raises `LeaseLostError` if it is no longer held."""


def epoch_in(table: DeltaTable, stream: str, check: CheckLease) -> Transaction:
    """The transaction that a commit on top of ``table`` must contain.

    Raises:
        LeaseLostError: The lease is lost, or the table contains a newer epoch.
    """
    epoch, known = check(), table.transaction_version(epoch_id(stream))
    if known is not None and known > epoch:
        check()  # its error names the holder
        raise LeaseLostError(
            f"stream {stream}: expected no holder of the lease after epoch {epoch}, found epoch {known} in "
            f"the table {table.table_uri}"
        )
    return Transaction(epoch_id(stream), epoch)


def take_over(uri: str, stream: str, check: CheckLease) -> None:
    """Make a table reject all earlier holders of a stream's lease; no effect if the table does not exist.

    Raises:
        LeaseLostError: The lease is lost, or the table contains a newer epoch.
        CommitFailedError: Each try conflicted with another commit.
    """

    def write() -> None:
        table = DeltaTable(uri)
        epoch = epoch_in(table, stream, check)
        if table.transaction_version(epoch.app_id) != epoch.version:
            add_files(table, [], 0, [epoch])

    try:
        commit_with_retry(uri, write)
    except TableNotFoundError:
        return


def newest_epoch(stream: str, uris: Iterable[str]) -> int:
    """The newest epoch in the tables, 0 without one; after a deleted lease table epochs continue from it."""
    newest = 0
    for uri in uris:
        if DeltaTable.is_deltatable(uri):
            newest = max(newest, DeltaTable(uri).transaction_version(epoch_id(stream)) or 0)
    return newest
