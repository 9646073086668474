"""Between Spark and the pure logic: the only file that knows ``StatefulProcessor``.

Spark calls once per bucket of keys and micro-batch; inside, `keyed.advance` runs key by key. So what a call
into Python costs is paid per bucket, not per key (docs/decisions/0004).
"""

from __future__ import annotations

import marshal
from collections import defaultdict
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from stateward.contract.table_names import DEAD_LETTERS
from stateward.runtime.api.key_logic import KeyLogic, KeyState, advance, next_timer
from stateward.runtime.api.state_step import StateStep
from stateward.runtime.api.stream_job import Output
from stateward.runtime.ingest.packed_format import (
    LANE_DATA_TICK,
    LANE_DEAD,
    LANE_EVENT,
    LANE_OTHER,
    LANE_TIMES,
    PLACE_FIELDS,
)
from stateward.runtime.keyed.admission import Limits
from stateward.runtime.keyed.bucket import Bucket
from stateward.runtime.keyed.codec import KeptCodec
from stateward.runtime.keyed.outcome import Outcome, ValuesOf
from stateward.runtime.keyed.state_cache import StateCache
from stateward.runtime.keyed.state_log import StateLog
from stateward.runtime.keyed.state_upgrade import Upgrade
from stateward.runtime.sink.output_rows import KIND_COUNTS

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import (
        ExpiredTimerInfo,
        StatefulProcessorHandle,
        TimerValues,
    )

_OutputRow = Row("kind", "rows", "data")
# Of a packed record: partition and offset, and where its event begins.
_place = itemgetter(1, 2)
_EVENT = 1 + PLACE_FIELDS
_NOTHING: KeyState[Any, Any] = KeyState()


