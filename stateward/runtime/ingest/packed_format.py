"""The lanes on which records go through the stateful operator, and what a packed record looks like.

Every record goes through, so that one pass accounts for all of them: valid events in the lane ``event``
under the bucket of their key, dead letters per partition in ``dead``, ticks in ``tick`` and ``data_tick``, in
``other`` per partition how many events are another stream's (`key_filter`), in ``times`` how far each
task's events have got (`times`).
The lane is part of the grouping key.

A packed record is a tuple ``key, partition, offset, record_ms, raw, *event``: where it came from, the raw
value if it may turn out to be late, and the event's fields.
"""

from __future__ import annotations

import zlib

LANE_EVENT, LANE_DEAD, LANE_TICK, LANE_DATA_TICK = "event", "dead", "tick", "data_tick"
LANE_OTHER, LANE_TIMES = "other", "times"

PACKED_DDL = "lane string, bucket int, tick_ts timestamp, records bigint, payload binary"
OUTPUT_DDL = "kind string, rows bigint, data binary"
PLACE_FIELDS = 4  # partition, offset, record_ms, raw


def bucket_of(key: str, buckets: int) -> int:
    """The bucket of a key: the same in every process and for as long as the checkpoint lives."""
    return zlib.crc32(key.encode()) % buckets
