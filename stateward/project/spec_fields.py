"""What the fields of a stream's YAML are made of."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

from croniter import croniter  # type: ignore[import-untyped]  # comes with Airflow, has no stubs
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from stateward.project import durations
from stateward.project.project import NAME_PATTERN
from stateward.project.unexpected_value import UnexpectedValueError


def _positive(value: timedelta) -> timedelta:
    if value <= timedelta(0):
        raise UnexpectedValueError("a duration above zero")
    return value


def _instant(value: object) -> datetime:
    try:
        parsed = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError:
        parsed = None
    if parsed is None or parsed.tzinfo is None:
        raise UnexpectedValueError("a time with its zone such as 2000-01-01T00:00:00Z")
    return parsed.astimezone(UTC)


Span = Annotated[
    timedelta,
    BeforeValidator(durations.parse_duration),
    WithJsonSchema({"type": "string", "pattern": durations.PATTERN, "examples": ["30m", "15s"]}),
]
Duration = Annotated[Span, AfterValidator(_positive)]
Instant = Annotated[datetime, BeforeValidator(_instant), WithJsonSchema({"type": "string"})]
Name = Annotated[str, Field(pattern=NAME_PATTERN)]
Count = Annotated[int, Field(gt=0)]
Factor = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(gt=0, le=1)]


def is_cron(text: str) -> bool:
    """Tell whether a text is a cron expression of five fields."""
    return len(text.split()) == 5 and croniter.is_valid(text)


class Part(BaseModel):
    """A mapping of fields, all of them known."""

    # Strict, so that YAML's `yes`, `1.0` and "3" never pass for something else; frozen, because
    # a spec is shared between the DAG processor's threads.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
