"""What a run validates: the range of versions in its form, and the tables that it is about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stateward.airflow.compat import AirflowFailException

if TYPE_CHECKING:
    from airflow.sdk import Context


@dataclass(frozen=True)
class Asked:
    """The range of versions in the form of a run.

    Attributes:
        from_version: first version to validate; None for the one after the last validated version.
        to_version: the last one; None for the latest when the job starts, so that a late run validates
            everything that was written.
    """

    from_version: int | None
    to_version: int | None


def requested(context: Context, table: str) -> Asked:
    """Return the range in the form.

    Raises:
        AirflowFailException: a range is given without the table, of several, to which it applies.
    """
    params = context["params"]
    asked = Asked(params.get("from_version"), params.get("to_version"))
    if asked != Asked(None, None) and params.get("table") is None:
        raise AirflowFailException(
            f"{table}: expected a table for the range of versions, found none. Trigger the run again and"
            " choose one; each table has versions of its own."
        )
    return asked


def is_wanted(context: Context, table: str) -> bool:
    """Tell whether the run is about the table: it was chosen, has changed, or all tables are due."""
    chosen = context["params"].get("table")
    if chosen is not None:
        return bool(chosen == table)
    changed = {
        event.extra["payload"]["table"]
        for events in context["triggering_asset_events"].values()
        for event in events
        if event.extra.get("payload")
    }
    return not changed or table in changed
