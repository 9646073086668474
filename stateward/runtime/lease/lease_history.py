"""The holders of a lease: one row for each acquisition and release.

The lease itself is renewed every few seconds and keeps an hour of history. This append-only table beside it
keeps all. It is informational: a row that cannot be written is missing, and the driver continues.
"""

from __future__ import annotations

import logging
from datetime import datetime

import pyarrow as pa
from deltalake import write_deltalake

from stateward.contract.lease import Event, LeaseRecord, history_schema, history_uri
from stateward.runtime.delta.delta_tables import create_or_open

_LOG = logging.getLogger(__name__)
_SCHEMA = history_schema()


def note(lease_uri: str, event: Event, record: LeaseRecord, at: datetime) -> None:
    """Append a row; never raises.

    Args:
        lease_uri: The lease.
        event: What happened.
        record: The holder.
        at: When, aware.
    """
    row = {**record.row(), "at": at, "event": event}
    try:
        table = create_or_open(history_uri(lease_uri), _SCHEMA, name=f"holders of {record.stream}")
        write_deltalake(table, pa.Table.from_pylist([row], schema=_SCHEMA), mode="append")
    except Exception as error:
        _LOG.warning(
            "stream %s: no row could be written to the lease's history: epoch %d, %s: %s",
            record.stream,
            record.epoch,
            event,
            error,
        )
