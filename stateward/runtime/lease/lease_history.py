"""Who has held a lease: one row for each time it was taken or given back.

The lease itself is renewed every few seconds and remembers an hour. This is a table of its own beside it,
which is only ever appended to. Nothing depends on it: a row that cannot be written is missing, and no driver
stops.
"""

from __future__ import annotations

import json
import logging
from datetime import datetime
from typing import TYPE_CHECKING, Literal

import msgspec
import pyarrow as pa
from deltalake import write_deltalake

from stateward.runtime.sink.delta_tables import create_or_open

if TYPE_CHECKING:
    from stateward.runtime.lease.lease import LeaseRecord

Event = Literal["acquired", "released"]

_LOG = logging.getLogger(__name__)
_SCHEMA = pa.schema(
    [
        ("at", pa.timestamp("us", tz="UTC")),
        ("event", pa.string()),
        ("stream", pa.string()),
        ("epoch", pa.int64()),
        ("run_id", pa.string()),
        ("holder", pa.string()),
    ]
)


def history_uri(lease_uri: str) -> str:
    """The table with the history of the lease at ``lease_uri``."""
    return f"{lease_uri}-history"


def note(lease_uri: str, event: Event, record: LeaseRecord, at: datetime) -> None:
    """Append a row; never raises.

    Args:
        lease_uri: The lease.
        event: What has become of it.
        record: Who has it, or had it.
        at: When, aware.
    """
    row = {
        "at": at,
        "event": event,
        "stream": record.stream,
        "epoch": record.epoch,
        "run_id": record.run_id,
        "holder": json.dumps(msgspec.structs.asdict(record.holder), sort_keys=True),
    }
    try:
        table = create_or_open(history_uri(lease_uri), _SCHEMA, name=f"holders of {record.stream}")
        write_deltalake(table, pa.Table.from_pylist([row], schema=_SCHEMA), mode="append")
    except Exception as error:
        _LOG.warning(
            "stream %s: the history of its lease has no row of epoch %d %s: %s",
            record.stream,
            record.epoch,
            event,
            error,
        )
