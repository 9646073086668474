"""One bucket of keys in Spark's TwsTester: state, copy, timers and rows of any stream. No JVM runs."""

from __future__ import annotations

import json
import marshal
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from stateward.contract.stream_status import BucketSize
from stateward.runtime.api.key_logic import KeyLogic
from stateward.runtime.api.stream_job import StreamJob
from stateward.runtime.ingest.packed_format import LANE_EVENT
from stateward.runtime.keyed import state_cache
from stateward.runtime.keyed.bucket_processor import BucketProcessor
from stateward.runtime.keyed.log_store import LogBackend
from stateward.runtime.keyed.state_log import HEAD_NAME, LOG_NAME
from stateward.runtime.sink.output_rows import KIND_COUNTS, decode_rows
from stateward.runtime.watermark.admission import Limits
from stateward.runtime.watermark.topic_partitions import Topics
from stateward.testing.cases import LATENESS, Arrival
from stateward.testing.memory_store import MemoryBackend

BUCKET = (LANE_EVENT, 3)


class _TwoColumnKey(BucketProcessor):
    """The tester wraps every key in a tuple of one; the engine gives the grouping columns themselves."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        return super().handleInputRows(key[0], rows, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        return super().handleExpiredTimer(key[0], timerValues, expiredTimerInfo)


class BucketBench:
    """One bucket under test; each call of `batch` and `watermark` is a micro-batch of its own.

    Args:
        folder: For the copy of the log; None for a store in memory, in tests of what no store changes.
        job: The stream.
        logic: Its logic.
        limits: Of `Limits`.
    """

    def __init__(self, folder: Path | None, job: StreamJob, logic: KeyLogic[Any, Any], **limits: Any) -> None:
        self.processor = _TwoColumnKey(
            logic=logic,
            state_type=job.state_type,
            event_type=job.event_type,
            outputs=job.outputs,
            limits=Limits(LATENESS, **{"max_held": 100, **limits}),
            topics=Topics(("t",)),
            late_values=lambda places: {place: self.in_kafka.get(place) for place in places},
            next_watermark=lambda: self._next_ms,
            state_version=job.state_version,
            state_steps=job.state_steps,
            backend=MemoryBackend() if folder is None else log_backend(folder),
        )
        self._in_memory = folder is None
        # Spark does not filter late rows in this query (the column with the watermark is not passed on).
        self.tester = TwsTester(self.processor, timeMode="EventTime", eventTimeExtractor=lambda row: 1 << 62)
        self.rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.counts: Counter[str] = Counter()
        self.in_kafka: dict[tuple[int, int], bytes] = {}
        self.other: list[tuple[str, int, bytes]] = []
        self.reported: int | None = None
        self.size = BucketSize(0, 0, 0, 0)
        self._offset = self._next_ms = 0
        self._tables = {output.table.name for output in job.outputs}

    def batch(self, *arrivals: Arrival, raw: bytes | None = None, next_ms: int = 0) -> None:
        """Run a batch whose plan makes the watermark ``next_ms``; 0 if it leaves it as it is."""
        self._plan(next_ms)
        records = []
        for key, event in arrivals:
            self._offset += 1
            records.append((key, 1, self._offset, 7, raw, *event))
        row = Row(records=len(records), payload=marshal.dumps(records))
        self._take(self.tester.test(BUCKET, [row]))

    def watermark(self, watermark_ms: int) -> None:
        """Run a batch without events at a watermark (ms)."""
        self._plan(0)
        self._take(self.tester.setWatermark(watermark_ms))

    def end_task(self) -> None:
        """End the task; its changes are kept."""
        self.processor.close()

    def end(self) -> None:
        """End the task, if one runs, and close the copies: the test is over."""
        self.end_task()
        close_copies()

    def fail_task(self) -> None:
        """End a task whose changes to the copy are lost, as when its worker dies."""
        assert not self._in_memory, "the tester commits its state, so only a copy can be lost"
        self.processor._store.abort()

    def move(self, folder: Path) -> None:
        """The next task runs on another machine, which has no copy."""
        self.end_task()
        close_copies()
        self.processor._backend = log_backend(folder)
        self.processor.init(cast("Any", self.tester.handle))

    @property
    def states(self) -> dict[str, dict[str, Any]]:
        """The newest state of each key, as a reader of the state store finds it: by the log alone."""
        if self._in_memory:
            bucket: Any = self.processor._store.bucket(BUCKET[1], 0)
            found = bucket.find([key for key, _ in bucket.items()])
            return {key: json.loads(kept.state.text) for key, kept in found.items()}
        newest: dict[str, Any] = {}
        for _, value in sorted(self.tester.peekMapState(LOG_NAME, BUCKET).items()):
            newest |= json.loads(value[0])
        return {key: state for key, state in newest.items() if state is not None}

    @property
    def logged(self) -> int:
        """How many states the log has, old ones among them."""
        return sum(len(json.loads(value[0])) for value in self.tester.peekMapState(LOG_NAME, BUCKET).values())

    @property
    def timers(self) -> list[int]:
        """Spark's timers of the bucket (ms)."""
        self.tester.handle.setGroupingKey(BUCKET)
        return list(self.tester.handle.listTimers())

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left in the state store."""
        has_head = not self._in_memory and self.tester.peekValueState(HEAD_NAME, BUCKET) is not None
        return not self.states and not self.timers and not has_head

    def _plan(self, next_ms: int) -> None:
        # A task of Spark's has a processor of its own.
        self._next_ms, self.processor._next_ms = next_ms, None

    def _take(self, rows: Iterable[Row]) -> None:
        for row in rows:
            if row["kind"] in self._tables:
                found = decode_rows(row["data"]).to_pylist()
                assert len(found) == row["rows"]
                self.rows[row["kind"]] += found
            elif row["kind"] == KIND_COUNTS:
                counts = json.loads(row["data"])
                counts.pop("watermark_ms", None)
                (self.reported,) = counts.pop("timers").values()
                self.size = BucketSize(*counts.pop("sizes")[str(BUCKET[1])])
                self.counts.update(counts)
            else:
                self.other.append((row["kind"], row["rows"], row["data"]))


def log_backend(folder: Path) -> LogBackend:
    """The store of a driver, with its local copy in a folder."""
    return LogBackend(str(folder), "file:///checkpoint")


def close_copies() -> None:
    """Forget the local copies of all benches, as when their process ends."""
    state_cache._mapped.clear()
