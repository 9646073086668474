"""The tables of a stream taken back to a savepoint."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import TableNotFoundError

from stateward.contract.durable import sync_disks
from stateward.runtime.sink.commit_retry import commit_with_retry
from stateward.runtime.sink.fence import CheckLease, epoch_in, take_over
from stateward.state.savepoints.manifest import TableAt

# Other streams go on writing to the tables they share with this one.
_MOST_TRIES = 20


def take_back(stream: str, then: TableAt, check: CheckLease) -> None:
    """Take one table back; a second time changes nothing.

    The stream's own tables are restored to their version. A table that streams share keeps the rows of the
    others: of this stream's rows those go that were not there, by the generation and the batch that wrote
    them. A table that did not exist is emptied of the stream's rows. From then on the table refuses whoever
    had the stream's lease before.

    Args:
        stream: The stream.
        then: The table at the time of the savepoint.
        check: Gives the epoch of the lease.

    Raises:
        LeaseLostError: The lease is lost.
        DeltaError: It cannot be done.
    """
    take_over(then.uri, stream, check)

    def go_back() -> None:
        table = DeltaTable(then.uri)
        # With the epoch, for this process may stand still as well, and lose the lease.
        commit = CommitProperties(app_transactions=[epoch_in(table, stream, check)])
        if then.batches is not None:
            table.delete(beyond(stream, then.batches), commit_properties=commit)
        elif then.version is None:
            table.delete(commit_properties=commit)
        elif table.version() != then.version:  # Delta refuses to restore the version that is current
            table.restore(then.version, commit_properties=commit)
        sync_disks([then.uri])

    with suppress(TableNotFoundError):
        commit_with_retry(then.uri, go_back, tries=_MOST_TRIES)


def beyond(stream: str, batches: Mapping[str, int]) -> str:
    """A condition for this stream's rows that were written after a savepoint.

    Args:
        stream: The stream.
        batches: Its last batch at that time, by generation. The batches of a generation go up; one that is
            not named had written nothing.
    """
    kept = " OR ".join(
        f"(generation = {_text(generation)} AND batch_id <= {batch})"
        for generation, batch in sorted(batches.items())
    )
    mine = f"stream = {_text(stream)}"
    return f"{mine} AND NOT ({kept})" if kept else mine


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
