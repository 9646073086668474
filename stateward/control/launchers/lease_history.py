"""Who has held a stream's lease, read from the table that drivers append to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import Any, Literal

from stateward.project.layout import Layout

End = Literal["released", "superseded", "open"]


@dataclass(frozen=True)
class Holding:
    """One time that a lease was held.

    Attributes:
        epoch: Grows with each.
        run_id: The launch, or the operation.
        host: Where it ran, `<hostname>/<boot id>/<pid namespace>`.
        pid: Its process there.
        since: When it took the lease.
        until: When it gave it back, or the next one took it; None while nobody has.
        end: `superseded` if it never gave it back: it was killed, or cut off.
    """

    epoch: int
    run_id: str
    host: str
    pid: int
    since: datetime
    until: datetime | None = None
    end: End = "open"


def read_holdings(layout: Layout, stream: str) -> list[Holding]:
    """Read the history of a stream's lease, the oldest first; empty when nobody has ever held it."""
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    try:
        rows = DeltaTable(layout.lease_history_uri(stream)).to_pyarrow_table().to_pylist()
    except TableNotFoundError:
        return []
    return holdings(rows)


def holdings(rows: Iterable[Mapping[str, Any]]) -> list[Holding]:
    """Put the rows of the table together, in whatever order they come; the oldest holding is the first.

    Args:
        rows: `at`, `event` (`acquired` or `released`), `epoch`, `run_id`, and `holder` as JSON.
    """
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
