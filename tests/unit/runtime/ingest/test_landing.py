"""Every record becomes one row, whatever its content; a stream may read several topics."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message

from spark_jobs.raw_events.declaration import JOB, RAW_EVENTS
from stateward.runtime.api.record_fields import TICK_KEY
from stateward.runtime.ingest import landing
from stateward.runtime.ingest.landing import LandingDecoder, LandingTask
from stateward.runtime.sink.ledger import Ledger
from stateward.runtime.sink.output_rows import COUNT_NAMES, decode_rows
from stateward.runtime.telemetry.progress import Position

AT_MS = 1_700_000_000_123


def message(value: bytes | None, offset: int = 0, at_ms: int = AT_MS, **more: Any) -> Message:
    return Message("events", 2, offset, value=value, timestamp=(1, at_ms), **more)


@pytest.fixture
def load() -> LandingTask:
    return LandingDecoder(RAW_EVENTS, JOB.row).load()


def parts(load: LandingTask) -> Iterator[tuple[str, int, bytes]]:
    for batch in load.rows():
        for row in batch.to_pylist():
            yield row["kind"], row["rows"], row["data"]


def rows(load: LandingTask) -> list[dict[str, Any]]:
    return [
        row for kind, _, data in parts(load) if kind == "raw_events" for row in decode_rows(data).to_pylist()
    ]


def test_a_record_is_kept_byte_for_byte(load: LandingTask) -> None:
    load.take([message(b"\xff\x00", 7, key=b"k", headers=[("trace", b"\xfe"), ("trace", None)])])

    assert rows(load) == [
        {
            "topic": "events",
            "partition": 2,
            "offset": 7,
            "record_timestamp": datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=AT_MS),
            "date": date(2023, 11, 14),
            "key": b"k",
            "value": b"\xff\x00",
            "header_names": ["trace", "trace"],
            "header_values": [b"\xfe", None],
            "record_timestamp_ms": None,
        }
    ]


MICROSECONDS = 1_700_000_000_000_000
NANOSECONDS = 1_700_000_000_123_456_789


def test_a_record_that_is_stamped_in_another_unit_is_kept_with_its_stamp(load: LandingTask) -> None:
    stamps = (MICROSECONDS, NANOSECONDS, -1)
    load.take([message(b"v", number, at) for number, at in enumerate(stamps)])

    last = datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
    before_1970 = datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
    assert [(row["record_timestamp"], row["date"], row["record_timestamp_ms"]) for row in rows(load)] == [
        (last, last.date(), MICROSECONDS),
        (last, last.date(), NANOSECONDS),
        (before_1970, before_1970.date(), None),
    ]


def nameless_pair() -> Any:
    """A tuple of two of which only the second was ever set: ``VALUE``."""
    api, place = ctypes.pythonapi, ctypes.c_void_p
    api.PyTuple_New.restype = place
    api.PyTuple_SetItem.argtypes = (place, ctypes.c_ssize_t, ctypes.py_object)
    api.Py_IncRef.argtypes = (ctypes.py_object,)
    made = api.PyTuple_New(2)
    api.Py_IncRef(VALUE)
    api.PyTuple_SetItem(made, 1, VALUE)
    return ctypes.cast(made, ctypes.py_object).value


class ForeignHeaders(Message):
    """Headers as confluent-kafka returns them if the name of one is not UTF-8."""

    pairs: list[tuple[str, str | bytes | None]] | None = None

    def headers(self) -> list[tuple[str, str | bytes | None]]:
        if self.pairs is None:
            self.pairs = [("trace", b"1"), nameless_pair(), ("last", None)]
            raise SystemError("'headers' returned a result with an exception set")
        return self.pairs


VALUE = b"the value"


def test_a_header_whose_name_is_not_text_keeps_its_place_and_value(load: LandingTask) -> None:
    load.take([ForeignHeaders("events", value=b"v", timestamp=(1, AT_MS))])

    [row] = rows(load)
    assert row["header_names"] == ["trace", "\ufffd", "last"]
    assert row["header_values"] == [b"1", VALUE, None]


def test_what_no_other_stream_accepts_is_kept_too(load: LandingTask) -> None:
    found = [message(None), message(b""), message(b'{"tick": "x"}', key=TICK_KEY.encode())]
    load.take(found)

    assert [(row["key"], row["value"], row["header_names"]) for row in rows(load)] == [
        (None, None, None),
        (None, b"", None),
        (TICK_KEY.encode(), b'{"tick": "x"}', None),
    ]


def test_the_date_is_that_of_the_record_in_utc(load: LandingTask) -> None:
    midnight = 1_700_006_400_000
    load.take([message(b"", at_ms=midnight - 1), message(b"", at_ms=midnight)])

    assert [row["date"] for row in rows(load)] == [date(2023, 11, 14), date(2023, 11, 15)]


def test_every_record_is_counted_as_accepted(load: LandingTask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landing, "PIECE_BYTES", 10)
    load.take([message(b"123456", number) for number in range(5)])

    *packed, (kind, size, counts) = parts(load)
    assert [(kind, size) for kind, size, _ in packed] == [
        ("raw_events", 2),
        ("raw_events", 2),
        ("raw_events", 1),
    ]
    assert [row["offset"] for _, _, data in packed for row in decode_rows(data).to_pylist()] == list(range(5))
    assert (kind, size, json.loads(counts)) == ("counts", 1, {"accepted": 5, "records": 5})


def test_records_of_forgotten_keys_are_counted_and_not_landed(load: LandingTask) -> None:
    load.take([message(b"1", 1)])
    load.leave_out([message(b"2", 2), message(b"3", 3)])
    *packed, (_, _, counts) = parts(load)
    assert [row["offset"] for _, _, data in packed for row in decode_rows(data).to_pylist()] == [1]
    assert json.loads(counts) == {"accepted": 1, "records": 3, "others": 2}


def test_a_task_without_records_puts_out_nothing(load: LandingTask) -> None:
    load.take([])
    assert list(load.rows()) == []


def test_counters_of_several_topics_are_added(tmp_path: Path) -> None:
    from stateward.runtime.checkpoint.checkpoint import Checkpoint
    from stateward.runtime.telemetry.progress import Progress

    checkpoint = Checkpoint(f"file://{tmp_path}")
    checkpoint.write_initial_offsets({"a": {0: 3}, "b": {0: 0, 1: 5}})
    (tmp_path / "offsets").mkdir()
    (tmp_path / "commits").mkdir()
    planned = [
        "v1",
        '{"batchWatermarkMs": 0, "batchTimestampMs": 7}',
        '{"a": {"0": 10}, "b": {"0": 1, "1": 5}, "c": {"0": 9}}',
    ]
    (tmp_path / "offsets" / "0").write_text("\n".join(planned))
    (tmp_path / "commits" / "0").touch()

    progress = Progress(checkpoint, _Totals(), ("a", "b"))
    fields = progress.resume()

    assert (fields["delivered"], fields["accepted"], fields["watermark"]) == (8, 8, None)
    assert fields["without_record"] == 0
    assert progress.position == Position(0, {"a": {0: 10}, "b": {0: 1, 1: 5}}, 0)


class _Totals(Ledger):
    """Fixed counters, without a table."""

    def __init__(self) -> None:
        pass

    def totals(self, committed_batch: int) -> dict[str, int]:
        return {**dict.fromkeys(COUNT_NAMES, 0), "accepted": 8, "records": 8, "rows_out": 8}
