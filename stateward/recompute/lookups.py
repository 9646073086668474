"""The rows of lookups for records that are read again, of the versions with which the stream read them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from stateward.contract.conditions import Condition
from stateward.contract.names import BATCH_COUNTS
from stateward.recompute.request import BackfillError
from stateward.runtime.api.stream_job import StreamJob
from stateward.runtime.cause import conditions_of, full_text
from stateward.runtime.checkpoint import generations
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.checkpoint.lookup_versions import VersionHistory, Versions
from stateward.runtime.delta.lookup_tables import Lookups, LookupTable, configured_tables, opened
from stateward.runtime.sink.ledger import recorded_lookups

if TYPE_CHECKING:
    from stateward.recompute.request import Recomputable, Request


class LookedUp:
    """What a stream's function of a record gets beside the record and its time.

    Args:
        tables: The tables of its lookups.
        history: Their versions.
    """

    def __init__(self, tables: tuple[LookupTable, ...], history: VersionHistory) -> None:
        self._tables = tables
        self._history = history
        self._versions: Versions | None = None
        self._rows: Lookups = {}

    def at(self, topic: str, partition: int, offset: int) -> tuple[Lookups, ...]:
        """The rows for the record at an offset."""
        versions = self._history.at(topic, partition, offset)
        # Records come in the order of their offsets, so nearly each has the versions of the one before.
        if versions is not self._versions:
            self._versions, self._rows = versions, opened(self._tables, versions)
        return (self._rows,)


def looked_up(request: Request, job: Recomputable) -> LookedUp | None:
    """The lookups of a stream; None for one without.

    Raises:
        LookupInvalidError: The configuration has other lookups than the declaration.
    """
    config = request.config
    if not isinstance(job, StreamJob) or not job.lookups:
        return None
    tables = configured_tables(config.stream, job.lookups, config.lookups)
    checkpoint = Checkpoint(generations.current(config.checkpoint_uri).uri)
    query_id = checkpoint.query_id()
    recorded = (
        []
        if query_id is None
        else recorded_lookups(config.tables[BATCH_COUNTS], config.stream, query_id, checkpoint.earlier())
    )
    return LookedUp(tables, VersionHistory(recorded))


@contextmanager
def gone_explained() -> Iterator[None]:
    """Raise a version that can no longer be read as a `BackfillError`, from wherever in Spark it comes."""
    try:
        yield
    except Exception as error:
        if Condition.LOOKUP_GONE not in conditions_of(error):
            raise
        found = re.search(r"stream \S+, lookup [^\n]+", full_text(error))
        raise BackfillError(found.group() if found else str(error)) from None
