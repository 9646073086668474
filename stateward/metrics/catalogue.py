"""Every metric: its name, kind, labels and meaning. The table of docs/metrics.md is made from it. Pure.

Names follow Prometheus' conventions: base units, and `_total` for what only grows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from stateward.contract import measures

Kind = Literal["gauge", "counter", "stateset"]

STATES = (
    "running",
    "waiting",
    "starting",
    "draining",
    "held",
    "suspended",
    "stopped",
    "failed",
    "hanging",
    "never_started",
)
"""The words of the operator's page for how a stream is."""


@dataclass(frozen=True)
class Family:
    """One metric.

    Attributes:
        name: As Prometheus has it.
        kind: What may be done with it: a counter is for `rate` and `increase`.
        help: What it is, for a person.
        labels: Names of its labels. A state-set has one more, which is called as the metric is.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ("stream",)


def _gauge(name: str, help_: str, *labels: str) -> Family:
    return Family(f"stateward_stream_{name}", "gauge", help_, ("stream", *labels))


def _counter(name: str, help_: str, *labels: str) -> Family:
    # A restore goes back to an earlier count. A label keeps that from looking like a count that began at 0.
    return Family(f"stateward_stream_{name}_total", "counter", help_, ("stream", *labels, "generation"))


READABLE = _gauge("readable", "1 if the stream's YAML and documents can be read, else 0")
DESIRED = _gauge("desired", "1 if the stream is to run, 0 if it is to be at rest")
UP = _gauge("up", "1 if the driver is there and works, or waits for Kafka by itself; else 0")
STATE = Family(
    "stateward_stream_state", "stateset", "how the stream is, in the words of the operator's page; 1 for one"
)
HELD = _gauge("held", "1 while a state operation keeps the stream stopped, else 0")
SUPERVISED = _gauge("supervised", "1 if a DAG run watches the stream and would start it again, else 0")
STATUS_AGE = _gauge("status_age_seconds", "time since the driver has last said anything")
DRIVER_START = _gauge("driver_start_time_seconds", "when the newest driver was started, seconds since 1970")
EPOCH = _gauge("epoch", "epoch of the lease of the newest driver; each new holder has the next one")
GENERATION = _gauge("generation", "which of the stream's checkpoints is current")
RESTARTS = Family(
    "stateward_stream_restarts_total", "counter", "drivers that were started again after a failure"
)

LAST_COMMIT_AGE = _gauge("last_commit_age_seconds", "time since the last batch was committed")
DELIVERED = _counter("delivered_records", "records that Kafka delivered, counted as they were read")
WITHOUT_RECORD = _counter(
    "offsets_without_record", "offsets that had no record: transaction markers, aborted or compacted ones"
)
RECORDS = _counter(
    "records", "records by what became of them; all outcomes together are those delivered", "outcome"
)
ROWS = _counter("rows_written", "rows written to the stream's tables")
BOUND_COSTS = _counter("bound_costs", "what the bounds of keys have cost (docs/state-bounds.md)", "bound")

OPERATORS: dict[str, Family] = {
    "rows": _gauge("operator_rows", "rows in an operator's state", "operator"),
    "updated": _gauge("operator_updated_rows", "rows that the last batch has written", "operator"),
    "removed": _gauge("operator_removed_rows", "rows that the last batch has removed", "operator"),
    "memory_bytes": _gauge("operator_memory_bytes", "an operator's state in memory", "operator"),
    "file_bytes": _gauge("operator_file_bytes", "RocksDB's files of its newest version", "operator"),
    "commit_ms": _gauge("operator_commit_seconds", "a task's time to commit its part of it", "operator"),
    "cache_hits": _gauge("operator_cache_hits", "blocks found in RocksDB's cache, last batch", "operator"),
    "cache_misses": _gauge("operator_cache_misses", "blocks not found there, last batch", "operator"),
}
"""What Spark has counted of each stateful operator, by the field of `OperatorState`."""

TOPIC_LAG = _gauge(
    "topic_lag_records", "records of a topic that wait, of a stream that reads several", "topic"
)
LARGEST_KEY = _gauge("largest_key_bytes", "size of the largest key with its state")
PARTITION_BYTES = _gauge("partition_state_bytes", "size of a state partition's keys and states", "partition")

MEASURES = {name: _gauge(one.metric, one.help) for name, one in measures.MEASURES.items()}
"""By the measure's name in `health.limits` of the YAML (docs/health.md)."""

LIMIT = _gauge("limit", "a limit of the YAML, in the unit of its measure", "measure", "level")
BREACH = _gauge("breach", "1 if the measure is above that limit, else 0", "measure", "level")

FAMILIES: tuple[Family, ...] = (
    READABLE,
    DESIRED,
    UP,
    STATE,
    HELD,
    SUPERVISED,
    STATUS_AGE,
    DRIVER_START,
    EPOCH,
    GENERATION,
    RESTARTS,
    LAST_COMMIT_AGE,
    DELIVERED,
    WITHOUT_RECORD,
    RECORDS,
    ROWS,
    BOUND_COSTS,
    *MEASURES.values(),
    TOPIC_LAG,
    LARGEST_KEY,
    PARTITION_BYTES,
    *OPERATORS.values(),
    LIMIT,
    BREACH,
)
"""All of them, in the order in which they are shown."""
