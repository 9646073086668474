"""Which tables there are to maintain, and what is to be done to each."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from upath import UPath

from stateward.maintenance.maintain import Task
from stateward.maintenance.needs import SavepointNeeds, savepoint_needs, validation_needs
from stateward.maintenance.policy import load_policies
from stateward.project.layout import Layout
from stateward.project.settings import Settings
from stateward.project.spec import load_specs


def table_names(layout: Layout) -> list[str]:
    """The Delta tables of this installation, by name.

    Leases are not among them: a commit of somebody else's would take a lease from its holder. They clean
    themselves up.
    """
    folder = UPath(layout.tables_uri)
    if not folder.exists():
        return []
    return sorted(entry.name for entry in folder.iterdir() if (entry / "_delta_log").exists())


class UnknownTableError(ValueError):
    """A table was asked for that is not there."""


def tasks(settings: Settings, names: Collection[str], now: datetime) -> list[Task]:
    """What to do to some tables, or to all.

    Args:
        settings: Where tables, savepoints and policies are.
        names: The tables; empty for all.
        now: The time, aware.

    Raises:
        UnknownTableError: One of them is not there.
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
    """Why nothing may be removed from a table: its stream's savepoints, or those of an unknown stream."""
    known = set(owners.values())
    reasons = [why for stream, why in savepoints.in_doubt.items() if stream == owner or stream not in known]
    return "; ".join(reasons)
