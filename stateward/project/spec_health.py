"""The sections `health`, `restart`, `lease`, `spark` and `timeout` of a stream's YAML: how a driver runs."""

import re
from datetime import timedelta
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, create_model, model_validator

from stateward.contract.measures import MEASURES
from stateward.project.durations import format_duration
from stateward.project.spec_fields import Count, Duration, Factor, Part, Share, Span, duration_in_schema
from stateward.project.unexpected_value import UnexpectedValueError


def _text(value: timedelta | float) -> str:
    return format_duration(value) if isinstance(value, timedelta) else str(value)


class _Limit(Part):
    @model_validator(mode="after")
    def _warns_first(self) -> Self:
        warn, critical = getattr(self, "warn", None), getattr(self, "critical", None)
        if warn is not None and critical is not None and warn > critical:
            raise UnexpectedValueError(
                f"warn to be at most critical, found {_text(warn)} and {_text(critical)}"
            )
        return self


class DurationLimit(_Limit):
    """Durations above which a measure is worth a warning, or critical; null: not judged."""

    warn: Duration | None = None
    critical: Duration | None = None


class NumberLimit(_Limit):
    """Numbers above which a measure is worth a warning, or critical; null: not judged."""

    warn: Count | None = None
    critical: Count | None = None


class ShareLimit(_Limit):
    """Shares, 0 to 1, above which a measure is worth a warning, or critical; null: not judged."""

    warn: Share | None = None
    critical: Share | None = None


class FactorLimit(_Limit):
    """Multiples above which a measure is worth a warning, or critical; null: not judged."""

    warn: Factor | None = None
    critical: Factor | None = None


_KINDS: dict[str, type[_Limit]] = {"share": ShareLimit, "factor": FactorLimit}


def _limits() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, measure in MEASURES.items():
        limits = {"warn": measure.warn, "critical": measure.critical}
        if measure.unit == "seconds":
            of_time = {level: None if at is None else timedelta(seconds=at) for level, at in limits.items()}
            found[name] = (DurationLimit, Field(DurationLimit(**of_time), description=measure.help))
        else:
            kind = _KINDS.get(measure.unit, NumberLimit)
            found[name] = (kind, Field(kind.model_validate(limits), description=measure.help))
    return found


class HealthLimits(create_model("_Limits", __base__=Part, **_limits())):  # type: ignore[misc]
    """What is reported of a stream that runs, with its likely cause; nothing is restarted for it."""


def _within_history(value: timedelta) -> timedelta:
    if not timedelta(minutes=5) <= value <= timedelta(hours=5):
        raise UnexpectedValueError("a duration from 5m to 5h: the history has a line a minute for a day")
    return value


GrowthWindow = Annotated[Duration, AfterValidator(_within_history), duration_in_schema("duration, 5m to 5h")]


class Health(Part):
    """Deadlines after which a driver is replaced, and limits that are only reported (docs/health.md)."""

    max_status_age: Duration = Field(
        timedelta(seconds=15), description="a driver that reports nothing for longer hangs"
    )
    start_deadline: Duration = Field(
        timedelta(seconds=120), description="how long a start may take from each `phase` to the next"
    )
    stop_deadline: Duration = Field(
        timedelta(seconds=45), description="how long a drain may take, before SIGTERM"
    )
    kill_grace: Duration = Field(timedelta(seconds=10), description="from SIGTERM to SIGKILL")
    max_commit_age: Duration = Field(
        timedelta(minutes=10), description="how long records may wait without a commit"
    )
    growth_window: GrowthWindow = Field(
        timedelta(hours=1),
        description="over which the growth of a state is compared with that of its input; a change takes"
        " effect with the next driver",
    )
    limits: HealthLimits = HealthLimits()


class Restart(Part):
    """Delays of restarts after a failure, the first of which is immediate."""

    backoff: Duration = Field(
        timedelta(seconds=5), description="delay of the second restart; each further one waits twice as long"
    )
    max_backoff: Duration = Field(timedelta(minutes=2), description="the longest delay")
    max_attempts: Count = Field(5, description="a stream is given up after so many restarts in `window`")
    window: Duration = Field(timedelta(minutes=15), description="the time in which restarts are counted")


class Lease(Part):
    """How long a driver may write after its last renewal, and how often it renews."""

    ttl: Duration = Field(timedelta(seconds=20), description="how long it may write")
    renew: Duration = Field(timedelta(seconds=5), description="how often it renews: at most a third of `ttl`")

    @model_validator(mode="after")
    def _renews_in_time(self) -> Self:
        if self.renew * 3 > self.ttl:
            raise UnexpectedValueError(
                f"lease.renew to be at most a third of lease.ttl"
                f" ({format_duration(self.ttl)}), so that two missed renewals are survived"
            )
        return self


Memory = Annotated[
    str, Field(pattern=r"^[1-9][0-9]*[mg]$", json_schema_extra={"$comment": "such as 512m or 2g"})
]
_COUNTS = ("spark.cores.max", "spark.executor.cores", "spark.executor.instances")
_DYNAMIC = "spark.dynamicAllocation.enabled"


def _counts_are_whole(conf: dict[str, str]) -> dict[str, str]:
    for name in _COUNTS:
        if not re.fullmatch(r"[1-9][0-9]*", conf.get(name, "1")):
            raise UnexpectedValueError(f"{name} to be a whole number above 0, found {conf[name]!r}")
    return conf


Conf = Annotated[dict[str, str], AfterValidator(_counts_are_whole)]


class Spark(Part):
    """How the driver is submitted, and what it takes of a cluster (docs/spark-and-storage.md)."""

    conn_id: str = Field("spark_default", description="the Airflow connection that names the master")
    driver_memory: Memory = Field("1g", description="heap of the driver's JVM")
    executors: Count = Field(1, description="executors on a cluster; a local master has none")
    executor_cores: Count = Field(1, description="cores of each executor")
    executor_memory: Memory = Field(
        "1g", description="heap of each executor's JVM; Python's workers and RocksDB need more in addition"
    )
    conf: Conf = Field(default={}, description="Spark's settings, which go before those of the platform")

    @model_validator(mode="after")
    def _keeps_its_executors(self) -> Self:
        if self.conf.get(_DYNAMIC, "").strip().lower() == "true":
            raise UnexpectedValueError(
                f"no {_DYNAMIC}: Spark's dynamic allocation is that of batch jobs. It would give back an idle"
                " executor with the states that it has loaded, and another application may take its cores."
                " Set `executors`, `executor_cores` and `executor_memory`",
                field=("conf", _DYNAMIC),
                found=self.conf[_DYNAMIC],
            )
        return self


class Timeout(Part):
    """When timeouts of keys fire."""

    jitter: Span = Field(
        timedelta(0),
        description="timeouts that are due together are spread over so long; their rows come later, and are"
        " the same",
    )
