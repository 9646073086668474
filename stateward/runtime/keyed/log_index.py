"""The index of a bucket's log: its chunks, which of them to clean or to merge, and the sizes of keys. Pure.

A log is cleaned from its oldest chunk on, and merged from its newest one back. So its sequence numbers have
no gap, a later chunk is a newer one, and no other chunk is read or written.

A sequence number is used again after a merge. A *write* is not: each chunk that a call appends has the next
number, and a merged chunk has those of its parts. So a merge does not touch the copies of keys, which name
the write of their state.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import takewhile

import msgspec

# The size of a log, as a multiple of its live states, from which it is cleaned. With a larger log fewer
# states are still live when their chunk is cleaned, and have to be written again.
_MAX_LOGGED = 3
# Entries that a log may have in addition.
_SLACK = 256
# The most entries, bytes and chunks that one call cleans or merges: the work is spread over batches.
_ENTRIES_PER_CALL = 2000
_BYTES_PER_CALL = 1 << 20
CHUNKS_PER_CALL = 32
# The most small chunks after the newest large one; a small one has less than half of what one call merges.
MOST_SMALL = 64
# Chunks that a log may have, and more in proportion to its entries, whatever the sizes of its batches.
_MOST_CHUNKS = 128
# Buckets merge at different numbers of small chunks, so that one batch does not merge them all.
_SPREAD = 16
# The least number of chunks to merge at once. Fewer would be written again too soon.
_LEAST_MERGED = 16


class Chunks(msgspec.Struct):
    """The chunks of a bucket's log, oldest first, and the sizes of its keys.

    Attributes:
        stamp: The stamp of the log that was copied.
        layout: How its states are packed (`StateRules`).
        begins: The first write in each chunk.
        entries: The number of entries of each chunk.
        live: The number of live states in each chunk.
        next_write: The number of the next write.
        bytes: The size of all keys with their states.
        classes: The number of keys in each `size_class`; with the classes the largest size is known without
            looking for it, whichever key ends.
    """

    stamp: str = ""
    layout: str = ""
    begins: list[int] = []
    entries: list[int] = []
    live: list[int] = []
    next_write: int = 0
    bytes: int = 0
    classes: dict[int, int] = {}

    @classmethod
    def of(cls, stamp: str, layout: str, entries: list[int]) -> Chunks:
        """The index of a log whose chunks have these entries, none of them known to be live."""
        number = len(entries)
        return cls(stamp, layout, list(range(number)), list(entries), [0] * number, number)

    def append(self, entries: int, live: int, merged: int = 0) -> None:
        """Add the chunk of the next write, in place of the newest ones that are merged into it."""
        first = len(self.entries) - merged
        begin = self.begins[first] if merged else self.next_write
        for counted, value in ((self.begins, begin), (self.entries, entries), (self.live, live)):
            counted[first:] = [value]
        self.next_write += 1

    def outdate(self, write: int) -> None:
        """Count that a state of a write is no longer live; the next write is not counted yet."""
        if write != self.next_write:
            self.live[bisect_right(self.begins, write) - 1] -= 1

    def has_to_clean(self, added: int, live: int, moved: int) -> bool:
        """Whether the oldest chunk is removed, and its live states written again.

        Args:
            added: The entries of the call's own chunk.
            live: The number of keys with a state.
            moved: How many states the call has already moved.
        """
        if not self.live[0]:
            return True
        logged, most = sum(self.entries) + added, self._entries_per_call(live)
        # A release before merging left more chunks than that.
        is_long = logged > _MAX_LOGGED * live + _SLACK
        return moved < most and (is_long or len(self.entries) > _MOST_CHUNKS + 4 * logged // most)

    def drop_oldest(self) -> None:
        """Forget the oldest chunk."""
        for counted in (self.begins, self.entries, self.live):
            del counted[0]

    def to_merge(self, added: int, live: int, bucket: int) -> int:
        """How many of the newest chunks to merge with the call's own.

        As long as the log has fewer than about `MOST_SMALL` chunks, none. Then the small chunks after the
        newest large one, as soon as they make a large one. If they become `MOST_SMALL` before, at least
        sixteen of them, and those before them which are no larger than all after them together. So an entry
        is written about three times until it is in a large chunk.

        Args:
            added: The entries of the call's own chunk.
            live: The number of keys with a state.
            bucket: The bucket's number.
        """
        limit, most = MOST_SMALL - bucket % _SPREAD, self._entries_per_call(live)
        if len(self.entries) < limit:
            return 0
        is_large = 2 * added >= most
        small = list(takewhile(lambda entries: 2 * entries < most, reversed(self.entries)))
        least = 1 if is_large else min(_LEAST_MERGED, most // 2)
        if len(small) >= least and 2 * (added + sum(small)) >= most >= sum(small):
            return len(small)
        if is_large or len(small) < limit:
            return 0
        number, gathered = 0, added
        for entries in small:
            is_unequal = number >= _LEAST_MERGED and entries > gathered
            if is_unequal or gathered + entries > most:
                break
            number, gathered = number + 1, gathered + entries
        return number

    def _entries_per_call(self, live: int) -> int:
        average = self.bytes // live if live else 0
        return max(1, min(_ENTRIES_PER_CALL, _BYTES_PER_CALL // max(1, average)))

    def resize(self, before: int, after: int) -> None:
        """Count that the size of a key with its state has changed; 0 if it has none."""
        self.bytes += after - before
        # For most keys: this runs once for each key that a batch changes.
        old = _CLASSES[before] if before < _COMMON else size_class(before)
        new = _CLASSES[after] if after < _COMMON else size_class(after)
        if old == new:
            return
        classes = self.classes
        if after:
            classes[new] = classes.get(new, 0) + 1
        if before:
            classes[old] -= 1
            if not classes[old]:
                del classes[old]

    @property
    def largest(self) -> int:
        """The size of the largest key with its state, rounded down by less than an eighth; 0 without keys."""
        return least_size(max(self.classes)) if self.classes else 0


def size_class(size: int) -> int:
    """The class of a size: eight for each power of two, so that sizes of a class differ by an eighth."""
    shift = size.bit_length() - 4
    return (shift << 3) + (size >> shift) if shift > 0 else size


def least_size(number: int) -> int:
    """The smallest size of a `size_class`."""
    shift = max(0, (number >> 3) - 1)
    return (number - (shift << 3)) << shift


_COMMON = 4096
_CLASSES = tuple(map(size_class, range(_COMMON)))
