"""The tables to maintain, and the task for each."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from stateward.contract.storage import exists, list_names
from stateward.maintenance.maintain import Task
from stateward.maintenance.needs import SavepointNeeds, savepoint_needs, validation_needs
from stateward.maintenance.policy import load_policies
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from stateward.project.spec import load_specs


def table_names(layout: Layout) -> list[str]:
    """List the Delta tables of this installation, by name.

    Leases are excluded: a commit by another process would take a lease from its holder. They clean up after
    themselves.
    """
    names = list_names(layout.tables_uri)
    return sorted(name for name in names if exists(f"{layout.table_uri(name)}/_delta_log"))


class UnknownTableError(ValueError):
    """A requested table does not exist."""


def tasks(settings: Settings, names: Collection[str], now: datetime) -> list[Task]:
    """Plan the maintenance of some tables, or of all.

    Args:
        settings: Where tables, savepoints and policies are.
        names: The tables; empty for all.
        now: The time, aware.

    Raises:
        UnknownTableError: One of them does not exist.
        PolicyError: The file with the policies cannot be used.
    """
    from deltalake import DeltaTable

    layout = Layout.of(settings)
    there = table_names(layout)
    if unknown := sorted(set(names) - set(there)):
        raise UnknownTableError(
            f"maintenance: expected some of the tables {', '.join(there) or '(none yet)'}, found "
            f"{', '.join(unknown)}. Correct the name, or give none for all tables."
        )
    policies = load_policies(settings.maintenance)
    kept = {name: policies.of(name).validations for name in there}
    savepoints = savepoint_needs(layout, now)
    validated = validation_needs(layout, now, kept)
    owners = {table: spec.stream for spec in load_specs(settings.streams)[0] for table in spec.tables}
    made = []
    for name in sorted(names) or there:
        uri = layout.table_uri(name)
        table_id = str(DeltaTable(uri).metadata().id)
        needs = (*savepoints.by_table_id.get(table_id, ()), *validated.get(table_id, ()))
        made.append(Task(name, uri, policies.of(name), needs, _doubt(savepoints, owners.get(name), owners)))
    return made


def _doubt(savepoints: SavepointNeeds, owner: str | None, owners: dict[str, str]) -> str:
    """Say why nothing may be removed from a table: savepoints of its stream, or of an unknown one."""
    known = set(owners.values())
    reasons = [why for stream, why in savepoints.in_doubt.items() if stream == owner or stream not in known]
    return "; ".join(reasons)
