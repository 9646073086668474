"""Raw records to rows, without Spark: the stream's own judgement and logic, and the rows asked for."""

from __future__ import annotations

import json
import marshal
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_jobs.device_lifecycle.declaration import JOB as DEVICES
from spark_jobs.device_lifecycle.model import DeviceStatus
from spark_jobs.payment_auth_join.declaration import JOB as PAYMENTS
from spark_jobs.user_sessions.declaration import JOB as SESSIONS
from spark_jobs.user_sessions.logic import SessionLogic
from spark_jobs.user_sessions.model import ClosedSession, SessionEvent
from stateward.contract.privacy.forgotten import ForgottenKey, RecordsOf, Register, Spans
from stateward.project.spec import load_specs
from stateward.recompute.bucket_recompute import Folding, Found, rows_in_span
from stateward.recompute.key_recompute import LogicFold, fold_of
from stateward.recompute.lookback import Span
from stateward.recompute.reading import COUNTS_BUCKET, Reading, forgotten_records
from stateward.recompute.request import BackfillError, job_of
from stateward.runtime.api.config import parse_config
from stateward.runtime.api.key_filter import KeyFilter
from stateward.runtime.api.key_logic import replay_oracle
from stateward.runtime.api.record_fields import TICK_KEY, Bounds
from stateward.runtime.sink.output_rows import KIND_COUNTS, decode_rows
from stateward.runtime.watermark.topic_partitions import Topics
from tests.support.streams.matches import JOB as MATCHES
from tests.unit.runtime.telemetry.test_documents import CONFIG

MINUTE_MS = 60_000
GAP_MS = 30 * MINUTE_MS
RAW_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
EVER = Span(-(1 << 40), 1 << 50)


def value(event_id: str, user: str, minute: int) -> bytes:
    document = {
        "event_id": event_id,
        "user_id": user,
        "event_type": "view",
        "event_time": f"1970-01-01T{minute // 60:02}:{minute % 60:02}:00Z",
    }
    return json.dumps(document).encode()


def reading(since_ms: int | None = None, until_ms: int = 1 << 50) -> Reading:
    logic = {"gap_ms": GAP_MS, "max_gap_ms": 24 * 60 * MINUTE_MS}
    config = parse_config({**CONFIG, "logic": logic}, "test")
    bounds = Bounds(not_before_ms=0, max_ahead_ms=MINUTE_MS, max_record_bytes=1000)
    return Reading(SESSIONS.owner, SESSIONS.fields_of(config), bounds, SESSIONS.event, 4, since_ms, until_ms)


def test_keys_of_another_stream_are_left_out() -> None:
    rule = KeyFilter("users before b", lambda key: key < "b")
    records = batch(*(value(f"e{number}", user, 1) for number, user in enumerate("aabcd")))
    for only, own in (((rule,), {"a"}), ((rule.others(),), {"b", "c", "d"}), ((), set("abcd"))):
        payloads = packed(replace(reading(), only=only), records)
        counts = json.loads(payloads.pop(COUNTS_BUCKET)["payload"][0].as_py())
        events = [
            event
            for one in payloads.values()
            for text in one["payload"]
            for event in marshal.loads(text.as_py())
        ]
        assert {event[0] for event in events} == own
        assert len(events) + counts["others"] == 5


def batch(*values: bytes | None, key: bytes = b"k") -> pa.RecordBatch:
    rows = [(0, offset, key, found) for offset, found in enumerate(values)]
    return pa.RecordBatch.from_pylist(
        [dict(zip(RAW_SCHEMA.names, row, strict=True)) for row in rows], schema=RAW_SCHEMA
    )


def packed(how: Reading, *batches: pa.RecordBatch) -> dict[int, pa.Table]:
    """By bucket its payloads, as Spark brings them together."""
    table = pa.Table.from_batches(list(how.batches(iter(batches))))
    buckets = table["bucket"].to_pylist()
    return {bucket: table.filter(pa.compute.equal(table["bucket"], bucket)) for bucket in set(buckets)}


def folding(span: Span = EVER, known_ms: int | None = None) -> Folding:
    fold = LogicFold(SessionLogic(GAP_MS), SessionEvent, SESSIONS.event, 24 * 60 * MINUTE_MS)
    return Folding(fold, SESSIONS.outputs, span, known_ms)


def outcome(buckets: dict[int, pa.Table], how: Folding) -> tuple[list[dict[str, Any]], Found]:
    rows: list[dict[str, Any]] = []
    found = Found()
    for payloads in buckets.values():
        for part in how.bucket(payloads).to_pylist():
            if part["kind"] == KIND_COUNTS:
                found.add(Found.from_json(part["data"]))
            else:
                rows += decode_rows(part["data"]).to_pylist()
    return rows, found


