"""In which partition each bucket of a keyed stream is, and how even the partitions are. Pure.

Spark places the rows of a bucket by `pmod(hash(lane, bucket), partitions)`. With few buckets for a partition
one gets many more of them than another, whatever is in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from statistics import median

from stateward.contract.state_care import MAX_SKEW

MOST_BUCKETS = 1024

_SEED = 42
_C1, _C2 = 0xCC9E2D51, 0x1B873593
_WORD = 0xFFFFFFFF


@lru_cache(maxsize=2 * MOST_BUCKETS)
def spark_hash(lane: str, *numbers: int) -> int:
    """Return Spark's `hash` of a text and 32-bit integers: Murmur3 with the seed 42, signed."""
    found = _hash_text(lane.encode(), _SEED)
    for number in numbers:
        found = _finished(_mixed(found, number & _WORD), 4)
    return found - (1 << 32) if found >> 31 else found


def _hash_text(text: bytes, seed: int) -> int:
    found, whole = seed, len(text) - len(text) % 4
    for at in range(0, whole, 4):
        found = _mixed(found, int.from_bytes(text[at : at + 4], "little"))
    # Spark mixes each byte of the rest as a word of its own, with its sign.
    for byte in text[whole:]:
        found = _mixed(found, (byte - 256 if byte > 127 else byte) & _WORD)
    return _finished(found, len(text))


def _mixed(found: int, word: int) -> int:
    word = _rotated(word * _C1 & _WORD, 15) * _C2 & _WORD
    return (_rotated(found ^ word, 13) * 5 + 0xE6546B64) & _WORD


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & _WORD


def _finished(found: int, length: int) -> int:
    found ^= length
    found = (found ^ found >> 16) * 0x85EBCA6B & _WORD
    found = (found ^ found >> 13) * 0xC2B2AE35 & _WORD
    return found ^ found >> 16


def partition_sizes(lane: str, bucket_bytes: Sequence[int], partitions: int) -> list[int]:
    """Return the size of each partition, bytes, with another number of them.

    Args:
        lane: The text by which Spark places events, beside the bucket.
        bucket_bytes: Size of each bucket, bytes, by number.
        partitions: The number of partitions.
    """
    sizes = [0] * partitions
    for bucket, size in enumerate(bucket_bytes):
        sizes[spark_hash(lane, bucket) % partitions] += size
    return sizes


def even_buckets(lane: str, buckets: int, partitions: int, largest_key: float = 0.0) -> int | None:
    """Return the least larger number of buckets that a number of partitions divides evenly.

    Args:
        lane: The text by which Spark places events, beside the bucket.
        buckets: The current number.
        partitions: The number of partitions.
        largest_key: Share of the largest key in all bytes, which no number of buckets divides.

    Returns:
        A power of two times the current number; None if there is none up to `MOST_BUCKETS`.
    """
    more = buckets * 2
    while more <= MOST_BUCKETS:
        sizes = [size / more for size in partition_sizes(lane, [1] * more, partitions)]
        rest = 1.0 - largest_key
        # At worst the largest key is in the partition that has the most buckets anyway.
        if max(sizes) * rest + largest_key <= MAX_SKEW * median(sizes) * rest:
            return more
        more *= 2
    return None
