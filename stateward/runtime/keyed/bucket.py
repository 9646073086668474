"""The states of one bucket during one call: read from the local copy, written to the copy and the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from stateward.contract.stream_status import BucketSize
from stateward.runtime.keyed.log_index import CHUNKS_PER_CALL, Chunks
from stateward.runtime.keyed.sorted_run import CachedState
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
        self._changed: dict[str, CachedState | None] = {}
        self._live = self._head.live
        self._chunks = self._copy.chunks
        if self._head.stamp and self._head.schema_version != rules.schema_version:
            self._upgrade()
        elif (self._head.stamp, rules.layout) != (self._chunks.stamp, self._chunks.layout):
            self._load()

    def find(self, keys: Iterable[str]) -> dict[str, CachedState]:
        """The states of those keys that have one."""
        wanted, changed = list(keys), self._changed
        if not changed:
            return self._copy.find(wanted)
        found = self._copy.find(key for key in wanted if key not in changed)
        return found | {key: state for key in wanted if (state := changed.get(key)) is not None}

    def put(self, key: str, before: CachedState | None, state: Encoded | None, due_ms: int) -> None:
        """Set the state of a key and when the logic has to run for it; ``before`` is its state before."""
        if state is None:
            assert before is not None, "a key without a state has none to keep"
            if before.due_ms != due_ms:
                self._changed[key] = CachedState(before.write, due_ms, before.size, before.packed)
            return
        if before is None:
            self._live += 1
            self._chunks.resize(0, _size(key, len(state.text)))
        else:
            self._chunks.outdate(before.write)
            if before.size != len(state.text):
                self._chunks.resize(_size(key, before.size), _size(key, len(state.text)))
        self._changed[key] = self._written(key, state, due_ms)

    def _written(self, key: str, state: Encoded, due_ms: int) -> CachedState:
        """Add a state to the chunk of this call; returns what the copy has of it."""
        self._chunk[key] = state.text
        return CachedState(self._chunks.next_write, due_ms, len(state.text), state.packed)

    def remove(self, key: str, before: CachedState) -> None:
        """Remove a key."""
        self._chunk[key] = GONE
        self._live -= 1
        self._chunks.outdate(before.write)
        self._chunks.resize(_size(key, before.size), 0)
        self._changed[key] = None

    def due(self) -> dict[str, CachedState]:
        """The keys for which the logic has to run, with their states."""
        # What this call has changed is due later.
        return self._copy.due(self.passed_ms, self._changed.keys())

    def items(self) -> Iterator[tuple[str, bytes]]:
        """All keys with their packed states, in no particular order."""
        self._copy_changes()
        return ((key, state.packed) for key, state in self._copy.items())

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
        self._copy_changes()
        timer_ms = self._timer()
        if timer_ms != head.timer_ms:
            old_ms = head.timer_ms if head.timer_ms != fired_ms else None
            self._log.set_timer(old_ms, timer_ms)
            head = replace(head, timer_ms=timer_ms)
        # A merge can leave the head as it was; the stamp changes with every write.
        if self._chunk or head != self._head:
            head = self._log.write_head(head)
            if head.is_empty:
                self._chunks = Chunks()
                self._copy.replace(self._chunks, {})
            self._chunks.stamp, self._chunks.layout = head.stamp, self._rules.layout
        return timer_ms

    def _copy_changes(self) -> None:
        self._copy.add(self._changed)
        self._changed = {}

    def _timer(self) -> int | None:
        """Spark's timer: when the first key may be due, or the current timer if that fires before."""
        wanted_ms = self._copy.next_due() if self._live else None
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
        # Most keys have changed since, many of them in this call.
        old = {key: state for key, state in self._log.chunk(seq).items() if key not in self._chunk}
        for key, found in self.find(old).items():
            if found.write < after:
                self._chunk[key] = old[key]
                self._changed[key] = CachedState(write, found.due_ms, found.size, found.packed)
                kept += 1
        return kept

    def _load(self) -> None:
        """Rebuild the copy from the log."""
        newest, entries = self._newest()
        self._chunks = chunks = Chunks.of(self._head.stamp, self._rules.layout, entries)
        states: dict[str, CachedState] = {}
        for key, (write, text) in newest.items():
            chunks.live[write] += 1
            chunks.resize(0, _size(key, len(text)))
            state, due_ms = self._rules.loaded(key, text)
            states[key] = CachedState(write, due_ms, len(text), state.packed)
        self._copy.replace(chunks, states)

    def _upgrade(self) -> None:
        """Upgrade all states to the current version, in the chunk of this call.

        So the version in the head holds for all chunks of a log, and cleaning can move states without
        decoding them. The old chunks have no live states left, so they are removed without being read.
        """
        head = self._head
        newest, entries = self._newest()
        self._chunks = chunks = Chunks.of(head.stamp, self._rules.layout, entries)
        states: dict[str, CachedState] = {}
        for key, (_, old) in newest.items():
            state, due_ms = self._rules.loaded(key, self._rules.upgrade(head.schema_version, key, old))
            chunks.resize(0, _size(key, len(state.text)))
            states[key] = self._written(key, state, due_ms)
        self._copy.replace(chunks, states)

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