def test_rows_are_those_of_the_oracle_and_every_record_is_counted() -> None:
    values = [value(f"e{n}", f"u{n % 3}", n * 11) for n in range(20)]
    ticks = batch(b"{}", key=TICK_KEY.encode())
    rows, found = outcome(
        packed(reading(), batch(*values[10:], b"junk", None), batch(*values[:10], values[3]), ticks),
        folding(),
    )

    wanted: list[Any] = []
    for user in range(3):
        mine = [SessionEvent(f"e{n}", n * 11 * MINUTE_MS, "view") for n in range(user, 20, 3)]
        wanted += replay_oracle(SessionLogic(GAP_MS), f"u{user}", mine)
    assert sorted(row["session_id"] for row in rows) == sorted(row.session_id for row in wanted)
    assert sum(row["event_count"] for row in rows) == 20
    assert found.counts == Counter(records=24, dead=2, ticks=1, events=21, keys=3, outside=0, late=0)
    assert found.exact_from_ms is not None
    assert found.inexact_keys == []


def test_events_outside_of_what_is_read_are_left_out() -> None:
    how = reading(since_ms=10 * MINUTE_MS, until_ms=20 * MINUTE_MS)
    _, found = outcome(packed(how, batch(*(value(f"e{n}", "u", n) for n in (9, 10, 20, 21)))), folding())
    assert (found.counts["events"], found.counts["outside"]) == (2, 2)


def test_what_will_be_late_for_the_stream_is_left_out() -> None:
    """Landed beyond where the stream has read, and before its watermark; the first two it has read."""
    values = [value(f"e{n}", "u", minute) for n, minute in enumerate((3, 12, 9, 10))]
    how = replace(reading(), read_to={0: 2}, watermark_ms=10 * MINUTE_MS)
    rows, found = outcome(packed(how, batch(*values)), folding())
    assert (found.counts["events"], found.counts["late"]) == (3, 1)
    assert sum(row["event_count"] for row in rows) == 3
    _, found = outcome(packed(replace(how, read_to={}), batch(*values)), folding())
    assert found.counts["late"] == 0, "without a batch nothing is late"


def test_only_rows_that_came_to_be_in_the_span_are_given() -> None:
    events = packed(reading(), batch(*(value(f"e{n}", "u", n) for n in (0, 60, 120))))
    for span, closed in (
        (Span(30 * MINUTE_MS, 90 * MINUTE_MS), [30]),
        (Span(30 * MINUTE_MS + 1, 90 * MINUTE_MS + 1), [90]),
        (Span(0, 30 * MINUTE_MS), []),
    ):
        rows, _ = outcome(events, folding(span))
        minutes = [row["closed_at"].hour * 60 + row["closed_at"].minute for row in rows]
        assert minutes == closed, span


def test_keys_without_a_silence_are_named() -> None:
    day = 24 * 60 * MINUTE_MS
    events = packed(reading(), batch(value("a", "busy", 5), value("b", "calm", 30)))
    _, found = outcome(events, folding(Span(25 * MINUTE_MS + 1, day), known_ms=25 * MINUTE_MS - day))
    # Of `busy` the silence before its event is too short to be seen, and no other follows.
    assert (found.counts["inexact"], found.inexact_keys, found.exact_from_ms) == (1, ["busy"], None)


def test_of_a_table_with_current_rows_the_last_one_before_the_end_counts() -> None:
    [output] = [one for one in DEVICES.outputs if one.table.current_by]
    rows = [DeviceStatus("d", "idle", 0, at, 0, 1, (), 0, 0, at, "") for at in (10, 20, 30)]
    other = ClosedSession("s", "u", 0, 0, 0, 1, "view", "ENDED", 15)

    def times(begin: int, end: int) -> list[int]:
        return [row[9] for row in rows_in_span(output, [*rows, other], Span(begin, end))]

    assert times(0, 25) == [20]
    assert times(0, 30) == [20]
    assert times(0, 31) == [30]
    assert times(21, 30) == [], "it did not change in the span"


def test_every_stream_but_the_landing_one_says_when_its_rows_came_to_be() -> None:
    streams = {spec.stream for spec in load_specs()[0]} - {"raw_events"}
    for stream in streams:
        for output in job_of(stream).outputs:
            [column] = [one for one in output.table.columns if one.name == output.table.came_at]
            assert column.type == "timestamp"


def test_a_stream_with_neither_logic_nor_an_oracle_is_refused() -> None:
    with pytest.raises(BackfillError, match="raw_events: expected a stream with logic or an oracle"):
        job_of("raw_events")


def test_counts_travel_in_a_bucket_of_their_own() -> None:
    assert set(packed(reading(), batch(b"junk"))) == {COUNTS_BUCKET}


def payment(event_id: str, kind: str, minute: float) -> bytes:
    at = f"1970-01-01T00:{int(minute):02}:{round(minute % 1 * 60):02}Z"
    amount = 0.1 if kind == "transaction" else None
    document = {"event_id": event_id, "account_id": "a", "kind": kind, "amount": amount, "event_time": at}
    return json.dumps(document).encode()


