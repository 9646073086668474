"""States of a given size: a count, and text of the key's own that does not compress well. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

POOL_BYTES = 1_000_000
_FAR_MS = 1 << 50


class Event(NamedTuple):
    """An event that updates its key.

    Attributes:
        event_id: Its number.
        event_ms: The same for all; no watermark comes.
    """

    event_id: str
    event_ms: int


class Padded(NamedTuple):
    """The state of a key: a count, and text of a given size that is the key's own."""

    updates: int
    text: str


class PaddedLogic:
    """Counts, and keeps text that is never compressed well.

    Args:
        size: Characters of the text.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._pool: str | None = None

    def apply(self, key: str, state: Padded | None, event: Event) -> tuple[Padded, tuple[()]]:
        """Count the event."""
        if state is not None:
            return state._replace(updates=state.updates + 1), ()
        self._pool = self._pool or pool()
        start = text_start(key, self._size)
        return Padded(1, self._pool[start : start + self._size]), ()

    def deadline(self, state: Padded) -> int:
        """Never within a benchmark."""
        return _FAR_MS

    def expire(self, key: str, state: Padded, at_ms: int) -> tuple[None, tuple[()]]:
        """Remove the state."""
        return None, ()


def pool() -> str:
    """Random letters, of which each key has a part."""
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz0123456789", dtype=np.uint8)
    return np.random.default_rng(7).choice(letters, POOL_BYTES).tobytes().decode()


def text_start(key: str, size: int) -> int:
    """Where the text of a key begins in the pool."""
    return int(key[1:]) * 7919 % (POOL_BYTES - size)


def key_names(numbers: Iterable[int]) -> list[str]:
    """The keys of these numbers."""
    return [f"u{number:08}" for number in numbers]
