"""A validation takes rows and records of forgotten keys for no loss, and any other missing row for one."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import CommitProperties, DeltaTable

from spark_jobs.raw_events.declaration import RAW_EVENTS
from stateward.contract.privacy.forgotten import MARK, OF_KEY, ForgottenKey, RecordsOf, Register, spans_of
from stateward.quality.validation.validate import validate
from stateward.runtime.api.tables import LATE_EVENTS, Table
from stateward.state.forget.delta_purge import purge
from stateward.state.forget.delta_rows import Rule, remove
from stateward.state.forget.subject import Subject
from tests.support.full import only_full
from tests.support.spark.written_batches import GENERATION, Written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NOW = datetime(2026, 3, 10, tzinfo=UTC)
PERSON = Subject("user_id", "ann", "masked-0")
CHECKED = {
    "late_events": ("rows_are_those_that_were_counted", "rows_are_only_added"),
    "raw_events": ("offsets_have_no_holes", "rows_are_only_added"),
}


def row(table: Table, offset: int, batch: int) -> dict[str, Any]:
    place = {"topic": "user_events", "partition": 0, "offset": offset, "record_timestamp": NOW}
    value = b'{"user_id": "%s"}' % (b"ann" if offset % 3 == 1 else b"bob")
    if table == RAW_EVENTS:
        return {**place, "date": NOW.date(), "key": b"k", "value": value}
    marks = {"stream": "user_sessions", "generation": GENERATION, "batch_id": batch}
    times = {"event_time": NOW - timedelta(days=1), "watermark": NOW, "event_id": str(offset), "key": "k"}
    return {**marks, **place, **times, "value": value}


def failing(spark: SparkSession, written: Written, run: str) -> set[str]:
    outcomes = validate(lambda: spark, written.request(run), NOW)
    names = CHECKED[written.table.name]
    return {one.expectation.name for one in outcomes if not one.success and one.expectation.name in names}


def forget(written: Written, rows: Collection[dict[str, Any]], *, registers: bool) -> None:
    mine = [one for one in rows if PERSON.is_in_record(None, one["value"])]
    batches = [str(one["batch_id"]) for one in mine if "batch_id" in one]
    counted = {f"user_sessions/{GENERATION}": {batch: batches.count(batch) for batch in set(batches)}}
    if registers:
        records = RecordsOf("", {"0": spans_of(one["offset"] for one in mine)})
        Register(f"file://{written.home}/forgotten").add(
            ForgottenKey(
                operation="1-forget",
                stream="user_sessions",
                field="user_id",
                digest="d",
                at=NOW,
                records={"user_events": records},
                rows={written.table.name: counted} if batches else {},
            )
        )
    rule = Rule(
        ("value",), lambda one: PERSON.is_in_record(None, one["value"]), ("topic", "partition", "offset")
    )
    properties = CommitProperties(custom_metadata={MARK: OF_KEY} if registers else None)
    assert remove(written.uri, rule, lambda table: properties) == len(mine)
    if registers:
        purge(written.uri, PERSON, rule)


@only_full
@pytest.mark.parametrize("table", [LATE_EVENTS, RAW_EVENTS], ids=lambda table: table.name)
@pytest.mark.parametrize("registers", [True, False], ids=["forgotten", "deleted by hand"])
def test_what_was_forgotten_is_no_finding(
    table: Table, registers: bool, tmp_path: Path, spark: SparkSession
) -> None:
    written = Written(tmp_path, table, "user_sessions" if table == LATE_EVENTS else "raw_events")
    rows = [[row(table, 6 * batch + number, batch) for number in range(6)] for batch in range(3)]
    written.batch(rows[0], late=6)
    assert failing(spark, written, "before") == set()
    written.batch(rows[1], late=6)
    forget(written, [*rows[0], *rows[1]], registers=registers)
    written.batch(rows[2], late=6)
    found = failing(spark, written, "after")
    assert found == (set() if registers else set(CHECKED[table.name]))
    assert DeltaTable(written.uri).to_pyarrow_table().num_rows == 14
    if registers:
        assert failing(spark, written, "later") == set()
