"""The sections `quality` and `reconciliation` of a stream's YAML."""

from datetime import timedelta
from typing import Annotated

from pydantic import Field, field_validator

from stateward.project.spec_fields import Count, Duration, Name, Part, Span, is_cron
from stateward.project.unexpected_value import UnexpectedValueError


class Quality(Part):
    """Which tables are validated, each against the suite of its name, and when."""

    tables: Annotated[list[Name], Field(min_length=1)]
    settle: Span = timedelta(seconds=10)
    max_staleness: Duration = timedelta(minutes=15)
    schedule: str | None = "0 3 * * *"

    @field_validator("schedule")
    @classmethod
    def _cron(cls, value: str | None) -> str | None:
        if value is not None and not is_cron(value):
            raise UnexpectedValueError("a cron expression of five fields such as 0 3 * * *, or null")
        return value


class Reconciliation(Part):
    """When a stream's tables are compared with what its raw events say, and how far back.

    Each run looks at the `days` whole days (UTC) before it. `schedule: null` leaves it to runs by hand.
    """

    schedule: str | None = "30 5 * * *"
    days: Count = 1

    @field_validator("schedule")
    @classmethod
    def _cron(cls, value: str | None) -> str | None:
        if value is not None and not is_cron(value):
            raise UnexpectedValueError("a cron expression of five fields such as 30 5 * * *, or null")
        return value