def test_of_a_stream_of_operators_the_oracle_is_folded_with_values_that_do_not_travel() -> None:
    config = parse_config(
        {**CONFIG, "logic": {"before_ms": 2 * MINUTE_MS, "after_ms": 2 * MINUTE_MS}}, "test"
    )
    fold = fold_of(PAYMENTS, config, 2 * MINUTE_MS)
    bounds = Bounds(not_before_ms=0, max_ahead_ms=MINUTE_MS, max_record_bytes=1000)
    how = Reading(PAYMENTS.owner, PAYMENTS.fields_of(config), bounds, fold.plain, 4, None, 1 << 50)
    values = (
        payment("t1", "transaction", 10),
        payment("o", "authenticated", 8),
        payment("t2", "transaction", 20),
    )
    rows, found = outcome(packed(how, batch(*values)), Folding(fold, PAYMENTS.outputs, EVER, None))
    assert [(row["transaction_id"], row["amount"], row["authentication_id"]) for row in rows] == [
        ("t1", Decimal("0.1"), "o"),
        ("t2", Decimal("0.1"), None),
    ]
    assert found.counts["inexact"] == 0


def test_rows_of_operators_are_exact_as_soon_as_all_around_them_is_known() -> None:
    fold = fold_of(PAYMENTS, parse_config(CONFIG, "test"), 2 * MINUTE_MS)
    # A busy key has no silence, and needs none.
    times = range(0, 60 * MINUTE_MS, 1000)
    assert fold.exact_from(times, 7 * MINUTE_MS) == 9 * MINUTE_MS
    assert fold.exact_from(times, None) == -(1 << 63)
    assert fold.behind_ms == 2 * MINUTE_MS


def test_rows_that_depend_on_a_chain_of_events_are_exact_only_after_a_silence() -> None:
    """A session goes on over any number of gaps, so what is around a row is not enough."""
    fold = fold_of(replace(PAYMENTS, chained=True), parse_config(CONFIG, "test"), GAP_MS)
    busy = range(0, 5 * GAP_MS, GAP_MS - 1)
    assert fold.exact_from(busy, -1) is None
    assert fold.exact_from([*busy, 9 * GAP_MS], -1) == 9 * GAP_MS
    assert fold.exact_from(busy, None) == -(1 << 63)


def test_records_of_forgotten_keys_are_known_by_their_topic(tmp_path: Path) -> None:
    several = {name: value for name, value in CONFIG.items() if name != "topic"} | {"topics": ["a", "b"]}
    config = parse_config({**several, "forgotten_uri": f"file://{tmp_path}/forgotten"}, "test")
    Register(config.forgotten_uri).add(
        ForgottenKey(
            operation="1-forget",
            stream="user_sessions",
            field="user_id",
            digest="d",
            at=datetime(2026, 1, 1, tzinfo=UTC),
            records={"b": RecordsOf("id", {"1": ((3, 5),)})},
        )
    )
    assert forgotten_records(config) == {Topics(("a", "b")).slot("b", 1): Spans(((3, 5),))}


def test_records_of_each_topic_are_parsed_by_the_fields_of_its_input() -> None:
    several = {name: value for name, value in CONFIG.items() if name != "topic"} | {"topics": ["p", "l"]}
    config = parse_config(several, "test")
    fold = fold_of(MATCHES, config, MINUTE_MS)
    bounds = Bounds(not_before_ms=0, max_ahead_ms=MINUTE_MS, max_record_bytes=1000)
    names = ("payments", "logins")
    how = Reading(
        MATCHES.owner, MATCHES.fields_of(config), bounds, fold.plain, 4, None, 1 << 50, inputs=names
    )
    of = {"event_id": "e", "account_id": "a", "event_time": "1970-01-01T00:10:00Z"}
    payment, login = json.dumps({**of, "cents": 5}).encode(), json.dumps({**of, "device": "d"}).encode()
    logins = how.topics.slot("l", 1)
    columns = {
        "_slot": [0, logins, 0, logins],
        "offset": [0, 0, 1, 1],
        "key": [b"a"] * 4,
        "value": [payment, login, login, payment],
    }
    (packed,) = how.batches(iter([pa.RecordBatch.from_pydict(columns)]))
    found = {
        event.topic: event
        for row in packed.to_pylist()
        if row["bucket"] != COUNTS_BUCKET
        for event in (fold.event(record[3:]) for record in marshal.loads(row["payload"]))
    }
    assert (found["logins"].device, found["payments"].device, len(found)) == ("d", None, 2)
    (counts,) = [json.loads(row["payload"]) for row in packed.to_pylist() if row["bucket"] == COUNTS_BUCKET]
    assert (counts["records"], counts["dead"]) == (4, 2), "a record of the other topic is none here"
    rows = fold.rows("a", found.values())
    assert [(type(row).__name__, row[3]) for row in rows] == [("Match", "e"), ("MatchedPayment", "e")]
