"""The newest state of every key on local disk: what a look at a key reads.

Spark's state store is the record, and reading it from Python costs a hundred microseconds a key
(docs/decisions/0004). So each state partition has an LMDB file on the machine where its task runs, shared by
all Python workers there. It is a copy: a bucket whose stamp is not that of the record is thrown away and
loaded anew. Nothing is lost with the folder.

Keys are sorted by bucket; a second table sorts alarms by bucket and time.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

import lmdb
import msgspec

# Address space, not memory: the file grows as it fills, and the kernel drops what memory it needs back.
_MAP_BYTES = 64 * 1024**3
_LONGEST_KEY = 480  # LMDB takes 511 bytes, of which bucket and alarm take ten
_HASHED = b"\xff"  # begins no UTF-8 text
_BUCKET = struct.Struct(">H")
_HEAD = struct.Struct(">qQ")  # seq, alarm
_SEQ = struct.Struct(">q")
_TIME = struct.Struct(">Q")
_OFFSET = 1 << 63  # so that times before 1970 sort first
_STAMP = b"\xfe"

_open: dict[str, lmdb.Environment] = {}


class Cached(msgspec.Struct, frozen=True, gc=False):
    """One key: the chunk of the record that holds its newest state, its alarm (ms), and its state as text."""

    seq: int
    alarm_ms: int
    state: bytes


class StateCache:
    """The copy of one state partition, in one write transaction.

    Args:
        folder: The partition's folder; made if missing. One transaction at a time may write to it, others
            wait.
    """

    def __init__(self, folder: str) -> None:
        environment = _environment(folder)
        self._keys = environment.open_db(b"keys")
        self._alarms = environment.open_db(b"alarms")
        self._txn = environment.begin(write=True)

    def commit(self) -> None:
        """Make the changes visible to the next task. Without it they are gone."""
        self._txn.commit()

    def abort(self) -> None:
        """Undo the changes."""
        self._txn.abort()

    def stamp(self, bucket: int) -> str | None:
        """The stamp of the record that the bucket is a copy of."""
        found = self._txn.get(_STAMP + _BUCKET.pack(bucket), db=self._keys)
        return None if found is None else bytes(found).decode()

    def set_stamp(self, bucket: int, stamp: str) -> None:
        """Say which record the bucket is a copy of."""
        self._txn.put(_STAMP + _BUCKET.pack(bucket), stamp.encode(), db=self._keys)

    def clear(self, bucket: int) -> None:
        """Forget the bucket."""
        self._txn.delete(_STAMP + _BUCKET.pack(bucket), db=self._keys)
        for table in (self._keys, self._alarms):
            with self._txn.cursor(db=table) as cursor:
                prefix = _BUCKET.pack(bucket)
                found = cursor.set_range(prefix)
                while found and bytes(cursor.key()[:2]) == prefix:
                    found = cursor.delete()

    def get(self, bucket: int, key: str) -> Cached | None:
        """What is known of a key."""
        found = self._txn.get(_BUCKET.pack(bucket) + _short(key), db=self._keys)
        if found is None:
            return None
        seq, alarm = _HEAD.unpack_from(found)
        return Cached(seq, alarm - _OFFSET, found[_HEAD.size :])

    def move(self, bucket: int, key: str, seq: int, new_seq: int) -> bytes | None:
        """Note that a state has left chunk ``seq``; returns it, or None if it was not there any more."""
        place = _BUCKET.pack(bucket) + _short(key)
        found = self._txn.get(place, db=self._keys)
        if found is None or found[: _SEQ.size] != _SEQ.pack(seq):
            return None
        self._txn.put(place, _SEQ.pack(new_seq) + found[_SEQ.size :], db=self._keys)
        return bytes(found[_HEAD.size :])

    def put(self, bucket: int, key: str, cached: Cached, old_alarm_ms: int | None) -> None:
        """Set a key; ``old_alarm_ms`` is its alarm until now."""
        short = _short(key)
        head = _HEAD.pack(cached.seq, cached.alarm_ms + _OFFSET)
        self._txn.put(_BUCKET.pack(bucket) + short, head + cached.state, db=self._keys)
        if cached.alarm_ms != old_alarm_ms:
            self._move_alarm(bucket, short, key, old_alarm_ms, cached.alarm_ms)

    def delete(self, bucket: int, key: str, old_alarm_ms: int) -> None:
        """Forget a key."""
        short = _short(key)
        self._txn.delete(_BUCKET.pack(bucket) + short, db=self._keys)
        self._move_alarm(bucket, short, key, old_alarm_ms, None)

    def put_many(self, bucket: int, keys: Iterable[tuple[str, Cached]]) -> None:
        """Load keys into a bucket that has none of them."""
        for key, cached in keys:
            self.put(bucket, key, cached, None)

    def due(self, bucket: int, until_ms: int) -> list[str]:
        """Keys whose alarm is at or before ``until_ms``, by time."""
        keys = []
        for alarm_ms, key in self._alarms_of(bucket):
            if alarm_ms > until_ms:
                break
            keys.append(key)
        return keys

    def next_alarm(self, bucket: int) -> int | None:
        """The earliest alarm of the bucket (ms), or None."""
        return next((alarm_ms for alarm_ms, _ in self._alarms_of(bucket)), None)

    def _alarms_of(self, bucket: int) -> Iterator[tuple[int, str]]:
        prefix = _BUCKET.pack(bucket)
        with self._txn.cursor(db=self._alarms) as cursor:
            found = cursor.set_range(prefix)
            while found:
                entry = bytes(cursor.key())
                if entry[:2] != prefix:
                    return
                text = bytes(cursor.value()) or entry[10:]
                yield _TIME.unpack_from(entry, 2)[0] - _OFFSET, text.decode()
                found = cursor.next()

    def _move_alarm(
        self, bucket: int, short: bytes, key: str, old_ms: int | None, new_ms: int | None
    ) -> None:
        prefix = _BUCKET.pack(bucket)
        if old_ms is not None:
            self._txn.delete(prefix + _TIME.pack(old_ms + _OFFSET) + short, db=self._alarms)
        if new_ms is not None:
            text = key.encode() if short[:1] == _HASHED else b""
            self._txn.put(prefix + _TIME.pack(new_ms + _OFFSET) + short, text, db=self._alarms)


def partition_folder(root: str, checkpoint_uri: str, partition: int) -> str:
    """The folder of a partition's copy.

    ``root`` is the stream's own: what else is in it is removed. The boot is part of the folder's name: the
    copy is not synchronised to disk, which a crash of the machine, though not of a process, can tear.
    """
    checkpoint = hashlib.sha256(checkpoint_uri.encode()).hexdigest()[:12]
    return str(Path(root) / f"{checkpoint}-{_boot()}" / f"p{partition}")


def _environment(folder: str) -> lmdb.Environment:
    # A process must not open a file twice; a Python worker serves many tasks.
    if folder not in _open:
        _remove_others(Path(folder).parent)
        Path(folder).mkdir(parents=True, exist_ok=True)
        _open[folder] = lmdb.open(
            folder,
            map_size=_MAP_BYTES,
            max_dbs=2,
            sync=False,
            metasync=False,
            writemap=True,
            readahead=False,
        )
    return _open[folder]


def _remove_others(copies: Path) -> None:
    """Remove the copies of other checkpoints of the stream, and of earlier boots: nothing will read them.

    Should one be in use after all, its stamps are not found the next time, and it is made anew.
    """
    for other in copies.parent.glob("*"):
        if other != copies:
            shutil.rmtree(other, ignore_errors=True)


def _short(key: str) -> bytes:
    encoded = key.encode()
    if len(encoded) <= _LONGEST_KEY:
        return encoded
    return _HASHED + hashlib.sha256(encoded).digest()


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()[:8]
    except OSError:
        return f"pid{os.getppid()}"
