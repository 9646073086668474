"""Faults of other producers: wrong clocks, garbage, added partitions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from proof.traffic.records import DEAD, EVENT, Record

HOUR, YEAR = timedelta(hours=1), timedelta(days=365)
MAX_AHEAD = timedelta(minutes=10)
"""What the streams of a run accept: far enough below an hour that a standstill makes no difference."""
BURST = 5


def ahead(sent: Sequence[Record], by: timedelta, now: datetime, dice: float) -> list[tuple[Record, int]]:
    """Valid events of a producer whose clock is wrong, and its times of them (ms since 1970 UTC).

    Args:
        sent: The records sent so far.
        by: How far the clock is ahead.
        now: The correct time.
        dice: From 0 to below 1; selects the key.
    """
    events = [record for record in sent if record.mark == EVENT and record.value]
    begin = int(dice * max(0, len(events) - BURST))
    theirs = now.astimezone(UTC) + by
    made = []
    for number, record in enumerate(events[begin : begin + BURST]):
        document = json.loads(record.value or b"{}")
        document |= {
            "event_id": f"ahead-{by.days}-{theirs.timestamp():.3f}-{number}",
            "event_time": theirs.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        }
        value = json.dumps(document).encode()
        marked = Record(DEAD, record.key, value, "event_time_in_future")
        made.append((marked, int(theirs.timestamp() * 1000)))
    return made


def garbage(number: int) -> list[Record]:
    """Records that are no events of any stream; ``number`` distinguishes the bursts."""
    return [Record(DEAD, b"garbage", b"\xff%d-%d" % (number, one), "not_utf8") for one in range(BURST)]
