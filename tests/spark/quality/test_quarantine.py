"""Masking, quarantine, where rows came from, and `<table>_valid`, on real tables."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from spark_jobs.raw_events.declaration import RAW_EVENTS
from spark_jobs.user_sessions.declaration import JOB, SESSIONS
from stateward.contract import storage
from stateward.control.launchers.launch import resolved_configuration
from stateward.project.settings import Settings
from stateward.project.spec import load_specs
from stateward.quality.privacy.masking import ColumnMasker, mask
from stateward.quality.quarantine.batch_offsets import BatchOffsets
from stateward.quality.quarantine.event_search import EventSearch
from stateward.quality.quarantine.plain_row_hash import hasher_of
from stateward.quality.quarantine.plain_row_hash import row_hash as row_hash_without_spark
from stateward.quality.quarantine.provenance import Origins
from stateward.quality.quarantine.quarantine import Facts, Failure, write_failures
from stateward.quality.quarantine.row_hash import SEED, row_hash
from stateward.quality.quarantine.valid_rows import as_counted, valid_rows
from stateward.quality.quarantine.valid_view import ValidViewError, register_valid
from stateward.quality.tables.table_log import read_commits
from stateward.runtime.api.config import parse_config
from stateward.runtime.api.tables import arrow_schema
from tests.support.full import ci_full

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SECRET = "a secret of a test"
GENERATION = "6a0d7c3e-0000-0000-0000-000000000001"
START = datetime(2026, 1, 1, tzinfo=UTC)
TOPIC = "user_events"


def session(number: int, **changes: Any) -> dict[str, Any]:
    started = START + timedelta(minutes=number)
    return {
        "session_id": f"s{number}",
        "user_id": f"person-{number}",
        "started_at": started,
        "ended_at": started + timedelta(seconds=90),
        "duration_ms": 90_000,
        "event_count": 3,
        "last_event_type": None,
        "close_reason": "TIMEOUT",
        "closed_at": started + timedelta(minutes=31),
    } | changes


class Tables:
    """The tables of one installation: sessions that the stream wrote, and one batch of another program."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self.spark, self.tables = spark, f"file://{folder}/tables"
        self.uri = f"{self.tables}/sessions"
        self.checkpoints = f"file://{folder}/checkpoints/user_sessions"
        self.masker = ColumnMasker(spark, SECRET)
        SESSIONS.create(self.uri)
        self.append([session(1), session(2, duration_ms=-1)], batch=0)
        self.append([session(3), session(3), session(4, user_id=None)], batch=1)
        self.append([session(5, close_reason="BORED")], batch=None)
        self._checkpoint()
        self._land()

    def append(self, rows: list[dict[str, Any]], batch: int | None) -> None:
        done = [Transaction(f"{GENERATION}:sessions", batch)] if batch is not None else []
        write_deltalake(
            self.uri,
            pa.Table.from_pylist(rows, schema=arrow_schema(SESSIONS)),
            mode="append",
            commit_properties=CommitProperties(app_transactions=done),
        )

    def _checkpoint(self) -> None:
        folder = f"{self.checkpoints}/g0001"
        storage.write_json(f"{folder}/metadata", {"id": GENERATION})
        storage.write_json(f"{folder}/sources/0/0", {TOPIC: {"0": 10}})
        for batch, end in enumerate((20, 35)):
            head = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 0})
            ends = json.dumps({TOPIC: {"0": end}, "ticks": {"0": end}})
            storage.write_text(f"{folder}/offsets/{batch}", f"v1\n{head}\n{ends}")

    def _land(self) -> None:
        uri = f"{self.tables}/raw_events"
        RAW_EVENTS.create(uri)
        records = [event(17, 2, 0), event(18, 2, 60), event(19, 2, 3600), event(20, 1, 0), event(21, 5, 10)]
        write_deltalake(uri, pa.Table.from_pylist(records, schema=arrow_schema(RAW_EVENTS)), mode="append")

    def table(self, version: int) -> DataFrame:
        return self.spark.read.format("delta").option("versionAsOf", version).load(self.uri)

    def facts(self, run_id: str, first: int, last: int, at: datetime) -> Facts:
        table_id = str(DeltaTable(self.uri).metadata().id)
        return Facts(
            "user_sessions", "sessions", table_id, first, last, run_id, "sessions", at, frozenset({"user_id"})
        )

    def quarantine(self, facts: Facts, failures: list[Failure]) -> None:
        spec = next(spec for spec in load_specs()[0] if spec.stream == "user_sessions")
        config = parse_config(resolved_configuration(spec, Settings(), "test"), "test")
        commits = read_commits(self.uri, "sessions", facts.from_version, facts.version)
        search = EventSearch(self.spark, f"{self.tables}/raw_events", config, JOB)
        origins = Origins(
            self.uri, "sessions", commits or [], BatchOffsets(self.checkpoints, [TOPIC]), search
        )
        table = self.table(facts.version)
        write_failures(
            f"{self.tables}/quarantine", facts, failures, table, masker=self.masker, origins=origins
        )

    def validated(self, facts: Facts, *, is_range: bool = True) -> None:
        row = {
            "stream": facts.stream,
            "table": facts.table,
            "table_id": facts.table_id,
            "suite": facts.suite,
            "from_version": facts.from_version,
            "table_version": facts.version,
            "run_id": facts.run_id,
            "is_range": is_range,
            "validated_at": facts.validated_at,
        }
        write_deltalake(f"{self.tables}/quality_validations", pa.Table.from_pylist([row]), mode="append")

    def entries(self) -> list[dict[str, Any]]:
        return list(DeltaTable(f"{self.tables}/quarantine").to_pyarrow_table().to_pylist())

    def valid(self, version: int | None = None) -> list[str]:
        """Ids in the view, which readers without Spark find too."""
        view = register_valid(self.spark, self.tables, "user_sessions", "sessions", version=version)
        frame = self.spark.table(view)
        assert frame.columns == [column.name for column in SESSIONS.columns]
        found = sorted(row["session_id"] for row in frame.collect())
        plain = valid_rows(self.tables, "user_sessions", "sessions", version)
        assert sorted(plain["session_id"].to_pylist()) == found
        return found


