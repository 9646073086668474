"""Events as they are: other names, nested, times as numbers, and without an id."""

from __future__ import annotations

import json
import marshal
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from stateward.recompute.reading import Reading
from stateward.runtime.api.record_fields import (
    EVENT_TIME,
    PLACE_AS_ID,
    UNITS,
    Bounds,
    Field,
    Reason,
    document,
    time_in,
)
from stateward.runtime.checkpoint.checkpoint import PlannedBatch
from stateward.runtime.ingest.event_rows import EventRowDecoder, EventRowTask, column_problems
from stateward.runtime.ingest.parse import Parsed, Parser, Rejection
from stateward.runtime.ingest.record_decoder import DecoderTask, RecordDecoder
from stateward.runtime.ingest.shaped_records import ShapedParser, parser_of
from stateward.runtime.watermark.topic_partitions import Topics
from tests.support.streams.parsed_events import EPOCH, FIELDS, NOT_BEFORE, PARSER, RECORD, event
from tests.unit.runtime.ingest.test_parse_properties import MANGLING, MEMBERS

BOUNDS = Bounds(NOT_BEFORE, 3_600_000, max_record_bytes=20_000)
PATHS = {
    "event_id": "id",
    "user_id": "user.id",
    "event_type": "user.event.type",
    "event_time": "at.time",
    "is_last": "flags.last",
    "timeout_s": "flags.timeouts.s",
    "tags": "user.tags",
    "more": "flags.more",
}
SHAPED = tuple(replace(field, path=PATHS.get(field.name, "")) for field in FIELDS)
RENAMED = tuple(replace(field, path=f"the {field.name}") for field in FIELDS)
TOPICS = Topics(("clicks", "views"))


def in_unit(unit: str) -> tuple[Field, ...]:
    return tuple(replace(field, unit=unit) if field.name == EVENT_TIME.name else field for field in SHAPED)


@settings(max_examples=400)
@given(members=MEMBERS)
def test_a_record_of_another_shape_is_the_plain_one(members: dict[str, Any]) -> None:
    """Only a text says where a value was, and an object in between may have been left out."""
    values = event(**members)
    plain = PARSER.parse(json.dumps(values).encode(), RECORD)
    for fields in (SHAPED, RENAMED):
        found = parser_of(fields, BOUNDS).parse(json.dumps(document(fields, values)).encode(), RECORD)
        if isinstance(plain, Parsed):
            assert isinstance(found, Parsed), found
            assert found.event_ms == plain.event_ms
            for field in FIELDS:
                mine, its = (getattr(one.record, field.name) for one in (found, plain))
                assert (type(mine), mine) == (type(its), its)
        else:
            assert isinstance(found, Rejection)
            assert found.reason == plain.reason


def test_renaming_alone_costs_nothing() -> None:
    assert type(parser_of(FIELDS, BOUNDS)) is type(parser_of(RENAMED, BOUNDS)) is Parser
    assert type(parser_of(SHAPED, BOUNDS)) is ShapedParser


TIMES: st.SearchStrategy[Any] = (
    st.sampled_from(("now", None, True, [], 10**40, -1, 1e308, 0.5)) | st.floats() | st.integers()
)


@st.composite
def shaped_records(draw: st.DrawFn, unit: str) -> bytes:
    """Valid records, records with invalid members, and both with a few bytes changed."""
    at = time_in(unit, draw(st.integers(NOT_BEFORE - 5000, RECORD + 3_605_000)))
    values = event(**{**draw(MEMBERS), "event_time": draw(st.just(at) | TIMES)})
    shaped = document(SHAPED, values)
    for name in draw(st.sets(st.sampled_from(("user", "flags", "at")))) if draw(st.booleans()) else ():
        shaped[name] = draw(st.sampled_from((None, [], "x", {}, 1)))
    value = json.dumps(shaped).encode()
    for place, length, inserted in draw(MANGLING):
        begin = int(place * len(value))
        value = value[:begin] + inserted + value[begin + length :]
    return value


@pytest.mark.parametrize("unit", UNITS)
@settings(max_examples=400)
@given(data=st.data())
def test_the_shortcut_gives_the_verdict_of_the_long_way(unit: str, data: st.DataObject) -> None:
    parser, value = parser_of(in_unit(unit), BOUNDS), data.draw(shaped_records(unit))
    short, long = parser.parse(value, RECORD), parser.explain(value, RECORD)
    assert type(short) is type(long)
    assert short == long
    if isinstance(short, Parsed) and isinstance(long, Parsed):
        for name in (field.name for field in FIELDS):
            assert type(getattr(short.record, name)) is type(getattr(long.record, name))


