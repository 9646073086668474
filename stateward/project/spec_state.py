"""The sections `state`, `savepoints`, `state_care` and `state_export` of a stream's YAML."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from stateward.contract.state_care import MAX_PARTITION_BYTES
from stateward.project.spec_fields import Count, Cron, Duration, Part
from stateward.project.unexpected_value import UnexpectedValueError


class StateLimits(Part):
    """Sizes of the state on disk, with all retained versions, for `stateward state inspect`."""

    warn_bytes: Count = Field(1_000_000_000, description="bytes above which it warns")
    critical_bytes: Count = Field(5_000_000_000, description="bytes above which they are critical")

    @model_validator(mode="after")
    def _warns_first(self) -> Self:
        if self.warn_bytes > self.critical_bytes:
            raise UnexpectedValueError(
                f"warn_bytes to be at most critical_bytes, found {self.warn_bytes} and {self.critical_bytes}"
            )
        return self


class State(Part):
    """The state store (docs/keyed-state-store.md)."""

    partitions: Count = Field(
        2, description="partitions of the state, for the first start; then the verb `repartition` changes it"
    )
    buckets: Annotated[int, Field(ge=1, le=1024)] = Field(
        64, description="groups that the keys are divided into; then the verb `migrate` changes it"
    )
    cache: str | None = Field(
        None,
        description="absolute path of a folder on the driver's machine for the local copy of the state; null:"
        " the driver's temporary folder, with `stateward up` `cache/<stream>` in the home",
    )
    limits: StateLimits = StateLimits()

    @field_validator("cache")
    @classmethod
    def _absolute(cls, value: str | None) -> str | None:
        if value is not None and not Path(value).is_absolute():
            raise UnexpectedValueError("an absolute path on the driver's machine, or null")
        return value


class Savepoints(Part):
    """Which savepoints stay. The DAG of `state_care` makes them; `savepoints: null` makes none."""

    schedule: Cron | None = Field(
        None, description="that of `state_care`, in a YAML from before that section had one"
    )
    keep: Count = Field(3, description="so many of the newest good ones stay")
    days: Annotated[int, Field(ge=0)] = Field(7, description="all that are younger stay too (days)")


class CareLimits(Part):
    """Limits of what is advised, and of what the policy may do."""

    max_pause: Duration = Field(
        timedelta(minutes=30),
        description="`auto` asks a person before a change that is expected to stop the stream for longer",
    )
    max_partitions: Count | None = Field(None, description="the most partitions that are proposed")
    partition_bytes: Count = Field(
        MAX_PARTITION_BYTES, description="so many partitions are proposed that none is larger (bytes)"
    )


class StateCare(Part):
    """When a state is measured, and what may be changed of it without a person (docs/state-care.md)."""

    schedule: Cron | None = Field(
        None,
        description="when the window opens; null: daily between 02:00 and 04:00, at a minute that follows"
        " from the stream's name, so that not all streams are measured at once",
    )
    window: Duration = Field(
        timedelta(hours=4), description="how long it is open; a run by hand opens one of its own"
    )
    # YAML 1.1 reads `off` as false.
    policy: Annotated[
        Literal["off", "propose", "approve", "auto"],
        BeforeValidator(lambda value: "off" if value is False else value),
    ] = Field(
        "propose",
        description="`propose` reports, `approve` waits for a person, `auto` acts, `off` does not look",
    )
    looks: Count = Field(
        3, description="how many looks in a row have to advise a change before `auto` makes it"
    )
    day: Duration = Field(
        timedelta(days=1),
        description="how long a day of the policy is: with two minutes one can be tried in an hour, if"
        " `schedule` is as often",
    )
    limits: CareLimits = CareLimits()


class StateExport(Part):
    """When the state is written to the table `state_exports` (docs/state-export.md)."""

    schedule: Cron = Field(description="when it is written")
    keep: Count = Field(30, description="the newest exports that stay")
