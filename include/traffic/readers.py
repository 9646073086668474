"""The streams that read the topics of traffic, and how far they have got."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from include.durations import format_duration
from include.platform.report import StreamReport, stream_reports
from include.settings import Settings
from include.spec import StreamSpec, load_specs
from include.traffic.generate import NEEDED_LATENESS

_ALIVE = ("starting", "running", "waiting")
_POLL_S = 0.5

# They work by the clock on the wall: nothing is late to them.
WITHOUT_WATERMARK = frozenset({"action_counts"})


class NoReaderError(RuntimeError):
    """Late events were asked for, and no stream is there to which they could be late."""


class WatermarkError(RuntimeError):
    """A stream did not get beyond the last event in time."""


def readers_of(settings: Settings, topics: Sequence[str]) -> list[StreamSpec]:
    """Return the streams that read one of these topics."""
    specs, _ = load_specs(settings.streams)
    return [spec for spec in specs if spec.source.topic in topics]


def problem_of(spec: StreamSpec) -> str | None:
    """Say why a stream's output cannot be known in advance, or None when it can."""
    lateness = spec.event_time.allowed_lateness
    if lateness >= NEEDED_LATENESS:
        return None
    return (
        f"stream {spec.stream}: expected event_time.allowed_lateness of at least"
        f" {format_duration(NEEDED_LATENESS)}, found {format_duration(lateness)}: some events would be late"
    )


def waiting_for(
    specs: Sequence[StreamSpec], reports: Sequence[StreamReport], last_event: Mapping[str, datetime]
) -> list[str]:
    """Return of each running stream whose watermark is not beyond the last event what it is at.

    Args:
        specs: The streams.
        reports: What their status files say.
        last_event: By topic the largest event time.

    Raises:
        NoReaderError: None of the streams runs.
    """
    by_name = {report.stream: report for report in reports}
    running = [
        spec
        for spec in specs
        if by_name[spec.stream].state in _ALIVE and spec.stream not in WITHOUT_WATERMARK
    ]
    if not running:
        names = ", ".join(spec.stream for spec in specs) or "none"
        raise NoReaderError(
            f"--late: expected a running stream that reads {', '.join(last_event)}, found none of {names}: "
            "trigger its DAG with the action `run`, or leave --late out"
        )
    behind = []
    for spec in running:
        watermark = by_name[spec.stream].watermark
        last = last_event[spec.source.topic]
        if watermark is None or datetime.fromisoformat(watermark) <= last:
            behind.append(
                f"{spec.stream} at {watermark or 'no watermark yet'} (last event {last.isoformat()})"
            )
    return behind


def wait_until_passed(
    settings: Settings,
    last_event: Mapping[str, datetime],
    deadline: timedelta,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> None:
    """Wait until the watermark of every running stream is beyond the last event of its topic.

    Args:
        settings: The installation.
        last_event: By topic the largest event time.
        deadline: How long to wait.
        clock: Counts in seconds.
        sleep: Waits for seconds.

    Raises:
        NoReaderError: No stream that reads these topics runs.
        WatermarkError: The deadline has passed.
    """
    specs = readers_of(settings, list(last_event))
    until = clock() + deadline.total_seconds()
    while behind := waiting_for(specs, stream_reports(settings, datetime.now(UTC)), last_event):
        if clock() >= until:
            raise WatermarkError(
                "--late: expected every running stream beyond the last event within"
                f" {format_duration(deadline)}, found {'; '.join(behind)}: "
                "see `stateward status`; all but the late events were sent"
            )
        sleep(_POLL_S)
