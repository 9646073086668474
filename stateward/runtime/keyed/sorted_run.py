"""A sorted run: the states of a bucket's keys as of one or several calls, in the order of the keys' hashes.

A run never changes. Newer runs have the later states of the same keys, and `merged` makes one run of several.
In memory and in its file a run is the same bytes: five columns of integers, where each key and each state
ends, the keys, and the states. They are read where they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from mmap import mmap
from typing import Any, NamedTuple, cast

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pandas.util import hash_array

# The size of a key that was removed, and when it is due.
_GONE = -1
_NEVER_MS = (1 << 63) - 1
_INT_BYTES = 8

Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]


class CachedState(msgspec.Struct, frozen=True, gc=False):
    """The copy of a key's state.

    Attributes:
        write: The number of the write to the log that contains it (`log_index`).
        due_ms: The watermark at which the logic has to run for the key.
        size: The size of the state's text in the log, in bytes.
        packed: The compact encoding of the state (`codec`), half as large.
    """

    write: int
    due_ms: int
    size: int
    packed: bytes


_REMOVED = CachedState(0, _NEVER_MS, _GONE, b"")


class Shape(NamedTuple):
    """The size of a run.

    Attributes:
        entries: The number of keys, removed ones among them.
        key_bytes: The bytes of all keys together.
        packed_bytes: The bytes of all states together.
    """

    entries: int
    key_bytes: int
    packed_bytes: int

    @property
    def length(self) -> int:
        """Bytes of the run, with a filling so that the next one begins at a whole integer."""
        filled = -(self.key_bytes + self.packed_bytes) % _INT_BYTES
        return (7 * self.entries + 2) * _INT_BYTES + self.key_bytes + self.packed_bytes + filled


class Wanted:
    """Keys to look for, in one run after another.

    Args:
        keys: The keys; each once.

    Attributes:
        keys: In the order of their hashes.
        texts: The same, encoded.
        hashes: The same, hashed.
        left: Which of them no run has so far.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        hashes = _hashes(keys)
        order = np.argsort(hashes)
        self.keys = [keys[place] for place in order.tolist()]
        self.texts = [key.encode() for key in self.keys]
        self.hashes = hashes[order]
        self.left: Ints = np.arange(len(keys))


class SortedRun:
    """A run.

    Args:
        data: What has its bytes.
        begin: Where they begin.
        shape: Its size.
    """

    def __init__(self, data: bytes | mmap, begin: int, shape: Shape) -> None:
        self.shape = shape
        self._data, self._begin = data, begin
        count = shape.entries
        ints = np.frombuffer(data, np.int64, 7 * count + 2, begin)
        self.hashes: Hashes = ints[:count].view(np.uint64)
        self.writes, self.dues, self.sizes, self._by_due = (
            ints[count * column : count * (column + 1)] for column in range(1, 5)
        )
        self._key_ends, self._packed_ends = ints[5 * count : 6 * count + 1], ints[6 * count + 1 :]
        self._keys_at = begin + len(ints) * _INT_BYTES
        self._packed_at = self._keys_at + shape.key_bytes

    @classmethod
    def of(cls, states: Mapping[str, CachedState | None]) -> SortedRun:
        """A run of the states of keys; None for a key that was removed."""
        hashes, names, all_states = _hashes(list(states)), list(states), list(states.values())
        order = np.argsort(hashes)
        placed = order.tolist()
        found = [all_states[place] or _REMOVED for place in placed]
        columns = [
            [state.write for state in found],
            [state.due_ms for state in found],
            [state.size for state in found],
        ]
        texts = [names[place].encode() for place in placed], [state.packed for state in found]
        ends = [np.cumsum([0, *map(len, values)]) for values in texts]
        return _assembled(hashes[order], np.array(columns), ends, [b"".join(values) for values in texts])

    @property
    def content(self) -> bytes:
        """The bytes of the run."""
        return self._data[self._begin : self._begin + self.shape.length]

    def find(self, wanted: Wanted, found: dict[str, CachedState]) -> None:
        """Look for the keys that no newer run has; put their states into ``found``."""
        left = wanted.left
        at = np.searchsorted(self.hashes, wanted.hashes[left])
        at[at == self.shape.entries] = 0
        is_here = self.hashes[at] == wanted.hashes[left]
        wanted.left = left[~is_here]
        which, places = left[is_here].tolist(), at[is_here]
        names, texts = wanted.keys, wanted.texts
        unlike: list[int] = []
        for one, text, state in zip(which, self._texts(places), self._states(places), strict=True):
            if text != texts[one]:
                unlike.append(one)
            elif state is not None:
                found[names[one]] = state
        if unlike:
            self._find_among_equal_hashes(unlike, wanted, found)

    def keys(self, places: Ints) -> list[str]:
        """The keys of entries."""
        return [text.decode() for text in self._texts(places)]

    def items(self) -> Iterator[tuple[str, CachedState | None]]:
        """All entries; None for a key that was removed."""
        places = np.arange(self.shape.entries)
        return zip(self.keys(places), self._states(places), strict=True)

    def due(self, first: int, until_ms: int) -> Ints:
        """Entries that are due at or before ``until_ms``, by time, without the first ones."""
        end = np.searchsorted(self.dues, until_ms, side="right", sorter=self._by_due)
        return self._by_due[first : max(first, int(end))]

    def next_due(self, first: int) -> int | None:
        """When the first entry is due, without the first ones; None if no other one ever is."""
        due_ms = int(self.dues[self._by_due[first]]) if first < self.shape.entries else _NEVER_MS
        return None if due_ms == _NEVER_MS else due_ms

    def key_array(self) -> pa.Array:
        """The keys, for `merged`."""
        return self._array(self._key_ends, self._keys_at)

    def packed_array(self) -> pa.Array:
        """The states, for `merged`."""
        return self._array(self._packed_ends, self._packed_at)

    def _array(self, ends: Ints, begin: int) -> pa.Array:
        values = memoryview(self._data)[begin : begin + int(ends[-1])]
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(values)]
        return pa.Array.from_buffers(pa.large_binary(), self.shape.entries, buffers)

    def _texts(self, places: Ints) -> list[bytes]:
        begins = (self._key_ends[places] + self._keys_at).tolist()
        ends = (self._key_ends[places + 1] + self._keys_at).tolist()
        data = self._data
        return [data[begin:end] for begin, end in zip(begins, ends, strict=True)]

    def _states(self, places: Ints) -> Iterator[CachedState | None]:
        numbers = [column[places].tolist() for column in (self.writes, self.dues, self.sizes)]
        begins = (self._packed_ends[places] + self._packed_at).tolist()
        ends = (self._packed_ends[places + 1] + self._packed_at).tolist()
        data = self._data
        return (
            None if size == _GONE else CachedState(write, due_ms, size, data[begin:end])
            for write, due_ms, size, begin, end in zip(*numbers, begins, ends, strict=True)
        )

    def _find_among_equal_hashes(
        self, unlike: list[int], wanted: Wanted, found: dict[str, CachedState]
    ) -> None:
        """Look for keys of which the first entry with their hash is another key's."""
        missing = []
        for one in unlike:
            sides = [
                int(np.searchsorted(self.hashes, wanted.hashes[one], side)) for side in ("left", "right")
            ]
            places, key = np.arange(*sides), wanted.keys[one]
            states = dict(zip(self.keys(places), self._states(places), strict=True))
            if key not in states:
                missing.append(one)
            elif (state := states[key]) is not None:
                found[key] = state
        wanted.left = np.sort(np.append(wanted.left, np.array(missing, dtype=np.int64)))


