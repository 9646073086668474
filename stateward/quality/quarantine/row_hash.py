"""By what a row is found again: a hash over all of its columns, of 128 bits as 32 hexadecimal digits.

Spark's own `xxhash64` twice, with two seeds: it takes every type, is the same on every Java, costs a fraction
of a microsecond, and skips nulls, so that a column which is added later changes no hash of a row that is
there. It is no
secret: who knows all of a row but one value can try values out. So it is kept in tables and shown on no page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

SEED = 17
"""What the second half begins with."""


def row_hash_sql(columns: str = "*") -> str:
    """Return the expression for a list of columns as SQL; a star is whatever there is when it is read."""
    return f"concat({_half(columns)}, {_half(f'{SEED}, {columns}')})"


def row_hash(columns: Sequence[str]) -> Column:
    """Return the expression for named columns, in the order of the table."""
    from pyspark.sql import functions as F

    return F.expr(row_hash_sql(", ".join("`" + name.replace("`", "``") + "`" for name in columns)))


def _half(arguments: str) -> str:
    return f"lpad(hex(xxhash64({arguments})), 16, '0')"