def event(offset: int, person: int, after_s: int) -> dict[str, Any]:
    at = START + timedelta(minutes=person, seconds=after_s)
    value = {
        "event_id": f"e{offset}",
        "user_id": f"person-{person}",
        "event_type": "view",
        "event_time": at.isoformat(),
    }
    return {
        "topic": TOPIC,
        "partition": 0,
        "offset": offset,
        "record_timestamp": at,
        "date": at.date(),
        "key": None,
        "value": json.dumps(value).encode(),
        "header_names": None,
        "header_values": None,
    }


@pytest.fixture
def written(tmp_path: Path, spark: SparkSession) -> Tables:
    return Tables(tmp_path, spark)


def failures(table: DataFrame, severity: str = "critical") -> list[Failure]:
    doubled = table.groupBy("session_id").count().where("count > 1")
    return [
        Failure("duration_is_not_negative", "a_type", severity, table.where("duration_ms < 0")),
        Failure("session_id_is_unique", "a_type", severity, doubled),
        Failure("close_reason_is_known", "a_type", severity, table.where("close_reason = 'BORED'")),
        Failure("table_is_fresh", "a_type", severity, None),
    ]


def test_masked_values_keep_their_type_and_their_likeness_and_the_secret_is_in_no_plan(
    spark: SparkSession,
) -> None:
    rows = [("ann", b"ann", ["ann", None], [b"bob"], 7, "open"), (None, None, None, None, None, "open")]
    ddl = "a string, b binary, c array<string>, d array<binary>, e bigint, f string"
    frame = spark.createDataFrame(rows, ddl)
    masked_frame = ColumnMasker(spark, SECRET).over(frame, {"a", "b", "c", "d", "not there"})
    assert masked_frame.schema == frame.schema
    ann, bob = mask(SECRET, "ann"), mask(SECRET, b"bob")
    first, second = (tuple(row) for row in masked_frame.collect())
    assert first == (ann, ann.encode(), [ann, None], [bob.encode()], 7, "open")
    assert second == rows[1]
    plan = masked_frame._jdf.queryExecution().toString()
    assert SECRET not in plan


