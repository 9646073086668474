"""The changes of a Delta table since its last validation, and whether the next one is due."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

MAX_COMMITS_READ = 1000
"""More commits than this since the last validation are not read one by one: the table is overdue."""

# These only rewrite data or metadata; "CREATE TABLE AS SELECT" is another operation.
_WITHOUT_NEW_DATA = {"CREATE TABLE", "OPTIMIZE", "SET TBLPROPERTIES", "VACUUM START", "VACUUM END"}
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Fired:
    """The last version for which a validation was requested, and when."""

    table_id: str
    version: int
    at: datetime

    def to_json(self) -> dict[str, Any]:
        """Convert to plain values, for Airflow's asset state store."""
        return {"table_id": self.table_id, "version": self.version, "at": self.at.isoformat()}

    @classmethod
    def from_json(cls, value: object) -> Fired | None:
        """Read the result of `to_json`; None for anything else."""
        try:
            assert isinstance(value, Mapping)
            return cls(str(value["table_id"]), int(value["version"]), datetime.fromisoformat(value["at"]))
        except (AssertionError, KeyError, TypeError, ValueError):
            return None


@dataclass(frozen=True)
class Changes:
    """Commits that changed the table's data and were neither validated nor fired for.

    Attributes:
        table_id: the table's own identifier; a table that is dropped and created again has another.
        version: the latest version.
        first_at: when the earliest of those commits was made; None when there is none.
        last_at: when the latest of them was made; None when there is none.
        validated_version: the version up to which all have been validated; -1 when none has.
    """

    table_id: str
    version: int
    first_at: datetime | None
    last_at: datetime | None
    validated_version: int = -1


def should_fire(
    changes: Changes, fired: Fired | None, now: datetime, settle: timedelta, max_staleness: timedelta
) -> bool:
    """Decide whether the table is due for a validation.

    It is due when it has unvalidated changes, and has either been unchanged for `settle`, or has been waiting
    for `max_staleness` while it keeps changing. While a requested validation has no results, no other is
    requested, so that runs do not pile up; after `max_staleness` it counts as lost. One version is requested
    once.
    """
    if changes.first_at is None or changes.last_at is None:
        return False
    if fired and fired.table_id == changes.table_id:
        if fired.version >= changes.version:
            return False
        if fired.version > changes.validated_version and now - fired.at < max_staleness:
            return False
    return now - changes.last_at >= settle or now - changes.first_at >= max_staleness


def changes_data(commit: Mapping[str, Any]) -> bool:
    """Tell whether a commit of Delta's history changed data; a streaming sink commits empty batches too."""
    if commit.get("operation") in _WITHOUT_NEW_DATA:
        return False
    metrics = commit.get("operationMetrics") or {}
    parameters = commit.get("operationParameters") or {}
    rows = metrics.get("numOutputRows", metrics.get("num_added_rows"))
    appends = str(parameters.get("mode", parameters.get("outputMode", ""))).lower() == "append"
    return not (appends and rows is not None and int(rows) == 0)


def commit_times(commits: Iterable[Mapping[str, Any]]) -> list[datetime]:
    """Return the times of the commits that changed data, UTC, earliest first."""
    times = [commit["timestamp"] for commit in commits if changes_data(commit)]
    return [datetime.fromtimestamp(time / 1000, tz=UTC) for time in sorted(times)]


class ChangeReader:
    """Reads a table's changes incrementally. Blocking: call it from a thread."""

    def __init__(self, table_uri: str, validations_uri: str, stream: str, table: str) -> None:
        self._table_uri = table_uri
        self._validations_uri = validations_uri
        self._stream = stream
        self._table = table
        self._seen: tuple[str, int] | None = None
        self._validated: dict[str, int] = {}
        self._read: tuple[str, int, int, list[datetime]] | None = None

    def read(self, fired: Fired | None) -> Changes | None:
        """Return the changes since the last validation, or None while there is no table.

        Raises:
            Exception: whatever the storage raises when it cannot be read.
        """
        from deltalake import DeltaTable

        if not DeltaTable.is_deltatable(self._table_uri):
            return None
        table = DeltaTable(self._table_uri)
        table_id, version = str(table.metadata().id), table.version()
        validated = self._validated_version(table_id)
        asked = fired.version if fired and fired.table_id == table_id else -1
        base = max(validated, asked)
        times = self._changes_after(table, table_id, base, version)
        return Changes(
            table_id, version, times[0] if times else None, times[-1] if times else None, validated
        )

    def _changes_after(self, table: Any, table_id: str, base: int, version: int) -> list[datetime]:
        """Return first and last time of the changes in (base, version], reading only new commits."""
        known, times = base, list[datetime]()
        if self._read and self._read[:2] == (table_id, base):
            known, times = self._read[2], self._read[3]
        unread = version - known
        if unread > MAX_COMMITS_READ:
            times = [_LONG_AGO]
        found = commit_times(table.history(min(unread, MAX_COMMITS_READ))) if unread > 0 else []
        times = [*times, *found]
        times = [times[0], times[-1]] if times else []
        self._read = (table_id, base, version, times)
        return times

    def _validated_version(self, table_id: str) -> int:
        import pyarrow.compute as pc
        from deltalake import DeltaTable

        if not DeltaTable.is_deltatable(self._validations_uri):
            return -1
        validations = DeltaTable(self._validations_uri)
        seen = (str(validations.metadata().id), validations.version())
        if seen != self._seen:
            rows = validations.to_pyarrow_table(
                filters=[("stream", "=", self._stream)],
                columns=["table", "table_id", "covered_version"],
            )
            rows = rows.filter(pc.equal(rows["table"], self._table))
            latest = rows.group_by("table_id").aggregate([("covered_version", "max")]).to_pylist()
            self._validated = {row["table_id"]: row["covered_version_max"] for row in latest}
            self._seen = seen
        return self._validated.get(table_id, -1)
