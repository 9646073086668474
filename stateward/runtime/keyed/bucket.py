"""One bucket's states during one turn: read from the copy, written to the copy and to the record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from stateward.runtime.keyed.bucket_copy import Cached, Chunks
from stateward.runtime.keyed.state_cache import StateCache
from stateward.runtime.keyed.state_log import GONE, Chunk, Head, StateLog

# How many times its live states a log may hold before it is cleaned. The more, the fewer states are still the
# newest when their chunk gets to the end of the log, and have to be written again.
_MOST_LOGGED = 3
# Entries that a log may have beyond that, and how many a turn cleans at most beyond what it writes: cleaning
# is spread, so no batch pays for all of it.
_SLACK = 256
_CLEANED_PER_TURN = 2000


class Bucket:
    """The states of one bucket at one turn; `finish` ends it.

    Args:
        number: The bucket.
        log: The record.
        cache: The copy of the partition.
        alarm: From a key and its state's text to its alarm (ms); used when the copy is made anew.
        upgrade: From the version of a state, its key and its text to the text of the present version.
        schema_version: Version of the states written now.
        passed_ms: Up to where the batch folds: its watermark, or what that is next.
    """

    def __init__(
        self,
        number: int,
        log: StateLog,
        cache: StateCache,
        alarm: Callable[[str, bytes], int],
        *,
        upgrade: Callable[[int, str, bytes], bytes],
        schema_version: int,
        passed_ms: int,
    ) -> None:
        self._log = log
        self._copy = cache.bucket(number)
        self._schema_version = schema_version
        self.passed_ms = passed_ms
        self._head = log.head()
        self._chunk: Chunk = {}
        self._live = self._head.live
        self._chunks = self._copy.chunks()
        if self._head.stamp and self._head.schema_version != schema_version:
            self._upgrade(upgrade, alarm)
        elif self._head.stamp != self._chunks.stamp:
            self._load(alarm)

    def get(self, key: str) -> Cached | None:
        """What is known of a key."""
        return self._copy.get(key)

    def put(self, key: str, before: Cached | None, state: bytes, wake_ms: int) -> None:
        """Set a key's state and when there is something to do for it; ``before`` is what `get` gave."""
        seq = self._head.next_seq
        if before is None:
            self._chunk[key] = state
            self._live += 1
            self._copy.put(key, Cached(seq, wake_ms, wake_ms, state), None)
            return
        # An alarm that goes off too early is moved then; that costs less than moving it for every event.
        is_early = self.passed_ms < before.alarm_ms <= wake_ms
        alarm_ms = before.alarm_ms if is_early else wake_ms
        if before.state == state:
            seq = before.seq
            if (before.alarm_ms, before.wake_ms) == (alarm_ms, wake_ms):
                return
        else:
            self._chunk[key] = state
            self._outdate(before)
        self._copy.put(key, Cached(seq, alarm_ms, wake_ms, state), before.alarm_ms)

    def remove(self, key: str, before: Cached) -> None:
        """Forget a key."""
        self._chunk[key] = GONE
        self._live -= 1
        self._outdate(before)
        self._copy.delete(key, before.alarm_ms)

    def due(self) -> list[str]:
        """Keys for which there is something to do; an alarm that went off too early is moved."""
        keys = []
        for key in self._copy.due(self.passed_ms):
            cached = self._copy.get(key)
            assert cached is not None  # an alarm goes with its key
            if cached.wake_ms <= self.passed_ms:
                keys.append(key)
            else:
                moved = Cached(cached.seq, cached.wake_ms, cached.wake_ms, cached.state)
                self._copy.put(key, moved, cached.alarm_ms)
        return keys

    def finish(self, fired_ms: int | None = None) -> int | None:
        """Write what has changed, and set the timer at which the bucket is to be looked at again.

        Returns:
            The timer (ms since 1970 UTC), or None.

        Args:
            fired_ms: The timer that brought us here, which the engine deletes.
        """
        head = replace(self._head, live=self._live, schema_version=self._schema_version)
        if self._chunk:
            head = self._append(head)
        timer_ms = self._timer()
        if timer_ms != head.timer_ms:
            old_ms = head.timer_ms if head.timer_ms != fired_ms else None
            self._log.set_timer(old_ms, timer_ms)
            head = replace(head, timer_ms=timer_ms)
        if head != self._head:
            head = self._log.write_head(head)
            self._chunks = Chunks() if head.is_empty else self._chunks
            self._chunks.stamp = head.stamp
            self._copy.set_chunks(self._chunks)
        return timer_ms

    def _outdate(self, before: Cached) -> None:
        """Note that a state is no longer the newest of its key."""
        if before.seq != self._head.next_seq:
            self._chunks.live[before.seq] -= 1

    def _timer(self) -> int | None:
        """The engine's timer: the earliest alarm, or the present one while it goes off before that."""
        wanted_ms = self._copy.next_alarm()
        present_ms = self._head.timer_ms
        if wanted_ms is not None and present_ms is not None and self.passed_ms < present_ms <= wanted_ms:
            return present_ms
        return wanted_ms

    def _append(self, head: Head) -> Head:
        """Write the chunk of this turn, and clean the old end of the log."""
        chunks = self._chunks
        logged, first_seq, moved = head.logged + len(self._chunk), head.first_seq, 0
        while first_seq < head.next_seq:
            # A chunk without a live state goes unread, whenever it is at the end.
            if chunks.live[first_seq]:
                if logged <= _MOST_LOGGED * head.live + _SLACK or moved >= _CLEANED_PER_TURN:
                    break
                kept = self._keep(first_seq)
                logged += kept
                moved += kept
            self._log.remove(first_seq)
            logged -= chunks.entries.pop(first_seq)
            del chunks.live[first_seq]
            first_seq += 1
        self._log.append(head, self._chunk)
        chunks.entries[head.next_seq] = len(self._chunk)
        chunks.live[head.next_seq] = sum(state != GONE for state in self._chunk.values())
        return replace(head, first_seq=first_seq, next_seq=head.next_seq + 1, logged=logged)

    def _keep(self, seq: int) -> int:
        """Move what is still the newest of its key out of the oldest chunk; returns how many."""
        kept = 0
        for key in self._log.chunk(seq):
            # Most have changed since, many in this very turn.
            if key in self._chunk:
                continue
            state = self._copy.move(key, seq, self._head.next_seq)
            if state is not None:
                self._chunk[key] = state
                kept += 1
        return kept

    def _load(self, alarm: Callable[[str, bytes], int]) -> None:
        """Make the copy anew from the record."""
        newest, entries = self._newest()
        live = Counter(seq for seq, _ in newest.values())
        self._copy.clear()
        self._chunks = Chunks(self._head.stamp, entries, {seq: live[seq] for seq in entries})
        for key, (seq, state) in newest.items():
            wake_ms = alarm(key, state)
            self._copy.put(key, Cached(seq, wake_ms, wake_ms, state), None)
        self._copy.set_chunks(self._chunks)

    def _upgrade(
        self, upgrade: Callable[[int, str, bytes], bytes], alarm: Callable[[str, bytes], int]
    ) -> None:
        """Bring all states to the present version, in the chunk of this turn.

        So a log never has chunks of two versions: what its head says holds for each of them, and cleaning
        may move states without a look at them. No old chunk has a newest state left: `_append` drops them.
        """
        head = self._head
        newest, entries = self._newest()
        self._copy.clear()
        self._chunks = Chunks(head.stamp, entries, dict.fromkeys(entries, 0))
        for key, (_, old) in newest.items():
            state = upgrade(head.schema_version, key, old)
            self._chunk[key] = state
            wake_ms = alarm(key, state)
            self._copy.put(key, Cached(head.next_seq, wake_ms, wake_ms, state), None)
        self._copy.set_chunks(self._chunks)

    def _newest(self) -> tuple[dict[str, tuple[int, bytes]], dict[int, int]]:
        """From the record: the newest state of each key that has one, by chunk; the entries of each chunk."""
        newest: dict[str, tuple[int, bytes]] = {}
        entries: dict[int, int] = {}
        for seq in range(self._head.first_seq, self._head.next_seq):
            chunk = self._log.chunk(seq)
            entries[seq] = len(chunk)
            for key, state in chunk.items():
                newest[key] = seq, state
        return {key: found for key, found in newest.items() if found[1] != GONE}, entries
