"""What the documents of one stream say, as samples of the metrics. Pure.

An unknown value has no sample: a 0 would be a value.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from stateward.contract.measures import MEASURES
from stateward.contract.stream_control import Supervisor
from stateward.contract.stream_status import BOUNDS, OUTCOMES, Status
from stateward.control.health import health
from stateward.control.health.health import Limit
from stateward.control.reconcile.decide import Healthy, Observed, decide
from stateward.metrics import catalogue
from stateward.metrics.catalogue import Family
from stateward.pages.streams.condition import condition
from stateward.pages.streams.view import Documents

_WITHOUT_DRIVER = frozenset({"watermark_delay"})
"""Measures that stay true without a driver."""


@dataclass(frozen=True)
class Sample:
    """One value.

    Attributes:
        family: The metric.
        labels: Values of the family's labels, in their order.
        value: In the unit of the metric's name; of a state-set the state that it is in.
    """

    family: Family
    labels: tuple[str, ...]
    value: float | str


def samples_of(read: Documents, now: datetime, stale_after: timedelta) -> list[Sample]:
    """Return every sample of one stream.

    Args:
        read: What was read of it.
        now: The time, aware.
        stale_after: Age of the supervisor's heartbeat from which on it counts for nothing.

    Raises:
        TypeError: A document holds a number that is none.
    """
    stream, seen = read.stream, read.seen
    found = [Sample(catalogue.READABLE, (stream,), float(not read.problems))]
    if seen is not None:
        found += _wish(stream, seen, read.supervisor, now, stale_after)
        found += _present(read, seen, now)
        if seen.status is not None:
            found += _driver(stream, seen.status, now)
            found += _measures(stream, seen, seen.status, read.limits.measures if read.limits else {}, now)
            found += _counters(stream, seen.status)
    if read.limits is not None:
        found += _limits(stream, read.limits.measures)
    return found


def unreadable(stream: str) -> list[Sample]:
    """Return the one sample of a stream whose documents cannot be used."""
    return [Sample(catalogue.READABLE, (stream,), 0.0)]


def _wish(
    stream: str, seen: Observed, supervisor: Supervisor | None, now: datetime, stale_after: timedelta
) -> Iterator[Sample]:
    control = seen.control
    if control is None:
        return
    watched = supervisor is not None and now - supervisor.at <= stale_after
    yield Sample(catalogue.DESIRED, (stream,), float(control.desired == "running"))
    yield Sample(catalogue.HELD, (stream,), float(control.hold is not None))
    yield Sample(catalogue.SUPERVISED, (stream,), float(watched))
    yield Sample(catalogue.RESTARTS, (stream,), float(control.failures))


def _present(read: Documents, seen: Observed, now: datetime) -> Iterator[Sample]:
    if read.limits is None:
        return
    action = decide(read.limits, seen, now)
    state = condition(seen, action).state.replace(" ", "_")
    yield Sample(catalogue.UP, (read.stream,), float(isinstance(action, Healthy)))
    yield Sample(catalogue.STATE, (read.stream,), state)


def _driver(stream: str, status: Status, now: datetime) -> Iterator[Sample]:
    yield Sample(catalogue.STATUS_AGE, (stream,), (now - status.updated_at).total_seconds())
    yield Sample(catalogue.DRIVER_START, (stream,), status.started_at.timestamp())
    yield from _if_known(catalogue.EPOCH, (stream,), status.epoch)
    if status.last_batch_at is not None:
        yield Sample(catalogue.LAST_COMMIT_AGE, (stream,), (now - status.last_batch_at).total_seconds())


def _measures(
    stream: str, seen: Observed, status: Status, limits: Mapping[str, Limit], now: datetime
) -> Iterator[Sample]:
    # A driver that has ended, or is silent, would be shown with the lag that it had.
    present = seen.own_status is not None and health.can_be_judged(status, now)
    if present:
        yield from _state(stream, status)
        for topic, lag in (status.lag_by_topic or {}).items():
            yield Sample(catalogue.TOPIC_LAG, (stream, topic), float(lag))
    for name, family in catalogue.MEASURES.items():
        if not present and name not in _WITHOUT_DRIVER:
            continue
        value = MEASURES[name].read(status, now)
        yield from _if_known(family, (stream,), value)
        if present and value is not None:
            for level, limit in _levels(limits.get(name)):
                yield Sample(catalogue.BREACH, (stream, name, level), float(value > limit))


def _state(stream: str, status: Status) -> Iterator[Sample]:
    yield from _if_known(catalogue.LARGEST_KEY, (stream,), status.largest_key_bytes)
    for partition, size in (status.partition_bytes or {}).items():
        yield Sample(catalogue.PARTITION_BYTES, (stream, partition), float(size))
    for operator in status.operators or ():
        for name, family in catalogue.OPERATORS.items():
            value: float | None = getattr(operator, name)
            if value is not None and name == "commit_ms":
                value /= 1000
            yield from _if_known(family, (stream, operator.name), value)


def _counters(stream: str, status: Status) -> Iterator[Sample]:
    """Totals of the checkpoint, which go on over restarts of the driver."""
    generation = status.generation
    of = "" if generation is None else str(generation)
    yield from _if_known(catalogue.GENERATION, (stream,), generation)
    yield from _if_known(catalogue.DELIVERED, (stream, of), status.delivered)
    yield from _if_known(catalogue.WITHOUT_RECORD, (stream, of), status.without_record)
    for outcome in OUTCOMES:
        yield from _if_known(catalogue.RECORDS, (stream, outcome, of), getattr(status, outcome))
    yield from _if_known(catalogue.ROWS, (stream, of), status.rows_out)
    for bound in BOUNDS:
        yield from _if_known(catalogue.BOUND_COSTS, (stream, bound, of), (status.bounds or {}).get(bound))


def _limits(stream: str, limits: Mapping[str, Limit]) -> Iterator[Sample]:
    for name in catalogue.MEASURES:
        for level, limit in _levels(limits.get(name)):
            yield Sample(catalogue.LIMIT, (stream, name, level), limit)


def _levels(limit: Limit | None) -> Iterator[tuple[str, float]]:
    limit = limit or Limit()
    for level, value in (("warn", limit.warn), ("critical", limit.critical)):
        if value is not None:
            yield level, float(value)


def _if_known(family: Family, labels: tuple[str, ...], value: float | None) -> Iterator[Sample]:
    """Make a sample of a number.

    Raises:
        TypeError: It is none.
    """
    if value is None:
        return
    if not math.isfinite(value):
        raise TypeError(f"{family.name}: expected a number, found {value!r}")
    yield Sample(family, labels, float(value))
