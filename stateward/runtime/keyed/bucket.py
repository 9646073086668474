"""The states of one bucket during one call: read from the local copy, written to the copy and the log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import msgspec

from stateward.contract.stream_status import BucketSize
from stateward.runtime.keyed.bucket_copy import CachedState
from stateward.runtime.keyed.log_index import CHUNKS_PER_CALL, Chunks
from stateward.runtime.keyed.state_cache import StateCache
from stateward.runtime.keyed.state_log import GONE, Chunk, Head, StateLog
from stateward.runtime.keyed.state_store import Encoded, StateRules


class Bucket:
    """The states of one bucket during one call of Spark; `finish` ends it.

    Args:
        number: The bucket.
        log: The state log.
        cache: The local copy of the partition.
        rules: The version of states, how to upgrade them, and when they are due.
        passed_ms: The time up to which the batch folds events: its watermark, or the next one.
    """

    def __init__(
        self, number: int, log: StateLog, cache: StateCache, rules: StateRules, *, passed_ms: int
    ) -> None:
        self._number = number
        self._log = log
        self._partition = cache.partition
        self._copy = cache.bucket(number)
        self._rules = rules
        self.passed_ms = passed_ms
        self._head = log.head()
        self._chunk: Chunk = {}
        self._live = self._head.live
        self._chunks = self._copy.chunks()
        if self._head.stamp and self._head.schema_version != rules.schema_version:
            self._upgrade()
        elif (self._head.stamp, rules.layout) != (self._chunks.stamp, self._chunks.layout):
            self._load()

    def get(self, key: str) -> CachedState | None:
        """The state of a key, or None."""
        return self._copy.get(key)

    def put(self, key: str, before: CachedState | None, state: Encoded | None, due_ms: int) -> None:
        """Set the state of a key and when the logic has to run for it; ``before`` is the result of `get`."""
        if before is None:
            assert state is not None, "a key without a state has none to keep"
            self._live += 1
            self._chunks.resize(0, _size(key, len(state.text)))
            self._copy.put(key, self._written(key, state, due_ms, due_ms), None)
            return
        # An early alarm is moved when it fires, which costs less than moving it for every event.
        is_early = self.passed_ms < before.alarm_ms <= due_ms
        alarm_ms = before.alarm_ms if is_early else due_ms
        if state is None:
            if (before.alarm_ms, before.due_ms) == (alarm_ms, due_ms):
                return
            cached = CachedState(before.write, alarm_ms, due_ms, before.size, before.packed)
        else:
            self._chunks.outdate(before.write)
            if before.size != len(state.text):
                self._chunks.resize(_size(key, before.size), _size(key, len(state.text)))
            cached = self._written(key, state, alarm_ms, due_ms)
        self._copy.put(key, cached, before.alarm_ms)

    def _written(self, key: str, state: Encoded, alarm_ms: int, due_ms: int) -> CachedState:
        """Add a state to the chunk of this call; returns what the copy has of it."""
        self._chunk[key] = state.text
        return CachedState(self._chunks.next_write, alarm_ms, due_ms, len(state.text), state.packed)

    def remove(self, key: str, before: CachedState) -> None:
        """Remove a key."""
        self._chunk[key] = GONE
        self._live -= 1
        self._chunks.outdate(before.write)
        self._chunks.resize(_size(key, before.size), 0)
        self._copy.delete(key, before.alarm_ms)

    def due(self) -> list[str]:
        """The keys for which the logic has to run; alarms that fired too early are moved."""
        keys = []
        for key in self._copy.due(self.passed_ms):
            cached = self._copy.get(key)
            assert cached is not None  # removing a key removes its alarm
            if cached.due_ms <= self.passed_ms:
                keys.append(key)
            else:
                self._copy.put(key, msgspec.structs.replace(cached, alarm_ms=cached.due_ms), cached.alarm_ms)
        return keys

    def items(self) -> Iterator[tuple[str, bytes]]:
        """All keys with their packed states, by the time of their alarms."""
        return self._copy.items()

    def size(self) -> BucketSize:
        """The size of the bucket after `finish`."""
        return BucketSize(self._partition, self._live, self._chunks.bytes, self._chunks.largest)

    def finish(self, fired_ms: int | None = None) -> int | None:
        """Write the changes, and set the bucket's next timer.

        Args:
            fired_ms: The timer of this call, which Spark deletes.

        Returns:
            The timer (ms since 1970 UTC), or None.
        """
        head = replace(self._head, live=self._live, schema_version=self._rules.schema_version)
        if self._chunk:
            head = self._append(head)
        timer_ms = self._timer()
        if timer_ms != head.timer_ms:
            old_ms = head.timer_ms if head.timer_ms != fired_ms else None
            self._log.set_timer(old_ms, timer_ms)
            head = replace(head, timer_ms=timer_ms)
        # A merge can leave the head as it was; the stamp changes with every write.
        if self._chunk or head != self._head:
            head = self._log.write_head(head)
            self._chunks = Chunks() if head.is_empty else self._chunks
            self._chunks.stamp, self._chunks.layout = head.stamp, self._rules.layout
            self._copy.set_chunks(self._chunks)
        return timer_ms

    def _timer(self) -> int | None:
        """Spark's timer: the earliest alarm, or the current timer if that fires before."""
        wanted_ms = self._copy.next_alarm()
        present_ms = self._head.timer_ms
        if wanted_ms is not None and present_ms is not None and self.passed_ms < present_ms <= wanted_ms:
            return present_ms
        return wanted_ms

    def _append(self, head: Head) -> Head:
        """Clean the oldest chunks, and write the chunk of this call, merged with the newest ones."""
        chunks = self._chunks
        first_seq = self._clean()
        merged = chunks.to_merge(len(self._chunk), head.live, self._number)
        seq = head.next_seq - merged
        chunk = self._merged(range(seq, head.next_seq), is_whole=seq == first_seq)
        self._log.append(replace(head, next_seq=seq), chunk)
        chunks.append(len(chunk), sum(state != GONE for state in chunk.values()), merged)
        return replace(head, first_seq=first_seq, next_seq=seq + 1, logged=sum(chunks.entries))

    def _clean(self) -> int:
        """Remove the oldest chunks whose turn it is; returns the first that stays."""
        chunks, moved, first = self._chunks, 0, self._head.first_seq
        for seq in range(first, min(first + CHUNKS_PER_CALL, self._head.next_seq)):
            if not chunks.has_to_clean(len(self._chunk), self._live, moved):
                return seq
            # A chunk without live states is removed unread.
            if chunks.live[0]:
                moved += self._move_live(seq)
            self._log.remove(seq)
            chunks.drop_oldest()
        return self._head.next_seq - len(chunks.entries)

    def _merged(self, seqs: range, *, is_whole: bool) -> Chunk:
        """The newest chunks and that of this call as one; those that it does not replace are removed."""
        if not seqs:
            return self._chunk
        merged: Chunk = {}
        for seq in seqs:
            merged |= self._log.chunk(seq)
        for seq in seqs[1:]:
            self._log.remove(seq)
        if is_whole:
            # No older chunk has a state that the removal of a key outdates.
            merged = {key: state for key, state in merged.items() if state != GONE}
        return merged | self._chunk

    def _move_live(self, seq: int) -> int:
        """Move the live states of the oldest chunk to the new one; returns their number."""
        kept, write = 0, self._chunks.next_write
        after = self._chunks.begins[1] if len(self._chunks.begins) > 1 else write
        for key, state in self._log.chunk(seq).items():
            # Most keys have changed since, many of them in this call.
            if key not in self._chunk and self._copy.move(key, after, write):
                self._chunk[key] = state
                kept += 1
        return kept

    def _load(self) -> None:
        """Rebuild the copy from the log."""
        newest, entries = self._newest()
        self._copy.clear()
        self._chunks = chunks = Chunks.of(self._head.stamp, self._rules.layout, entries)
        for key, (write, text) in newest.items():
            chunks.live[write] += 1
            chunks.resize(0, _size(key, len(text)))
            state, due_ms = self._rules.loaded(key, text)
            self._copy.put(key, CachedState(write, due_ms, due_ms, len(text), state.packed), None)
        self._copy.set_chunks(chunks)

    def _upgrade(self) -> None:
        """Upgrade all states to the current version, in the chunk of this call.

        So the version in the head holds for all chunks of a log, and cleaning can move states without
        decoding them. The old chunks have no live states left, so they are removed without being read.
        """
        head = self._head
        newest, entries = self._newest()
        self._copy.clear()
        self._chunks = chunks = Chunks.of(head.stamp, self._rules.layout, entries)
        for key, (_, old) in newest.items():
            state, due_ms = self._rules.loaded(key, self._rules.upgrade(head.schema_version, key, old))
            chunks.resize(0, _size(key, len(state.text)))
            self._copy.put(key, self._written(key, state, due_ms, due_ms), None)
        self._copy.set_chunks(chunks)

    def _newest(self) -> tuple[dict[str, tuple[int, bytes]], list[int]]:
        """Read the log: each key's live state with the place of its chunk, and the size of each chunk."""
        newest: dict[str, tuple[int, bytes]] = {}
        entries: list[int] = []
        for seq in range(self._head.first_seq, self._head.next_seq):
            chunk = self._log.chunk(seq)
            newest |= {key: (len(entries), state) for key, state in chunk.items()}
            entries.append(len(chunk))
        return {key: found for key, found in newest.items() if found[1] != GONE}, entries


def _size(key: str, of_state: int) -> int:
    return len(key.encode()) + of_state
