"""Checks from `batch_counts` and the lease's history that never two drivers committed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stateward.contract.lease import Holding

_HELD = re.compile(r"the lease is held by run (\S+) \(process (\d+) on (.+?)\), epoch (\d+), until")


@dataclass(frozen=True)
class Named:
    """The holder that a refused driver reported."""

    run_id: str
    pid: int
    host: str
    epoch: int

    def is_(self, holding: Holding) -> bool:
        """Whether it matches a holding in every field."""
        return (self.run_id, self.pid, self.host, self.epoch) == (
            holding.run_id,
            holding.pid,
            holding.host,
            holding.epoch,
        )


def named_in(log: str) -> Named | None:
    """Find the reported holder in a driver's log; None if there is none."""
    if not (found := _HELD.search(log)):
        return None
    run_id, pid, host, epoch = found.groups()
    return Named(run_id, int(pid), host, int(epoch))


def wrong_commits(batches: Iterable[Mapping[str, Any]], holdings: Sequence[Holding]) -> dict[str, Any]:
    """Commits that a fence would have rejected; empty if there are none.

    Args:
        batches: The rows of `batch_counts`.
        holdings: The holders of the lease, oldest first.
    """
    rows = sorted(batches, key=lambda row: (row["batch_id"], row["committed_at"]))
    twice = [batch for batch, count in Counter(_batch(row) for row in rows).items() if count > 1]
    epochs = [row["epoch"] for row in rows]
    by_epoch = {holding.epoch: holding for holding in holdings}
    outside = [_told(row) for row in rows if not _within(row, by_epoch.get(row["epoch"]))]
    found = {
        "batches committed twice": twice,
        "batches of an epoch after those of a later one": [] if epochs == sorted(epochs) else epochs,
        "commits by who did not hold the lease": outside,
        "epochs taken twice": [
            epoch for epoch, count in Counter(one.epoch for one in holdings).items() if count > 1
        ],
    }
    return {what: cases[:5] for what, cases in found.items() if cases}


def _batch(row: Mapping[str, Any]) -> tuple[str, int]:
    return row["generation"], row["batch_id"]


def _within(row: Mapping[str, Any], holding: Holding | None) -> bool:
    return (
        holding is not None
        and holding.run_id == row["run_id"]
        and holding.since <= row["committed_at"]
        and (holding.until is None or row["committed_at"] <= holding.until)
    )


def _told(row: Mapping[str, Any]) -> str:
    return f"batch {row['batch_id']} by epoch {row['epoch']} ({row['run_id']}) at {row['committed_at']}"
