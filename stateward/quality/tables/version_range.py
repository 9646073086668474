"""Which versions a validation covers, and which other tables it reads at which of theirs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stateward.quality.tables.table_log import read_commits

if TYPE_CHECKING:
    from datetime import datetime

    from deltalake import DeltaTable


class ValidationError(RuntimeError):
    """The validation failed; the text names the stream, what was found, and what to do."""


@dataclass(frozen=True)
class Pin:
    """One version of one table, which later commits do not change."""

    uri: str
    table_id: str
    version: int


@dataclass(frozen=True)
class Span:
    """A range of versions of one table.

    Attributes:
        table_id: the table's own identifier.
        first: the first version it covers.
        last: the last one, at which the table is read.
        until: when the next version was committed, UTC; None when `last` is the latest.
    """

    uri: str
    table_id: str
    first: int
    last: int
    until: datetime | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the range starts with the first version."""
        return self.first == 0


def covered(spans: Iterable[tuple[int, int]]) -> int:
    """Return the version up to which every version is in one of the ranges; -1 when the first is in none."""
    end = -1
    for first, last in sorted(spans):
        if first > end + 1:
            break
        end = max(end, last)
    return end


def choose(
    *,
    stream: str,
    table: str,
    uri: str,
    asked: tuple[int | None, int | None],
    done: Iterable[tuple[str, int, int]],
) -> Span:
    """Return the range to validate.

    By default it starts after the last version up to which all are validated, and ends with the latest. When
    there is no new version, it is the latest version again.

    Args:
        stream: the stream that writes the table.
        table: the table's name.
        uri: the table.
        asked: first and last version requested; None for the default.
        done: `(table_id, first, last)` of the ranges that have been validated.

    Raises:
        ValidationError: there is no such table, or it has no such versions.
    """
    opened = open_table(stream, uri)
    table_id, latest = str(opened.metadata().id), opened.version()
    first, last = asked
    for version in (first, last):
        if version is not None and not 0 <= version <= latest:
            raise ValidationError(
                f"{stream}: {table} has the versions 0 to {latest}, asked for {version}."
                " Give one of them, or none for the latest."
            )
    last = latest if last is None else last
    if first is None:
        validated = covered((begin, end) for found, begin, end in done if found == table_id)
        first = min(validated + 1, last)
    if first > last:
        raise ValidationError(
            f"{stream}: expected a range of versions of {table}, found {first} to {last}. Swap the two."
        )
    after = read_commits(uri, table, last + 1, last + 1) if last < latest else []
    return Span(uri, table_id, first, last, after[0].at if after else None)


def pin_others(stream: str, span: Span, names: Iterable[str], then: dict[str, Pin]) -> dict[str, Pin]:
    """Return the other tables that a suite reads, each at the recorded version.

    One without a recorded version is read as it was when the last version of the range was the latest.

    Args:
        stream: the stream.
        span: of the validated table; the others lie beside it.
        names: theirs.
        then: the versions that an earlier validation of the same range read.

    Raises:
        ValidationError: one of them does not exist.
    """
    folder = span.uri.rstrip("/").rpartition("/")[0]
    pins = {}
    for name in names:
        uri = f"{folder}/{name}"
        if name in then:
            pins[name] = then[name]
        else:
            opened = open_table(stream, uri)
            if span.until is not None:
                opened.load_as_version(span.until)
            pins[name] = Pin(uri, str(opened.metadata().id), opened.version())
    return pins


def open_table(stream: str, uri: str) -> DeltaTable:
    """Open a table.

    Raises:
        ValidationError: there is none.
    """
    # deltalake and not Spark, whose first query of a Delta log takes seconds.
    from deltalake import DeltaTable

    if not DeltaTable.is_deltatable(uri):
        raise ValidationError(
            f"{stream}: expected a Delta table at {uri}, found none."
            " It appears with the stream's first batch; start the stream."
        )
    return DeltaTable(uri)
