"""What most likely lies behind a measure that is above its limit, from the others. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from stateward.control.reconcile.status import Status

# What can make batches slow, the most telling first.
_SLOW: Mapping[str, str] = {
    "memory_bytes": "the driver is short of memory, so that the machine may swap",
    "state_commit": "the checkpoint's storage is slow",
    "state_removal": "many timeouts end in one batch; timeout.jitter spreads them",
    "state_update": "the state is slow: it no longer fits into memory, or its disk is slow",
}
_OWN: Mapping[str, str] = {
    "state_rows": "more keys than planned, or keys that stay longer; `stateward state inspect` shows which",
    "state_bytes": "more keys than planned, or more kept for each; `stateward state inspect` shows which",
    "state_commit": "the checkpoint's storage is slow, or much state has changed in one batch",
    "state_update": _SLOW["state_update"],
    "state_removal": _SLOW["state_removal"],
    "event_time_behind": "a partition with old events holds the others back: its producer's clock, or "
    "a backlog",
    "event_time_ahead": "an earlier release let an event that was ahead move the watermark: others are late "
    "until that time has come, and `backfill` recomputes them",
    "dead_share": "a producer sends what the YAML's schema does not take; `reason` in dead_letters says what",
    "late_share": "a producer is later than allowed_lateness, or its clock is behind; see late_events",
}
_LEAST_GROWTH_PER_S = 1.0


def likely_cause(measure: str, reached: frozenset[str], status: Status) -> str:
    """Say in words what is most likely, and what helps.

    Args:
        measure: The one that is above its limit.
        reached: All that are.
        status: What the driver says.
    """
    if measure in _OWN:
        return _OWN[measure]
    if measure == "memory_bytes":
        return _of_memory(reached)
    if measure == "watermark_delay" and status.caught_up:
        return "no newer events come, or no ticks; source.tick says how time passes on a quiet topic"
    for slow, cause in _SLOW.items():
        if slow in reached:
            return cause
    return _of_load(measure, reached, status)


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
