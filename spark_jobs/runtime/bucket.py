"""One bucket's states during one turn: read from the copy, written to the copy and to the record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from spark_jobs.runtime.state_cache import Cached, StateCache
from spark_jobs.runtime.state_log import GONE, Chunk, Head, StateLog

# Dead entries that a log may have beside its live ones before it is cleaned, and how many a turn cleans at
# most beyond what it writes: cleaning is spread, so no batch pays for all of it.
_SLACK = 256
_CLEANED_PER_TURN = 2000


class Bucket:
    """The states of one bucket at one turn; `finish` ends it.

    Args:
        number: The bucket.
        log: The record.
        cache: The copy of the partition.
        alarm: From a state's text to its alarm (ms); used when the copy is made anew.
        schema_version: Version of the states written now.
    """

    def __init__(
        self,
        number: int,
        log: StateLog,
        cache: StateCache,
        alarm: Callable[[str, bytes], int],
        schema_version: int,
    ) -> None:
        self._number = number
        self._log = log
        self._cache = cache
        self._schema_version = schema_version
        self._head = log.head()
        self._chunk: Chunk = {}
        self._live = self._head.live
        if self._head.stamp != (cache.stamp(number) or ""):
            self._load(alarm)

    def get(self, key: str) -> Cached | None:
        """What is known of a key."""
        return self._cache.get(self._number, key)

    def put(self, key: str, before: Cached | None, state: bytes, alarm_ms: int) -> None:
        """Set a key's state and alarm; ``before`` is what `get` gave.

        An alarm may stay earlier than need be: it is looked at when it goes off. Moving it for each event
        would cost two more writes.
        """
        if before is not None and before.state == state:
            seq = before.seq
            if before.alarm_ms == alarm_ms:
                return
        else:
            seq = self._head.next_seq
            self._chunk[key] = state
            self._live += before is None
        old_ms = None if before is None else before.alarm_ms
        self._cache.put(self._number, key, Cached(seq, alarm_ms, state), old_ms)

    def remove(self, key: str, before: Cached) -> None:
        """Forget a key."""
        self._chunk[key] = GONE
        self._live -= 1
        self._cache.delete(self._number, key, before.alarm_ms)

    def due(self, watermark_ms: int) -> list[str]:
        """Keys whose alarm has gone off."""
        return self._cache.due(self._number, watermark_ms)

    def finish(self, watermark_ms: int, fired_ms: int | None = None) -> int | None:
        """Write what has changed, and set the timer at which the bucket is to be looked at again.

        Returns:
            The timer (ms since 1970 UTC), or None.

        Args:
            watermark_ms: The watermark of the batch; a timer lies beyond it.
            fired_ms: The timer that brought us here, which the engine deletes.
        """
        head = replace(self._head, live=self._live, schema_version=self._schema_version)
        if self._chunk:
            head = self._append(head)
        timer_ms = self._timer(watermark_ms)
        if timer_ms != head.timer_ms:
            old_ms = head.timer_ms if head.timer_ms != fired_ms else None
            self._log.set_timer(old_ms, timer_ms)
            head = replace(head, timer_ms=timer_ms)
        if head != self._head:
            head = self._log.write_head(head)
            self._cache.set_stamp(self._number, head.stamp)
        return timer_ms

    def _timer(self, watermark_ms: int) -> int | None:
        """The engine's timer: the earliest alarm, or the present one while it goes off before that."""
        wanted_ms = self._cache.next_alarm(self._number)
        present_ms = self._head.timer_ms
        if wanted_ms is not None and present_ms is not None and watermark_ms < present_ms <= wanted_ms:
            return present_ms
        return wanted_ms

    def _append(self, head: Head) -> Head:
        logged = head.logged + len(self._chunk)
        first_seq, moved = head.first_seq, 0
        while logged > 2 * head.live + _SLACK and first_seq < head.next_seq and moved < _CLEANED_PER_TURN:
            oldest = self._log.chunk(first_seq)
            kept = self._keep(oldest, first_seq, head.next_seq)
            self._log.remove(first_seq)
            logged += kept - len(oldest)
            moved += kept
            first_seq += 1
        self._log.append(head, self._chunk)
        return replace(head, first_seq=first_seq, next_seq=head.next_seq + 1, logged=logged)

    def _keep(self, oldest: Chunk, seq: int, new_seq: int) -> int:
        """Move what is still the newest of its key out of the oldest chunk; returns how many."""
        kept = 0
        for key in oldest:
            # Most have changed since, many in this very turn.
            if key in self._chunk:
                continue
            state = self._cache.move(self._number, key, seq, new_seq)
            if state is not None:
                self._chunk[key] = state
                kept += 1
        return kept

    def _load(self, alarm: Callable[[str, bytes], int]) -> None:
        """Make the copy anew from the record."""
        self._cache.clear(self._number)
        newest: dict[str, tuple[int, bytes]] = {}
        for seq in range(self._head.first_seq, self._head.next_seq):
            for key, state in self._log.chunk(seq).items():
                newest[key] = seq, state
        self._cache.put_many(
            self._number,
            (
                (key, Cached(seq, alarm(key, state), state))
                for key, (seq, state) in newest.items()
                if state != GONE
            ),
        )
        self._cache.set_stamp(self._number, self._head.stamp)
