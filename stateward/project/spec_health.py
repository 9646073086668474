"""The sections `health` and `restart` of a stream's YAML."""

from datetime import timedelta
from typing import Annotated, Any, Self

from pydantic import AfterValidator, create_model, model_validator

from stateward.contract.measures import MEASURES
from stateward.project.durations import format_duration
from stateward.project.spec_fields import Count, Duration, Factor, Part, Share
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
            found[name] = (DurationLimit, DurationLimit(**of_time))
        else:
            kind = _KINDS.get(measure.unit, NumberLimit)
            found[name] = (kind, kind.model_validate(limits))
    return found


class HealthLimits(create_model("_Limits", __base__=Part, **_limits())):  # type: ignore[misc]
    """What is reported of a stream that runs, with its likely cause; nothing is restarted for it.

    `lag` in records, `lag_growth` in records a second, `state_bytes`, `bytes_per_key` and `memory_bytes` in
    bytes, shares from 0 to 1; `largest_key`, `partition_imbalance`, `key_growth` and
    `state_growth` are factors (docs/health.md).
    """


def _within_history(value: timedelta) -> timedelta:
    if not timedelta(minutes=5) <= value <= timedelta(hours=5):
        raise UnexpectedValueError("a duration from 5m to 5h: the history has a line a minute for a day")
    return value


GrowthWindow = Annotated[Duration, AfterValidator(_within_history)]


class Health(Part):
    """Deadlines of a driver, after which it is replaced, and limits that are only reported.

    `growth_window` is the time over which the growth of a state is compared with that of its input, which
    takes four such windows; a change takes effect with the next driver.
    """

    max_status_age: Duration = timedelta(seconds=15)
    start_deadline: Duration = timedelta(seconds=120)
    stop_deadline: Duration = timedelta(seconds=45)
    kill_grace: Duration = timedelta(seconds=10)
    max_commit_age: Duration = timedelta(minutes=10)
    growth_window: GrowthWindow = timedelta(hours=1)
    limits: HealthLimits = HealthLimits()


class Restart(Part):
    """Back-off: at once, then `backoff`, doubling up to `max_backoff`; `max_attempts` per `window`."""

    backoff: Duration = timedelta(seconds=5)
    max_backoff: Duration = timedelta(minutes=2)
    max_attempts: Count = 5
    window: Duration = timedelta(minutes=15)
