"""Spark's `xxhash64` of a row, for readers without Spark: the public algorithm XXH64, over columns. Pure.

Python takes some ten microseconds for a value, so it is meant for the few rows that may be in quarantine. A
number of up to four bytes is hashed as four, a larger one as eight, each with the hash so far as the seed; a
null changes nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from functools import reduce
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from decimal import Decimal

    import pyarrow as pa

_ALL = 0xFFFFFFFFFFFFFFFF
_P1, _P2, _P3, _P4, _P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_SPARK_SEED = 42
_LONG_DIGITS = 18

Hasher = Callable[[Any, int], int]


def xxh64(data: bytes, seed: int) -> int:
    """XXH64 of some bytes."""
    length, at = len(data), 0
    if length >= 32:
        lanes = [(seed + _P1 + _P2) & _ALL, (seed + _P2) & _ALL, seed, (seed - _P1) & _ALL]
        while at + 32 <= length:
            words = struct.unpack_from("<4Q", data, at)
            lanes = [_round(lane, word) for lane, word in zip(lanes, words, strict=True)]
            at += 32
        total = sum(_left(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _ALL
        for lane in lanes:
            total = ((total ^ _round(0, lane)) * _P1 + _P4) & _ALL
    else:
        total = (seed + _P5) & _ALL
    return _finish(data, at, (total + length) & _ALL)


def _finish(data: bytes, at: int, total: int) -> int:
    while at + 8 <= len(data):
        total ^= _round(0, struct.unpack_from("<Q", data, at)[0])
        total = (_left(total, 27) * _P1 + _P4) & _ALL
        at += 8
    if at + 4 <= len(data):
        total ^= (struct.unpack_from("<I", data, at)[0] * _P1) & _ALL
        total = (_left(total, 23) * _P2 + _P3) & _ALL
        at += 4
    for byte in data[at:]:
        total = (_left(total ^ (byte * _P5 & _ALL), 11) * _P1) & _ALL
    for bits, prime in ((33, _P2), (29, _P3)):
        total = ((total ^ (total >> bits)) * prime) & _ALL
    return total ^ (total >> 32)


def _round(lane: int, word: int) -> int:
    return _left((lane + word * _P2) & _ALL, 31) * _P1 & _ALL


def _left(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _ALL


def row_hash(values: Iterable[Any], hashers: Iterable[Hasher], seed: int) -> str:
    """Return what `row_hash.row_hash_sql` is for a row.

    Args:
        values: its values, in the order of the columns.
        hashers: of each column: `hasher_of`.
        seed: what the second half begins with.
    """
    pairs = list(zip(values, hashers, strict=True))
    halves = (_SPARK_SEED, xxh64(struct.pack("<i", seed), _SPARK_SEED))
    return "".join(f"{reduce(lambda so_far, pair: _step(pair, so_far), pairs, half):016X}" for half in halves)


def _step(pair: tuple[Any, Hasher], so_far: int) -> int:
    value, hasher = pair
    return so_far if value is None else hasher(value, so_far)


def hasher_of(kind: pa.DataType) -> Hasher:  # noqa: PLR0911 - one line a type
    """Return how Spark hashes values of a type; times are the integers behind them.

    Raises:
        TypeError: it is none that a stream's table has.
    """
    import pyarrow as pa

    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner = hasher_of(kind.value_type)
        return lambda values, seed: reduce(lambda so_far, one: _step((one, inner), so_far), values, seed)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return lambda value, seed: xxh64(value.encode(), seed)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return xxh64
    if pa.types.is_int64(kind):
        return lambda value, seed: xxh64(struct.pack("<q", value), seed)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return lambda value, seed: xxh64(struct.pack("<i", int(value)), seed)
    if pa.types.is_floating(kind):
        code = "<d" if pa.types.is_float64(kind) else "<f"
        # Spark takes the two zeros for one.
        return lambda value, seed: xxh64(struct.pack(code, value or 0.0), seed)
    if pa.types.is_decimal(kind):
        return lambda value, seed: xxh64(_decimal(value, kind), seed)
    raise TypeError(f"expected a type that a stream's table has, found {kind}: read the table with Spark")


def _decimal(value: Decimal, kind: pa.DataType) -> bytes:
    # By its digits: arithmetic would round to those of the context.
    sign, digits, exponent = value.as_tuple()
    unscaled: int = int("".join(map(str, digits))) * 10 ** (int(exponent) + kind.scale) * (-1 if sign else 1)
    if kind.precision <= _LONG_DIGITS:
        return struct.pack("<q", unscaled)
    # As Java's BigInteger.toByteArray: the shortest that keeps the sign.
    bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length()
    return unscaled.to_bytes(bits // 8 + 1, "big", signed=True)