@given(at_ms=st.integers(NOT_BEFORE, RECORD), micros=st.integers(0, 999))
def test_a_time_is_the_same_in_every_unit_rounded_down(at_ms: int, micros: int) -> None:
    at_us = at_ms * 1000 + micros
    texts = {
        "iso": json.dumps((EPOCH + timedelta(microseconds=at_us)).isoformat(timespec="microseconds")),
        "s": str(Decimal(at_us) / 1_000_000),
        "ms": str(Decimal(at_us) / 1000),
        "us": str(at_us),
    }
    for unit, text in texts.items():
        value = json.dumps(document(SHAPED, event(event_time="AT"))).replace('"AT"', text).encode()
        found = parser_of(in_unit(unit), BOUNDS).parse(value, RECORD)
        assert isinstance(found, Parsed), (unit, text, found)
        assert found.event_ms == at_ms, (unit, text)


@pytest.mark.parametrize(
    ("fields", "changes", "reason", "detail"),
    [
        (SHAPED, {"user": 1}, Reason.WRONG_TYPE, "user: expected an object, found a number"),
        (SHAPED, {"user": None}, Reason.MISSING_FIELD, "user.id is missing or null"),
        (SHAPED, {"user": {"id": "u", "event": []}}, Reason.WRONG_TYPE, "user.event: expected an object"),
        (SHAPED, {"user": {"id": " "}}, Reason.EMPTY_FIELD, "user.id is empty"),
        (in_unit("ms"), {}, Reason.WRONG_TYPE, "at.time: expected a time as a number, found a text"),
        (
            in_unit("s"),
            {"at": {"time": 1_704_067_200_000}},
            Reason.EVENT_TIME_UNPARSABLE,
            "expected seconds since 1970, found 1704067200000: not in the years 1970 to 9999",
        ),
        (
            in_unit("us"),
            {"at": {"time": 1}},
            Reason.EVENT_TIME_TOO_OLD,
            "event_time 1 is 1970-01-01T00:00:00+00:00, before source.not_before, 2000-01-01",
        ),
        (FIELDS, {"channel": "fax"}, Reason.UNKNOWN_VALUE, "channel: expected one of web, shop, found fax"),
        (FIELDS, {"tags": ["a", 1]}, Reason.WRONG_TYPE, "tags[1]: expected a text, found a number"),
        (FIELDS, {"prices": ["1"]}, Reason.WRONG_TYPE, "prices[0]: expected a number, found a text"),
        (FIELDS, {"more": []}, Reason.WRONG_TYPE, "more: expected an object, found an array"),
        (FIELDS, {"tags": "a"}, Reason.WRONG_TYPE, "tags: expected a list, found a text"),
    ],
)
def test_details_say_where_it_was(
    fields: tuple[Field, ...], changes: dict[str, Any], reason: Reason, detail: str
) -> None:
    value = json.dumps({**document(fields, event()), **changes}).encode()
    found = parser_of(fields, BOUNDS).parse(value, RECORD)
    assert isinstance(found, Rejection)
    assert found.reason == reason
    assert found.detail.startswith(detail)


def test_lists_and_objects_are_values_that_a_worker_gets() -> None:
    values = event(tags=["a", ""], prices=[1, 2.5], anything=[None, {"a": [1]}], more={"k": {"n": 1}})
    found = PARSER.parse(json.dumps(values).encode(), RECORD)
    assert isinstance(found, Parsed)
    got = {name: getattr(found.record, name) for name in ("tags", "prices", "anything", "more")}
    assert got == {name: values[name] for name in got}
    assert marshal.loads(marshal.dumps(got)) == got


WITHOUT_ID = (PLACE_AS_ID, Field("user", "text", path="user.name"), EVENT_TIME)
NEW = Bounds(0, 3_600_000, 1000)


def message(topic: str, partition: int, offset: int, name: str = "ann") -> Message:
    at = datetime.fromtimestamp(RECORD / 1000, UTC).isoformat()
    value = json.dumps({"user": {"name": name}, "event_time": at, "event_id": "ignored"}).encode()
    return Message(
        topic=topic, partition=partition, offset=offset, key=b"k", value=value, timestamp=(1, RECORD)
    )


def _event(record: Any, event_ms: int) -> tuple[Any, ...]:
    return record.event_id, event_ms


