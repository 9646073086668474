"""What only someone who watches knows: since when nothing has changed, by the watcher's own clock.

A status has the time of its driver's host, whose clock may differ from this one's by any amount. So a driver
is silent when no new status has come while someone looked, not when the newest one looks old. Nor is it while
the storage fails: a driver that cannot write its status is no better after a restart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct, structs

from stateward.contract.reading import InvalidDocumentError, Time, as_json, read_as
from stateward.contract.stream_status import LEAVING, Status
from stateward.control.reconcile.decide import Observed

_SLOW = timedelta(seconds=3)
"""A look reads two or three documents. On storage that works they take milliseconds."""


class Unchanged(Struct, frozen=True):
    """Something that a driver has shown, and since when the watcher has seen it so."""

    shown: tuple[str, ...]
    since: Time


class Watched(Struct, frozen=True):
    """What a watcher hands to the next one.

    Attributes:
        batch: The batch of a driver with records waiting, or the state of one that leaves.
        status: The newest status, by its launch and its time.
        blind_until: The end of the last look that has failed, or taken long.
    """

    batch: Unchanged | None = None
    status: Unchanged | None = None
    blind_until: Time | None = None


@dataclass
class WatchClock:
    """Remembers since when a driver shows the same batch though it should have moved on, and the same status.

    The documents cannot tell: on a quiet topic an old last commit is right, and the first new record must not
    make a healthy driver look stuck.
    """

    watched: Watched = field(default_factory=Watched)

    @classmethod
    def resumed(cls, document: Mapping[str, Any] | None) -> WatchClock:
        """Go on where another watcher was; from nothing if it was one of an earlier release."""
        try:
            return cls(read_as(Watched, document, "watched") if document else Watched())
        except InvalidDocumentError:
            return cls()

    def to_json(self) -> dict[str, Any]:
        """Return what the next watcher resumes from."""
        return as_json(self.watched)

    def fail(self, at: datetime) -> None:
        """Take in a look that has failed: it shows nothing of the driver."""
        self.watched = structs.replace(self.watched, blind_until=at)

    def see(self, seen: Observed, now: datetime) -> Observed:
        """Take in one more look, and return it with what it does not show by itself.

        Args:
            seen: What was seen.
            now: When the look began.
        """
        if seen.reading > _SLOW:
            self.fail(now + seen.reading)
        status = seen.own_status
        batch = _next(self.watched.batch, _batch_of(status), now)
        newest = _next(self.watched.status, _time_of(status), now)
        self.watched = Watched(batch, newest, self.watched.blind_until)
        return replace(
            seen,
            stalled_since=batch.since if batch else None,
            silent_since=newest.since if newest else None,
            blind_until=self.watched.blind_until,
        )


def _next(before: Unchanged | None, shown: tuple[str, ...] | None, now: datetime) -> Unchanged | None:
    if shown is None:
        return None
    return before if before is not None and before.shown == shown else Unchanged(shown, now)


def _batch_of(status: Status | None) -> tuple[str, ...] | None:
    """What has to change; None if nothing has to."""
    behind = status is not None and status.state == "running" and status.caught_up is False
    if status is None or not (behind or status.state in LEAVING):
        return None
    return status.run_id, status.state, str(status.batch_id)


def _time_of(status: Status | None) -> tuple[str, ...] | None:
    return None if status is None else (status.run_id, status.updated_at.isoformat())