def test_a_hash_of_a_row_is_the_same_without_spark(spark: SparkSession, tmp_path: Path) -> None:
    kinds = {
        "text": (pa.string(), ["", "a" * 31 + "ü" * 40, None]),
        "whole": (pa.int64(), [-1, 2**62, None]),
        "small": (pa.int32(), [-1, 7, None]),
        "truth": (pa.bool_(), [True, False, None]),
        "real": (pa.float64(), [-0.0, 1.1, None]),
        "raw": (pa.binary(), [b"", bytes(range(77)), None]),
        "amount": (pa.decimal128(38, 9), [Decimal("-1.5"), Decimal(10) ** 20, None]),
        "price": (pa.decimal128(10, 2), [Decimal("-1.50"), Decimal(3), None]),
        "day": (pa.date32(), [date(1969, 1, 1), date(2026, 1, 1), None]),
        "at": (pa.timestamp("us", tz="UTC"), [START, datetime(1960, 1, 1, tzinfo=UTC), None]),
        "times": (pa.list_(pa.timestamp("us", tz="UTC")), [[START, None], [], None]),
        "texts": (pa.list_(pa.string()), [["a", None, "b"], [], None]),
    }
    table = pa.table({name: pa.array(values, kind) for name, (kind, values) in kinds.items()})
    write_deltalake(str(tmp_path / "t"), table)
    frame = spark.read.format("delta").load(str(tmp_path / "t"))
    # Rows are distinguished by a column that has no part in the hash.
    hashed = frame.select("whole", row_hash(frame.columns).alias("hash")).collect()
    by_spark = {row["whole"]: row["hash"] for row in hashed}
    counted = [as_counted(column) for column in table.columns]
    hashers = [hasher_of(column.type) for column in counted]
    for values in zip(*(column.to_pylist() for column in counted), strict=True):
        assert row_hash_without_spark(values, hashers, SEED) == by_spark[values[1]]
    assert len(set(by_spark.values())) == 3
    # A column that is added later is null in the rows that are there.
    wider = frame.selectExpr("*", "CAST(NULL AS string) AS later")
    again = wider.select("whole", row_hash(wider.columns).alias("hash")).collect()
    assert {row["whole"]: row["hash"] for row in again} == by_spark


def test_failing_rows_are_kept_once_masked_and_with_where_they_came_from(written: Tables) -> None:
    facts = written.facts("one", 0, 3, START)
    for _ in range(2):  # the second time is a retry
        written.quarantine(facts, failures(written.table(3)))
    by_name = {entry["name"]: entry for entry in written.entries()}
    assert len(written.entries()) == len(by_name) == 4

    entry = by_name["duration_is_not_negative"]
    row = json.loads(entry["row"])
    assert (row["session_id"], row["user_id"], row["duration_ms"]) == ("s2", mask(SECRET, "person-2"), -1)
    assert row["last_event_type"] is None
    origin = json.loads(entry["origin"])
    [commit] = origin["commits"]
    assert (commit["version"], commit["batch_id"], commit["offsets"]) == (1, 0, {TOPIC: {"0": [10, 20]}})
    assert commit["says"] == "written by batch 0 of the stream"
    assert origin["events"] == {
        "topic": TOPIC,
        "count": 2,
        "first": [
            {"partition": 0, "offset": 17, "event_id": "e17"},
            {"partition": 0, "offset": 18, "event_id": "e18"},
        ],
    }

    doubled = by_name["session_id_is_unique"]
    assert doubled["copies"] == 2
    assert json.loads(doubled["origin"])["commits"][0]["offsets"] == {TOPIC: {"0": [20, 35]}}

    [by_hand] = json.loads(by_name["close_reason_is_known"]["origin"])["commits"]
    assert by_hand["version"] == 3
    assert by_hand["says"].startswith("written by another program: WRITE")

    whole = by_name["table_is_fresh"]
    assert whole["row"] is whole["row_hash"] is None
    told = json.loads(whole["origin"])
    assert (told["commits_of_the_stream"], told["commits_of_others"]) == (2, 2)  # one made the table
    assert "person" not in json.dumps([entry["row"] for entry in written.entries()])