def _owner(record: Any) -> str:
    return str(record.user)


def test_the_place_of_a_record_is_its_id_in_a_keyed_stream_and_in_its_recomputation() -> None:
    decoder = RecordDecoder(_owner, WITHOUT_ID, NEW, _event, 1, TOPICS, "file:///nowhere")
    task = DecoderTask(decoder, PlannedBatch(7, {}, 0, RECORD))
    sent = [message("views", 3, 7), message("views", 3, 8), message("views", 0, 7, " ")]
    task.begin("views", (0, 3))
    task.take(sent)
    packed = [row for batch in task.rows() for row in batch.to_pylist() if row["lane"] == "event"]
    streamed = [record[5] for row in packed for record in marshal.loads(row["payload"])]
    assert streamed == ["views/3/7", "views/3/8"]

    columns = [
        (TOPICS.slot("views", one.partition() or 0), one.offset(), one.key(), one.value()) for one in sent
    ]
    names = ["partition", "offset", "key", "value"]
    records = pa.RecordBatch.from_arrays([pa.array(column) for column in zip(*columns, strict=True)], names)
    reading = Reading(
        _owner, dict.fromkeys(TOPICS.names, WITHOUT_ID), NEW, _event, 1, since_ms=None, until_ms=RECORD
    )
    again = [
        record[3]
        for batch in reading.batches(iter([records]))
        for row in batch.to_pylist()
        for record in (marshal.loads(row["payload"]) if row["bucket"] == 0 else ())
    ]
    assert again == streamed


def test_sparks_columns_have_places_nested_values_and_lists() -> None:
    fields = (
        *WITHOUT_ID,
        Field("tags", "list", items="text"),
        Field("prices", "list", False, items="number"),
    )
    decoder = EventRowDecoder("user", fields, NEW, TOPICS, "file:///nowhere")
    assert decoder.ddl.endswith("`user` string, `tags` array<string>, `prices` array<decimal(38,9)>")
    task = EventRowTask(decoder, PlannedBatch(7, {}, 0, RECORD))
    task.begin("clicks", (2,))
    for offset, prices in enumerate(([0.1, 2], None)):
        at = datetime.fromtimestamp(RECORD / 1000, UTC).isoformat()
        value = {"user": {"name": "ann"}, "event_time": at, "tags": ["a"], "prices": prices}
        text = json.dumps(value).encode()
        task.take([Message(topic="clicks", partition=2, offset=offset, value=text, timestamp=(1, RECORD))])
    rows = [row for batch in task.rows() for row in batch.to_pylist() if row["event_time"]]
    assert [row["event_id"] for row in rows] == ["clicks/2/0", "clicks/2/1"]
    assert [row["tags"] for row in rows] == [["a"], ["a"]]
    assert [row["prices"] for row in rows] == [[Decimal("0.1"), Decimal(2)], None]


def test_what_cannot_be_a_column_is_a_problem_with_a_remedy() -> None:
    fields = (
        Field("payload", "object"),
        Field("tags", "list"),
        Field("sent", "time", unit="ms"),
        Field("event_time", "time", unit="ms"),
        Field("names", "list", items="text"),
    )
    problems = list(column_problems(fields))
    assert [problem.split(":")[0] for problem in problems] == ["field payload", "field tags", "field sent"]
    assert "path='payload.id'" in problems[0] and "items='text'" in problems[1]


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (lambda: Field("a", "texts"), "field a: expected kind to be one of text, flag"),
        (lambda: Field("a", "text", unit="s"), "field a: expected unit for a time only"),
        (lambda: Field("a", "time", unit="ns"), "expected unit to be one of iso, s, ms, us, found 'ns'"),
        (lambda: Field("a", "number", one_of=("1",)), "expected one_of for a text only"),
        (lambda: Field("a", "list", items="list"), "expected items to be one of text, flag, number"),
        (lambda: Field("a", "text", path="a..b"), "expected a path of names joined by dots"),
        (lambda: Field("user", "place"), "expected the kind place for a required event_id"),
        (lambda: parser_of((*SHAPED, Field("u", "object", path="user")), BOUNDS), "found u at user and"),
        (
            lambda: parser_of((*FIELDS, Field("u", "text", path="user_id")), BOUNDS),
            "u at user_id and user_id",
        ),
        (lambda: parser_of((Field("event_time", "number"),), BOUNDS), "event_time, a required time"),
    ],
)
def test_a_declaration_that_contradicts_itself_is_refused(declared: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        declared()
