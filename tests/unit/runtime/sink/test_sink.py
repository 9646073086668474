"""Each row of a batch is written to its table exactly once, whatever happens in between.

`Batch` stands for a DataFrame: the sink asks nothing of one but ``toArrow``. The real one is in tests/spark.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from stateward.runtime.api.tables import (
    BATCH_COUNTS,
    DEAD_LETTERS,
    LATE_EVENTS,
    SHARED_TABLES,
    Column,
    Table,
    arrow_schema,
)
from stateward.runtime.sink import table_commits
from stateward.runtime.sink.ledger import Ledger
from stateward.runtime.sink.output_rows import KIND_COUNTS, decode_rows, encode_rows, row_schema
from stateward.runtime.sink.sink import BatchSink
from stateward.runtime.sink.topic_sink import TopicSink
from stateward.runtime.watermark.partition_times import Times

VISITS = Table(
    "visits",
    "One visit",
    (
        Column("user_id", "string", "The user"),
        Column("started_at", "timestamp", "When"),
        Column("pages", "array<string>", "What was seen"),
        Column("score", "double", "How much"),
        Column("closed", "boolean", "Whether it is over"),
        Column("rank", "integer", "Place"),
    ),
)
ALERTS = Table("alerts", "One alert", (Column("user_id", "string", "The user"),))
TABLES = (VISITS, ALERTS, DEAD_LETTERS, LATE_EVENTS)
VISIT = ("u", 1_000, ["a", "b"], 0.5, True, 3)
LETTER = ("events", 1, 7, 2_000, b"k", b"\xff", "not_utf8", "the value is not UTF-8")
LATE = ("events", 0, 8, 2_000, "e1", "u", 900, 1_000, b"{}")


class Batch:
    """Rows ``kind, rows, data``, in two Arrow batches as Spark gives them."""

    def __init__(self, *parts: tuple[str, int, bytes]) -> None:
        self.parts = parts

    def toArrow(self) -> pa.Table:
        schema = pa.schema([("kind", pa.string()), ("rows", pa.int64()), ("data", pa.binary())])
        rows = [dict(zip(schema.names, part, strict=True)) for part in self.parts]
        halves = (rows[: len(rows) // 2], rows[len(rows) // 2 :])
        return pa.Table.from_batches([pa.RecordBatch.from_pylist(half, schema=schema) for half in halves])


class LeaseGoneError(Exception):
    """Raised by the stand-in for a lease."""


class Sinks:
    """A stream's tables, and sinks that write them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.timers: dict[int, int | None] = {}
        self.times: list[Times | None] = []
        for table in (VISITS, ALERTS, *SHARED_TABLES):
            table.create(self.uri(table))

    def uri(self, table: Table) -> str:
        return f"file://{self._folder}/{table.name}"

    def sink(
        self,
        generation: str = "g1",
        check_lease: Callable[[], int] = lambda: 5,
        topics: TopicSink | None = None,
    ) -> BatchSink:
        return BatchSink(
            stream="visits",
            run_id="run-1",
            outputs=tuple((table, self.uri(table), table in SHARED_TABLES) for table in TABLES),
            generation=generation,
            ledger=Ledger(self.uri(BATCH_COUNTS), "visits", generation),
            check_lease=check_lease,
            note_timers=self.timers.update,
            checkpoint_uri=f"file://{self._folder}",
            note_times=self.times.append,
            topics=topics,
        )

    def rows(self, table: Table) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = DeltaTable(self.uri(table)).to_pyarrow_table().to_pylist()
        return rows

    def versions(self) -> dict[str, int]:
        return {table.name: DeltaTable(self.uri(table)).version() for table in (*TABLES, BATCH_COUNTS)}


@pytest.fixture
def sinks(tmp_path: Path) -> Sinks:
    return Sinks(tmp_path)


def part(table: Table, *rows: tuple[Any, ...]) -> tuple[str, int, bytes]:
    return table.name, len(rows), encode_rows(table, rows)


def counts(**found: int) -> tuple[str, int, bytes]:
    return KIND_COUNTS, 1, json.dumps(found).encode()