class BucketProcessor(StatefulProcessor):
    """Runs a stream's logic over buckets of keys.

    Args:
        logic: The stream's logic.
        codec: Its states as text.
        event_type: Named tuple of its events.
        outputs: Its tables.
        limits: Allowed lateness and bounds.
        topic: The data topic, for late events.
        late_values: Their raw values, where the reader has kept none.
        next_watermark: What the running batch makes the watermark; 0 if it leaves it as it is.
        state_version: Version of its states.
        state_steps: From older versions to that one.
        cache_root: Folder for the copies of states, on the worker's machine.
        checkpoint_uri: Tells the copies of one checkpoint from those of another.
    """

    def __init__(
        self,
        *,
        logic: KeyLogic[Any, Any],
        state_type: type[Any],
        event_type: type[Any],
        outputs: tuple[Output, ...],
        limits: Limits,
        topic: str,
        late_values: ValuesOf,
        next_watermark: Callable[[], int] = int,
        state_version: int,
        state_steps: tuple[StateStep, ...] = (),
        cache_root: str,
        checkpoint_uri: str,
    ) -> None:
        self._logic = logic
        self._state_type = state_type
        self._event_type = event_type
        self._outputs = outputs
        self._limits = limits
        self._topic = topic
        self._late_values = late_values
        self._next_watermark = next_watermark
        self._next_ms: int | None = None
        self._state_version = state_version
        self._state_steps = state_steps
        self._cache_root = cache_root
        self._checkpoint_uri = checkpoint_uri
        self._cache: StateCache | None = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by the engine once per task, and once on the driver to learn the state's schema."""
        self._log = StateLog(handle)
        self._codec: KeptCodec[Any, Any] = KeptCodec(self._state_type, self._event_type)
        self._upgrade = Upgrade(self._codec, self._state_version, self._state_steps)
        self._next_ms = None

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        """Called by the engine with the packed records of a bucket in a batch."""
        lane, number = key
        outcome = self._outcome(timerValues)
        if lane == LANE_EVENT:
            arrivals: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
            for row in rows:
                for record in marshal.loads(row["payload"]):
                    arrivals[record[0]].append(record)
            self._turn(number, arrivals, outcome)
        elif lane == LANE_DATA_TICK:
            outcome.tick_records += sum(row["records"] for row in rows)
        elif lane == LANE_OTHER:
            outcome.others += sum(row["records"] for row in rows)
        else:
            yield from _passed_through(lane, rows, outcome)
        for part in outcome.parts():
            yield _OutputRow(*part)

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Row]:
        """Called by the engine when the watermark has reached a bucket's timer, which it then deletes."""
        outcome = self._outcome(timerValues)
        self._turn(key[1], {}, outcome, expiredTimerInfo.getExpiryTimeInMs())
        for part in outcome.parts():
            yield _OutputRow(*part)

    def close(self) -> None:
        """Called by the engine when the task has done its work. A task that fails before leaves no trace."""
        if self._cache is not None:
            self._cache.commit()
            self._cache = None

    def _outcome(self, timers: TimerValues) -> Outcome:
        return Outcome(self._outputs, self._topic, timers.getCurrentWatermarkInMs(), self._late_values)

    def _passed_ms(self, watermark_ms: int) -> int:
        """Up to where this batch folds: the watermark that its plan makes holds for every batch after it."""
        if self._next_ms is None:
            self._next_ms = self._next_watermark()
        return max(watermark_ms, self._next_ms)

    def _turn(
        self,
        number: int,
        arrivals: dict[str, list[tuple[Any, ...]]],
        outcome: Outcome,
        fired_ms: int | None = None,
    ) -> None:
        bucket = Bucket(
            number,
            self._log,
            self._copy(),
            self._alarm,
            upgrade=self._upgrade,
            schema_version=self._state_version,
            passed_ms=self._passed_ms(outcome.watermark_ms),
        )
        for key, records in arrivals.items():
            self._look(bucket, key, records, outcome)
        for key in bucket.due():
            self._look(bucket, key, [], outcome)
        outcome.timers[number] = bucket.finish(fired_ms)

    def _look(self, bucket: Bucket, key: str, records: list[tuple[Any, ...]], outcome: Outcome) -> None:
        """One look at one key."""
        if len(records) > 1:
            # Records of one key come in no particular order; by partition and offset, which come first, a
            # re-run makes the same choice between equal ids.
            records.sort(key=_place)
        make = self._event_type._make
        events = [make(record[_EVENT:]) for record in records]
        before = bucket.get(key)
        kept = _NOTHING if before is None else self._codec.decode(before.state)
        watermark_ms, passed_ms, limits = outcome.watermark_ms, bucket.passed_ms, self._limits
        turn = advance(
            self._logic, key, kept, events, watermark_ms=watermark_ms, passed_ms=passed_ms, limits=limits
        )
        outcome.add(key, turn, events, records)
        wake_ms = next_timer(self._logic, key, turn.kept, limits)
        if wake_ms is not None:
            same = before is not None and turn.kept == kept
            state = before.state if before and same else self._codec.encode(turn.kept)
            bucket.put(key, before, state, wake_ms)
        elif before is not None:
            bucket.remove(key, before)

    def _alarm(self, key: str, state: bytes) -> int:
        wake_ms = next_timer(self._logic, key, self._codec.decode(state), self._limits)
        assert wake_ms is not None  # what is empty is removed, not kept
        return wake_ms

    def _copy(self) -> StateCache:
        if self._cache is None:
            context = TaskContext.get()
            partition = 0 if context is None else context.partitionId()
            self._cache = StateCache(self._cache_root, self._checkpoint_uri, partition)
        return self._cache


def _passed_through(lane: str, rows: Iterator[Row], outcome: Outcome) -> Iterator[Row]:
    """What tasks have settled: dead letters, and how far their events have got."""
    for row in rows:
        if lane == LANE_DEAD:
            outcome.dead += row["records"]
            yield _OutputRow(DEAD_LETTERS, row["records"], row["payload"])
        elif lane == LANE_TIMES:
            counted = b'{"records": %d, "times": %b}' % (row["records"], row["payload"])
            yield _OutputRow(KIND_COUNTS, 1, counted)
