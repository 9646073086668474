"""The lease's epoch in the tables themselves, so that a table refuses whoever has lost the lease.

A look at the lease and a commit are two moments, and a process may stand still between them for as long as it
takes another one to go back, or on to another generation. Therefore each holder begins with a commit to every
table that it will write, with its epoch as a transaction of the stream. Each of its commits has that
transaction too: Delta refuses one that was made against an older version, for there is a newer commit with a
transaction of the same name; and one that is made against the newest version finds the newer epoch in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from deltalake import DeltaTable, Transaction
from deltalake.exceptions import TableNotFoundError

from stateward.runtime.lease.lease import LeaseLostError
from stateward.runtime.sink.commit_retry import commit_with_retry, epoch_id
from stateward.runtime.sink.data_files import add_files

CheckLease = Callable[[], int]
"""Gives the epoch of the lease that is held, and raises `LeaseLostError` if it is not held any more."""


def epoch_in(table: DeltaTable, stream: str, check: CheckLease) -> Transaction:
    """The transaction that a commit on top of ``table`` has to have.

    Raises:
        LeaseLostError: The lease is lost, or the table knows a later holder of it.
    """
    epoch, known = check(), table.transaction_version(epoch_id(stream))
    if known is not None and known > epoch:
        check()  # which says who has it
        raise LeaseLostError(
            f"stream {stream}: expected no holder of the lease after epoch {epoch}, found epoch {known} in "
            f"the table {table.table_uri}"
        )
    return Transaction(epoch_id(stream), epoch)


def take_over(uri: str, stream: str, check: CheckLease) -> None:
    """Let a table refuse all earlier holders of a stream's lease; nothing happens if there is no table.

    Raises:
        LeaseLostError: The lease is lost, or the table knows a later holder of it.
        CommitFailedError: Others have come between each time.
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
    """The newest epoch that tables know; 0 without one. A lease that was removed goes on from it."""
    newest = 0
    for uri in uris:
        if DeltaTable.is_deltatable(uri):
            newest = max(newest, DeltaTable(uri).transaction_version(epoch_id(stream)) or 0)
    return newest
