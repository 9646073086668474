"""Traffic for `action_counts` by the wall clock: rows by the times of its batches, and every event counted.

The rows depend on when records were read, so they cannot be known before. But the checkpoint says of each
batch which records it has read and when it was planned, and with these times the stream's logic makes all of
its rows. Whatever the batches were, the counts of a user, one after the other, add up to the user's events.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import DeltaTable

from proof.traffic.generate import Plan, Traffic
from proof.traffic.records import EVENT, LATE, Record, Slice
from proof.truth.expected import Expected
from proof.truth.registry import truth_about
from spark_jobs.action_counts.model import ActionEvent
from stateward.runtime.api.config import parse_config
from stateward.runtime.api.key_logic import expire_until, fold
from stateward.runtime.checkpoint.checkpoint import Checkpoint
from stateward.runtime.ingest.parse import Parsed
from stateward.runtime.ingest.shaped_records import parser_of
from tests.support.kafka.recording import Placed, Recorder
from tests.support.spark.launches import Launch
from tests.support.streams.oracle import difference, found_rows, of_tables
from tests.support.streams.traced import Watched, in_parts, surplus_and_missing, wrong_counts

_TABLE = "action_counts"
# Short, so that counts end and start again between two kills.
_IDLE_MS = 20_000
# Long, so that it is known which records are repetitions: no id is forgotten while traffic is sent.
_REMEMBERED_MS = 30 * 60_000
_EVER = 1 << 62


class Read(NamedTuple):
    """An event that a batch has read.

    Attributes:
        user: Its key.
        event: The event, with the time at which the batch was planned.
    """

    user: str
    event: ActionEvent


class Counted:
    """`traffic_proof.Course` of `action_counts`.

    Args:
        launch: The stream, and the topic it reads.
        plan: What is made, for the one topic.
    """

    def __init__(self, launch: Launch, plan: Plan) -> None:
        self._launch = launch
        self._traffic = Traffic(plan)
        self._recorder = Recorder(launch.broker.bootstrap)
        self._sent_ms = int(time.time() * 1000)
        self._config = parse_config(launch.document(**self.changes), "test")
        self._truth = truth_about(self._config, self._sent_ms)
        self._expected: Expected | None = None
        self._rows: dict[str, Any] = {}
        self.sent = 0

    @property
    def topics(self) -> tuple[str, ...]:
        """What the stream reads."""
        return (self._launch.topic,)

    @property
    def changes(self) -> Mapping[str, Any]:
        """The wall clock, with a short pause; and all plans are kept."""
        return {
            "clock": "processing",
            "allowed_lateness_ms": _REMEMBERED_MS,
            "logic": {"idle_ms": _IDLE_MS, "max_held_events": 10_000},
            "spark_conf": {"spark.sql.streaming.minBatchesToRetain": "100000"},
        }

    def parts(self, count: int) -> list[list[Slice]]:
        """The first phase, cut into parts of about as many records each."""
        return in_parts(self._traffic.slices(), count)

    def send(self, slices: Iterable[Slice]) -> None:
        """Send slices; nothing is late by this clock."""
        for piece in slices:
            self._recorder.send(self._launch.topic, ((record.key, record.value) for record in piece.records))
            for record in piece.records:
                self._truth.see(_on_time(record))
        self.sent = len(self._recorder.placed)

    def finish(self, driven: Watched) -> None:
        """Wait until all counts have ended, then begin new ones, and wait for those too."""
        for slices in (iter(()), self._traffic.late()):
            self.send(slices)
            driven.wait("all is counted", lambda status: status["delivered"] == self.sent)
            driven.wait("every count has ended", lambda status: self._are_final())

    def wrong(self) -> dict[str, Any]:
        """Rows that are not those of the batches' times, events that are not counted once, and counters."""
        launch = self._launch
        expected = self._expected = self._expected or self._truth.finish()
        wrong = wrong_counts(launch, {**expected.counts, "tick_records": 0})
        dead = surplus_and_missing(launch.rows("dead_letters"), expected.dead_letters)
        late = surplus_and_missing(launch.rows("late_events"), [])
        wrong |= {name: found for name, found in (("dead_letters", dead), ("late_events", late)) if found}
        events: dict[str, dict[str, ActionEvent]] = defaultdict(dict)
        for user, event in self._read():
            first = events[user].setdefault(event.event_id, event)
            if event.event_ms - first.event_ms > _REMEMBERED_MS:
                wrong["too slow to know"] = f"{user} {event.event_id} was repeated when it was forgotten"
        self._rows = of_tables(launch, self._folded(events))
        wrong |= difference(found_rows(launch), self._rows)
        wrong |= self._wrong_sums(Counter({user: len(mine) for user, mine in events.items()}))
        return wrong

    def row_counts(self) -> dict[str, int]:
        """A row for each user."""
        return {table: len(rows) for table, rows in self._rows.items()}

    def _are_final(self) -> bool:
        return all(row["is_final"] for row in self._launch.rows(_TABLE))

    def _read(self) -> Iterator[Read]:
        """Every event and repetition, in the order in which the stream has read those of a partition."""
        checkpoint = Checkpoint(self._launch.checkpoint)
        plans = [checkpoint.planned(number) for number in range(checkpoint.last_committed() + 1)]
        assert None not in plans, "not every plan is on record"
        ends: dict[int, list[int]] = defaultdict(list)
        times = []
        for plan in filter(None, plans):
            times.append(max(plan.now_ms, plan.watermark_ms))
            for partition in range(self._launch.partitions):
                ends[partition].append(plan.offsets.get(self._launch.topic, {}).get(partition, 0))
        parser = parser_of(self._launch.stream.job.fields(self._config), self._config.bounds)
        for placed in sorted(self._recorder.placed, key=_place):
            parsed = parser.parse(placed.value, self._sent_ms)
            if isinstance(parsed, Parsed):
                at_ms = times[bisect_right(ends[placed.partition], placed.offset)]
                record = parsed.record
                yield Read(record.user_id, ActionEvent(record.event_id, at_ms, record.event_type))

    def _folded(self, events: Mapping[str, Mapping[str, ActionEvent]]) -> list[tuple[Any, ...]]:
        """All rows, by the stream's logic; unlike `key_logic.replay_oracle` in the order of arrival."""
        logic = self._launch.stream.job.logic(self._config)
        rows: list[tuple[Any, ...]] = []
        for user, mine in events.items():
            state = fold(logic, user, None, mine.values(), rows)
            expire_until(logic, user, state, _EVER, rows)
        return rows

    def _wrong_sums(self, events: Counter[str]) -> dict[str, Any]:
        """Users whose counts, one after the other, do not add up to their events.

        A count's last row says how many it has. A version of the table has that row, also if a later count of
        the user has taken its place.
        """
        table = DeltaTable(self._launch.uri("tables", _TABLE))
        seen = []
        for version in range(table.version() + 1):
            table.load_as_version(version)
            seen.append(table.to_pyarrow_table(columns=["user_id", "first_action_at", "action_count"]))
        counts = pa.concat_tables(seen).group_by(["user_id", "first_action_at"])
        sums: Counter[str] = Counter()
        for row in counts.aggregate([("action_count", "max")]).to_pylist():
            sums[row["user_id"]] += row["action_count_max"]
        if sums == events:
            return {}
        different = sorted(user for user in sums | events if sums[user] != events[user])
        shown = [f"{user}: {sums[user]} counted of {events[user]}" for user in different]
        return {"sums of counts": {"users": len(shown), "such as": shown[:3]}}


def _on_time(record: Record) -> Record:
    return record._replace(mark=EVENT) if record.mark == LATE else record


def _place(placed: Placed) -> tuple[int, int]:
    return placed.partition, placed.offset
