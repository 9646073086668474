"""The tables of a stream's lookups: their newest version, and the rows of one version by key.

The version is part of a batch's plan, so a batch that runs again finds the same rows (docs/lookups.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from stateward.contract.conditions import Condition, ConditionError
from stateward.contract.requests import LookupConfig
from stateward.contract.stream_settings import Lookup

if TYPE_CHECKING:
    from stateward.runtime.delta.delta_tables import TableHandle

Lookups = Mapping[str, Mapping[Any, Any]]
"""By the name of a lookup its rows by key; none of them can be changed."""

# Versions that a process keeps in memory: those of two batches of a few lookups.
_KEPT = 8
_KINDS: Mapping[type[Any], tuple[Any, ...]] = {
    str: (pa.types.is_string, pa.types.is_large_string, pa.types.is_decimal, pa.types.is_date),
    int: (pa.types.is_integer, pa.types.is_timestamp),
    float: (pa.types.is_floating,),
    bool: (pa.types.is_boolean,),
    bytes: (pa.types.is_binary, pa.types.is_large_binary),
}


class TableVersion(NamedTuple):
    """A version of a table, and Delta's id of the table."""

    version: int
    table_id: str


class LookupInvalidError(ConditionError, ValueError):
    """A table is not there, or is not what the stream's declaration needs."""

    condition = Condition.LOOKUP_INVALID


class LookupGoneError(ConditionError, RuntimeError):
    """The version of a batch's plan can no longer be read."""

    condition = Condition.LOOKUP_GONE


@dataclass(frozen=True)
class LookupTable:
    """Where a lookup's table is, and what is read of it.

    Attributes:
        stream: Name of the stream, for errors.
        lookup: The declaration.
        uri: The table.
        key: The key column.
        columns: The column of each field of a row, in their order.
    """

    stream: str
    lookup: Lookup
    uri: str
    key: str
    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"stream {self.stream}, lookup {self.lookup.name}"


def configured_tables(
    stream: str, declared: tuple[Lookup, ...], found: Mapping[str, LookupConfig]
) -> tuple[LookupTable, ...]:
    """The tables of a stream's lookups.

    Args:
        stream: Name of the stream.
        declared: What its declaration needs.
        found: What its configuration has.

    Raises:
        LookupInvalidError: The configuration has other lookups than the declaration.
    """
    names = {one.name for one in declared}
    if names != found.keys():
        raise LookupInvalidError(
            f"stream {stream}: expected the lookups {', '.join(sorted(names)) or 'none'}, found "
            f"{', '.join(sorted(found)) or 'none'}. Correct `lookups` in the stream's YAML."
        )
    tables = []
    for one in declared:
        config = found[one.name]
        columns = tuple(config.columns.get(field, field) for field in one.kinds)
        tables.append(LookupTable(stream, one, config.uri, config.key or one.key, columns))
    return tuple(tables)


def newest(source: LookupTable) -> TableVersion:
    """The newest version of a table.

    Raises:
        LookupInvalidError: There is no table.
    """
    from deltalake.exceptions import TableNotFoundError

    try:
        table = _handle(source.uri).current()
    except TableNotFoundError:
        raise LookupInvalidError(
            f"{source}: expected a Delta table at {source.uri}, found none. Create it, or correct "
            f"`lookups.{source.lookup.name}.table` in the stream's YAML."
        ) from None
    return TableVersion(table.version(), str(table.metadata().id))


@lru_cache(maxsize=_KEPT)
def _handle(uri: str) -> TableHandle:
    # Not at the top: every Python worker imports this module, and few of them open a table.
    from stateward.runtime.delta.delta_tables import TableHandle

    return TableHandle(uri)


