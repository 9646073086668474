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


def in_schema(kind: str, **keywords: object) -> WithJsonSchema:
    """Return what the editors' schema has of a text: `kind` says for a person what it may be."""
    return WithJsonSchema({"type": "string", **keywords, "$comment": kind})


def duration_in_schema(kind: str) -> WithJsonSchema:
    """Return what the editors' schema has of a duration."""
    return in_schema(kind, pattern=durations.PATTERN, examples=["30m", "15s"])


Span = Annotated[timedelta, BeforeValidator(durations.parse_duration), duration_in_schema("duration")]
Duration = Annotated[Span, AfterValidator(_positive), duration_in_schema("duration above 0")]
Instant = Annotated[datetime, BeforeValidator(_instant), in_schema("time with its zone")]
Name = Annotated[str, Field(pattern=NAME_PATTERN, json_schema_extra={"$comment": "name"})]
Count = Annotated[int, Field(gt=0)]
Factor = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(gt=0, le=1)]


def _cron(value: str) -> str:
    if len(value.split()) != 5 or not croniter.is_valid(value):
        raise UnexpectedValueError("a cron expression of five fields such as 0 4 * * *")
    return value


Cron = Annotated[str, AfterValidator(_cron), in_schema("cron, UTC")]


class Part(BaseModel):
    """A mapping of fields, all of them known."""

    # Strict, so that YAML's `yes`, `1.0` and "3" never pass for something else; frozen, because
    # a spec is shared between the DAG processor's threads.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
