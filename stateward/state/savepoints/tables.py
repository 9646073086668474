"""The tables of a stream at a savepoint: recorded, checked for a way back, and taken back."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from stateward.contract.storage import exists, sync_disks
from stateward.runtime.api.tables import SHARED_TABLES
from stateward.runtime.delta.commit_retry import commit_with_retry
from stateward.runtime.sink.fence import CheckLease, epoch_in, take_over
from stateward.state.savepoints.manifest import TableAt

_SHARED = {table.name for table in SHARED_TABLES}
# Other streams go on writing to the tables they share with this one.
_MOST_TRIES = 20


def tables_at(stream: str, tables: Mapping[str, str]) -> dict[str, TableAt]:
    """Record the version of every table.

    Args:
        stream: The stream.
        tables: URIs by name, as the configuration has them.
    """
    return {name: _table_at(stream, name, uri) for name, uri in tables.items()}


def _table_at(stream: str, name: str, uri: str) -> TableAt:
    try:
        table = DeltaTable(uri)
    except TableNotFoundError:
        return TableAt(uri, None, None, {} if name in _SHARED else None)
    batches = _last_batches(table, stream) if name in _SHARED else None
    return TableAt(uri, table.version(), str(table.metadata().id), batches)


def _last_batches(table: DeltaTable, stream: str) -> dict[str, int]:
    """This stream's last batch in a shared table, by generation."""
    rows = table.to_pyarrow_dataset().to_table(
        columns=["generation", "batch_id"], filter=pc.field("stream") == stream
    )
    last = rows.group_by("generation").aggregate([("batch_id", "max")])
    return dict(zip(last["generation"].to_pylist(), last["batch_id_max"].to_pylist(), strict=True))


def why_not_back(name: str, then: TableAt) -> str | None:
    """Explain why a table cannot go back to a version; None if it can.

    Every file of the version has to be there still: VACUUM removes those that no newer version has.
    """
    try:
        now = DeltaTable(then.uri)
    except TableNotFoundError:
        return None if then.version is None else f"{name}: expected a Delta table at {then.uri}, found none"
    if then.version is None or then.is_shared:
        return None
    if str(now.metadata().id) != then.table_id:
        return f"{name}: the table at {then.uri} was recreated since, so it has no version of that time"
    try:
        before = DeltaTable(then.uri, version=then.version)
        gone = set(before.file_uris()) - set(now.file_uris())
    except DeltaError as error:
        reason = str(error).partition("\n")[0]
        return f"{name}: its version {then.version} is no longer on record ({reason})"
    missing = sum(not exists(uri) for uri in gone)
    if missing:
        return f"{name}: {missing} files of its version {then.version} were vacuumed away"
    return None


def take_back(stream: str, then: TableAt, check: CheckLease) -> None:
    """Take a table back to a savepoint; idempotent.

    The stream's own tables are restored to their version. A shared table keeps the rows of other streams, and
    loses this stream's later rows, by the generation and the batch that wrote them. A table that did not
    exist loses the stream's rows. From then on the table refuses earlier holders of the stream's lease.

    Args:
        stream: The stream.
        then: The table at the time of the savepoint.
        check: Returns the epoch of the lease.

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
