"""The sections `state`, `savepoints`, `state_care` and `state_export` of a stream's YAML."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from stateward.contract.state_care import MAX_PARTITION_BYTES
from stateward.project.spec_fields import Count, Duration, Part, is_cron
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
    """The state store. Once a checkpoint exists, `repartition` changes `partitions`, and `migrate` `buckets`.

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


def _cron(value: str | None) -> str | None:
    if value is not None and not is_cron(value):
        raise UnexpectedValueError("a cron expression of five fields such as 0 4 * * *, or null")
    return value


class Savepoints(Part):
    """Which savepoints stay. They are made by the DAG of `state_care`; `savepoints: null` makes none.

    The newest `keep` good ones stay, and all that are younger than `days` days. `schedule` is that of
    `state_care` in a YAML from before that section.
    """

    schedule: str | None = None
    keep: Count = 3
    days: Annotated[int, Field(ge=0)] = 7

    _is_cron = field_validator("schedule")(_cron)


class CareLimits(Part):
    """Limits of what is advised, and of what the policy may do.

    `auto` asks a person before a change that is expected to stop the stream for longer than `max_pause`. At
    most `max_partitions` are proposed, and so many that none is larger than `partition_bytes`.
    """

    max_pause: Duration = timedelta(minutes=30)
    max_partitions: Count | None = None
    partition_bytes: Count = MAX_PARTITION_BYTES


class StateCare(Part):
    """When a stream's state is looked at, and what may be changed of it without a person.

    `schedule` (cron, UTC) opens a window that is `window` long; null: daily between 02:00 and 04:00, at a
    minute that follows from the stream's name. `propose` only reports, `approve` waits for a person, `auto`
    acts once `looks` looks in a row have advised the same, and `off` does not look. With a `day` of two
    minutes a policy can be tried in an hour.
    """

    schedule: str | None = None
    window: Duration = timedelta(hours=4)
    # YAML 1.1 reads `off` as false.
    policy: Annotated[
        Literal["off", "propose", "approve", "auto"],
        BeforeValidator(lambda value: "off" if value is False else value),
    ] = "propose"
    looks: Count = 3
    day: Duration = timedelta(days=1)
    limits: CareLimits = CareLimits()

    _is_cron = field_validator("schedule")(_cron)


class StateExport(Part):
    """When the state is written to the table `state_exports` (cron, UTC); the newest `keep` exports stay."""

    schedule: str
    keep: Count = 30

    _is_cron = field_validator("schedule")(_cron)
