"""The results, read from the Delta tables alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stateward.contract.names import BATCH_COUNTS, QUALITY_RESULTS
from stateward.project.layout import Layout

if TYPE_CHECKING:
    import pyarrow as pa

_BUSIEST = 5


@dataclass(frozen=True)
class QualityVerdict:
    """The newest validation of a table.

    Attributes:
        version: Delta version that was validated.
        passed, failed: number of expectations.
    """

    version: int
    passed: int
    failed: int

    @property
    def word(self) -> str:
        """`passed` or `failed`."""
        return "failed" if self.failed or not self.passed else "passed"


@dataclass(frozen=True)
class Results:
    """Figures of one stream.

    Attributes:
        counters: accepted, dead, late and duplicates, summed over all batches.
        batches: how many were committed.
        sessions: rows of the table of closed sessions.
        events_in_sessions: their `event_count` added up.
        by_reason: close reason to (sessions, events).
        busiest: (user, sessions, events) of those with most events.
    """

    stream: str
    counters: dict[str, int]
    batches: int
    sessions: int
    events_in_sessions: int
    by_reason: dict[str, tuple[int, int]]
    busiest: list[tuple[str, int, int]]

    @property
    def delivered(self) -> int:
        """Records read from Kafka."""
        return sum(self.counters.values())

    def summary(self, quality: str) -> dict[str, Any]:
        """Return the demo's last line."""
        return {
            "stream": self.stream,
            "delivered": self.delivered,
            "sessions": self.sessions,
            "events_in_sessions": self.events_in_sessions,
            "dead": self.counters["dead"],
            "late": self.counters["late"],
            "quality": quality,
        }


def table_version(uri: str) -> int | None:
    """Return the newest version of a Delta table, None when there is none."""
    from deltalake import DeltaTable

    return DeltaTable(uri).version() if DeltaTable.is_deltatable(uri) else None


def read_results(layout: Layout, stream: str) -> Results:
    """Read `batch_counts` and `sessions`."""
    counts = _of_stream(_read(layout.table_uri(BATCH_COUNTS)), stream)
    sessions = _read(layout.table_uri("sessions"))
    by_reason = sessions.group_by("close_reason").aggregate(
        [("event_count", "count"), ("event_count", "sum")]
    )
    by_user = sessions.group_by("user_id").aggregate([("event_count", "count"), ("event_count", "sum")])
    busiest = by_user.sort_by([("event_count_sum", "descending"), ("user_id", "ascending")]).slice(
        0, _BUSIEST
    )
    return Results(
        stream=stream,
        counters={name: _total(counts, name) for name in ("accepted", "dead", "late", "duplicates")},
        batches=counts.num_rows,
        sessions=sessions.num_rows,
        events_in_sessions=_total(sessions, "event_count"),
        by_reason={
            row["close_reason"]: (row["event_count_count"], row["event_count_sum"])
            for row in by_reason.to_pylist()
        },
        busiest=[
            (row["user_id"], row["event_count_count"], row["event_count_sum"]) for row in busiest.to_pylist()
        ],
    )


def read_quality(layout: Layout, stream: str, table: str, at_least: int) -> QualityVerdict | None:
    """Return the newest validation of `table` at version `at_least` or later, None when there is none."""
    uri = layout.table_uri(QUALITY_RESULTS)
    if table_version(uri) is None:
        return None
    rows = [
        row
        for row in _of_stream(_read(uri), stream).to_pylist()
        if row["table"] == table and row["table_version"] >= at_least
    ]
    if not rows:
        return None
    newest = max(rows, key=lambda row: (row["table_version"], row["validated_at"]))
    outcomes = [row["success"] for row in rows if row["run_id"] == newest["run_id"]]
    return QualityVerdict(newest["table_version"], passed=sum(outcomes), failed=len(outcomes) - sum(outcomes))


def _read(uri: str) -> pa.Table:
    from deltalake import DeltaTable

    return DeltaTable(uri).to_pyarrow_table()


def _of_stream(table: pa.Table, stream: str) -> pa.Table:
    import pyarrow.compute as pc

    return table.filter(pc.equal(table["stream"], stream))


def _total(table: pa.Table, column: str) -> int:
    import pyarrow.compute as pc

    return int(pc.sum(table[column]).as_py() or 0)
