"""Connects Spark to the pure logic: the only module that uses ``StatefulProcessor``.

Spark calls the processor once per bucket and micro-batch, and `key_logic.advance` runs for each key in it. So
a call into Python costs once per bucket instead of once per key (docs/decisions/0004).
"""

from __future__ import annotations

import marshal
from collections import defaultdict
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from stateward.runtime.api.key_logic import KeyLogic, KeyState, advance, next_timer
from stateward.runtime.api.state_step import StateStep
from stateward.runtime.api.stream_job import Output
from stateward.runtime.api.tables import DEAD_LETTERS
from stateward.runtime.ingest.packed_format import (
    LANE_DATA_TICK,
    LANE_DEAD,
    LANE_EVENT,
    LANE_OTHER,
    LANE_TIMES,
    PLACE_FIELDS,
)
from stateward.runtime.keyed.codec import KeyStateCodec
from stateward.runtime.keyed.outcome import BucketOutput, ReadValues
from stateward.runtime.keyed.state_store import (
    BucketStates,
    Encoded,
    StateBackend,
    StateRules,
    StateStore,
    StoredState,
)
from stateward.runtime.keyed.state_upgrade import Upgrade
from stateward.runtime.sink.output_rows import KIND_COUNTS
from stateward.runtime.sink.row_files import RowFiles, TaskRows
from stateward.runtime.watermark.admission import Limits
from stateward.runtime.watermark.topic_partitions import Topics

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import (
        ExpiredTimerInfo,
        StatefulProcessorHandle,
        TimerValues,
    )

_OutputRow = Row("kind", "rows", "data")
# In a packed record: slot and offset, and the index of the event's first field.
_place = itemgetter(1, 2)
_EVENT = 1 + PLACE_FIELDS
_NOTHING: KeyState[Any, Any] = KeyState()


