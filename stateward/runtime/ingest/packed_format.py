"""The packed rows that pass through the stateful operator, and the format of a packed record.

Every record passes through the operator, so that one pass counts them all. The lane, which is part of the
grouping key, is the kind of a row: ``event`` has valid events by the bucket of their key, ``dead`` the dead
letters per partition, ``tick`` and ``data_tick`` the ticks, ``other`` the number of events of other streams
per partition (`key_filter`), and ``times`` the event times of each task (`partition_times`).

A packed record is a tuple ``key, slot, offset, record_ms, raw, *event``; the slot is that of its partition
(`topic_partitions`). ``raw`` is the raw value if the
event may turn out to be late.
"""

from __future__ import annotations

import zlib

LANE_EVENT, LANE_DEAD, LANE_TICK, LANE_DATA_TICK = "event", "dead", "tick", "data_tick"
LANE_OTHER, LANE_TIMES = "other", "times"

PACKED_DDL = "lane string, bucket int, tick_ts timestamp, records bigint, payload binary"
OUTPUT_DDL = "kind string, rows bigint, data binary"
PLACE_FIELDS = 4  # partition, offset, record_ms, raw


def bucket_of(key: str, buckets: int) -> int:
    """The bucket of a key: the same in every process and for the lifetime of the checkpoint."""
    return zlib.crc32(key.encode()) % buckets
