"""The view model of one stream. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from stateward.contract.stream_control import Control, Supervisor
from stateward.contract.stream_status import ENDED, OUTCOMES, OperatorState, Status
from stateward.control.health.thresholds import Thresholds
from stateward.control.reconcile.decide import Action, Observed, decide
from stateward.pages.link import Link
from stateward.pages.streams import history
from stateward.pages.streams.condition import NEVER_STARTED, Condition, condition
from stateward.pages.streams.findings import Finding, findings_of, supervision
from stateward.pages.streams.history import Sample
from stateward.pages.streams.incidents import Incident, Repeated, incidents, repeated
from stateward.rendering.charts import Chart, Mark, Series, across, chart_of
from stateward.rendering.human_units import (
    NOTHING,
    format_ago,
    format_bytes,
    format_count,
    format_duration,
    format_percent,
    format_rate,
    format_time,
)
from stateward.rendering.page_address import STREAMS_PAGE, relative, spark_ui

_ORDER = {"bad": 0, "warn": 1, "good": 2, "calm": 2}
OPERATOR_COLUMNS = (
    "operator",
    "rows",
    "updated",
    "removed",
    "memory",
    "files",
    "cache hits",
    "commit",
)
_COUNTERS = (*OUTCOMES, "rows_out")


@dataclass(frozen=True)
class Documents:
    """The documents of one stream. A missing one is None or empty.

    Attributes:
        stream: The stream's name.
        description: The description in its YAML.
        limits: Its thresholds; None if its YAML is invalid.
        seen: Its documents and its process; None if they cannot be read.
        supervisor: The heartbeat of its supervisor.
        samples: The history, the oldest first.
        links: Links to other pages.
        upgrade: Parts deployed since it was started: `code`, `YAML`.
        problems: Errors of reading.
    """

    stream: str
    description: str = ""
    limits: Thresholds | None = None
    seen: Observed | None = None
    supervisor: Supervisor | None = None
    samples: tuple[Sample, ...] = ()
    links: tuple[Link, ...] = ()
    upgrade: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class StreamView:
    """Everything the page shows of one stream."""

    stream: str
    description: str
    condition: Condition
    desired: str
    wish: str
    hold: str
    findings: tuple[Finding, ...]
    charts: tuple[Chart, ...]
    facts: tuple[tuple[str, str], ...]
    operators: tuple[tuple[str, ...], ...]
    incidents: tuple[Repeated, ...]
    links: tuple[Link, ...]
    problems: tuple[str, ...]

    @property
    def level(self) -> str:
        """Its level, findings included: good, calm, warn or bad."""
        if self.problems or any(finding.level == "critical" for finding in self.findings):
            return "bad"
        return "warn" if self.findings and self.condition.level != "bad" else self.condition.level


def stream_view(read: Documents, begin: datetime, now: datetime, stale_after_s: float) -> StreamView:
    """Build the view of one stream.

    Args:
        read: Its documents.
        begin: The left edge of the charts.
        now: The time, aware; the right edge.
        stale_after_s: Age from which the supervisor's heartbeat is stale, seconds.
    """
    control = read.seen.control if read.seen else None
    status = read.seen.status if read.seen else None
    known = _known(read, history.sample_of_status(status) if status else None)
    action = None
    if read.limits and read.seen:
        seen = replace(read.seen, stalled_since=history.stalled_since(known))
        action = decide(read.limits, seen, now)
    happened = incidents(known, control)
    found = _condition(read, action)
    return StreamView(
        stream=read.stream,
        description=read.description,
        condition=found,
        desired=control.desired if control else "",
        wish=_wish(read.seen, now),
        hold=str(control.hold) if control and control.hold and found.state != "held" else "",
        findings=_findings(read, action, now, stale_after_s),
        charts=_charts(known, happened, begin, now, _max_lag(read)),
        facts=_facts(read, now),
        operators=_operators(status),
        incidents=repeated(happened),
        links=(*read.links, *_log(control), *_spark_ui(status)),
        problems=read.problems,
    )


def _log(control: Control | None) -> tuple[Link, ...]:
    application = control.launch.application if control and control.launch else None
    page = application.page if application else ""
    return (Link("Driver's log", page, "in its container, shown by YARN", outer=True),) if page else ()


def _spark_ui(status: Status | None) -> tuple[Link, ...]:
    if status is None or status.spark_ui is None or status.state in ENDED:
        return ()
    way = relative(spark_ui(status.stream), STREAMS_PAGE)
    return (Link("Spark UI", way, "jobs, stages, the query's batches", outer=True),)


def in_order(views: list[StreamView]) -> list[StreamView]:
    """Sort streams with problems first, then by name; those that were never started last."""

    def place(view: StreamView) -> tuple[int, bool, str]:
        return _ORDER[view.level], view.condition.state == NEVER_STARTED, view.stream

    return sorted(views, key=place)


def _condition(read: Documents, action: Action | None) -> Condition:
    if read.seen is not None and action is not None:
        return condition(read.seen, action)
    status = read.seen.own_status if read.seen else None
    if status is None:
        return Condition("unknown", "bad", "")
    return Condition(status.state, "warn", f"by its driver's own account: {status.message or 'no message'}")


def _max_lag(read: Documents) -> float | None:
    limit = read.limits.measures.get("lag") if read.limits else None
    return limit.warn if limit else None


def _findings(
    read: Documents, action: Action | None, now: datetime, stale_after_s: float
) -> tuple[Finding, ...]:
    if read.seen is None or action is None:
        return ()
    return (*findings_of(action), *supervision(read.seen, read.supervisor, now, stale_after_s))


def _wish(seen: Observed | None, now: datetime) -> str:
    """Return the reason of the desired state, and who requested it."""
    control = seen.control if seen else None
    if control is None:
        return ""
    if control.override is not None:
        why = f": {control.override.reason}" if control.override.reason else ""
        at = format_time(control.override.at, now)
        return f"asked at {at} by {control.override.author}, over its YAML's {control.declared}{why}"
    by = f" by {control.requested_by}" if control.requested_by else ""
    # After a failure this is the reason of the last launch, which is listed as an incident.
    reason = f": {control.reason}" if control.reason and not control.is_reason_of_failure else ""
    return f"asked at {format_time(control.requested_at, now)}{by}{reason}"


def _facts(read: Documents, now: datetime) -> tuple[tuple[str, str], ...]:
    status: Status | None = read.seen.status if read.seen else None
    if status is None:
        return ()
    took_ms = status.batch_duration_ms
    facts = [
        ("batch", "–" if status.batch_id is None else str(status.batch_id)),
        ("committed", format_ago(status.last_batch_at, now)),
        ("took", NOTHING if took_ms is None else format_duration(took_ms / 1000)),
        ("driver since", format_time(status.started_at, now)),
        ("delivered", _number(status.delivered)),
        *((name.replace("_", " "), _number(getattr(status, name))) for name in _COUNTERS),
        ("state rows", _number(status.state_rows)),
        *_state_facts(status),
        ("release", _release(read)),
    ]
    return tuple((name, value) for name, value in facts if value != NOTHING)


def _state_facts(status: Status) -> list[tuple[str, str]]:
    """Return the size of the state: its keys, and how evenly it lies."""
    largest, imbalance = status.largest_key_bytes, status.partition_imbalance
    return [
        ("keys", _number(status.state_keys)),
        ("bytes per key", format_bytes(status.bytes_per_key)),
        ("largest key", format_bytes(largest or None)),
        ("key growth", _times(status.key_growth)),
        ("state growth", _times(status.state_growth)),
        ("largest partition", _times(imbalance, " the median")),
    ]


def _times(factor: float | None, of: str = "") -> str:
    return NOTHING if factor is None else f"{factor:.1f} ×{of}"


def _operators(status: Status | None) -> tuple[tuple[str, ...], ...]:
    """Return a row for each stateful operator, in the order of `OPERATOR_COLUMNS`."""
    return tuple(
        (
            one.name,
            *map(_number, (one.rows, one.updated, one.removed)),
            format_bytes(one.memory_bytes),
            format_bytes(one.file_bytes),
            _hits(one),
            NOTHING if one.commit_ms is None else format_duration(one.commit_ms / 1000),
        )
        for one in (status and status.operators) or ()
    )


def _hits(operator: OperatorState) -> str:
    """Return the share of blocks that were in RocksDB's cache."""
    hits, misses = operator.cache_hits, operator.cache_misses
    if hits is None or misses is None or not hits + misses:
        return NOTHING
    return format_percent(100 * hits / (hits + misses))


