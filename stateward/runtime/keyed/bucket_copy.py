"""One bucket in the local copy of a partition's states (`state_cache`): keys, alarms and an index of its log.

Keys and alarms are in two LMDB tables, sorted by bucket; alarms within a bucket by time. A third kind of
entry has the index of the bucket's log (`log_index`).
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from typing import Any

import lmdb
import msgspec

from stateward.runtime.keyed.log_index import Chunks

_LONGEST_KEY = 480  # LMDB takes 511 bytes, of which bucket and alarm take ten
_HASHED = b"\xff"  # never the first byte of UTF-8 text
_BUCKET = struct.Struct(">H")
_HEAD = struct.Struct(">qQQI")  # write, alarm, wake, size
_WRITE = struct.Struct(">q")
_TIME = struct.Struct(">Q")
_OFFSET = 1 << 63  # so that times before 1970 sort first
_CONTENTS = b"\xfe"


class CachedState(msgspec.Struct, frozen=True, gc=False):
    """The copy of a key's state.

    Attributes:
        write: The number of the write to the log that contains it (`log_index`).
        alarm_ms: The watermark at which the bucket checks the key; never later than ``due_ms``.
        due_ms: The watermark at which the logic has to run for the key.
        size: The size of the state's text in the log, in bytes.
        packed: The compact encoding of the state (`codec`), half as large: with many keys, the share of the
            copy that memory holds decides the speed.
    """

    write: int
    alarm_ms: int
    due_ms: int
    size: int
    packed: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Chunks).decode


class BucketCopy:
    """The copy of one bucket within a transaction.

    Args:
        transaction: A write transaction of the partition's copy.
        keys: Table of keys.
        alarms: Table of alarms.
        number: The bucket.
    """

    def __init__(self, transaction: lmdb.Transaction, keys: Any, alarms: Any, number: int) -> None:
        self._txn = transaction
        self._keys = keys
        self._alarms = alarms
        self._prefix = _BUCKET.pack(number)

    def chunks(self) -> Chunks:
        """The index of the log; empty if the bucket is not in the copy."""
        found = self._txn.get(_CONTENTS + self._prefix, db=self._keys)
        return Chunks() if found is None else _decode(found)

    def set_chunks(self, chunks: Chunks) -> None:
        """Store the index of the log."""
        self._txn.put(_CONTENTS + self._prefix, _encode(chunks), db=self._keys)

    def clear(self) -> None:
        """Remove the bucket."""
        self._txn.delete(_CONTENTS + self._prefix, db=self._keys)
        for table in (self._keys, self._alarms):
            with self._txn.cursor(db=table) as cursor:
                found = cursor.set_range(self._prefix)
                while found and bytes(cursor.key()[:2]) == self._prefix:
                    found = cursor.delete()

    def get(self, key: str) -> CachedState | None:
        """The state of a key, or None."""
        found = self._txn.get(self._prefix + _stored_key(key), db=self._keys)
        if found is None:
            return None
        write, alarm, wake, size = _HEAD.unpack_from(found)
        return CachedState(write, alarm - _OFFSET, wake - _OFFSET, size, bytes(found[_HEAD.size :]))

    def move(self, key: str, before: int, write: int) -> bool:
        """Move a state that was written before ``before`` to a write; returns whether there is one."""
        place = self._prefix + _stored_key(key)
        found = self._txn.get(place, db=self._keys)
        if found is None or _WRITE.unpack_from(found)[0] >= before:
            return False
        self._txn.put(place, _WRITE.pack(write) + found[_WRITE.size :], db=self._keys)
        return True

    def put(self, key: str, cached: CachedState, old_alarm_ms: int | None) -> None:
        """Set the state of a key; ``old_alarm_ms`` is its previous alarm."""
        short = _stored_key(key)
        alarm_ms = cached.alarm_ms
        head = _HEAD.pack(cached.write, alarm_ms + _OFFSET, cached.due_ms + _OFFSET, cached.size)
        self._txn.put(self._prefix + short, head + cached.packed, db=self._keys)
        if alarm_ms != old_alarm_ms:
            if old_alarm_ms is not None:
                self._delete_alarm(short, old_alarm_ms)
            # The alarm of a key that is too long contains its hash only, so the key is the value.
            text = key.encode() if short[:1] == _HASHED else b""
            self._txn.put(self._prefix + _TIME.pack(alarm_ms + _OFFSET) + short, text, db=self._alarms)

    def delete(self, key: str, old_alarm_ms: int) -> None:
        """Remove a key."""
        short = _stored_key(key)
        self._txn.delete(self._prefix + short, db=self._keys)
        self._delete_alarm(short, old_alarm_ms)

    def items(self) -> Iterator[tuple[str, bytes]]:
        """All keys with their packed states, by the time of their alarms."""
        # The table of keys has only the hash of a key that is too long, and each key has an alarm.
        for _, key in self._alarms_in_order():
            cached = self.get(key)
            assert cached is not None  # removing a key removes its alarm
            yield key, cached.packed

    def due(self, until_ms: int) -> list[str]:
        """The keys with an alarm at or before ``until_ms``, by time."""
        keys = []
        for alarm_ms, key in self._alarms_in_order():
            if alarm_ms > until_ms:
                break
            keys.append(key)
        return keys

    def next_alarm(self) -> int | None:
        """The earliest alarm of the bucket (ms), or None."""
        return next((alarm_ms for alarm_ms, _ in self._alarms_in_order()), None)

    def _alarms_in_order(self) -> Iterator[tuple[int, str]]:
        with self._txn.cursor(db=self._alarms) as cursor:
            found = cursor.set_range(self._prefix)
            while found:
                entry = bytes(cursor.key())
                if entry[:2] != self._prefix:
                    return
                text = bytes(cursor.value()) or entry[10:]
                yield _TIME.unpack_from(entry, 2)[0] - _OFFSET, text.decode()
                found = cursor.next()

    def _delete_alarm(self, short: bytes, alarm_ms: int) -> None:
        self._txn.delete(self._prefix + _TIME.pack(alarm_ms + _OFFSET) + short, db=self._alarms)


def _stored_key(key: str) -> bytes:
    encoded = key.encode()
    if len(encoded) <= _LONGEST_KEY:
        return encoded
    return _HASHED + hashlib.sha256(encoded).digest()