class BucketProcessor(StatefulProcessor):
    """Runs a stream's logic over buckets of keys.

    Args:
        logic: The stream's logic.
        state_type: Named tuple of its states.
        event_type: Named tuple of its events.
        outputs: Its tables.
        limits: Allowed lateness and bounds.
        topics: The data topics, for late events.
        late_values: Reads raw values of late events that the decoder has not kept.
        next_watermark: Returns the watermark after the running batch; 0 if it does not change.
        state_version: Version of its states.
        state_steps: Steps from older versions to that one.
        backend: Opens the store of states.
        files: Which rows the tasks write themselves; None: none.
    """

    def __init__(
        self,
        *,
        logic: KeyLogic[Any, Any],
        state_type: type[Any],
        event_type: type[Any],
        outputs: tuple[Output, ...],
        limits: Limits,
        topics: Topics,
        late_values: ReadValues,
        next_watermark: Callable[[], int] = int,
        state_version: int,
        state_steps: tuple[StateStep, ...] = (),
        backend: StateBackend,
        files: RowFiles | None = None,
    ) -> None:
        self._logic = logic
        self._state_type = state_type
        self._event_type = event_type
        self._outputs = outputs
        self._limits = limits
        self._topics = topics
        self._late_values = late_values
        self._next_watermark = next_watermark
        self._next_ms: int | None = None
        self._state_version = state_version
        self._state_steps = state_steps
        self._backend = backend
        self._files = files
        self._store: StateStore[Any]
        self._task: TaskRows

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark once per task, and once on the driver to get the state's schema."""
        self._codec: KeyStateCodec[Any, Any] = KeyStateCodec(self._state_type, self._event_type)
        upgrade = Upgrade(self._codec, self._state_version, self._state_steps)
        rules = StateRules(self._state_version, self._codec.layout, upgrade, self._loaded)
        self._store = self._backend.open(handle, rules)
        self._task = TaskRows(self._files)
        self._next_ms = None

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        """Called by Spark with the packed records of a bucket in a batch."""
        lane, number = key
        outcome = self._outcome(timerValues)
        if lane == LANE_EVENT:
            arrivals: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
            for row in rows:
                for record in marshal.loads(row["payload"]):
                    arrivals[record[0]].append(record)
            self._process_bucket(number, arrivals, outcome)
        elif lane == LANE_DATA_TICK:
            outcome.tick_records += sum(row["records"] for row in rows)
        elif lane == LANE_OTHER:
            outcome.others += sum(row["records"] for row in rows)
        else:
            yield from self._passed_through(lane, rows, outcome)
        for part in outcome.parts():
            yield _OutputRow(*part)

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Row]:
        """Called by Spark when the watermark has reached a bucket's timer, which Spark then deletes."""
        outcome = self._outcome(timerValues)
        self._process_bucket(key[1], {}, outcome, expiredTimerInfo.getExpiryTimeInMs())
        for part in outcome.parts():
            yield _OutputRow(*part)

    def close(self) -> None:
        """Called by Spark at the end of the task. A task that fails before leaves no changes."""
        self._task.close()
        self._store.commit()

    def _outcome(self, timers: TimerValues) -> BucketOutput:
        watermark_ms = timers.getCurrentWatermarkInMs()
        return BucketOutput(self._outputs, self._topics, watermark_ms, self._late_values, self._task)

    def _passed_through(self, lane: str, rows: Iterator[Row], outcome: BucketOutput) -> Iterator[Row]:
        """Rows that need no state: dead letters and event times of tasks."""
        for row in rows:
            if lane == LANE_DEAD:
                outcome.dead += row["records"]
                yield _OutputRow(*self._task.packed(DEAD_LETTERS, row["records"], row["payload"]))
            elif lane == LANE_TIMES:
                counted = b'{"records": %d, "times": %b}' % (row["records"], row["payload"])
                yield _OutputRow(KIND_COUNTS, 1, counted)

    def _passed_ms(self, watermark_ms: int) -> int:
        """The time up to which this batch folds events: the watermark after it, if its plan advances that."""
        if self._next_ms is None:
            self._next_ms = self._next_watermark()
        return max(watermark_ms, self._next_ms)

    def _process_bucket(
        self,
        number: int,
        arrivals: dict[str, list[tuple[Any, ...]]],
        outcome: BucketOutput,
        fired_ms: int | None = None,
    ) -> None:
        bucket = self._store.bucket(number, self._passed_ms(outcome.watermark_ms))
        found = bucket.find(arrivals)
        for key, records in arrivals.items():
            self._process_key(bucket, key, found.get(key), records, outcome)
        for key, before in bucket.due().items():
            self._process_key(bucket, key, before, [], outcome)
        outcome.timers[number] = bucket.finish(fired_ms)
        outcome.sizes[number] = bucket.size()

    def _process_key(
        self,
        bucket: BucketStates[Any],
        key: str,
        before: StoredState | None,
        records: list[tuple[Any, ...]],
        outcome: BucketOutput,
    ) -> None:
        """Run the logic for one key, with its state or without one."""
        if len(records) > 1:
            # Records of one key arrive in any order. In the order of slot and offset a re-run makes the
            # same choice between equal ids.
            records.sort(key=_place)
        make = self._event_type._make
        events = [make(record[_EVENT:]) for record in records]
        kept = _NOTHING if before is None else self._codec.unpack(before.packed)
        watermark_ms, passed_ms, limits = outcome.watermark_ms, bucket.passed_ms, self._limits
        result = advance(
            self._logic, key, kept, events, watermark_ms=watermark_ms, passed_ms=passed_ms, limits=limits
        )
        outcome.add(key, result, events, records)
        due_ms = next_timer(self._logic, key, result.kept, limits)
        if due_ms is not None:
            is_same = before is not None and result.kept == kept
            bucket.put(key, before, None if is_same else self._encoded(result.kept), due_ms)
        elif before is not None:
            bucket.remove(key, before)

    def _encoded(self, kept: KeyState[Any, Any]) -> Encoded:
        return Encoded(self._codec.encode(kept), self._codec.pack(kept))

    def _loaded(self, key: str, text: bytes) -> tuple[Encoded, int]:
        kept = self._codec.decode(text)
        due_ms = next_timer(self._logic, key, kept, self._limits)
        assert due_ms is not None  # an empty state would have been removed
        return Encoded(text, self._codec.pack(kept)), due_ms
