"""The record of a bucket's states in Spark's state store: a log of chunks, newest wins.

A bucket is a fixed share of the keys. Each micro-batch appends one chunk ``{key: state}``
for the keys that it changed, so what is written is proportional to what has changed, in one round trip.
A chunk is one JSON text, states and all: as a map of Spark's each of its keys took the JVM 20 microseconds.
It is kept as bytes, UTF-8: a string is decoded and encoded several times on its way through the JVM.
Chunks at the old end are cleaned a few at a time: what is still the newest state of its key moves to the new
chunk. The log is at most about three times the live states.

Two state variables, both readable through Spark's ``statestore`` source: the map `LOG_NAME` from ``seq`` to
``entries``, the chunk, and the value `HEAD_NAME`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

LOG_NAME = "log"
HEAD_NAME = "head"
LOG_KEY_DDL = "seq bigint"
LOG_VALUE_DDL = "entries binary"
HEAD_DDL = (
    "stamp string, first_seq bigint, next_seq bigint, live bigint, logged bigint, timer_ms bigint, "
    "schema_version int"
)

# Per key its state as JSON.
Chunk = dict[str, bytes]

# What a chunk says of a key that has no state any more.
GONE = b"null"

_quoted = msgspec.json.Encoder().encode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


@dataclass(frozen=True)
class Head:
    """Where the log begins and ends.

    Attributes:
        stamp: Changes with every write; tells whether a copy is current.
        first_seq: The oldest chunk.
        next_seq: The chunk to be written next.
        live: Keys that have a state.
        logged: Entries in all chunks.
        timer_ms: The engine's timer of the bucket, or None.
        schema_version: The stream's ``STATE_SCHEMA_VERSION`` of all states in the log.
    """

    stamp: str = ""
    first_seq: int = 0
    next_seq: int = 0
    live: int = 0
    logged: int = 0
    timer_ms: int | None = None
    schema_version: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left to keep."""
        return self.live == 0 and self.timer_ms is None


def encode_chunk(chunk: Chunk) -> bytes:
    """The chunk as one JSON object."""
    return b"{" + b",".join([_quoted(key) + b":" + state for key, state in chunk.items()]) + b"}"


def decode_chunk(entries: bytes | bytearray) -> Chunk:
    """The chunk that was encoded."""
    return {key: bytes(state) for key, state in _members(entries).items()}


class StateLog:
    """The log of the bucket that the engine is at.

    Args:
        handle: The engine's.
    """

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._log: Any = handle.getMapState(LOG_NAME, LOG_KEY_DDL, LOG_VALUE_DDL)
        self._head: Any = handle.getValueState(HEAD_NAME, HEAD_DDL)

    def head(self) -> Head:
        """The bucket's head; an empty one for a new bucket."""
        stored = self._head.get()
        return Head() if stored is None else Head(*stored)

    def chunk(self, seq: int) -> Chunk:
        """One chunk."""
        return decode_chunk(self._log.getValue((seq,))[0])

    def append(self, head: Head, chunk: Chunk) -> None:
        """Write the chunk ``head.next_seq``."""
        self._log.updateValue((head.next_seq,), (encode_chunk(chunk),))

    def remove(self, seq: int) -> None:
        """Drop a chunk."""
        self._log.removeKey((seq,))

    def write_head(self, head: Head) -> Head:
        """Write the head under a new stamp; an empty bucket leaves nothing behind."""
        if head.is_empty:
            for seq in range(head.first_seq, head.next_seq):
                self._log.removeKey((seq,))
            self._head.clear()
            return Head()
        stamped = replace(head, stamp=os.urandom(12).hex())
        self._head.update(tuple(stamped.__dict__.values()))
        return stamped

    def set_timer(self, old_ms: int | None, new_ms: int | None) -> None:
        """Replace the engine's timer of the bucket."""
        if old_ms is not None:
            self._handle.deleteTimer(old_ms)
        if new_ms is not None:
            self._handle.registerTimer(new_ms)
