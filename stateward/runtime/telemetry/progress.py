"""Computes the numbers in the status from the query and its checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from stateward.contract.reading import iso_ms
from stateward.contract.stream_status import BOUNDS, OUTCOMES
from stateward.runtime.checkpoint.batch_plan import Plan
from stateward.runtime.checkpoint.checkpoint import Checkpoint, consumed
from stateward.runtime.checkpoint.offsets import Offsets
from stateward.runtime.keyed.state_sizes import StateSizes
from stateward.runtime.sink.ledger import Ledger
from stateward.runtime.telemetry.operator_metrics import operator_measures, operator_sizes
from stateward.runtime.telemetry.shares import Shares

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_STAMPS = {None: None, True: "LogAppendTime", False: "CreateTime"}


@dataclass(frozen=True)
class Position:
    """The position of the query.

    Attributes:
        batch_id: The last committed batch, or -1.
        offsets: Next offset of each partition of the data topics; empty before the first batch.
        watermark_ms: The watermark of that batch; 0 before the first tick.
    """

    batch_id: int
    offsets: Offsets
    watermark_ms: int


class Progress:
    """Follows one query. Counters and offsets are of the same committed batch, so that they match.

    Args:
        checkpoint: The query's checkpoint.
        ledger: Its counters.
        topics: The data topics.
        sizes: The sizes of a keyed stream's buckets; None for another stream.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        ledger: Ledger,
        topics: Sequence[str],
        sizes: StateSizes | None = None,
    ) -> None:
        self._checkpoint = checkpoint
        self._ledger = ledger
        self._topics = topics
        self._sizes = sizes
        # Constant while a query runs.
        self._skipped = checkpoint.skipped(topics)
        self._seen: tuple[str, int] | None = None
        self._shares = Shares()
        self.position = Position(-1, {}, 0)

    def resume(self) -> dict[str, Any]:
        """Status fields from the checkpoint alone, before a batch has run."""
        return self._committed(self._checkpoint.last_committed())

    def poll(self, query: StreamingQuery) -> dict[str, Any]:
        """Status fields that have changed since the last call; empty if no batch has ended."""
        last: Any = query.lastProgress
        if last is None or self._seen == (last["timestamp"], last["batchId"]):
            return {}
        self._seen = (last["timestamp"], last["batchId"])
        operators = last["stateOperators"]
        fields = {
            "state_rows": sum(operator["numRowsTotal"] for operator in operators) if operators else None,
            "state_bytes": sum(operator["memoryUsedBytes"] for operator in operators) if operators else None,
        }
        # An idle trigger also reports progress, for a batch that has not run.
        committed = self._checkpoint.last_committed()
        if committed == self.position.batch_id:
            return fields
        records = self._records(committed)
        duration_ms = last["batchDuration"]
        return {
            **fields,
            "last_batch_at": last["timestamp"],
            "batch_duration_ms": duration_ms,
            "input_rows": records,
            "input_rows_per_s": round(1000 * records / duration_ms, 1) if duration_ms else None,
            **operator_measures(operators, records),
            **({} if self._sizes else operator_sizes(operators)),
            **self._committed(committed),
        }

    def _records(self, batch_id: int) -> int:
        """Records of the data topics in a committed batch; Spark itself counts the packed rows."""
        before, now = (self._checkpoint.planned(number) for number in (batch_id - 1, batch_id))
        begin = self._checkpoint.initial_offsets() if before is None else before.offsets
        return self._consumed(begin, {} if now is None else now.offsets)

    def _consumed(self, begin: Offsets, now: Offsets) -> int:
        return sum(consumed(begin, now, topic) for topic in self._topics)

    def _committed(self, batch_id: int) -> dict[str, Any]:
        batch = self._checkpoint.planned(batch_id) if batch_id >= 0 else None
        if batch is None:
            return {}
        offsets = {topic: parts for topic, parts in batch.offsets.items() if topic in self._topics}
        self.position = replace(
            self.position, batch_id=batch_id, offsets=offsets, watermark_ms=batch.watermark_ms
        )
        totals = self._ledger.totals(batch_id)
        read = self._consumed(self._checkpoint.initial_offsets(), batch.offsets) - self._skipped
        return {
            "batch_id": batch_id,
            "watermark": iso_ms(batch.watermark_ms) if batch.watermark_ms else None,
            "event_time_behind_ms": _behind_ms(batch.plan),
            **self._shares.add(batch.plan.now_ms, totals),
            "timestamps": _STAMPS[batch.plan.append_time],
            # Without end-of-replay ticks and events of other streams' keys.
            "delivered": totals["records"] - totals["tick_records"] - totals["others"],
            "without_record": read - totals["records"],
            **{name: totals[name] for name in OUTCOMES},
            "rows_out": totals["rows_out"],
            "bounds": {name: totals[name] for name in BOUNDS},
            **(self._sizes.fields if self._sizes else {}),
        }


def _behind_ms(plan: Plan) -> int | None:
    """How far the ticks were behind the broker's time; None in a replay."""
    if plan.now_ms is None or plan.tick_ms is None or plan.replay:
        return None
    return plan.now_ms - plan.tick_ms
