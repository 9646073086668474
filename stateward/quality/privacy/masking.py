"""Masks personal values: equal values get the same mask, and the mask does not show the value.

Everything that people read is made from masked rows. Great Expectations sees no others, so no personal value
gets into a page, a result or an error message. The secret is the installation's own. A subquery reads it, so
that it is in no plan, which Spark writes into its logs and errors.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Collection
from typing import TYPE_CHECKING

from stateward.contract.names import ENV_MASK_SECRET

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

PREFIX = "masked-"
_DIGITS = 20
_VIEW = "stateward_mask"
_SECRET = "__stateward_mask"


def secret_of_this_run() -> str:
    """Return the installation's secret from the environment.

    Without it, return a secret of this process alone: the masks of two runs then cannot be compared.
    """
    return os.environ.get(ENV_MASK_SECRET) or secrets.token_hex(32)


def mask(secret: str, value: str | bytes) -> str:
    """Return the masked form of one value, as `ColumnMasker` makes it."""
    # A secret before the value is enough: a truncated hash cannot be extended.
    content = value if isinstance(value, bytes) else value.encode()
    return PREFIX + hashlib.sha256(secret.encode() + content).hexdigest()[:_DIGITS]


class ColumnMasker:
    """Masks columns of data frames.

    Args:
        spark: the session.
        secret: `secret_of_this_run`.
    """

    def __init__(self, spark: SparkSession, secret: str) -> None:
        row = spark.createDataFrame([(secret,)], "secret string")
        row.createOrReplaceTempView(_VIEW)

    def over(self, frame: DataFrame, personal: Collection[str]) -> DataFrame:
        """Return the frame with the values of some columns masked; nulls and types stay.

        A column of a type without a masked form only shows whether there is a value: see `_masked`.
        """
        from pyspark.sql import functions as F

        kinds = dict(frame.dtypes)
        hidden = [name for name in frame.columns if name in personal]
        if not hidden:
            return frame
        columns = [
            _masked(name, kinds[name]).alias(name) if name in hidden else F.col(_quoted(name))
            for name in frame.columns
        ]
        known = frame.select("*", F.expr(f"(SELECT secret FROM {_VIEW})").alias(_SECRET))
        return known.select(*columns)


def _masked(name: str, kind: str) -> Column:
    from pyspark.sql import functions as F

    column = _quoted(name)
    if kind == "array<string>":
        return F.expr(f"transform({column}, one -> {_text('one')})")
    if kind == "array<binary>":
        return F.expr(f"transform({column}, one -> encode({_text('one')}, 'UTF-8'))")
    if kind == "binary":
        return F.expr(f"encode({_text(column)}, 'UTF-8')")
    if kind == "string":
        return F.expr(_text(column))
    # Only a table that was changed by hand has a personal column of another type.
    return F.expr(f"IF({column} IS NULL, NULL, '{PREFIX}{kind.partition('<')[0]}')")


def _text(value: str) -> str:
    digest = f"sha2(concat(cast({_SECRET} AS binary), cast({value} AS binary)), 256)"
    return f"IF({value} IS NULL, NULL, concat('{PREFIX}', left({digest}, {_DIGITS})))"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