@ci_full
def test_the_view_holds_rows_back_until_a_newer_validation_of_their_range_does_not(
    written: Tables,
) -> None:
    with pytest.raises(ValidViewError, match="found none"):
        register_valid(written.spark, written.tables, "user_sessions", "sessions")
    everything = written.facts("one", 0, 3, START)
    written.validated(everything)
    assert written.valid() == ["s1", "s2", "s3", "s3", "s4", "s5"]  # nothing was ever quarantined

    found = failures(written.table(3))
    written.quarantine(replace(everything, run_id="two"), found)
    written.quarantine(replace(everything, run_id="warned"), failures(written.table(3).limit(1), "warn"))
    held_back = ["s1", "s4"]
    assert written.valid() == held_back
    assert written.valid(version=1) == ["s1"]

    later = START + timedelta(minutes=1)
    written.append([session(6)], batch=2)
    written.validated(written.facts("next", 4, 4, later))  # of another range: decides nothing
    assert written.valid() == [*held_back, "s6"]

    again = written.facts("again", 0, 4, later)
    written.quarantine(again, found[:1])  # the suite has changed: the others are no failures any more
    written.validated(again)
    assert written.valid() == ["s1", "s3", "s3", "s4", "s5", "s6"]

    blind = written.facts("blind", 0, 4, later + timedelta(minutes=1))
    unevaluated = Failure(found[0].name, "a_type", "critical", None)
    written.quarantine(blind, [unevaluated])  # it could not be evaluated, and so has cleared nothing
    written.validated(blind)
    assert written.valid() == ["s1", "s3", "s3", "s4", "s5", "s6"]

    written.validated(written.facts("whole", 4, 4, later + timedelta(minutes=2)), is_range=False)
    assert written.valid() == ["s1", "s2", "s3", "s3", "s4", "s5", "s6"]


def test_a_lasting_view_sees_what_is_quarantined_and_which_columns_are_added_later(
    written: Tables,
) -> None:
    facts = written.facts("one", 0, 3, START)
    written.validated(facts)
    view = register_valid(written.spark, written.tables, "user_sessions", "sessions", catalog="default")
    assert view == "default.sessions_valid"
    try:
        assert written.spark.table(view).count() == 6
        rows = pa.Table.from_pylist([session(7) | {"note": "new"}])
        write_deltalake(written.uri, rows.cast(_wider(rows)), mode="append", schema_mode="merge")
        bad = written.table(4).where("session_id IN ('s5', 's7')")
        written.quarantine(written.facts("two", 0, 4, START), [Failure("known", "a_type", "critical", bad)])
        assert {row["session_id"] for row in written.spark.table(view).collect()} == {"s1", "s2", "s3", "s4"}
    finally:
        written.spark.sql(f"DROP VIEW {view}")


def _wider(rows: pa.Table) -> pa.Schema:
    known = {field.name: field.type for field in arrow_schema(SESSIONS)}
    return pa.schema([(name, known.get(name, pa.string())) for name in rows.schema.names])
