"""How a batch is committed to a table: once, and again when somebody else's commit has come between."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, TableNotFoundError

_LOG = logging.getLogger(__name__)
# Beside a stream only maintenance and restores of other streams commit, a few times an hour.
_MOST_TRIES = 5
_EPOCH = "stateward-epoch-"


def app_id(generation: str, table: str) -> str:
    """By what name Delta remembers which batches of a generation are in a table: its newest one."""
    return f"{generation}:{table}"


def tables_with(generation: str, batch: int, tables: Mapping[str, str]) -> list[str]:
    """The tables that have something of a batch of a generation, or of a later one.

    Args:
        generation: Id of the streaming query.
        batch: The batch.
        tables: Address of each table that it may write, by name; one that does not exist has nothing.

    Raises:
        DeltaError: A table cannot be read.
    """
    found = []
    for name, uri in tables.items():
        try:
            written = DeltaTable(uri).transaction_version(app_id(generation, name))
        except TableNotFoundError:
            continue
        if written is not None and written >= batch:
            found.append(name)
    return found


def epoch_id(stream: str) -> str:
    """By what name Delta remembers the newest epoch of a stream's lease in a table."""
    return f"{_EPOCH}{stream}"


def is_epoch(name: str) -> bool:
    """Whether a transaction is an epoch, and no batch."""
    return name.startswith(_EPOCH)


def commit_with_retry(what: str, write: Callable[[], None], tries: int = _MOST_TRIES) -> None:
    """Write, and again when it was overtaken.

    Delta lets two appends pass each other. An upsert fails when the files that it replaces were compacted
    meanwhile, and any write when a property of the table was changed. Such a commit has left nothing in the
    table.

    Args:
        what: The table, for the log.
        write: Opens the table as it is now, sees what is already written, and writes the rest.
        tries: How often.

    Raises:
        CommitFailedError: It was overtaken each time.
    """
    for attempt in range(1, tries + 1):
        try:
            write()
            return
        except CommitFailedError as error:
            if attempt == tries:
                raise
            _LOG.info("%s: somebody else wrote at the same time, trying again (%s)", what, error)