def _release(read: Documents) -> str:
    control = read.seen.control if read.seen else None
    if control is None or not control.release:
        return NOTHING
    deployed = f"; upgrade available ({', '.join(read.upgrade)})" if read.upgrade else ""
    return f"{control.release}{deployed}"


def _number(value: int | None) -> str:
    return NOTHING if value is None else f"{value:,}"


def _known(read: Documents, latest: Sample | None) -> tuple[Sample, ...]:
    """Return the history, followed by the current sample."""
    if latest is None or (read.samples and latest.at <= read.samples[-1].at):
        return read.samples
    return (*read.samples, latest)


def _charts(
    samples: Sequence[Sample],
    happened: Sequence[Incident],
    begin: datetime,
    now: datetime,
    max_lag: float | None,
) -> tuple[Chart, ...]:
    """Draw lag, throughput, watermark delay, state size and keys, with marks for incidents."""
    marks = tuple(
        Mark(
            across(one.at, begin, now),
            one.is_failure,
            f"{one.kind} at {format_time(one.at, now)}",
        )
        for one in happened
        if begin <= one.at <= now
    )

    def chart(
        name: str, unit: str, series: Series, form: Callable[[float | None], str], limit: float | None = None
    ) -> Chart:
        return chart_of(series, begin, now, name=name, unit=unit, form=form, limit=limit, marks=marks)

    return (
        chart("Lag", "records", history.lag(samples), format_count, max_lag),
        chart("Throughput", "records a second", history.throughput(samples), format_rate),
        chart("Watermark delay", "", history.watermark_delay(samples), format_duration),
        chart("State size", "in memory", history.state_bytes(samples), format_bytes),
        chart("Live keys", "", history.state_keys(samples), format_count),
    )
