"""What a replay needs to know about a line: its key and its event time. The line itself is never changed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

TICK_KEY = b"\x00stateward-tick"
# A later time is no event's: the driver sends it to dead_letters, so the tick must not follow it.
MAX_AHEAD = timedelta(hours=1)


def parse(line: bytes) -> dict[str, Any] | None:
    """Return the JSON object in `line`, or None when it is not one."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def key_of(record: dict[str, Any] | None, key_field: str) -> bytes | None:
    """Return the Kafka key of a record: its key field as UTF-8 text, or None when it has none.

    Args:
        record: The record.
        key_field: Its name, or names joined by dots, such as `user.id`.
    """
    steps = [key_field] if record is not None and key_field in record else key_field.split(".")
    value: Any = record
    for step in steps:
        value = value.get(step) if isinstance(value, dict) else None
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return None
    # A lone surrogate is legal in JSON's escapes and in no encoding.
    return str(value).encode("utf-8", errors="replace")


def event_time_of(record: dict[str, Any] | None) -> datetime | None:
    """Return the record's `event_time` in UTC, or None when it has none that can be read."""
    value = record.get("event_time") if record is not None else None
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
        return moment.astimezone(UTC) if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None


@dataclass
class LatestEventTime:
    """The largest believable event time of what was sent.

    Attributes:
        now: the time of the replay; event times more than an hour later are not believed.
        value: largest so far.
    """

    now: datetime
    value: datetime | None = None

    def see(self, moment: datetime | None) -> None:
        """Take one record's event time into account."""
        if moment is None or moment > self.now + MAX_AHEAD:
            return
        if self.value is None or moment > self.value:
            self.value = moment


def tick_value(moment: datetime) -> bytes:
    """Return the value of the record that says: this replay is over, event time is now `moment`."""
    text = moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return json.dumps({"tick": text}).encode()
