"""Plan a batch again, smaller, that no driver could run.

Spark never changes the plan of a batch. One whose rows do not fit into memory would end each driver, and what
is left of a driver does not say for sure that this was why. So the question is whether planning again can do
harm: it cannot while nothing of the batch is in a table, for all else that it may have left is part of the
checkpoint and taken back here. A new process asks, before it has a session, and under the lease: nothing of
the batch runs any more.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from spark_jobs.runtime import storage
from spark_jobs.runtime.checkpoint import Checkpoint, consumed
from spark_jobs.runtime.commits import app_id
from spark_jobs.state.copying import crc_of, remove
from spark_jobs.state.lineage import files_after

_LOG = logging.getLogger(__name__)
ATTEMPTS = "stateward/attempts.json"
"""File in which a checkpoint keeps its `Attempts`."""
# One driver planned the batch, and another ran into it again.
_MOST_BEGUN = 1
_LESS = 10


@dataclass(frozen=True)
class Attempts:
    """What is known of a batch that was planned and not committed.

    Attributes:
        batch: Its number.
        begun: How many drivers have begun it again.
        records: How many records it may have if it is planned again.
    """

    batch: int
    begun: int
    records: int


def records_per_batch(
    checkpoint_uri: str, tables: Mapping[str, str], topics: Collection[str], most: int
) -> int:
    """How many records a batch of this driver may have; takes back a plan that is too large.

    To be called once by each driver, which may then start its query.

    Args:
        checkpoint_uri: The checkpoint's folder.
        tables: Address of each table that a batch may write, by name.
        topics: The data topics.
        most: Records of a batch as the YAML has them.
    """
    checkpoint = Checkpoint(checkpoint_uri)
    batch = checkpoint.last_planned()
    noted = storage.read_json(f"{checkpoint_uri}/{ATTEMPTS}")
    attempts = Attempts(**noted) if noted else Attempts(batch, 0, most)
    if attempts.batch <= checkpoint.last_committed():
        attempts = Attempts(batch, 0, most)
    if checkpoint.is_clean():
        return min(attempts.records, most)
    size = _size(checkpoint, batch, topics)
    if attempts.begun < _MOST_BEGUN or size <= 1 or _is_written(checkpoint, batch, tables):
        _note(checkpoint_uri, replace(attempts, begun=attempts.begun + 1))
        return min(attempts.records, most)
    records = max(1, min(size, most) // _LESS)
    _note(checkpoint_uri, Attempts(batch, 0, records))
    _take_back(checkpoint_uri, batch)
    _LOG.warning(
        "batch %d of %d records was begun by two drivers and written by none: it is planned again with at "
        "most %d, and so are the other batches of this driver",
        *(batch, size, records),
    )
    return records


def _size(checkpoint: Checkpoint, batch: int, topics: Collection[str]) -> int:
    """Records of the data topics in a planned batch."""
    before, plan = checkpoint.planned(batch - 1), checkpoint.planned(batch)
    begin = checkpoint.initial_offsets() if before is None else before.offsets
    return 0 if plan is None else sum(consumed(begin, plan.offsets, topic) for topic in topics)


def _is_written(checkpoint: Checkpoint, batch: int, tables: Mapping[str, str]) -> bool:
    """Whether a table has something of this batch or a later one of the generation, as far as can be read."""
    generation = checkpoint.query_id()
    assert generation is not None  # Spark writes it before the first plan
    for name, uri in tables.items():
        if not DeltaTable.is_deltatable(uri):
            continue
        try:
            written = DeltaTable(uri).transaction_version(app_id(generation, name))
        except DeltaError:
            return True  # torn by a power loss, and repaired before the query
        if written is not None and written >= batch:
            return True
    return False


def _take_back(checkpoint_uri: str, batch: int) -> None:
    """Remove what a batch has left of states, and then its plan; done again if it is interrupted."""
    plan = f"offsets/{batch}"
    # Spark plans a first batch only where there is no state at all.
    states = files_after(checkpoint_uri, batch - 1) if batch else ["state"]
    for path in (*states, plan):
        for file in (path, crc_of(path)):
            remove(f"{checkpoint_uri}/{file}")


def _note(checkpoint_uri: str, attempts: Attempts) -> None:
    storage.write_json(f"{checkpoint_uri}/{ATTEMPTS}", asdict(attempts))
