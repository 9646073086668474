"""The lease of a checkpoint, and who has held it: two Delta tables that drivers write and all read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec.structs import asdict, replace

from stateward.contract.process_identity import ProcessIdentity

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

Event = Literal["acquired", "released"]
End = Literal["released", "superseded", "open"]


class LeaseRecord(msgspec.Struct, frozen=True):
    """The one row of the lease table: who may write a checkpoint, and until when unless renewed."""

    stream: str
    epoch: int
    run_id: str
    holder: ProcessIdentity
    acquired_at: datetime
    renewed_at: datetime
    expires_at: datetime
    released: bool

    def held_at(self, now: datetime) -> bool:
        """Whether the holder may write at `now`, as far as the record says."""
        return not self.released and now < self.expires_at

    def holds(self, now: datetime, host: str) -> bool:
        """Whether the holder still keeps others out, as seen from `host`."""
        gone = None if self.released else self.holder.is_gone(host)
        return self.held_at(now) if gone is None else not gone

    def row(self) -> dict[str, Any]:
        """The row in the table."""
        return {**asdict(self), "holder": json.dumps(asdict(self.holder), sort_keys=True)}


class Holding(msgspec.Struct, frozen=True):
    """One time that a lease was held.

    Attributes:
        epoch: Grows with each.
        run_id: The launch, or the operation.
        host: Where it ran, `<hostname>/<boot id>/<pid namespace>`.
        pid: Its process there.
        since: When it took the lease.
        until: When it gave it back, or the next one took it; None while it is held.
        end: `superseded` if it never gave it back: it was killed, or cut off.
    """

    epoch: int
    run_id: str
    host: str
    pid: int
    since: datetime
    until: datetime | None = None
    end: End = "open"


def lease_schema() -> pa.Schema:
    """The columns of the lease table."""
    import pyarrow as pa

    instant = pa.timestamp("us", tz="UTC")
    return pa.schema(
        [
            ("stream", pa.string()),
            ("epoch", pa.int64()),
            ("run_id", pa.string()),
            ("holder", pa.string()),
            ("acquired_at", instant),
            ("renewed_at", instant),
            ("expires_at", instant),
            ("released", pa.bool_()),
        ]
    )


def history_schema() -> pa.Schema:
    """The columns of the table with the history of a lease."""
    import pyarrow as pa

    kinds = {name: pa.string() for name in ("event", "stream", "run_id", "holder")}
    kinds |= {"at": pa.timestamp("us", tz="UTC"), "epoch": pa.int64()}
    return pa.schema([(name, kinds[name]) for name in ("at", "event", "stream", "epoch", "run_id", "holder")])


def history_uri(lease_uri: str) -> str:
    """The table with the history of the lease at `lease_uri`."""
    return f"{lease_uri}-history"


def read_lease(uri: str) -> LeaseRecord | None:
    """What is stored now; None if the lease was never taken.

    Raises:
        ValueError: The table has more than one row, or lacks a column.
    """
    # Loading deltalake takes a while, and not all that import the contract need it.
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    try:
        return record_in(DeltaTable(uri))
    except TableNotFoundError:
        return None


def record_in(table: DeltaTable) -> LeaseRecord | None:
    """The record in a version of the table; None before the first.

    Raises:
        ValueError: See `read_lease`.
    """
    rows = table.to_pyarrow_table().to_pylist()
    if len(rows) > 1:
        raise ValueError(f"expected one row in the lease table {table.table_uri}, found {len(rows)}")
    found = [msgspec.convert({**row, "holder": json.loads(row["holder"])}, LeaseRecord) for row in rows]
    return found[0] if found else None


def read_holdings(lease_uri: str) -> list[Holding]:
    """The history of a lease, the oldest first; empty when it was never held."""
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    try:
        rows = DeltaTable(history_uri(lease_uri)).to_pyarrow_table().to_pylist()
    except TableNotFoundError:
        return []
    return holdings(rows)


def holdings(rows: Iterable[Mapping[str, Any]]) -> list[Holding]:
    """Put the rows of the history together, in whatever order they come; the oldest holding is the first."""
    by_epoch = sorted(rows, key=lambda row: (row["epoch"], row["at"]))
    released = {row["epoch"]: row["at"] for row in by_epoch if row["event"] == "released"}
    taken = [_holding(row, released.get(row["epoch"])) for row in by_epoch if row["event"] == "acquired"]
    ended = [
        replace(one, until=following.since, end="superseded") if one.end == "open" else one
        for one, following in pairwise(taken)
    ]
    return [*ended, *taken[-1:]]


def _holding(row: Mapping[str, Any], released_at: datetime | None) -> Holding:
    holder = json.loads(row["holder"])
    return Holding(
        epoch=row["epoch"],
        run_id=row["run_id"],
        host=holder["host"],
        pid=holder["pid"],
        since=row["at"],
        until=released_at,
        end="open" if released_at is None else "released",
    )
