"""What most likely lies behind a measure that is above its limit, from the others. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from stateward.contract.measures import MEASURES, SLOW_STATE
from stateward.contract.stream_status import AwaitedExecutors, Cause, Status

# What can make batches slow, the most telling first.
_SLOW: Mapping[str, str] = {
    "memory_bytes": "the driver is short of memory, so that the machine may swap",
    "state_commit": "the checkpoint's storage is slow",
    "state_removal": MEASURES["state_removal"].cause,
    "state_update": SLOW_STATE,
}
_REMEDIES = {
    "state": "take one of the ways out that it names (docs/state-compatibility.md)",
    "operation": "run the command that it names",
    "configuration": "correct the stream's YAML, or start drivers of the same release",
    "environment": "give the executors the driver's Spark and Python (docs/spark-and-storage.md)",
    "schema": "compare the table with the stream's declaration, and correct the one that is wrong",
    "topic": "create the topic, or correct its name in the stream's YAML",
    "data_loss": "restore the records, or run the verb skip of state_operations, which goes on after them",
}
_LEAST_GROWTH_PER_S = 1.0


def likely_cause(measure: str, reached: frozenset[str], status: Status) -> str:
    """Name the most likely cause, and what helps.

    Args:
        measure: The one that is above its limit.
        reached: All that are.
        status: What the driver last reported.
    """
    if own := MEASURES[measure].cause:
        return own
    if status.awaits is not None and measure != "memory_bytes":
        return _of_cluster(status.awaits)
    if measure == "memory_bytes":
        return _of_memory(reached)
    if measure == "watermark_delay" and status.caught_up:
        return "no newer events come, or no ticks; source.tick says how time passes on a quiet topic"
    for slow, cause in _SLOW.items():
        if slow in reached:
            return cause
    return _of_load(measure, reached, status)


def remedy(stream: str, cause: Cause) -> str:
    """Say what to do about a cause that no restart cures."""
    first = _REMEDIES.get(cause.kind, "mend the cause")
    return f"A restart does not cure that: {first}, then trigger stream_{stream} with the action run."


def _of_cluster(awaits: AwaitedExecutors) -> str:
    if awaits.room is not None and awaits.room.fits:
        return str(awaits)
    return f"{awaits}; add a worker, or let another application take less (docs/spark-and-storage.md)"


def _of_memory(reached: frozenset[str]) -> str:
    if reached & {"state_bytes", "state_rows"}:
        return "the state has grown; give the machine more memory, or shorten what is kept of each key"
    return "large batches: lower source.max_records_per_batch, or give the machine more memory"


def _of_load(measure: str, reached: frozenset[str], status: Status) -> str:
    change = status.lag_change_per_s
    if change is not None and change > _LEAST_GROWTH_PER_S:
        return (
            f"more comes in than is read: the lag grows by {change:,.0f} records a second; raise"
            " state.partitions (`stateward state advise`) or give the machine more cores"
        )
    if change is not None and change < -_LEAST_GROWTH_PER_S and status.lag_records:
        minutes = status.lag_records / -change / 60
        return f"a backlog that shrinks, and is read in about {max(1, round(minutes))} min"
    if "batch_duration" in reached:
        return "batches are too large for this machine; lower source.max_records_per_batch"
    if measure == "commit_age":
        return "a batch takes very long or hangs; `stateward logs` shows the driver's log"
    if change is None:
        return "more has come in than is read; its trend is known after a minute"
    return "a backlog that neither grows nor shrinks: as much comes in as is read"
