"""Metrics of a batch's state operators and the size of the state's files, from Spark's progress. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from stateward.contract.reading import as_json
from stateward.contract.stream_status import OperatorState

# With fewer records the calls to the Python workers dominate the time.
_FEWEST_RECORDS = 100


def operator_measures(operators: Sequence[Mapping[str, Any]], records: int) -> dict[str, Any]:
    """Status fields.

    Spark sums up the times of all tasks. Each task commits and cleans up once, so the mean over the tasks is
    closest to the elapsed time.

    Args:
        operators: ``stateOperators`` of a batch; empty for a stream without state.
        records: Records of the data topics in the batch.

    Returns:
        ``state_commit_ms`` and ``state_removal_ms``: a task's time to commit the state, and to find and
        remove expired state. ``state_update_ms``: time of all tasks per record, including the stream's logic;
        None for a batch of few records. ``state_file_bytes``: RocksDB's files of the newest version.
        ``operators``: what Spark has counted of each (`OperatorState`). All are None without state.
    """
    if not operators:
        names = ("state_commit_ms", "state_removal_ms", "state_update_ms", "state_file_bytes", "operators")
        return dict.fromkeys(names)
    updates = sum(operator["allUpdatesTimeMs"] for operator in operators)
    files = [operator["customMetrics"].get("rocksdbSstFileSize") for operator in operators]
    return {
        "state_commit_ms": _per_task(operators, "commitTimeMs"),
        "state_removal_ms": _per_task(operators, "allRemovalsTimeMs"),
        "state_update_ms": round(updates / records, 3) if records >= _FEWEST_RECORDS else None,
        "state_file_bytes": None if None in files else sum(files),
        "operators": _each(operators),
    }


def operator_sizes(operators: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Status fields: the rows of all operators, and RocksDB's files of the newest version.

    Args:
        operators: ``stateOperators`` of a batch of a stream on Spark's own operators.

    Returns:
        ``state_keys`` and ``live_bytes``; None without state, or if the store does not count its files.
    """
    files = [operator["customMetrics"].get("rocksdbSstFileSize") for operator in operators]
    return {
        "state_keys": sum(operator["numRowsTotal"] for operator in operators) if operators else None,
        # Before its first snapshot the state is in memory and in changelogs alone.
        "live_bytes": (sum(files) or None) if operators and None not in files else None,
    }


def _each(operators: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    seen: Counter[str] = Counter()
    found = []
    for operator in operators:
        name, custom = operator["operatorName"], operator["customMetrics"]
        seen[name] += 1
        state = OperatorState(
            name if seen[name] == 1 else f"{name} {seen[name]}",
            rows=operator["numRowsTotal"],
            updated=operator["numRowsUpdated"],
            removed=operator["numRowsRemoved"],
            memory_bytes=operator["memoryUsedBytes"],
            file_bytes=custom.get("rocksdbSstFileSize"),
            commit_ms=_per_task([operator], "commitTimeMs"),
            cache_hits=custom.get("rocksdbReadBlockCacheHitCount"),
            cache_misses=custom.get("rocksdbReadBlockCacheMissCount"),
        )
        found.append(as_json(state))
    return found


def _per_task(operators: Sequence[Mapping[str, Any]], name: str) -> float:
    """Sum over the operators, which work one after the other."""
    tasks = ((operator[name], max(1, operator["numShufflePartitions"])) for operator in operators)
    return round(float(sum(total / count for total, count in tasks)), 1)