def merged(newest_first: Sequence[SortedRun], *, is_whole: bool) -> SortedRun:
    """One run with the newest entry of each key.

    Args:
        newest_first: The runs.
        is_whole: Whether no older run exists, so that removed keys can be left out.
    """
    hashes = np.concatenate([run.hashes for run in newest_first])
    keys = pa.concat_arrays([run.key_array() for run in newest_first])
    order = np.argsort(hashes, kind="stable")
    is_newest = np.ones(len(order), dtype=bool)
    is_newest[1:] = hashes[order[1:]] != hashes[order[:-1]]
    (repeated,) = np.nonzero(~is_newest)
    if len(repeated):
        pair = keys.take(pa.array(order[repeated])), keys.take(pa.array(order[repeated - 1]))
        if not pc.all(pc.equal(*pair)).as_py():  # two keys have one hash
            is_newest = _first_of_each(keys.take(pa.array(order)).to_pylist())
    numbers = np.stack(
        [np.concatenate([getattr(run, name) for run in newest_first]) for name in ("writes", "dues", "sizes")]
    )
    if is_whole:
        is_newest &= numbers[2][order] != _GONE
    kept = order[is_newest]
    packed = pa.concat_arrays([run.packed_array() for run in newest_first])
    texts = [array.take(pa.array(kept)).buffers() for array in (keys, packed)]
    ends = [np.frombuffer(buffers[1], np.int64, len(kept) + 1) for buffers in texts]
    return _assembled(hashes[kept], numbers[:, kept], ends, [buffers[2] or b"" for buffers in texts])


def _first_of_each(texts: Sequence[bytes]) -> npt.NDArray[np.bool_]:
    first = {text: place for place, text in reversed(list(enumerate(texts)))}
    is_first = np.zeros(len(texts), dtype=bool)
    is_first[list(first.values())] = True
    return is_first


def _assembled(hashes: Hashes, numbers: Ints, ends: Sequence[Ints], texts: Sequence[Any]) -> SortedRun:
    """A run of its columns: ``write``, ``due_ms`` and ``size``, ends of keys and states, and their bytes."""
    shape = Shape(len(hashes), *(int(column[-1]) for column in ends))
    by_due = np.argsort(numbers[1], kind="stable")
    parts = [hashes, numbers, by_due, *ends]
    values = [memoryview(text)[: int(column[-1])] for text, column in zip(texts, ends, strict=True)]
    filling = bytes(-sum(map(len, values)) % _INT_BYTES)
    return SortedRun(b"".join([*(part.tobytes() for part in parts), *values, filling]), 0, shape)


def _hashes(keys: Sequence[str]) -> Hashes:
    return cast("Hashes", hash_array(np.array(keys, dtype=object), categorize=False))
