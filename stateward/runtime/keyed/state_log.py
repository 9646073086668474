"""The states of a bucket in Spark's state store: a log of chunks in which the newest entry of a key counts.

A bucket is a fixed share of the keys. Each micro-batch appends one chunk ``{key: state}`` with the keys that
it changed, so that it writes only changes, in one round trip. A chunk is one JSON text: as a Spark map each
key would cost the JVM 20 microseconds. It is stored as UTF-8 bytes, because a string is decoded and encoded
several times in the JVM. The oldest chunks are cleaned a few at a time: live states, which are still the
newest of their keys, move to the new chunk. The log has at most about three times as many entries as there
are live states.

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

# States as JSON, by key.
Chunk = dict[str, bytes]

# The entry of a key whose state was removed.
GONE = b"null"

_quoted = msgspec.json.Encoder().encode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


@dataclass(frozen=True)
class Head:
    """The first and the last chunk of the log.

    Attributes:
        stamp: A random value that changes with every write; a copy with the same stamp is current.
        first_seq: The oldest chunk.
        next_seq: The next chunk to write.
        live: Number of keys with a state.
        logged: Number of entries in all chunks.
        timer_ms: Spark's timer of the bucket, or None.
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
        """Whether the bucket has neither states nor a timer."""
        return self.live == 0 and self.timer_ms is None


def encode_chunk(chunk: Chunk) -> bytes:
    """Encode a chunk as one JSON object."""
    return b"{" + b",".join([_quoted(key) + b":" + state for key, state in chunk.items()]) + b"}"


def decode_chunk(entries: bytes | bytearray) -> Chunk:
    """Decode what `encode_chunk` returned."""
    return {key: bytes(state) for key, state in _members(entries).items()}


class StateLog:
    """The log of the bucket that Spark processes.

    Args:
        handle: Spark's handle.
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
        """Read a chunk."""
        return decode_chunk(self._log.getValue((seq,))[0])

    def append(self, head: Head, chunk: Chunk) -> None:
        """Write the chunk ``head.next_seq``."""
        self._log.updateValue((head.next_seq,), (encode_chunk(chunk),))

    def remove(self, seq: int) -> None:
        """Remove a chunk."""
        self._log.removeKey((seq,))

    def write_head(self, head: Head) -> Head:
        """Write the head with a new stamp; for an empty bucket remove everything."""
        if head.is_empty:
            for seq in range(head.first_seq, head.next_seq):
                self._log.removeKey((seq,))
            self._head.clear()
            return Head()
        stamped = replace(head, stamp=os.urandom(12).hex())
        self._head.update(tuple(stamped.__dict__.values()))
        return stamped

    def set_timer(self, old_ms: int | None, new_ms: int | None) -> None:
        """Replace Spark's timer of the bucket."""
        if old_ms is not None:
            self._handle.deleteTimer(old_ms)
        if new_ms is not None:
            self._handle.registerTimer(new_ms)
