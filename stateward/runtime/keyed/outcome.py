"""The output of one bucket in one batch: rows by table, late events and counts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from stateward.contract.stream_status import BucketSize
from stateward.runtime.api.key_logic import KeyResult
from stateward.runtime.api.stream_job import Output
from stateward.runtime.api.tables import LATE_EVENTS
from stateward.runtime.kafka.late_values import Place
from stateward.runtime.sink.output_rows import KIND_COUNTS, rows_of
from stateward.runtime.sink.row_files import TaskRows
from stateward.runtime.watermark.admission import Overrun
from stateward.runtime.watermark.topic_partitions import Topics

ReadValues = Callable[[Collection[Place]], Mapping[Place, bytes | None]]


class BucketOutput:
    """Collects the output; `parts` returns it.

    Args:
        outputs: The stream's tables.
        topics: The data topics.
        watermark_ms: The watermark of the batch.
        values: Reads the raw values of late events without one, by slot and offset.
        task: The rows of the task; by default all are returned.

    Attributes:
        timers: The current timer (ms) of each bucket, or None.
        sizes: The current size of each bucket.
    """

    def __init__(
        self,
        outputs: tuple[Output, ...],
        topics: Topics,
        watermark_ms: int,
        values: ReadValues,
        task: TaskRows | None = None,
    ) -> None:
        self.watermark_ms = watermark_ms
        self.timers: dict[int, int | None] = {}
        self.sizes: dict[int, BucketSize] = {}
        self.accepted = self.dead = self.duplicates = self.tick_records = self.others = 0
        self._overruns: Counter[str] = Counter()
        self._topics = topics
        self._values = values
        self._task = task or TaskRows()
        self._tables = {output.row: output.table for output in outputs}
        self._rows: dict[type[Any], list[tuple[Any, ...]]] = {output.row: [] for output in outputs}
        self._late: list[tuple[Any, ...]] = []
        self._without_value: dict[int, Place] = {}

    def add(
        self, key: str, result: KeyResult[Any, Any], events: Sequence[Any], records: Sequence[tuple[Any, ...]]
    ) -> None:
        """Add the result of a key; ``records`` are the packed records of ``events``."""
        for row in result.rows:
            self._rows[type(row)].append(row)
        admission = result.admission
        self.accepted += admission.accepted
        self.duplicates += admission.duplicates
        if admission.overrun is not None:
            self._note(admission.overrun)
        if admission.late:
            places = {id(event): record for event, record in zip(events, records, strict=True)}
            for event in admission.late:
                slot, offset, record_ms, raw = places[id(event)][1:5]
                if raw is None:
                    self._without_value[len(self._late)] = slot, offset
                late = (*self._topics.place(slot), offset, record_ms, event.event_id, key, event.event_ms)
                self._late.append((*late, self.watermark_ms, raw))

    def _note(self, overrun: Overrun) -> None:
        counted = overrun._asdict()
        counted["held_full"] = int(overrun.folded_early > 0)
        counted["ids_full"] = int(overrun.ids_forgotten > 0)
        self._overruns.update({name: number for name, number in counted.items() if number})

    def _late_rows(self) -> list[tuple[Any, ...]]:
        """The late events with the raw values of their records."""
        without = self._without_value
        if not without:
            return self._late
        values = self._values(set(without.values()))
        return [
            (*row[:-1], values[without[number]]) if number in without else row
            for number, row in enumerate(self._late)
        ]

    def parts(self) -> Iterator[tuple[str, int, bytes]]:
        """``(kind, rows, data)``: the rows of each table, and the counts, if any."""
        of_tables = [(self._tables[row_type], rows) for row_type, rows in self._rows.items()]
        for table, rows in (*of_tables, (LATE_EVENTS, self._late_rows())):
            if rows:
                yield from self._task.parts(table, rows_of(table, rows))
        counts: dict[str, Any] = {
            "accepted": self.accepted,
            "dead": self.dead,
            "late": len(self._late),
            "duplicates": self.duplicates,
            "tick_records": self.tick_records,
            "others": self.others,
            **self._overruns,
        }
        if any(counts.values()):
            counts["watermark_ms"] = self.watermark_ms
        if any(counts.values()) or self.timers:
            counts |= {"timers": self.timers, "sizes": self.sizes}
            yield KIND_COUNTS, 1, json.dumps(counts).encode()