def opened(sources: tuple[LookupTable, ...], versions: Mapping[str, TableVersion]) -> Lookups:
    """The rows of all lookups at the versions of a plan.

    A plan of a release without lookups has no version: nothing was enriched by it, and the newest one counts.

    Raises:
        LookupInvalidError: A table has other columns than the declaration needs.
        LookupGoneError: A version can no longer be read.
    """
    tables = {one.lookup.name: rows_at(one, versions.get(one.lookup.name) or newest(one)) for one in sources}
    return MappingProxyType(tables)


@lru_cache(maxsize=_KEPT)
def rows_at(source: LookupTable, at: TableVersion) -> Mapping[Any, Any]:
    """The rows of one version by their key.

    If several rows have one key, the largest counts, compared column by column, so that every reader takes
    the same one. A row without a key is left out.

    Raises:
        LookupInvalidError: See `opened`.
        LookupGoneError: See `opened`.
    """
    found = _read(source, at)
    keys, *columns = (column.to_pylist() for column in found.columns)
    make = source.lookup.row._make  # type: ignore[attr-defined]
    rows: dict[Any, Any] = {}
    for key, row in zip(keys, map(make, zip(*columns, strict=True)), strict=True):
        if key is not None and (key not in rows or _order(rows[key]) < _order(row)):
            rows[key] = row
    return MappingProxyType(rows)


def _order(row: tuple[Any, ...]) -> tuple[tuple[bool, Any], ...]:
    """A null is before every value."""
    return tuple((value is not None, 0 if value is None else value) for value in row)


def _read(source: LookupTable, at: TableVersion) -> pa.Table:
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, DeltaProtocolError

    try:
        table = DeltaTable(source.uri, version=at.version)
    except DeltaError as error:
        _gone(source, at, "that the table's log no longer has it", error)
    if (table_id := str(table.metadata().id)) != at.table_id:
        _gone(source, at, f"another table there, {table_id}", None)
    _require_columns(source, pa.schema(table.schema()))
    names = dict.fromkeys((source.key, *source.columns))
    try:
        found = table.to_pyarrow_table(columns=list(names))
    except FileNotFoundError as error:
        _gone(source, at, "that some of its files were removed, as VACUUM does", error)
    except DeltaProtocolError as error:
        raise LookupInvalidError(
            f"{source}: the table {source.uri} has a feature that the reader lacks ({error}). Write it "
            "without that feature."
        ) from error
    plain = [_plain(found.column(name)) for name in (source.key, *source.columns)]
    return pa.table(plain, names=[str(number) for number in range(len(plain))])


def _gone(source: LookupTable, at: TableVersion, found: str, error: Exception | None) -> NoReturn:
    raise LookupGoneError(
        f"{source}: expected version {at.version} of the table {source.uri} (id {at.table_id}), with which "
        f"the records were read; found {found}. Put its files back, if there is a copy. Otherwise start the "
        "stream again: a batch of which no table has a row is planned again with the newest version. For a "
        "backfill or a reconciliation choose a later range. Keep old versions for longer (docs/lookups.md, "
        "Retention)."
    ) from error


def _require_columns(source: LookupTable, schema: pa.Schema) -> None:
    missing = [name for name in (source.key, *source.columns) if name not in schema.names]
    if missing:
        raise LookupInvalidError(
            f"{source}: expected the columns {', '.join(missing)} in the table {source.uri}, found "
            f"{', '.join(schema.names)}. Correct `lookups.{source.lookup.name}` in the stream's YAML."
        )
    for column, (field, kind) in zip(source.columns, source.lookup.kinds.items(), strict=True):
        found = schema.field(column).type
        if not any(fits(found) for fits in _KINDS[kind]):
            raise LookupInvalidError(
                f"{source}: expected the column {column} to fit the field {field}, of type {kind.__name__}, "
                f"found {found}. Name another column, or change the declaration."
            )


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values that a packed event can have."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        floored = pc.floor_temporal(column, unit="millisecond")
        return floored.cast(pa.timestamp("ms", kind.tz)).cast(pa.int64())
    if pa.types.is_decimal(kind) or pa.types.is_date(kind):
        return column.cast(pa.string())
    return column