FULL = Batch(
    part(VISITS, VISIT),
    counts(accepted=2, dead=1, late=0, duplicates=0, tick_records=1, watermark_ms=1_000),
    part(DEAD_LETTERS, LETTER),
    part(VISITS, VISIT, ("v", None, None, None, None, None)),
    part(LATE_EVENTS, LATE),
    part(ALERTS, ("u",)),
    counts(accepted=1, late=1, duplicates=4, watermark_ms=3_000),
)


def lease_lost_at(call: int) -> Callable[[], int]:
    calls = iter(range(1, 100))

    def check() -> int:
        if next(calls) >= call:
            raise LeaseGoneError
        return 5

    return check


def at(milliseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)


def test_each_kind_ends_in_its_table(sinks: Sinks) -> None:
    sinks.sink()(FULL, 3)

    visit = dict(
        zip([c.name for c in VISITS.columns], ("u", at(1_000), ["a", "b"], 0.5, True, 3), strict=True)
    )
    assert sinks.rows(VISITS) == [visit, visit, {**dict.fromkeys(visit), "user_id": "v"}]
    assert sinks.rows(ALERTS) == [{"user_id": "u"}]
    marks = {"stream": "visits", "generation": "g1", "batch_id": 3}
    [letter] = sinks.rows(DEAD_LETTERS)
    assert letter == {
        **marks,
        "topic": "events",
        "partition": 1,
        "offset": 7,
        "record_timestamp": at(2_000),
        "key": b"k",
        "value": b"\xff",
        "reason": "not_utf8",
        "detail": "the value is not UTF-8",
    }
    [late] = sinks.rows(LATE_EVENTS)
    assert late.items() >= marks.items()
    assert (late["event_time"], late["watermark"], late["value"]) == (at(900), at(1_000), b"{}")
    [counted] = sinks.rows(BATCH_COUNTS)
    assert {name: counted[name] for name in ("accepted", "dead", "late", "duplicates", "tick_records")} == {
        "accepted": 3,
        "dead": 1,
        "late": 1,
        "duplicates": 4,
        "tick_records": 1,
    }
    assert (counted["rows_out"], counted["watermark"], counted["epoch"]) == (4, at(3_000), 5)
    assert json.loads(counted["rows_by_table"]) == {"visits": 3, "alerts": 1}


def test_a_table_gets_one_zstd_file_a_batch(sinks: Sinks) -> None:
    sinks.sink()(FULL, 0)

    for table in TABLES:
        [file] = DeltaTable(sinks.uri(table)).file_uris()
        column = pq.ParquetFile(file.removeprefix("file://")).metadata.row_group(0).column(0)
        assert column.compression == "ZSTD", table.name
        assert ("/stream=visits/" in file) == bool(table.partition_by)


def test_a_batch_that_runs_again_writes_nothing_twice(sinks: Sinks) -> None:
    sinks.sink()(FULL, 3)
    before = sinks.versions()

    sinks.sink()(FULL, 3)
    sinks.sink()(FULL, 2)

    assert sinks.versions() == before
    sinks.sink(generation="g2")(FULL, 3)
    assert len(sinks.rows(VISITS)) == 6, "another checkpoint is another history"


def test_an_upsert_that_a_compaction_has_overtaken_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    current = Table("current", "The last visit", VISITS.columns, current_by=("user_id",))
    uri = f"file://{tmp_path}/current"
    current.create(uri)
    BATCH_COUNTS.create(f"file://{tmp_path}/batch_counts")
    sink = BatchSink(
        stream="visits",
        run_id="run-1",
        outputs=((current, uri, False),),
        generation="g1",
        ledger=Ledger(f"file://{tmp_path}/batch_counts", "visits", "g1"),
        check_lease=lambda: 5,
        note_timers=lambda timers: None,
        checkpoint_uri=f"file://{tmp_path}",
        note_times=lambda times: None,
    )
    for batch, user in enumerate("abc"):
        sink(Batch(part(current, (user, *VISIT[1:]))), batch)
    upserts = []
    upsert = table_commits.upsert

    def overtaken(table: DeltaTable, *args: Any) -> None:
        upserts.append(table.version())
        if len(upserts) == 1:
            assert DeltaTable(uri).optimize.compact()["numFilesRemoved"] == 3
        upsert(table, *args)

    monkeypatch.setattr(table_commits, "upsert", overtaken)
    sink(Batch(part(current, ("b", 2_000, *VISIT[2:]))), 3)

    assert len(upserts) == 2, "the first try conflicted"
    rows = DeltaTable(uri).to_pyarrow_table().to_pylist()
    assert {row["user_id"]: row["started_at"] for row in rows} == {
        "a": at(1_000),
        "b": at(2_000),
        "c": at(1_000),
    }
    assert len(rows) == 3


