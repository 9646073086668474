"""Traffic of all topics for `raw_events`: every record has to be there once, as it was sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from proof.traffic.generate import Plan, Traffic
from proof.traffic.records import Slice
from stateward.replay.records import TICK_KEY, tick_value
from tests.support.kafka.recording import Recorder
from tests.support.spark.killed_driver import Driven
from tests.support.spark.launches import Launch
from tests.support.streams.traced import COUNTS, in_parts, surplus_and_missing, wrong_counts

_TABLE = "raw_events"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Landed:
    """`traffic_proof.Course` of `raw_events`.

    Expected is what the broker has acknowledged, with the key and the value that were sent: a row for each
    topic, partition and offset, and no other.

    Args:
        launch: The stream; its topics are named after the launch's and those of the plan.
        plan: What is made.
    """

    def __init__(self, launch: Launch, plan: Plan) -> None:
        self._launch = launch
        self._traffic = Traffic(plan)
        self._recorder = Recorder(launch.broker.bootstrap)
        self._topics = {name: f"{launch.topic}-{name}" for name in self._traffic.topics}
        self.sent = 0

    @property
    def topics(self) -> tuple[str, ...]:
        """A topic for each that traffic is made for."""
        return tuple(self._topics.values())

    @property
    def changes(self) -> Mapping[str, Any]:
        """As in its YAML: several topics, no ticks of its own, no state."""
        tick = {"mode": "off", "interval_ms": 1000}
        return {"topics": list(self.topics), "tick": tick, "state_partitions": 1}

    def parts(self, count: int) -> list[list[Slice]]:
        """The first phase, cut into parts of about as many records each."""
        return in_parts(self._traffic.slices(), count)

    def send(self, slices: Iterable[Slice]) -> None:
        """Send slices, each topic's to its own."""
        for piece in slices:
            records = ((record.key, record.value) for record in piece.records)
            self._recorder.send(self._topics[piece.topic], records)
        self.sent = len(self._recorder.placed)

    def finish(self, driven: Driven) -> None:
        """Send ticks, which are records like any other here, and the second phase."""
        for name, last in self._traffic.last_event.items():
            self._recorder.send_to_each(
                self._topics[name], self._launch.partitions, TICK_KEY, tick_value(last + timedelta(days=31))
            )
        self.send(self._traffic.late())
        driven.wait(
            "all is landed", lambda status: status["delivered"] == self.sent and status["lag_records"] == 0
        )

    def wrong(self) -> dict[str, Any]:
        """Rows that are missing, altered or there twice, and counts that do not add up."""
        launch = self._launch
        nothing = dict.fromkeys(COUNTS, 0)
        wrong = wrong_counts(launch, {**nothing, "accepted": self.sent})
        wanted = {_TABLE: self._rows(), "dead_letters": [], "late_events": []}
        for table, rows in wanted.items():
            if found := surplus_and_missing(launch.rows(table), rows):
                wrong[table] = found
        return wrong

    def row_counts(self) -> dict[str, int]:
        """A row for each record."""
        return {_TABLE: self.sent}

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {
                "topic": placed.topic,
                "partition": placed.partition,
                "offset": placed.offset,
                "record_timestamp": _EPOCH + timedelta(milliseconds=placed.at_ms),
                "date": (_EPOCH + timedelta(milliseconds=placed.at_ms)).date(),
                "key": placed.key,
                "value": placed.value,
                "header_names": None,
                "header_values": None,
            }
            for placed in self._recorder.placed
        ]
