"""What a batch's work on the state took, and how large the state's files are, from Spark's progress. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# Of fewer records it is not the records that take the time, but the calls to the Python workers.
_FEWEST_RECORDS = 100


def operator_measures(operators: Sequence[Mapping[str, Any]], records: int) -> dict[str, Any]:
    """Status fields.

    Spark sums up the times of all tasks. A commit or a clean-up is a piece of work of each task, so their
    means over the tasks are closest to what a clock on the wall has seen.

    Args:
        operators: ``stateOperators`` of a batch; empty for a stream without state.
        records: Records of the data topics in the batch.

    Returns:
        ``state_commit_ms`` and ``state_removal_ms``: a task's time to commit the state, and to find and
        remove what has expired. ``state_update_ms``: time of all tasks for one record, with the stream's own
        logic; None for a batch of few records. ``state_file_bytes``: RocksDB's files of the newest version.
        None each without state.
    """
    if not operators:
        names = ("state_commit_ms", "state_removal_ms", "state_update_ms", "state_file_bytes")
        return dict.fromkeys(names)
    updates = sum(operator["allUpdatesTimeMs"] for operator in operators)
    files = [operator["customMetrics"].get("rocksdbSstFileSize") for operator in operators]
    return {
        "state_commit_ms": _per_task(operators, "commitTimeMs"),
        "state_removal_ms": _per_task(operators, "allRemovalsTimeMs"),
        "state_update_ms": round(updates / records, 3) if records >= _FEWEST_RECORDS else None,
        "state_file_bytes": None if None in files else sum(files),
    }


def _per_task(operators: Sequence[Mapping[str, Any]], name: str) -> float:
    """Sum over the operators, which work one after the other."""
    tasks = ((operator[name], max(1, operator["numShufflePartitions"])) for operator in operators)
    return round(float(sum(total / count for total, count in tasks)), 1)
