"""References to versions of tables: by savepoints, and by validations that can be repeated."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from stateward.contract.names import QUALITY_VALIDATIONS
from stateward.contract.storage import CorruptDocumentError, list_names, read_json
from stateward.maintenance.retention import Need
from stateward.project.layout import Layout

_STAMP = "%Y%m%dT%H%M%SZ"
# A savepoint without a manifest may be incomplete. After this time it can no longer be restored.
_LONGEST_MAKING = timedelta(days=1)


@dataclass(frozen=True)
class SavepointNeeds:
    """The references of savepoints.

    Attributes:
        by_table_id: By Delta's identifier of the table; a table created again has another one.
        in_doubt: By stream, why the references of its savepoints are unknown. Nothing may be removed then.
    """

    by_table_id: Mapping[str, tuple[Need, ...]]
    in_doubt: Mapping[str, str]


def savepoint_needs(layout: Layout, now: datetime) -> SavepointNeeds:
    """Read the manifests of all savepoints of all streams.

    Shared tables need no version: a restore deletes the rows of one stream from them.

    Args:
        layout: Where savepoints are.
        now: The time, aware.
    """
    needs: dict[str, list[Need]] = defaultdict(list)
    in_doubt: dict[str, str] = {}
    for stream in _names(layout.savepoints_root_uri):
        pending = _pending(layout, stream)
        if pending:
            in_doubt[stream] = pending
        for savepoint in _names(layout.savepoints_uri(stream)):
            uri = f"{layout.savepoints_uri(stream)}/{savepoint}"
            try:
                manifest = read_json(f"{uri}/manifest.json")
                found = list(_of(manifest or {}, f"savepoint {savepoint} of {stream}"))
            except (CorruptDocumentError, AttributeError, KeyError, TypeError) as error:
                in_doubt[stream] = (
                    f"savepoint {savepoint} of {stream} cannot be read ({error}); `stateward state savepoints"
                    f" {stream}` says what is wrong with it, and `stateward state prune {stream}` removes it"
                )
                continue
            if manifest is None and now - (_begun(savepoint) or now) < _LONGEST_MAKING:
                in_doubt[stream] = f"savepoint {savepoint} of {stream} is in the making, or was interrupted"
            for table_id, need in found:
                needs[table_id].append(need)
    return SavepointNeeds({table: tuple(found) for table, found in needs.items()}, in_doubt)


def _of(manifest: Mapping[str, Any], why: str) -> Iterable[tuple[str, Need]]:
    for table in manifest.get("tables", {}).values():
        if table["version"] is not None and table["table_id"] and table.get("batches") is None:
            yield str(table["table_id"]), Need(int(table["version"]), why)


def _pending(layout: Layout, stream: str) -> str | None:
    uri = f"{layout.checkpoint_uri(stream)}/current.json"
    try:
        document = read_json(uri) or {}
    except CorruptDocumentError as error:
        return str(error)
    if document.get("pending"):
        return f"a state operation on {stream} has begun to change its tables and did not end"
    return None


def _begun(savepoint: str) -> datetime | None:
    try:
        return datetime.strptime(savepoint[:16], _STAMP).replace(tzinfo=UTC)
    except ValueError:
        return None


def _names(uri: str) -> list[str]:
    return sorted(name for name in list_names(uri) if not name.startswith("."))


def validation_needs(layout: Layout, now: datetime, kept: Mapping[str, timedelta]) -> dict[str, list[Need]]:
    """Versions that recent validations refer to, by Delta's identifier of the table.

    These are the last version of a range, the one before its first, and the versions of other tables that the
    validation read.

    Args:
        layout: Where `quality_validations` is.
        now: The time, aware.
        kept: By table, how long a validation can be repeated.
    """
    from deltalake import DeltaTable

    uri = layout.table_uri(QUALITY_VALIDATIONS)
    if not kept or not DeltaTable.is_deltatable(uri):
        return {}
    rows = DeltaTable(uri).to_pyarrow_table(
        columns=["table", "table_id", "from_version", "table_version", "reads", "validated_at"],
        filters=[("validated_at", ">=", now - max(kept.values()))],
    )
    # Several validations may refer to one version; the last is named.
    latest: dict[tuple[str, int], datetime] = {}
    for row in rows.to_pylist():
        at = row["validated_at"]
        if now - at <= kept.get(row["table"], timedelta(0)):
            for rested_on in _rested_on(row):
                latest[rested_on] = max(at, latest.get(rested_on, at))
    needs: dict[str, list[Need]] = defaultdict(list)
    for (table_id, version), at in latest.items():
        needs[table_id].append(Need(version, f"the validation of {at:%Y-%m-%d %H:%M} UTC"))
    return dict(needs)


def _rested_on(row: Mapping[str, Any]) -> Iterable[tuple[str, int]]:
    """Tables and versions of one validation."""
    yield row["table_id"], row["table_version"]
    if row["from_version"] > 0:
        yield row["table_id"], row["from_version"] - 1
    for pin in json.loads(row["reads"]).values():
        yield pin["table_id"], pin["version"]
