"""The lease of a checkpoint, read from its Delta table. Only drivers write it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from stateward.project.layout import Layout


@dataclass(frozen=True)
class Lease:
    """Who may write a checkpoint, and until when unless renewed."""

    stream: str
    epoch: int
    run_id: str
    holder: Mapping[str, Any]
    expires_at: datetime
    released: bool

    def held_at(self, now: datetime) -> bool:
        """Tell whether someone may write at `now`."""
        return not self.released and now < self.expires_at


def read_lease(layout: Layout, stream: str) -> Lease | None:
    """Read the lease of a stream; None when no driver ever took one.

    Raises:
        ValueError: The table is not of the form that docs/architecture.md says.
    """
    # Loading deltalake takes a while, and the trigger that imports this room does not need it.
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    uri = layout.lease_uri(stream)
    try:
        rows = DeltaTable(uri).to_pyarrow_table().to_pylist()
    except TableNotFoundError:
        return None
    if len(rows) != 1:
        raise ValueError(f"stream {stream}: expected one row in the lease table {uri}, found {len(rows)}")
    row = rows[0]
    expires = row["expires_at"]
    return Lease(
        stream=row["stream"],
        epoch=row["epoch"],
        run_id=row["run_id"],
        holder=json.loads(row["holder"] or "{}"),
        expires_at=expires if expires.tzinfo else expires.replace(tzinfo=UTC),
        released=row["released"],
    )
