"""The tables of a stream taken back to a savepoint."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, TableNotFoundError

from spark_jobs.runtime.durable import sync_disks
from spark_jobs.state.manifest import TableAt

_LOG = logging.getLogger(__name__)
# Other streams go on writing to the tables they share with this one.
_MOST_TRIES = 20


def take_back(stream: str, then: TableAt) -> None:
    """Take one table back; a second time changes nothing.

    The stream's own tables are restored to their version. A table that streams share keeps the rows of the
    others: of this stream's rows those go that were not there, by the generation and the batch that wrote
    them. A table that did not exist is emptied of the stream's rows.

    Args:
        stream: The stream.
        then: The table at the time of the savepoint.

    Raises:
        DeltaError: It cannot be done.
    """
    if then.batches is not None:
        predicate = beyond(stream, then.batches)
        _try(then.uri, lambda table: table.delete(predicate))
    elif then.version is None:
        _try(then.uri, lambda table: table.delete())
    else:
        version = then.version
        _try(then.uri, lambda table: _restore(table, version))


def _restore(table: DeltaTable, version: int) -> None:
    # Delta refuses to restore the version that is current; nothing was written since the savepoint.
    if table.version() != version:
        table.restore(version)


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


def _try(uri: str, act: Callable[[DeltaTable], object]) -> None:
    for attempt in range(1, _MOST_TRIES + 1):
        try:
            act(DeltaTable(uri))
            sync_disks([uri])
            return
        except TableNotFoundError:
            return
        except CommitFailedError as error:
            if attempt == _MOST_TRIES:
                raise
            _LOG.info("%s: somebody else wrote at the same time, trying again (%s)", uri, error)
