"""Counts and fingerprints of generated records."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

from proof.traffic.records import LATE, MARKS, Record, Slice

_NO_VALUE = 2**32 - 1


class Tally:
    """Counts and a fingerprint of each topic's records."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = {}
        self._hashes: dict[tuple[str, bool], Any] = {}

    def see(self, piece: Slice) -> None:
        """Count the records of a slice."""
        counts = self._counts.setdefault(piece.topic, Counter())
        for record in piece.records:
            counts[record.mark] += 1
        is_late = bool(piece.records) and piece.records[0].mark == LATE
        digest = self._hashes.setdefault((piece.topic, is_late), hashlib.sha256())
        digest.update(b"".join(map(_framed, piece.records)))

    @property
    def total(self) -> int:
        """Number of records."""
        return sum(counts.total() for counts in self._counts.values())

    def by_topic(self) -> dict[str, dict[str, Any]]:
        """Return the number of records of each mark and the SHA-256 of both phases, by topic.

        The hash is that of each record's key and value in the order they are sent, each behind its length in
        four bytes; a record without a value has the length 0xFFFFFFFF.
        """
        return {
            topic: {
                **{mark: counts[mark] for mark in MARKS},
                "sha256": self._digest(topic, is_late=False),
                "sha256_late": self._digest(topic, is_late=True),
            }
            for topic, counts in self._counts.items()
        }

    def _digest(self, topic: str, *, is_late: bool) -> str | None:
        digest = self._hashes.get((topic, is_late))
        return None if digest is None else str(digest.hexdigest())


def _framed(record: Record) -> bytes:
    key = len(record.key).to_bytes(4, "big") + record.key
    if record.value is None:
        return key + _NO_VALUE.to_bytes(4, "big")
    return key + len(record.value).to_bytes(4, "big") + record.value
