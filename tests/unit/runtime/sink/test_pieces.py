"""Rows are packed in pieces, in order: no packed row is much larger than a piece."""

from __future__ import annotations

import marshal
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from stateward.runtime.api.tables import DEAD_LETTERS
from stateward.runtime.checkpoint.checkpoint import PlannedBatch
from stateward.runtime.ingest import record_decoder
from stateward.runtime.ingest.event_rows import EventRowTask
from stateward.runtime.ingest.record_decoder import DecoderTask, RecordDecoder
from stateward.runtime.keyed.outcome import BucketOutput
from stateward.runtime.sink import output_rows
from stateward.runtime.sink.output_rows import decode_rows, encode_pieces
from stateward.runtime.watermark.topic_partitions import Topics
from tests.unit.runtime.ingest.test_event_rows import SORTER, W, message, record

PIECE = 2000
GARBAGE = b"\xff" * 300


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (output_rows, record_decoder):
        monkeypatch.setattr(module, "PIECE_BYTES", PIECE)


def letters(sizes: list[int]) -> list[tuple[Any, ...]]:
    return [("t", 0, at, 0, b"k", b"\xff" * size, "not_utf8", "") for at, size in enumerate(sizes)]


@pytest.mark.parametrize("sizes", [[], [1], [300] * 50, [1] * 40 + [PIECE * 5, 1, PIECE * 5] + [1] * 40])
def test_pieces_hold_all_rows_in_order_and_are_small(sizes: list[int]) -> None:
    wanted = letters(sizes)
    pieces = list(encode_pieces(DEAD_LETTERS, wanted))

    found = [decode_rows(piece) for _, piece in pieces]
    assert [number for number, _ in pieces] == [one.num_rows for one in found]
    assert [offset for one in found for offset in one["offset"].to_pylist()] == list(range(len(sizes)))
    assert [len(value) for one in found for value in one["value"].to_pylist()] == sizes
    # Schema and padding add to the size of the rows.
    assert all(
        one.num_rows == 1 or len(piece) < PIECE + 2000 for one, (_, piece) in zip(found, pieces, strict=True)
    )


def packed(make: Callable[[], Any]) -> list[pa.RecordBatch]:
    load = make()
    load.take([message(GARBAGE, at=(1, offset)) for offset in range(50)])
    load.take([message(record(f"e{n}", n, kind=True), at=(0, n)) for n in range(200)])
    return list(load.rows())


def test_dead_letters_and_events_leave_the_reader_in_pieces() -> None:
    fields, bounds = SORTER.fields, SORTER.bounds
    packer = RecordDecoder(
        owner=lambda one: one.user,
        fields=fields,
        bounds=bounds,
        event=lambda one, event_ms: (one.event_id, event_ms, "x" * 50),
        buckets=4,
        topics=Topics(("t",)),
        checkpoint_uri="",
    )
    batches = packed(lambda: DecoderTask(packer, PlannedBatch(0, {}, 0, W)))

    assert all(batch.nbytes < 2 * PIECE + 4000 for batch in batches)
    found = [row for batch in batches for row in batch.to_pylist()]
    events = [marshal.loads(row["payload"]) for row in found if row["lane"] == "event"]
    assert [record[2] for piece in events for record in piece] == list(range(200))
    assert len(events) > 5
    dead = [decode_rows(row["payload"]) for row in found if row["lane"] == "dead"]
    assert [offset for piece in dead for offset in piece["offset"].to_pylist()] == list(range(50))
    assert sum(row["records"] for row in found if row["lane"] != "times") == 250


def test_dead_letters_of_a_stream_on_sparks_operators_too() -> None:
    batches = packed(lambda: EventRowTask(SORTER, PlannedBatch(0, {}, 0, W)))

    settled = [row for batch in batches for row in batch.to_pylist() if row["_kind"] == "dead_letters"]
    assert len(settled) > 5
    assert sum(row["_rows"] for row in settled) == 50
    assert all(batch.nbytes < 2 * PIECE + 4000 for batch in batches if batch["_data"].null_count == 0)


def test_rows_and_late_events_leave_a_bucket_in_pieces() -> None:
    outcome = BucketOutput((), Topics(("t",)), 0, lambda places: {})
    outcome._late += [("t", 0, at, 0, "e", "k", 0, 0, GARBAGE) for at in range(50)]

    parts = [part for part in outcome.parts() if part[0] == "late_events"]
    assert len(parts) > 5
    assert [at for _, _, piece in parts for at in decode_rows(piece)["offset"].to_pylist()] == list(range(50))
