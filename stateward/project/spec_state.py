"""The sections `state` and `savepoints` of a stream's YAML."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from stateward.project.spec_fields import Count, Part, is_cron
from stateward.project.unexpected_value import UnexpectedValueError


class StateLimits(Part):
    """Sizes of the state on disk, all retained versions, that need attention (bytes)."""

    warn_bytes: Count = 1_000_000_000
    critical_bytes: Count = 5_000_000_000

    @model_validator(mode="after")
    def _warns_first(self) -> Self:
        if self.warn_bytes > self.critical_bytes:
            raise UnexpectedValueError(
                f"warn_bytes to be at most critical_bytes, found {self.warn_bytes} and {self.critical_bytes}"
            )
        return self


class State(Part):
    """The state store. Once a checkpoint exists, `repartition` changes `partitions`; `buckets` are fixed.

    `buckets` is how many groups the keys are divided into; `cache` is a folder on the driver's machine, or
    null for one that the platform chooses; `limits` are for `stateward state inspect`.
    """

    partitions: Count = 2
    buckets: Annotated[int, Field(ge=1, le=1024)] = 64
    cache: str | None = None
    limits: StateLimits = StateLimits()

    @field_validator("cache")
    @classmethod
    def _absolute(cls, value: str | None) -> str | None:
        if value is not None and not Path(value).is_absolute():
            raise UnexpectedValueError("an absolute path on the driver's machine, or null")
        return value


class Savepoints(Part):
    """When savepoints are made without being asked for, and which of all savepoints stay.

    Each stops the stream for the time it takes. The newest `keep` good ones stay, and all that are younger
    than `days` days.
    """

    schedule: str
    keep: Count = 3
    days: Annotated[int, Field(ge=0)] = 7

    @field_validator("schedule")
    @classmethod
    def _cron(cls, value: str) -> str:
        if not is_cron(value):
            raise UnexpectedValueError("a cron expression of five fields such as 0 4 * * *")
        return value
