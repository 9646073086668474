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
from dataclasses import replace

from deltalake.exceptions import DeltaError

from stateward.contract import storage
from stateward.runtime.checkpoint.attempts import Attempts, note, noted
from stateward.runtime.checkpoint.checkpoint import Checkpoint, consumed
from stateward.runtime.delta.commit_retry import tables_with
from stateward.state.files.checkpoint_copy import crc_path
from stateward.state.files.state_file_completeness import files_after

_LOG = logging.getLogger(__name__)
# One driver planned the batch, and another ran into it again.
_MOST_BEGUN = 1
_LESS = 10


def take_back_plan(
    checkpoint_uri: str, tables: Mapping[str, str], topics: Collection[str], most: int
) -> None:
    """Take back the plan of a batch that no driver could run; to be called once by each driver.

    Args:
        checkpoint_uri: The checkpoint's folder.
        tables: Address of each table that a batch may write, by name.
        topics: The data topics.
        most: Records of a batch as the YAML has them.
    """
    checkpoint = Checkpoint(checkpoint_uri)
    if checkpoint.is_clean():
        return
    batch = checkpoint.last_planned()
    attempts = noted(checkpoint_uri)
    if attempts is None or attempts.batch != batch:
        attempts = Attempts(batch, 0, most)
    size = _size(checkpoint, batch, topics)
    if (
        attempts.begun < _MOST_BEGUN
        or not _may_run_otherwise(checkpoint, batch, size)
        or _is_written(checkpoint, batch, tables)
    ):
        note(checkpoint_uri, replace(attempts, begun=attempts.begun + 1))
        return
    records = max(1, min(size, most) // _LESS)
    note(checkpoint_uri, Attempts(batch, 0, records))
    _take_back(checkpoint_uri, batch)
    _LOG.warning(
        "batch %d of %d records was begun by two drivers and written by none: it is planned again with at "
        "most %d, and each batch after it with up to twice as many",
        *(batch, size, records),
    )


def _may_run_otherwise(checkpoint: Checkpoint, batch: int, size: int) -> bool:
    """Whether a new plan can differ: by fewer records, or by versions of lookups that can be read."""
    plan = checkpoint.planned(batch)
    return size > 1 or (plan is not None and bool(plan.plan.lookups))


def _size(checkpoint: Checkpoint, batch: int, topics: Collection[str]) -> int:
    """Records of the data topics in a planned batch."""
    before, plan = checkpoint.planned(batch - 1), checkpoint.planned(batch)
    begin = checkpoint.initial_offsets() if before is None else before.offsets
    return 0 if plan is None else sum(consumed(begin, plan.offsets, topic) for topic in topics)


def _is_written(checkpoint: Checkpoint, batch: int, tables: Mapping[str, str]) -> bool:
    """Whether a table has something of this batch or a later one of the generation, as far as can be read."""
    generation = checkpoint.query_id()
    assert generation is not None  # Spark writes it before the first plan
    try:
        return bool(tables_with(generation, batch, tables))
    except DeltaError:
        return True  # torn by a power loss, and repaired before the query


def _take_back(checkpoint_uri: str, batch: int) -> None:
    """Remove what a batch has left of states, and then its plan; done again if it is interrupted."""
    plan = f"offsets/{batch}"
    # Spark plans a first batch only where there is no state at all.
    states = files_after(checkpoint_uri, batch - 1) if batch else ["state"]
    for path in (*states, plan):
        for file in (path, crc_path(path)):
            storage.delete(f"{checkpoint_uri}/{file}")