@pytest.mark.parametrize("call", range(1, 7))
def test_a_batch_that_was_cut_short_is_completed(sinks: Sinks, call: int) -> None:
    with pytest.raises(LeaseGoneError):
        sinks.sink(check_lease=lease_lost_at(call))(FULL, 3)
    written = [len(sinks.rows(table)) for table in (*TABLES, BATCH_COUNTS)]
    full = [3, 1, 1, 1, 1]
    tables = max(0, call - 2)  # one check at the start, and one before every write
    assert written == full[:tables] + [0] * (5 - tables)

    sinks.sink()(FULL, 3)

    assert [len(sinks.rows(table)) for table in (*TABLES, BATCH_COUNTS)] == full


def test_an_empty_batch_writes_nothing(sinks: Sinks) -> None:
    before = sinks.versions()

    for batch in (Batch(), Batch(counts(accepted=0, watermark_ms=7)), Batch(part(VISITS))):
        sinks.sink()(batch, 0)

    assert sinks.versions() == before


def test_a_batch_of_timers_alone_is_put_on_record(sinks: Sinks) -> None:
    sinks.sink()(Batch(part(ALERTS, ("u",), ("v",))), 0)

    [counted] = sinks.rows(BATCH_COUNTS)
    assert (counted["rows_out"], counted["accepted"], counted["watermark"]) == (2, 0, None)


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (("visit", 1, b""), "rows for 'visit', but its tables are alerts, dead_letters, late_events, visits"),
        (("visits", 2, encode_rows(VISITS, [VISIT])), "table visits: expected 2 rows .* found 1"),
        (("visits", 1, encode_rows(ALERTS, [("u",)])), r"table visits: .* found 1 of \(user_id string\)"),
    ],
)
def test_nothing_is_written_of_a_batch_with_rows_out_of_place(
    sinks: Sinks, wrong: tuple[str, int, bytes], complaint: str
) -> None:
    before = sinks.versions()

    with pytest.raises(ValueError, match=complaint):
        sinks.sink()(Batch(part(ALERTS, ("u",)), wrong), 0)

    assert sinks.versions() == before


def test_rows_survive_packing() -> None:
    rows = [VISIT, ("ümläut", -1, [], -0.0, False, -1), (None,) * 6]
    packed = decode_rows(encode_rows(VISITS, rows))

    assert packed.schema == row_schema(VISITS)
    assert packed["started_at"].to_pylist() == [at(1_000), at(-1), None]
    assert list(zip(*packed.drop(["started_at"]).to_pydict().values(), strict=True)) == [
        (row[0], *row[2:]) for row in rows
    ]
    assert decode_rows(encode_rows(VISITS, [])).num_rows == 0


def test_a_stamp_that_no_table_can_hold_ends_no_batch() -> None:
    stamped = [(*LETTER[:3], at, *LETTER[4:]) for at in (1_700_000_000_123_456_789, -(1 << 63), None)]
    packed = decode_rows(encode_rows(DEAD_LETTERS, stamped))

    assert packed["record_timestamp"].to_pylist() == [
        datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
        datetime(1, 1, 1, tzinfo=UTC),
        None,
    ]


def test_rows_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"table alerts: expected rows of 1 values \(user_id\), found 2"):
        encode_rows(ALERTS, [("u", 1)])
    with pytest.raises(ValueError, match="zip"):
        encode_rows(ALERTS, [("u",), ("v", 1)])
    with pytest.raises(pa.ArrowException):
        encode_rows(ALERTS, [(7,)])


def test_arrow_types_follow_the_declared_ones() -> None:
    assert arrow_schema(VISITS).types == [
        pa.string(),
        pa.timestamp("us", "UTC"),
        pa.list_(pa.string()),
        pa.float64(),
        pa.bool_(),
        pa.int32(),
    ]
    assert arrow_schema(LATE_EVENTS).field("value").type == pa.binary()
    assert arrow_schema(LATE_EVENTS).field("offset").type == pa.int64()
    assert row_schema(LATE_EVENTS).names == arrow_schema(LATE_EVENTS).names[1:-2]
