"""The sections `quality` and `reconciliation` of a stream's YAML."""

from datetime import timedelta

from pydantic import Field

from stateward.project.spec_fields import Count, Cron, Duration, Name, Part, Span


class Quality(Part):
    """Which tables are validated, each against the suite of its name, and when (docs/quality.md)."""

    tables: list[Name] = Field(min_length=1, description="some of the stream's `tables`")
    settle: Span = Field(
        timedelta(seconds=10), description="a changed table is validated once it has not changed for so long"
    )
    max_staleness: Duration = Field(
        timedelta(minutes=15),
        description="a table that keeps changing is validated so long after its first change",
    )
    schedule: Cron | None = Field("0 3 * * *", description="when every table is validated, changed or not")


class Reconciliation(Part):
    """When a stream's tables are compared with what its raw events say (docs/reconciliation.md)."""

    schedule: Cron | None = Field("30 5 * * *", description="null: only by hand")
    days: Count = Field(1, description="how many whole days (UTC) before it a run compares")
