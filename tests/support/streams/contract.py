"""What holds of every stream of a project: declaration, row, table and YAML agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deltalake import DeltaTable, write_deltalake

from stateward.runtime.api.key_logic import KeyState
from stateward.runtime.api.record_fields import Reason
from stateward.runtime.keyed.admission import Seen
from stateward.runtime.keyed.codec import KeyStateCodec
from stateward.runtime.sink.output_rows import decode_rows, encode_rows, encode_table
from tests.support.streams.samples import ABSENT, Records, sample

_WRONG = {"text": 1, "flag": "yes", "number": "1", "time": "today"}


def check_fields(records: Records) -> None:
    """A whole record is an event; one that lacks a field, or has another type, is a dead letter."""
    names = [field.name for field in records.fields]
    assert len(set(names)) == len(names)
    assert {"event_id", "event_time", records.job.key.name} <= set(names)
    event = records.event(3)
    assert (event[0], event[1]) == ("e3", 1_767_225_603_250)
    for field in records.fields:
        missing = Reason.MISSING_FIELD if field.required else None
        assert records.reason(**{field.name: ABSENT}) == missing, field
        assert records.reason(**{field.name: None}) == missing, field
        wrong = Reason.EVENT_TIME_UNPARSABLE if field.kind == "time" else Reason.WRONG_TYPE
        assert records.reason(**{field.name: _WRONG[field.kind]}) == wrong, field
        if field.kind == "text":
            assert records.reason(**{field.name: " "}) == Reason.EMPTY_FIELD, field
    assert records.reason(event_time="2026-01-01T00:00:00") == Reason.EVENT_TIME_UNPARSABLE


def check_state(job: Any) -> None:
    """What is kept for a key is the same after it was written and read, down to the types within."""
    codec: KeyStateCodec[Any, Any] = KeyStateCodec(job.state_type, job.event_type)
    for full in (True, False):
        state, event = (sample(kind, full=full, number=2**62) for kind in (job.state_type, job.event_type))
        kept = KeyState(state, (event,), (Seen("a", 1),), 5)
        # Named tuples equal plain ones; their texts do not.
        assert repr(codec.decode(codec.encode(kept))) == repr(kept)


def check_tables(job: Any, folder: Path) -> None:
    """The rows fit the tables, from the logic to Delta."""
    for output in job.outputs:
        columns = [column.name for column in output.table.columns]
        assert all(column.comment for column in output.table.columns)
        rows = [sample(output.row, full=full) for full in (True, False)]
        packed = encode_rows(output.table, rows)
        arrow = decode_rows(packed)
        assert arrow.column_names == columns and len(columns) == len(output.row._fields)
        # What Spark hands over is in Arrow already, its columns perhaps in another order.
        assert encode_table(output.table, arrow.select(columns[::-1])) == packed
        uri = f"file://{folder}/{output.table.name}"
        output.table.create(uri)
        write_deltalake(uri, arrow, mode="append")
        found = DeltaTable(uri)
        assert found.schema() == output.table.schema()
        assert found.to_pyarrow_table().num_rows == len(rows)
