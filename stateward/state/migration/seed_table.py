"""Reads the table of a seed, and restricts where it may be.

A user who may seed a stream may name any table. So a table must be below a configured folder, after links and
`..` are resolved, and an error contains no values of a table.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa

from stateward.contract.privacy.forgotten import digest_of
from stateward.state.errors import StateError
from stateward.state.reader.stores import is_spark_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger("stateward.state")

FORMATS = ("delta", "parquet", "csv")
# Spark treats them as a pattern.
_PATTERN = frozenset("*?[]{}\\")


def read_table(
    spark: Callable[[], SparkSession], stream: str, table: str, kind: str, roots: Sequence[str]
) -> DataFrame:
    """Open a table.

    Args:
        spark: Returns the session; not called if the table is refused.
        stream: Name of the stream, for errors.
        table: URI of the table, or the path of a local one.
        kind: One of `FORMATS`.
        roots: URIs of the folders below which it may be.

    Raises:
        StateError: It is elsewhere, has files elsewhere, or cannot be read in that format.
    """
    if kind not in FORMATS:
        raise StateError(f"stream {stream}: expected one of the formats {', '.join(FORMATS)}, found {kind!r}")
    uri = None if _PATTERN.intersection(table) else resolved(table)
    if uri is None or not is_below(uri, roots):
        raise StateError(
            f"stream {stream}: expected the URI of a table below {' or '.join(roots) or 'no folder'}, found "
            f"{table}. Copy the table there, or have its folder added to STATEWARD_SEED_ROOTS."
        )
    with redact_spark_errors(StateError, f"stream {stream}: the table {table} cannot be read as {kind}"):
        session = spark()
        reader = session.read.option("header", True) if kind == "csv" else session.read
        rows = reader.format(kind).load(uri)
        files = rows.inputFiles()
    # A Delta table may refer to files anywhere, and a link may lead anywhere.
    found = (resolved(unquote(one)) for one in files)
    if not all(one is not None and is_below(one, roots) for one in found):
        raise StateError(
            f"stream {stream}: expected all files of the table {table} below {' or '.join(roots)}, found "
            "some elsewhere. Copy the table as a whole, or have their folder added to STATEWARD_SEED_ROOTS."
        )
    return rows


def without_forgotten(
    rows: DataFrame, key: tuple[str, Sequence[str], str], forgotten: frozenset[str], secret: str
) -> DataFrame:
    """Leave out the rows of forgotten keys.

    Args:
        rows: The table.
        key: The field of the stream's key, its columns in the table, and the separator between them.
        forgotten: HMACs of the keys (`stateward.contract.privacy.forgotten.digest_of`).
        secret: The installation's.
    """
    field, columns, separator = key

    def kept(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            parts = zip(*(batch.column(name).to_pylist() for name in columns), strict=True)
            keys = (separator.join(map(str, one)) for one in parts)
            keep = [digest_of(secret, field, one) not in forgotten for one in keys]
            yield batch.filter(pa.array(keep, pa.bool_()))

    return rows.mapInArrow(kept, rows.schema)


def resolved(uri: str) -> str | None:
    """The canonical URI of a file or folder, without links and `..`; None if it has none.

    A path without a scheme is local. Only local storage has links.
    """
    scheme, separator, path = uri.partition("://")
    if not separator:
        # Hadoop writes `file:/path`.
        scheme, path = "file", uri.removeprefix("file:")
    scheme = scheme.lower()
    parts = path.split("/")
    if scheme == "file":
        return f"file://{os.path.realpath(path)}" if path.startswith("/") else None
    if not parts[0] or {"", ".", ".."}.intersection(parts[1:-1]) or parts[-1] in (".", ".."):
        return None
    return f"{scheme}://{path.rstrip('/')}"


def is_below(uri: str, roots: Sequence[str]) -> bool:
    """Whether a resolved URI is below one of some folders."""
    known = [root for one in roots if (root := resolved(one)) is not None]
    return any(uri.startswith(f"{root.rstrip('/')}/") for root in known)


@contextmanager
def redact_spark_errors(kind: Callable[[str], Exception], what: str) -> Iterator[None]:
    """Raise an error of Spark's as ``kind``, with its condition only: its text may contain values."""
    try:
        yield
    except Exception as error:
        if not is_spark_error(error):
            raise
        log.warning("%s", what, exc_info=error)
        raise kind(f"{what} ({error_condition(error)}). The operation's log has more.") from None


def error_condition(error: Exception) -> str:
    """Spark's error condition, such as ``PATH_NOT_FOUND``, or the name of the error's class."""
    known = getattr(error, "getCondition", lambda: None)()
    return str(known or type(error).__name__)
