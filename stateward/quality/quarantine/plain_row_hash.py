"""Spark's `xxhash64` of a row, for readers without Spark: the public algorithm XXH64, over columns. Pure.

A number of up to four bytes is hashed as four, a larger one as eight, each with the hash so far as the seed;
a null changes nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from functools import reduce
from typing import TYPE_CHECKING, Any

from xxhash import xxh64_intdigest as xxh64

if TYPE_CHECKING:
    from decimal import Decimal

    import pyarrow as pa

_SPARK_SEED = 42
_LONG_DIGITS = 18

Hasher = Callable[[Any, int], int]


def row_hash(values: Iterable[Any], hashers: Iterable[Hasher], seed: int) -> str:
    """Return what `row_hash.row_hash_sql` is for a row.

    Args:
        values: its values, in the order of the columns.
        hashers: of each column: `hasher_of`.
        seed: the seed of the second half.
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
        TypeError: no stream's table has such a type.
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
        # Spark treats both zeros as one.
        return lambda value, seed: xxh64(struct.pack(code, value or 0.0), seed)
    if pa.types.is_decimal(kind):
        return lambda value, seed: xxh64(_decimal(value, kind), seed)
    raise TypeError(f"expected a type that a stream's table has, found {kind}: read the table with Spark")


def _decimal(value: Decimal, kind: pa.DataType) -> bytes:
    # By its digits: arithmetic would round to the precision of the context.
    sign, digits, exponent = value.as_tuple()
    unscaled: int = int("".join(map(str, digits))) * 10 ** (int(exponent) + kind.scale) * (-1 if sign else 1)
    if kind.precision <= _LONG_DIGITS:
        return struct.pack("<q", unscaled)
    # As Java's BigInteger.toByteArray: the shortest that keeps the sign.
    bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length()
    return unscaled.to_bytes(bits // 8 + 1, "big", signed=True)
