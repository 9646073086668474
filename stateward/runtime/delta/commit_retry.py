"""Commits to a table, with retries after conflicts with other commits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, TableNotFoundError

_LOG = logging.getLogger(__name__)
# Besides a stream only maintenance and restores of other streams commit, a few times an hour.
_MAX_TRIES = 5
_EPOCH = "stateward-epoch-"


def app_id(generation: str, table: str) -> str:
    """The Delta application id under which a table stores the newest batch of a generation."""
    return f"{generation}:{table}"


def tables_with(generation: str, batch: int, tables: Mapping[str, str]) -> list[str]:
    """The tables that contain a batch of a generation, or a later one.

    Args:
        generation: Id of the streaming query.
        batch: The batch.
        tables: URI of each table that the batch may write, by name; missing tables are skipped.

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
    """The Delta application id under which a table stores the newest epoch of a stream's lease."""
    return f"{_EPOCH}{stream}"


def is_epoch(name: str) -> bool:
    """Whether an application id is that of an epoch."""
    return name.startswith(_EPOCH)


def commit_with_retry(what: str, write: Callable[[], None], tries: int = _MAX_TRIES) -> None:
    """Write, and try again after a conflict.

    Concurrent appends do not conflict in Delta. An upsert fails if the files that it replaces were compacted
    meanwhile, and every write fails if a property of the table was changed. A failed commit leaves nothing in
    the table.

    Args:
        what: The table, for the log.
        write: Opens the current version of the table and writes what is missing.
        tries: Maximum number of tries.

    Raises:
        CommitFailedError: Each try conflicted with another commit.
    """
    for attempt in range(1, tries + 1):
        try:
            write()
            return
        except CommitFailedError as error:
            if attempt == tries:
                raise
            _LOG.info("%s: conflict with another commit, trying again (%s)", what, error)
